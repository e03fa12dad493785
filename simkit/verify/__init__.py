"""The auditor: holds a run against the rules, from its folder and its inputs alone.

It shares no code with the engine, so that a mistake of the engine's is not a mistake of the
auditor's. Each check is a function from the folder to a `Check`; every check is done, and each
row that breaks a rule is reported with the rule's name.

| check | rule |
|---|---|
| digest | the tables' digest is the recorded one |
| inputs | every input file has its recorded sha256 |
| trace | the run's jobs are the log's jobs, each once, unchanged |
| tasks | the run's tasks are those of its table, each once, unchanged |
| identity | every job and task once, every row belongs to one |
| causality | submit <= start <= end |
| statuses | a job's status agrees with its times, tasks and allocations |
| times | start, end, wait, turnaround, run and lost time follow from the allocations |
| instances | every instance once, never twice at one time |
| gangs | instances of a gang start and stop together |
| run-time | a finished instance ran exactly its run time |
| instance-times | each instance ran for its own run time, by the input |
| parents | a task starts after all its parents have ended well |
| value | QoS, value, deadline and drawn GPUs are as the scenario says |
| walltime | jobs are killed at their requested time if and only if asked |
| estimates | the policy was told what the scenario says |
| machines | every allocation is on a machine of the cluster |
| partitions | a job keeps to the machines and limits of its partition |
| rejections | what can never run is rejected, and only that, or what admission turns away |
| admission | a job is turned away if and only if the backlog is full |
| capacity | allocated <= capacity on each machine at every instant |
| machine-capacity | machines join, leave, fail and are shared as the scenario's files say |
| supply | as much is on as the power carries, no more and no less |
| stops | tasks stop where power falls, as the scenario says, the least valuable first |
| failures | random failures take a whole machine, and a repair follows |
| maintenance | capacity at each start is what the windows leave |
| timeline | its allocated and capacity columns follow from the allocations |
| fcfs-order | without backfilling, jobs start in order of submission |
| head-fits | no job waits as head of the queue while it fits |
| head-delay | EASY starts each head by the shadow time it had as it became head |
| ledger | in every row of time as much power comes as goes, none below 0 |
| sources | which source serves what, its carbon and its cost, follow the rule |
| battery | the battery keeps its limits and loses what it should, no more |
| reserve | the reserve serves last; the grid charges when and as far as it may |
| machine-power | machines draw what the allocations add to their own power |
| bills | jobs and idle power pay for what machines drew, each job for its part |
| metrics | the metrics are what the tables say |
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Final

from simkit.text import counted
from simkit.verify.audit import Audit, Check, Violation
from simkit.verify.battery import check_battery, check_reserve
from simkit.verify.capacity import check_capacity, check_timeline
from simkit.verify.estimates import check_estimates
from simkit.verify.folder import RunFolder, check_digest, read_run_folder
from simkit.verify.inputs import check_inputs, check_trace
from simkit.verify.jobs import check_causality, check_identity, check_statuses, check_times
from simkit.verify.ledger import check_ledger, check_sources
from simkit.verify.limits import (
    check_admission,
    check_machines,
    check_maintenance,
    check_partitions,
    check_rejections,
)
from simkit.verify.machine_power import check_bills, check_machine_power
from simkit.verify.machines import check_failures, check_machine_capacity
from simkit.verify.metrics import check_metrics
from simkit.verify.pieces import TASK
from simkit.verify.queue import check_fcfs_order, check_head_delay, check_head_fits
from simkit.verify.stops import check_stops
from simkit.verify.supply import check_supply
from simkit.verify.tasks import (
    check_gangs,
    check_instance_times,
    check_instances,
    check_parents,
    check_run_time,
    check_tasks,
    check_walltime,
)
from simkit.verify.value import check_value

__all__ = ["CHECKS", "Audit", "Check", "Violation", "verify_run"]

_OF_FILES: Final = (check_digest, check_inputs, check_trace)
_OF_JOBS: Final = (
    check_tasks, check_identity, check_causality, check_statuses, check_times, check_instances,
    check_gangs, check_run_time, check_instance_times, check_parents, check_value,
    check_walltime,
    check_estimates, check_machines, check_partitions, check_rejections, check_admission,
    check_capacity, check_machine_capacity, check_supply, check_stops, check_failures,
    check_maintenance, check_timeline, check_fcfs_order, check_head_fits, check_head_delay,
    check_ledger, check_sources, check_battery, check_reserve, check_machine_power, check_bills,
    check_metrics,
)  # fmt: skip
CHECKS: Final[tuple[Callable[[RunFolder], Check], ...]] = (*_OF_FILES, *_OF_JOBS)
"""Every check, in the order in which they are done and reported."""

_TASK_TWICE: Final = ("repeated task id", "task id repeats within the job")
"""Notes of readers that keep rows with the ids of another task."""


def verify_run(folder: str | PathLike[str], *, allow_partial: bool = False) -> Audit:
    """Hold a run against every rule.

    Args:
        folder: the run folder.
        allow_partial: also take a run that was interrupted; rules that need its end are left out.

    Returns the audit: every check with the rows it examined, why it does not apply or was not
    audited, or the rows that break its rule.

    Raises RunError if the folder is no run, is not complete, or lacks a table or column.
    """
    run = read_run_folder(Path(folder), allow_partial=allow_partial)
    if repeated := _repeated_ids(run):
        reason = f"the log gives {counted(repeated, 'id')} twice, so rows cannot be told apart"
        skipped = [Check(_name(check), "").leave_out(reason) for check in _OF_JOBS]
        return Audit(run.path, (*(check(run) for check in _OF_FILES), *skipped))
    return Audit(run.path, tuple(check(run) for check in CHECKS))


def _repeated_ids(run: RunFolder) -> int:
    """Return how many rows of the input repeat an id; readers keep such rows and note them."""
    notes = (run.manifest["trace"].get("notes") if run.manifest["trace"] else None) or {}
    repeated = int(notes.get("repeated job id", 0))
    if not repeated and run.tasks.select(*TASK).is_duplicated().any():
        repeated = sum(int(notes.get(note, 0)) for note in _TASK_TWICE)
    return repeated


def _name(check: Callable[[RunFolder], Check]) -> str:
    return check.__name__.removeprefix("check_").replace("_", "-")
