"""A whole run of bags on machines in machine code: from the workload's columns to the rows.

It leaves the same rows, in the same order, as the engine does with a policy by fitness;
`simkit.compiled.scope` says where it may take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints, stream
from simkit.compiled import replay_bags
from simkit.compiled.machines import JOB, STEP, TASK, Bags, begin
from simkit.compiled.orders import write_keys
from simkit.compiled.pools import JOB as POOL_JOB
from simkit.compiled.replay import (
    BLOCK,
    KILLED,
    Replayed,
    Resized,
    in_order,
    resized,
    timelines_of,
    write_timeline,
)
from simkit.engine.recorder import CHUNK, EventRow, Outcome, Recorder, Status, append_rows
from simkit.engine.submission import Submission
from simkit.machine_code import records
from simkit.policy import Policy, SystemInfo
from simkit.policy.declared import NUMBERS, FitRule, PairForm
from simkit.policy.estimates import CORRECTIONS, Correction, Predictor
from simkit.rules import Rules
from simkit.sections import or_infinite
from simkit.units import ENDLESS_S
from simkit.workload import Workload
from simkit.workload.capacity import MachineCapacity
from simkit.workload.cluster import Cluster

__all__ = ["replay_bags_of"]


class _Given(NamedTuple):
    """What the rows are made of, besides what happened."""

    recorder: Recorder
    workload: Workload
    submission: Submission
    estimate: Floats
    """(T,) estimates, s."""
    killed: Bools
    """(T,) whether the longest instance of each is killed."""


def replay_bags_of(
    policy: Policy,
    rule: FitRule,
    workload: Workload,
    cluster: Cluster,
    recorder: Recorder,
    *,
    rules: Rules,
    predictor: Predictor,
    correction: Correction = "none",
    seed: int = 0,
    after_part: Callable[[float], None] = lambda _now: None,
) -> Replayed | None:
    """Replay a workload that is in scope, and write its rows.

    Returns None, and writes nothing, if it goes on for longer than the rules' simulated time.
    `after_part` is called with the time after every 32,768 decisions, before anything is written.
    """
    first_s = float(workload.submit_time_s[0]) if len(workload) else 0.0
    info = SystemInfo(
        cluster.resources, cluster.machine_names, cluster.capacity.copy(), cluster.partitions,
        workload.epoch_s, first_s,
    )  # fmt: skip
    policy.reset(info, stream(seed, "policy"))
    estimate = _estimates(workload, predictor, seed)
    submission = Submission(workload, cluster, predictor)
    longest = workload.longest_run_time_s()
    limit = np.broadcast_to(rules.killed_after_s(workload.requested_time_s), longest.shape)
    killed: Bools = limit < longest
    task = _tasks(workload, np.where(killed, limit, np.inf), longest, estimate)
    request = _requests(workload, cluster)
    task["rank"] = _ranks(rule, workload, request, estimate, submission)
    job = _jobs(workload, cluster, request)
    step, amount = _steps(cluster)
    bags = begin(
        job, task, request, workload.instance_run_time_s, cluster.capacity, step, amount,
        np.array(CORRECTIONS[correction], np.float64), getattr(rule.fit, "formula", True) is None,
    )  # fmt: skip
    go_on = _kernel(rule, bags, cluster, estimate)
    last_s = first_s + or_infinite(rules.limits.simulated_time)
    timelines = []
    for timeline in timelines_of(bags.now, go_on, last_s, _row(len(cluster.resources))):
        timelines.append(timeline)
        after_part(float(timeline["time"][-1]))
    if bags.now["over_jobs"][0] < len(job) or (timelines and timelines[-1]["time"][-1] > last_s):
        return None
    decisions = sum(map(len, timelines))
    now = float(timelines[-1]["time"][-1]) if timelines else 0.0
    recorder.correction = correction
    recorder.capacity = [float(amount) for amount in cluster.capacity.sum(axis=0)]
    changes = list(resized(cluster))
    write_timeline(recorder, timelines, changes)
    _write(_Given(recorder, workload, submission, estimate, killed), bags, changes)
    recorder.close()
    return Replayed(decisions, now)


def _row(resources: int) -> np.dtype[Any]:
    """Return a row of the timeline, whose fields are all doubles."""
    names = ("time", "waiting", "held", "running", *(f"free{r}" for r in range(resources)))
    return np.dtype([(name, np.float64) for name in names])


def _steps(cluster: Cluster) -> tuple[Any, Floats]:
    """Return (S,) the instants and machines of the changes of capacity, and (S, R) what they have.

    Those that change nothing are among them: they are instants at which a decision is made.
    """
    machines = MachineCapacity(cluster.capacity)
    steps, amounts = [], []
    for change in cluster.known_changes():
        machines.change(change)
        steps.append((change.time_s, change.machine))
        amounts.append(machines.of(change.machine))
    return records(np.array(steps, STEP)), np.array(amounts).reshape(-1, len(cluster.resources))


def _estimates(workload: Workload, predictor: Predictor, seed: int) -> Floats:
    """Return (T,) the estimates, asked for block by block."""
    estimate, first = np.empty(workload.tasks), workload.first_task
    predictor.reset(workload, stream(seed, "predictor"))
    for row in range(0, len(workload), BLOCK):
        rows = slice(int(first[row]), int(first[min(row + BLOCK, len(workload))]))
        estimate[rows] = predictor.estimates(rows.start, rows.stop)
    return estimate


def _requests(workload: Workload, cluster: Cluster) -> Floats:
    """Return (T, R) what an instance asks for, in the order of the cluster's resources."""
    request = np.zeros((workload.tasks, len(cluster.resources)))
    for column, name in enumerate(workload.resources):
        request[:, cluster.resources.index(name)] = workload.request[:, column]
    return request


def _tasks(workload: Workload, limit: Floats, longest: Floats, estimate: Floats) -> Any:
    """Return (T,) the tasks' records, but for their ranks."""
    task = records(np.zeros(workload.tasks, TASK))
    task["job"] = np.repeat(np.arange(len(workload)), np.diff(workload.first_task))
    task["instances"] = task["left"] = workload.instances
    task["first_time"] = np.cumsum(workload.instances) - workload.instances
    task["run"], task["limit"] = longest, limit
    task["estimate"], task["requested"] = estimate, workload.requested_time_s
    task["start"] = task["end"] = np.nan
    return task


def _jobs(workload: Workload, cluster: Cluster, request: Floats) -> Any:
    """Return (J,) the jobs' records."""
    job = records(np.zeros(len(workload), JOB))
    job["submit"], job["first"] = workload.submit_time_s, workload.first_task[:-1]
    job["tasks"] = job["left"] = np.diff(workload.first_task)
    job["start"] = job["end"] = np.nan
    if len(workload):
        kinds, kind = np.unique(request, axis=0, return_inverse=True)
        held = [cluster.most_instances(tuple(one), None) for one in kinds.tolist()]
        too_large = np.array(held)[kind.ravel()] < 1
        job["refused"] = np.logical_or.reduceat(too_large, workload.first_task[:-1])
    return job


def _ranks(
    rule: FitRule, workload: Workload, request: Floats, estimate: Floats, submission: Submission
) -> Ints:
    """Return (T,) the place of each task in the order."""
    count = workload.tasks
    if rule.order is None:
        return np.arange(count)
    keys, formula = np.empty(count), rule.form.formula
    if formula is None:
        key = rule.order.key
        tasks = submission.tasks(0, len(workload))
        for task, estimate_s in zip(tasks, estimate.tolist(), strict=True):
            task.estimate_s = estimate_s
        keys[:] = [key(task) for task in tasks]
    else:
        row = records(np.zeros(count, POOL_JOB))
        row["submit"] = np.repeat(workload.submit_time_s, np.diff(workload.first_task))
        row["estimate"], row["demand"] = estimate, request[:, 0] * workload.instances
        write_keys(NUMBERS[formula], row, keys)
    ranks = np.empty(count, np.int64)
    ranks[np.argsort(keys, kind="stable")] = np.arange(count)
    return ranks


def _kernel(rule: FitRule, bags: Bags, cluster: Cluster, estimate: Floats) -> Callable[[Any], bool]:
    """Return what goes on with the replay until a timeline is full, and says whether it is over."""
    newcomers = np.empty(len(bags.task), np.int64)
    if isinstance(rule.fit, PairForm):
        weight = float(getattr(rule.fitness, "srtf", 0.0))
        pairs = replay_bags.no_pairs(bags, weight, np.minimum(estimate, ENDLESS_S))
        return lambda timeline: replay_bags.replay_pairs(bags, pairs, newcomers, _table(timeline))
    formula = rule.fit.formula
    number = replay_bags.BY_ROW if formula is None else NUMBERS[formula]
    fit = replay_bags.no_fit(bags, number, rule.fitness.fills, cluster.capacity.max(axis=0))
    return lambda timeline: replay_bags.replay(bags, fit, newcomers, _table(timeline))


def _table(timeline: Any) -> Floats:
    """Return rows of doubles as a table."""
    table: Floats = timeline.view(np.float64, np.ndarray).reshape(len(timeline), -1)
    return table


def _write(given: _Given, bags: Bags, changes: Sequence[Resized]) -> None:
    """Write the rows of all tables but the timeline, a chunk at a time."""
    recorder, now = given.recorder, bags.now[0]
    reason, refusals = _reasons(given, bags)
    recorder.events += in_order([*(change.event for change in changes), *refusals])
    for first in range(0, int(now["over_groups"]), CHUNK):
        part = slice(first, min(first + CHUNK, int(now["over_groups"])))
        _write_allocations(recorder, bags, bags.over_group[part])
        recorder.flush()
    for first in range(0, len(bags.task), CHUNK):
        _write_tasks(given, bags, bags.over_task[first : first + CHUNK])
        recorder.flush()
    for first in range(0, len(bags.job), CHUNK):
        _write_jobs(given, bags, bags.over_job[first : first + CHUNK], reason)
        recorder.flush()


def _write_allocations(recorder: Recorder, bags: Bags, ended: Ints) -> None:
    """Write the rows of groups, and of their pieces."""
    group = bags.group[ended]
    task, count = group["task"], group["pieces"]
    killed, finished = float(Outcome.KILLED), float(Outcome.FINISHED)
    outcome = np.where(group["killed"] > 0, killed, finished)
    append_rows(
        recorder.allocations,
        bags.task["job"][task], task, group["start"], group["end"], outcome, count,
    )  # fmt: skip
    before = np.cumsum(count) - count
    rows = np.repeat(group["first"] - before, count) + np.arange(count.sum())
    piece = bags.piece[rows]
    append_rows(
        recorder.pieces, piece["machine"], piece["first"], piece["count"], np.ones(len(rows))
    )


def _write_tasks(given: _Given, bags: Bags, ended: Ints) -> None:
    """Write the rows of tasks that are over."""
    task = bags.task[ended]
    job = bags.job[task["job"]]
    refused = job["refused"] > 0
    ready = np.where(refused, np.nan, job["submit"])
    status = _status(refused, given.killed[ended])
    append_rows(given.recorder.tasks, ended, ready, task["start"], task["end"], status)


def _write_jobs(given: _Given, bags: Bags, ended: Ints, reason: Floats) -> None:
    """Write the rows of jobs that are over; `reason` has the numbers of all jobs' reasons."""
    load, job = given.workload, bags.job[ended]
    begins, whole = load.first_task[:-1], bags.task
    work = np.minimum(whole["run"], whole["limit"])
    first, refused = job["first"], job["refused"] > 0
    one_instance = load.instances[first] == 1
    alone = job["tasks"] == 1
    ideal = np.maximum.reduceat(work, begins)[ended]
    ideal = np.where(refused | (alone & one_instance), np.nan, ideal)
    run = np.where(alone & one_instance & ~refused, work[first], job["end"] - job["start"])
    killed = np.logical_or.reduceat(given.killed, begins)[ended]
    estimate = np.maximum.reduceat(given.estimate, begins)[ended]
    none, attempts = np.zeros(len(job)), np.where(refused, 0.0, 1.0)
    append_rows(
        given.recorder.jobs, ended, job["start"], job["end"], run, estimate, none, none, attempts,
        _status(refused, killed), reason[ended], ideal,
    )  # fmt: skip


def _status(refused: Bools, killed: Bools) -> Floats:
    """Return (n,) the status of tasks or jobs that are over."""
    done = np.where(killed, float(Status.KILLED), float(Status.FINISHED))
    return np.where(refused, float(Status.REJECTED), done)


def _reasons(given: _Given, bags: Bags) -> tuple[Floats, list[EventRow]]:
    """Return (J,) the numbers of the jobs' reasons, and the refusals as events."""
    recorder, load, job = given.recorder, given.workload, bags.job
    reasons, refusals = np.zeros(len(job)), []
    if given.killed.any():
        killed = np.logical_or.reduceat(given.killed, load.first_task[:-1])
        reasons[killed] = recorder.reason(KILLED)
    routing = given.submission.routing
    assert routing.only is not None
    for row in np.flatnonzero(job["refused"]).tolist():
        tasks = given.submission.tasks(row, row + 1)
        text = next(filter(None, (routing.refusal(task, routing.only) for task in tasks)))
        refusals.append((float(load.submit_time_s[row]), "rejected", row, -1, -1, text))
        reasons[row] = recorder.reason(text)
    return reasons, refusals
