"""A whole run of bags on machines in machine code: from the workload's columns to the rows.

It leaves the same rows, in the same order, as the engine does with a policy by fitness;
`simkit.compiled.scope` says where it may take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.compiled import replay_bags
from simkit.compiled.machines import JOB, STEP, TASK, Bags, begin
from simkit.compiled.orders import write_keys
from simkit.compiled.pools import JOB as POOL_JOB
from simkit.compiled.replay import Replayed, Rows, begin_run, estimates_of, play
from simkit.engine.bookkeeping import BY_LIMIT
from simkit.engine.recorder import CHUNK, EventRow, Outcome, Recorder, Status
from simkit.engine.submission import Submission
from simkit.machine_code import records
from simkit.policy import Policy
from simkit.policy.declared import NUMBERS, FitRule, PairForm
from simkit.policy.estimates import CORRECTIONS, Correction, Predictor
from simkit.rules import Rules
from simkit.units import ENDLESS_S
from simkit.workload import Workload
from simkit.workload.capacity import MachineCapacity
from simkit.workload.cluster import Cluster

__all__ = ["replay_bags_of"]


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

    Returns None if it goes on for longer than the rules' simulated time; what it has written so far
    is then worth nothing. `after_part` is called with the time after every 65,536 decisions.
    """
    last_s = begin_run(policy, workload, cluster, recorder, rules, correction, seed)
    estimate = estimates_of(workload, predictor, seed)
    submission = Submission(workload, cluster, predictor)
    longest = workload.longest_run_time_s()
    limit = np.broadcast_to(rules.killed_after_s(workload.requested_time_s), longest.shape)
    killed: Bools = limit < longest
    task = _tasks(workload, np.where(killed, limit, np.inf), longest, estimate)
    request = _requests(workload, cluster)
    task["rank"] = _ranks(rule, workload, request, estimate, submission)
    job = _jobs(submission)
    step, amount = _steps(cluster)
    bags = begin(
        job, task, request, workload.instance_run_time_s, cluster.capacity, step, amount,
        np.array(CORRECTIONS[correction], np.float64), getattr(rule.fit, "formula", True) is None,
    )  # fmt: skip
    go_on = _kernel(rule, bags, cluster, estimate)
    rows = _Rows(recorder, submission, cluster, bags, estimate, killed)
    counts = "over_groups", "over_tasks", "over_jobs"
    row = _row(len(cluster.resources))
    return play(bags.now, counts, go_on, row, rows, last_s, after_part)


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


def _jobs(submission: Submission) -> Any:
    """Return (J,) the jobs' records."""
    workload = submission.workload
    job = records(np.zeros(len(workload), JOB))
    job["submit"], job["first"] = workload.submit_time_s, workload.first_task[:-1]
    job["tasks"] = job["left"] = np.diff(workload.first_task)
    job["start"] = job["end"] = np.nan
    if len(job):
        job["refused"] = ~submission.routing.admits(0, len(job))[0]
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


class _Rows(Rows):
    """Those of bags.

    Args:
        bags: what is replayed.
        estimate: (T,) estimates, s.
        killed: (T,) whether the longest instance of each is killed.
    """

    def __init__(
        self, recorder: Recorder, submission: Submission, cluster: Cluster, bags: Bags,
        estimate: Floats, killed: Bools,
    ) -> None:  # fmt: skip
        super().__init__(recorder, submission, cluster)
        load = submission.workload
        first = load.first_task[:-1]
        work = np.minimum(bags.task["run"], bags.task["limit"])
        alone = (np.diff(load.first_task) == 1) & (load.instances[first] == 1)
        self._bags, self._killed_task, self._single = bags, killed, alone
        self._longest, self._estimate = (
            np.maximum.reduceat(column, first) if len(first) else column
            for column in (work, estimate)
        )
        """(J,) run time of the longest instance, and the longest estimate, of each job."""
        self._killed = np.logical_or.reduceat(killed, first) if len(first) else killed

    def _write_over(self) -> Iterator[EventRow]:
        bags, now = self._bags, self._bags.now[0]
        for groups in _chunks(bags.over_group[: now["over_groups"]]):
            self._write_allocations(groups)
        for tasks in _chunks(bags.over_task[: now["over_tasks"]]):
            self._write_tasks(tasks)
        for jobs in _chunks(bags.over_job[: now["over_jobs"]]):
            yield from self._write_jobs(jobs)

    def _write_allocations(self, ended: Ints) -> None:
        """Write a row for each piece of groups."""
        group = self._bags.group[ended]
        count = group["pieces"]
        before = np.cumsum(count) - count
        piece = self._bags.piece[np.repeat(group["first"] - before, count) + np.arange(count.sum())]
        outcome = np.where(group["killed"] > 0, Outcome.KILLED, Outcome.FINISHED)
        job = self._bags.task["job"][group["task"]]
        self._recorder.write(
            "allocations",
            *(np.repeat(column, count)
              for column in (job, group["task"], group["start"], group["end"], outcome)),
            *(np.ascontiguousarray(piece[name]) for name in ("machine", "first", "count")),
            np.ones(len(piece), np.int64),
        )  # fmt: skip

    def _write_tasks(self, ended: Ints) -> None:
        task = self._bags.task[ended]
        job = self._bags.job[task["job"]]
        refused = job["refused"] > 0
        ready = np.where(refused, np.nan, job["submit"])
        start, end = (np.ascontiguousarray(task[name]) for name in ("start", "end"))
        status = _status(refused, self._killed_task[ended])
        self._recorder.write("tasks", ended, ready, start, end, status)

    def _write_jobs(self, ended: Ints) -> list[EventRow]:
        """Write jobs; return the refusals."""
        job, killed, single = self._bags.job[ended], self._killed[ended], self._single[ended]
        refused, longest = job["refused"] > 0, self._longest[ended]
        start, end = (np.ascontiguousarray(job[name]) for name in ("start", "end"))
        run = np.where(single & ~refused, longest, end - start)
        ideal = np.where(refused | single, np.nan, longest)
        none, attempts = np.zeros(len(job)), np.where(refused, 0, 1)
        reason = np.zeros(len(job), np.int64)
        if killed.any():
            reason[killed] = self._recorder.reason(BY_LIMIT)
        refusals = self._refusals(ended, job["submit"], refused, reason)
        self._recorder.write(
            "jobs", ended, start, end, run, self._estimate[ended], none, none, attempts,
            _status(refused, killed), reason, ideal,
        )  # fmt: skip
        return refusals


def _chunks(rows: Ints) -> Iterator[Ints]:
    """Yield rows, as many at a time as are written."""
    for first in range(0, len(rows), CHUNK):
        yield rows[first : first + CHUNK]


def _status(refused: Bools, killed: Bools) -> Ints:
    """Return (n,) the status of tasks or jobs that are over."""
    status: Ints = np.where(killed, Status.KILLED, Status.FINISHED)
    return np.where(refused, Status.REJECTED, status)
