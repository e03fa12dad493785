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

from simkit.arrays import Bools, Floats, Ints
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.lane import ChangingOrder, Line, Order
from simkit.policy.ordered import resumptions
from simkit.policy.profile import Profile
from simkit.policy.task import Task

__all__ = ["FitSearch", "GreedyPolicy"]

_PART = 1024  # tasks compared at once when the first that fits is wanted
_FEW = 8  # up to this many tasks, a sieve is no faster


class WaitingTasks:
    """Tasks in slots, with an array for each attribute that a search needs.

    `sort` orders them by partition priority, then by key, then by submission. Empty slots are
    removed when half of all slots are empty.
    """

    __slots__ = ("_alive", "_dead", "_end", "_index", "_key", "_least", "_partition",
                 "_priority", "_request", "_slots", "_sorted", "_tasks", "gangs")  # fmt: skip

    def __init__(self, resources: int) -> None:
        # One row per resource, compared as a whole. Infinite in empty slots, which never fit.
        self._request: Floats = np.empty((resources, 64))
        self._key: Floats = np.empty(64)
        self._index: Floats = np.empty(64)
        self._priority: Floats = np.empty(64)
        self._partition: Ints = np.empty(64, np.int64)
        self._alive: Bools = np.zeros(64, np.bool_)
        self._tasks: list[Task | None] = []
        self._slots: dict[int, int] = {}  # task's index → slot
        self._end = 0
        self._dead = 0
        self.gangs = 0
        """Number of gangs of several instances."""
        self._sorted = True
        self._least = [0.0] * resources  # no task asks for less: a bound that saves searches

    def __len__(self) -> int:
        """Return the number of tasks."""
        return self._end - self._dead

    def __getitem__(self, slot: int) -> Task:
        """Return the task in an occupied slot."""
        task = self._tasks[slot]
        assert task is not None
        return task

    def __contains__(self, task: Task) -> bool:
        return task.index in self._slots

    def slot_of(self, task: Task) -> int:
        """Return the slot of a task that is here."""
        return self._slots[task.index]

    def partitions(self, slots: Ints) -> Ints:
        """Return the partition of the tasks in some slots."""
        return self._partition[slots]

    def indices(self, slots: Ints) -> Floats:
        """Return the `index` of the tasks in some slots."""
        return self._index[slots]

    def clear(self) -> None:
        """Remove every task."""
        self._alive[: self._end] = False
        self._tasks.clear()
        self._slots.clear()
        self._end = self._dead = self.gangs = 0
        self._sorted = True

    def add(self, tasks: Sequence[Task], keys: Sequence[float]) -> None:
        """Add tasks with their keys; a task that is already here keeps its slot and key."""
        if self._dead > 32 and 2 * self._dead > self._end:
            self._arrange(self.slots())
        self._make_space(len(tasks))
        for task, key in zip(tasks, keys, strict=True):
            if task.index not in self._slots:
                self._add(task, key)

    def _add(self, task: Task, key: float) -> None:
        slot = self._end
        self._slots[task.index] = slot
        self._end += 1
        self._tasks.append(task)
        self._request[:, slot] = task.request
        if slot == 0:
            self._least = list(task.request)
        else:
            self._least = list(map(min, self._least, task.request))
        self._index[slot] = task.index
        self._priority[slot] = task.priority
        self._partition[slot] = task.partition
        self._alive[slot] = True
        self._key[slot] = key
        self.gangs += task.gang and task.instances > 1
        self._sorted = self._sorted and (slot == 0 or self._place(slot - 1) < self._place(slot))

    def _place(self, slot: int) -> tuple[float, float, float]:
        return -self._priority[slot], self._key[slot], self._index[slot]

    def remove(self, slot: int) -> None:
        """Remove a task."""
        task = self[slot]
        del self._slots[task.index]
        self._tasks[slot] = None
        self._alive[slot] = False
        self._request[:, slot] = np.inf
        self._dead += 1
        self.gangs -= task.gang and task.instances > 1

    def order_by(self, index: Floats, keys: Floats) -> None:
        """Change keys: `keys` (n,) of the tasks with these indices (n,), ascending."""
        end = self._end
        if end and len(index):
            at = np.searchsorted(index, self._index[:end])
            self._key[:end] = keys[np.minimum(at, len(index) - 1)]
            self._sorted = False

    def sort(self) -> None:
        """Put the tasks in order; their slots change."""
        if not self._sorted:
            slots = self.slots()
            keys = (self._index[slots], self._key[slots], -self._priority[slots])
            self._arrange(slots[np.lexsort(keys)])
            self._sorted = True

    def slots_of(self, tasks: Sequence[Task]) -> Ints:
        """Return the slots of tasks that are here, ascending."""
        return np.array(sorted([self._slots[task.index] for task in tasks]), np.int64)

    def gangs_among(self, slots: Ints) -> Bools:
        """Return (n,): which of these slots hold gangs of several instances."""
        if not self.gangs:
            return np.zeros(len(slots), np.bool_)
        tasks = [self[slot] for slot in slots.tolist()]
        return np.array([task.gang and task.instances > 1 for task in tasks], np.bool_)

    def waiting(self, slots: Ints) -> Ints:
        """Return those of some slots whose task still waits; remove the others."""
        kept: list[int] = []
        for slot in slots.tolist():
            if (task := self._tasks[slot]) is not None:
                if task.waiting:
                    kept.append(slot)
                else:
                    self.remove(slot)
        return np.array(kept, np.int64)

    def slots(self) -> Ints:
        """Return all occupied slots."""
        return np.flatnonzero(self._alive[: self._end])

    def first(self, free: Sequence[float], begin: int) -> int:
        """Return the first slot from `begin` on whose task fits with one instance; -1 if none does.

        Args:
            free: (R,) free amounts.
            begin: a slot.
        """
        if any(least > left and least > 0 for least, left in zip(self._least, free, strict=True)):
            return -1
        while begin < self._end:
            end = min(begin + _PART, self._end)
            fits = self._request[0, begin:end] <= max(free[0], 0.0)
            for r in range(1, len(free)):
                fits &= self._request[r, begin:end] <= max(free[r], 0.0)
            position = int(fits.argmax())
            if fits[position]:
                return begin + position
            begin = end
        return -1

    def fitting(self, slots: Ints, free: Floats) -> Ints:
        """Return the given slots whose task fits with one instance in a row of `free`.

        Args:
            slots: (n,) occupied slots.
            free: (F, R) free amounts, one row per machine.
        """
        if not len(free) or not len(slots):
            return slots[:0]
        # Resource by resource: NumPy reduces long, narrow arrays slowly along their length. A
        # request of 0 fits although the free amount is negative.
        most = np.array([max(column.max(), 0.0) for column in free.T])
        slots = slots[self._below(slots, most)]
        if len(free) == 1 or len(most) == 1 or len(slots) <= _FEW or _any_row(free, most):
            return slots
        fits = np.zeros(len(slots), np.bool_)
        for row in _undominated(np.maximum(free, 0.0)):
            fits |= self._below(slots, row)
        return slots[fits]

    def _below(self, slots: Ints, most: Floats) -> Bools:
        request = self._request
        below: Bools = request[0][slots] <= most[0]
        for r in range(1, len(request)):
            below &= request[r][slots] <= most[r]
        return below

    def _make_space(self, more: int) -> None:
        size = len(self._key)
        if self._end + more <= size:
            return
        wider = max(2 * size, self._end + more)
        for name in ("_key", "_index", "_priority", "_partition", "_alive"):
            setattr(self, name, np.resize(getattr(self, name), wider))
        self._alive[self._end :] = False
        request = np.empty((len(self._request), wider))
        request[:, :size] = self._request
        self._request = request

    def _arrange(self, slots: Ints) -> None:
        """Move the tasks of these slots (all occupied ones) to the front, in this order."""
        end = len(slots)
        for column in (self._key, self._index, self._priority, self._partition):
            column[:end] = column[slots]
        self._request[:, :end] = self._request[:, slots]
        if end:
            self._least = self._request[:, :end].min(axis=1).tolist()
        self._tasks = [self._tasks[slot] for slot in slots.tolist()]
        self._alive[: self._end] = False
        self._alive[:end] = True
        self._slots = {self[slot].index: slot for slot in range(end)}
        self._end, self._dead = end, 0


def _any_row(table: Floats, row: Floats) -> bool:
    """Return whether a row of (F, R) numbers equals the given one, as (R,) that are not below 0."""
    same = table[:, 0] == row[0]
    for r in range(1, len(row)):
        same &= table[:, r] == row[r]
    return bool(same.any())


def _undominated(free: Floats) -> Floats:
    """Return (U, R) the rows of (F, R) that no other row exceeds in every resource.

    If any row fits, one of these does.
    """
    rows = free[np.argsort(-free[:, 0], kind="stable")]
    if rows.shape[1] == 2:
        best = np.maximum.accumulate(rows[:, 1])
        kept = np.append(True, rows[1:, 1] > best[:-1])
        undominated: Floats = rows[kept]
        return undominated
    chosen = [rows[0]]
    for row in rows[1:]:
        if not any((row <= other).all() for other in chosen):
            chosen.append(row)
    return np.array(chosen)


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
        self._machines = [
            None if p.machines is None else np.unique(np.array(p.machines, np.int64))
            for p in info.partitions
        ]
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
