"""SchedQRM's workload: a few jobs of evenly spread burst classes, by default all at once.

"SchedQRM" (CCIT 2019), section on training: with N classes of burst time and a load of 100 %, a
job set has N jobs, each as likely of any class; one of class n runs for n steps. Of two resources
a job mainly asks for one, for half of the capacity to all of it, and for at most half of the other;
or, as likely, for a tenth to all of both. All jobs are there at once. With `rate` they come one by
one instead.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.scenario.workload import WorkloadModel
from simkit.sections import Count, ItemCount, PositiveDuration
from simkit.traces.models.synthetic import DrawnSets, Probability, pool_trace, spread
from simkit.workload import Trace

DRAWN = 6
"""Random numbers of a job: its arrival, length, kind of request, dominant resource and sizes."""


class SchedQRMModel(WorkloadModel):
    """The workload of SchedQRM (2019): jobs of ten burst classes, by default all at once."""

    jobs: ItemCount = 10
    """How many jobs; as many as classes are what the paper calls a load of 100 %."""
    classes: Count = 10
    """Burst classes; a job of class n runs for n steps."""
    rate: Probability | None = None
    """Probability that a job comes in a step, until all have come; null: all come at once."""
    step_s: PositiveDuration = 1.0
    """Length of a step."""
    capacity: Count = 10
    """Units of cpu and of mem that the pool has."""

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw one job set, the first that `draw_sets` draws.

        Jobs have one instance, with ``cpu`` and ``mem``, and their requested time is their run
        time.
        """
        enter, length, size = (column[0] for column in self.draw_sets(rng, 1))
        return pool_trace(enter, length, size.astype(np.float64), self.step_s, self.capacity)

    def draw_sets(self, rng: np.random.Generator, sets: int) -> DrawnSets:
        """Draw many job sets at once.

        More sets drawn with an equal generator begin with the same ones.
        """
        numbers = np.moveaxis(rng.random((sets, self.jobs, DRAWN)), -1, 0)
        comes, how_long, even, which, large, small = numbers
        enter = self._arrivals(comes)
        return DrawnSets(enter, spread(how_long, (1, self.classes)),
                         self._sizes(even < 0.5, which < 0.5, large, small))  # fmt: skip

    def _arrivals(self, numbers: Floats) -> Ints:
        """Return (S, J) steps of arrival: the steps between two are geometric."""
        if self.rate is None:
            return np.zeros(numbers.shape, np.int64)
        if self.rate == 1.0:
            between = np.zeros(numbers.shape, np.int64)
        else:
            between = np.floor(np.log1p(-numbers) / np.log1p(-self.rate)).astype(np.int64)
        enter: Ints = (between + 1).cumsum(axis=1)
        return enter - enter[:, :1]  # the first comes at step 0

    def _sizes(self, even: Ints, first: Ints, large: Floats, small: Floats) -> Ints:
        """Return (S, J, 2) units."""
        most = self.capacity
        least, half = max(most // 10, 1), -(-most // 2)
        much, little = spread(large, (half, most)), spread(small, (0, most // 2))
        cpu = np.where(even, spread(large, (least, most)), np.where(first, much, little))
        mem = np.where(even, spread(small, (least, most)), np.where(first, little, much))
        return np.stack((cpu, mem), axis=-1)
