"""Orderings by a number of the task, such as its estimate or size; ties go by submission.

The processors of a task are what all its instances ask of the first resource together. Where a
formula multiplies an estimate, one without an end counts as 2⁴⁰ s.
"""

from __future__ import annotations

from math import log10, sqrt

import numpy as np

from simkit.arrays import Floats
from simkit.policy import State, SystemInfo
from simkit.policy.task import Task
from simkit.units import ENDLESS_S


class FCFS:
    """First come, first served: by submission."""

    reads_estimates = False

    def key(self, task: Task) -> float:
        return task.submit_time_s


class LCFS:
    """Last come, first served: by submission backwards, also among jobs of one instant."""

    reads_estimates = False

    def key(self, task: Task) -> float:
        return -float(task.index)


class SJF:
    """Shortest job first: by the estimated run time."""

    def key(self, task: Task) -> float:
        return task.estimate_s


class LJF:
    """Longest job first: by the estimated run time, downwards."""

    def key(self, task: Task) -> float:
        return -task.estimate_s


class SAF:
    """Smallest area first: by processors × estimated run time."""

    def key(self, task: Task) -> float:
        return task.demand[0] * _r(task)


class LAF:
    """Largest area first: by processors × estimated run time, downwards."""

    def key(self, task: Task) -> float:
        return -task.demand[0] * _r(task)


class _Learned:
    """Functions found by regression over simulated schedules; smaller goes first.

    D. Carastan-Santos and R. Y. de Camargo, "Obtaining dynamic scheduling policies with
    simulation and machine learning" (SC 2017). r is the estimate in seconds, n the processors and
    s the submission in seconds since the first job of the workload. Floors, which the paper leaves
    open: s is at least 1, and the argument of every logarithm, r as well as s, is at least 2; so
    every job of the first two seconds has s taken as 2. r and n outside logarithms have no floor.
    """

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: note when the first job comes."""
        self._first_submit_s = info.first_submit_s

    def _log_submit(self, task: Task) -> float:
        return _log(max(1.0, task.submit_time_s - self._first_submit_s))


class F1(_Learned):
    """F1 = log10(r)·n + 870·log10(s)."""

    def key(self, task: Task) -> float:
        return _log(_r(task)) * task.demand[0] + 870.0 * self._log_submit(task)


class F2(_Learned):
    """F2 = √r·n + 25 600·log10(s)."""

    def key(self, task: Task) -> float:
        return sqrt(_r(task)) * task.demand[0] + 25_600.0 * self._log_submit(task)


class F3(_Learned):
    """F3 = r·n + 6 860 000·log10(s)."""

    def key(self, task: Task) -> float:
        return _r(task) * task.demand[0] + 6_860_000.0 * self._log_submit(task)


class F4(_Learned):
    """F4 = r·√n + 530 000·log10(s)."""

    def key(self, task: Task) -> float:
        return _r(task) * sqrt(task.demand[0]) + 530_000.0 * self._log_submit(task)


class LogRN:
    """Small log10(r)·n first, r at least 2 s: F1 without the submit time.

    D. Carastan-Santos and R. Y. de Camargo (SC 2017), as above.
    """

    def key(self, task: Task) -> float:
        return _log(_r(task)) * task.demand[0]


class R2N:
    """Small r²·n first, r at least 10 s: a short run counts for more than a small size.

    Between shortest job first and smallest area first. The bounded slowdown tells run times below
    10 s no more apart than this does.
    """

    def key(self, task: Task) -> float:
        estimate = max(_r(task), 10.0)
        return estimate * estimate * task.demand[0]


class Random:
    """A random order: each task draws a number, which depends on the seed and its rank alone.

    So a task keeps its number, whatever else arrives.
    """

    reads_estimates = False

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: draw the run's own seed."""
        self._seed = int(rng.integers(2**63))

    def key(self, task: Task) -> float:
        """Return a number that is uniform in [0, 1)."""
        return _splitmix(self._seed + task.index) / 2.0**64


def _r(task: Task) -> float:
    """Return a task's estimate as a finite number, in s."""
    return min(task.estimate_s, ENDLESS_S)


def _log(x: float) -> float:
    return log10(max(x, 2.0))


def _splitmix(number: int) -> int:
    """Return 64 well-mixed bits: the function of SplitMix64.

    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    mask = 2**64 - 1
    z = (number + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


class FewestRemaining:
    """The task with the fewest instances left to place first; ties go by submission."""

    reads_estimates = False

    def keys(self, state: State) -> Floats:
        return state.queue.columns().remaining.copy()


class LargestRequest:
    """The task whose instance has the largest dominant share first; ties go by submission.

    The dominant share is the largest, over resources, of an instance's request divided by the
    capacity of the largest machine: large pieces are packed while there are large gaps.
    """

    reads_estimates = False

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run: note the largest machine's capacity, resource by resource."""
        self._largest: list[float] = info.capacity.max(axis=0).tolist()

    def key(self, task: Task) -> float:
        asked = zip(task.request, self._largest, strict=True)
        return -max((amount / size for amount, size in asked if amount > 0 and size > 0), default=0)
