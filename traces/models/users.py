"""Synthetic users: who submits a job, and which run time they ask for.

Neither belongs to the published job models. Both are drawn from separate streams, so that
switching them on leaves arrivals, sizes and run times as they were.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.traces.models.draws import BLOCK, draw_column

Estimates = Literal["none", "exact", "modal"]
"""How users estimate run times: not at all, exactly, or by round values well above them."""

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0

ROUND_VALUES_S = np.array(
    [n * _MINUTE_S for n in (1, 2, 5, 10, 15, 20, 30)]
    + [n * _HOUR_S for n in (1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48)]
)
"""(18,) what users write, in seconds: from a minute to two days."""


def draw_users(jobs: int, users: int, rng: np.random.Generator) -> Ints:
    """Return (jobs,) user numbers 1 … users, the k-th with a share proportional to 1/k.

    In real logs few users submit most of the jobs, roughly by Zipf's law. Jobs are independent
    here: there are no sessions and no two jobs of a user are more alike than any others.
    """
    shares = np.cumsum(1.0 / np.arange(1, users + 1))
    bounds = shares / shares[-1]

    def block(_rows: slice, rng: np.random.Generator) -> Ints:
        return np.searchsorted(bounds, rng.random(BLOCK), side="right") + 1

    return draw_column(block, jobs, rng, np.int64)


def requested_times(run_time_s: Floats, estimates: Estimates, rng: np.random.Generator) -> Floats:
    """Return (J,) requested times in seconds, none below the run time.

    ``none`` gives NaN, ``exact`` the run time. ``modal`` divides the run time by an accuracy,
    uniform over (0, 1], and rounds up to the next of `ROUND_VALUES_S`, at most the largest; a run
    time beyond that is rounded up to whole days. The flat accuracy is what Mu'alem & Feitelson,
    "Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM SP2
    with backfilling" (2001), found in logs; the few round values are the modes of Tsafrir, Etsion
    & Feitelson, "Modeling user runtime estimates" (2005).
    """
    if estimates == "none":
        return np.full(len(run_time_s), np.nan)
    if estimates == "exact":
        return run_time_s

    def block(rows: slice, rng: np.random.Generator) -> Floats:
        accuracy = 1.0 - rng.random(BLOCK)
        run = run_time_s[rows]
        return _round_up(run, run / accuracy[: len(run)])

    return draw_column(block, len(run_time_s), rng)


def _round_up(run_time_s: Floats, wanted_s: Floats) -> Floats:
    last = len(ROUND_VALUES_S) - 1
    modes = ROUND_VALUES_S[np.minimum(np.searchsorted(ROUND_VALUES_S, wanted_s), last)]
    return np.where(modes >= run_time_s, modes, np.ceil(run_time_s / _DAY_S) * _DAY_S)
