"""A whole run of a pool in machine code: from the workload's columns to the recorder's rows.

It leaves the same rows, in the same order, as the engine does with `simkit.policy.PoolRule`'s
policy; `simkit.compiled.scope` says where it may take its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import ceil, inf
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints, stream
from simkit.compiled import replay_changing, replay_fixed, replay_planned
from simkit.compiled.orders import KEPT, Order, none_seen, write_keys
from simkit.compiled.plan import Plan, no_plan
from simkit.compiled.pools import CHANGE, JOB, ROW, Pools, Users, begin, no_users
from simkit.compiled.replay_changing import no_line
from simkit.compiled.replay_fixed import Queue, no_gaps, no_queue
from simkit.compiled.replay_planned import no_places
from simkit.engine.bookkeeping import BY_LIMIT, capacity_event
from simkit.engine.held_back import UserLimits, too_many_wait
from simkit.engine.recorder import CHUNK, EventRow, Outcome, Recorder, Status
from simkit.engine.submission import BLOCK, Submission
from simkit.machine_code import records
from simkit.policy import Policy, SystemInfo
from simkit.policy.declared import NUMBERS, ChangingForm, PoolRule
from simkit.policy.estimates import CORRECTIONS, Correction, Predictor, UserMean
from simkit.rules import Rules
from simkit.sections import or_infinite
from simkit.workload import Workload
from simkit.workload.capacity import MachineCapacity
from simkit.workload.cluster import Cluster

__all__ = ["Replayed", "Rows", "begin_run", "estimates_of", "play", "replay_pool"]


class Replayed(NamedTuple):
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
) -> Replayed | None:
    """Replay a workload that is in scope, and write its rows.

    Returns None if it goes on for longer than the rules' simulated time; what it has written so far
    is then worth nothing. `after_part` is called with the time after every 65,536 decisions.
    """
    last_s = begin_run(policy, workload, cluster, recorder, rules, correction, seed)
    machines = [machine for part in cluster.partitions for machine in part.machines or (0,)]
    change = _changes_of(cluster, machines)
    submission = Submission(workload, cluster, predictor, _FullAccounts.of_all(cluster))
    job, killed = _jobs(submission, predictor, rules, seed)
    keys = _keys(rule, job, submission, predictor, seed)
    additions = np.array(CORRECTIONS[correction], np.float64)
    last = predictor.last if isinstance(predictor, UserMean) else 0
    users = _no_users(job, cluster)
    looks_ahead = len(change) > 0 or rule.overtaking != "none"
    capacity = cluster.capacity[machines, 0]
    pools = begin(job, capacity, change, looks_ahead, last, additions, users)
    go_on = _kernel(rule, pools, keys, learned=last > 0)
    if submission.routing.only is None:
        names = [partition.name for partition in cluster.partitions]
        recorder.routed = names, job["pool"].copy()
    rows = _Rows(recorder, submission, cluster, pools, killed, np.array(machines))
    return play(pools.now, ("over",), go_on, ROW, rows, last_s, after_part)


def begin_run(
    policy: Policy, workload: Workload, cluster: Cluster, recorder: Recorder, rules: Rules,
    correction: Correction, seed: int,
) -> float:  # fmt: skip
    """Begin a run of a policy and its record; return the last time that the rules allow."""
    first_s = float(workload.submit_time_s[0]) if len(workload) else 0.0
    info = SystemInfo(
        cluster.resources, cluster.machine_names, cluster.capacity.copy(), cluster.partitions,
        workload.epoch_s, first_s,
    )  # fmt: skip
    policy.reset(info, stream(seed, "policy"))
    recorder.capacity = [float(amount) for amount in cluster.capacity.sum(axis=0)]
    recorder.correction = correction
    return first_s + or_infinite(rules.limits.simulated_time)


def play(
    now: Any, counts: Sequence[str], go_on: Callable[[Any], bool], row: np.dtype[Any], rows: Rows,
    last_s: float, after_part: Callable[[float], None],
) -> Replayed | None:  # fmt: skip
    """Replay everything and write it part by part; None if that takes longer than `last_s`.

    Args:
        now: (1,) how many rows are `noted`, and `counts`: all of the part, so from 0 in each.
        counts: names of fields; the last one counts the jobs that are over.
        go_on: writes a part of the timeline, until it is full or everything is over: then True.
        row: a row of the timeline, whose first field is ``time``.
        rows: writes each part.
        last_s: the last time of a decision.
        after_part: called with the time after each part, before it is written.
    """
    timeline, done = records(np.empty(2 * CHUNK, row)), False
    decisions, over, time = 0, 0, 0.0
    while not done:
        for name in ("noted", *counts):
            now[name] = 0
        done = go_on(timeline)
        if (noted := int(now["noted"][0])) == 0:
            continue
        time = float(timeline["time"][noted - 1])
        if time > last_s:
            return None
        after_part(time)
        decisions, over = decisions + noted, over + int(now[counts[-1]][0])
        rows.write(timeline[:noted])
    if over < len(rows.submission.workload):
        return None
    rows.close()
    return Replayed(decisions, time)


class _FullAccounts(UserLimits):
    """The limits of users, as a refused job has met them: as many wait as a partition allows."""

    @classmethod
    def of_all(cls, cluster: Cluster) -> UserLimits:
        """Return those of a cluster's partitions."""
        return cls(cluster.partitions, lambda _task: None)

    def refusal(self, position: int, user: int, name: int | str) -> str:
        """Return why a partition takes no more jobs of a user; empty: nobody is limited."""
        partition = self._partitions[position]
        most = partition.max_waiting_per_user
        return too_many_wait(partition, ceil(most), name) if user >= 0 and most < inf else ""


def _no_users(job: Any, cluster: Cluster) -> Users:
    """Return empty accounts with the limits of the partitions."""
    limits = [(part.max_waiting_per_user, part.max_running_per_user) for part in cluster.partitions]
    return no_users(job, *np.array(limits).T.copy())


def _jobs(
    submission: Submission, predictor: Predictor, rules: Rules, seed: int
) -> tuple[Any, Bools]:
    """Return (J,) the jobs' records, and which of them are killed at their limit."""
    workload = submission.workload
    count = len(workload)
    job = records(np.zeros(count, JOB))
    job["estimate"] = estimates_of(workload, predictor, seed)
    job["submit"], job["requested"] = workload.submit_time_s, workload.requested_time_s
    job["demand"] = workload.request[:, 0] * workload.instances
    admits = submission.routing.admits(0, count)
    job["refused"], job["pool"] = ~admits.any(axis=0), admits.argmax(axis=0)
    _, users = np.unique(workload.user, return_inverse=True)
    job["user"] = np.where(workload.user < 0, -1, users)
    job["start"] = np.nan
    run = workload.longest_run_time_s()
    limit = np.broadcast_to(rules.killed_after_s(workload.requested_time_s), count)
    killed: Bools = limit < run
    job["work"] = np.where(killed, limit, run)
    return job, killed


def estimates_of(workload: Workload, predictor: Predictor, seed: int) -> Floats:
    """Return (T,) the estimates, asked for block by block as the engine does."""
    estimate, first = np.empty(workload.tasks), workload.first_task
    predictor.reset(workload, stream(seed, "predictor"))
    for row in range(0, len(workload), BLOCK):
        rows = slice(int(first[row]), int(first[min(row + BLOCK, len(workload))]))
        estimate[rows] = predictor.estimates(rows.start, rows.stop)
    return estimate


def _changes_of(cluster: Cluster, machines: Sequence[int]) -> Any:
    """Return (C,) the steps of all windows, as `pools.CHANGE`, soonest first.

    Args:
        cluster: whose windows do not recur.
        machines: (P,) the machine of each pool.
    """
    pool = {machine: row for row, machine in enumerate(machines)}
    steps = [(step.time_s, pool[step.machine], *step.change) for step in cluster.known_steps()]
    return records(np.array(steps, CHANGE))


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
    blocks = range(0, len(job), BLOCK)
    tasks = (task for row in blocks for task in submission.tasks(row, min(row + BLOCK, len(job))))
    return np.fromiter((rule.order.key(task) for task in tasks), np.float64, len(job))


def _kernel(
    rule: PoolRule, pools: Pools, keys: Floats | None, *, learned: bool
) -> Callable[[Any], bool]:
    """Return what goes on with the replay until a timeline is full, and says whether it is over."""
    shortest_first = rule.overtaking == "head, shortest first"
    reads = getattr(rule.order, "reads_estimates", True)
    if rule.overtaking in ("all", "all, by start"):
        order, held = _order(rule, pools.job, keys, learned=learned and reads), no_places(pools)
        by_start = rule.overtaking == "all, by start"
        return lambda timeline: replay_planned.replay(pools, order, held, by_start, timeline)
    if keys is None or (learned and (reads or shortest_first)):
        order = _order(rule, pools.job, keys, learned=learned and reads)
        around, after = _in_line(rule, pools, order, shortest_first=shortest_first)
    else:
        queue = no_queue(pools, keys, shortest_first=shortest_first)
        around, after = _in_queue(rule, pools, queue)

    def go_on(timeline: Any) -> bool:
        left = len(pools.change) - int(pools.now["passed"][0])
        return (left == 0 or around(timeline)) and after(timeline)

    return go_on


_Kernels = tuple[Callable[[Any], bool], Callable[[Any], bool]]
"""What goes on until the last change of capacity, and what does from then on."""


def _in_line(rule: PoolRule, pools: Pools, order: Order, *, shortest_first: bool) -> _Kernels:
    """Return the kernels for an order that is made anew at every decision."""
    overtakes, line, ahead = rule.overtaking != "none", no_line(len(pools.job)), _ahead(pools)
    after, gaps = pools._replace(looks_ahead=overtakes), no_gaps(len(pools.pool))
    return (
        lambda timeline: replay_changing.replay_ahead(
            pools, order, line, ahead, overtakes, shortest_first, timeline
        ),
        lambda timeline: replay_changing.replay(after, order, gaps, line, shortest_first, timeline),
    )


def _in_queue(rule: PoolRule, pools: Pools, queue: Queue) -> _Kernels:
    """Return the kernels for jobs that keep their places."""
    overtakes, newcomers = rule.overtaking != "none", np.empty(len(pools.job), np.int64)
    after, gaps, ahead = (
        pools._replace(looks_ahead=overtakes), no_gaps(len(pools.pool)), _ahead(pools),
    )  # fmt: skip
    return (
        lambda timeline: replay_fixed.replay_ahead(
            pools, queue, ahead, overtakes, newcomers, timeline
        ),
        lambda timeline: replay_fixed.replay(after, queue, gaps, newcomers, timeline),
    )


def _ahead(pools: Pools) -> Plan:
    """Return plans of the pools, without room if capacity does not change."""
    changes = len(pools.change)
    return no_plan(pools.pool["jobs"] if changes else pools.pool["jobs"][:0], changes)


def _order(rule: PoolRule, job: Any, keys: Floats | None, *, learned: bool) -> Order:
    """Return the order as the kernels take it; `learned`: keys are made at submission."""
    count, users = len(job), int(job["user"].max(initial=-1)) + 1
    nobody = none_seen(0)
    if isinstance(rule.form, ChangingForm):
        factor = np.ascontiguousarray(rule.form.factor(job["demand"].copy()))
        recent = none_seen(users) if rule.form.predicts else nobody
        number = NUMBERS[rule.form.formula]
        return Order(KEPT, number, rule.form.predicts, np.zeros(count), factor, recent)
    assert keys is not None
    fixed = NUMBERS[rule.form.formula] if learned and rule.form.formula else KEPT
    return Order(fixed, KEPT, False, keys, np.zeros(0), nobody)


class Rows:
    """Writes the rows of a replay part by part.

    Args:
        recorder: to which they go.
        submission: of the jobs.
        cluster: all of whose changes are known ahead.
    """

    def __init__(self, recorder: Recorder, submission: Submission, cluster: Cluster) -> None:
        self._recorder = recorder
        self.submission = submission
        self._decisions = Decisions(recorder, cluster)

    def write(self, timeline: Any) -> None:
        """Write the next rows: (D,) of the timeline, at least one, and what was over by then."""
        events = [*self._decisions.write(timeline), *self._write_over()]
        # of one instant, those that are given first stay first
        self._recorder.events += sorted(events, key=itemgetter(0))
        self._recorder.flush()

    def close(self) -> None:
        """Write what is left: changes of capacity after the last decision, and all tables."""
        self._recorder.events += self._decisions.left()
        self._recorder.close()

    def _write_over(self) -> Iterator[EventRow]:
        """Write what has ended in this part; yield the refusals."""
        raise NotImplementedError

    def _refusals(self, job: Ints, time: Floats, refused: Bools, reason: Ints) -> list[EventRow]:
        """Return the events of refused jobs; note the numbers of their reasons, and no partition.

        Args:
            job: (n,) rows of jobs that are over.
            time: (n,) when.
            refused: (n,) whether they were refused.
            reason: (n,) written where they were.
        """
        events: list[EventRow] = []
        for place in np.flatnonzero(refused).tolist():
            row = int(job[place])
            text = self.submission.routing.why_refused(self.submission.tasks(row, row + 1))
            if self._recorder.routed is not None:
                self._recorder.routed[1][row] = -1
            reason[place] = self._recorder.reason(text)
            events.append((float(time[place]), "rejected", row, -1, -1, text))
        return events


class _Rows(Rows):
    """Those of pools.

    Args:
        pools: what is replayed.
        killed: (J,) whether each job is killed when its request is over.
        machine: (P,) the machine of each pool.
    """

    def __init__(
        self, recorder: Recorder, submission: Submission, cluster: Cluster, pools: Pools,
        killed: Bools, machine: Ints,
    ) -> None:  # fmt: skip
        super().__init__(recorder, submission, cluster)
        self._pools, self._killed, self._machine = pools, killed, machine

    def _write_over(self) -> Iterator[EventRow]:
        over = self._pools.over[: int(self._pools.now["over"][0])]
        for first in range(0, len(over), CHUNK):
            yield from self._write_ends(over[first : first + CHUNK])

    def _write_ends(self, over: Any) -> list[EventRow]:
        """Write the allocation, the task and the job of each; return the refusals."""
        row, time = np.ascontiguousarray(over["job"]), np.ascontiguousarray(over["time"])
        one = self._pools.job[row]
        refused, killed = one["refused"] > 0, self._killed[row] & (one["refused"] == 0)
        none, never = np.zeros(len(row)), np.full(len(row), np.nan)
        reason = np.zeros(len(row), np.int64)
        if killed.any():
            reason[killed] = self._recorder.reason(BY_LIMIT)
        refusals = self._refusals(row, time, refused, reason)
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
        return refusals

    def _write_allocations(
        self, row: Ints, start: Floats, end: Floats, killed: Bools, pool: Ints, ran: Bools
    ) -> None:
        if not ran.all():
            row, killed, pool = row[ran], killed[ran], pool[ran]
            start, end = start[ran], end[ran]
        outcome = np.where(killed, Outcome.KILLED, Outcome.FINISHED)
        count, first = self.submission.workload.instances[row], np.zeros(len(row), np.int64)
        self._recorder.write(
            "allocations", row, row, start, end, outcome, self._machine[pool], first, count,
            first + 1,
        )  # fmt: skip


class Decisions:
    """Writes the timeline of a replay part by part, and the changes of capacity between its rows.

    Args:
        recorder: to which it goes.
        cluster: all of whose changes are known ahead.
    """

    def __init__(self, recorder: Recorder, cluster: Cluster) -> None:
        self._recorder, self._changes = recorder, deque(_resized(cluster))

    def write(self, timeline: Any) -> Iterator[EventRow]:
        """Write rows; yield the changes of capacity, each before the first row of its instant."""
        changes, recorder = self._changes, self._recorder
        while changes and changes[0].time <= timeline["time"][-1]:
            rows = int(np.searchsorted(timeline["time"], changes[0].time))
            self._write(timeline[:rows])
            timeline, change = timeline[rows:], changes.popleft()
            totals = zip(recorder.capacity, change.more, strict=True)
            recorder.change_capacity([amount + more for amount, more in totals])
            yield change.event
        self._write(timeline)

    def left(self) -> list[EventRow]:
        """Return the changes of capacity after the last decision."""
        return [change.event for change in self._changes]

    def _write(self, timeline: Any) -> None:
        if len(timeline) and self._recorder.keeps_timeline:
            names = timeline.dtype.names
            self._recorder.write("timeline", *(np.ascontiguousarray(timeline[n]) for n in names))


class _Resized(NamedTuple):
    """A machine that has become larger or smaller."""

    time: float
    more: list[float]
    """(R,) how much larger it is, below 0 if it has become smaller."""
    event: EventRow


def _resized(cluster: Cluster) -> Iterator[_Resized]:
    """Yield the changes of capacity as they are recorded, without those that change nothing."""
    machines, capacity = MachineCapacity(cluster.capacity), cluster.capacity.tolist()
    for change in cluster.known_changes():
        machines.change(change)
        had, has = capacity[change.machine], machines.of(change.machine)
        if has != had:
            capacity[change.machine] = has
            facts = {"running": change.running, "cause": change.cause}
            named = dict(zip(cluster.resources, has, strict=True))
            event = capacity_event(change.time_s, change.machine, named, facts)
            yield _Resized(change.time_s, [b - a for a, b in zip(had, has, strict=True)], event)
