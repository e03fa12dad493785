"""The scenario's generated workloads: statistical models of jobs, each with its own keys.

The keys are the arguments of the generators in `simkit.traces`, which say what they mean in full;
only their `load` is called `offered_load` here, since `load` compresses arrivals in any workload.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simkit.scenario.types import (
    BrokenRulesError,
    Count,
    CountRange,
    DurationRange,
    Positive,
    PositiveDuration,
)
from simkit.scenario.workload import WorkloadBase

Share = Annotated[float, Field(ge=0, le=1)]


class LoadWorkload(WorkloadBase):
    """What the workloads share whose arrival rate may follow from a load."""

    rate_key: ClassVar[str] = "rate_per_s"

    def reader_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the generator, without its generator `rng`."""
        arguments = super().reader_arguments()
        return {"load" if name == "offered_load" else name: arguments[name] for name in arguments}

    def check_one_rate(self) -> None:
        """Raise ValueError unless one of offered load and arrival rate is given, and only one."""
        given = [key for key in ("offered_load", self.rate_key) if getattr(self, key) is not None]
        if len(given) != 1:
            counted = "both are" if given else "neither is"
            raise ValueError(
                f"needs offered_load or {self.rate_key}, and {counted} there; give one of them"
            )


class ModelWorkload(LoadWorkload):
    """What every workload of generated rigid jobs takes."""

    jobs: Count
    """How many jobs."""
    processors: Count
    """The machine's size, and so the most processors of a job."""
    offered_load: Positive | None = None
    """Requested area over capacity; the arrival rate follows from it."""
    users: Annotated[int, Field(ge=0)] = 0
    """How many users share the jobs; 0 leaves them unknown."""
    estimates: Literal["none", "exact", "modal"] = "exact"
    """Requested times: none, the run time exactly, or round values well above it."""


class LublinWorkload(ModelWorkload):
    """The model of Lublin and Feitelson (2003), with a daily cycle."""

    type: Literal["lublin"]
    """The model of Lublin and Feitelson (2003), with a daily cycle."""
    kind: Literal["all", "batch", "interactive", "both"] = "all"
    """Which of the published parameters; both: batch and interactive jobs mixed."""


class RateWorkload(ModelWorkload):
    """What models without a daily cycle take: the arrival rate comes from one of two keys."""

    sizes: CountRange | None = None
    """Least and most processors of a job, [1, 8]; null: from 1 to the machine's size."""

    @model_validator(mode="after")
    def _one_rate_and_sizes_that_fit(self) -> Self:
        self.check_one_rate()
        if self.sizes is not None and self.sizes[1] > self.processors:
            text = f"must be at most the machine's {self.processors}, not {self.sizes[1]}"
            raise BrokenRulesError([(("sizes", 1), text)])
        return self


class PoissonWorkload(RateWorkload):
    """Poisson arrivals: with jobs of one processor, the M/M/c and M/D/c queues of theory."""

    type: Literal["poisson"]
    """Poisson arrivals: with jobs of one processor, the M/M/c and M/D/c queues of theory."""
    rate_per_s: Positive | None = None
    """Jobs a second; or give `offered_load`."""
    run_times: Literal["exponential", "constant"] = "exponential"
    """The law of the run times."""
    mean_run_time_s: PositiveDuration = 3600.0
    """Mean run time."""
    sizes: CountRange = (1, 1)
    """Least and most processors of a job, [1, 8]."""


class BernoulliWorkload(RateWorkload):
    """At most one arrival a time step, with geometric or constant run times."""

    rate_key: ClassVar[str] = "probability"
    type: Literal["bernoulli"]
    """At most one arrival a time step, with geometric or constant run times."""
    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    """That a job arrives in a step; or give `offered_load`."""
    step_s: PositiveDuration = 60.0
    """Length of a step."""
    run_times: Literal["exponential", "constant"] = "exponential"
    """exponential: geometric, its like on time steps; constant: a whole number of steps."""
    mean_run_time_s: PositiveDuration = 3600.0
    """Mean run time, at least a step."""
    sizes: CountRange = (1, 1)
    """Least and most processors of a job, [1, 8]."""


class SpreadWorkload(RateWorkload):
    """What the models with ranges of run times take."""

    rate_per_s: Positive | None = None
    """Jobs a second; or give `offered_load`."""
    arrivals: Literal["poisson", "bernoulli"] = "poisson"
    """The law of the arrivals; with bernoulli, run times are whole numbers of steps."""
    step_s: PositiveDuration = 60.0
    """Length of a step of Bernoulli arrivals."""


class UniformWorkload(SpreadWorkload):
    """Run times and sizes spread evenly over ranges."""

    type: Literal["uniform"]
    """Run times and sizes spread evenly over ranges."""
    run_time_s: DurationRange = (60.0, 14_400.0)
    """Shortest and longest run time."""


class BimodalWorkload(SpreadWorkload):
    """Many short jobs and a few long ones, as in Mao et al. (2016)."""

    type: Literal["bimodal"]
    """Many short jobs and a few long ones, as in Mao et al. (2016)."""
    short_share: Share = 0.8
    """The share of short jobs."""
    short_run_time_s: DurationRange = (60.0, 180.0)
    """Shortest and longest run time of short jobs."""
    long_run_time_s: DurationRange = (600.0, 900.0)
    """Shortest and longest run time of long jobs."""


class RareWorkload(LoadWorkload):
    """The synthetic workload of RARE (2023): short and long jobs on processors and GPUs."""

    rate_key: ClassVar[str] = "rate_per_step"
    type: Literal["rare"]
    """The synthetic workload of RARE (2023): short and long jobs on processors and GPUs."""
    jobs: Count
    """How many jobs."""
    units: Count = 10
    """Size of the pool: so many processors and so many GPUs."""
    max_units: Count | None = None
    """The most a job asks for of either; null: half of the pool."""
    offered_load: Positive | None = None
    """Requested area over capacity, of either resource; the arrival rate follows from it."""
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
    estimates: Literal["none", "exact", "modal"] = "exact"
    """Requested times: none, the run time exactly, or round values well above it."""

    @model_validator(mode="after")
    def _one_rate_and_units_that_fit(self) -> Self:
        self.check_one_rate()
        if self.max_units is not None and self.max_units > self.units:
            text = f"must be at most the pool's {self.units}, not {self.max_units}"
            raise BrokenRulesError([(("max_units",), text)])
        return self


class DeepRMWorkload(LoadWorkload):
    """The workload of DeepRM (Mao et al. 2016): at most one job a step, mostly of one resource."""

    rate_key: ClassVar[str] = "rate"
    type: Literal["deeprm"]
    """The workload of DeepRM (Mao et al. 2016): at most one job a step, mostly of one resource."""
    rate: Annotated[float, Field(gt=0, le=1)] | None = None
    """Probability that a job arrives in a step; or give `offered_load`."""
    offered_load: Positive | None = None
    """Requested area over capacity, of either resource; the arrival rate follows from it."""
    steps: Annotated[int, Field(ge=2)] = 50
    """How many steps there are; jobs come in all but the first, as in the original."""
    step_s: PositiveDuration = 1.0
    """Length of a step."""
    demands: Literal["original", "paper"] = "original"
    """5 to 10 units of one resource and 1 or 2 of the other, or half of that."""
    short_share: Share = 0.8
    """The share of short jobs."""
    short_steps: CountRange = (1, 3)
    """Least and most steps of short jobs."""
    long_steps: CountRange = (10, 15)
    """Least and most steps of long jobs."""
    max_size: Count = 10
    """The largest demand in units; the dominant one is at least half, the other at most a fifth."""
    capacity: Count = 10
    """Amount of cpu and of mem that the pool has."""
    original_set: Annotated[int, Field(ge=0)] | None = None
    """Take this one of the original code's unseen job sets, from 0 on; null: draw one."""

    @model_validator(mode="after")
    def _one_rate_and_sizes_that_fit(self) -> Self:
        self.check_one_rate()
        most = self.capacity * (2 if self.demands == "paper" else 1)
        if self.max_size > most:
            text = f"must be at most {most}, the units that the pool has, not {self.max_size}"
            raise BrokenRulesError([(("max_size",), text)])
        return self


class SofiaWorkload(WorkloadBase):
    """The workload of the Sofia study (2021): a batch of jobs, mostly of one resource each."""

    type: Literal["sofia"]
    """The workload of the Sofia study (2021): a batch of jobs, mostly of one resource each."""
    positions: Count = 100
    """How many jobs there are at most; all of them at 0 s."""
    rate: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Probability that there is a job at a position."""
    step_s: PositiveDuration = 1.0
    """Length of a step."""
    short_share: Share = 0.8
    """The share of short jobs."""
    short_steps: CountRange = (3, 9)
    """Least and most steps of short jobs."""
    long_steps: CountRange = (30, 45)
    """Least and most steps of long jobs."""
    dominant: CountRange = (12, 25)
    """Least and most units of the resource that a job mainly asks for."""
    other: CountRange = (2, 5)
    """Least and most units of the other resource."""
    capacity: Count = 50
    """Units of cpu and of mem that the pool has."""

    @model_validator(mode="after")
    def _demands_fit(self) -> Self:
        problems = [
            ((name, 1), f"must be at most {self.capacity}, the capacity, not {most}")
            for name, (_, most) in (("dominant", self.dominant), ("other", self.other))
            if most > self.capacity
        ]
        if problems:
            raise BrokenRulesError(problems)
        return self
