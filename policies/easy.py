"""EASY backfilling, and none: tasks may overtake the head of the queue if they do not delay it.

`Hold` also holds long jobs back, so that some of the machine stays free for short ones. A
reservation of the head keeps long jobs from waiting for ever, but lets them fill the machine:
whatever is short and comes next must wait for the end of one of them.

Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling"
(2001).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Literal

import numpy as np

from simkit.errors import ScenarioError
from simkit.policies.orderings import duration_s
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import (
    Claims,
    Gap,
    PlaceOnMachines,
    instances_within,
    look_ahead,
    profile_around,
)
from simkit.policy.declared import NO_SIGNALS, Overtaking, Signals, declared_signals
from simkit.policy.lane import LONG, ChangingOrder, Lane, Order, Passing, by_estimate
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.room import PlacementRule, total_usable
from simkit.policy.task import Task


class Easy:
    """Aggressive backfilling with one reservation, for the head of the queue.

    The *shadow time* is the earliest expected end of running tasks at which the head fits; what is
    then free after the head has started, with every release at that instant, are the *extra* nodes.
    A waiting task, tried in queue order, starts if it fits now and either ends by the shadow time
    (now + estimate ≤ shadow time) or fits into the extra nodes, which it then reduces.

    With ``order="sjf"`` they are tried by ascending estimate instead, those of partitions with a
    higher priority first: shortest job backfilled first. D. Tsafrir, Y. Etsion and D. G. Feitelson,
    "Backfilling using system-generated predictions rather than user runtime estimates" (2007).

    With reservations or known capacity changes ahead, or while something is suspended, the same is
    done in the availability profile: what is suspended and the head are given their earliest
    places, and tasks that fit next to them now start.
    """

    signals = NO_SIGNALS
    passing: Passing = "head"

    @property
    def overtaking(self) -> Overtaking:
        """Who may pass the head, for the policy's `decision_rule`."""
        return "head, shortest first" if self._shortest_first else "head"

    def __init__(self, order: Literal["queue", "sjf"] = "queue") -> None:
        """Try waiting tasks in the queue's order, or the shortest first.

        Raises ScenarioError for another order.
        """
        if order not in ("queue", "sjf"):
            raise ScenarioError(
                f"easy takes the order queue or sjf, not {order!r}; the order of "
                "the queue itself is policy.order"
            )
        self._shortest_first = order == "sjf"

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._last: dict[Lane, _Last] = {}

    def fill(self, state: State, lane: Lane) -> Iterable[Place]:
        if lane.machine is not None:
            state = state.pool(lane.machine)
        if (last := self._last.get(lane)) is None:
            last = self._last[lane] = _Last(pool=state.info.capacity.size == 1)
        if state.constrained or lane.claims is not None:
            return self._fill_profile(state, lane, last)
        if not last.pool:
            return self._fill_machines(state, lane, last)
        free = state.room.total_free()[0]
        return self._fill_pool(state, lane, last, free) if free > 0 else ()

    def _fill_pool(self, state: State, lane: Lane, last: _Last, free: float) -> Sequence[Place]:
        """One machine, one resource: two numbers decide, and no placement changes more than them.

        They are worked out when the first task turns up that fits into what is free. Returns the
        placements; their tasks have left the lane.
        """
        gap, head, chosen = last.gap, lane.head, []
        tried = head, state.starts, state.releases, False
        if tried == last.tried and state.now <= last.shadow_s:
            gap.slack_s = last.shadow_s - state.now
            tasks = self._as_tried(lane.newcomers())
        else:
            tasks = self._behind_head(state, lane, last, free)
        slack, spare = gap.slack_s, gap.spare
        for task in tasks:
            demand = task.least[0]
            if demand > free:
                continue
            if not last.looked_ahead:
                last.shadow_s, last.looked_ahead = look_ahead(state, head, gap), True
                slack, spare = gap.slack_s, gap.spare
            overtakes = task.estimate_s > slack  # it would still run when the head starts
            if overtakes and demand > spare:
                continue
            count = task.instances
            if not task.gang:
                count = instances_within(task, min(free, spare) if overtakes else free)
                demand *= count
            if overtakes:
                gap.spare = spare = spare - demand
            free -= demand
            gap.free = (free,)
            chosen.append((task, count))
            if free <= 0:
                break
        last.tried = tried
        if not chosen:
            return ()
        last.tried = head, state.starts + len(chosen), state.releases, False
        return [_leave(lane, task, count) for task, count in chosen]

    def _behind_head(self, state: State, lane: Lane, last: _Last, free: float) -> Iterable[Task]:
        """Return the tasks behind the head of a pool's lane; the gap is a new one."""
        gap = last.gap
        last.shadow_s, last.looked_ahead = inf, False
        gap.free, gap.slack_s, gap.spare = (free,), inf, inf
        if len(lane) >= LONG:  # most are passed over by arrays, if they are told the gap
            last.shadow_s, last.looked_ahead = look_ahead(state, lane.head, gap), True
        return lane.fitting(gap, shortest_first=self._shortest_first)

    def _fill_machines(self, state: State, lane: Lane, last: _Last) -> Iterator[Place]:
        """Any number of machines and resources."""
        head = lane.head
        place = last.place
        if (
            place is not None
            and last.tried == (head, state.starts, state.releases, False)
            and state.now <= place.shadow_s
        ):
            tasks = self._as_tried(lane.newcomers())
        else:
            last.place = place = PlaceOnMachines(state, head, lane.rule)
            # Behind the head, those that fit into what all machines have free together.
            gap = Gap(total_usable(state.room))
            tasks = lane.fitting(gap, shortest_first=self._shortest_first)
        started = []
        for task in tasks:
            if task is not head and (on := place.fit(task)) is not None:
                yield Place(task, on)
                place.hold(task, on)
                started.append(task)
        _drop(lane, started)
        last.tried = head, state.starts, state.releases, False

    def _as_tried(self, tasks: Iterable[Task]) -> Iterable[Task]:
        """Return tasks in the lane's order in the order in which they are tried."""
        return sorted(tasks, key=by_estimate) if self._shortest_first else tasks

    def _fill_profile(self, state: State, lane: Lane, last: _Last) -> Iterator[Place]:
        """The general form, with everything that is known ahead."""
        gap, profile, started = Gap(total_usable(state.room)), None, []
        claims = lane.claims
        tried = lane.head, state.starts, state.releases, True
        if tried == last.tried:
            tasks = self._as_tried(lane.newcomers())
        else:
            tasks = lane.fitting(gap, shortest_first=self._shortest_first)
        for task in tasks:
            if (last.pool and not gap.admits(task)) or state.fit(task, lane.rule) is None:
                continue
            if profile is None:  # most decisions end before they need one
                profile, lane.profile = lane.profile or state.profile(), None
                if claims is not None:
                    claims.hold(profile, lane.head.priority)
                profile_around(profile, lane.head, lane.rule)
                gap.least = profile.least_free()
            if claims is not None:
                claims.hold(profile, task.priority)
            if (fitting := profile.fit(task, state.now, lane.rule)) is not None:
                yield Place(task, fitting)
                profile.hold(task, fitting, state.now)
                gap.least = profile.least_free()
                started.append(task)
        _drop(lane, started)
        last.tried = tried if profile is None else None  # with time, more fits into a profile


@dataclass(eq=False, slots=True)
class _Last:
    """What was found when the tasks of a lane were last tried."""

    pool: bool
    """Whether one machine with one resource is all that the lane has."""
    tried: tuple[Task, int, int, bool] | None = None
    """The head, `starts`, `releases` and `constrained` when all tasks were tried in vain; while
    they are the same, whatever could not overtake the head then cannot now."""
    shadow_s: float = inf
    gap: Gap = field(default_factory=lambda: Gap(()))
    """Of a pool."""
    looked_ahead: bool = False
    """Whether shadow time and gap are known."""
    place: PlaceOnMachines | None = None
    """Of the head, on machines."""


def _leave(lane: Lane, task: Task, count: int) -> Place:
    """Return the placement of a task in a pool; it leaves the lane if nothing of it remains."""
    if count == task.remaining:
        lane.drop(task)
    return Place(task, ((lane.machine or 0, count),))


def _drop(lane: Lane, tasks: Iterable[Task]) -> None:
    """Take those out of the lane that have been placed whole."""
    for task in tasks:
        if not task.remaining:
            lane.drop(task)


def no_backfill() -> None:
    """Return no rule: while the head does not fit, nothing behind it starts."""


class Hold:
    """The rule behind ``backfill: hold``: which tasks are passed over, by two numbers.

    Args:
        longer_than: tasks with a longer requested time (or estimate, where nothing was requested)
            may be held; a duration or seconds.
        keep_free: the share of all processors, in [0, 1), that must stay free after such a task
            has started, while anything else runs.
        backfilling: whether tasks behind a head that does not fit may start, by EASY's rule.

    Raises ScenarioError for an invalid duration or share.
    """

    def __init__(
        self, longer_than: str | float = "1h", keep_free: float = 0.2, backfilling: bool = True
    ) -> None:
        if not (isinstance(keep_free, (int, float)) and 0 <= keep_free < 1):
            raise ScenarioError(
                f"hold: keep_free is {keep_free!r}; it must be a share of all processors, "
                "at least 0 and below 1"
            )
        self.longer_than = longer_than
        self.longer_than_s = duration_s("hold: longer_than", longer_than)
        self.keep_free = keep_free
        self.backfilling = backfilling

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> HoldPolicy:
        """Return the policy of this rule with an order and a placement rule."""
        return HoldPolicy(order, self, placement)


class HoldPolicy(OrderedPolicy):
    """Starts tasks in order and backfills as EASY does, but passes over tasks that are held.

    A task is held while anything runs, if it is longer than the rule's `longer_than` and fewer than
    `keep_free` of all processors would stay free after its start. It is neither the head, for which
    a place is kept, nor backfilled. So a task that asks for more than the rest of the machine waits
    until nothing runs, however long that takes. All instances left of a bag count.

    The first task that is not held and does not fit is the head. It gets its earliest place in the
    availability profile, and tasks behind it that are not held start if they fit next to it. What
    is suspended keeps its place, as in `simkit.policy.claims`.

    Args:
        order: which task comes first.
        rule: which tasks are held.
        placement: which machine first; None: the first that fits.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        rule: Hold,
        placement: PlacementRule | None = None,
    ) -> None:
        super().__init__(order, None, placement)
        self.rule = rule

    @property
    def signals(self) -> Signals | None:
        return declared_signals(self.order)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        share = self.rule.keep_free * float(info.capacity[:, 0].sum())
        self._keep_free = round(share, 9)  # 0.55 of 100 is 55, not a trace more

    def schedule(self, state: State) -> Iterator[Action]:
        for lane in self._lanes:
            lane.update(state)
        if state.suspended:
            yield from resumptions(state, self.placement)
        for _ in self._rounds(state):
            for lane in self._lanes:
                yield from self._start_tasks(state, lane)

    def _start_tasks(self, state: State, lane: Lane) -> Iterator[Place]:
        paused = len(state.suspended) > 0
        profile = state.profile() if (state.constrained or paused) and len(lane) else None
        claims = None
        if paused:
            from_now = not self.rule.backfilling
            claims = Claims(state, lane.rule, lane.partitions, from_now=from_now)
        blocked = False  # whether the head has been found
        for entry in tuple(lane.entries):
            task = entry[3]
            if not task.waiting or self._is_held(state, task):
                continue
            if claims is not None and profile is not None:
                claims.hold(profile, task.priority)
            on = state.fit(task, lane.rule)
            if on is not None and profile is not None:  # it must fit through its estimate, too
                on = profile.fit(task, state.now, lane.rule)
            if on is not None:
                yield Place(task, on)
                if profile is not None:
                    profile.hold(task, on, state.now)
                if not task.waiting:
                    lane.drop(task)
                    continue
            if blocked:
                continue
            if not self.rule.backfilling:
                return
            blocked, profile = True, profile or state.profile()
            if found := profile.earliest(task, lane.rule):
                start, place = found
                profile.hold(task, place, start)

    def _is_held(self, state: State, task: Task) -> bool:
        requested = task.requested_time_s
        if (task.estimate_s if isnan(requested) else requested) <= self.rule.longer_than_s:
            return False
        left = state.room.total_free()[0] - task.request[0] * task.remaining
        return left < self._keep_free and bool(state.running)

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        if task.waiting and self._is_held(state, task):
            return (
                f"it is held: it requests more than {self.rule.longer_than}, and fewer than "
                f"{self._keep_free:g} processors would stay free after its start"
            )
        return super().why(state, task)
