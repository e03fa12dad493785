"""A workload: the jobs of a trace in memory, as columns, each job with its tasks.

Job → task → instances. A task asks for a number of instances, each with the same request (a
vector over the workload's resources). A *gang* starts all its instances together or none (a rigid
HPC job); the instances of a *bag* start one by one as they fit. Objects are made when a job
arrives, so a long trace costs its columns and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit import shown
from simkit.arrays import Bools, Floats, Ints, wrong_shapes
from simkit.dates import date_text, is_dated
from simkit.errors import TraceError
from simkit.records import JOBS, JOBS_FURTHER, JOBS_WITH_VALUE, TASKS
from simkit.text import counted, printable
from simkit.units import LATEST_S, LONGEST_S, format_duration, request_on_grid, time_on_grid
from simkit.workload.dependencies import (
    Links,
    critical_path_s,
    find_cycles,
    link_problems,
    slices,
    taken_links,
)

if TYPE_CHECKING:
    import polars as pl


COLUMNS: Final = frozenset({*JOBS, *JOBS_FURTHER, *TASKS})
"""Columns of a run's jobs and tasks: no resource has such a name, as it is a column itself."""


def taken_names(resources: Iterable[str]) -> list[str]:
    """Return what is wrong with names of resources, a line each."""
    return [
        f"the resource {name!r} has the name of a column of the results; name it otherwise, such "
        f"as {name}_units"
        for name in resources
        if name in COLUMNS
    ]


_SHOWN: Final = 20
"""How many jobs an error names."""
JOB_COLUMNS = ("user", "group", "executable", "queue", "partition")
"""Numbers that a log gives a job; -1 where it gives none."""


OF_JOBS: Final = tuple(JOBS_WITH_VALUE)
"""Columns of a job's worth, one number per job; each is optional."""
_PER: Final = (
    dict.fromkeys(("job_id", "submit_time_s", *JOB_COLUMNS, *OF_JOBS, "release_time_s"), "job")
    | dict.fromkeys(
        ("task_id", "instances", "request", "run_time_s", "requested_time_s", "gang"), "task"
    )
    | dict.fromkeys(("request_as_read", "value_per_s", "retries", "whole_memory"), "task")
    | dict.fromkeys(("limit_of_partition", "recorded_start_s"), "task")
    | dict.fromkeys(("instance_run_time_s", "instance_recorded_start_s"), "instance")
)
"""Column → what it has a number for; those that the trace does not have are empty."""
_MOVE_ALONG: Final = ("deadline_s", "release_time_s")
"""Times of a job that stay as long after its submission when this is moved."""


_EPOCHS_FROM_S = 1e9
"""Times from here on look like Unix times, of 2001 and later."""


@dataclass(frozen=True)
class Workload:
    """Jobs sorted by (submit time, job id), and their tasks, as columns.

    J jobs, T tasks, R resources. Job j owns the tasks ``first_task[j]:first_task[j + 1]``. The row
    number of a job is its rank in order of submission and settles every tie.
    """

    resources: tuple[str, ...]
    """Names of the resources, e.g. ``("processors",)`` or ``("cpu", "mem")``."""
    job_id: npt.NDArray[Any]
    """(J,) the trace's own ids: int64, or str objects."""
    submit_time_s: Floats
    """(J,) seconds since the trace's zero, ascending."""
    first_task: Ints
    """(J + 1,) offsets into the task columns."""
    task_id: npt.NDArray[Any]
    """(T,) the trace's own ids: int64, or str objects."""
    instances: Ints
    """(T,) number of instances, at least 1."""
    request: Floats
    """(T, R) what one instance asks of each resource, at least 0."""
    run_time_s: Floats
    """(T,) true run time of every instance, at least 0; policies cannot see it."""
    requested_time_s: Floats
    """(T,) the run time that the user requested; NaN where the trace has none, infinite where the
    job had no limit."""
    gang: Bools
    """(T,) True: all instances start together; False: a bag."""
    user: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """(J,) user number, -1 unknown; the four fields below have the same form."""
    group: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    executable: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    queue: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    partition: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    first_parent: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """(T + 1,) offsets into `parent`; left out where no task depends on another."""
    parent: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Rows of tasks, of the same job, that must have ended before a task may start."""
    instance_run_time_s: Floats = field(default_factory=lambda: np.empty(0))
    """(sum of instances,) true run time of every instance, task by task; left out where each
    instance takes its task's `run_time_s`, which otherwise is their mean."""
    request_as_read: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(T, R) `request` before it was rounded down to its grid; left out where that changed none."""
    qos: Floats = field(default_factory=lambda: np.empty(0))
    """(J,) quality of service that a job's user asks for, in (0, 1]; left out where the trace has
    none, and so are the next three. `simkit.scenario.value` makes them."""
    value: Floats = field(default_factory=lambda: np.empty(0))
    """(J,) what a job is worth if it finishes, at least 0; policies see what their estimates
    make of it."""
    value_per_s: Floats = field(default_factory=lambda: np.empty(0))
    """(T,) worth of a second of a task's run time, all instances together; left out where worths
    do not depend on run times."""
    retries: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """(T,) how often a task may start over after its work was lost, before it is killed; -1: as
    often as the scenario's `limits` let it. Left out where the trace has none."""
    whole_memory: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    """(T,) True where an instance takes all memory (``mem``) of its machine, however much that is;
    `request` has 0 there until `simkit.workload.cluster` knows the machines. Left out where
    all amounts are known."""
    limit_of_partition: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    """(T,) whether a task's time limit is that of the partition to which its job goes, so that it
    is known only with the cluster; left out where no task's is."""
    deadline_s: Floats = field(default_factory=lambda: np.empty(0))
    """(J,) when a job should have ended, on the trace's clock; infinite: whenever."""
    release_time_s: Floats = field(default_factory=lambda: np.empty(0))
    """(J,) from when on a job may run, on the trace's clock; at or before its submission it says
    nothing. Left out where no job is held back by one."""
    recorded_start_s: Floats = field(default_factory=lambda: np.empty(0))
    """(T,) when each task started as the log records it, on the trace's clock; NaN where the log
    does not tell. Only a policy that replays them is given these; left out unless one does."""
    instance_recorded_start_s: Floats = field(default_factory=lambda: np.empty(0))
    """(sum of instances,) as `recorded_start_s`, for logs that tell of every instance of a bag."""
    first_predecessor: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """(J + 1,) offsets into `predecessor`; left out where no job waits for another."""
    predecessor: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Rows of the jobs that must have ended, in whatever way, before a job may run."""
    think_time_s: Floats = field(default_factory=lambda: np.empty(0))
    """Seconds that must have passed since the end of each in `predecessor`; left out: none."""
    preceding_left_out: int = 0
    """How many preceding jobs of these jobs were left out by `take`: they count as ended."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names behind a job column's numbers, where the trace has names: ``labels["user"][3]``."""
    header_names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """What the trace's header calls numbers of queues and partitions, which stay numbers in
    results: ``header_names["queue"][1]``."""
    epoch_s: float = float("nan")
    """Unix time of the trace's zero; NaN if unknown."""
    time_zone: str | None = None
    """IANA name of the site's time zone, where the trace tells."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """What the trace's header says of the machine, e.g. ``{"processors": 128}``."""

    def __post_init__(self) -> None:
        """Fill absent columns with -1, put times and amounts on their grids, check everything.

        Raises TraceError for columns of unequal length, unsorted or non-finite submit times,
        negative run times, tasks without instances, negative requests, and worths out of range.
        """
        jobs = len(self.job_id)
        for name in JOB_COLUMNS:
            if len(getattr(self, name)) == 0 and jobs:
                object.__setattr__(self, name, np.broadcast_to(np.int64(-1), (jobs,)))
        if len(self.first_parent) == 1 and not len(self.parent):
            none = np.broadcast_to(np.int64(0), (len(self.task_id) + 1,))
            object.__setattr__(self, "first_parent", none)
        for name in (
            "submit_time_s", "run_time_s", "requested_time_s", "instance_run_time_s", "deadline_s",
            "release_time_s", "think_time_s", "recorded_start_s", "instance_recorded_start_s",
        ):  # fmt: skip
            object.__setattr__(self, name, time_on_grid(getattr(self, name)))
        self._leave_out_what_holds_nothing()
        self._put_requests_on_grid()
        for problem in self._problems():
            raise TraceError(f"workload: {problem}")

    def _leave_out_what_holds_nothing(self) -> None:
        """Drop release times that hold no job back, and the columns of links if there is none."""
        none: Any = np.empty(0, np.int64)
        release, submit = self.release_time_s, self.submit_time_s
        if release.shape == submit.shape and (release <= submit).all():
            object.__setattr__(self, "release_time_s", np.empty(0))
        if not len(self.predecessor):
            object.__setattr__(self, "first_predecessor", none)
            object.__setattr__(self, "think_time_s", np.empty(0))
        elif not len(self.think_time_s):
            object.__setattr__(self, "think_time_s", np.zeros(len(self.predecessor)))

    def _put_requests_on_grid(self) -> None:
        """Round requests; keep what was read if that differs, unless it is already there."""
        given = np.asarray(self.request, dtype=np.float64)
        rounded, read = _amounts(given), self.request_as_read
        if not len(read) or not np.array_equal(_amounts(read), rounded):
            read = given if not np.array_equal(given, rounded) else np.empty((0, 0))
        object.__setattr__(self, "request", rounded)
        object.__setattr__(self, "request_as_read", read)

    def _problems(self) -> list[str]:
        jobs, tasks, width = len(self.job_id), len(self.task_id), len(self.resources)
        sizes = {"job": jobs, "task": tasks}
        shapes: dict[str, tuple[int, ...]] = {
            name: (sizes[per],)
            for name, per in _PER.items()
            if per in sizes and (name not in _LEFT_OUT or len(getattr(self, name)))
        }
        shapes |= {"request": (tasks, width), "request_as_read": self.request_as_read.shape}
        shapes |= {"first_task": (jobs + 1,), "first_parent": (tasks + 1,)}
        if wrong := wrong_shapes(self, shapes):
            return wrong
        rules = {
            "resources must be distinct names": len(set(self.resources)) == width > 0,
            "first_task must rise from 0 to the number of tasks": bool(
                self.first_task[0] == 0
                and self.first_task[-1] == tasks
                and (np.diff(self.first_task) >= 1).all()
            ),
            "submit times must be finite": bool(np.isfinite(self.submit_time_s).all()),
            f"epoch_s is {self.epoch_s:.15g}, no Unix time in s of the years 1900 to 2199; "
            "NaN stands for an unknown date": bool(np.isnan(self.epoch_s))
            or is_dated(self.epoch_s),
            "jobs must be sorted by submit time": bool((np.diff(self.submit_time_s) >= 0).all()),
            "run times must be finite and at least 0": bool(
                (np.isfinite(self.run_time_s) & (self.run_time_s >= 0)).all()
            ),
            "run times must be at most 2**32 s": bool((self.run_time_s <= LONGEST_S).all()),
            "requested times must be at least 0, or NaN where unknown": not bool(
                (self.requested_time_s < 0).any()
            ),
            "every task needs at least one instance": bool((self.instances >= 1).all()),
            "requests must be finite and at least 0": bool(
                (np.isfinite(self.request) & (self.request >= 0)).all()
            ),
            "instance run times must be one for each instance, finite and at least 0": bool(
                len(self.instance_run_time_s) in (0, self.instances.sum())
                and np.isfinite(self.instance_run_time_s).all()
                and (self.instance_run_time_s >= 0).all()
            ),
            **_value_rules(self),
        }
        problems = [rule for rule, kept in rules.items() if not kept]
        problems += self._clock_problems()
        problems += taken_names(self.resources) + self._dependency_problems()
        if len(self.predecessor):
            problems += link_problems(
                self.job_id, self.first_predecessor, self.predecessor, self.think_time_s
            )
        return problems

    def _clock_problems(self) -> list[str]:
        """Return why the times of the jobs are not exact on the clock, and what to do."""
        if not len(self) or not np.isfinite(self.submit_time_s).all():
            return []
        first, last = float(self.submit_time_s.min()), float(self.submit_time_s.max())
        ends = np.repeat(self.submit_time_s, np.diff(self.first_task)) + self.run_time_s
        if first >= -LONGEST_S and last <= LATEST_S and not (ends > LATEST_S).any():
            return []
        if first >= _EPOCHS_FROM_S and last - first <= LONGEST_S:
            remedy = "they look like Unix times: subtract that of the first, and give it as epoch_s"
        else:
            remedy = "take fewer jobs, or compress the arrivals (offered_load, or load of a log)"
        return [
            f"jobs are submitted from {first:.10g} to {last:.10g} s and the last ends at "
            f"{float(ends.max(initial=last)):.10g} s or later; times are exact from -2**32 s to "
            f"2**33 s (272 years) after the trace's zero: {remedy}"
        ]

    def _dependency_problems(self) -> list[str]:
        """Return what is wrong with the parents of tasks."""
        if not len(self.parent):
            return []
        if not (
            self.first_parent[0] == 0
            and self.first_parent[-1] == len(self.parent)
            and (np.diff(self.first_parent) >= 0).all()
        ):
            return ["first_parent must rise from 0 to the number of parents"]
        job = np.repeat(np.arange(len(self)), np.diff(self.first_task))
        child = np.repeat(np.arange(self.tasks), np.diff(self.first_parent))
        inside = (self.parent >= 0) & (self.parent < self.tasks)
        own = inside.copy()
        own[inside] = job[self.parent[inside]] == job[child[inside]]
        if not own.all():
            at = int(np.flatnonzero(~own)[0])
            return [
                f"task {self.task_id[child[at]]} of job {self.job_id[job[child[at]]]} has the "
                f"parent row {self.parent[at]}; a task's parents must be tasks of the same job: "
                f"correct `parent`, or leave out the jobs of such tasks ({(~own).sum()} in all)"
            ]
        cycles = find_cycles(self.first_parent, self.parent, job)
        named = [
            f"job {self.job_id[job[cycle[0]]]} wait for each other: "
            + " -> ".join(str(self.task_id[row]) for row in (*cycle, cycle[0]))
            for cycle in cycles[:_SHOWN]
        ]
        if more := len(cycles) - len(named):
            named.append(f"{more:,} more jobs do so, too")
        return (
            [
                f"tasks of {'; of '.join(named)}; take one of these dependencies out, or leave "
                f"{'these jobs' if len(cycles) > 1 else 'this job'} out"
            ]
            if named
            else []
        )

    @classmethod
    def trusted(cls, **columns: Any) -> Workload:
        """Return a workload without checking it: for models that draw many small ones.

        Args:
            columns: the fields, which keep every rule, with times and amounts on their grids; those
                in `JOB_COLUMNS` may be left out, and what a plain log leaves out.
        """
        workload = object.__new__(cls)
        jobs, tasks = len(columns["job_id"]), len(columns["task_id"])
        unknown, none = np.full(jobs, -1), np.zeros(tasks + 1, np.int64)
        defaults: dict[str, Any] = dict.fromkeys(JOB_COLUMNS, unknown) | {"first_parent": none}
        workload.__dict__.update({**_LEFT_OUT, **defaults, **columns})
        return workload

    def __repr__(self) -> str:
        return printable(f"<workload of {', '.join(self._facts())}>")

    def _repr_html_(self) -> str:
        return shown.heading("Workload", *self._facts())

    def _facts(self) -> list[str]:
        """Return jobs, tasks, span, begin, users and resources as short texts."""
        facts = [counted(len(self), "job")]
        if self.tasks != len(self):
            facts.append(counted(self.tasks, "task"))
        if len(self):
            facts.append(f"over {format_duration(float(np.ptp(self.submit_time_s)))}")
            if is_dated(self.epoch_s):
                begin = self.epoch_s + float(self.submit_time_s[0])
                facts.append(f"from {date_text(begin, '%Y-%m-%d')}")
            if users := len(np.unique(self.user[self.user >= 0])):
                facts.append(counted(users, "user"))
        return [*facts, f"asking for {', '.join(self.resources)}"]

    def __len__(self) -> int:
        return len(self.job_id)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.task_id)

    @property
    def has_releases(self) -> bool:
        """Whether a job may have to wait for its release: for a time, or for preceding jobs."""
        return bool(len(self.release_time_s) or len(self.predecessor))

    @classmethod
    def from_jobs(
        cls,
        jobs: pl.DataFrame | Mapping[str, npt.ArrayLike],
        *,
        resource: str = "processors",
        request: Sequence[str] = (),
        **facts: Any,
    ) -> Workload:
        """Make a workload of rigid jobs, one task each, sorted by (submit time, job id).

        Args:
            jobs: columns ``job_id``, ``submit_time_s``, ``run_time_s`` and the name in
                `resource` (whole processors); optionally ``requested_time_s``, ``retries``,
                ``qos``, ``value``, ``deadline_s``, ``release_time_s`` (NaN: from its submission
                on), ``preceding_job`` (id of a job that must have ended; -1, null or NaN: none),
                ``think_time_s`` (seconds since its end) and the numbers in `JOB_COLUMNS`.
            resource: the one resource's name; a job has an instance for each of its units.
            request: instead of `resource`, columns of what an instance asks for; a job has as
                many instances as the column ``instances`` says, or one.
            facts: further fields of the workload: ``epoch_s``, ``time_zone``, ``capacity``, ….

        Raises TraceError if a column is missing or breaks a rule.
        """
        names = list(jobs.columns if hasattr(jobs, "columns") else jobs)
        resources = tuple(request) or (resource,)
        needed = ("job_id", "submit_time_s", "run_time_s", *resources)
        if missing := [name for name in needed if name not in names]:
            raise TraceError(f"workload: no column {', '.join(missing)}; there are {names}")
        columns = {name: np.asarray(jobs[name]) for name in names}
        submit = columns["submit_time_s"].astype(np.float64, copy=False)
        order: Any = np.lexsort((columns["job_id"], submit))
        if (np.diff(order) == 1).all():
            order = slice(None)  # sorted already: views, not copies
        size = len(submit)
        unknown = np.broadcast_to(np.nan, (size,))
        numbers: dict[str, Any] = {
            name: columns[name][order].astype(np.int64)
            for name in (*JOB_COLUMNS, "retries")
            if name in columns
        }
        numbers |= {
            name: columns[name][order].astype(np.float64) for name in OF_JOBS if name in columns
        }
        if "release_time_s" in columns:
            release = columns["release_time_s"][order].astype(np.float64)
            facts["release_time_s"] = np.where(np.isnan(release), submit[order], release)
        if "preceding_job" in columns:
            think = columns.get("think_time_s", np.zeros(size))[order].astype(np.float64)
            ids = columns["job_id"][order], columns["preceding_job"][order]
            facts |= _links_by_id(*ids, think).columns(size)
        if request:
            instances = columns.get("instances", np.ones(size))[order]
            amounts = np.column_stack([columns[name][order] for name in request])
        else:
            instances, amounts = columns[resource][order], np.broadcast_to(1.0, (size, 1))
        return cls(
            resources=resources,
            job_id=columns["job_id"][order],
            submit_time_s=submit[order],
            first_task=np.arange(size + 1),
            task_id=np.broadcast_to(np.int64(0), (size,)),
            instances=instances.astype(np.int64),
            request=amounts,
            run_time_s=columns["run_time_s"][order],  # times are copied when put on their grid
            requested_time_s=columns.get("requested_time_s", unknown)[order],
            gang=np.broadcast_to(np.True_, (size,)),
            **numbers,
            **facts,
        )

    def with_columns(self, **columns: Any) -> Workload:
        """Return a copy with some fields replaced; it is checked again.

        Deadlines and release times move along with the submit times.
        """
        own = {name: getattr(self, name) for name in _MOVE_ALONG}
        return replace(self, **(columns | _moved_times(own, self.submit_time_s, columns)))

    def take(self, rows: Ints, copy: Ints | None = None, **changes: Any) -> Workload:
        """Return the workload of the given jobs, with all their tasks.

        Args:
            rows: row numbers in the order wanted: ascending, unless `changes` holds submit times
                that make another order, or repeated rows, right.
            copy: (n,) for repeated rows: which copy of the workload each job belongs to. A job
                waits for the predecessors of its copy; None: the n-th of equal rows, for the n-th.
            changes: fields to replace at the same time, as `with_columns` does; deadlines and
                release times move along with the submit times.

        Predecessors that are not among the rows count as ended.
        """
        first, tasks = slices(self.first_task, rows)
        wanted = {"job": rows, "task": tasks, "instance": rows[:0]}
        if len(self.instance_run_time_s) or len(self.instance_recorded_start_s):
            begun = np.concatenate(([0], np.cumsum(self.instances)))
            wanted["instance"] = slices(begun, tasks)[1]
        columns: dict[str, Any] = {
            name: column[wanted[per]]
            for name, per in _PER.items()
            if len(column := getattr(self, name))
        }
        columns |= self._parents_of(tasks, np.repeat(first[:-1], np.diff(first)))
        if len(self.predecessor):
            none = {"first_predecessor": rows[:0], "predecessor": rows[:0]}
            links = (self.first_predecessor, self.predecessor, self.think_time_s)
            columns |= none | taken_links(*links, rows, copy)
            before = int(np.diff(self.first_predecessor)[rows].sum())
            columns["preceding_left_out"] = (
                self.preceding_left_out + before - len(columns["predecessor"])
            )
        moving = {name: columns.get(name, rows[:0]) for name in _MOVE_ALONG}
        columns |= _moved_times(moving, self.submit_time_s[rows], changes)
        return replace(self, **(columns | {"first_task": first} | changes))

    def _parents_of(self, tasks: Ints, job_begins: Ints) -> dict[str, Ints]:
        """Return the dependency columns of whole jobs' tasks, at new rows.

        `tasks` are old rows in their new order; `job_begins` is the new row of the first task of
        the job that each belongs to.
        """
        if not len(self.parent):
            return {"first_parent": np.zeros(1, np.int64)}
        first, positions = slices(self.first_parent, tasks)
        # A job's tasks stay together and in order: all its rows move by the same distance.
        moved = np.repeat(job_begins - tasks[job_begins], np.diff(first))
        return {"first_parent": first, "parent": self.parent[positions] + moved}

    def label_of(self, column: str, number: int) -> int | str:
        """Return the trace's name for the number of a user, queue, …; the number if none."""
        names = self.labels.get(column, ())
        return names[number] if 0 <= number < len(names) else number

    def longest_run_time_s(self) -> Floats:
        """Return (T,): the run time of each task's longest instance; a gang takes as long."""
        if not len(self.instance_run_time_s):
            return self.run_time_s
        begun = np.concatenate(([0], np.cumsum(self.instances)[:-1]))
        longest: Floats = np.maximum.reduceat(self.instance_run_time_s, begun)
        return longest

    def ideal_time_s(self) -> Floats:
        """Return (J,): the critical path of each job through the longest instances of its tasks."""
        longest = self.longest_run_time_s()
        return critical_path_s(self.first_task, self.first_parent, self.parent, longest)

    def held_time_s(self) -> Floats:
        """Return (T,): how long an instance holds its request, on average over the task's.

        A gang holds all it has until its longest instance ends; those of a bag end one by one.
        """
        if not len(self.instance_run_time_s):
            return self.run_time_s
        return np.where(self.gang, self.longest_run_time_s(), self.run_time_s)

    def job_request(self) -> Floats:
        """Return (J, R): what each job asks for at once, summed over its tasks' instances."""
        demand = self.request * self.instances[:, None]
        if len(demand) == len(self):
            return demand
        return np.add.reduceat(demand, self.first_task[:-1], axis=0)


_LEFT_OUT: Mapping[str, Any] = {
    one.name: one.default_factory()
    for one in fields(Workload)
    if one.default_factory is not MISSING
}
"""Field → what stands in it where there is none; plain defaults stand in the class."""


class Span(NamedTuple):
    """The part of a run in which its jobs run, in s on its clock."""

    first_s: float
    last_s: float

    @classmethod
    def of(cls, workload: Workload) -> Span:
        """Return the run's start and the earliest time at which its last job can end."""
        if not len(workload):
            return cls(0.0, 0.0)
        submitted = np.repeat(workload.submit_time_s, np.diff(workload.first_task))
        last = float((submitted + workload.run_time_s).max())
        return cls(min(0.0, float(workload.submit_time_s[0])), last)


def _amounts(array: Floats) -> Floats:
    """Put requests on their grid, leaving a broadcast column (one row repeated) as it is."""
    if array.ndim == 2 and array.strides[0] == 0 and len(array):
        return np.broadcast_to(request_on_grid(array[0]), array.shape)
    return request_on_grid(array)


def _value_rules(workload: Workload) -> dict[str, bool]:
    """Return rule in words → whether the columns keep it."""
    qos, due = workload.qos, workload.deadline_s
    worths = np.concatenate((workload.value, workload.value_per_s))
    return {
        "qos must be above 0 and at most 1": bool(((qos > 0) & (qos <= 1)).all()),
        "values must be finite and at least 0": bool((np.isfinite(worths) & (worths >= 0)).all()),
        "value_per_s needs the column value": bool(
            len(workload.value) or not len(workload.value_per_s)
        ),
        "deadlines must be times, or infinite where there is none": bool((due > -np.inf).all()),
        "release times must be finite, and lie from -2**32 to 2**33 s after the trace's zero": bool(
            ((workload.release_time_s >= -LONGEST_S) & (workload.release_time_s <= LATEST_S)).all()
        ),
        "retries must be at least 0, or -1 where there are none": bool(
            (workload.retries >= -1).all()
        ),
        "recorded starts must be times, or NaN where they are unknown": not (
            np.isinf(workload.recorded_start_s).any()
            or np.isinf(workload.instance_recorded_start_s).any()
        ),
        "instance_recorded_start_s must have one for each instance": bool(
            len(workload.instance_recorded_start_s) in (0, workload.instances.sum())
        ),
        "whole_memory needs the resource mem": not len(workload.whole_memory)
        or "mem" in workload.resources,
    }


def _links_by_id(
    job_id: npt.NDArray[Any], preceding: npt.NDArray[Any], think_time_s: Floats
) -> Links:
    """Return each job's link to the one with an id; raise TraceError if there is no such job."""
    named = [one is not None and one == one and one not in (-1, "") for one in preceding.tolist()]
    rows = np.flatnonzero(named)
    try:
        wanted = preceding[rows].astype(job_id.dtype)
    except (TypeError, ValueError) as error:
        raise TraceError(
            f"workload: preceding_job holds what is no id of a job ({error}); give ids of the type "
            "of job_id, and -1 for none"
        ) from None
    think = np.where(np.isnan(think_time_s), 0.0, think_time_s)[rows]
    links = Links.by_id(job_id, rows, wanted, think)
    for link in np.flatnonzero(links.predecessor < 0).tolist():
        raise TraceError(
            f"workload: job {job_id[rows[link]]} waits for job {wanted[link]}, which does not "
            "exist; take the dependency out, or add the job"
        )
    return links


def _moved_times(
    times: Mapping[str, Floats], submit_time_s: Floats, changes: Mapping[str, Any]
) -> dict[str, Floats]:
    """Return the times of jobs that are submitted at other times: as long after as before.

    Args:
        times: by name, (J,) or empty.
        submit_time_s: (J,) the times before.
        changes: fields that a copy replaces; times among them stay as they are.
    """
    moved = {name: own for name, own in times.items() if len(own) and name not in changes}
    if "submit_time_s" not in changes or not moved:
        return {}
    later = np.asarray(changes["submit_time_s"]) - submit_time_s
    return {name: own + later for name, own in moved.items()}
