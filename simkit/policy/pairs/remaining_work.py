"""Fitness that looks at the remaining work of all tasks, waiting and running."""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from itertools import takewhile
from math import inf
from typing import Any

import numpy as np

from simkit.arrays import Floats
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.pairs.machine_task_pairs import MachineTaskPairs
from simkit.policy.pairs.terms import fit_terms, on_grid, urgency_terms
from simkit.policy.queue import QueueColumns
from simkit.policy.state import State, SystemInfo
from simkit.policy.task import Allocation
from simkit.units import ENDLESS_S

__all__ = ["RunningWork", "WorkFitness"]


class RunningWork:
    """The resource-seconds that running tasks are expected to need yet; follows a run.

    What has outlived its estimate needs nothing more, unless its expected end is corrected. Only
    what started, ended or became overdue since the last look is looked at; all that runs where
    decisions without waiting tasks were left out, or allocations were split.
    """

    def __init__(self, resources: int) -> None:
        self._until: dict[Allocation, float] = {}  # all that runs → the expected end that counts
        self._ends: list[tuple[float, int, Allocation]] = []  # a heap; also of what has ended
        self._newest = 0  # rank of the youngest of them; ranks begin with 1
        self._held = [0.0] * resources  # of what is not overdue
        self._weighted = [0.0] * resources  # Σ held · expected end

    def update(self, state: State) -> list[float]:
        """Return (R,) resource-seconds from now on."""
        for allocation in state.ended:
            self._forget(allocation)
        fresh = list(takewhile(lambda a: a.rank > self._newest, state.running.newest()))
        for allocation in reversed(fresh):  # oldest first, as they started
            self._newest = allocation.rank
            self._expect(allocation, state.now)
        if len(self._until) > len(state.running):
            for allocation in [each for each in self._until if each not in state.running]:
                self._forget(allocation)
        due: list[Allocation] = []
        while self._ends and self._ends[0][0] <= state.now:
            due.append(heappop(self._ends)[2])
        for allocation in due:
            if allocation in self._until:
                self._forget(allocation)
                self._expect(allocation, state.now)  # its end may have been corrected by now
        if not self._until:  # what rounding has left
            self._held, self._weighted = [0.0] * len(self._held), [0.0] * len(self._held)
        return [
            max(weighted - state.now * held, 0.0)
            for weighted, held in zip(self._weighted, self._held, strict=True)
        ]

    def _expect(self, allocation: Allocation, now: float) -> None:
        end_s = self._until[allocation] = min(allocation.expected_end_s, ENDLESS_S)
        if end_s >= now:
            heappush(self._ends, (end_s, allocation.rank, allocation))
            self._add(allocation, end_s, 1.0)
        else:
            self._until[allocation] = -inf

    def _forget(self, allocation: Allocation) -> None:
        end_s = self._until.pop(allocation, -inf)
        if end_s > -inf:
            self._add(allocation, end_s, -1.0)

    def _add(self, allocation: Allocation, end_s: float, sign: float) -> None:
        held, weighted = self._held, self._weighted
        for r, amount in enumerate(allocation.held):
            held[r] += sign * amount
            weighted[r] += end_s * (sign * amount)


class WorkFitness(ABC):
    """A pair fitness that knows the remaining work of all tasks at the decision's beginning.

    A subclass scores pairs by their terms; see `simkit.policy.pairs.terms`. With `weigh` in place
    of `begin`, a simulator with other rules of time can say what remains.
    """

    by_state = True
    signals = NO_SIGNALS

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._running = RunningWork(len(info.resources))
        self._capacity: Floats | None = None
        self._columns: QueueColumns | None = None

    def begin(self, state: State) -> None:
        """Take the remaining work of what waits and what runs."""
        running, columns = self._running.update(state), state.queue.columns()
        if state.room.capacity is not self._capacity:  # when it changes, it is another array
            self._capacity = state.room.capacity
            self._total = _positive(self._capacity.sum(axis=0))
        if columns is not self._columns:  # the queue returns the same until tasks come or go
            longest_s = min(float(columns.estimate_s.max(initial=0.0)), ENDLESS_S)
            self._columns, self._longest_of_queue_s = columns, longest_s
        estimate_s = columns.estimate_s
        if self._longest_of_queue_s == ENDLESS_S:
            estimate_s = np.minimum(estimate_s, ENDLESS_S)
        waiting = columns.request @ (columns.remaining * estimate_s)
        self.weigh((waiting + running) / self._total, self._longest_of_queue_s, self._total)

    def weigh(self, work_s: Floats, longest_s: float, total: Floats) -> None:
        """Take what remains.

        Args:
            work_s: (R,) remaining work: resource-seconds over the cluster's capacity.
            longest_s: the longest time for which a task that waits holds a machine.
            total: (R,) the cluster's capacity, above 0.
        """
        self._work_s: Floats = on_grid(work_s)
        self._longest_s, self._total = longest_s, total

    def urgency(self, pairs: MachineTaskPairs) -> tuple[Any, ...]:
        """Return the five `urgency_terms`, (P,) each."""
        request, free = _shares(pairs)
        share = (pairs.request / self._total).max(axis=1)
        return urgency_terms(pairs.hold_s, pairs.remaining, request, free, share, self._work_s)

    def fit(self, pairs: MachineTaskPairs) -> tuple[Any, ...]:
        """Return the eleven `fit_terms`, (P,) each."""
        request, free = _shares(pairs)
        return fit_terms(
            pairs.hold_s, pairs.remaining, request, free, self._work_s, self._longest_s
        )

    @abstractmethod
    def scores(self, pairs: MachineTaskPairs) -> Floats:
        """Return (P,) finite scores."""


def _shares(pairs: MachineTaskPairs) -> tuple[Floats, Floats]:
    """Return (R, P) what is asked for and what is free, as shares of the machine's capacity."""
    capacity = _positive(pairs.capacity)
    return (pairs.request / capacity).T, (pairs.free / capacity).T


def _positive(amounts: Floats) -> Floats:
    """Return amounts with 1 for those that are 0: nobody can ask for them."""
    return np.where(amounts > 0, amounts, 1.0)
