"""The auditor: checks a run against every rule, from its folder and its inputs alone.

It shares with simkit what data are (tables, keys of a scenario, columns of logs) and computes all
else again, so that a mistake in the engine is not repeated in the auditor. `CHECKS` lists the
rules. Each is a function from the run to a `Check`; all are made, and every row that breaks a rule
is reported under the rule's name.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.errors import RunError
from simkit.text import printable
from simkit.verify import (
    admission,
    capacity,
    estimates,
    inputs,
    jobs,
    machines,
    metrics,
    replay,
    run_info,
    tasks,
    timeline,
    trace,
)
from simkit.verify.audit import Audit, Check, Ints, Violation, name_of
from simkit.verify.audited_run import TASK, AuditedRun
from simkit.verify.site import battery, ledger, machine_power, signals, supply

__all__ = ["CHECKS", "Audit", "Check", "Violation", "verify_run"]

_OF_FILES: Final = (
    run_info.check_digest, run_info.check_columns, run_info.check_scenario, inputs.check_inputs,
    run_info.check_run_info, trace.check_trace,
)  # fmt: skip
_OF_JOBS: Final = (
    tasks.check_tasks, jobs.check_identity, jobs.check_causality, trace.check_releases,
    jobs.check_statuses, jobs.check_times, tasks.check_instances, tasks.check_gangs,
    tasks.check_run_time, tasks.check_instance_times, tasks.check_parents,
    tasks.check_critical_paths, estimates.check_value, tasks.check_walltime,
    estimates.check_estimates, capacity.check_machines, admission.check_partitions,
    admission.check_user_limits, admission.check_rejections, admission.check_admission,
    admission.check_late_jobs, capacity.check_capacity, machines.check_machine_capacity,
    supply.check_supply, supply.check_stops, capacity.check_preemption, machines.check_failures,
    machines.check_maintenance, capacity.check_outages, jobs.check_row_order,
    timeline.check_timeline, jobs.check_events, timeline.check_decision_times,
    replay.check_schedule, replay.check_fcfs_order, trace.check_recorded_starts,
    capacity.check_limits, signals.check_clocks, ledger.check_ledger, ledger.check_generation,
    ledger.check_grid, ledger.check_site_load, battery.check_dispatch, ledger.check_sources,
    battery.check_battery, battery.check_reserve, machine_power.check_machine_power,
    machine_power.check_bills, metrics.check_metrics,
)  # fmt: skip
CHECKS: Final[tuple[Callable[[AuditedRun], Check], ...]] = (*_OF_FILES, *_OF_JOBS)
"""Every check, in the order in which they are made and reported."""

JOBS_AT_ONCE: Final = 100_000
"""Jobs of a large run that are checked at a time."""
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
    run_info.refuse_too_much(run)
    if repeated := _repeated_ids(run):
        reason = f"{repeated}, so rows cannot be told apart"
        skipped = [Check(name_of(check), "", skipped=reason) for check in _OF_JOBS]
        of_files = [_made(check, run) for check in _OF_FILES]
        return Audit(run.path, (*of_files, *skipped), alike=repeated)
    by_job = check_job_by_job(run) if run.is_large else {}
    checks = (by_job.get(name_of(check)) or _made(check, run) for check in CHECKS)
    return Audit(run.path, tuple(checks))


def _made(check: Callable[[AuditedRun], Check], run: AuditedRun) -> Check:
    """Return the result of a check; one that fails itself is a violation, never a silent pass."""
    try:
        return check(run)
    except RunError:  # a large table that is damaged
        raise
    except Exception as error:  # whatever it is, the rule is not judged
        frame = traceback.extract_tb(error.__traceback__)[-1]
        failed = Check(name_of(check), "the auditor can judge the rule")
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


# ---- runs of millions of jobs -------------------------------------------------------------------
#
# The tables of a large run stay on disk. Rules about single jobs are made of some jobs at a time,
# with all their rows.

_BY_JOB: Final = (
    jobs.check_identity, jobs.check_causality, jobs.check_statuses, jobs.check_times,
    tasks.check_instances, tasks.check_gangs, tasks.check_run_time, tasks.check_critical_paths,
    tasks.check_walltime, estimates.check_estimates, capacity.check_machines,
    admission.check_partitions, admission.check_rejections, jobs.check_events,
)  # fmt: skip
"""Rules about single jobs."""
_OF_ONE_JOB: Final = ("jobs", "tasks", "allocations", "events")
"""Tables whose rows belong to jobs."""
_OF_ALL_JOBS: Final = ("capacity_events", "power_instants", "_steps", "input_tasks", "own_retries")
"""What some jobs take of the whole run; it is made once."""


def check_job_by_job(run: AuditedRun) -> dict[str, Check]:
    """Make the rules about single jobs; return name → its result, of those that could be made so.

    The results are those of the rules themselves, but that violations come in the order of the
    jobs, some at a time.
    """
    together: set[Callable[[AuditedRun], Check]] = set()
    if run.scenario.estimates.type in ("perturbed", "user-mean"):
        together.add(estimates.check_estimates)
    if any(part.get("max_waiting_per_user") is not None for part in run.partitions):
        together |= {admission.check_partitions, admission.check_rejections}
    found: dict[str, Check] = {}
    for part in _parts(run):
        for rule in _BY_JOB:
            if rule not in together:
                _merge(found, _made(rule, part))
    return found


def _merge(found: dict[str, Check], check: Check) -> None:
    """Add what a rule found of some jobs to what it found of others."""
    total = found.setdefault(check.name, check)
    if total is check:
        return
    total.examined += check.examined
    total.found += check.found - len(check.violations)
    for violation in check.violations:
        total.add(violation.message, violation.row)
    total.notes |= check.notes
    # Not audited in one part: not audited; not about one part: about the run all the same.
    unknown = [each.skipped for each in (total, check) if each.skipped and each.applies]
    if total.found or (not unknown and not (total.skipped and check.skipped)):
        total.skipped, total.applies = "", True
    elif unknown:
        total.skipped, total.applies = unknown[0], True


def _parts(run: AuditedRun) -> Iterator[AuditedRun]:
    """Yield the jobs of a run, `JOBS_AT_ONCE` at a time; jobs that share an id stay together."""
    ids = run.only("jobs", "job_id")
    number = pl.Series(np.arange(ids.height, dtype=np.int32) // JOBS_AT_ONCE)
    part_of = ids.with_columns(part=number)
    if not run.alike:
        part_of = part_of.unique("job_id", keep="first", maintain_order=True)
    parts = {name: _part_of_rows(run.only(name, "job_id"), part_of) for name in _OF_ONE_JOB}
    for part in range((ids.height - 1) // JOBS_AT_ONCE + 1 if ids.height else 1):
        frames = {name: _rows(run, name, np.flatnonzero(parts[name] == part)) for name in parts}
        some = replace(run, tables=run.tables.with_rows(frames))
        vars(some).update({name: getattr(run, name) for name in _OF_ALL_JOBS})
        if run.alike:
            vars(some)["alike"] = True
        yield some


def _part_of_rows(ids: pl.DataFrame, part_of: pl.DataFrame) -> Ints:
    """Return the part of each row of a table; what belongs to no job is in the first."""
    if ids.is_empty() or ids["job_id"].equals(part_of["job_id"]):
        return part_of["part"].head(ids.height).to_numpy()
    found = ids.join(part_of, on="job_id", how="left", nulls_equal=True, maintain_order="left")
    return found["part"].fill_null(0).to_numpy()


def _rows(run: AuditedRun, name: str, rows: Ints) -> pl.DataFrame:
    """Return some rows of a table, which lie near each other."""
    if not len(rows):
        return run.tables.head(name)
    first, last = int(rows[0]), int(rows[-1])
    table = run.tables.slice(name, first, last - first + 1)
    return table if len(rows) == table.height else table[rows - first]
