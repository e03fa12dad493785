"""The ready-pool policies: each task of the ready pool gets its earliest feasible slot.

The heuristics of the dissertation on power-modulated datacenters (University of Virginia, 2023,
chapter 5: QoS, highest value first, shortest job first, first come first served, random). The
ready pool is what the policy sees of the queue, so admission sets its size. At every decision its
tasks are taken in order, and each gets the earliest slot at which it fits through its estimate
next to all that runs and is scheduled, given the capacity that the forecast of power lets expect.
A slot later than the horizon is not taken: the task stays in the ready pool. What has a slot has
left the ready pool for good and makes place for another task there; nothing is moved afterwards.

Where this says more than the dissertation does:

- A scheduled task that does not fit when its time has come (capacity fell short of the forecast,
  another task overran its estimate) goes back to the ready pool.
- Suspended allocations are resumed first, as soon as they fit. While they do not, the first
  place at which they will is kept free for them.
- Of a bag, whose instances need not start together, as many instances as fit get the first place.
- Instead of the order, what a task's slot leaves over may choose (`left-over`), the order settles
  ties; and tasks below a quality of service may be withheld (`least_qos`). Neither is in the
  dissertation, whose agent they are to be compared with.
- When power falls, each policy stops what its own order ranks last (`victims_by`). Two orders can
  differ by this alone, so a fair comparison of orders gives them all one order of victims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Literal, get_args

import numpy as np

from simkit.errors import ScenarioError
from simkit.policies.power_cap import victims_by
from simkit.policy import Action, Place, Resume, State, SystemInfo
from simkit.policy.claims import rest_of
from simkit.policy.kept_profile import KeptProfile, News
from simkit.policy.lane import ChangingOrder, Order
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.room import PlacementRule
from simkit.policy.task import Allocation, Placement, Task, instances_on
from simkit.units import parse_duration, time_on_grid

HORIZON = "48h"
Choice = Literal["order", "left-over"]
"""Who gets the next slot: the first in order, or whose slot leaves the least over."""


def not_negative_s(value: str | float) -> float:
    """Return a duration, or seconds, of at least 0; raises ValueError for others."""
    seconds = parse_duration(value)
    if not 0 <= seconds < inf:
        raise ValueError(f"is {value!r}; it must be at least 0")
    return seconds


class ReadyPool:
    """The rule `ready-pool`: as it decides about the head too, `compose` makes the policy.

    Args:
        horizon: how far ahead tasks are scheduled, a duration or seconds, 0 for starts now alone;
            the dissertation's planning horizon of 48 steps of an hour.
        choose: whose slot is next: the ``order``'s first task, or the one whose slot leaves the
            least over (``left-over``); the order then settles ties.
        per_hour: for ``left-over``, the share of the cluster's resources, added up, that an hour's
            delay counts as much as.
        least_qos: tasks with a lower quality of service are withheld.

    Raises ScenarioError, all problems at once, for arguments that are out of their range.
    """

    def __init__(
        self,
        horizon: str | float = HORIZON,
        choose: Choice = "order",
        per_hour: float = 0.05,
        least_qos: float = 0.0,
    ) -> None:
        self.horizon, self.choose = horizon, choose
        self.per_hour, self.least_qos = per_hour, least_qos
        problems = []
        try:
            self._horizon_s = not_negative_s(horizon)
        except ValueError as error:
            problems.append(f"horizon: {error}")
        if choose not in get_args(Choice):
            problems.append(f"choose is {choose!r}; it must be order or left-over")
        for name, value, most in (("per_hour", per_hour, inf), ("least_qos", least_qos, 1.0)):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (is_number and 0 <= value <= most and value < inf):
                problems.append(f"{name} is {value!r}; it must be a number from 0 to {most:g}")
        if problems:
            raise ScenarioError([f"backfill ready-pool: {text}" for text in problems])

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> ReadyPoolPolicy:
        """Return the policy of this rule with an order and a placement rule."""
        least = self.least_qos
        if self.choose == "left-over":
            return LeastLeftOver(order, self._horizon_s, placement, self.per_hour, least_qos=least)
        return ReadyPoolPolicy(order, self._horizon_s, placement, least_qos=least)


class ReadyPoolPolicy(OrderedPolicy):
    """Gives every task of the ready pool its earliest slot, in order; see the module's text.

    Args:
        order: which task of the ready pool is first.
        horizon_s: how far ahead tasks are scheduled, in s or as a duration.
        placement: which machine first; None: the first that fits.
        victims: the order by which running tasks are stopped, the last first; None: `order`.
        least_qos: tasks with a lower quality of service are withheld.

    Raises ValueError for a horizon below 0.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        horizon_s: str | float = HORIZON,
        placement: PlacementRule | None = None,
        victims: Order | ChangingOrder | None = None,
        least_qos: float = 0.0,
    ) -> None:
        super().__init__(order, None, placement)
        self._victims, self._least_qos = victims or order, least_qos
        self.horizon_s = float(time_on_grid(not_negative_s(horizon_s)))

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self.plan = KeptProfile(overdue_ends=False)
        self._retry_s: dict[Task, float] = {}  # when a task without a slot may get one
        self._next_s = inf  # the first of these, and of the starts of what is kept free

    def victims(self, state: State) -> Sequence[Allocation]:
        """Return what runs, in the order in which it is stopped when supply falls."""
        return victims_by(self._victims, state)

    def schedule(self, state: State) -> Iterator[Action]:
        plan = self.plan
        freed = plan.follow(state) is not News.NONE
        for lane in self._lanes:
            lane.update(state)
        due = state.now >= self._next_s
        if freed or ((due or state.ended) and (plan.held or state.suspended)):
            # What is kept free is let go, and kept again where it is now the best.
            for task in tuple(plan.held):
                plan.let_go(task)
            self._retry_s.clear()
            yield from self._resume(state)
        if freed or due or state.arrived:
            yield from self._fill(state)
            self._note_next(state)
        # Asked again even if nothing changed: an earlier time may have been the one asked for.
        yield from self._wake_at(state, self._next_s)

    def _fill(self, state: State) -> Iterator[Place]:
        """Give slots to the tasks of the ready pool, the first in order first."""
        lanes, known = self._lanes, len(state.arrived)
        row = position = 0
        while row < len(lanes):
            entries = lanes[row].entries
            if position == len(entries):
                row, position = row + 1, 0
                continue
            task = entries[position][3]
            place = self._slot(state, task, lanes[row].rule) if task.waiting else None
            if place is None:
                position += 1
                continue
            yield place
            if not task.waiting:
                lanes[row].drop(task)
            if known < len(state.arrived):
                # Admission let others in, which may come before those that were tried already.
                for lane in lanes:
                    lane.update(state, known)
                known, row, position = len(state.arrived), 0, 0

    def _slot(self, state: State, task: Task, rule: PlacementRule | None) -> Place | None:
        """Return where and when a task starts, or None if it stays in the ready pool."""
        found = self._found(state, task, rule)
        return None if found is None else self._taken(state, task, *found)

    def _found(
        self, state: State, task: Task, rule: PlacementRule | None
    ) -> tuple[float, Placement] | None:
        """Return the slot that a task may have; None: there is none within the horizon."""
        now = state.now
        if self._retry_s.get(task, -inf) > now or task.qos < self._least_qos:
            return None
        found = self.plan.profile.earliest(task, rule)
        if found is None or found[0] > now + self.horizon_s:
            self._retry_s[task] = inf if found is None else found[0] - self.horizon_s
            return None
        return found

    def _taken(self, state: State, task: Task, start: float, on: Placement) -> Place | None:
        """Take a slot in the plan; return the placement, or None if it is only kept free."""
        now, plan = state.now, self.plan
        whole = instances_on(on) == task.remaining
        if start > now and not whole:
            plan.hold(task, start, on)
            self._retry_s[task] = start
            return None
        self._retry_s.pop(task, None)
        plan.take(task, start, on, reserved=start > now)
        return Place(task, on, start if start > now else None)

    def _resume(self, state: State) -> Iterator[Resume]:
        """Resume what fits, the oldest first; keep the next best place free for the others.

        That is the first at which what is left of one fits to its end.
        """
        for resume in resumptions(state, self.placement):
            yield resume
            self.plan.run(next(reversed(state.running)))
        for allocation in state.suspended:
            rest = rest_of(allocation)
            if found := self.plan.profile.earliest(rest, self.placement):
                self.plan.hold(rest, *found)

    def _note_next(self, state: State) -> None:
        """Note when the first task without a slot may get one, or a place that is kept begins."""
        later = [time for time in self._retry_s.values() if time > state.now]
        self._next_s = min([*later, self.plan.next_start(state.now)])

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        if (place := state.reservations.get(task)) is not None:
            return f"it is scheduled to start at {place.start_s:g} s"
        if task.qos < self._least_qos:
            return f"its quality of service is below {self._least_qos:g}"
        if self._retry_s.get(task) == inf:
            return "it fits at no time within the forecast"
        if task in self._retry_s:
            return f"its earliest slot lies more than {self.horizon_s:g} s ahead"
        return super().why(state, task)


class LeastLeftOver(ReadyPoolPolicy):
    """Gives slots to the tasks of the ready pool, next to the one that leaves the least over.

    What is left over is, at the start of a task's earliest slot, the share of each resource that is
    free beside it, added up over the resources; and for each hour until then, `per_hour`.

    Args:
        order: settles ties; see `ReadyPoolPolicy`, as for the others.
        horizon_s: how far ahead tasks are scheduled.
        placement: which machine first.
        per_hour: see above.
        least_qos: tasks with a lower quality of service are withheld.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        horizon_s: str | float = HORIZON,
        placement: PlacementRule | None = None,
        per_hour: float = 0.05,
        least_qos: float = 0.0,
    ) -> None:
        super().__init__(order, horizon_s, placement, least_qos=least_qos)
        self._per_hour = per_hour

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._capacity = np.maximum(info.capacity.sum(axis=0), 1e-12)

    def _fill(self, state: State) -> Iterator[Place]:
        """Give a slot to the task whose slot leaves the least over, as long as there is one."""
        while True:
            best, least = None, inf
            for lane in self._lanes:
                for entry in lane.entries:
                    task = entry[3]
                    found = self._found(state, task, lane.rule) if task.waiting else None
                    if found is not None and (left := self._left_over(state, task, *found)) < least:
                        best, least = (lane, task, found), left
            if best is None:
                return
            lane, task, found = best
            known = len(state.arrived)
            place = self._taken(state, task, *found)
            if place is None:  # its place is kept free; it is tried again when that begins
                continue
            yield place
            if not task.waiting:
                lane.drop(task)
            if known < len(state.arrived):
                for other in self._lanes:
                    other.update(state, known)

    def _left_over(self, state: State, task: Task, start: float, on: Placement) -> float:
        free = np.array(self.plan.profile.total_free(start))
        share = (free - np.array(task.request) * instances_on(on)) / self._capacity
        left = float(share.sum()) + self._per_hour * (start - state.now) / 3600.0
        return round(left, 9)  # equal ones stay equal
