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

from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from simkit.arrays import Floats, Ints
from simkit.sections import (
    BrokenRulesError,
    Count,
    CountRange,
    ItemCount,
    Positive,
    PositiveDuration,
)
from simkit.traces.models import poisson_arrivals
from simkit.traces.models.synthetic import (
    BLOCK,
    Estimates,
    LoadModel,
    Share,
    draw_column,
    requested_times,
)
from simkit.workload import RowReport, Trace, Workload


class RareModel(LoadModel):
    """The synthetic workload of RARE (2023): short and long jobs on processors and GPUs."""

    rate_key = "rate_per_step"
    jobs: ItemCount
    """How many jobs."""
    units: Count = 10
    """Size of the pool: so many processors and so many GPUs."""
    max_units: Count | None = None
    """The most a job asks for of either; null: half of the pool."""
    rate_per_step: Positive | None = None
    """Jobs a step; or give `offered_load`."""
    step_s: PositiveDuration = 3600.0
    """Length of a step."""
    arrivals: Literal["steps", "continuous"] = "steps"
    """Jobs arrive at the beginning of their step, or at any time."""
    short_share: Share = 0.7
    """The share of short jobs."""
    short_steps: CountRange = (1, 10)
    """Least and most steps of short jobs."""
    long_steps: CountRange = (10, 30)
    """Least and most steps of long jobs."""
    estimates: Estimates = "exact"
    """Requested times: none, the run time exactly, or round values well above it."""

    @model_validator(mode="after")
    def _one_rate_and_units_that_fit(self) -> Self:
        self.check_one_rate()
        if self.max_units is not None and self.max_units > self.units:
            text = f"must be at most the pool's {self.units}, not {self.max_units}"
            raise BrokenRulesError([(("max_units",), text)])
        return self

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw arrivals, run times, demands and requested times, each from a separate stream.

        Jobs have one instance that asks for ``processors`` and ``gpu``; values and qualities of
        service are given by the scenario's section `value`.
        """
        jobs, most = self.jobs, self.max_units or max(self.units // 2, 1)
        when, which, sizes, how = rng.spawn(4)
        submit = poisson_arrivals(jobs, self._rate(most), when)  # in steps
        if self.arrivals == "steps":
            submit = np.floor(submit)
        steps = draw_column(lambda _rows, rng: self._steps(rng), jobs, which, np.int64)
        demands = (
            draw_column(lambda _rows, rng: rng.integers(1, most, BLOCK, endpoint=True), jobs, own)
            for own in sizes.spawn(2)
        )
        run = steps * self.step_s
        wanted: Floats = np.broadcast_to(np.nan, (jobs,))
        if self.estimates != "none":
            wanted = requested_times(run, self.estimates, how)
        workload = Workload(
            resources=("processors", "gpu"),
            job_id=np.arange(1, jobs + 1),
            submit_time_s=submit * self.step_s,
            first_task=np.arange(jobs + 1),
            task_id=np.broadcast_to(np.int64(0), (jobs,)),
            instances=np.broadcast_to(np.int64(1), (jobs,)),
            request=np.column_stack(list(demands)),
            run_time_s=run,
            requested_time_s=wanted,
            gang=np.broadcast_to(np.True_, (jobs,)),
            capacity={"processors": float(self.units), "gpu": float(self.units)},
        )
        return Trace(workload, RowReport(read=jobs, accepted=jobs))

    def _rate(self, most: int) -> float:
        """Return jobs a step, as given or from the load."""
        if self.rate_per_step is not None:
            return self.rate_per_step
        assert self.offered_load is not None  # one of the two is given
        short, long = sum(self.short_steps) / 2, sum(self.long_steps) / 2
        mean_steps = self.short_share * short + (1 - self.short_share) * long
        return self.offered_load * (self.units / (mean_steps * (1 + most) / 2))

    def _steps(self, rng: np.random.Generator) -> Ints:
        """Return (BLOCK,) run times in steps."""
        is_short = rng.random(BLOCK) < self.short_share
        of_short, of_long = (
            rng.integers(*bounds, BLOCK, endpoint=True)
            for bounds in (self.short_steps, self.long_steps)
        )
        return np.where(is_short, of_short, of_long)
