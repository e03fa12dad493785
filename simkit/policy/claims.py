"""Places that are kept from what comes after: of what is suspended, and of a blocked head.

A suspended allocation goes on as soon as it fits, by what is expected to end and to change: where
it ran, or, a gang of a partition that does not pause its tasks, on any machines. That place is its
claim, for as long as it would still run by its estimate. A task of an equal or lower priority
starts only beside the claims. What will fit at no known time claims nothing.

    claims = Claims(state, rule)
    claims.hold(profile, task.priority)  # those that count for this task
    on = profile.fit(task, state.now, rule)

EASY keeps a place for a blocked head: others may start if they do not delay it. It holds for one
instant, from when the head turns out not to fit.

    place = head_place(state, head)
    if (on := place.fit(task)) is not None:
        yield Place(task, on)
        place.hold(task, on)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from simkit.policy.profile import LeastFree, Profile
from simkit.policy.room import PlacementRule, Room, total_usable
from simkit.policy.state import State
from simkit.policy.task import Allocation, Placement, Release, Task, instances_on
from simkit.units import EVER_S

Held = Callable[[Allocation, float], None]
"""Told of a claim that is held: the allocation, and when it will go on, in s."""


class Claims:
    """The claims at a decision, held in a profile as tasks of a lower priority have their turn.

    The allocations with a higher partition priority come first, of equals the one that was
    suspended first. Tasks have their turn in the same order, so that each is met by the claims of
    its own and of higher priorities alone.

    Args:
        state: the state at the decision; what can go on now has been resumed.
        rule: which machine first, for gangs that may go on elsewhere.
        partitions: rows of those whose allocations count; None: all.
        but: suspended allocations without a claim.
        from_now: whether a place is kept from now on, not from when it is needed: without
            backfilling nothing starts there that would be gone by then.
        held: told of every claim that is held.
    """

    def __init__(
        self,
        state: State,
        rule: PlacementRule | None = None,
        partitions: Container[int] | None = None,
        *,
        but: Container[Allocation] = (),
        from_now: bool = False,
        held: Held | None = None,
    ) -> None:
        self._state, self._rule, self._from_now, self._held = state, rule, from_now, held
        waiting = [
            allocation
            for allocation in state.suspended
            if allocation not in but
            and (partitions is None or allocation.task.partition in partitions)
        ]
        waiting.sort(
            key=lambda a: a.task.priority, reverse=True
        )  # stable: of equals the oldest stays first
        self._waiting = waiting[::-1]  # the last one is next

    def hold(self, profile: Profile, priority: float = -inf) -> None:
        """Hold the claims of at least a priority that have not been held yet in a profile."""
        waiting, now = self._waiting, self._state.now
        while waiting and waiting[-1].task.priority >= priority:
            allocation = waiting.pop()
            found = goes_on_at(profile, self._state, allocation, self._rule)
            if found is None:
                continue
            start, on = found
            since = now if self._from_now else start
            profile.take(on, allocation.task.request, since, start + allocation.left_s)
            if self._held is not None:
                self._held(allocation, start)


def goes_on_at(
    profile: Profile, state: State, allocation: Allocation, rule: PlacementRule | None = None
) -> tuple[float, Placement] | None:
    """Return the first instant at which a suspended allocation fits, and where; None: never.

    It prefers the machines on which it ran if others are free at that instant. Its work is kept,
    so it goes on even if it will have to pause again.
    """
    there = _again_where_it_ran(profile, allocation)
    if stays_where_it_ran(state, allocation.task):
        return there
    whole = _stand_in(allocation, allocation.count, allocation.task.machines)
    found = profile.earliest(whole, rule)
    if found is not None and (there is None or found[0] < there[0]):
        return found
    return there


def rest_of(allocation: Allocation) -> Task:
    """Return what is left of a suspended allocation, as a task that runs without a pause."""
    task = allocation.task
    machines = task.machines if task.gang else tuple([machine for machine, _ in allocation.on])
    return _stand_in(allocation, allocation.count, machines, allocation.left_s)


def stays_where_it_ran(state: State, task: Task) -> bool:
    """Return whether a task, once suspended, can go on only on the machines on which it ran.

    So do bags, and what partitions pause, as on a real machine, whose memory it still fills.
    """
    return not task.gang or state.info.partitions[task.partition].preempt == "suspend"


def _again_where_it_ran(profile: Profile, allocation: Allocation) -> tuple[float, Placement] | None:
    """Return the first instant at which all its places are free together, and these; or None."""
    parts = [_stand_in(allocation, count, (machine,)) for machine, count in allocation.on]
    start, agreed = None, 0  # how many parts, one after the other, fit at `start`
    while True:
        for part in parts:
            if (found := profile.earliest(part, None, start)) is None:
                return None
            agreed = agreed + 1 if found[0] == start else 1
            start = found[0]
            if agreed == len(parts):
                return start, allocation.on


def _stand_in(
    allocation: Allocation, count: int, machines: tuple[int, ...] | None, run_s: float = 0.0
) -> Task:
    """Return some of its instances as a task that runs for a time, on some machines."""
    task = allocation.task
    return Task(
        task.index, task.job_index, task.submit_time_s, task.request, count, estimate_s=run_s,
        machines=machines,
    )  # fmt: skip


@dataclass(eq=False, slots=True)
class Gap:
    """What tasks may use that overtake a blocked head; it changes as they start."""

    free: Sequence[float]
    """(R,) what is free now; of a bag, one instance must fit."""
    slack_s: float = inf
    """Tasks with an estimate up to this end before the head starts."""
    spare: float = inf
    """Longer ones may ask for as much of the first resource: the head does not need it."""
    least: LeastFree | None = None
    """What stays free of the one resource that there is; None if that is not known."""

    def admits(self, task: Task) -> bool:
        """Return whether a task fits into the one resource that there is, as far as it is known."""
        least, amount = self.least, task.least[0]
        if amount > max(self.free[0], 0.0):
            return False
        return least is None or amount <= least.through(task.estimate_s)


class HeadPlace(Protocol):
    """The place of a head that does not fit now, at one instant."""

    def fit(self, task: Task) -> Placement | None:
        """Return where a task other than the head may start now, or None; changes nothing."""

    def hold(self, task: Task, on: Placement) -> None:
        """Take in that a task starts where `fit` said."""


def head_place(state: State, head: Task, rule: PlacementRule | None = None) -> HeadPlace:
    """Return the place of a head that does not fit now; `rule` says which machines come first.

    What is suspended has its place before the head, if its priority is not lower.
    """
    if state.constrained or state.suspended:
        return _PlaceInProfile(state, head, rule)
    if state.info.capacity.size == 1:
        return _PlaceInPool(state, head)
    return PlaceOnMachines(state, head, rule)


class _PlaceInPool:
    """One machine, one resource: two numbers decide."""

    def __init__(self, state: State, head: Task) -> None:
        self._state, self._gap = state, Gap(state.room.total_free())  # live
        look_ahead(state, head, self._gap)

    def fit(self, task: Task) -> Placement | None:
        gap = self._gap
        free, demand = gap.free[0], task.least[0]
        if task.estimate_s > gap.slack_s:  # it would still run when the head starts
            free = min(free, gap.spare)
        if demand > max(free, 0.0):
            return None
        return ((0, task.instances if task.gang else instances_within(task, free)),)

    def hold(self, task: Task, on: Placement) -> None:
        if task.estimate_s > self._gap.slack_s:
            self._gap.spare -= task.request[0] * instances_on(on)


class PlaceOnMachines:
    """Any number of machines and resources.

    Attributes:
        shadow_s: the shadow time.
    """

    def __init__(self, state: State, head: Task, rule: PlacementRule | None) -> None:
        self._state, self._head, self._rule = state, head, rule
        self._future = state.room.copy()  # what is free at the shadow time, without the head
        self.shadow_s = shadow_time(self._future, head, state.expected_ends, state.now)

    def fit(self, task: Task) -> Placement | None:
        on = self._state.fit(task, self._rule)
        if on is None or self._ends_in_time(task):
            return on
        return self._beside_head(task, on)

    def hold(self, task: Task, on: Placement) -> None:
        if not self._ends_in_time(task):
            self._future.take(on, task.request)

    def _ends_in_time(self, task: Task) -> bool:
        return self._state.now + task.estimate_s <= min(self.shadow_s, EVER_S)

    def _beside_head(self, task: Task, on: Placement) -> Placement | None:
        """Return where a task may run on past the shadow time: the head must still fit then.

        Tries the machines that the rule chooses, then those that the head leaves over.
        """
        future, head, rule = self._future, self._head, self._rule
        left = future.copy()
        if (place := left.fit(head, rule)) is not None:
            left.take(place, head.request)
        for choice in (on, self._state.room.common(left).fit(task, rule)):
            if choice is None:
                break
            future.take(choice, task.request)
            fits = future.fit(head, rule) is not None
            future.give(choice, task.request)
            if fits:
                return choice
        return None


class _PlaceInProfile:
    """With reservations, known capacity changes ahead or claims, in the availability profile."""

    def __init__(self, state: State, head: Task, rule: PlacementRule | None) -> None:
        self._state, self._rule = state, rule
        self._profile, self._claims = state.profile(), Claims(state, rule)
        self._claims.hold(self._profile, head.priority)
        profile_around(self._profile, head, rule)

    def fit(self, task: Task) -> Placement | None:
        if self._state.fit(task, self._rule) is None:
            return None
        self._claims.hold(self._profile, task.priority)
        return self._profile.fit(task, self._state.now, self._rule)

    def hold(self, task: Task, on: Placement) -> None:
        self._profile.hold(task, on, self._state.now)


def look_ahead(state: State, head: Task, gap: Gap) -> float:
    """Return the shadow time of one machine with one resource, in s; `EVER_S` if it never comes.

    Tells the gap what is left until then, and the extra nodes.
    """
    missing = head.least[0] - gap.free[0]
    shadow_s, freed = state.expected_ends.when_freed(missing, state.now)
    shadow_s = min(shadow_s, EVER_S)
    gap.slack_s, gap.spare = shadow_s - state.now, freed - missing
    return shadow_s


def instances_within(task: Task, room: float) -> int:
    """Return how many instances of a bag fit in a pool's room."""
    request = task.request[0]
    return task.remaining if request <= 0 else min(task.remaining, int(room // request))


def shadow_time(room: Room, head: Task, releases: Sequence[Release], now: float) -> float:
    """Return the earliest expected end at which the head fits, in s; infinity if it never does.

    Args:
        room: free now; left with what is free at the shadow time, after all releases of it.
        head: the blocked task.
        releases: what runs, soonest first; what is overdue counts as ending now.
        now: the instant, in s.
    """
    if _fits(room, head):
        return now
    position = 0
    while position < len(releases):
        instant = max(releases[position][0], now)
        while position < len(releases) and releases[position][0] <= instant:
            allocation = releases[position][2]
            room.give(allocation.on, allocation.task.request)
            position += 1
        if _fits(room, head):
            return instant
    return inf


def _fits(room: Room, head: Task) -> bool:
    """Return whether a place for the head is free; it costs less than `fit` where too little is."""
    needed = head.instances if head.gang else 1
    if any(a * needed > f for a, f in zip(head.request, room.total_free(), strict=True)):
        usable = total_usable(room)  # costs more, and is seldom more
        if any(a * needed > f for a, f in zip(head.request, usable, strict=True)):
            return False
    return room.fit(head) is not None


def profile_around(profile: Profile, head: Task, rule: PlacementRule | None) -> Profile:
    """Return a profile in which a blocked head has been given its earliest place."""
    if place := profile.earliest(head, rule):
        start, on = place
        profile.hold(head, on, start)
    return profile
