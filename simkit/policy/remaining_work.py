"""Fitness by remaining work: how urgent a task is, and how well task and machine match.

The remaining work are the resource-seconds that waiting and running tasks still need, over what the
cluster has. The largest of these times, and at least a second, is the *horizon*: no schedule can
end sooner. A task that holds its machine for much of the horizon, or whose instances together need
much of it, is urgent; one that asks for the resource with most remaining work keeps that resource
busy.

The functions of terms calculate with numbers, where a compiler takes them, and with arrays, where
NumPy does. Amounts are shares of the machine's capacity, with resources on the first axis: (R,) for
one pair, (R, P) for P of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from itertools import takewhile
from math import inf
from typing import Any, Final

import numpy as np

from simkit.arrays import Floats
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.pairs import MachineTaskPairs
from simkit.policy.queue import QueueColumns
from simkit.policy.state import State, SystemInfo
from simkit.policy.task import Allocation
from simkit.units import ENDLESS_S

URGENCY_TERMS: Final = ("time", "urgency", "work", "balance", "cosine")
"""Names of what `urgency_terms` returns."""
FIT_TERMS: Final = (
    "log_time", "relative_time", "log_left", "largest_share", "skew", "free_after",
    "least_free_after", "imbalance_after", "balance_after", "work_skew", "log_horizon",
)  # fmt: skip
"""Names of what `fit_terms` returns."""

_MOST = 3.0  # of a time as a share of the horizon
_TINY = 1e-12
_GRID = 2.0**20


def on_grid(work_s: Any) -> Any:
    """Return remaining work in multiples of 2⁻²⁰ s, so that it is the same in any order of sums."""
    return np.rint(work_s * _GRID) / _GRID


def horizon_s(work_s: Any) -> Any:
    """Return the largest of (R,) remaining work, at least 1."""
    horizon = 1.0
    for k in range(len(work_s)):
        horizon = max(horizon, work_s[k])
    return horizon


def surplus(work_s: Floats, out: Floats) -> Floats:
    """Fill (R,) `out`: how far each resource's remaining work is above the mean, over the mean.

    From -1 to R - 1; 0 if the same remains of all.
    """
    work = 0.0
    for k in range(len(work_s)):
        work += work_s[k]
    even = 1.0 if work > 0.0 else 0.0  # where nothing remains, the same remains of all
    work = max(work, _TINY)
    for k in range(len(work_s)):
        out[k] = len(work_s) * work_s[k] / work - even
    return out


def task_urgency(hold_s: Any, left: Any, cluster_share: Any, horizon: Any) -> tuple[Any, Any, Any]:
    """Return ``time``, ``urgency`` and ``work``; see `urgency_terms`."""
    task_s = left * hold_s * cluster_share
    return (
        np.minimum(hold_s / horizon, _MOST),
        np.minimum(np.maximum(hold_s, task_s) / horizon, _MOST),
        np.minimum(task_s / horizon, _MOST),
    )


def match_urgency(request: Any, free: Any, above: Floats) -> tuple[Any, Any]:
    """Return ``balance`` and ``cosine``, given the work's `surplus`; see `urgency_terms`."""
    asked, product = request[0], free[0] * request[0]
    of_free, of_request = free[0] * free[0], request[0] * request[0]
    for k in range(1, len(above)):
        asked = asked + request[k]
        product = product + free[k] * request[k]
        of_free = of_free + free[k] * free[k]
        of_request = of_request + request[k] * request[k]
    asked = np.maximum(asked, _TINY)
    balance = above[0] * request[0] / asked
    for k in range(1, len(above)):
        balance = balance + above[k] * request[k] / asked
    return balance, product / np.maximum(np.sqrt(of_free * of_request), _TINY)


def task_fit(hold_s: Any, left: Any, longest_s: Any) -> tuple[Any, Any, Any]:
    """Return ``log_time``, ``relative_time`` and ``log_left``; see `fit_terms`."""
    return (
        np.log(np.maximum(hold_s, 1.0)) / 7.0,
        hold_s / max(longest_s, _TINY),
        np.log(1.0 + left) / 7.0,
    )


def match_fit(request: Any, free: Any, above: Floats) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return ``largest_share`` to ``balance_after``, given the `surplus`; see `fit_terms`."""
    resources = len(above)
    after = free[0] - request[0]
    asked, largest = request[0], request[0]
    most, least, total = after, after, after
    for k in range(1, resources):
        after = free[k] - request[k]
        asked = asked + request[k]
        largest = np.maximum(largest, request[k])
        most, least, total = np.maximum(most, after), np.minimum(least, after), total + after
    some = np.maximum(total, _TINY)
    balance = above[0] * (free[0] - request[0]) / some
    for k in range(1, resources):
        balance = balance + above[k] * (free[k] - request[k]) / some
    return (
        np.log(np.maximum(largest, 1e-4)) / 5.0 + 1.0,
        resources * largest / np.maximum(asked, _TINY) - 1.0,
        total / resources,
        least,
        most - least,
        balance,
    )


def moment_fit(above: Floats, horizon: Any) -> tuple[Any, Any]:
    """Return ``work_skew`` and ``log_horizon``; see `fit_terms`."""
    skew = above[0]
    for k in range(1, len(above)):
        skew = max(skew, above[k])
    return skew, np.log(horizon) / 7.0


def urgency_terms(
    hold_s: Any, left: Any, request: Any, free: Any, cluster_share: Any, work_s: Floats
) -> tuple[Any, Any, Any, Any, Any]:
    """Return five terms of each pair.

    ``time``: how long an instance holds its machine, over the horizon, at most 3. ``work``: the
    same for all that is left of the task, if it had the cluster to itself. ``urgency``: the larger
    of the two. ``balance``: how much of the request is of the resources with most remaining work;
    with w and q the work and the request, each divided by its sum, Σ (R·w - 1)·q: from -1 to R - 1,
    0 if the same remains of all. ``cosine``: of the angle between request and free amounts.

    Args:
        hold_s: time for which an instance holds its machine.
        left: instances of the task that wait.
        request: (R, …) what an instance asks for.
        free: (R, …) what is free on the machine.
        cluster_share: the largest share of one of the cluster's resources that an instance asks
            for.
        work_s: (R,) remaining work of each resource, in multiples as `on_grid` makes them:
            resource-seconds over what the cluster has.
    """
    above = surplus(work_s, np.empty(len(work_s)))
    of_task = task_urgency(hold_s, left, cluster_share, horizon_s(work_s))
    return (*of_task, *match_urgency(request, free, above))


def fit_terms(
    hold_s: Any, left: Any, request: Any, free: Any, work_s: Floats, longest_s: float
) -> tuple[Any, ...]:
    """Return eleven further terms of each pair, about as large as 1.

    Task: the logarithms of time and of instances left, its time relative to the longest among those
    that wait, the largest share that it asks for, and how far that is above the mean. Machine with
    one instance more: the mean and the minimum share left free, the difference between the maximum
    and the minimum, and how much of what is left belongs to the resources with the most remaining
    work, as in ``balance``. Moment: how far the remaining work of the busiest resource is above the
    mean, and the logarithm of the horizon.

    Args:
        hold_s: as in `urgency_terms`, and so what follows.
        left: instances.
        request: (R, …)
        free: (R, …)
        work_s: (R,)
        longest_s: the longest time for which a task that waits holds a machine.
    """
    above = surplus(work_s, np.empty(len(work_s)))
    no_more = 0.0 * request[0]  # so that every term has one number for each pair
    of_task = [term + no_more for term in task_fit(hold_s, left, longest_s)]
    of_moment = [term + no_more for term in moment_fit(above, horizon_s(work_s))]
    return (*of_task, *match_fit(request, free, above), *of_moment)


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

    A subclass scores pairs by their terms. With `weigh` in place of `begin`, a simulator with other
    rules of time can say what remains.
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
