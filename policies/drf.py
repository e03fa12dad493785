"""Dominant resource fairness: the user with the smallest dominant share is served next.

A. Ghodsi, M. Zaharia, B. Hindman, A. Konwinski, S. Shenker and I. Stoica, "Dominant resource
fairness: fair allocation of multiple resource types" (NSDI 2011), algorithm 1: progressive
filling, one instance at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError, did_you_mean
from simkit.policies.fitness import FirstFit
from simkit.policy import Place, State, SystemInfo
from simkit.policy.declared import reads_estimates
from simkit.policy.fitness import MachineFitness, place_by
from simkit.policy.greedy import FitSearch, GreedyPolicy
from simkit.policy.lane import ChangingOrder, Order
from simkit.policy.task import Allocation, Task

BY = ("user", "job")


class DRF(GreedyPolicy):
    """Gives the next instance to the user, or job, with the smallest dominant share.

    A user's dominant share is the largest share, over resources, of the cluster's capacity that
    the user holds. A user's tasks are taken in order; one that does not fit blocks neither the
    user's other tasks nor other users. Ties go to the user whose first task comes first. A gang
    gets all its instances at once. Partitions with a higher priority go first; shares are of the
    whole cluster. All tasks without a user number (-1) count as one user's.

    Args:
        by: what shares are compared of: ``user`` or ``job``.
        fitness: chooses the machine of an instance; None: the first that has room.
        order: the order of a user's tasks; None: by submission.

    Raises ScenarioError for another `by`.
    """

    def __init__(
        self,
        by: str = "user",
        fitness: MachineFitness | None = None,
        order: Order | ChangingOrder | None = None,
    ) -> None:
        super().__init__(order)
        if by not in BY:
            raise ScenarioError(f"drf: by is {by!r}{did_you_mean(str(by), BY)}")
        self.by = by
        self.fitness = fitness

    @property
    def reads_estimates(self) -> bool:
        """Whether order or machine fitness reads estimates."""
        return reads_estimates(self.order, self.fitness)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._fitness = self.fitness or FirstFit()
        self._fitness.reset(info, rng)
        self._held: dict[int, Floats] = {}  # who → (R,) amounts
        self._counted: set[Allocation] = set()
        self._last_rank = 0

    def choose(self, state: State, search: FitSearch) -> Iterator[Place]:
        self._count(state)
        while True:
            placed = False
            for task, on in _Filling(self, state, search).placements():
                placed = True
                yield Place(task, on)
            self._count(state)
            if not placed or not search.ahead:
                return

    def who(self, task: Task) -> int:
        """Return the number of the user, or job, that a task belongs to."""
        return task.user if self.by == "user" else task.job_index

    def held(self, who: int) -> Floats:
        """Return (R,) what a user, or job, holds; read-only."""
        return self._held.get(who, _NOTHING)

    def place(
        self, task: Task, free: Floats, capacity: Floats, machines: Ints | None, most: int
    ) -> tuple[tuple[int, int], ...]:
        """Return where at most `most` instances of a task go."""
        return place_by(self._fitness, task, free, capacity, machines, most)

    def _count(self, state: State) -> None:
        """Account for what has started and ended since the last decision."""
        fresh = [a for a in state.ended if a.rank > self._last_rank]
        for allocation in reversed(state.running):
            if allocation.rank <= self._last_rank:
                break
            fresh.append(allocation)
        for allocation in fresh:
            self._change(allocation, 1.0)
            self._counted.add(allocation)
            self._last_rank = max(self._last_rank, allocation.rank)
        for allocation in state.ended:
            if allocation in self._counted:
                self._counted.remove(allocation)
                self._change(allocation, -1.0)

    def _change(self, allocation: Allocation, sign: float) -> None:
        who = self.who(allocation.task)
        held = self._held.get(who, 0.0) + sign * np.array(allocation.held)
        if held.any():
            self._held[who] = held
        else:
            self._held.pop(who, None)


_NOTHING = np.zeros(1)


class _Filling:
    """Progressive filling, on a copy of the free amounts: the placements of a decision."""

    def __init__(self, policy: DRF, state: State, search: FitSearch) -> None:
        self._policy = policy
        self._capacity = state.room.capacity
        self._free = state.room.free().copy()
        self._total = self._capacity.sum(axis=0)
        self._queues: dict[tuple[float, int], list[tuple[Task, Ints | None, Floats | None]]] = {}
        for task, machines in search.snapshot():
            spare = search.free_for(task)
            if spare is not None:
                kept = self._free - spare if search.ahead else None
                key = (-task.priority, policy.who(task))
                self._queues.setdefault(key, []).append((task, machines, kept))
        self._held = {who: policy.held(who) + np.zeros(len(self._total)) for _, who in self._queues}
        self._left: dict[Task, int] = {}
        self._placed: dict[Task, dict[int, int]] = {}

    def placements(self) -> Iterator[tuple[Task, tuple[tuple[int, int], ...]]]:
        """Yield what each task gets, in order of its first placement."""
        keys = list(self._queues)
        for priority in sorted({priority for priority, _ in keys}):
            whos = [who for ahead, who in keys if ahead == priority]
            self._fill(priority, whos)
        for task, on in self._placed.items():
            yield task, tuple(on.items())

    def _fill(self, priority: float, whos: list[int]) -> None:
        """Serve these users until none of their tasks fits."""
        heap = [(self._dominant(who), rank, who) for rank, who in enumerate(whos)]
        heapify(heap)
        while heap:
            _, rank, who = heappop(heap)
            queue = self._queues[priority, who]
            while queue:
                if count := self._serve(queue[0], who, rank, heap[0][:2] if heap else None):
                    task = queue[0][0]
                    self._held[who] = self._held[who] + np.array(task.request) * count
                    heappush(heap, (self._dominant(who), rank, who))
                    break
                del queue[0]

    def _serve(
        self,
        entry: tuple[Task, Ints | None, Floats | None],
        who: int,
        rank: int,
        rival: tuple[float, int] | None,
    ) -> int:
        """Place instances of a task while its user comes before the next; return how many."""
        task, machines, kept = entry
        left = self._left.setdefault(task, task.remaining)
        if not left:
            return 0
        most = left if task.gang else self._turns(task, who, rank, rival, left)
        free = self._free if kept is None else self._free - kept
        on = self._policy.place(task, free, self._capacity, machines, most)
        request, placed = np.array(task.request), self._placed.setdefault(task, {}) if on else {}
        for machine, count in on:
            self._free[machine] -= request * count
            placed[machine] = placed.get(machine, 0) + count
        count = sum(pair[1] for pair in on)
        self._left[task] -= count
        return count

    def _turns(
        self, task: Task, who: int, rank: int, rival: tuple[float, int] | None, left: int
    ) -> int:
        """Return how many instances in a row a user gets before the next user's turn."""
        if rival is None:
            return left
        size = 1
        while True:
            size = min(4 * size, left)
            counts = np.arange(size)
            held = self._held[who] + counts[:, None] * np.array(task.request)
            share = self._shares(held)
            before = (share < rival[0]) | ((share == rival[0]) & (rank < rival[1]))
            before[0] = True  # its turn now
            if not before.all():
                return int(before.argmin())
            if size == left:
                return left

    def _dominant(self, who: int) -> float:
        return float(self._shares(self._held[who][None])[0])

    def _shares(self, held: Floats) -> Floats:
        """Return (n,): the dominant share of each row of (n, R) amounts."""
        share = np.divide(held, self._total, out=np.zeros_like(held), where=self._total > 0)
        largest: Floats = share.max(axis=-1)
        return largest
