"""What if: plays a system on under a policy, from a decision to the end of all that it knows.

    outcome = play_on(state, OrderedPolicy(SJF(), Easy()))
    outcome.ends_s[task]

It plays with copies: nothing of the state changes, and the real run goes on as if nobody had
looked. What is known is what waits, runs or holds a reservation. Nothing more arrives, run times
are estimates (a task that has outlived its own ends now), and capacities stay as they are now.
What no policy sees (tasks that admission holds back, or that wait for others of their job, jobs
that are not released) does not come, and maintenance ahead is not foreseen.

Where estimates are the run times, the ends are those of the engine, whose order of events is kept:
what ends, then reservations that fall due, then one decision.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, isfinite
from typing import Any, Final

import numpy as np

from simkit.errors import PolicyError
from simkit.policy import Action, Cancel, Place, Policy, State, WakeAt
from simkit.policy.queue import TaskQueue
from simkit.policy.state import Outlook
from simkit.policy.task import Allocation, Placement, Reservation, Task, instances_on
from simkit.units import instant_on_grid

__all__ = ["WhatIf", "play_on", "starts_now"]

PATIENCE: Final = 100_000
"""Decisions in a row without a start, end or reservation, after which a play is given up."""

_END, _RESERVATION, _WAKE = 0, 1, 2  # the order of events at an instant


@dataclass(frozen=True)
class WhatIf:
    """What becomes of the known tasks."""

    ends_s: dict[Task, float]
    """Task → when the last of its instances ends, in s on the trace's clock; infinity if some never
    start, or never end by their estimate. The tasks are those of the state that was played on."""


def play_on(
    state: State,
    policy: Policy,
    rng: np.random.Generator | None = None,
    every_s: float | None = None,
) -> WhatIf:
    """Return when each task ends if a policy decides from now on; see the module's text.

    The policy is reset and sees all that waits as newly arrived. Give one that is not acting in the
    run, or it forgets what it knows of that.

    Args:
        state: the state at a decision, before the first action; it does not change.
        policy: what decides. It may place, reserve, cancel and ask to be woken.
        rng: the policy's random stream; None: that of seed 0.
        every_s: decisions only at multiples of this time, as with the scenario's
            ``scheduling.every``; None: whenever something ends.

    Raises PolicyError for any other action, one that is illegal, a state with suspended
    allocations, and a policy that wakes up again and again in vain.
    """
    play = _Play(state, type(policy).__name__, every_s)
    policy.reset(state.info, np.random.default_rng(0) if rng is None else rng)
    play.run(policy)
    return play.outcome()


def starts_now(
    state: State,
    policy: Policy,
    task: Task,
    without: Collection[Task] = (),
    rng: np.random.Generator | None = None,
) -> bool:
    """Return whether a policy would start anything of a waiting task now if others were not there.

    Args:
        state: the state at a decision, whether or not the policy has acted; it does not change.
        policy: as for `play_on`: it is reset, and all that waits has just arrived.
        task: waits in the state.
        without: tasks that are taken away first, wherever they wait or run.
        rng: the policy's random stream; None: that of seed 0.

    Raises PolicyError as `play_on` does.
    """
    play = _Play(state, type(policy).__name__, None, without)
    policy.reset(state.info, np.random.default_rng(0) if rng is None else rng)
    return play.starts(policy, task)


class _Play:
    """A copy of a system, and its future."""

    def __init__(
        self, state: State, policy: str, every_s: float | None, without: Collection[Task] = ()
    ) -> None:
        self._who = f"{policy} in a what-if"
        self._every_s = None if every_s is None else instant_on_grid(every_s)
        if state.suspended:
            raise PolicyError(
                f"{self._who} at {state.now:g} s: {len(state.suspended)} allocations are "
                "suspended, and how much of their work is left is not known; look ahead only where "
                "nothing suspends tasks"
            )
        self._without = without
        self._twins: dict[Task, Task] = {}
        self._ends_s: dict[Task, float] = {}  # of the twins
        self._due: list[tuple[float, int, int, Any]] = []  # (time, kind, number, subject): a heap
        self._numbers = 0  # settles ties of reservations and wake-ups
        self._room = state.room.copy()
        self._queue = TaskQueue(len(state.info.resources))
        self._running: dict[Allocation, None] = {}
        self._outlook = Outlook()
        self.state = State(
            state.info, self._room, self._queue, self._running, outlook=self._outlook
        )
        self._take_over(state)

    def _take_over(self, state: State) -> None:
        """Copy what runs, waits, is reserved, and what has just ended."""
        mine = self.state
        mine.now, mine.submitted = state.now, state.submitted
        mine.starts, mine.releases = state.starts, state.releases
        for allocation in state.running:
            if allocation.task in self._without:
                self._room.give(allocation.on, allocation.task.request)
            else:
                self._run(self._copy(allocation))
        for task in state.queue.tasks:
            if task not in self._without:
                self._show(self._twin(task))
        for task, on, start_s in state.reservations.values():
            self._keep(Reservation(self._twin(task), on, start_s))
        self._known = self._twins.copy()
        mine.ended = [self._copy(allocation) for allocation in state.ended]

    def _copy(self, allocation: Allocation) -> Allocation:
        return Allocation(
            allocation.rank, self._twin(allocation.task), allocation.on, allocation.count,
            allocation.start_time_s, allocation.expected_end_s,
        )  # fmt: skip

    def _twin(self, task: Task) -> Task:
        """Return the copy of a task; the same one for all that concerns it."""
        twin = self._twins.get(task)
        if twin is None:
            twin = self._twins[task] = object.__new__(type(task))
            vars(twin).update(vars(task))  # four times as fast as copy.copy
        return twin

    def outcome(self) -> WhatIf:
        """Return when each known task ends."""
        ends = self._ends_s
        return WhatIf({t: inf if twin.waiting else ends[twin] for t, twin in self._known.items()})

    def starts(self, policy: Policy, task: Task) -> bool:
        """Let the policy decide once; return whether it starts anything of a task."""
        twin = self._twin(task)
        left = twin.remaining
        self._decide(policy)
        return twin.remaining < left

    # ---- time ---------------------------------------------------------------------------------

    def run(self, policy: Policy) -> None:
        """Let the policy decide, again and again, until nothing is left to come or to wait for."""
        state, idle, seen = self.state, 0, self._progress()
        self._decide(policy)
        while self._due and (self._queue or self._running or state.reservations):
            if not self._go_on():
                continue
            self._decide(policy)
            before, seen = seen, self._progress()
            idle = idle + 1 if seen == before else 0
            if idle == PATIENCE:
                raise self._broken(
                    f"woke up {PATIENCE:,} times in a row, but nothing started or ended; WakeAt "
                    "only while it serves a purpose"
                )

    def _progress(self) -> tuple[int, int, int]:
        return self.state.starts, self.state.releases, len(self.state.reservations)

    def _decide(self, policy: Policy) -> None:
        arrived, ended = self.state.arrived, self.state.ended
        known, over = len(arrived), len(ended)
        for action in policy.schedule(self.state):
            self._apply(action)
        del arrived[:known], ended[:over]
        arrived[:] = [task for task in arrived if task.waiting]

    def _go_on(self) -> bool:
        """Let time pass to the next event, or the next multiple of the period.

        Returns whether that calls for a decision: a cancelled reservation does not.
        """
        state, due, changed = self.state, self._due, False
        next_s = due[0][0]
        if self._every_s is not None:
            next_s = -(-next_s // self._every_s) * self._every_s
        while due and due[0][0] <= next_s:
            state.now, kind, _, subject = heappop(due)
            if kind == _END:
                self._end(subject)
            changed |= kind != _RESERVATION or self._fall_due(subject)
        state.now = next_s
        return changed

    def _announce(self, time_s: float, kind: int, subject: object = None) -> None:
        self._numbers += 1
        heappush(self._due, (time_s, kind, self._numbers, subject))

    def _run(self, allocation: Allocation) -> None:
        """Let an allocation run to its expected end; what is overdue ends now."""
        task, end_s = allocation.task, max(allocation.expected_end_s, self.state.now)
        self._running[allocation] = None
        if self._outlook.ends is not None:
            self._outlook.ends.add(allocation)
        if end_s < inf:
            heappush(self._due, (end_s, _END, allocation.rank, allocation))
        self._ends_s[task] = max(end_s, self._ends_s.get(task, end_s))

    def _end(self, allocation: Allocation) -> None:
        state = self.state
        del self._running[allocation]
        if self._outlook.ends is not None:
            self._outlook.ends.remove(allocation)
        self._room.give(allocation.on, allocation.task.request)
        state.releases += 1
        state.ended.append(allocation)

    def _fall_due(self, place: Reservation) -> bool:
        """Start a reserved task or, if it does not fit, put it back in its place.

        Returns False if the reservation was cancelled in the meantime.
        """
        task, on, _ = place
        if self.state.reservations.get(task) is not place:
            return False
        self._drop(task)
        if self._room.claim(on, task.request):
            self._start(task, on, task.remaining)
        else:
            self._show(task)
        return True

    # ---- actions ------------------------------------------------------------------------------

    def _apply(self, action: Action) -> None:
        if isinstance(action, Place):
            if action.start is None or action.start <= self.state.now:
                self._place(action.task, action.on)
            else:
                self._reserve(action.task, action.on, action.start)
        elif isinstance(action, WakeAt):
            time_s = instant_on_grid(action.time_s) if isfinite(action.time_s) else inf
            if not self.state.now < time_s < inf:
                raise self._broken(f"{action!r} must be a finite time after now")
            self._announce(time_s, _WAKE)
        elif isinstance(action, Cancel):
            if action.task not in self.state.reservations:
                raise self._broken(f"{action.task!r} has no reservation to cancel")
            self._drop(action.task)
            self.state.releases += 1
            self._show(action.task)
        else:
            raise self._broken(
                f"{type(action).__name__} cannot be played ahead, only Place, Cancel and WakeAt; "
                "look ahead with policies that start tasks and never stop them"
            )

    def _place(self, task: Task, on: Placement) -> None:
        count = self._checked_count(task, on)
        if not self._room.claim(on, task.request):
            raise self._broken(f"{task!r} does not fit where it is placed: {on!r}")
        if count == task.remaining:
            self._queue.remove(task)
        self._start(task, on, count)
        if task.waiting:
            self._queue.refresh(task)

    def _checked_count(self, task: Task, on: Placement) -> int:
        """Return how many instances a placement has; raises PolicyError if these cannot start."""
        if task not in self._queue:
            raise self._broken(f"{task!r} is not waiting")
        count = instances_on(on)
        if count != task.remaining and (task.gang or not 0 < count < task.remaining):
            raise self._broken(f"{task!r}: places {count} of {task.remaining} instances")
        if task.machines is not None and not {machine for machine, _ in on} <= {*task.machines}:
            raise self._broken(f"{task!r} may not run on all of {on!r}: its partition has others")
        return count

    def _start(self, task: Task, on: Placement, count: int) -> None:
        """Start instances; their resources are claimed. Those of a bag end machine by machine."""
        state = self.state
        task.remaining -= count
        for part in [on] if task.gang else [(pair,) for pair in on]:
            state.starts += 1
            size, end_s = instances_on(part), state.now + task.estimate_s
            self._run(Allocation(state.starts, task, part, size, state.now, end_s))

    def _reserve(self, task: Task, on: Placement, start_s: float) -> None:
        """Keep a place for all that remains of a task; it leaves the queue until then."""
        count = self._checked_count(task, on)
        if count != task.remaining or not isfinite(start_s):
            raise self._broken(
                f"{task!r}: reserves {count} of {task.remaining} instances for {start_s} s; a "
                "reservation is for all of them, at a finite time"
            )
        self._queue.remove(task)
        self._keep(Reservation(task, on, instant_on_grid(start_s)))

    def _keep(self, place: Reservation) -> None:
        self.state.reservations[place.task] = place
        self.state.constrained = True
        self._announce(place.start_s, _RESERVATION, place)

    def _drop(self, task: Task) -> None:
        del self.state.reservations[task]
        self.state.constrained = bool(self.state.reservations)

    def _show(self, task: Task) -> None:
        self._queue.add(task)
        self.state.arrived.append(task)

    def _broken(self, what: str) -> PolicyError:
        return PolicyError(f"{self._who} at {self.state.now:g} s: {what}")
