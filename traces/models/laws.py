"""Laws of arrivals and of run times for simple job models, in continuous time or in time steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.traces.models.draws import BLOCK, draw_column


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
