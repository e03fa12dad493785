"""A whole run of a pool in machine code: from the workload's columns to the recorder's rows.

It leaves the same rows, in the same order, as the engine does with `simkit.policy.PoolRule`'s
policy; `simkit.compiled.scope` says where it may take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints, stream
from simkit.compiled import replay_changing, replay_fixed, replay_planned
from simkit.compiled.orders import KEPT, Order, write_keys
from simkit.compiled.pools import JOB, ROW, Pools, begin
from simkit.compiled.replay_changing import no_line
from simkit.compiled.replay_fixed import no_gaps, no_queue
from simkit.compiled.replay_planned import no_places
from simkit.engine.recorder import CHUNK, Outcome, Recorder, Status
from simkit.engine.submission import Submission
from simkit.machine_code import records
from simkit.policy import Policy, SystemInfo
from simkit.policy.estimates import CORRECTIONS, Correction, Predictor, UserMean
from simkit.policy.pool_rule import NUMBERS, ChangingForm, PoolRule
from simkit.rules import Rules
from simkit.sections import or_infinite
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

__all__ = ["PoolRun", "replay_pool"]

_BLOCK: Final = 2048  # jobs whose estimates are asked for at a time, as the engine does
_KILLED: Final = "requested time is over"
_FIELDS: Final = ROW.names or ()


class PoolRun(NamedTuple):
    """What a compiled replay did."""

    decisions_made: int
    now: float
    """Time of the last of them, s."""


def replay_pool(
    policy: Policy,
    rule: PoolRule,
    workload: Workload,
    cluster: Cluster,
    recorder: Recorder,
    *,
    rules: Rules,
    predictor: Predictor,
    correction: Correction = "none",
    seed: int = 0,
    after_part: Callable[[float], None] = lambda _now: None,
) -> PoolRun | None:
    """Replay a workload that is in scope, and write its rows.

    Returns None if it goes on for longer than the rules' simulated time; what it has written so far
    is then worth nothing. `after_part` is called with the time after every 65,536 decisions.
    """
    first_s = float(workload.submit_time_s[0]) if len(workload) else 0.0
    info = SystemInfo(
        cluster.resources, cluster.machine_names, cluster.capacity.copy(), cluster.partitions,
        workload.epoch_s, first_s,
    )  # fmt: skip
    policy.reset(info, stream(seed, "policy"))
    machines = [partition.machines or (0,) for partition in cluster.partitions]
    capacity = cluster.capacity[[one for (one,) in machines], 0]
    job, killed = _jobs(workload, cluster, predictor, rules, seed)
    submission = Submission(workload, cluster, predictor)
    keys = _keys(rule, job, submission, predictor, seed)
    additions = np.array(CORRECTIONS[correction], np.float64)
    last = predictor.last if isinstance(predictor, UserMean) else 0
    most = np.array([partition.max_running_per_user for partition in cluster.partitions])
    pools = begin(job, capacity, rule.overtaking != "none", last, additions, most)
    go_on = _kernel(rule, pools, keys, learned=last > 0)
    last_s = first_s + or_infinite(rules.limits.simulated_time)
    recorder.capacity = [float(amount) for amount in cluster.capacity.sum(axis=0)]
    recorder.correction = correction
    if submission.routing.only is None:
        names = [partition.name for partition in cluster.partitions]
        recorder.routed = names, np.where(job["refused"] > 0, -1, job["pool"])
    rows = _Rows(recorder, submission, job, killed, np.array(machines)[:, 0])
    decisions, over, now = 0, 0, first_s
    for timeline, ended in _parts(pools, go_on):
        now = float(timeline["time"][-1])
        if now > last_s:
            return None
        after_part(now)
        decisions, over = decisions + len(timeline), over + len(ended)
        if recorder.keeps_timeline:
            recorder.write("timeline", *map(np.ascontiguousarray, map(timeline.field, _FIELDS)))
        for first in range(0, len(ended), CHUNK):
            rows.write(ended[first : first + CHUNK])
    if over < len(job):
        return None
    recorder.close()
    return PoolRun(decisions, now if decisions else 0.0)


def _parts(pools: Pools, go_on: Callable[[Any], bool]) -> Iterator[tuple[Any, Any]]:
    """Replay everything; yield in parts the timeline and what is over, good until the next part."""
    timeline, done = records(np.empty(2 * CHUNK, ROW)), False
    while not done:
        pools.now["noted"] = pools.now["over"] = 0
        done = go_on(timeline)
        if noted := int(pools.now["noted"][0]):
            yield timeline[:noted], pools.over[: int(pools.now["over"][0])]


def _jobs(
    workload: Workload, cluster: Cluster, predictor: Predictor, rules: Rules, seed: int
) -> tuple[Any, Bools]:
    """Return (J,) the jobs' records, and which of them are killed at their limit."""
    count = len(workload)
    job = records(np.zeros(count, JOB))
    predictor.reset(workload, stream(seed, "predictor"))
    for row in range(0, count, _BLOCK):
        job["estimate"][row : row + _BLOCK] = predictor.estimates(row, min(row + _BLOCK, count))
    job["submit"], job["requested"] = workload.submit_time_s, workload.requested_time_s
    job["demand"] = workload.request[:, 0] * workload.instances
    job["pool"] = _routed(workload, cluster, job["demand"])
    job["refused"] = job["pool"] < 0
    job["pool"] = np.maximum(job["pool"], 0)
    _, users = np.unique(workload.user, return_inverse=True)
    job["user"] = np.where(workload.user < 0, -1, users)
    job["start"] = np.nan
    run = workload.longest_run_time_s()
    limit = np.broadcast_to(rules.killed_after_s(workload.requested_time_s), count)
    killed: Bools = limit < run
    job["work"] = np.where(killed, limit, run)
    return job, killed


def _routed(workload: Workload, cluster: Cluster, demand: Floats) -> Ints:
    """Return (J,) the row of the partition to which each job goes, as `Routing` does; -1: none."""
    found = np.full(len(workload), -1)
    requested = workload.requested_time_s
    requests, kind = np.unique(workload.request[:, 0], return_inverse=True)
    for row, one in enumerate(cluster.partitions):
        room = [cluster.most_instances((each,), one.machines) for each in requests.tolist()]
        admitted = workload.instances <= np.array([*room, 0])[kind]
        admitted &= ~(requested > one.max_time_s) & ~(demand > one.max_demand)
        if one.max_time_s < np.inf:
            admitted &= ~np.isposinf(requested)
        if one.queues or one.partitions:
            named = np.isin(workload.queue, list(one.queues))
            admitted &= named | np.isin(workload.partition, list(one.partitions))
        found = np.where((found < 0) & admitted, row, found)
    return found


def _keys(
    rule: PoolRule, job: Any, submission: Submission, predictor: Predictor, seed: int
) -> Floats | None:
    """Return (J,) the keys that jobs keep; None for an order that changes."""
    if isinstance(rule.form, ChangingForm):
        return None
    if rule.form.formula is not None:
        keys = np.empty(len(job))
        write_keys(NUMBERS[rule.form.formula], job, keys)
        return keys
    predictor.reset(submission.workload, stream(seed, "predictor"))
    blocks = range(0, len(job), _BLOCK)
    tasks = (task for row in blocks for task in submission.tasks(row, min(row + _BLOCK, len(job))))
    return np.fromiter((rule.order.key(task) for task in tasks), np.float64, len(job))


def _kernel(
    rule: PoolRule, pools: Pools, keys: Floats | None, *, learned: bool
) -> Callable[[Any], bool]:
    """Return what goes on with the replay until a timeline is full, and says whether it is over."""
    job, shortest_first = pools.job, rule.overtaking == "head, shortest first"
    reads = getattr(rule.order, "reads_estimates", True)
    if rule.overtaking in ("all", "all, by start"):
        order, held = _order(rule, job, keys, learned=learned and reads), no_places(pools)
        by_start = rule.overtaking == "all, by start"
        return lambda timeline: replay_planned.replay(pools, order, held, by_start, timeline)
    gaps = no_gaps(len(pools.pool))
    if keys is None or (learned and (reads or shortest_first)):
        order, line = _order(rule, job, keys, learned=learned and reads), no_line(len(job))
        return lambda timeline: replay_changing.replay(
            pools, order, gaps, line, shortest_first, timeline
        )
    queue = no_queue(pools, keys, shortest_first=shortest_first)
    newcomers = np.empty(len(job), np.int64)
    return lambda timeline: replay_fixed.replay(pools, queue, gaps, newcomers, timeline)


def _order(rule: PoolRule, job: Any, keys: Floats | None, *, learned: bool) -> Order:
    """Return the order as the kernels take it; `learned`: keys are made at submission."""
    count, users = len(job), int(job["user"].max(initial=-1)) + 1
    nobody = np.empty((0, 3))
    if isinstance(rule.form, ChangingForm):
        factor = np.ascontiguousarray(rule.form.factor(job["demand"].copy()))
        recent = np.zeros((users, 3)) if rule.form.predicts else nobody
        number = NUMBERS[rule.form.formula]
        return Order(KEPT, number, rule.form.predicts, np.zeros(count), factor, recent)
    assert keys is not None
    fixed = NUMBERS[rule.form.formula] if learned and rule.form.formula else KEPT
    return Order(fixed, KEPT, False, keys, np.zeros(0), nobody)


class _Rows:
    """Writes the rows of jobs that are over.

    Args:
        recorder: to which they go.
        submission: of the jobs.
        job: (J,) records, as in `pools.JOB`.
        killed: (J,) whether each is killed when its request is over.
        machine: (P,) the machine of each pool.
    """

    def __init__(
        self, recorder: Recorder, submission: Submission, job: Any, killed: Bools, machine: Ints
    ) -> None:
        self._recorder, self._submission = recorder, submission
        self._job, self._killed, self._machine = job, killed, machine

    def write(self, over: Any) -> None:
        """Write rows for (n,) records, as in `pools.OVER`: allocation, task and job of each."""
        row, time = np.ascontiguousarray(over["job"]), np.ascontiguousarray(over["time"])
        one = self._job[row]
        refused, killed = one["refused"] > 0, self._killed[row] & (one["refused"] == 0)
        none, never = np.zeros(len(row)), np.full(len(row), np.nan)
        reason = self._reasons(row, time, refused, killed)
        status = np.where(refused, Status.REJECTED, np.where(killed, Status.KILLED, 0))
        start, end = one["start"], np.where(refused, np.nan, time)
        ready, run = (np.where(refused, np.nan, one[name]) for name in ("submit", "work"))
        attempts = np.where(refused, 0, 1)
        self._write_allocations(row, start, end, killed, one["pool"], ~refused)
        self._recorder.write("tasks", row, ready, start, end, status)
        self._recorder.write(
            "jobs", row, start, end, run, one["estimate"], none, none, attempts, status, reason,
            never,
        )  # fmt: skip
        self._recorder.flush()

    def _write_allocations(
        self, row: Ints, start: Floats, end: Floats, killed: Bools, pool: Ints, ran: Bools
    ) -> None:
        if not ran.all():
            row, start, end, killed, pool = (a[ran] for a in (row, start, end, killed, pool))
        outcome = np.where(killed, Outcome.KILLED, Outcome.FINISHED)
        count, first = self._submission.workload.instances[row], np.zeros(len(row), np.int64)
        self._recorder.write(
            "allocations", row, row, start, end, outcome, self._machine[pool], first, count,
            first + 1,
        )  # fmt: skip

    def _reasons(self, row: Ints, time: Floats, refused: Bools, killed: Bools) -> Ints:
        """Return (n,) the numbers of the reasons of what is over; note the refusals as events."""
        recorder, routing = self._recorder, self._submission.routing
        reasons = np.zeros(len(row), np.int64)
        if killed.any():
            reasons[killed] = recorder.reason(_KILLED)
        for place in np.flatnonzero(refused).tolist():
            job = int(row[place])
            task = self._submission.tasks(job, job + 1)[0]
            text = routing.refusal(task, routing.only) if routing.only else routing.send([task])
            recorder.events.append((float(time[place]), "rejected", job, -1, -1, text))
            reasons[place] = recorder.reason(text)
        return reasons
