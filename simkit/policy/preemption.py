"""Preemption: running tasks of partitions with a lower priority make room for the queue's head.

Which tasks stop follows SLURM's preemption by partition priority (``preempt/partition_prio``): the
lowest priority first, of equals the one that started last (``preempt_youngest_first``), and none
whose place is not needed after all.
"""

from __future__ import annotations

from collections.abc import Iterator

from simkit.policy import Kill, State, Suspend, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule, total_usable
from simkit.policy.task import Allocation, Task
from simkit.units import TIME_GRID


def preempts(info: SystemInfo) -> bool:
    """Return whether any partition lets its tasks be preempted."""
    return any(partition.preempt is not None for partition in info.partitions)


def preemptions(
    state: State, task: Task, rule: PlacementRule | None = None, claims: Claims | None = None
) -> Iterator[Suspend | Kill]:
    """Yield what stops the running tasks whose places a waiting task needs.

    Nothing stops unless the task then fits: now, and through its estimate by all that is known
    ahead, beside the `claims` of what is suspended already. Each stops as its partition's `preempt`
    says.
    """
    partitions = state.info.partitions
    for allocation in victims(state, task, rule, claims):
        mode = partitions[allocation.task.partition].preempt
        if mode in ("requeue", "suspend"):
            yield Suspend(allocation, keep_work=mode == "suspend")
        elif allocation in state.running:  # not yet stopped with other instances of its task
            yield Kill(allocation.task, f"preempted by partition {partitions[task.partition].name}")


def victims(
    state: State, task: Task, rule: PlacementRule | None = None, claims: Claims | None = None
) -> list[Allocation]:
    """Return the running allocations that must stop for a task to start; empty: it cannot start.

    Args:
        state: of the decision; the task does not fit.
        task: a waiting task.
        rule: which machine comes first; None: the first that fits.
        claims: of what is suspended, none of them held yet; None: nothing is.
    """
    candidates = _candidates(state, task)
    for r, (needed, free) in enumerate(zip(task.least, total_usable(state.room), strict=True)):
        if needed > free + sum([allocation.held[r] for allocation in candidates]):
            return []
    without = _Without(state, rule)
    if claims is not None:
        without.keep(claims, task.priority)
    chosen: list[Allocation] = []
    for allocation in candidates:
        without.stop(allocation)
        chosen.append(allocation)
        if without.fits(task):
            break
    else:
        return []
    for allocation in chosen[-2::-1]:  # the last one was needed; the others perhaps not
        without.go_on(allocation)
        if without.fits(task):
            chosen.remove(allocation)
        else:
            without.stop(allocation)
    return chosen


def _candidates(state: State, task: Task) -> list[Allocation]:
    """Return what may stop for a task, in the order in which it would."""
    partitions, machines = state.info.partitions, task.machines
    found = [
        allocation
        for allocation in state.running
        if allocation.task.priority < task.priority
        and partitions[allocation.task.partition].preempt is not None
        and (machines is None or any(machine in machines for machine, _ in allocation.on))
    ]
    return sorted(found, key=lambda allocation: (allocation.task.priority, -allocation.rank))


class _Without:
    """What would be free if some allocations had stopped."""

    def __init__(self, state: State, rule: PlacementRule | None) -> None:
        self._state, self._now, self._rule = state, state.now, rule
        self._room = state.room.copy()
        self._profile: Profile | None = state.profile() if state.constrained else None

    def keep(self, claims: Claims, priority: float) -> None:
        """Keep the places of claims of at least this priority."""
        self._profile = self._profile or self._state.profile()
        claims.hold(self._profile, priority)

    def stop(self, allocation: Allocation) -> None:
        self._room.give(allocation.on, allocation.task.request)
        if self._profile is not None:
            self._profile.give(allocation.on, allocation.task.request, *self._span(allocation))

    def go_on(self, allocation: Allocation) -> None:
        """Take a stop back."""
        self._room.take(allocation.on, allocation.task.request)
        if self._profile is not None:
            self._profile.take(allocation.on, allocation.task.request, *self._span(allocation))

    def _span(self, allocation: Allocation) -> tuple[float, float]:
        """Return from when to when it is expected to hold its place."""
        return self._now, max(allocation.expected_end_s, self._now + TIME_GRID)

    def fits(self, task: Task) -> bool:
        if self._room.fit(task, self._rule) is None:
            return False
        return self._profile is None or self._profile.fit(task, self._now, self._rule) is not None
