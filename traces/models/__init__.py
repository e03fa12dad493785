"""Simple synthetic workloads: independent jobs that arrive without memory, and RARE's.

Four models of arrivals and run times. Arrivals are Poisson (continuous time) or Bernoulli
(time steps; then run times are also whole numbers of steps). Run times are exponential or
constant, as in queueing theory, or uniform or bimodal, as in much work on learned schedulers
(e.g. Mao et al., "Resource management with deep reinforcement learning", 2016: 80 % short jobs).
A job's size is uniform over a range and independent of its run time.

The arrival rate is given, or solved from an offered load: rate = load · processors / (mean size ·
mean run time). The load is that of the model; one log's own load scatters around it.

RARE: section 4.4.1 of the dissertation on power-modulated datacenters ("RARE", University of
Virginia, 2023). Poisson arrivals in time steps; 70 % of the jobs take 1 to 10 steps, the others 10
to 30; each asks for 1 unit up to half of the pool, of processors and of GPUs independently;
everything is spread evenly. What the text leaves open, and what is done here:

- The arrival rate. The dissertation's table B.1 has 1 job a step and calls it the system's load.
  The mean job holds 3 of 10 units for 9.85 steps, so a job a step would be an offered load of
  2.96, under which no policy can complete the 73 to 77 % of the jobs that its figure 6.5 shows at
  80 to 100 %. So an offered load is given and the rate follows: load * units / (mean steps * mean
  units) jobs a step, 0.338 * load with the defaults. It is the load of the processors, and of the
  GPUs as well, since both demands follow one law.
- Arrivals happen at the beginning of a step, as many as a Poisson process has in it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
from pydantic import model_validator

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.sections import (
    BrokenRulesError,
    Count,
    CountRange,
    DurationRange,
    ItemCount,
    Positive,
    PositiveDuration,
)
from simkit.traces.models.synthetic import (
    BLOCK,
    Estimates,
    LoadModel,
    Probability,
    RigidModel,
    Share,
    draw_column,
    requested_times,
)
from simkit.workload import RowReport, Trace, Workload


def poisson_arrivals(jobs: int, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Return (jobs,) submit times in seconds of a Poisson process that starts at 0.

    The gaps, that before the first job included, are independent and exponential with mean
    1 / `rate_per_s`.
    """
    gaps = draw_column(lambda _rows, rng: rng.standard_exponential(BLOCK), jobs, rng)
    np.cumsum(gaps, out=gaps)
    gaps /= rate_per_s
    return gaps


def bernoulli_arrivals(
    jobs: int, probability: float, step_s: float, rng: np.random.Generator
) -> Floats:
    """Return (jobs,) submit times in seconds: in each step one job arrives, or none.

    Steps begin at 0, `step_s`, 2 `step_s`, …; each brings a job with `probability`, independently
    of the others. The mean rate is `probability` / `step_s`.

    Raises TraceError if the probability is above 1, as a load may ask for.
    """
    if probability > 1:
        raise TraceError(
            f"generate: arrival probability {probability:.4g} a step of {step_s:g} s; it must be "
            "at most 1, so lower the load or shorten the step"
        )
    steps = draw_column(lambda _rows, rng: rng.geometric(probability, BLOCK), jobs, rng)
    np.cumsum(steps, out=steps)
    steps -= 1.0  # a job may arrive in the very first step
    steps *= step_s
    return steps


class RunTimes(Protocol):
    """A distribution of run times in seconds."""

    @property
    def mean_s(self) -> float:
        """The expected run time."""

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return (BLOCK,) independent run times."""

    def on_steps(self, step_s: float) -> RunTimes:
        """Return the like law on whole multiples of `step_s`; TraceError if there is none."""


@dataclass(frozen=True)
class Exponential:
    """Run times without memory: exponential, or geometric on steps."""

    mean_s: float

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return (BLOCK,) exponential run times."""
        return self.mean_s * rng.standard_exponential(BLOCK)

    def on_steps(self, step_s: float) -> RunTimes:
        """Return the geometric law on 1, 2, … steps with the same mean."""
        if self.mean_s < step_s:
            raise TraceError(
                f"generate: mean run time {self.mean_s:g} s is below the time step, {step_s:g} s; "
                "a job takes at least one step, so shorten the step"
            )
        return _Geometric(self.mean_s, step_s)


@dataclass(frozen=True)
class _Geometric:
    mean_s: float
    step_s: float

    def draw(self, rng: np.random.Generator) -> Floats:
        steps = rng.geometric(self.step_s / self.mean_s, BLOCK)
        return self.step_s * steps.astype(np.float64)

    def on_steps(self, step_s: float) -> RunTimes:
        return _Geometric(self.mean_s, step_s)


@dataclass(frozen=True)
class Uniform:
    """Run times spread evenly over a range, or over its multiples of a step."""

    low_s: float
    high_s: float
    step_s: float = 0.0
    """0: any time in the range; else only whole multiples, both bounds included."""

    @property
    def mean_s(self) -> float:
        """The expected run time."""
        return (self.low_s + self.high_s) / 2

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return (BLOCK,) run times of the range."""
        if not self.step_s:
            return rng.uniform(self.low_s, self.high_s, BLOCK)
        low, high = round(self.low_s / self.step_s), round(self.high_s / self.step_s)
        return self.step_s * rng.integers(low, high, BLOCK, endpoint=True).astype(np.float64)

    def on_steps(self, step_s: float) -> RunTimes:
        """Return the law over the multiples of `step_s` within the range."""
        low, high = math.ceil(self.low_s / step_s), math.floor(self.high_s / step_s)
        if low > high:
            raise TraceError(
                f"generate: run times {self.low_s:g} … {self.high_s:g} s hold no whole multiple of "
                f"the time step, {step_s:g} s; widen them or shorten the step"
            )
        return Uniform(low * step_s, high * step_s, step_s)


@dataclass(frozen=True)
class Bimodal:
    """Short run times with probability `short_share`, long ones else."""

    short_share: float
    short: RunTimes
    long: RunTimes

    @property
    def mean_s(self) -> float:
        """The expected run time."""
        return self.short_share * self.short.mean_s + (1 - self.short_share) * self.long.mean_s

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return (BLOCK,) run times, short and long ones mixed."""
        short = rng.random(BLOCK) < self.short_share
        return np.where(short, self.short.draw(rng), self.long.draw(rng))

    def on_steps(self, step_s: float) -> RunTimes:
        """Return the like law with both modes on steps."""
        short, long = self.short.on_steps(step_s), self.long.on_steps(step_s)
        return Bimodal(self.short_share, short, long)


class MemorylessModel(RigidModel):
    """Independent jobs that arrive without memory."""

    sizes: CountRange | None = None
    """Least and most processors of a job, [1, 8]; null: from 1 to the machine's size."""

    @model_validator(mode="after")
    def _one_rate_and_sizes_that_fit(self) -> Self:
        self.check_one_rate()
        if self.sizes is not None and self.sizes[1] > self.processors:
            text = f"must be at most the machine's {self.processors}, not {self.sizes[1]}"
            raise BrokenRulesError([(("sizes", 1), text)])
        return self

    @abstractmethod
    def law(self) -> RunTimes:
        """Return the distribution of the run times."""

    def step(self) -> float | None:
        """Return the length of a step of Bernoulli arrivals; None: Poisson arrivals."""
        return None

    def rate(self, mean_run_time_s: float) -> float:
        """Return the arrival rate in jobs a second, as given or from the load."""
        given: float | None = getattr(self, self.rate_key)
        if given is not None:
            return given
        least, most = self.sizes or (1, self.processors)
        assert self.offered_load is not None  # one of the two is given
        return self.offered_load * self.processors / ((least + most) / 2 * mean_run_time_s)

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw arrivals, run times, sizes and users, each from a separate stream."""
        law, step, (least, most) = self.law(), self.step(), self.sizes or (1, self.processors)
        if step is not None:
            law = law.on_steps(step)
        rate = self.rate(law.mean_s)
        arrivals_rng, runs_rng, sizes_rng, users_rng = rng.spawn(4)
        if step is None:
            submit = poisson_arrivals(self.jobs, rate, arrivals_rng)
        else:
            submit = bernoulli_arrivals(self.jobs, rate * step, step, arrivals_rng)
        draw_size = lambda _rows, rng: rng.integers(least, most, BLOCK, endpoint=True)  # noqa: E731
        return self.rigid_jobs(
            submit,
            draw_column(lambda _rows, rng: law.draw(rng), self.jobs, runs_rng),
            draw_column(draw_size, self.jobs, sizes_rng, np.int64),
            None,
            users_rng,
        )


class PoissonModel(MemorylessModel):
    """Poisson arrivals: with jobs of one processor, the M/M/c and M/D/c queues of theory."""

    rate_per_s: Positive | None = None
    """Jobs a second; or give `offered_load`."""
    run_times: Literal["exponential", "constant"] = "exponential"
    """The law of the run times."""
    mean_run_time_s: PositiveDuration = 3600.0
    """Mean run time."""
    sizes: CountRange = (1, 1)
    """Least and most processors of a job, [1, 8]."""

    def law(self) -> RunTimes:
        """Return the law by its name."""
        return _law(self.run_times, self.mean_run_time_s)


class BernoulliModel(MemorylessModel):
    """At most one arrival a time step, with geometric or constant run times."""

    rate_key = "probability"
    probability: Probability | None = None
    """Probability of an arrival in a step; or give `offered_load`."""
    step_s: PositiveDuration = 60.0
    """Length of a step."""
    run_times: Literal["exponential", "constant"] = "exponential"
    """exponential: geometric, its like on time steps; constant: a whole number of steps."""
    mean_run_time_s: PositiveDuration = 3600.0
    """Mean run time, at least a step."""
    sizes: CountRange = (1, 1)
    """Least and most processors of a job, [1, 8]."""

    def law(self) -> RunTimes:
        """Return the law by its name."""
        return _law(self.run_times, self.mean_run_time_s)

    def step(self) -> float | None:
        """Return the length of a step."""
        return self.step_s

    def rate(self, mean_run_time_s: float) -> float:
        """Return jobs a second: the probability is that of a step."""
        rate = super().rate(mean_run_time_s)
        return rate if self.probability is None else rate / self.step_s


class SpreadModel(MemorylessModel):
    """What the models with ranges of run times take."""

    rate_per_s: Positive | None = None
    """Jobs a second; or give `offered_load`."""
    arrivals: Literal["poisson", "bernoulli"] = "poisson"
    """The law of the arrivals; with bernoulli, run times are whole numbers of steps."""
    step_s: PositiveDuration = 60.0
    """Length of a step of Bernoulli arrivals."""

    def step(self) -> float | None:
        """Return the length of a step if arrivals are on steps."""
        return self.step_s if self.arrivals == "bernoulli" else None


class UniformModel(SpreadModel):
    """Run times and sizes spread evenly over ranges."""

    run_time_s: DurationRange = (60.0, 14_400.0)
    """Shortest and longest run time."""

    def law(self) -> RunTimes:
        """Return the uniform law."""
        return Uniform(*self.run_time_s)


class BimodalModel(SpreadModel):
    """Many short jobs and a few long ones, as in Mao et al. (2016)."""

    short_share: Share = 0.8
    """The share of short jobs."""
    short_run_time_s: DurationRange = (60.0, 180.0)
    """Shortest and longest run time of short jobs."""
    long_run_time_s: DurationRange = (600.0, 900.0)
    """Shortest and longest run time of long jobs."""

    def law(self) -> RunTimes:
        """Return the mixture."""
        short, long = Uniform(*self.short_run_time_s), Uniform(*self.long_run_time_s)
        return Bimodal(self.short_share, short, long)


def _law(run_times: str, mean_s: float) -> RunTimes:
    return Exponential(mean_s) if run_times == "exponential" else Uniform(mean_s, mean_s)


class RareModel(LoadModel):
    """The synthetic workload of RARE (2023): short and long jobs on processors and GPUs."""

    rate_key = "rate_per_step"
    jobs: ItemCount
    """How many jobs."""
    units: Count = 10
    """Processors, and GPUs, of the pool."""
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
