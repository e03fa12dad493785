"""The plan of a ready pool: the profile with all that runs, is reserved or is held for later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from simkit.policy import CapacityStep, State
from simkit.profile import Profile
from simkit.task import Allocation, Placement, Task
from simkit.units import TIME_GRID


class Piece(NamedTuple):
    """Resources in the profile: so many for so long."""

    on: Placement
    request: tuple[float, ...]
    start_s: float
    end_s: float


class ReadyPlan:
    """The availability profile, kept from decision to decision.

    What starts and ends as planned changes nothing, an early end or a step that is foreseen anew
    changes its part, and only where the world differs from the plan the profile is made anew.

    A task that runs past its estimate is not expected to end at all until it does: a reservation
    on what it holds would fall due in vain again and again.
    """

    def __init__(self) -> None:
        self.reserved: dict[Task, Piece] = {}
        """Tasks that have left the queue for a place later on; until something of them ends."""
        self._held: list[Piece] = []  # kept free for what waits in no reservation
        self._overdue: set[Allocation] = set()  # that the profile expects never to end
        self._profile: Profile | None = None
        self._steps: list[CapacityStep] = []
        self._releases = 0

    @property
    def profile(self) -> Profile:
        """The free amounts as planned; valid after `catch_up`."""
        assert self._profile is not None
        return self._profile

    def catch_up(self, state: State) -> bool:
        """Take in what has happened; return whether more may fit now than did before."""
        releases, self._releases = state.releases - self._releases, state.releases
        if self._profile is None:
            self._make(state)
            return True
        self._profile.advance(state.now)
        ended, returned = self._take_in_ended(state), self._take_back(state)
        resized = releases != len(state.ended)
        freed = ended or returned or resized
        if (resized and len(state.info.machine_names) > 1) or not self._agrees(state):
            self._make(state)
            return True
        if not (state.queue or state.suspended):
            return freed  # nothing is to be planned: what is foreseen can wait, and costs time
        steps = list(state.steps)
        changed = self._steps_changed(steps, state.now)
        if changed:
            self._change_steps(steps, state.now)
            self._steps = steps
        return freed or changed

    def _agrees(self, state: State) -> bool:
        """Tell whether what is free now is what was planned to be."""
        ends = state.expected_ends
        if ends and ends[0][0] <= state.now:
            overdue = {a for end, _, a in ends[: len(self._overdue) + 1] if end <= state.now}
            if overdue != self._overdue:
                return False
        planned = self.profile.total_free(state.now)
        if self._held and self._held[0].start_s <= state.now:
            kept = self.profile.copy()
            for piece in self._held:
                kept.give(*piece)
            planned = kept.total_free(state.now)
        return planned == tuple(state.room.total_free())

    def _make(self, state: State) -> None:
        """Make the profile anew; reservations and tasks that run are in it."""
        self._profile = profile = state.profile()
        self._steps, self._held = list(state.steps), []
        self._overdue = {a for end, _, a in state.expected_ends if end <= state.now}
        for allocation in self._overdue:
            soon = state.now + TIME_GRID  # when the profile expects them to end
            profile.take(allocation.on, allocation.task.request, soon, inf)
        self.reserved = {
            task: Piece(place.on, task.request, *span(task, max(place.start or 0.0, state.now)))
            for task, place in state.reservations.items()
        }

    def _take_in_ended(self, state: State) -> bool:
        """Give back what has ended before its time; return whether anything has."""
        freed = False
        for allocation in state.ended:
            task = allocation.task
            if task not in state.reservations:  # or else the rest of a bag has one
                self.reserved.pop(task, None)
            if allocation in self._overdue:
                self._overdue.remove(allocation)
                end = inf
            else:
                end = max(allocation.expected_end_s, allocation.start_time_s + TIME_GRID)
            if end > state.now:
                self.profile.give(allocation.on, task.request, state.now, end)
                freed = True
        return freed

    def _take_back(self, state: State) -> bool:
        """Give back the places of tasks whose reservation failed; return whether any did."""
        freed = False
        for task in state.arrived:
            if (piece := self.reserved.pop(task, None)) is not None:
                self._give(piece)
                freed = True
        return freed

    def _steps_changed(self, steps: Sequence[CapacityStep], now: float) -> bool:
        passed = 0
        while passed < len(self._steps) and self._steps[passed].time_s <= now:
            passed += 1
        del self._steps[:passed]
        return self._steps != steps

    def _change_steps(self, steps: Sequence[CapacityStep], now: float) -> None:
        """Put other steps in the profile, those that are not in it yet."""
        before, after = Counter(self._steps), Counter(steps)
        for step in (before - after).elements():
            self.profile.take(((step.machine, 1),), step.change, max(step.time_s, now), inf)
        for step in (after - before).elements():
            self.profile.give(((step.machine, 1),), step.change, max(step.time_s, now), inf)

    def run(self, allocation: Allocation) -> None:
        """Take note of something that runs on."""
        start, end = allocation.start_time_s, allocation.expected_end_s
        if end <= start:
            self._overdue.add(allocation)
            end = inf
        self.profile.take(allocation.on, allocation.task.request, start, end)

    def take(self, task: Task, on: Placement, start: float) -> Piece:
        """Take note of a task that starts, or has a reservation, at that time."""
        piece = Piece(on, task.request, *span(task, start))
        self.profile.take(*piece)
        return piece

    def hold(self, piece: Piece) -> None:
        """Keep resources free for something until the next decision."""
        self.profile.take(*piece)
        self._held.append(piece)

    def let_go(self) -> None:
        """Keep nothing free any more."""
        for piece in self._held:
            self._give(piece)
        self._held.clear()

    def _give(self, piece: Piece) -> None:
        self.profile.give(*piece)


def span(task: Task, start: float) -> tuple[float, float]:
    """Return when a task starts and is expected to end, a tick later at least."""
    return start, start + max(task.estimate_s, TIME_GRID)
