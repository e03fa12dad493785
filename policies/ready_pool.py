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
from typing import Literal, NamedTuple, get_args

import numpy as np

from simkit.errors import ScenarioError
from simkit.policies.power_cap import victims_by
from simkit.policy import Action, Place, Resume, State, SystemInfo
from simkit.policy.lane import ChangingOrder, Order
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule
from simkit.policy.task import Allocation, Placement, Task, instances_on
from simkit.units import TIME_GRID, parse_duration, time_on_grid


class Hold(NamedTuple):
    """Resources that are taken in the profile for some time."""

    on: Placement
    request: tuple[float, ...]
    start_s: float
    end_s: float


class ReadyPlan:
    """The availability profile, kept from decision to decision.

    What starts and ends as planned changes nothing, an early end or a step with a new forecast
    changes its part, and the profile is rebuilt only where the state differs from the plan.

    A task that runs past its estimate is not expected to end at all until it does: a reservation
    on what it holds would fall due in vain again and again.
    """

    def __init__(self) -> None:
        self.reserved: dict[Task, Hold] = {}
        """Tasks that have left the queue for a place later on; until something of them ends."""
        self._held: list[Hold] = []  # kept free for what waits in no reservation
        self._overdue: set[Allocation] = set()  # that the profile expects never to end
        self._profile: Profile | None = None
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
        several = len(state.info.machine_names) > 1
        unknown = self._profile.known_until <= state.now
        if (resized and several) or unknown or not self._agrees(state):
            self._make(state)
            return True
        if not (state.queue or state.suspended):
            return freed  # nothing needs a plan: the forecast can wait, as it costs time
        steps = list(state.steps_through(self._profile.known_until))
        changed = [step for step in self._profile.steps if step.time_s > state.now] != steps
        if changed:
            self._profile.change_steps(steps)
        return freed or changed

    def _agrees(self, state: State) -> bool:
        """Return whether as much is free now as was planned."""
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
        """Rebuild the profile; reservations and tasks that run are in it."""
        self._profile = profile = state.profile()
        self._held = []
        self._overdue = {a for end, _, a in state.expected_ends if end <= state.now}
        for allocation in self._overdue:
            soon = state.now + TIME_GRID  # when the profile expects them to end
            profile.take(allocation.on, allocation.task.request, soon, inf)
        self.reserved = {
            task: _hold_for(task, place.on, max(place.start_s, state.now))
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
                self.profile.give(*piece)
                freed = True
        return freed

    def run(self, allocation: Allocation) -> None:
        """Note an allocation that was resumed."""
        start, end = allocation.start_time_s, allocation.expected_end_s
        if end <= start:
            self._overdue.add(allocation)
            end = inf
        self.profile.take(allocation.on, allocation.task.request, start, end)

    def take(self, task: Task, on: Placement, start: float) -> Hold:
        """Note a task that starts, or is reserved to start, at that time."""
        piece = _hold_for(task, on, start)
        self.profile.take(*piece)
        return piece

    def hold(self, piece: Hold) -> None:
        """Keep resources free for something until the next decision."""
        self.profile.take(*piece)
        self._held.append(piece)

    def let_go(self) -> None:
        """Keep nothing free any more."""
        for piece in self._held:
            self.profile.give(*piece)
        self._held.clear()


def _hold_for(task: Task, on: Placement, start: float) -> Hold:
    """Return what a task holds that starts at an instant."""
    return Hold(on, task.request, start, start + task.estimate_s)


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
        self.plan = ReadyPlan()
        self._retry_s: dict[Task, float] = {}  # when a task without a slot may get one
        self._held_s: list[float] = []  # when what is kept free begins
        self._next_s = inf  # the first of all these times
        self._left_s: dict[Allocation, float] = {}  # of suspended ones, estimated time to run

    def victims(self, state: State) -> Sequence[Allocation]:
        """Return what runs, in the order in which it is stopped when supply falls."""
        return victims_by(self._victims, state)

    def schedule(self, state: State) -> Iterator[Action]:
        freed = self.plan.catch_up(state)
        for lane in self._lanes:
            lane.update(state)
        due = state.now >= self._next_s
        if state.ended and (state.suspended or self._left_s):
            freed |= self._note_suspended(state)
        if freed or (self._held_s and (due or state.ended)):
            # What is kept free is let go, and kept again where it is now the best.
            self.plan.let_go()
            self._held_s.clear()
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
            self._hold(_hold_for(task, on, start))
            self._retry_s[task] = start
            return None
        self._retry_s.pop(task, None)
        piece = plan.take(task, on, start)
        if start > now:
            plan.reserved[task] = piece
            return Place(task, on, start)
        return Place(task, on)

    def _note_suspended(self, state: State) -> bool:
        """Note what was suspended, with its time left, or killed; return whether anything was."""
        before = len(self._left_s)
        self._left_s = {a: left for a, left in self._left_s.items() if a in state.suspended}
        changed = len(self._left_s) < before
        for allocation in state.ended:
            if allocation in state.suspended:
                self._left_s[allocation] = max(allocation.expected_end_s - state.now, 0.0)
                changed = True
        return changed

    def _resume(self, state: State) -> Iterator[Resume]:
        """Resume what fits, the oldest first; keep the next best place free for the others."""
        for resume in resumptions(state, self.placement):
            yield resume
            self._left_s.pop(resume.allocation, None)
            self.plan.run(next(reversed(state.running)))
        for allocation in state.suspended:
            self._keep_free(state, allocation)

    def _keep_free(self, state: State, allocation: Allocation) -> None:
        """Hold the first place at which a suspended allocation fits to its end."""
        task = allocation.task
        left = self._left_s.get(allocation, task.estimate_s)
        machines = task.machines if task.gang else tuple([machine for machine, _ in allocation.on])
        rest = Task(
            task.index, task.job_index, task.submit_time_s, task.request, allocation.count,
            estimate_s=left, machines=machines,
        )  # fmt: skip
        if found := self.plan.profile.earliest(rest, self.placement):
            self._hold(_hold_for(rest, found[1], found[0]))

    def _hold(self, piece: Hold) -> None:
        """Keep a place free until the next decision, which is due when the place begins."""
        self.plan.hold(piece)
        self._held_s.append(piece.start_s)

    def _note_next(self, state: State) -> None:
        """Note when the first task without a slot may get one, or a place that is kept begins."""
        asked = (*self._retry_s.values(), *self._held_s)
        later = [time for time in asked if time > state.now]
        self._next_s = min(later, default=inf)

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
