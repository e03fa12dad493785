"""The auditor: checks a run against every rule, from its folder and its inputs alone.

It shares with simkit what data are (tables, keys of a scenario, columns of logs) and computes all
else again, so that a mistake in the engine is not repeated in the auditor. `CHECKS` lists the
rules. Each is a function from the run to a `Check`; all are made, and every row that breaks a rule
is reported under the rule's name.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.errors import RunError
from simkit.text import printable
from simkit.verify.admission import (
    check_admission,
    check_late_jobs,
    check_rejections,
    check_user_limits,
)
from simkit.verify.audit import Audit, Check, Violation
from simkit.verify.audited_run import TASK, AuditedRun, CapacityEvent, RecordedCapacity
from simkit.verify.capacity import (
    check_capacity,
    check_limits,
    check_machines,
    check_partitions,
)
from simkit.verify.estimates import check_estimates, check_value
from simkit.verify.folder import check_columns, check_digest
from simkit.verify.inputs import InputTasks, check_inputs
from simkit.verify.jobs import (
    check_causality,
    check_events,
    check_identity,
    check_row_order,
    check_statuses,
    check_times,
)
from simkit.verify.machines import check_failures, check_machine_capacity, check_maintenance
from simkit.verify.metrics import check_metrics
from simkit.verify.numbers import Floats, Ints
from simkit.verify.replay.recorded import check_recorded_starts
from simkit.verify.replay.schedule import check_fcfs_order, check_schedule
from simkit.verify.run_info import check_run_info, check_scenario, refuse_too_much
from simkit.verify.site.battery import check_battery, check_dispatch, check_reserve
from simkit.verify.site.ledger import (
    check_generation,
    check_grid,
    check_ledger,
    check_site_load,
    check_sources,
)
from simkit.verify.site.machine_power import check_bills, check_machine_power
from simkit.verify.site.signals import check_clocks
from simkit.verify.site.supply import check_supply
from simkit.verify.stops import check_outages, check_preemption, check_stops
from simkit.verify.tables import ROWS_AT_ONCE
from simkit.verify.tasks import (
    check_critical_paths,
    check_gangs,
    check_instance_times,
    check_instances,
    check_parents,
    check_run_time,
    check_tasks,
    check_walltime,
    known_parents,
)
from simkit.verify.timeline import check_decision_times, check_timeline
from simkit.verify.trace import check_releases, check_trace

__all__ = ["CHECKS", "Audit", "Check", "Violation", "verify_run"]

_OF_FILES: Final = (
    check_digest, check_columns, check_scenario, check_inputs, check_run_info, check_trace,
)  # fmt: skip
_OF_JOBS: Final = (
    check_tasks, check_identity, check_causality, check_releases, check_statuses, check_times,
    check_instances, check_gangs, check_run_time, check_instance_times, check_parents,
    check_critical_paths, check_value, check_walltime,
    check_estimates, check_machines, check_partitions, check_user_limits, check_rejections,
    check_admission, check_late_jobs, check_capacity, check_machine_capacity, check_supply,
    check_stops, check_preemption, check_failures, check_maintenance, check_outages,
    check_row_order, check_timeline, check_events, check_decision_times, check_schedule,
    check_fcfs_order, check_recorded_starts, check_limits, check_clocks,
    check_ledger, check_generation, check_grid, check_site_load, check_dispatch, check_sources,
    check_battery, check_reserve, check_machine_power, check_bills,
    check_metrics,
)  # fmt: skip
CHECKS: Final[tuple[Callable[[AuditedRun], Check], ...]] = (*_OF_FILES, *_OF_JOBS)
"""Every check, in the order in which they are made and reported."""

_JOB_TWICE: Final = ("repeated job id", "further attempt")
_TASK_TWICE: Final = ("repeated task id", "task id repeats within the job")
"""What readers call rows with the ids of another task, which they keep."""


def verify_run(
    folder: str | PathLike[str],
    *,
    allow_partial: bool = False,
    inputs: Iterable[str | PathLike[str]] = (),
) -> Audit:
    """Check a run against every rule.

    Args:
        folder: the run folder.
        allow_partial: accept an interrupted run; rules that need its end are left out.
        inputs: folders whose files may be read besides those in the run folder, in the working
            folder, in the data folder (``SIMKIT_DATA``) and in simkit itself.

    Returns the audit: for every check the number of rows examined and the rows that break its rule,
    or why it does not apply or was not audited.

    Raises RunError if the folder is not a run, is not complete, lacks a table or column, or has a
    scenario that derives more than is audited.
    """
    run = AuditedRun.read(Path(folder), allow_partial=allow_partial, inputs=inputs)
    refuse_too_much(run)
    if repeated := _repeated_ids(run):
        reason = f"{repeated}, so rows cannot be told apart"
        skipped = [Check(_name(check), "").leave_out(reason) for check in _OF_JOBS]
        of_files = [_made(check, run) for check in _OF_FILES]
        return Audit(run.path, (*of_files, *skipped), alike=repeated)
    by_job = _by_job(run) if run.is_large else {}
    checks = (by_job.get(_name(check)) or _made(check, run) for check in CHECKS)
    return Audit(run.path, tuple(checks))


def _by_job(run: AuditedRun) -> dict[str, Check]:
    """Return what the rules about single jobs find in a large run, as far as it can be had so."""
    try:
        return check_job_by_job(run)
    except RunError:
        raise
    except Exception:  # the rules themselves say which of them fails
        return {}


def _made(check: Callable[[AuditedRun], Check], run: AuditedRun) -> Check:
    """Return the result of a check; one that fails itself is a violation, never a silent pass."""
    try:
        return check(run)
    except RunError:  # a large table that is damaged
        raise
    except Exception as error:  # whatever it is, the rule is not judged
        frame = traceback.extract_tb(error.__traceback__)[-1]
        failed = Check(_name(check), "the auditor can judge the rule")
        row = {
            "error": f"{type(error).__name__}: {error}",
            "at": f"{Path(frame.filename).name}:{frame.lineno}",
        }
        failed.add("the auditor itself failed, so that it is not known whether the rule holds", row)
        return failed


def _repeated_ids(run: AuditedRun) -> str:
    """Return which ids of the run's rows repeat because the input repeats them; empty if none.

    Readers keep and count such rows. Ids that repeat although the input does not say so break the
    rule `identity`.
    """
    notes = (run.manifest["trace"].get("notes") if run.manifest["trace"] else None) or {}
    if not any(notes.get(note) for note in (*_JOB_TWICE, *_TASK_TWICE)):
        return ""
    jobs = run.only("jobs", "job_id")["job_id"]
    tasks = run.only("tasks", *TASK)
    if any(notes.get(note) for note in _JOB_TWICE) and jobs.is_duplicated().any():
        return f"the input repeats the id of {_first_of(jobs.filter(jobs.is_duplicated()), 'job')}"
    if any(notes.get(note) for note in _TASK_TWICE) and tasks.is_duplicated().any():
        ids = tasks.filter(tasks.is_duplicated())
        names = pl.format("{} of job {}", "task_id", "job_id")
        return f"the input repeats the id of {_first_of(ids.select(names).to_series(), 'task')}"
    return ""


def _first_of(ids: pl.Series, kind: str) -> str:
    """Return ``job 6`` or ``job 6 and 2 more``, of ids that repeat."""
    each = ids.unique(maintain_order=True)
    more = f" and {len(each) - 1:,} more" if len(each) > 1 else ""
    return f"{kind} {printable(str(each[0]))}{more}"


def _name(check: Callable[[AuditedRun], Check]) -> str:
    return check.__name__.removeprefix("check_").replace("_", "-")


# ---- runs of millions of jobs -------------------------------------------------------------------
#
# A plain job is one gang that ran once on one machine and finished, with nothing in its rows that
# any of the rules about single jobs could object to. They need not be asked about it. All other
# jobs are checked by the rules themselves, with all their rows, some hundred thousand at a time.

Rule = Callable[[AuditedRun], Check]
_ROWS: Final[dict[Rule, int | None]] = {
    check_identity: 3, check_causality: 2, check_statuses: 3, check_times: 2, check_instances: 1,
    check_gangs: 1, check_run_time: None, check_critical_paths: 2, check_walltime: 1,
    check_estimates: 1, check_machines: 1, check_partitions: 1, check_rejections: 1,
    check_events: 0,
}  # fmt: skip
"""Rules about single jobs → how many rows they examine of a plain one; None: of each instance."""
_BY_JOB: Final = ("jobs", "tasks", "allocations", "events")
"""Tables whose rows belong to jobs."""


@dataclass(frozen=True)
class _SomeJobs(AuditedRun):
    """Some jobs of a run, with all their rows; what is not by job is that of the whole run."""

    whole: AuditedRun

    @property
    def capacity_events(self) -> list[CapacityEvent]:
        return self.whole.capacity_events

    @property
    def power_instants(self) -> Floats:
        return self.whole.power_instants

    @property
    def _steps(self) -> tuple[dict[int, list[RecordedCapacity]], list[dict[str, object]]]:
        return self.whole._steps

    @property
    def input_tasks(self) -> InputTasks:
        return self.whole.input_tasks

    @property
    def own_retries(self) -> pl.DataFrame | None:
        return self.whole.own_retries


def check_job_by_job(run: AuditedRun) -> dict[str, Check]:
    """Make the rules about single jobs; return name → its result, of those that could be made so.

    The results are those of the rules themselves, but that violations come in the order of the
    jobs, some hundred thousand of them at a time.
    """
    rules = _rules(run)
    found: dict[str, Check] = {}
    jobs = instances = 0
    for part in _Parts(run):
        plain = part.plain()
        jobs, instances = jobs + plain.height, instances + int(plain["count"].sum())
        rest = part.without(plain["job_id"])
        for rule in rules:
            _merge(found, rule(rest))
    for rule, check in zip(rules, found.values(), strict=True):
        rows = _ROWS[rule]
        check.examined += instances if rows is None else jobs * rows
    return found


def _rules(run: AuditedRun) -> list[Rule]:
    """Return the rules that can be made job by job, of which a plain job breaks none."""
    left_out: set[Rule] = set()
    estimates = run.scenario.estimates
    if estimates.type not in ("requested", "actual") or estimates.correction != "none":
        left_out.add(check_estimates)
    if not _is_whole_cluster(run, run.partitions):
        left_out |= {check_partitions, check_rejections}
    if (parents := known_parents(run)) is not None and parents.height:
        left_out.add(check_critical_paths)
    return [rule for rule in _ROWS if rule not in left_out]


def _is_whole_cluster(run: AuditedRun, partitions: list[dict[str, object]]) -> bool:
    """Return whether every job goes to the one partition, if it fits there."""
    if len(partitions) > 1 or "site_partition" in run.columns_of("jobs"):
        return False
    limits = ("queues", "partitions", "max_time_s", "max_processors", "max_running_per_user",
              "max_waiting_per_user")  # fmt: skip
    return all(
        part.get("machines") in (None, list(run.capacity))
        and not any(part.get(limit) is not None and part[limit] != [] for limit in limits)
        for part in partitions
    )


def _merge(found: dict[str, Check], check: Check) -> None:
    """Add what a rule found of some jobs to what it found of others."""
    if check.name not in found:
        found[check.name] = check
        return
    total = found[check.name]
    total.examined += check.examined
    total.found += check.found - len(check.violations)
    for violation in check.violations:
        total.add(violation.message, violation.row)
    total.notes |= check.notes
    if check.skipped and check.applies:
        total.leave_out(total.skipped if total.applies and total.skipped else check.skipped)
    elif total.skipped and not total.applies and not check.skipped:
        total.skipped, total.applies = "", True


class _Parts:
    """The jobs of a run, `ROWS_AT_ONCE` at a time, by row; jobs that share an id stay together."""

    def __init__(self, run: AuditedRun) -> None:
        self._run = run
        ids = run.only("jobs", "job_id")
        number = np.arange(ids.height, dtype=np.int32) // ROWS_AT_ONCE
        self._count = int(number[-1]) + 1 if len(number) else 1
        self._of_job = ids.with_columns(part=pl.Series(number, dtype=pl.Int32))
        self._repeated = pl.Series(ids["job_id"].head(0))
        self._part = {name: self._part_of(name) for name in _BY_JOB}
        del self._of_job

    def _part_of(self, name: str) -> Ints:
        """Return the part of each row of a table; what belongs to no job is in the first."""
        ids, jobs = self._run.only(name, "job_id"), self._of_job
        again = ids["job_id"].is_duplicated() if name != "events" else ids["job_id"].is_not_null()
        self._repeated = self._repeated.append(ids["job_id"].filter(again).unique()).unique()
        if name == "jobs" and again.any():
            jobs = self._of_job = jobs.unique("job_id", keep="first", maintain_order=True)
        if ids["job_id"].equals(jobs["job_id"]):
            return jobs["part"].to_numpy()
        found = ids.join(jobs, on="job_id", how="left", nulls_equal=True, maintain_order="left")
        return found["part"].fill_null(0).to_numpy()

    def __iter__(self) -> Iterator[_Part]:
        for number in range(self._count):
            frames = {name: self._rows(name, number) for name in _BY_JOB}
            yield _Part(self._run, frames, self._repeated)

    def _rows(self, name: str, number: int) -> pl.DataFrame:
        rows = np.flatnonzero(self._part[name] == number)
        if not len(rows):
            return self._run.tables.head(name)
        first, last = int(rows[0]), int(rows[-1])
        table = self._run.tables.slice(name, first, last - first + 1)
        return table if len(rows) == table.height else table[rows - first]


@dataclass(frozen=True)
class _Part:
    """Some jobs of a run."""

    run: AuditedRun
    frames: dict[str, pl.DataFrame]
    """Table → their rows."""
    repeated: pl.Series
    """Ids that a table has more than once, or that an event names."""

    def plain(self) -> pl.DataFrame:
        """Return ``job_id`` and ``count``, the number of instances, of plain jobs but the first.

        The first is left out, so that every rule has something to be made of.
        """
        jobs, tasks, held = (self.frames[name].fill_nan(None) for name in _BY_JOB[:3])
        once = ~pl.col("job_id").is_in(self.repeated.implode())
        rows = jobs.filter(once.fill_null(value=False))
        rows = _beside(_beside(rows, tasks, "_task"), held, "_held")
        plain = rows.filter(pl.all_horizontal(_conditions(self.run)))
        return plain.select("job_id", "count").slice(1)

    def without(self, ids: pl.Series) -> _SomeJobs:
        """Return the other jobs."""
        others = ~pl.col("job_id").is_in(ids.implode())
        others = others.fill_null(value=True)
        frames = {name: table.filter(others) for name, table in self.frames.items()}
        run = self.run
        tables = run.tables.with_rows(frames)
        return _SomeJobs(run.path, run.manifest, run.scenario, run.metrics, tables, run.places, run)


def _beside(rows: pl.DataFrame, others: pl.DataFrame, suffix: str) -> pl.DataFrame:
    """Put the rows of another table that have the same job beside each row."""
    if rows["job_id"].equals(others["job_id"]):
        there = set(rows.columns)
        names = {name: name + suffix for name in others.columns if name in there}
        return rows.hstack(others.rename(names).drop("job_id" + suffix))
    return rows.join(others, on="job_id", suffix=suffix, maintain_order="left")


def _conditions(run: AuditedRun) -> Iterator[pl.Expr]:
    """Yield what is true of a plain job; where one is not known, the job is not plain."""
    start, end, submit = (pl.col(f"{name}_time_s") for name in ("start", "end", "submit"))
    spent = end - start
    for status in ("status", "status_task", "outcome"):
        yield pl.col(status) == "finished"
    yield (pl.col("reason") == "") & pl.col("ideal_time_s").is_null()
    yield (pl.col("attempts") == 1) & (pl.col("attempt") == 1)
    yield (pl.col("suspended_time_s") == 0) & (pl.col("lost_time_s") == 0)
    yield (submit <= start) & (start <= end)
    for other in ("_task", "_held"):
        yield start == pl.col(f"start_time_s{other}")
        yield end == pl.col(f"end_time_s{other}")
    yield pl.col("wait_time_s") == start - submit
    yield pl.col("turnaround_time_s") == end - submit
    yield (pl.col("run_time_s") == spent) & (pl.col("trace_run_time_s") == spent)
    yield pl.col("ready_time_s") == run.released
    yield pl.col("gang") & (pl.col("instances") >= 1)
    yield (pl.col("first_instance") == 0) & (pl.col("count") == pl.col("instances"))
    yield pl.col("task_id_held") == pl.col("task_id")
    yield pl.col("machine_id").is_in(list(run.capacity))
    yield from _of_limits(run)
    yield from _of_requests(run)


def _of_limits(run: AuditedRun) -> Iterator[pl.Expr]:
    """Yield that a job ran within its request, if it must, and had the estimate that is due."""
    requested, truth = pl.col("requested_time_s"), pl.col("trace_run_time_s")
    if run.scenario.walltime != "ignore":
        yield ~(truth > requested).fill_null(value=False)
    kind = run.scenario.estimates.type
    if kind in ("requested", "actual"):
        told = truth if kind == "actual" else pl.coalesce(requested, truth)
        yield pl.col("estimate_s") == told


def _of_requests(run: AuditedRun) -> Iterator[pl.Expr]:
    """Yield that a job requests what its task does, and that this fits the machine that it had."""
    capacity = {
        machine: dict(zip(run.resources, amounts, strict=True))
        for machine, amounts in run.capacity.items()
    }
    instances = pl.col("instances")
    for name in run.requested:
        one = pl.col(f"{name}_task")
        yield pl.col(name) == one * instances
        has = [amounts[name] for amounts in capacity.values()]
        of_machine = pl.col("machine_id").replace_strict(
            list(capacity), has, default=0.0, return_dtype=pl.Float64
        )
        yield (one >= 0) & ((of_machine / one).floor() >= instances)
