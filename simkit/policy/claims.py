"""The claims of what is suspended: the places where it will go on, kept from what comes after it.

A suspended allocation goes on as soon as it fits, by what is expected to end and to change: where
it ran, or, a gang of a partition that does not pause its tasks, on any machines. That place is its
claim, for as long as it would still run by its estimate. A task of an equal or lower priority
starts only beside the claims. What will fit at no known time claims nothing.

    claims = Claims(state, rule)
    claims.hold(profile, task.priority)  # those that count for this task
    on = profile.fit(task, state.now, rule)
"""

from __future__ import annotations

from collections.abc import Callable, Container
from math import inf

from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule
from simkit.policy.state import State
from simkit.policy.task import Allocation, Placement, Task

Held = Callable[[Allocation, float], None]
"""Told of a claim that is held: the allocation, and when it will go on, in s."""


class Claims:
    """The claims at a decision, held in a profile as tasks of a lower priority have their turn.

    The allocations with a higher partition priority come first, of equals the one that was
    suspended first. Tasks have their turn in the same order, so that each is met by the claims of
    its own and of higher priorities alone.

    Args:
        state: the state at the decision; what can go on now has been resumed.
        rule: which machine first, for gangs that may go on elsewhere.
        partitions: rows of those whose allocations count; None: all.
        but: suspended allocations without a claim.
        from_now: whether a place is kept from now on, not from when it is needed: without
            backfilling nothing starts there that would be gone by then.
        held: told of every claim that is held.
    """

    def __init__(
        self,
        state: State,
        rule: PlacementRule | None = None,
        partitions: Container[int] | None = None,
        *,
        but: Container[Allocation] = (),
        from_now: bool = False,
        held: Held | None = None,
    ) -> None:
        self._state, self._rule, self._from_now, self._held = state, rule, from_now, held
        waiting = [
            allocation
            for allocation in state.suspended
            if allocation not in but
            and (partitions is None or allocation.task.partition in partitions)
        ]
        waiting.sort(
            key=lambda a: a.task.priority, reverse=True
        )  # stable: of equals the oldest stays first
        self._waiting = waiting[::-1]  # the last one is next

    def hold(self, profile: Profile, priority: float = -inf) -> None:
        """Hold the claims of at least a priority that have not been held yet in a profile."""
        waiting, now = self._waiting, self._state.now
        while waiting and waiting[-1].task.priority >= priority:
            allocation = waiting.pop()
            found = goes_on_at(profile, self._state, allocation, self._rule)
            if found is None:
                continue
            start, on = found
            since = now if self._from_now else start
            profile.take(on, allocation.task.request, since, start + allocation.left_s)
            if self._held is not None:
                self._held(allocation, start)


def goes_on_at(
    profile: Profile, state: State, allocation: Allocation, rule: PlacementRule | None = None
) -> tuple[float, Placement] | None:
    """Return the first instant at which a suspended allocation fits, and where; None: never.

    It prefers the machines on which it ran if others are free at that instant. Its work is kept,
    so it goes on even if it will have to pause again.
    """
    there = _again_where_it_ran(profile, allocation)
    if stays_where_it_ran(state, allocation.task):
        return there
    whole = _stand_in(allocation, allocation.count, allocation.task.machines)
    found = profile.earliest(whole, rule)
    if found is not None and (there is None or found[0] < there[0]):
        return found
    return there


def rest_of(allocation: Allocation) -> Task:
    """Return what is left of a suspended allocation, as a task that runs without a pause."""
    task = allocation.task
    machines = task.machines if task.gang else tuple([machine for machine, _ in allocation.on])
    return _stand_in(allocation, allocation.count, machines, allocation.left_s)


def stays_where_it_ran(state: State, task: Task) -> bool:
    """Return whether a task, once suspended, can go on only on the machines on which it ran.

    So do bags, and what partitions pause, as on a real machine, whose memory it still fills.
    """
    return not task.gang or state.info.partitions[task.partition].preempt == "suspend"


def _again_where_it_ran(profile: Profile, allocation: Allocation) -> tuple[float, Placement] | None:
    """Return the first instant at which all its places are free together, and these; or None."""
    parts = [_stand_in(allocation, count, (machine,)) for machine, count in allocation.on]
    start, agreed = None, 0  # how many parts, one after the other, fit at `start`
    while True:
        for part in parts:
            if (found := profile.earliest(part, None, start)) is None:
                return None
            agreed = agreed + 1 if found[0] == start else 1
            start = found[0]
            if agreed == len(parts):
                return start, allocation.on


def _stand_in(
    allocation: Allocation, count: int, machines: tuple[int, ...] | None, run_s: float = 0.0
) -> Task:
    """Return some of its instances as a task that runs for a time, on some machines."""
    task = allocation.task
    return Task(
        task.index, task.job_index, task.submit_time_s, task.request, count, estimate_s=run_s,
        machines=machines,
    )  # fmt: skip
