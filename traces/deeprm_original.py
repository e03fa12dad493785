"""The unseen job sets of DeepRM's public code, bit for bit.

The original draws its test sets number by number from NumPy's legacy generator with one seed, so
that a set can only be had by drawing all that come before it. What was published of them are
results; this makes the jobs behind them, to compare with.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock

import numpy as np

from simkit.workload import Ints

SEED = 314159
"""The seed of the original's unseen job sets."""


def original_jobs(
    number: int,
    rate: float,
    steps: int,
    short_share: float,
    short_steps: tuple[int, int],
    long_steps: tuple[int, int],
    max_size: int,
) -> tuple[Ints, Ints, Ints]:
    """Return (J,) steps of arrival, (J,) lengths and (J, 2) sizes of one of the sets, from 0 on.

    The job that the original draws for step 0 is drawn and left out, as it never delivers it.
    """
    sets = _sets(rate, steps, short_share, tuple(short_steps), tuple(long_steps), max_size)
    table = sets.set(number)
    return table[:, 0], table[:, 1], table[:, 2:]


class _Sets:
    """The sets of some arguments, one after another: each begins where the last one ended."""

    def __init__(
        self,
        rate: float,
        steps: int,
        short_share: float,
        short_steps: tuple[int, int],
        long_steps: tuple[int, int],
        max_size: int,
    ) -> None:
        # The legacy generator, since no other has this stream; a local one, not NumPy's global.
        self._rng = np.random.RandomState(SEED)
        self._rate, self._steps, self._short_share = rate, steps, short_share
        self._short_steps, self._long_steps = short_steps, long_steps
        self._large, self._small = (max_size // 2, max_size + 1), (1, max_size // 5 + 1)
        self._drawn: list[Ints] = []
        self._lock = Lock()

    def set(self, number: int) -> Ints:
        """Return (J, 4): step of arrival, length and sizes of a set's jobs."""
        with self._lock:  # threads that draw at a time would get each other's numbers
            while len(self._drawn) <= number:
                jobs = [self._job(s) for s in range(self._steps) if self._rng.rand() < self._rate]
                table = np.array([job for job in jobs if job[0] > 0], np.int64).reshape(-1, 4)
                table.flags.writeable = False
                self._drawn.append(table)
        return self._drawn[number]

    def _job(self, step: int) -> tuple[int, int, int, int]:
        rng, large, small = self._rng, self._large, self._small
        bounds = self._short_steps if rng.rand() < self._short_share else self._long_steps
        length = rng.randint(bounds[0], bounds[1] + 1)
        sizes = (large, small) if rng.randint(0, 2) == 0 else (small, large)
        return step, length, rng.randint(*sizes[0]), rng.randint(*sizes[1])


_sets = lru_cache(maxsize=8)(_Sets)  # set after set is asked for; to draw them all takes 30 ms
