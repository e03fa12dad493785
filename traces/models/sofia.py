"""Sofia's workload: a batch of jobs that are all there at step 0, with a dominant demand each.

The model of the public code behind "Resource management with deep reinforcement learning" (Sofia,
2021), which differs from its text. The code draws about as many jobs as there are positions times
the rate, 100 * 0.7, and fills slots and backlog with them at once, so that nothing arrives later.
80 % of the jobs take 3 to 9 steps, the others 30 to 45 (the text's 1 to 3 and 10 to 15, times its
t = 3); a job asks for 12 to 25 of 50 units of one resource, picked evenly, and for 2 to 5 of the
other (a quarter to half, and 5 to 10 %, of its r = 50). All are spread evenly.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import model_validator

from simkit.errors import TraceError
from simkit.scenario.workload import WorkloadModel
from simkit.sections import BrokenRulesError, Count, CountRange, PositiveDuration
from simkit.traces.models.synthetic import DrawnSets, Probability, Share, pool_trace, spread
from simkit.workload import Trace


class SofiaModel(WorkloadModel):
    """The workload of the Sofia study (2021): a batch of jobs, mostly of one resource each."""

    positions: Count = 100
    """How many jobs there are at most; all of them at 0 s."""
    rate: Probability = 0.7
    """Probability that there is a job at a position."""
    step_s: PositiveDuration = 1.0
    """Length of a step."""
    short_share: Share = 0.8
    """The share of short jobs."""
    short_steps: CountRange = (3, 9)
    """Least and most steps of short jobs."""
    long_steps: CountRange = (30, 45)
    """Least and most steps of long jobs."""
    dominant: CountRange = (12, 25)
    """Least and most units of the resource that a job mainly asks for."""
    other: CountRange = (2, 5)
    """Least and most units of the other resource."""
    capacity: Count = 50
    """Units of cpu and of mem that the pool has."""

    @model_validator(mode="after")
    def _demands_fit(self) -> Self:
        problems = [
            ((name, 1), f"must be at most {self.capacity}, the capacity, not {most}")
            for name, (_, most) in (("dominant", self.dominant), ("other", self.other))
            if most > self.capacity
        ]
        if problems:
            raise BrokenRulesError(problems)
        return self

    def derived(self) -> dict[str, tuple[float, str]]:
        """Return the positions, at each of which there may be a job."""
        return {"positions": (self.positions, "positions")}

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw one batch, the first that `draw_sets` draws.

        Jobs have one instance, with ``cpu`` and ``mem``. All are submitted at 0 s, and their
        requested time is their run time. Raises TraceError if there is no job.
        """
        enter, length, size = (column[0] for column in self.draw_sets(rng, 1))
        there = length > 0
        if not there.any():
            raise TraceError(
                f"no job at any of {self.positions} positions at a rate of {self.rate:g}; take "
                "another seed, more positions, or a higher rate"
            )
        sizes = size[there].astype(np.float64)
        return pool_trace(enter[there], length[there], sizes, self.step_s, self.capacity)

    def draw_sets(self, rng: np.random.Generator, sets: int) -> DrawnSets:
        """Draw many batches at once.

        More sets drawn with an equal generator begin with the same ones.
        """
        numbers = rng.random((sets, self.positions, 6))  # set after set, position after position
        there, is_short, how_long, which, large, small = np.moveaxis(numbers, -1, 0)
        short, long = spread(how_long, self.short_steps), spread(how_long, self.long_steps)
        length = np.where(is_short < self.short_share, short, long)
        much, little = spread(large, self.dominant), spread(small, self.other)
        first = which < 0.5
        size = np.stack((np.where(first, much, little), np.where(first, little, much)), axis=-1)
        at_once = np.zeros(self.positions, np.int64)
        return DrawnSets.gathered(there < self.rate, at_once, length, size)
