"""The base of most policies: an ordering, composed with a placement and a backfilling rule.

Orders and rules may have a method ``reset(info, rng)``; it is called when a run begins.

Preemption, by which running tasks of partitions with a lower priority make room for the queue's
head, follows SLURM's by partition priority (``preempt/partition_prio``): the lowest priority stops
first, of equals the one that started last (``preempt_youngest_first``), and none whose place is not
needed after all.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Iterator
from math import inf
from typing import Protocol

import numpy as np

from simkit.errors import PolicyError
from simkit.policy import Action, Kill, Place, Placement, Resume, State, Suspend, SystemInfo, WakeAt
from simkit.policy.claims import Claims, stays_where_it_ran
from simkit.policy.declared import (
    PolicyMetric,
    PoolRule,
    Signals,
    declared_metrics,
    declared_signals,
    pool_rule_of,
    reads_estimates,
)
from simkit.policy.lane import ChangingOrder, Lane, Line, Order, Passing, make_lanes
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule, total_usable
from simkit.policy.task import Allocation, Task
from simkit.units import TIME_GRID

__all__ = ["Backfill", "OrderedPolicy", "resumptions"]


class Backfill(Protocol):
    """Which tasks may overtake a head that does not fit.

    A rule that decides about the head as well has ``compose(order, placement)`` instead, which
    returns the policy.
    """

    def fill(self, state: State, lane: Lane) -> Iterable[Place]:
        """Return or yield placements of tasks behind the lane's blocked head.

        The rule takes out of the lane what it has placed whole.
        """


class OrderedPolicy:
    """Starts tasks in order; when the head does not fit, leaves it to the backfilling rule.

    Partitions that share machines have one queue with one head; others do not wait for each other.
    Suspended allocations are resumed first, oldest first; what still waits to go on keeps its
    claim on its place (`simkit.policy.claims`). A head that does not fit takes the place of running
    tasks of partitions with a lower priority that let themselves be preempted.

    Args:
        order: which task comes first.
        backfill: which tasks may overtake the head; None: none.
        placement: which machine comes first; None: the first that fits.

    Raises PolicyError for a backfilling rule that makes the policy itself.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        backfill: Backfill | None = None,
        placement: PlacementRule | None = None,
    ) -> None:
        if hasattr(backfill, "compose"):
            rule = type(backfill).__name__
            raise PolicyError(
                f"OrderedPolicy: {rule} decides about the head of the queue as well; make the "
                f"policy with {rule}(…).compose(order, placement)"
            )
        self.order = order
        self.backfill = backfill
        self.placement = placement

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        for part in (self.order, self.backfill, self.placement):
            if (reset := getattr(part, "reset", None)) is not None:
                reset(info, rng)
        self._wake_s = -inf
        groups = _groups_sharing_machines(info)
        self._lanes = make_lanes(self.order, self.placement, [rows for _, rows in groups])
        self._lane_of = {row: lane for lane in self._lanes for row in lane.partitions}
        if len(groups) == 1:
            self._lanes[0].alone = True
        elif self.placement is None or all(len(machines) == 1 for machines, _ in groups):
            # A placement rule may draw at random, and so must be asked wherever it was.
            for lane, (machines, _) in zip(self._lanes, groups, strict=True):
                lane.machine = min(machines) if len(machines) == 1 else None
        self._preempting = preempts(info)
        self._one_lane = len(groups) == 1 and not self._preempting

    @property
    def preempts(self) -> bool:
        """Whether it does what partitions say of preemption: not with a `schedule` of its own."""
        return type(self).schedule is OrderedPolicy.schedule

    @property
    def signals(self) -> Signals | None:
        """Signals that its parts read; None if one of them, or a subclass, declares none."""
        if type(self) is not OrderedPolicy:
            return None
        return declared_signals(self.order, self.backfill)  # a placement rule sees no power

    @property
    def reads_estimates(self) -> bool:
        """Whether order or backfilling rule reads estimates; a subclass may, unless it declares."""
        return type(self) is not OrderedPolicy or reads_estimates(self.order, self.backfill)

    @property
    def metrics(self) -> tuple[PolicyMetric, ...]:
        """Metrics that its parts bring."""
        return declared_metrics(self.order, self.backfill, self.placement)

    def decision_rule(self) -> PoolRule | str:
        """Return how it decides in a pool of rigid jobs, or why no compiled replay knows it."""
        overtaking = "none"
        if self.backfill is not None:
            declares = "overtaking" in type(self.backfill).__dict__
            overtaking = getattr(self.backfill, "overtaking", "") if declares else ""
        return pool_rule_of(self, OrderedPolicy, overtaking)

    def schedule(self, state: State) -> Iterable[Action]:
        for lane in self._lanes:
            waiting = lane.update(state)
        if self._one_lane and not (state.constrained or state.suspended or state.refills):
            # Most decisions end here: no task waits, or only the head does, or the head still
            # does not fit.
            if not waiting:
                return ()
            head = lane.head
            on = state.room.fit(head, lane.rule)
            if on is None:
                if self.backfill is None or waiting == 1:
                    return ()
                return self.backfill.fill(state, lane)
            if waiting == 1 and head.gang:
                lane.drop(head)
                return (Place(head, on),)
        return self._start(state)

    def _start(self, state: State) -> Iterator[Action]:
        if state.suspended and not self._preempting:
            yield from resumptions(state, self.placement)
        for _ in self._rounds(state):
            for lane in self._lanes:
                yield from self._start_lane(state, lane)

    def _rounds(self, state: State) -> Iterator[int]:
        """Yield once, and again while admission lets in tasks for those that started.

        Each time the lanes are up to date. Yields the position in `state.arrived` of the first
        task that is new in this round.
        """
        first, known = 0, len(state.arrived)
        yield first
        while known < len(state.arrived):
            first, known = known, len(state.arrived)
            for lane in self._lanes:
                lane.update(state, first)
            yield first

    def _wake_at(self, state: State, time_s: float) -> Iterator[WakeAt]:
        """Ask for a decision at a time, unless it is infinite or an earlier one is asked for."""
        if time_s < inf and not state.now < self._wake_s <= time_s:
            self._wake_s = time_s
            yield WakeAt(time_s)

    def _start_lane(self, state: State, lane: Lane) -> Iterator[Action]:
        rule, pool = lane.rule, lane.pool(state)
        lane.profile = None
        may_pause = self._preempting or len(state.suspended) > 0
        tried = inf
        while len(lane):
            task = lane.head
            if self._preempting and task.priority < tried:
                tried = task.priority
                yield from self._resume_lane(state, lane, tried)
            on = pool.fit(task, rule)
            if on is not None and (state.constrained or (may_pause and state.suspended)):
                on = self._fit_ahead(state, lane, task)
            if on is None:
                if not (self._preempting and (yield from self._make_room(state, lane, task))):
                    break
                tried = inf  # what is suspended comes first where there is room now
                continue
            yield Place(task, on)
            if not task.remaining:
                lane.drop(task)
        if self._preempting:
            yield from self._resume_lane(state, lane)
        if len(lane) > 1 and self.backfill is not None:
            if may_pause and state.suspended:
                lane.profile, lane.claims = None, self._claims(state, lane)
            yield from self.backfill.fill(state, lane)
            lane.claims = None

    def _claims(self, state: State, lane: Lane) -> Claims:
        """Return the claims of what is suspended of a lane's partitions."""
        from_now = self.backfill is None
        return Claims(state, lane.rule, lane.partitions, from_now=from_now)

    def _fit_ahead(self, state: State, lane: Lane, task: Task) -> Placement | None:
        """Return where the head fits through its estimate, beside the claims; take that place."""
        if lane.profile is None:
            lane.profile = lane.pool(state).profile()
            lane.claims = self._claims(state, lane) if state.suspended else None
        if lane.claims is not None:
            lane.claims.hold(lane.profile, task.priority)
        if (on := lane.profile.fit(task, state.now, lane.rule)) is not None:
            lane.profile.hold(task, on, state.now)
        return on

    def _make_room(self, state: State, lane: Lane, head: Task) -> Generator[Action, None, bool]:
        """Preempt tasks for a lane's head, if that lets it start; return whether any was."""
        known, preempted = len(state.arrived), False
        claims = self._claims(state, lane) if state.suspended else None
        for action in preemptions(lane.pool(state), head, lane.rule, claims):
            preempted = True
            yield action
        if preempted:
            lane.update(state, known)  # what starts over is in the queue again
            lane.profile = None  # it was made before the stops
        return preempted

    def _resume_lane(self, state: State, lane: Lane, least: float = -inf) -> Iterator[Resume]:
        """Resume what is suspended of a lane's partitions, of a priority of at least `least`.

        What was preempted must not take back the place before its preemptor has started, nor go
        ahead of another task that would preempt it at once.
        """
        others = [
            allocation
            for allocation in state.suspended
            if self._lane_of[allocation.task.partition] is not lane
            or allocation.task.priority < least
        ]
        for action in resumptions(state, self.placement, others):
            lane.profile = None  # it takes this place for free
            yield action

    @property
    def passing(self) -> Passing:
        """Which waiting tasks may pass others."""
        if type(self).schedule is not OrderedPolicy.schedule:
            return "own"
        if self.backfill is None:
            return "none"
        passing: Passing = getattr(self.backfill, "passing", "own")
        return passing

    def lines(self, state: State) -> list[Line]:
        """Return the waiting tasks of each lane in order, as the last decision left them."""
        return [
            Line([entry[3] for entry in lane.entries if entry[3].waiting], self.passing)
            for lane in self._lanes
            if len(lane)
        ]

    def scores(self, state: State) -> dict[Task, float]:
        """Return the order's numbers of the waiting tasks, larger first.

        None if they say no more than the order of submission does.
        """
        entries = [e for lane in self._lanes if len(lane) for e in lane.entries if e[3].waiting]
        if all(entry[1] in (0.0, entry[3].submit_time_s) for entry in entries):
            return {}
        return {task: -key for _, key, _, task in entries}

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        for lane in self._lanes:
            for position, entry in enumerate(lane.entries):
                if entry[3] is not task:
                    continue
                if position == 0 and state.suspended and state.fit(task, lane.rule) is not None:
                    return "it is first in the queue, and its place is kept for a suspended task"
                if position == 0:
                    return "it is first in the queue and does not fit into what is free"
                are = "task is" if position == 1 else "tasks are"
                return f"{position:,} {are} before it in the queue"
        return "it does not wait for the policy"


def resumptions(
    state: State, rule: PlacementRule | None = None, but: Container[Allocation] = ()
) -> Iterator[Resume]:
    """Resume what was suspended: where it ran, or, a gang, on any machines that have room.

    Tasks of partitions with ``preempt: suspend`` go on where they ran alone, as on a real machine,
    whose memory they still fill. Work is kept, so that a capacity step ahead does not hold it back.
    Those in `but` stay suspended.
    """
    for allocation in [each for each in state.suspended if each not in but]:
        task, on = allocation.task, allocation.on
        if state.room.copy().claim(on, task.request):
            yield Resume(allocation)
        elif stays_where_it_ran(state, task):
            continue
        elif (other := state.fit(task, rule)) is not None:
            yield Resume(allocation, other)


def _groups_sharing_machines(info: SystemInfo) -> list[tuple[frozenset[int], list[int]]]:
    """Return groups of partitions that share no machine: (their machines, rows of partitions)."""
    everything = frozenset(range(len(info.machine_names)))
    groups: list[tuple[frozenset[int], list[int]]] = []
    for row, partition in enumerate(info.partitions):
        machines = everything if partition.machines is None else frozenset(partition.machines)
        rows = [row]
        for group in [g for g in groups if g[0] & machines]:
            groups.remove(group)
            machines |= group[0]
            rows = group[1] + rows
        groups.append((machines, rows))
    return groups


def preempts(info: SystemInfo) -> bool:
    """Return whether any partition lets its tasks be preempted."""
    return any(partition.preempt is not None for partition in info.partitions)


def preemptions(
    state: State, task: Task, rule: PlacementRule | None = None, claims: Claims | None = None
) -> Iterator[Suspend | Kill]:
    """Yield what stops the running tasks whose places a waiting task needs.

    Nothing stops unless the task then fits: now, and through its estimate by all that is known
    ahead, beside the `claims` of what is suspended already. Each stops as its partition's `preempt`
    says.
    """
    partitions = state.info.partitions
    for allocation in victims(state, task, rule, claims):
        mode = partitions[allocation.task.partition].preempt
        if mode in ("requeue", "suspend"):
            yield Suspend(allocation, keep_work=mode == "suspend")
        elif allocation in state.running:  # not yet stopped with other instances of its task
            yield Kill(allocation.task, f"preempted by partition {partitions[task.partition].name}")


def victims(
    state: State, task: Task, rule: PlacementRule | None = None, claims: Claims | None = None
) -> list[Allocation]:
    """Return the running allocations that must stop for a task to start; empty: it cannot start.

    Args:
        state: the state at the decision; the task does not fit.
        task: a waiting task.
        rule: which machine comes first; None: the first that fits.
        claims: claims of what is suspended, none of them held yet; None: nothing is.
    """
    candidates = _candidates(state, task)
    for r, (needed, free) in enumerate(zip(task.least, total_usable(state.room), strict=True)):
        if needed > free + sum([allocation.held[r] for allocation in candidates]):
            return []
    without = _Without(state, rule)
    if claims is not None:
        without.keep(claims, task.priority)
    chosen: list[Allocation] = []
    for allocation in candidates:
        without.stop(allocation)
        chosen.append(allocation)
        if without.fits(task):
            break
    else:
        return []
    for allocation in chosen[-2::-1]:  # the last one was needed; the others perhaps not
        without.go_on(allocation)
        if without.fits(task):
            chosen.remove(allocation)
        else:
            without.stop(allocation)
    return chosen


def _candidates(state: State, task: Task) -> list[Allocation]:
    """Return what may stop for a task, in the order in which it would."""
    partitions, machines = state.info.partitions, task.machines
    found = [
        allocation
        for allocation in state.running
        if allocation.task.priority < task.priority
        and partitions[allocation.task.partition].preempt is not None
        and (machines is None or any(machine in machines for machine, _ in allocation.on))
    ]
    return sorted(found, key=lambda allocation: (allocation.task.priority, -allocation.rank))


class _Without:
    """What would be free if some allocations had stopped."""

    def __init__(self, state: State, rule: PlacementRule | None) -> None:
        self._state, self._now, self._rule = state, state.now, rule
        self._room = state.room.copy()
        self._profile: Profile | None = state.profile() if state.constrained else None

    def keep(self, claims: Claims, priority: float) -> None:
        """Keep the places of claims of at least this priority."""
        self._profile = self._profile or self._state.profile()
        claims.hold(self._profile, priority)

    def stop(self, allocation: Allocation) -> None:
        self._room.give(allocation.on, allocation.task.request)
        if self._profile is not None:
            self._profile.give(allocation.on, allocation.task.request, *self._span(allocation))

    def go_on(self, allocation: Allocation) -> None:
        """Take a stop back."""
        self._room.take(allocation.on, allocation.task.request)
        if self._profile is not None:
            self._profile.take(allocation.on, allocation.task.request, *self._span(allocation))

    def _span(self, allocation: Allocation) -> tuple[float, float]:
        """Return from when to when it is expected to hold its place."""
        return self._now, max(allocation.expected_end_s, self._now + TIME_GRID)

    def fits(self, task: Task) -> bool:
        if self._room.fit(task, self._rule) is None:
            return False
        return self._profile is None or self._profile.fit(task, self._now, self._rule) is not None
