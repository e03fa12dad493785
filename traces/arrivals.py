"""Arrivals without memory: Poisson in continuous time, Bernoulli in time steps."""

from __future__ import annotations

import numpy as np

from simkit.errors import TraceError
from simkit.workload import Floats

from .draws import BLOCK, draw_column
from .synthetic import check_positive, check_whole


def poisson_arrivals(*, jobs: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Return (jobs,) submit times in seconds of a Poisson process that starts at 0.

    The gaps, that before the first job included, are independent and exponential with mean
    1 / `rate_per_s`.

    Raises TraceError if `jobs` is below 1 or the rate is not a finite number above 0.
    """
    check_whole("jobs", jobs, 1)
    check_positive("rate_per_s", rate_per_s)
    gaps = draw_column(lambda _rows, rng: rng.standard_exponential(BLOCK), jobs, rng)
    np.cumsum(gaps, out=gaps)
    gaps /= rate_per_s
    return gaps


def bernoulli_arrivals(
    *, jobs: int, probability: float, step_s: float, rng: np.random.Generator
) -> Floats:
    """Return (jobs,) submit times in seconds: in each step one job arrives, or none.

    Steps begin at 0, `step_s`, 2 `step_s`, …; each brings a job with `probability`, independently
    of the others. The mean rate is `probability` / `step_s`.

    Raises TraceError if the probability is not in (0, 1], `step_s` not above 0, `jobs` below 1.
    """
    check_whole("jobs", jobs, 1)
    check_positive("step_s", step_s)
    if not 0 < probability <= 1:
        raise TraceError(
            f"generate: arrival probability {probability:.4g} a step of {step_s:g} s; it must be "
            "above 0 and at most 1, so lower the load or shorten the step"
        )
    steps = draw_column(lambda _rows, rng: rng.geometric(probability, BLOCK), jobs, rng)
    np.cumsum(steps, out=steps)
    steps -= 1.0  # a job may arrive in the very first step
    steps *= step_s
    return steps
