"""The synthetic workload of RARE: short and long jobs on a pool of processors and GPUs.

The model is that of section 4.4.1 of the dissertation on power-modulated datacenters ("RARE",
University of Virginia, 2023): Poisson arrivals in time steps; 70 % of the jobs take 1 to 10 steps,
the others 10 to 30; each asks for 1 unit up to half of the pool, of processors and of GPUs
independently; everything is spread evenly. What the text leaves open, and what is done here:

- The arrival rate. The dissertation's table B.1 has 1 job a step and calls it the system's load.
  The mean job holds 3 of 10 units for 9.85 steps, so a job a step would be an offered load of
  2.96, under which no policy can complete the 73 to 77 % of the jobs that its figure 6.5 shows at
  80 to 100 %. So an offered load is given and the rate follows: load * units / (mean steps * mean
  units) jobs a step, 0.338 * load with the defaults. It is the load of the processors, and of the
  GPUs as well, since both demands follow one law.
- Arrivals happen at the beginning of a step, as many as a Poisson process has in it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from simkit.arrays import Ints
from simkit.errors import TraceError
from simkit.traces.models.draws import BLOCK, draw_column
from simkit.traces.models.laws import poisson_arrivals
from simkit.traces.models.synthetic import check_choice, check_positive, check_range, check_whole
from simkit.traces.models.users import ESTIMATES, Estimates, requested_times
from simkit.workload import RowReport, Trace, Workload

Arrivals = Literal["steps", "continuous"]


def generate_rare(
    *,
    jobs: int,
    units: int = 10,
    max_units: int | None = None,
    load: float | None = None,
    rate_per_step: float | None = None,
    step_s: float = 3600.0,
    arrivals: Arrivals = "steps",
    short_share: float = 0.7,
    short_steps: tuple[int, int] = (1, 10),
    long_steps: tuple[int, int] = (10, 30),
    estimates: Estimates = "exact",
    rng: np.random.Generator,
) -> Trace:
    """Generate short and long jobs that ask for processors and GPUs.

    Args:
        jobs: how many, at least 1.
        units: size of the pool: so many processors and so many GPUs.
        max_units: the most a job asks for of either; None: half of the pool.
        load: offered load of the model on either resource; either this or `rate_per_step`.
        rate_per_step: jobs a step.
        step_s: length of a step.
        arrivals: ``steps``: at the beginnings of steps; ``continuous``: at any time.
        short_share: probability that a job is short.
        short_steps: least and most steps of a short job.
        long_steps: those of a long one.
        estimates: how users estimate run times.
        rng: the generator; it is only spawned from.

    Returns:
        Jobs of one instance that asks for ``processors`` and ``gpu``, for a pool of `units` of
        each; values and qualities of service are given by the scenario's section `value`.

    Raises TraceError if an argument is out of its range.
    """
    most = max(units // 2, 1) if max_units is None else max_units
    _check(jobs, units, most, short_share, short_steps, long_steps)
    check_choice("arrivals", arrivals, ("steps", "continuous"))
    check_choice("estimates", estimates, ESTIMATES)
    check_positive("step_s", step_s)
    short, long = sum(short_steps) / 2, sum(long_steps) / 2
    mean_steps = short_share * short + (1 - short_share) * long
    rate = _rate(load, rate_per_step, units / (mean_steps * (1 + most) / 2))
    when, which, sizes, how = rng.spawn(4)
    submit = poisson_arrivals(jobs=jobs, rate_per_s=rate, rng=when)  # in steps
    if arrivals == "steps":
        submit = np.floor(submit)
    steps = draw_column(
        lambda _rows, rng: _steps(short_share, short_steps, long_steps, rng), jobs, which, np.int64
    )
    processors, gpus = (
        draw_column(lambda _rows, rng: rng.integers(1, most, BLOCK, endpoint=True), jobs, stream)
        for stream in sizes.spawn(2)
    )
    run = steps * step_s
    unknown = np.broadcast_to(np.nan, (jobs,))
    workload = Workload(
        resources=("processors", "gpu"),
        job_id=np.arange(1, jobs + 1),
        submit_time_s=submit * step_s,
        first_task=np.arange(jobs + 1),
        task_id=np.broadcast_to(np.int64(0), (jobs,)),
        instances=np.broadcast_to(np.int64(1), (jobs,)),
        request=np.column_stack((processors, gpus)),
        run_time_s=run,
        requested_time_s=unknown if estimates == "none" else requested_times(run, estimates, how),
        gang=np.broadcast_to(np.True_, (jobs,)),
        capacity={"processors": float(units), "gpu": float(units)},
    )
    return Trace(workload, RowReport(read=jobs, accepted=jobs))


def _steps(
    short_share: float, short: tuple[int, int], long: tuple[int, int], rng: np.random.Generator
) -> Ints:
    """Return (BLOCK,) run times in steps."""
    is_short = rng.random(BLOCK) < short_share
    of_short, of_long = (rng.integers(*bounds, BLOCK, endpoint=True) for bounds in (short, long))
    return np.where(is_short, of_short, of_long)


def _check(
    jobs: int,
    units: int,
    most: int,
    short_share: float,
    short_steps: tuple[int, int],
    long_steps: tuple[int, int],
) -> None:
    check_whole("jobs", jobs, 1)
    check_whole("units", units, 1)
    check_whole("max_units", most, 1)
    if most > units:
        raise TraceError(f"generate: max_units is {most}; give at most the pool's {units}")
    check_range("short_share", (short_share, short_share), 0, 1)
    for name, bounds in (("short_steps", short_steps), ("long_steps", long_steps)):
        for steps in bounds:
            check_whole(name, steps, 1)
        check_range(name, bounds, 1, 2**31)


def _rate(load: float | None, rate_per_step: float | None, jobs_at_once: float) -> float:
    """Return jobs a step, as given or from the load.

    `jobs_at_once` is the rate at which mean jobs fill the pool exactly.
    """
    if (load is None) == (rate_per_step is None):
        both = "both" if load is not None else "neither"
        raise TraceError(
            f"generate: load and rate_per_step: {both} given; give exactly one of them"
        )
    name, number = ("load", load) if load is not None else ("rate_per_step", rate_per_step)
    assert number is not None  # exactly one is given
    check_positive(name, number)
    return number * jobs_at_once if load is not None else number
