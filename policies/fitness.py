"""Machine fitness by room: first, best and worst fit, at random, spread out, stacked.

The first four are placement rules as well: their `order` puts the machines that have room in
order; the engine fills each with as many instances as fit before it goes on to the next.

Shares of a machine's capacity leave out resources of which it has none.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints, row_sums
from simkit.policy import SystemInfo
from simkit.policy.fitness import MachineFitness
from simkit.policy.instance_split import Split
from simkit.policy.task import Task


class FirstFit(MachineFitness):
    """The lowest machine row that has room."""

    reads_estimates = False
    fills = True
    by_row = True

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        """Return equal scores, so that the lowest row wins."""
        return np.zeros(len(free))

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Ints) -> Ints:
        return fitting


class BestFit(MachineFitness):
    """The machine with the least left over: keeps large gaps for large tasks.

    What is free of each resource that the task asks for counts as a share of the largest machine's
    capacity (at the start of the run; in `order` now), and the shares are added up. Ties go by row.
    """

    reads_estimates = False
    fills = True
    by_state = True
    _sign = -1.0

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: note the largest machine's capacity, resource by resource."""
        self._largest = info.capacity.max(axis=0)

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        asked = np.flatnonzero(task.request)
        scores: Floats = self._sign * (free[:, asked] / self._largest[asked]).sum(axis=1)
        return scores

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Ints) -> Ints:
        asked = np.flatnonzero(task.request)
        largest = np.array([capacity[:, r].max() for r in asked.tolist()])
        if not largest.all():  # a plan for the end of maintenance that holds every machine now
            largest = self._largest[asked]
        shares = np.empty((len(fitting), len(asked)))
        for column, (r, most) in enumerate(zip(asked.tolist(), largest.tolist(), strict=True)):
            shares[:, column] = free[:, r][fitting] / most
        return fitting[np.argsort(-self._sign * row_sums(shares), kind="stable")]


class WorstFit(BestFit):
    """The machine with the most left over: spreads tasks. Measured as for `BestFit`."""

    fills = False
    _sign = 1.0


class Spread(MachineFitness):
    """The least utilised machine: balances the load.

    A machine's utilisation is the allocated share of its capacity, the mean over its resources,
    whether or not the task asks for them.
    """

    reads_estimates = False
    by_state = True

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        return _free_share(free, capacity)


class Stack(MachineFitness):
    """The most utilised machine that has room: leaves others empty. Measured as for `Spread`."""

    reads_estimates = False
    fills = True
    by_state = True

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        return -_free_share(free, capacity)


class RandomFit(MachineFitness):
    """A random machine with room, drawn for each instance; the seed determines it.

    As a placement rule, the machines in a random order, drawn again each time.
    """

    reads_estimates = False

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run with a stream that nothing else of the policy draws from."""
        self._rng = rng.spawn(1)[0]

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        """Return random scores."""
        return self._rng.random(len(free))

    def order(self, task: Task, free: Floats, capacity: Floats, fitting: Ints) -> Ints:
        return self._rng.permutation(fitting)

    def split(self, task: Task, free: Floats, capacity: Floats, counts: Ints, needed: int) -> Split:
        """See `MachineFitness.split`.

        Draws for all instances at once. A draw of a machine that is full by then is drawn again,
        which is the same as to draw among those with room.
        """
        placed = np.zeros_like(counts)
        left = most = min(needed, int(counts.sum()))
        while left:
            with_room = (placed < counts).nonzero()[0]
            drawn = np.bincount(self._rng.choice(with_room, left), minlength=len(counts))
            placed = np.minimum(placed + drawn, counts)
            left = most - int(placed.sum())
        chosen = np.flatnonzero(placed)
        return chosen, placed[chosen]


def _free_share(free: Floats, capacity: Floats) -> Floats:
    has = capacity > 0
    share = np.divide(free, capacity, out=np.zeros_like(free), where=has)
    mean: Floats = row_sums(share) / np.maximum(has.sum(axis=1), 1)
    return mean
