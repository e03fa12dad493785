"""The base of policies that place until nothing more fits; it tries only where something may fit.

After a decision no waiting task fits anywhere. So at the next one, newcomers are tried on all
machines, and the others only on machines where something has come free. A task that does not fit
does not block others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.lane import ChangingOrder, Line, Order
from simkit.policy.ordered import resumptions
from simkit.policy.profile import Profile
from simkit.policy.task import Task
from simkit.policy.waiting import WaitingTasks

_MISSES = 3  # tasks in a row that do not fit after all, before the rest are sifted again


class FitSearch:
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
        self.ahead = state.constrained or len(state.suspended) > 0
        """Whether what fits now may still collide later: with what is known ahead, or a claim."""
        self._waiting = waiting
        self._allowed = allowed
        self._on_any_machine = freed is None or len(fresh) > 0
        if freed is None:  # all tasks are tried on all machines, as newcomers are
            fresh, freed = waiting.slots(), np.empty(0, np.int64)
        self._freed = freed
        self._freed_of: dict[int, Ints] = {}
        self._fresh = set(fresh.tolist())
        self._profile: Profile | None = None
        self._profile_of = -1

    @cached_property
    def _slots(self) -> Ints:
        """(n,) slots of the tasks that may fit."""
        fresh = np.array(sorted(self._fresh), np.int64)
        known = np.setdiff1d(self._waiting.slots(), fresh, assume_unique=True)
        return self._sift(np.concatenate((known, fresh)), len(known))

    @property
    def unrestricted(self) -> bool:
        """Whether any task may start on any machine where it fits now."""
        return not self.ahead and len(self._allowed) == 1 and self._allowed[0] is None

    def machines(self) -> Ints | None:
        """Return the rows of all machines where something may fit; None: any."""
        return None if self._on_any_machine else self._freed

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

    def snapshot(self) -> Iterator[tuple[Task, Ints | None]]:
        """Yield the same without looking at what is placed meanwhile."""
        for slot in self.slots().tolist():
            task = self._waiting[slot]
            yield task, self._machines(slot, task)

    def slots(self) -> Ints:
        """Return the slots of the same tasks, in order."""
        return self._waiting.waiting(self._slots)

    def task(self, slot: int) -> Task:
        """Return the task in a slot."""
        return self._waiting[slot]

    def restricted(self, slots: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield places in `slots`, and the rows of the machines to which their tasks may go.

        The others may go to any machine.
        """
        anywhere = self._waiting.gangs_among(slots) | np.isin(slots, list(self._fresh))
        partition = self._waiting.partitions(slots)
        for number, allowed in enumerate(self._allowed):
            of_it = partition == number
            if allowed is not None and (of_it & anywhere).any():
                yield np.flatnonzero(of_it & anywhere), allowed
            if len(rest := np.flatnonzero(of_it & ~anywhere)):
                yield rest, self._freed_in(number)

    def free_for(self, task: Task) -> Floats | None:
        """Return (M, R): what a task may take; what is free, through its estimate if that matters.

        It matters where capacity steps or reservations are known ahead, or something is suspended,
        whose claim counts as taken; None if it fits nowhere.
        """
        state = self._state
        if not self.ahead:
            return state.room.free()
        if self._profile is None or self._profile_of != state.starts:
            self._profile, self._profile_of = state.profile(), state.starts
            self._claims = Claims(state)
        self._claims.hold(self._profile, task.priority)
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
        return self._freed_in(task.partition)

    def _freed_in(self, partition: int) -> Ints:
        """Return where something came free, among the machines of a partition."""
        if partition not in self._freed_of:
            allowed, freed = self._allowed[partition], self._freed
            if allowed is not None:
                freed = np.intersect1d(freed, allowed, assume_unique=True)
            self._freed_of[partition] = freed
        return self._freed_of[partition]

    def _sifted(self, slots: list[int]) -> list[int]:
        """Return those that may still fit."""
        rest, fresh = np.array(slots), self._fresh
        if fresh:
            rest = rest[np.argsort([slot in fresh for slot in slots], kind="stable")]
        left: list[int] = self._sift(rest, sum(slot not in fresh for slot in slots)).tolist()
        return left

    def _sift(self, slots: Ints, known: int) -> Ints:
        """Return, in order, which may fit; of the first `known`, where something came free."""
        free = self._state.room.free()
        if len(self._allowed) == 1 and self._allowed[0] is None:
            return np.sort(self._sift_among(slots[:known], slots[known:], free, None))
        found, partition = [slots[:0]], self._waiting.partitions(slots)
        for number, allowed in enumerate(self._allowed):
            old = slots[:known][partition[:known] == number]
            new = slots[known:][partition[known:] == number]
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
    """A placement rule that records what is free through a task's estimate."""

    free: Floats | None = None

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Ints) -> Ints:
        self.free = free
        return fitting


class GreedyPolicy(ABC):
    """Places until nothing fits; a subclass says in `choose` what goes first, and where.

    Suspended allocations are resumed first, oldest first; what still waits to go on keeps its
    claim on its place (`simkit.policy.claims`).

    Args:
        order: the order in which tasks are taken; None: by submission. Partitions with a higher
            priority always go first.
    """

    def __init__(self, order: Order | ChangingOrder | None = None) -> None:
        self.order = order

    @abstractmethod
    def choose(self, state: State, search: FitSearch) -> Iterable[Place]:
        """Yield placements until nothing of `search` fits."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        if (reset := getattr(self.order, "reset", None)) is not None:
            reset(info, rng)
        self._waiting = WaitingTasks(len(info.resources))
        self._machines = [_rows(partition.machines) for partition in info.partitions]
        self._settled = False  # whether, when the last decision was over, nothing fitted
        self._releases = 0

    def schedule(self, state: State) -> Iterable[Action]:
        if not state.queue and not state.suspended:
            if len(self._waiting):
                self._waiting.clear()
            self._settle(state)
            return ()
        return self._decide(state)

    def _decide(self, state: State) -> Iterator[Action]:
        paused = len(state.suspended) > 0
        if paused:
            yield from resumptions(state)
        freed = self._freed(state)
        self._settled = False  # until this decision has come to its end
        first, known = 0, len(state.arrived)
        while True:
            yield from self.choose(state, self._search(state, freed, state.arrived[first:known]))
            if known == len(state.arrived):
                break
            # Admission let others in for those that started: they have their turn now.
            freed, first, known = np.empty(0, np.int64), known, len(state.arrived)
        self._settle(state)
        if paused and state.suspended:
            self._settled = False  # what fits beside no claim now may fit anywhere without it

    def _settle(self, state: State) -> None:
        self._settled = not state.constrained
        self._releases = state.releases

    def _only_freed(self, state: State) -> int | None:
        """Return the one machine that must be tried, in that simple case; else None.

        Something came free there and nowhere else, no task has arrived, and any task that fits
        there may start there.
        """
        ended = state.ended
        if (
            len(ended) != 1
            or len(ended[0].on) != 1
            or state.arrived
            or not self._settled
            or state.constrained
            or state.suspended
            or state.refills
            or state.releases != self._releases + 1
            or self._waiting.gangs
            or len(state.queue) > len(self._waiting)  # decisions that it was not asked about
            or len(self._machines) > 1
            or self._machines[0] is not None
            or hasattr(self.order, "keys")
        ):
            return None
        return ended[0].on[0][0]

    def _freed(self, state: State) -> Ints | None:
        """Return the machines where something came free since the last decision; None: any."""
        if (
            not self._settled
            or state.constrained
            or state.releases - self._releases != len(state.ended)
        ):
            return None
        machines = {machine for allocation in state.ended for machine, _ in allocation.on}
        return np.array(sorted(machines), np.int64)

    def _search(self, state: State, freed: Ints | None, arrived: Sequence[Task]) -> FitSearch:
        waiting, order = self._waiting, self.order
        newcomers = [task for task in arrived if task.waiting]
        key: Callable[[Task], float] | None = getattr(order, "key", None)
        keys = [0.0 if key is None else key(task) for task in newcomers]
        waiting.add(newcomers, keys)
        if (of_all := getattr(order, "keys", None)) is not None:
            waiting.order_by(state.queue.columns().index, of_all(state))
        waiting.sort()
        fresh = waiting.slots_of(newcomers)
        return FitSearch(state, waiting, self._machines, freed, fresh)

    def lines(self, state: State) -> list[Line]:
        """Return the waiting tasks, those of partitions with a higher priority first.

        Of one priority they are in the order of the policy, if that keeps its keys, else in the
        order of submission.
        """
        key: Callable[[Task], float] = getattr(self.order, "key", lambda _task: 0.0)
        tasks = sorted(state.queue.tasks, key=lambda task: (-task.priority, key(task)))
        return [Line(tasks, "free")] if tasks else []

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        if not task.waiting:
            return "it does not wait for the policy"
        machines = self._machines[task.partition]
        free = state.free if machines is None else state.free[machines]
        fits = (np.array(task.least) <= free).all(axis=1) | (np.array(task.least) <= 0).all()
        if fits.any():
            return "it fits, but not through its estimate, given what is known ahead or suspended"
        what = "all its instances together" if task.gang and task.instances > 1 else "an instance"
        asked = zip(state.info.resources, task.request, free.max(axis=0).tolist(), strict=True)
        most = ", ".join(
            f"{amount:g} {name} (most free: {left:g})" for name, amount, left in asked if amount
        )
        return f"no machine has room for {what}; an instance asks for {most}"


def _rows(machines: tuple[int, ...] | None) -> Ints | None:
    return None if machines is None else np.unique(np.array(machines, np.int64))
