"""The job sets that `simkit.env` plays under the same seeds, for many replicas.

Each replica has a generator of its own, as each of several environments has: the first episode's
seed is given, the others are drawn from it, and a seed that draws no job is skipped. Where no seed
is given, `simkit.gym.agent_view` numbers the replicas. Sets are drawn ahead, since to draw many
at once takes a fraction of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from simkit.arrays import Ints, stream
from simkit.errors import NoJobsError
from simkit.traces.models.deeprm import DeepRMModel
from simkit.traces.models.synthetic import DrawnSets

AHEAD = 8
"""Job sets that are ready for each replica after a draw."""
TRIES = 100
"""Draws, of `AHEAD` sets each, that may bring no job."""
Ready = tuple[int, DrawnSets, int]
"""The seed of a job set, the sets that it was drawn with, and its row there."""


class SeededJobs:
    """Job sets of DeepRM's workload, drawn seed by seed."""

    def __init__(self, workload: DeepRMModel) -> None:
        self._workload = workload
        self.most = workload.steps - 1
        """J: the jobs of a set, padded."""
        self._generators: list[np.random.Generator] = []
        self._ready: list[deque[Ready]] = []

    def reset(self, seeds: Sequence[int]) -> DrawnSets:
        """Begin with a seed for each replica; return the job sets of these seeds.

        Raises NoJobsError if a seed draws no job.
        """
        drawn = self._draw(seeds)
        empty = np.flatnonzero(drawn.length[:, 0] == 0)
        if len(empty):
            raise NoJobsError(
                f"seed {seeds[empty[0]]} draws no job; take another seed, more steps, or a higher "
                "rate"
            )
        self._generators = [np.random.default_rng(seed) for seed in seeds]
        self._ready = [deque() for _ in seeds]
        return self._gathered([(seed, drawn, row) for row, seed in enumerate(seeds)])

    def reset_unseeded(self, seeds: Sequence[int]) -> None:
        """Begin with seeds of our own, one for each replica; those that draw no job are skipped."""
        drawn = self._draw(seeds)
        self._generators = [np.random.default_rng(seed) for seed in seeds]
        there = (drawn.length[:, 0] > 0).tolist()
        self._ready = [
            deque([(seed, drawn, row)] if there[row] else ()) for row, seed in enumerate(seeds)
        ]

    def next_sets(self, replicas: Iterable[int]) -> tuple[Ints, DrawnSets]:
        """Return (K,) the seeds of the next episodes of some replicas, and their K job sets.

        Raises NoJobsError if many seeds in a row draw no job.
        """
        chosen: list[Ready] = []
        for replica in replicas:
            if not self._ready[replica]:
                self._draw_ahead(replica)
            chosen.append(self._ready[replica].popleft())
        return np.array([seed for seed, _, _ in chosen], np.int64), self._gathered(chosen)

    def _draw_ahead(self, replica: int) -> None:
        """Fill up what is ready for all replicas, at least one set for one of them."""
        for _ in range(TRIES):
            owners = [
                n for n, ready in enumerate(self._ready) for _ in range(AHEAD - len(ready))
            ]  # fmt: skip
            seeds = [int(self._generators[n].integers(2**31)) for n in owners]
            drawn = self._draw(seeds)
            there = (drawn.length[:, 0] > 0).tolist()
            for row, (owner, seed) in enumerate(zip(owners, seeds, strict=True)):
                if there[row]:
                    self._ready[owner].append((seed, drawn, row))
            if self._ready[replica]:
                return
        raise NoJobsError(
            f"{TRIES * AHEAD} seeds in a row draw no job; take more steps, or a higher rate"
        )

    def _draw(self, seeds: Iterable[int]) -> DrawnSets:
        return self._workload.draw_each([stream(seed, "workload") for seed in seeds])

    def _gathered(self, chosen: Sequence[Ready]) -> DrawnSets:
        enter, length = np.zeros((2, len(chosen), self.most), np.int64)
        sets = DrawnSets(enter, length, np.zeros((len(chosen), self.most, 2), np.int64))
        for place, (_, drawn, row) in enumerate(chosen):
            width = drawn.length.shape[1]
            sets.enter[place, :width] = drawn.enter[row]
            sets.length[place, :width] = drawn.length[row]
            sets.size[place, :width] = drawn.size[row]
        return sets
