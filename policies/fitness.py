"""Every fitness but DRF: which machine gets an instance, or which pair of a task and a machine.

`FirstFit`, `BestFit`, `WorstFit` and `RandomFit` are placement rules as well: their `order` puts
the machines that have room in order; the engine fills each with as many instances as fit before it
goes on to the next.

`DotProduct`, `Cosine` and `L2Norm` pack vectors, after R. Panigrahy, K. Talwar, L. Uyeda and
U. Wieder, "Heuristics for vector bin packing" (Microsoft Research, 2011). They fill one bin at a
time with the item that suits it best; here tasks come in their order and the same measure chooses
the machine.

`Packer` and `Tetris` score pairs by their alignment: the dot product of what is free and what an
instance asks for, divided by the number of resources, from 0 to 1. It is large if a task asks for
much of what there is much of. `Balance` looks at the remaining work of all tasks instead.

Amounts are shares of the machine's own capacity, and every resource has the same weight. A resource
that a machine lacks counts as 0 in packing, and is left out elsewhere.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints, row_sums
from simkit.errors import ScenarioError
from simkit.policy import State, SystemInfo, formulas
from simkit.policy.declared import NO_SIGNALS, MachineForm, PairForm
from simkit.policy.fitness import MachineFitness, MachineTaskPairs
from simkit.policy.remaining_work import WorkFitness
from simkit.policy.room import Split
from simkit.policy.task import Task
from simkit.units import ENDLESS_S


class FirstFit(MachineFitness):
    """The lowest machine row that has room."""

    reads_estimates = False
    fills = True
    by_row = True
    form = MachineForm()

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
    form = MachineForm(formulas.least_left)
    _sign = -1.0

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: note the largest machine's capacity, resource by resource."""
        self._largest = info.capacity.max(axis=0)

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        return _by_formula(self, task, free, capacity, self._largest)

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
    form = MachineForm(formulas.most_left)
    _sign = 1.0


class Spread(MachineFitness):
    """The least utilised machine: balances the load.

    A machine's utilisation is the allocated share of its capacity, the mean over its resources,
    whether or not the task asks for them.
    """

    reads_estimates = False
    by_state = True
    form = MachineForm(formulas.emptiest)

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        return _by_formula(self, task, free, capacity)


class Stack(MachineFitness):
    """The most utilised machine that has room: leaves others empty. Measured as for `Spread`."""

    reads_estimates = False
    fills = True
    by_state = True
    form = MachineForm(formulas.fullest)

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        return _by_formula(self, task, free, capacity)


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


def _by_formula(
    fitness: MachineFitness, task: Task, free: Floats, capacity: Floats, largest: Any = ()
) -> Floats:
    """Return (n,) the scores by the formula of a fitness."""
    form: MachineForm = type(fitness).form  # type: ignore[attr-defined]
    assert form.formula is not None
    scores: Floats = form.formula(free.T, _whole(capacity).T, task.request, largest)
    return scores


def _whole(capacity: Floats) -> Floats:
    """Return (n, R) capacities, infinite where there is none, so that a share of it is 0."""
    whole: Floats = np.where(capacity > 0, capacity, np.inf)
    return whole


class DotProduct(MachineFitness):
    """The largest product of request and free amounts, summed over resources."""

    reads_estimates = False
    by_state = True
    form = MachineForm(formulas.dot_product)

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        return _by_formula(self, task, free, capacity)


class Cosine(DotProduct):
    """The smallest angle between request and free amounts: their shapes match, whatever the size.

    The dot product, divided by both lengths; 0 for a task that asks for nothing.
    """

    form = MachineForm(formulas.cosine)


class L2Norm(MachineFitness):
    """The smallest distance between request and free amounts: what fits most closely."""

    reads_estimates = False
    by_state = True
    form = MachineForm(formulas.closeness)

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        return _by_formula(self, task, free, capacity)


def shares(amounts: npt.ArrayLike, capacity: Floats) -> Floats:
    """Return amounts, (n, R) or (R,), as shares of (n, R) capacities; 0 where there is none."""
    none = np.zeros(capacity.shape)
    share: Floats = np.divide(amounts, capacity, out=none, where=capacity > 0)
    return share


class Packer:
    """The best aligned pair first.

    H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
    learning" (HotNets 2016), whose packer takes alignment alone.
    """

    by_state = True
    signals = NO_SIGNALS
    reads_estimates = False
    form = PairForm()

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        aligned: Floats = formulas.aligned(pairs.free.T, _whole(pairs.capacity).T, pairs.request.T)
        return aligned


class Tetris(Packer):
    """Alignment, mixed with the shortest remaining work.

    R. Grandl, G. Ananthanarayanan, S. Kandula, S. Rao and A. Akella, "Multi-resource packing for
    cluster schedulers" (SIGCOMM 2014).

        score = (1 − srtf) · alignment + srtf · 1 / (1 + p / p̄)

    p is the remaining work of the task's job: over its waiting tasks, instances left × estimated
    run time × an instance's share of the cluster, the mean over resources. p̄ is the mean of p over
    the jobs that wait; both as the decision begins. The paper subtracts ε · p instead, with ε such
    that both terms have the same mean, which has no pure form at either end; here the second term
    lies between 0 and 1, as the first does, whatever the unit of time. Requests stand for the peaks
    of usage that the paper has, for a trace has no better.

    Args:
        srtf: the weight of the shortest remaining work, 0 (alignment alone) to 1 (it alone).

    Raises ScenarioError for a weight outside [0, 1].
    """

    reads_estimates = True
    form = PairForm()

    def __init__(self, srtf: float = 0.5) -> None:
        number = isinstance(srtf, (int, float)) and isfinite(srtf)
        if not number or not 0 <= srtf <= 1:
            raise ScenarioError(f"fitness tetris: srtf is {srtf!r}; it must lie from 0 to 1")
        self.srtf = srtf

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run."""
        self._index: Floats = np.empty(0)
        self._shortness: Floats = np.empty(0)

    def begin(self, state: State) -> None:
        """Take the remaining work of every job that waits."""
        if not self.srtf or not state.queue:
            return
        columns, tasks = state.queue.columns(), state.queue.tasks
        total, size = state.capacity.sum(axis=0), len(tasks)
        jobs = np.fromiter((task.job_index for task in tasks), np.int64, size)
        request = (columns.demand / columns.instances).T
        share = shares(request, np.broadcast_to(total, request.shape))
        seconds = np.minimum(columns.estimate_s, ENDLESS_S)
        work = columns.remaining * seconds * share.mean(axis=1)
        _, job = np.unique(jobs, return_inverse=True)
        of_job = np.bincount(job, weights=work)
        mean = float(of_job.mean())
        self._index = columns.index.copy()
        self._shortness = 1.0 / (1.0 + of_job / mean)[job] if mean > 0 else np.ones(size)

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        aligned = super().scores(pairs)
        if not self.srtf:
            return aligned
        short = self._shortness[self._index.searchsorted(pairs.index)]
        mixed: Floats = formulas.mixed(aligned, short, self.srtf)
        return mixed


class Balance(WorkFitness):
    """What will take longest first, and what keeps the resource with most remaining work busy.

        score = urgency + balance + 0.5 · cosine

    with the terms of `simkit.policy.remaining_work`: tasks that are long, or have many instances,
    are urgent; of tasks about as urgent, one that asks for the resource with most remaining work
    goes first, on the machine whose free amounts have its shape. It is made for small
    makespans of batches of bags.
    """

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        _, urgency, _, balance, cosine = self.urgency(pairs)
        scores: Floats = urgency + balance + 0.5 * cosine
        return scores
