"""A look: which waiting tasks may fit at a decision, in order, and on which machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from simkit.policy import State
from simkit.profile import Profile
from simkit.task import Task
from simkit.waiting_tasks import WaitingTasks

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MISSES = 3  # tasks in a row that do not fit after all, before the rest are sifted again


class Look:
    """The tasks that may fit at a decision, in order, and the machines on which each may.

    Iterating yields (task, machines); machines are rows, ascending, or None for all of them. Tasks
    that no longer fit because of what was placed meanwhile are left out, most of them unseen.
    """

    def __init__(
        self,
        state: State,
        waiting: WaitingTasks,
        allowed: Sequence[Ints | None],
        freed: Ints | None,
        fresh: Ints,
    ) -> None:
        self._state = state
        self._waiting = waiting
        self._allowed = allowed
        known = waiting.slots()
        if freed is None:  # all tasks are looked at on all machines, as newcomers are
            known, fresh, freed = known[:0], known, known[:0]
        elif len(fresh):
            known = np.setdiff1d(known, fresh, assume_unique=True)
        self._freed = freed
        self._freed_of: dict[int, Ints] = {}
        self._fresh = set(fresh.tolist())
        self._slots = self._sift(np.concatenate((known, fresh)), len(known))
        self._profile: Profile | None = None
        self._profile_of = -1

    def __len__(self) -> int:
        """Return how many tasks may fit, as known at the start."""
        return len(self._slots)

    def __iter__(self) -> Iterator[tuple[Task, Ints | None]]:
        waiting, slots, position = self._waiting, self._slots.tolist(), 0
        misses, most = 0, _MISSES
        while position < len(slots):
            slot = slots[position]
            position += 1
            task = waiting[slot]
            if task.waiting:
                left = task.remaining
                yield task, self._machines(slot, task)
                if not task.waiting:
                    misses = 0
                elif task.remaining < left:  # it took all there was
                    misses = most
                else:
                    misses += 1
            if not task.waiting:
                waiting.remove(slot)
            if misses >= most and position < len(slots):
                rest = slots[position:]
                slots, position, misses = self._sifted(rest), 0, 0
                # Gangs that fit in part pass the sieve: where it holds back little, use it less.
                most = _MISSES if 2 * len(slots) < len(rest) else 2 * most

    def all(self) -> Iterator[tuple[Task, Ints | None]]:
        """Yield the same without looking at what is placed meanwhile."""
        for slot in self._slots.tolist():
            if (task := self._waiting.get(slot)) is not None:
                if task.waiting:
                    yield task, self._machines(slot, task)
                else:
                    self._waiting.remove(slot)

    def spare(self, task: Task) -> Floats | None:
        """Return (M, R): what a task may take; what is free, through its estimate if that matters.

        It matters where capacity steps or reservations are known ahead; None if it fits nowhere.
        """
        state = self._state
        if not state.constrained:
            return state.room.free()
        if self._profile is None or self._profile_of != state.starts:
            self._profile, self._profile_of = state.profile(), state.starts
        seen = _Seen()
        on = self._profile.fit(task, state.now, seen)
        if on is None:
            return None
        if seen.free is None:  # a pool of one resource, which needs no rule
            return np.array([task.request]) * on[0][1]
        return seen.free

    def _machines(self, slot: int, task: Task) -> Ints | None:
        if (task.gang and task.instances > 1) or slot in self._fresh:
            return self._allowed[task.partition]
        if task.partition not in self._freed_of:
            allowed, freed = self._allowed[task.partition], self._freed
            if allowed is not None:
                freed = np.intersect1d(freed, allowed, assume_unique=True)
            self._freed_of[task.partition] = freed
        return self._freed_of[task.partition]

    def _sifted(self, slots: list[int]) -> list[int]:
        """Return those that may still fit."""
        rest, fresh = np.array(slots), self._fresh
        if fresh:
            rest = rest[np.argsort([slot in fresh for slot in slots], kind="stable")]
        left: list[int] = self._sift(rest, sum(slot not in fresh for slot in slots)).tolist()
        return left

    def _sift(self, slots: Ints, known: int) -> Ints:
        """Return, in order, which may fit; of the first `known`, where something came free."""
        free, of_partition = self._state.room.free(), self._waiting.of_partition
        if len(self._allowed) == 1 and self._allowed[0] is None:
            return np.sort(self._sift_among(slots[:known], slots[known:], free, None))
        found = [slots[:0]]
        for partition, allowed in enumerate(self._allowed):
            old = of_partition(slots[:known], partition)
            new = of_partition(slots[known:], partition)
            if len(old) or len(new):
                found.append(self._sift_among(old, new, free, allowed))
        return np.sort(np.concatenate(found))

    def _sift_among(self, old: Ints, new: Ints, free: Floats, allowed: Ints | None) -> Ints:
        fitting, freed = self._waiting.fitting, self._freed
        if allowed is not None and len(old):
            freed = np.intersect1d(freed, allowed, assume_unique=True)
        found = fitting(old, free[freed]) if len(old) and len(freed) else old[:0]
        if not len(new):
            return found
        return np.concatenate((found, fitting(new, free if allowed is None else free[allowed])))


class _Seen:
    """A placement rule that takes down what is free through a task's estimate."""

    free: Floats | None = None

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Ints) -> Ints:
        """See `PlacementRule.order`."""
        self.free = free
        return fitting
