"""Fitness by vector packing: how well a task's request suits what is free, and what remains.

R. Panigrahy, K. Talwar, L. Uyeda and U. Wieder, "Heuristics for vector bin packing" (Microsoft
Research, 2011). They fill one bin at a time with the item that suits it best; here tasks come in
their order and the same measure chooses the machine. Amounts are shares of the machine's own
capacity (of a resource of which it has none: 0), and every resource has the same weight.

`Packer` and `Tetris` score pairs of a machine and a task by their alignment: the dot product of
what is free and what an instance asks for, divided by the number of resources, from 0 to 1. It is
large if a task asks for much of what there is much of. `Balance` looks at the remaining work of all
tasks instead.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, row_sums
from simkit.errors import ScenarioError
from simkit.policy import State, SystemInfo
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.fitness import MachineFitness, MachineTaskPairs
from simkit.policy.pairs.remaining_work import WorkFitness
from simkit.policy.task import Task
from simkit.units import ENDLESS_S


class DotProduct(MachineFitness):
    """The largest product of request and free amounts, summed over resources."""

    reads_estimates = False
    by_state = True

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        left, asked = shares(free, capacity), shares(task.request, capacity)
        return row_sums(left * asked)


class Cosine(DotProduct):
    """The smallest angle between request and free amounts: their shapes match, whatever the size.

    The dot product, divided by both lengths; 0 for a task that asks for nothing.
    """

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        left, asked = shares(free, capacity), shares(task.request, capacity)
        lengths = np.sqrt(row_sums(left**2) * row_sums(asked**2))
        product = row_sums(left * asked)
        cosine: Floats = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
        return cosine


class L2Norm(MachineFitness):
    """The smallest distance between request and free amounts: what fits most closely."""

    reads_estimates = False
    by_state = True

    def scores(self, task: Task, free: Floats, capacity: Floats) -> Floats:
        distance = shares(free, capacity) - shares(task.request, capacity)
        return -row_sums(distance**2)


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

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        capacity = pairs.capacity
        left, asked = shares(pairs.free, capacity), shares(pairs.request, capacity)
        aligned: Floats = row_sums(left * asked) / capacity.shape[1]
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
        return (1.0 - self.srtf) * aligned + self.srtf * short


class Balance(WorkFitness):
    """What will take longest first, and what keeps the resource busy of which most work remains.

        score = urgency + balance + 0.5 · cosine

    with the terms of `simkit.policy.pairs.terms`: tasks that are long, or have many instances, are
    urgent; of what is about as urgent, that which asks for the resource of which most work remains
    goes first, on the machine whose free amounts have its shape. It is made for small makespans of
    batches of bags.
    """

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        _, urgency, _, balance, cosine = self.urgency(pairs)
        scores: Floats = urgency + balance + 0.5 * cosine
        return scores
