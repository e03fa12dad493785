"""Workloads of DeepRM and its successors: slotted jobs, each with a dominant demand.

DeepRM: at most one job a time step, most of them short. The model is that of Mao, Alizadeh, Menache
and Kandula, "Resource Management with Deep Reinforcement Learning" (HotNets 2016), section 4.1, as
their public code has it: in each step a job arrives with one probability; 80 % take 1 to 3 steps,
the others 10 to 15; a job asks for much of one resource, picked evenly, and for little of the
other; everything is spread evenly. Where the two contradict, a key decides, and this holds here:

- Demands. With capacities of 10, the code draws 5 to 10 units of the dominant resource and 1 or 2
  of the other (``original``); the text says a quarter to half of the capacity, and 5 to 10 % of it
  (``paper``). These are the same numbers in units of half the size, and that is how the paper's
  demands are drawn: 2.5, 3, …, 5 and 0.5 or 1 of 10. Both stay whole numbers of units, as the
  model's image needs. With the paper's demands a job in every step is an offered load of 0.92,
  with the code's one of 1.845: the paper's loads above 92 % are reachable with the latter alone.
- The first step. The original never delivers what it draws for step 0, so `steps` steps bring jobs
  in steps 1 to `steps` - 1; so they do here.

Sofia: the model of the public code behind "Resource management with deep reinforcement learning"
(Sofia, 2021), which differs from its text. The code draws about as many jobs as there are positions
times the rate, 100 * 0.7, and fills slots and backlog with them at once, so that nothing arrives
later. 80 % of the jobs take 3 to 9 steps, the others 30 to 45 (the text's 1 to 3 and 10 to 15,
times its t = 3); a job asks for 12 to 25 of 50 units of one resource, picked evenly, and for 2 to 5
of the other (a quarter to half, and 5 to 10 %, of its r = 50).

SchedQRM: section on training of "SchedQRM" (CCIT 2019). With N classes of burst time and a load of
100 %, a job set has N jobs, each as likely of any class; one of class n runs for n steps. A job
mainly asks for one of two resources, for half of the capacity to all of it, and for at most half of
the other; or, as likely, for a tenth to all of both. With `rate` jobs come one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import NoJobsError, TraceError
from simkit.scenario.workload import WorkloadModel
from simkit.sections import BrokenRulesError, Count, CountRange, ItemCount, PositiveDuration
from simkit.traces.models.synthetic import (
    DrawnSets,
    LoadModel,
    Probability,
    Share,
    pool_trace,
    spread,
)
from simkit.workload import Trace

DRAWN = 6
"""Random numbers of a step: whether a job arrives, its length and its sizes."""
SEED = 314159
"""The seed of the original's unseen job sets."""
UNIT = {"original": 1.0, "paper": 0.5}
"""The amount of a resource in a unit of demand, by `demands`."""


class DeepRMModel(LoadModel):
    """The workload of DeepRM (Mao et al. 2016): at most one job a step, mostly of one resource."""

    rate_key = "rate"
    rate: Probability | None = None
    """Probability that a job arrives in a step; or give `offered_load`."""
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

    def derived(self) -> dict[str, tuple[float, str]]:
        """Return the steps in which a job may come, of all sets up to the one taken."""
        sets = 1 if self.original_set is None else 1 + self.original_set
        key = "steps" if self.original_set is None else "original_set"
        return {key: (sets * self.steps, "steps")}

    @property
    def unit(self) -> float:
        """The amount of a resource in a unit of demand."""
        return UNIT[self.demands]

    def arrival_rate(self) -> float:
        """Return the probability of a job in a step: as given, or as the offered load needs it.

        A job's mean area is its mean length times its mean size, each resource being the dominant
        one as often; 1.845 capacities a job and step with the defaults.

        Raises TraceError if the load needs more than a job a step.
        """
        if self.rate is not None:
            return self.rate
        assert self.offered_load is not None  # one of the two is given
        share, short, long = self.short_share, self.short_steps, self.long_steps
        mean_steps = share * sum(short) / 2 + (1 - share) * sum(long) / 2
        mean_size = (sum(self._dominant) + sum(self._other)) / 4 * self.unit
        jobs_at_once = self.capacity / (mean_steps * mean_size)
        if (rate := self.offered_load * jobs_at_once) > 1:
            raise TraceError(
                f"offered_load: {self.offered_load:g} needs {rate:.4g} jobs a step, but at most "
                f"one job arrives in a step; give at most {1 / jobs_at_once:.4g}"
            )
        return rate

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw one job set, the first of those of `draw_sets`, or take the `original_set`.

        Jobs have one instance, with ``cpu`` and ``mem``. They are submitted at the beginnings of
        their steps, and their requested time is their run time. The load is that of the model, on
        either resource: 1.845 * `rate` with all defaults.

        Raises TraceError as `arrival_rate` does, NoJobsError if no job arrives at all.
        """
        if self.original_set is None:
            arrives, *columns = self._of_numbers(rng.random((1, self.steps - 1, DRAWN)))
            there = np.flatnonzero(arrives[0])
            enter, length, size = there + 1, *(column[0, there] for column in columns)
        else:
            enter, length, size = self.unseen_set(self.original_set)
        if not len(enter):
            raise NoJobsError(
                f"no job arrives in {self.steps} steps at a rate of {self.arrival_rate():.4g}; "
                "take another seed or set, more steps, or a higher rate"
            )
        return pool_trace(enter, length, size * self.unit, self.step_s, self.capacity)

    def draw_sets(self, rng: np.random.Generator, sets: int) -> DrawnSets:
        """Draw many job sets at once; sizes are in units.

        More sets drawn with an equal generator begin with the same ones.
        """
        return self._gathered(rng.random((sets, self.steps - 1, DRAWN)))

    def draw_each(self, generators: Sequence[np.random.Generator]) -> DrawnSets:
        """Draw one job set with each generator, the one that `generate` draws with it.

        A set is without jobs where `generate` raises NoJobsError.
        """
        return self._gathered(np.array([g.random((self.steps - 1, DRAWN)) for g in generators]))

    def _gathered(self, numbers: Floats) -> DrawnSets:
        arrives, length, size = self._of_numbers(numbers)
        return DrawnSets.gathered(arrives, np.arange(1, self.steps), length, size)

    def unseen_set(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Return one of the original code's unseen sets, from 0 on.

        These are (J,) steps of arrival, (J,) lengths and (J, 2) sizes in units. The job that the
        original draws for step 0 is drawn and left out, as it never delivers it.
        """
        sets = _sets(
            self.arrival_rate(), self.steps, self.short_share, self.short_steps, self.long_steps,
            self.max_size,
        )  # fmt: skip
        table = sets.set(number)
        return table[:, 0], table[:, 1], table[:, 2:]

    @property
    def _dominant(self) -> tuple[int, int]:
        """The least and the most units of the resource that a job mainly asks for."""
        return max(self.max_size // 2, 1), self.max_size

    @property
    def _other(self) -> tuple[int, int]:
        """The least and the most units of the other resource."""
        return 1, max(self.max_size // 5, 1)

    def _of_numbers(self, numbers: Floats) -> tuple[Bools, Ints, Ints]:
        """Return, of every step but the first, whether a job arrives, its length and its sizes.

        These are (S, T), (S, T) and (S, T, 2).

        Args:
            numbers: (S, T, DRAWN) from 0 to 1: set by set, step by step.
        """
        rate = self.arrival_rate()
        arrives, is_short, how_long, dominant, large, small = numbers.transpose(2, 0, 1)
        short, long = spread(how_long, self.short_steps), spread(how_long, self.long_steps)
        length = np.where(is_short < self.short_share, short, long)
        of_dominant, of_other = spread(large, self._dominant), spread(small, self._other)
        first = dominant < 0.5
        size = np.empty((*length.shape, 2), np.int64)
        size[..., 0] = np.where(first, of_dominant, of_other)
        size[..., 1] = np.where(first, of_other, of_dominant)
        return arrives < rate, length, size


class _Sets:
    """The unseen job sets of DeepRM's public code, bit for bit.

    The original draws its test sets number by number from NumPy's legacy generator with one seed,
    so that each begins where the last one ended, and a set can only be had by drawing all before
    it. What was published of them are results; this makes the jobs behind them, to compare with.
    """

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


class SofiaModel(WorkloadModel):
    """The workload of the Sofia study (2021): a batch of jobs, mostly of one resource each."""

    positions: Count = 100
    """How many jobs there are at most; all of them at 0 s."""
    rate: Probability = 0.7
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

    def derived(self) -> dict[str, tuple[float, str]]:
        """Return the positions at which there may be a job."""
        return {"positions": (self.positions, "positions")}

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw one batch, the first that `draw_sets` draws.

        Jobs have one instance, with ``cpu`` and ``mem``. All are submitted at 0 s, and their
        requested time is their run time. Raises TraceError if there is no job.
        """
        enter, length, size = (column[0] for column in self.draw_sets(rng, 1))
        there = length > 0
        if not there.any():
            raise TraceError(
                f"no job at any of {self.positions} positions at a rate of {self.rate:g}; take "
                "another seed, more positions, or a higher rate"
            )
        sizes = size[there].astype(np.float64)
        return pool_trace(enter[there], length[there], sizes, self.step_s, self.capacity)

    def draw_sets(self, rng: np.random.Generator, sets: int) -> DrawnSets:
        """Draw many batches at once.

        More sets drawn with an equal generator begin with the same ones.
        """
        numbers = rng.random((sets, self.positions, 6))  # set after set, position after position
        there, is_short, how_long, which, large, small = np.moveaxis(numbers, -1, 0)
        short, long = spread(how_long, self.short_steps), spread(how_long, self.long_steps)
        length = np.where(is_short < self.short_share, short, long)
        much, little = spread(large, self.dominant), spread(small, self.other)
        first = which < 0.5
        size = np.stack((np.where(first, much, little), np.where(first, little, much)), axis=-1)
        at_once = np.zeros(self.positions, np.int64)
        return DrawnSets.gathered(there < self.rate, at_once, length, size)


SCHEDQRM_DRAWN = 6
"""Random numbers of a job: its arrival, length, kind of request, dominant resource and sizes."""


class SchedQRMModel(WorkloadModel):
    """The workload of SchedQRM (2019): jobs of ten burst classes, by default all at once."""

    jobs: ItemCount = 10
    """How many jobs; as many as classes are what the paper calls a load of 100 %."""
    classes: Count = 10
    """Burst classes; a job of class n runs for n steps."""
    rate: Probability | None = None
    """Probability that a job comes in a step, until all have come; null: all come at once."""
    step_s: PositiveDuration = 1.0
    """Length of a step."""
    capacity: Count = 10
    """Units of cpu and of mem that the pool has."""

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw one job set, the first that `draw_sets` draws.

        Jobs have one instance, with ``cpu`` and ``mem``, and their requested time is their run
        time.
        """
        enter, length, size = (column[0] for column in self.draw_sets(rng, 1))
        return pool_trace(enter, length, size.astype(np.float64), self.step_s, self.capacity)

    def draw_sets(self, rng: np.random.Generator, sets: int) -> DrawnSets:
        """Draw many job sets at once.

        More sets drawn with an equal generator begin with the same ones.
        """
        numbers = np.moveaxis(rng.random((sets, self.jobs, SCHEDQRM_DRAWN)), -1, 0)
        comes, how_long, even, which, large, small = numbers
        enter = self._arrivals(comes)
        return DrawnSets(enter, spread(how_long, (1, self.classes)),
                         self._sizes(even < 0.5, which < 0.5, large, small))  # fmt: skip

    def _arrivals(self, numbers: Floats) -> Ints:
        """Return (S, J) steps of arrival: the steps between two are geometric."""
        if self.rate is None:
            return np.zeros(numbers.shape, np.int64)
        if self.rate == 1.0:
            between = np.zeros(numbers.shape, np.int64)
        else:
            between = np.floor(np.log1p(-numbers) / np.log1p(-self.rate)).astype(np.int64)
        enter: Ints = (between + 1).cumsum(axis=1)
        return enter - enter[:, :1]  # the first comes at step 0

    def _sizes(self, even: Ints, first: Ints, large: Floats, small: Floats) -> Ints:
        """Return (S, J, 2) units."""
        most = self.capacity
        least, half = max(most // 10, 1), -(-most // 2)
        much, little = spread(large, (half, most)), spread(small, (0, most // 2))
        cpu = np.where(even, spread(large, (least, most)), np.where(first, much, little))
        mem = np.where(even, spread(small, (least, most)), np.where(first, little, much))
        return np.stack((cpu, mem), axis=-1)
