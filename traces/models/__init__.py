"""Simple synthetic workloads: independent jobs that arrive without memory.

Four generators over the same two choices. Arrivals are Poisson (continuous time) or Bernoulli
(time steps: then run times, too, are whole numbers of steps). Run times are exponential or
constant, as in queueing theory, or uniform or bimodal, as in much work on learned schedulers
(e.g. Mao et al., "Resource management with deep reinforcement learning", 2016: 80 % short jobs).
A job's size is uniform over a range and independent of its run time.

The arrival rate is given, or solved from an offered load: rate = load · processors / (mean size ·
mean run time). The load is that of the model; one log's own load scatters around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.traces.models.draws import BLOCK, draw_column
from simkit.traces.models.laws import (
    Bimodal,
    Exponential,
    RunTimes,
    Uniform,
    bernoulli_arrivals,
    poisson_arrivals,
)
from simkit.traces.models.synthetic import (
    check_choice,
    check_common,
    check_positive,
    check_range,
    synthetic_trace,
)
from simkit.traces.models.users import Estimates
from simkit.workload import Trace

ArrivalLaw = Literal["poisson", "bernoulli"]
RunTimeLaw = Literal["exponential", "constant"]
Range = tuple[float, float]


def generate_poisson(
    *,
    jobs: int,
    processors: int,
    load: float | None = None,
    rate_per_s: float | None = None,
    run_times: RunTimeLaw = "exponential",
    mean_run_time_s: float = 3600.0,
    sizes: tuple[int, int] = (1, 1),
    users: int = 0,
    estimates: Estimates = "exact",
    rng: np.random.Generator,
) -> Trace:
    """Generate Poisson arrivals of jobs with exponential or constant run times.

    With jobs of one processor these are the M/M/c and M/D/c queues of theory, c = `processors`.

    Args:
        jobs: how many, at least 1.
        processors: capacity of the machine.
        load: offered load of the model; either this or `rate_per_s`.
        rate_per_s: jobs a second.
        run_times: ``exponential`` or ``constant``.
        mean_run_time_s: mean run time, above 0.
        sizes: least and most processors of a job.
        users: how many users share the jobs; 0 leaves them unknown.
        estimates: how users estimate run times (see `users.requested_times`).
        rng: the generator; it is only spawned from.

    Raises TraceError if an argument is out of its range.
    """
    return _generate(
        jobs, processors, load, _law(run_times, mean_run_time_s), sizes, users, estimates, rng,
        arrivals="poisson", rate_per_s=rate_per_s,
    )  # fmt: skip


def generate_bernoulli(
    *,
    jobs: int,
    processors: int,
    load: float | None = None,
    probability: float | None = None,
    step_s: float = 60.0,
    run_times: RunTimeLaw = "exponential",
    mean_run_time_s: float = 3600.0,
    sizes: tuple[int, int] = (1, 1),
    users: int = 0,
    estimates: Estimates = "exact",
    rng: np.random.Generator,
) -> Trace:
    """Generate Bernoulli arrivals of jobs with geometric or constant run times.

    The other arguments are those of `generate_poisson`; ``exponential`` means the geometric law,
    its like on time steps. A constant run time must be a whole number of steps.

    Args:
        jobs: how many, at least 1.
        processors: capacity of the machine.
        load: offered load of the model; either this or `probability`.
        probability: that a job arrives in a step.
        step_s: length of a step.
        run_times: ``exponential`` or ``constant``.
        mean_run_time_s: mean run time, at least a step.
        sizes: least and most processors of a job.
        users: how many users share the jobs; 0 leaves them unknown.
        estimates: how users estimate run times.
        rng: the generator; it is only spawned from.

    Raises TraceError if an argument is out of its range, or a load needs more than a job a step.
    """
    check_positive("step_s", step_s)
    return _generate(
        jobs, processors, load, _law(run_times, mean_run_time_s), sizes, users, estimates, rng,
        arrivals="bernoulli", step_s=step_s, given="probability",
        rate_per_s=None if probability is None else probability / step_s,
    )  # fmt: skip


def generate_uniform(
    *,
    jobs: int,
    processors: int,
    load: float | None = None,
    rate_per_s: float | None = None,
    arrivals: ArrivalLaw = "poisson",
    step_s: float = 60.0,
    run_time_s: Range = (60.0, 14_400.0),
    sizes: tuple[int, int] | None = None,
    users: int = 0,
    estimates: Estimates = "exact",
    rng: np.random.Generator,
) -> Trace:
    """Generate jobs with run times and sizes spread evenly over ranges.

    Args:
        jobs: how many, at least 1.
        processors: capacity of the machine.
        load: offered load of the model; either this or `rate_per_s`.
        rate_per_s: jobs a second.
        arrivals: ``poisson``, or ``bernoulli``: then run times are whole numbers of steps.
        step_s: length of a step; only Bernoulli arrivals have steps.
        run_time_s: shortest and longest run time.
        sizes: least and most processors of a job; None means 1 … `processors`.
        users: how many users share the jobs; 0 leaves them unknown.
        estimates: how users estimate run times.
        rng: the generator; it is only spawned from.

    Raises TraceError if an argument is out of its range.
    """
    check_range("run_time_s", run_time_s, 0, math.inf)
    return _generate(
        jobs, processors, load, Uniform(*run_time_s), sizes, users, estimates, rng,
        arrivals=arrivals, step_s=step_s, rate_per_s=rate_per_s,
    )  # fmt: skip


def generate_bimodal(
    *,
    jobs: int,
    processors: int,
    load: float | None = None,
    rate_per_s: float | None = None,
    arrivals: ArrivalLaw = "poisson",
    step_s: float = 60.0,
    short_share: float = 0.8,
    short_run_time_s: Range = (60.0, 180.0),
    long_run_time_s: Range = (600.0, 900.0),
    sizes: tuple[int, int] | None = None,
    users: int = 0,
    estimates: Estimates = "exact",
    rng: np.random.Generator,
) -> Trace:
    """Generate many short jobs and a few long ones; the defaults are Mao et al. (2016)'s.

    Args:
        jobs: how many, at least 1.
        processors: capacity of the machine.
        load: offered load of the model; either this or `rate_per_s`.
        rate_per_s: jobs a second.
        arrivals: ``poisson``, or ``bernoulli``: then run times are whole numbers of steps.
        step_s: length of a step; only Bernoulli arrivals have steps.
        short_share: probability that a job is short.
        short_run_time_s: shortest and longest run time of short jobs.
        long_run_time_s: those of long jobs.
        sizes: least and most processors of a job; None means 1 … `processors`.
        users: how many users share the jobs; 0 leaves them unknown.
        estimates: how users estimate run times.
        rng: the generator; it is only spawned from.

    Raises TraceError if an argument is out of its range.
    """
    check_range("short_run_time_s", short_run_time_s, 0, math.inf)
    check_range("long_run_time_s", long_run_time_s, 0, math.inf)
    check_range("short_share", (short_share, short_share), 0, 1)
    law = Bimodal(short_share, Uniform(*short_run_time_s), Uniform(*long_run_time_s))
    return _generate(
        jobs, processors, load, law, sizes, users, estimates, rng,
        arrivals=arrivals, step_s=step_s, rate_per_s=rate_per_s,
    )  # fmt: skip


def _law(run_times: RunTimeLaw, mean_s: float) -> RunTimes:
    check_choice("run_times", run_times, get_args(RunTimeLaw))
    check_positive("mean_run_time_s", mean_s)
    return Exponential(mean_s) if run_times == "exponential" else Uniform(mean_s, mean_s)


def _generate(
    jobs: int,
    processors: int,
    load: float | None,
    law: RunTimes,
    sizes: tuple[int, int] | None,
    users: int,
    estimates: Estimates,
    rng: np.random.Generator,
    *,
    arrivals: ArrivalLaw,
    rate_per_s: float | None,
    step_s: float = 60.0,
    given: str = "rate_per_s",
) -> Trace:
    """Draw arrivals, run times, sizes and users, each from a stream of its own."""
    check_common(jobs=jobs, processors=processors, users=users, estimates=estimates)
    check_choice("arrivals", arrivals, get_args(ArrivalLaw))
    check_positive("step_s", step_s)
    least, most = (1, processors) if sizes is None else sizes
    check_range("sizes", (least, most), 1, processors)
    if arrivals == "bernoulli":
        law = law.on_steps(step_s)
    rate = _rate(load, rate_per_s, processors, (least + most) / 2 * law.mean_s, given)
    arrivals_rng, runs_rng, sizes_rng, users_rng = rng.spawn(4)
    draw_size = lambda _rows, rng: rng.integers(least, most, BLOCK, endpoint=True)  # noqa: E731
    return synthetic_trace(
        processors=processors,
        submit_time_s=_ARRIVALS[arrivals](jobs, rate, step_s, arrivals_rng),
        run_time_s=draw_column(lambda _rows, rng: law.draw(rng), jobs, runs_rng),
        sizes=draw_column(draw_size, jobs, sizes_rng, np.int64),
        users=users,
        estimates=estimates,
        rng=users_rng,
    )


def _rate(
    load: float | None, rate_per_s: float | None, processors: int, mean_area: float, given: str
) -> float:
    """Return jobs a second, as given or from the load and the mean processor-seconds of a job."""
    if (load is None) == (rate_per_s is None):
        both = "both" if load is not None else "neither"
        raise TraceError(f"generate: load and {given}: {both} given; give exactly one of them")
    if load is None:
        assert rate_per_s is not None  # exactly one is given
        check_positive(given, rate_per_s)
        return rate_per_s
    check_positive("load", load)
    check_positive("mean run time (a load needs one)", mean_area)
    return load * processors / mean_area


_ARRIVALS: dict[ArrivalLaw, Callable[[int, float, float, np.random.Generator], Floats]] = {
    "poisson": lambda jobs, rate, _step, rng: poisson_arrivals(jobs=jobs, rate_per_s=rate, rng=rng),
    "bernoulli": lambda jobs, rate, step, rng: bernoulli_arrivals(
        jobs=jobs, probability=rate * step, step_s=step, rng=rng
    ),
}
