"""Simple synthetic workloads: independent jobs that arrive without memory.

Four models of arrivals and run times. Arrivals are Poisson (continuous time) or Bernoulli
(time steps; then run times are also whole numbers of steps). Run times are exponential or
constant, as in queueing theory, or uniform or bimodal, as in much work on learned schedulers
(e.g. Mao et al., "Resource management with deep reinforcement learning", 2016: 80 % short jobs).
A job's size is uniform over a range and independent of its run time.

The arrival rate is given, or solved from an offered load: rate = load · processors / (mean size ·
mean run time). The load is that of the model; one log's own load scatters around it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from simkit.sections import (
    BrokenRulesError,
    CountRange,
    DurationRange,
    Positive,
    PositiveDuration,
)
from simkit.traces.models.draws import BLOCK, draw_column
from simkit.traces.models.laws import (
    Bimodal,
    Exponential,
    RunTimes,
    Uniform,
    bernoulli_arrivals,
    poisson_arrivals,
)
from simkit.traces.models.synthetic import Probability, RigidModel, Share
from simkit.workload import Trace


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
    """That a job arrives in a step; or give `offered_load`."""
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
