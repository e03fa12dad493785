"""Conservative backfilling: every waiting task holds a reservation that nobody may delay.

A. W. Mu'alem and D. G. Feitelson, "Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling" (2001).

- On arrival a task gets the earliest place that the availability profile allows beside all that
  runs and is reserved.
- When resources come free earlier than planned, the waiting tasks are taken one by one in queue
  order, and each moves to its earliest place if that is earlier than its own: once through the
  queue, and never later.
- When the plan cannot hold (a task overran its estimate, a suspended one took its resources
  again, capacity changed without notice), everything is planned anew in queue order.

So no task starts later than it was promised on arrival, as long as estimates are upper bounds and
nothing unforeseen happens. Known capacity steps are in the profile and break no promise.

A bag is reserved in pieces: as many instances as fit at the first instant at which any do, and so
on. A task with an estimate of 0 is planned to last for a tick of the clock (2⁻²⁰ s).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import inf

import numpy as np

from simkit.errors import PolicyError
from simkit.policy import Action, Place, State, SystemInfo, WakeAt
from simkit.policy_bases import ChangingOrder, Entry, Lane, Order, OrderedPolicy, resumptions
from simkit.room import PlacementRule
from simkit.task import Placement, Task
from simkit.units import TIME_GRID

from .plan import Plan


class Conservative:
    """The rule `conservative`: as it decides about the head too, `compose` makes the policy."""

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> ConservativePolicy:
        """Return the policy of this rule with an order and a placement rule."""
        return ConservativePolicy(order, placement)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""

    def fill(self, state: State, lane: Lane) -> Iterator[Place]:
        """Refuse to be asked about the tasks behind the head alone.

        Raises PolicyError.
        """
        raise PolicyError(
            "backfill conservative: it plans the head of the queue, too; "
            "make the policy with Conservative().compose(order, placement)"
        )


class ConservativePolicy(OrderedPolicy):
    """Reserves a place for every waiting task, in order; see the module's text."""

    def __init__(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> None:
        super().__init__(order, None, placement)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """See `Policy.reset`."""
        super().reset(info, rng)
        self.plan = Plan()
        self._wake_s = -inf

    @property
    def promised(self) -> dict[int, float]:
        """Task index → start of the reservation that it got on arrival, until it has ended."""
        return self.plan.promised

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`."""
        if state.suspended:
            yield from resumptions(state, self.placement)
        plan, known = self.plan, 0
        freed = plan.catch_up(state)
        while True:
            for lane in self._lanes:
                lane.update(state)
                if plan.void:
                    plan.add(lane.entries, lane.rule)
                    continue
                if freed:
                    plan.compress(lane.entries, lane.rule, state.now)
                plan.add(lane.in_order(state.arrived[known:]), lane.rule)
            freed, plan.void, known = False, False, len(state.arrived)
            yield from self._start_due(state)
            if known == len(state.arrived):  # or else admission has shown more tasks
                break
        yield from self._wake(state)

    def _start_due(self, state: State) -> Iterator[Action]:
        for task, piece in self.plan.due(state.now):
            if not task.waiting:
                continue  # killed in the meantime
            if not _is_free(state, task, piece.on):
                yield WakeAt(state.now + TIME_GRID)  # it will be late: everything is planned anew
                continue
            lane, entry = self._entry_of(task)
            self.plan.start(task, piece)
            yield Place(task, piece.on)
            if not task.remaining:
                lane.remove(entry)

    def _entry_of(self, task: Task) -> tuple[Lane, Entry]:
        return next((lane, e) for lane in self._lanes for e in lane.in_order([task]))

    def _wake(self, state: State) -> Iterator[WakeAt]:
        """Ask for a decision at the next planned start, unless one is sure to come by then.

        While something overruns, the plan lasts only until it ends or anything else happens.
        """
        ends, start = state.expected_ends, self.plan.next_start(state.now)
        if (ends and ends[0][0] <= state.now) or start == inf:
            return
        if state.now < self._wake_s <= start:
            return  # it is asked for already
        if start in (step.time_s for step in state.steps) or _ends_at(state, start):
            return
        self._wake_s = start
        yield WakeAt(start)

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        pieces = self.plan.pieces.get(task)
        if pieces is None:
            return super().why(state, task)
        return f"it is planned to start at {pieces[0].start_s:g} s"


def _is_free(state: State, task: Task, on: Placement) -> bool:
    """Tell whether a placement fits into what is free at this instant."""
    free = state.free
    return all(
        amount * count <= max(free[machine, r], 0.0)
        for machine, count in on
        for r, amount in enumerate(task.request)
    )


def _ends_at(state: State, time: float) -> bool:
    """Tell whether something that runs is expected to end at that very time."""
    ends = state.expected_ends
    position = bisect_left(ends, (time, 0))
    return position < len(ends) and ends[position][0] == time
