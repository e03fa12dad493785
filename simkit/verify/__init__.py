"""The auditor: checks a run against every rule, from its folder and its inputs alone.

It shares no code with the engine, so that a mistake in the engine is not repeated in the auditor.
`CHECKS` lists the rules. Each check is a function from the run to a `Check`; all are made, and
every row that breaks a rule is reported under the name of the rule.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Final

import polars as pl

from simkit.errors import RunError
from simkit.text import printable
from simkit.verify.audit import Audit, Check, Violation
from simkit.verify.audited_run import TASK, AuditedRun
from simkit.verify.battery import check_battery, check_reserve
from simkit.verify.capacity import check_capacity
from simkit.verify.estimates import check_estimates
from simkit.verify.folder import check_columns, check_digest
from simkit.verify.inputs import check_inputs
from simkit.verify.jobs import check_causality, check_identity, check_statuses, check_times
from simkit.verify.ledger import check_ledger, check_sources
from simkit.verify.limits import (
    check_limits,
    check_machines,
    check_partitions,
)
from simkit.verify.machine_power import check_bills, check_machine_power
from simkit.verify.machines import check_failures, check_machine_capacity, check_maintenance
from simkit.verify.metrics import check_metrics
from simkit.verify.outages.stops import check_outages
from simkit.verify.preemption import check_preemption
from simkit.verify.records.decision_times import check_decision_times
from simkit.verify.records.events import check_events
from simkit.verify.records.order import check_row_order
from simkit.verify.records.plain_jobs import check_job_by_job
from simkit.verify.records.releases import check_releases
from simkit.verify.records.timeline import check_timeline
from simkit.verify.rejections import check_admission, check_late_jobs, check_rejections
from simkit.verify.replay.first_come import check_fcfs_order
from simkit.verify.replay.recorded import check_recorded_starts
from simkit.verify.replay.schedule import check_schedule
from simkit.verify.run_info import check_run_info, check_scenario, refuse_too_much
from simkit.verify.site.dispatch import check_dispatch
from simkit.verify.site.rules import check_generation, check_grid, check_site_load
from simkit.verify.site.signals import check_clocks
from simkit.verify.stops import check_stops
from simkit.verify.supply import check_supply
from simkit.verify.tasks import (
    check_critical_paths,
    check_gangs,
    check_instance_times,
    check_instances,
    check_parents,
    check_run_time,
    check_tasks,
    check_walltime,
)
from simkit.verify.trace import check_trace
from simkit.verify.user_limits import check_user_limits
from simkit.verify.value import check_value

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
