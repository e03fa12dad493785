"""A lower bound on what a schedule costs, by prices of the resources in the time ahead.

With a price at or above 0 for each unit of a resource and each instant, let each job take the start
at which its own cost and what it pays for its resources are least. The sum of these, less the price
of all that there is, is at most the cost of any schedule that keeps to the capacity: in such a
schedule the jobs pay for no more than there is, and none does better than its best start. The
prices that make the bound large are found by subgradients: prices rise where the jobs' choices ask
for more than there is, and fall where they ask for less (Christofides, Alvarez-Valdes and Tamarit,
"Project scheduling with resource constraints: a branch and bound approach", 1987; the steps are
B. T. Polyak's, "Minimization of unsmooth functionals", 1969).

Prices are constant between some instants. A job's cost is then piecewise linear in its start, so
that its best start is where a piece ends: the bound is exact for these prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from simkit.arrays import Floats, Ints

__all__ = ["EndCosts", "bound_by_prices"]

ROUNDS: Final = 200
"""Steps of the search for prices."""
CELLS: Final = 400
"""Most spans of time with prices of their own."""
PATIENCE: Final = 8
"""Steps without a better bound after which steps become half as long."""
KEPT: Final = 0.5
"""Share of the last direction that is kept in the next."""


@dataclass(frozen=True)
class EndCosts:
    """What it costs that job j ends at C: the larger of floor[j] and slope[j] (C - from_s[j])."""

    slope: Floats
    """(J,) at least 0."""
    from_s: Floats
    """(J,) in s."""
    floor: Floats
    """(J,)"""

    def at(self, end_s: Floats) -> Floats:
        """Return the costs of (J,) ends, in s."""
        costs: Floats = np.maximum(self.floor, self.slope * (end_s - self.from_s))
        return costs

    def take(self, rows: Ints) -> EndCosts:
        """Return the costs of some jobs."""
        return EndCosts(self.slope[rows], self.from_s[rows], self.floor[rows])

    def kinks(self) -> Floats:
        """Return (J,) ends from which on costs rise."""
        slope = np.where(self.slope > 0, self.slope, 1.0)
        return np.where(self.slope > 0, self.from_s + self.floor / slope, self.from_s)


def bound_by_prices(
    ready_s: Floats, run_time_s: Floats, request: Floats, costs: EndCosts, capacity: Floats
) -> float:
    """Return a lower bound on the sum of the costs of J jobs that run without interruption.

    Args:
        ready_s: (J,) from when each may run, in s.
        run_time_s: (J,) how long it runs, in s.
        request: (J, R) what it holds while it runs, at most the capacity.
        costs: of their ends.
        capacity: (R,) what there is at any time.
    """
    used = capacity > 0
    request, capacity = request[:, used], capacity[used]
    starts = _list_schedule(ready_s, run_time_s, request, costs, capacity)
    target = float(costs.at(starts + run_time_s).sum())  # no bound is above it
    choices = _Choices(ready_s, run_time_s, request, costs, _edges(ready_s, starts + run_time_s))
    width = np.diff(choices.edges)
    prices = np.zeros((len(capacity), len(width)))
    direction = np.zeros_like(prices)
    best, length, since = -np.inf, 1.0, 0
    for _ in range(ROUNDS):
        paid, held = choices.cheapest(prices)
        found = paid - float(capacity @ prices @ width)
        since += 1
        if found > best:
            best, since = found, 0
        elif since >= PATIENCE:
            length, since = length / 2, 0
        direction = KEPT * direction + (held / width - capacity[:, None])
        norm = float((direction**2 @ width).sum())
        if norm <= 0 or target - best <= 1e-9 * abs(target):
            break
        prices = np.maximum(prices + length * (target - found) / norm * direction, 0.0)
    return best


def _edges(ready_s: Floats, end_s: Floats) -> Floats:
    """Return instants, ascending, between which prices are constant."""
    instants = np.unique(np.concatenate((ready_s, end_s)))
    if len(instants) > CELLS + 1:
        kept = np.linspace(0, len(instants) - 1, CELLS + 1).round().astype(np.int64)
        instants = instants[kept]
    return instants if len(instants) > 1 else np.append(instants, instants[-1] + 1.0)


class _Choices:
    """The starts among which each job chooses: the ends of the pieces of its costs."""

    def __init__(
        self, ready_s: Floats, run_time_s: Floats, request: Floats, costs: EndCosts, edges: Floats
    ) -> None:
        self.edges, self._request, self._run = edges, request, run_time_s
        ready, run = ready_s[:, None], run_time_s[:, None]
        jobs = len(ready_s)
        at_edges = np.broadcast_to(edges, (jobs, len(edges)))
        starts = np.concatenate((ready, at_edges, at_edges - run, costs.kinks()[:, None] - run), 1)
        self._starts = np.maximum(starts, ready)  # (J, K)
        self._own = np.stack([costs.at(column) for column in (self._starts + run).T], axis=1)
        self._from, self._to = self._place(self._starts), self._place(self._starts + run)

    def _place(self, instants: Floats) -> tuple[Ints, Floats]:
        """Return the span that instants are in, and the seconds since it began."""
        edges = self.edges
        span = np.clip(np.searchsorted(edges, instants, side="right") - 1, 0, len(edges) - 2)
        within = np.clip(instants, edges[0], edges[-1]) - edges[span]
        return span, within

    def cheapest(self, prices: Floats) -> tuple[float, Floats]:
        """Return what the jobs pay at their best starts, and what they then hold.

        Args:
            prices: (R, T) of a unit and second in each of T spans.

        Returns:
            The sum of their costs and of what they pay, and (R, T) resource-seconds in each span.
        """
        total = self._own.copy()
        for asked, price in zip(self._request.T, prices, strict=True):
            before = np.concatenate(([0.0], np.cumsum(price * np.diff(self.edges))))
            (begin, since), (end, until) = self._from, self._to
            paid = before[end] + price[end] * until - before[begin] - price[begin] * since
            total += asked[:, None] * paid
        rows, chosen = np.arange(len(total)), total.argmin(axis=1)
        start = self._starts[rows, chosen][:, None]
        end_s = start + self._run[:, None]
        overlap = np.minimum(end_s, self.edges[1:]) - np.maximum(start, self.edges[:-1])
        held = self._request.T @ np.maximum(overlap, 0.0)
        return float(total[rows, chosen].sum()), held


def _list_schedule(
    ready_s: Floats, run_time_s: Floats, request: Floats, costs: EndCosts, capacity: Floats
) -> Floats:
    """Return (J,) starts of a good schedule: what fits starts at once.

    Of the jobs that wait, those whose cost rises most for their work come first.
    """
    work = (request / capacity).max(axis=1, initial=0.0) * run_time_s
    rank = np.divide(costs.slope, work, out=np.full(len(work), np.inf), where=work > 0)
    waiting = np.argsort(-rank, kind="stable").tolist()
    starts, free = np.zeros(len(ready_s)), capacity.copy()
    running: list[tuple[float, int]] = []
    now = float(ready_s.min())
    while waiting:
        later = []
        for job in waiting:
            if ready_s[job] <= now and (request[job] <= free).all():
                starts[job], free = now, free - request[job]
                heappush(running, (now + float(run_time_s[job]), job))
            else:
                later.append(job)
        waiting = later
        to_come = [float(ready_s[job]) for job in waiting if ready_s[job] > now]
        now = min([end for end, _ in running[:1]] + to_come, default=now)
        while running and running[0][0] <= now:
            free = free + request[heappop(running)[1]]
    return starts
