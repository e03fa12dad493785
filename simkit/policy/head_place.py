"""The place that EASY keeps for a blocked head: others may start if they do not delay it.

    place = head_place(state, head)
    if (on := place.fit(task)) is not None:
        yield Place(task, on)
        place.hold(task, on)

It holds for one instant, from when the head turns out not to fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Protocol

from simkit.policy.claims import Claims
from simkit.policy.lane import Gap
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule, Release, Room, total_usable
from simkit.policy.state import State
from simkit.policy.task import Placement, Task, instances_on
from simkit.units import EVER_S


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
