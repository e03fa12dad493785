"""The availability profile, kept from decision to decision with the places that are held in it.

    plan = KeptProfile()
    if plan.follow(state) > News.NONE:  # as a decision begins
        ...  # more may fit now
    hold = plan.hold(task, *plan.profile.earliest(task))  # for something that waits
    plan.start(hold)  # it starts as planned; or let_go(task): it does not

What starts and ends as planned changes nothing. What ends early, or never gets what was reserved
for it, gives its place back. If the state differs from the plan in another way (something overran,
was resumed, or took what was held; capacity changed without notice), the profile is made anew.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from enum import IntEnum
from itertools import takewhile
from math import inf
from operator import attrgetter

from simkit.policy.profile import Hold, Profile
from simkit.policy.state import State
from simkit.policy.task import Allocation, Placement, Task
from simkit.units import TIME_GRID

_START = attrgetter("start_s")


class News(IntEnum):
    """What has happened that was not planned; a greater one includes what the others may mean."""

    NONE = 0
    """Nothing."""
    FREED = 1
    """Something came free earlier than planned."""
    FORECAST = 2
    """Other capacity steps lie ahead; what is held may not fit any more."""
    ANEW = 3
    """The profile was made anew, and nothing is held in it."""


class KeptProfile:
    """See the module's text.

    Args:
        overdue_ends: whether a task that runs past its estimate is expected to end a tick from now,
            so that the profile is made anew at every decision until it does; else it is expected
            never to end, and a place on what it holds does not fall due in vain again and again.
    """

    def __init__(self, *, overdue_ends: bool = True) -> None:
        self.profile: Profile
        """What is free beside all that runs, is reserved and is held; there after `follow`."""
        self.held: dict[Task, list[Hold]] = {}
        """What is held for tasks that wait, in order of start."""
        self._by_start: list[Hold] = []  # the same
        self._reserved: dict[Task, Hold] = {}  # of `State.reservations`, as far as it is known
        self._overdue_ends = overdue_ends
        self._overdue: set[Allocation] = set()  # expected never to end
        self._made = False

    def follow(self, state: State) -> News:
        """Take in what has happened since the last decision."""
        if not self._made:
            return self.make(state)
        self.profile.advance(state.now)
        freed = self._take_back(state)
        for allocation in state.ended:
            freed |= self._take_in_end(allocation, state.now)
        if not self._is_true(state):
            return self.make(state)
        if state.queue or state.suspended:  # or else nothing needs a plan
            steps = list(state.steps_through(self.profile.known_until))
            if [step for step in self.profile.steps if step.time_s > state.now] != steps:
                self.profile.change_steps(steps)
                return News.FORECAST
        return News.FREED if freed else News.NONE

    def make(self, state: State) -> News:
        """Make the profile anew, with what runs and is reserved in it; nothing is held."""
        self.profile, self._made = state.profile(), True
        self.held.clear()
        self._by_start.clear()
        if not self._overdue_ends:
            self._overdue = self._overdue_now(state)
            for allocation in self._overdue:
                soon = state.now + TIME_GRID  # when the profile expects them to end
                self.profile.take(allocation.on, allocation.task.request, soon, inf)
        self._reserved.clear()
        for task, place in state.reservations.items():
            start = max(place.start_s, state.now)
            end = start + max(task.estimate_s, TIME_GRID)
            self._reserved[task] = Hold(start, end, task, place.on)
        return News.ANEW

    def _take_in_end(self, allocation: Allocation, now: float) -> bool:
        """Give back what an allocation held; return whether it was expected to hold it longer."""
        end = max(allocation.expected_end_s, allocation.start_time_s + TIME_GRID)
        if allocation in self._overdue:
            self._overdue.remove(allocation)
            end = inf
        if end > now:
            self.profile.give(allocation.on, allocation.task.request, now, end)
        return end > now

    def _take_back(self, state: State) -> bool:
        """Give back the places of reservations that failed; return whether any did."""
        failed = False
        for task in [task for task in self._reserved if task not in state.reservations]:
            hold = self._reserved.pop(task)
            if task.waiting or hold.start_s > state.now:  # else it has started
                self.profile.let_go(hold)
                failed = True
        return failed

    def _is_true(self, state: State) -> bool:
        """Return whether the state is as planned."""
        now, due = state.now, self.due(state.now)
        return (
            self._overdue == self._overdue_now(state)
            and (not due or due[0].start_s == now)  # or else a start was missed
            and self.profile.known_until > now
            and self.profile.agrees(state.room, due)
        )

    def _overdue_now(self, state: State) -> set[Allocation]:
        ends, now = state.expected_ends, state.now
        if not ends or ends[0][0] > now:
            return set()
        return {a for _, _, a in takewhile(lambda release: release[0] <= now, ends)}

    def hold(self, task: Task, start: float, on: Placement) -> Hold:
        """Hold a place for something that waits; of one task, from the first on."""
        hold = self.profile.hold(task, on, start)
        self.held.setdefault(task, []).append(hold)
        insort(self._by_start, hold, key=_in_order)
        return hold

    def let_go(self, task: Task) -> None:
        """Hold nothing for a task any more."""
        for hold in self.held.pop(task):
            self._forget(hold)
            self.profile.let_go(hold)

    def start(self, hold: Hold) -> None:
        """Take note that something starts in its place."""
        holds = self.held[hold.task]
        holds.remove(hold)
        self._forget(hold)
        if not holds:
            del self.held[hold.task]

    def _forget(self, hold: Hold) -> None:
        """Take a place out of the order of starts."""
        position = bisect_left(self._by_start, _in_order(hold), key=_in_order)
        while self._by_start[position] is not hold:
            position += 1
        del self._by_start[position]

    def take(self, task: Task, start: float, on: Placement, *, reserved: bool = False) -> None:
        """Take the place of a task that starts now, or is reserved for then."""
        hold = self.profile.hold(task, on, start)
        if reserved:
            self._reserved[task] = hold

    def run(self, allocation: Allocation) -> None:
        """Take what an allocation holds that was resumed now."""
        end = allocation.expected_end_s
        if not self._overdue_ends and end <= allocation.start_time_s:
            self._overdue.add(allocation)
            end = inf
        self.profile.take(allocation.on, allocation.task.request, allocation.start_time_s, end)

    def due(self, now: float) -> list[Hold]:
        """Return what is planned to start by now, in order of start and submission."""
        held = self._by_start
        if not held or held[0].start_s > now:
            return []
        return held[: bisect_right(held, now, key=_START)]

    def next_start(self, after: float = -inf) -> float:
        """Return the first planned start later than `after`, infinity if there is none."""
        held = self._by_start
        position = bisect_right(held, after, key=_START) if held else 0
        return held[position].start_s if position < len(held) else inf


def _in_order(hold: Hold) -> tuple[float, int]:
    return hold.start_s, hold.task.index
