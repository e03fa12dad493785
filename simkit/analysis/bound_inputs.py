"""The inputs of a bound on value: jobs as columns, and capacity over time."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np

from simkit.arrays import Bools, Floats
from simkit.errors import RunError, ScenarioError
from simkit.results.run_folder import Run
from simkit.workload import Workload

_LONG_AGO = -(2.0**40)


@dataclass(frozen=True)
class BoundJobs:
    """J jobs, or parts of jobs, with their true run times."""

    submit_time_s: Floats
    """(J,) seconds on the trace's clock."""
    run_time_s: Floats
    """(J,) in s."""
    demand: Floats
    """(J, R) what a job holds of each resource while it runs."""
    value: Floats
    """(J,) its value if it finishes."""
    deadline_s: Floats = field(default_factory=lambda: np.empty(0))
    """(J,) when it must have ended to earn its value; default: any time."""

    def __post_init__(self) -> None:
        """Raise ScenarioError with everything that is wrong."""
        jobs = len(self.submit_time_s)
        if not len(self.deadline_s):
            object.__setattr__(self, "deadline_s", np.full(jobs, np.inf))
        problems = [
            f"{name} has {len(getattr(self, name))} rows, submit_time_s has {jobs}"
            for name in ("run_time_s", "demand", "value", "deadline_s")
            if len(getattr(self, name)) != jobs
        ]
        if self.demand.ndim != 2:
            problems.append(f"demand has {self.demand.ndim} dimensions; it is (jobs, resources)")
        for name in ("submit_time_s", "run_time_s", "demand", "value"):
            column = getattr(self, name)
            least = -np.inf if name == "submit_time_s" else 0.0
            if not (np.isfinite(column) & (column >= least)).all():
                problems.append(f"{name} must be finite{'' if least else ' and at least 0'}")
        if np.isnan(self.deadline_s).any():
            problems.append("deadline_s must be a time, or infinite for none")
        if problems:
            raise ScenarioError(f"value bound: jobs: {problem}" for problem in problems)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_time_s)

    def take(self, chosen: Bools) -> BoundJobs:
        """Return the jobs chosen by (J,)."""
        return BoundJobs(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def can_finish(self, start: float, end: float) -> Bools:
        """Return (J,): which jobs can end in a window and by their deadline."""
        earliest_end = np.maximum(self.submit_time_s, start) + self.run_time_s
        able: Bools = earliest_end <= np.minimum(self.deadline_s, end)
        return able

    @classmethod
    def of_workload(
        cls, workload: Workload, in_time: Literal["qos", "deadline"] | None = None
    ) -> BoundJobs:
        """Return the tasks of a workload's jobs; a job's value is divided among its tasks.

        A task's part is its share of the job's work: a schedule that finishes the job finishes all
        its tasks and earns its whole value. Dependencies are left out, and the instances of a bag
        run together; neither makes the bound smaller.

        Raises ScenarioError if the jobs have no value, QoS or deadline that is needed.
        """
        problems = [
            f"the workload's jobs have no {name}; add a section value: to the scenario"
            for name in ("value", *((in_time,) if in_time == "qos" else ()))
            if not len(getattr(workload, name))
        ]
        if in_time == "deadline" and not len(workload.deadline_s):
            problems.append("the workload's jobs have no deadlines; add value.deadlines")
        if problems:
            raise ScenarioError(f"value bound: {problem}" for problem in problems)
        job = np.repeat(np.arange(len(workload)), np.diff(workload.first_task))
        demand = workload.request * workload.instances[:, None]
        work = demand.sum(axis=1) * workload.run_time_s
        total = np.bincount(job, work, len(workload))[job]
        alone = 1.0 / np.bincount(job, minlength=len(workload))[job]
        part = np.where(total > 0, work / np.where(total > 0, total, 1.0), alone)
        submit = workload.submit_time_s[job]
        latest = np.full(len(job), np.inf)
        if in_time == "qos":
            longest = np.zeros(len(workload))
            np.maximum.at(longest, job, workload.longest_run_time_s())
            latest = submit + (longest / workload.qos)[job]
        elif in_time == "deadline":
            latest = workload.deadline_s[job]
        return cls(submit, workload.run_time_s, demand, workload.value[job] * part, latest)

    @classmethod
    def of_run(cls, run: Run, in_time: Literal["qos", "deadline"] | None = None) -> BoundJobs:
        """Return the jobs of a run.

        Raises RunError if they have no value, QoS or deadline that is needed, or if a job has
        several tasks or a task whose instances start one by one.
        """
        jobs = run.jobs
        needed = {None: (), "qos": ("qos",), "deadline": ("deadline_s",)}[in_time]
        missing = [name for name in ("value", *needed) if name not in jobs.columns]
        if missing:
            raise RunError(
                f"{run.folder}: its jobs have no {', '.join(missing)}; "
                "run the scenario with a section value:"
            )
        if not (run.tasks["gang"] | (run.tasks["instances"] == 1)).all() or len(run.tasks) != len(
            run.tasks["job_id"].unique()
        ):
            raise RunError(
                f"{run.folder}: has jobs of several tasks or instances that start one by one; "
                "give their workload to simkit.analysis.value_bound.value_bound"
            )
        submit, length = (jobs[name].to_numpy() for name in ("submit_time_s", "trace_run_time_s"))
        latest = np.full(len(jobs), np.inf)
        if in_time == "qos":
            latest = submit + length / jobs["qos"].to_numpy()
        elif in_time == "deadline":
            latest = jobs["deadline_s"].fill_null(np.inf).to_numpy()
        return cls(
            submit, length, jobs.select(run.resources).to_numpy().astype(np.float64),
            jobs["value"].to_numpy(), latest,
        )  # fmt: skip


@dataclass(frozen=True)
class Capacity:
    """Capacity of R resources over time: each piece holds until the next one starts."""

    starts: Floats
    """(S,) in s, ascending; the last piece has no end."""
    amounts: Floats
    """(S, R) at least 0."""

    def __post_init__(self) -> None:
        """Raise ScenarioError unless there are pieces, in order of time, with amounts from 0 up."""
        problems = []
        if self.amounts.ndim != 2 or len(self.amounts) != len(self.starts) or not len(self.starts):
            problems.append(
                f"{len(self.starts)} starts and amounts of shape {self.amounts.shape}; "
                "amounts are (pieces, resources), with one piece at least"
            )
        if not (np.diff(self.starts) >= 0).all() or not np.isfinite(self.starts).all():
            problems.append("starts must be finite and ascend")
        if not (np.isfinite(self.amounts) & (self.amounts >= 0)).all():
            problems.append("amounts must be finite and at least 0")
        if problems:
            raise ScenarioError(f"value bound: capacity: {problem}" for problem in problems)

    @classmethod
    def constant(cls, *amounts: float) -> Capacity:
        """Return constant capacity: an amount for each resource."""
        return cls(np.array([_LONG_AGO]), np.array([amounts], dtype=np.float64))

    @classmethod
    def of_run(cls, run: Run) -> Capacity:
        """Return the capacity of a run's timeline; what drains counts until it is free."""
        line, names = run.timeline, run.resources
        first = [run.capacity[name] for name in names]
        held, there = (
            line.select(f"{what}_{name}" for name in names).to_numpy()
            for what in ("allocated", "capacity")
        )
        starts: Floats = np.append(_LONG_AGO, line["time_s"].to_numpy())
        return cls(starts, np.vstack((first, np.maximum(held, there))))

    def in_slots(self, edges: Floats) -> Floats:
        """Return (T, R): resource-seconds in each of the T slots between (T + 1,) edges."""
        inside = self.starts[(self.starts > edges[0]) & (self.starts < edges[-1])]
        cuts = np.union1d(edges, inside)
        piece = np.searchsorted(self.starts, cuts[:-1], side="right") - 1
        slot = np.searchsorted(edges, cuts[:-1], side="right") - 1
        room = np.zeros((len(edges) - 1, self.amounts.shape[1]))
        np.add.at(room, slot, self.amounts[piece] * np.diff(cuts)[:, None])
        return room
