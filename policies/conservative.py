"""Conservative backfilling: every waiting task holds a reservation that no other task may delay.

A. W. Mu'alem and D. G. Feitelson, "Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling" (2001).

- On arrival a task gets the earliest place that the availability profile allows next to all that
  runs and is reserved.
- When resources come free earlier than planned, the waiting tasks are taken one by one, and each
  moves to its earliest place if that is earlier than its own: once through all, and never later.
  They are taken in queue order; with ``compress="completion"`` in the order of their planned
  starts.
- What is suspended has its place before tasks of an equal or lower priority
  (`simkit.policy.claims`).
- When the plan cannot hold (a task overran its estimate, one was suspended or took its resources
  again, capacity changed without notice), everything is planned again in queue order.
- Where each partition has a machine that it shares with no other, or only with such as have no
  other, each such pool has a plan of its own.

So no task starts later than it was promised on arrival, as long as estimates are upper bounds and
nothing unforeseen happens. Known capacity steps are in the profile and break no promise.

A bag is reserved in pieces: as many instances as fit at the first instant at which any do, and so
on. A task with an estimate of 0 is planned to last for a tick of the clock (2⁻²⁰ s).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from operator import itemgetter
from typing import Literal

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.policy import Action, Place, State, SystemInfo, WakeAt
from simkit.policy.claims import Claims
from simkit.policy.declared import PoolRule, Signals, declared_signals, pool_rule_of
from simkit.policy.kept_profile import KeptProfile, News
from simkit.policy.lane import ChangingOrder, Entry, Lane, Order, Passing
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.profile import Hold, PoolProfile, Profile
from simkit.policy.room import PlacementRule
from simkit.policy.task import Allocation, Task, at_most, instances_on
from simkit.units import TIME_GRID


class ReservationPlan(KeptProfile):
    """The kept profile with a place for every waiting task; a gang has one, a bag may have several.

    It is void if it cannot be kept: then it has no places, and all must be found again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bags = False  # whether anything held is a bag's
        self.promised: dict[int, float] = {}
        self.void = True
        self._paused: list[Allocation] = []  # what was suspended when it was made
        self._claims: dict[Lane, Claims] = {}
        self._next_claim_s = inf  # when the first of these should go on

    def catch_up(self, state: State) -> bool:
        """Take in what has happened; return whether something came free earlier than planned."""
        more = self._forget_ended(state)
        news = self.follow(state)
        freed, self.void = more or news is News.FREED, news > News.FREED
        if self._paused or state.suspended:
            self._note_claims(state, freed)
        if self.void:
            if news is not News.ANEW:
                self.make(state)
            self._bags = False
        return freed

    def _forget_ended(self, state: State) -> bool:
        """Forget the promises to what has ended; return whether a bag is to be planned again."""
        again = False
        for allocation in state.ended:
            task = allocation.task
            holds = self.held.get(task)
            if holds is None:
                self.promised.pop(task.index, None)  # if it starts over, it gets a new one
            elif sum(instances_on(hold.on) for hold in holds) != task.remaining:
                self.let_go(task)  # a bag with more to do now
                again = True
        return again

    def _note_claims(self, state: State, freed: bool) -> None:
        """Give up the plan if other allocations are suspended now, or if some may go on sooner."""
        paused = list(state.suspended)
        self.void |= freed or paused != self._paused or self._next_claim_s <= state.now
        if self.void:
            self._paused, self._next_claim_s = paused, inf
            self._claims.clear()

    def claims(self, state: State, lane: Lane) -> Claims | None:
        """Return the claims of what is suspended of a lane's partitions; None: nothing is."""
        if self._paused and lane not in self._claims:
            claims = Claims(state, lane.rule, lane.partitions, held=self._expect_claim)
            self._claims[lane] = claims
        return self._claims.get(lane)

    def _expect_claim(self, _: Allocation, start_s: float) -> None:
        self._next_claim_s = min(self._next_claim_s, start_s)

    def has_step_at(self, time: float) -> bool:
        """Return whether capacity changes at that time, as far as is known."""
        return any(step.time_s == time for step in self.profile.steps)

    def add(
        self, entries: Sequence[Entry], rule: PlacementRule | None, claims: Claims | None = None
    ) -> None:
        """Reserve a place for tasks that have none, in the order given, beside the claims."""
        for entry in entries:
            task = entry[3]
            if task.waiting and task not in self.held:
                if claims is not None:
                    claims.hold(self.profile, task.priority)
                self._reserve(task, rule)

    def compress(self, entries: Sequence[Entry], rule: PlacementRule | None, now: float) -> None:
        """Move every task to an earlier place if there is one, in the order given."""
        for task in [task for task in self.held if not task.waiting]:
            self.let_go(task)  # killed while it waited
            self.promised.pop(task.index, None)
        tasks = [entry[3] for entry in entries]
        search = None
        if not self._bags:
            starts = np.array([self.start_of(task) for task in tasks])
            search = earlier_starts(self.profile, tasks, starts)
        for row in range(len(tasks)) if search is None else search:
            left = self._move_up(tasks[row], rule, now)
            if left is not None and search is not None:
                search.left(row, left.start_s, left.end_s)

    def _move_up(self, task: Task, rule: PlacementRule | None, now: float) -> Hold | None:
        """Move a task to an earlier place if there is one; return the place that a gang leaves."""
        holds = self.held.get(task)
        if holds is None:
            if task.waiting:
                self._reserve(task, rule)
        elif not task.gang:
            self.let_go(task)
            self._reserve(task, rule)
        elif (own := holds[0]).start_s > now and (
            found := self.profile.earlier(task, own.start_s, own.on, rule)
        ):
            self.let_go(task)
            self.hold(task, *found)
            return own
        return None

    def by_start(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return entries in order of planned start, ties as given; those without one come last."""
        return sorted(entries, key=lambda entry: self.start_of(entry[3]))

    def start_of(self, task: Task) -> float:
        """Return when the first of a waiting task is planned to start, in s; inf: never."""
        holds = self.held.get(task)
        return holds[0].start_s if holds else inf

    def _reserve(self, task: Task, rule: PlacementRule | None) -> None:
        """Plan the waiting instances of a task at the earliest, those that will ever fit."""
        left, after = task.remaining, None
        self._bags = self._bags or not task.gang
        while left and (found := self.profile.earliest(task, rule, after)) is not None:
            after, on = found
            on = at_most(on, left)
            self.hold(task, after, on)
            left -= instances_on(on)
        if task in self.held:
            self.promised.setdefault(task.index, self.start_of(task))


class EarlierStarts:
    """The rows of planned gangs that may start earlier in a pool of one resource, in order.

    A gang may if there is a span of time before its start, with as much free as it asks for, that
    is as long as its estimate or reaches to its start (from where on it has its own place). While
    the rows are gone through, tasks leave their places; `left` then marks those behind, for which
    such a place makes a span. That a row is yielded is necessary, not sufficient: what has moved
    up may stand in its way.

    Args:
        profile: with the places of all tasks in it; it is looked at again at every `left`.
        tasks: the waiting gangs, in the order in which they move up.
        start_s: (n,) their planned starts; infinity for those without one, which are all yielded.
    """

    def __init__(self, profile: PoolProfile, tasks: Sequence[Task], start_s: Floats) -> None:
        self._profile, self._start_s = profile, start_s
        self._estimate_s = np.array([task.estimate_s for task in tasks])
        self._may = np.isinf(start_s)
        amounts = np.array([task.demand[0] for task in tasks])
        self._rows = {amount: np.flatnonzero(amounts == amount) for amount in set(amounts.tolist())}
        for amount, rows in self._rows.items():
            self._mark_any(rows, np.array(profile.spans(amount)).reshape(-1, 2).T)

    def __iter__(self) -> Iterator[int]:
        may, row = self._may, 0
        while row < len(may) and may[found := row + int(may[row:].argmax())]:
            yield found
            row = found + 1

    def left(self, row: int, begin: float, end: float) -> None:
        """Take note that the task of a row has left a place that it had from begin to end, in s."""
        most = self._profile.most_free(begin, end)
        for amount, rows in self._rows.items():
            if amount <= most and len(behind := rows[np.searchsorted(rows, row + 1) :]):
                own, estimate = self._start_s[behind], self._estimate_s[behind]
                for start, stop in self._profile.spans(amount, begin, end):
                    serves = (own > start) & ((estimate <= stop - start) | (own <= stop))
                    self._may[behind[serves]] = True

    def _mark_any(self, rows: Ints, spans: Floats) -> None:
        """Mark the rows that one of (2, S) spans, in order, lets start earlier."""
        starts, ends = spans
        if not len(starts):
            return
        own = self._start_s[rows]
        longest = np.maximum.accumulate(ends - starts)
        long_enough = np.append(starts, np.inf)[np.searchsorted(longest, self._estimate_s[rows])]
        before = np.searchsorted(starts, own) - 1  # the last span that begins before its start
        reaches = (before >= 0) & (ends[before] >= own)
        self._may[rows] |= (long_enough < own) | reaches


def earlier_starts(
    profile: Profile, gangs: Sequence[Task], start_s: Floats
) -> EarlierStarts | None:
    """Return the search, or None where it does not serve: for machines and several resources."""
    if not isinstance(profile, PoolProfile) or len(profile.total_free(0.0)) > 1:
        return None
    return EarlierStarts(profile, gangs, start_s)


Compression = Literal["queue", "completion"]
"""In which order tasks move up: that of the queue, or of their planned starts."""


class Conservative:
    """The rule `conservative`: as it decides about the head too, `compose` makes the policy."""

    def __init__(self, compress: Compression = "queue") -> None:
        """Move tasks up in the queue's order, or in that of their planned starts.

        Raises ScenarioError for another order.
        """
        if compress not in ("queue", "completion"):
            raise ScenarioError(
                "conservative takes compress: queue (tasks move up in queue "
                "order) or completion (in the order of their planned starts), "
                f"not {compress!r}"
            )
        self._compress: Compression = compress

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> ConservativePolicy:
        """Return the policy of this rule with an order and a placement rule."""
        return ConservativePolicy(order, placement, self._compress)


class ConservativePolicy(OrderedPolicy):
    """Reserves a place for every waiting task, in order; see the module's text."""

    def __init__(
        self,
        order: Order | ChangingOrder,
        placement: PlacementRule | None = None,
        compress: Compression = "queue",
    ) -> None:
        super().__init__(order, None, placement)
        self._by_start = compress == "completion"

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        shared = ReservationPlan()
        self._pools = all(lane.machine is not None for lane in self._lanes)
        self._plans = {lane: ReservationPlan() if self._pools else shared for lane in self._lanes}

    @property
    def signals(self) -> Signals | None:
        return declared_signals(self.order)

    def decision_rule(self) -> PoolRule | str:
        return pool_rule_of(self, ConservativePolicy, "all, by start" if self._by_start else "all")

    @property
    def passing(self) -> Passing:
        """A task passes those that it does not delay: each of them has its place."""
        return "all" if type(self).schedule is ConservativePolicy.schedule else "own"

    def planned(self) -> dict[Task, float]:
        """Return when each waiting task is planned to start, in s; `simkit explain` asks for it."""
        return {
            task: plan.start_of(task)
            for plan in dict.fromkeys(self._plans.values())
            for task in plan.held
            if task.waiting
        }

    @property
    def promised(self) -> dict[int, float]:
        """Task index → start of the reservation that it got on arrival, until it has ended."""
        return {index: at for plan in self._plans.values() for index, at in plan.promised.items()}

    def schedule(self, state: State) -> Iterator[Action]:
        if state.suspended:
            yield from resumptions(state, self.placement)
        known = 0
        plans = {
            plan: lane.pool(state) if self._pools else state for lane, plan in self._plans.items()
        }
        freed = {plan: plan.catch_up(pool) for plan, pool in plans.items()}
        while True:
            for lane, plan in self._plans.items():
                lane.update(state)
                claims = plan.claims(plans[plan], lane)
                if plan.void:
                    plan.add(lane.entries, lane.rule, claims)
                    continue
                if freed[plan]:
                    entries = plan.by_start(lane.entries) if self._by_start else lane.entries
                    plan.compress(entries, lane.rule, state.now)
                plan.add(lane.in_order(state.arrived[known:]), lane.rule, claims)
            for plan in plans:
                freed[plan] = plan.void = False
            known = len(state.arrived)
            yield from self._start_due(state, plans)
            if known == len(state.arrived):  # or else admission has shown more tasks
                break
        for plan, pool in plans.items():
            yield from self._wake(pool, plan)

    def _start_due(self, state: State, plans: Iterable[ReservationPlan]) -> Iterator[Action]:
        due = [
            (hold.start_s, hold.task.index, plan, hold)
            for plan in plans
            for hold in plan.due(state.now)
        ]
        for _, _, plan, hold in sorted(due, key=itemgetter(0, 1)):
            task, on = hold.task, hold.on
            if not task.waiting:
                continue  # killed in the meantime
            if not state.room.copy().claim(on, task.request):
                yield WakeAt(state.now + TIME_GRID)  # it will be late: everything is planned again
                continue
            plan.start(hold)
            yield Place(task, on)
            if not task.remaining:
                self._lane_of[task.partition].drop(task)

    def _wake(self, state: State, plan: ReservationPlan) -> Iterator[WakeAt]:
        """Ask for a decision at the next planned start, unless one is sure to come by then.

        While something overruns, the plan lasts only until it ends or anything else happens.
        """
        ends, start = state.expected_ends, plan.next_start(state.now)
        if (ends and ends[0][0] <= state.now) or start == inf:
            return
        if plan.has_step_at(start) or ends.has(start):
            return
        yield from self._wake_at(state, start)

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        plan = self._plans[self._lane_of[task.partition]]
        if task not in plan.held:
            return super().why(state, task)
        return f"it is planned to start at {plan.start_of(task):g} s"
