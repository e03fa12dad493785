"""Holding long jobs back, so that some of the machine stays free for short ones.

A reservation of the head keeps long jobs from waiting for ever, but lets them fill the machine:
whatever is short and comes next must wait for the end of one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

import numpy as np

from simkit.errors import ScenarioError
from simkit.policies.orderings import duration_s
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.declared import Signals, declared_signals
from simkit.policy.lane import ChangingOrder, Lane, Order
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.room import PlacementRule
from simkit.policy.task import Task


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
