"""DeepRM's workload: at most one job a time step, most of them short, each with a dominant demand.

The model is that of Mao, Alizadeh, Menache and Kandula, "Resource Management with Deep
Reinforcement Learning" (HotNets 2016), section 4.1, as their public code has it: in each step a job
arrives with one probability; 80 % take 1 to 3 steps, the others 10 to 15; a job asks for much of
one resource, picked evenly, and for little of the other; everything is spread evenly. Where the two
contradict, a key decides, and this is what holds here:

- Demands. With capacities of 10, the code draws 5 to 10 units of the dominant resource and 1 or 2
  of the other (``original``); the text says a quarter to half of the capacity, and 5 to 10 % of it
  (``paper``). These are the same numbers in units of half the size, and that is how the paper's
  demands are drawn: 2.5, 3, …, 5 and 0.5 or 1 of 10. Both stay whole numbers of units, as the
  model's image needs. With the paper's demands a job in every step is an offered load of 0.92,
  with the code's one of 1.845: the paper's loads above 92 % are reachable with the latter alone.
- The first step. The original never delivers what it draws for step 0, so `steps` steps bring jobs
  in steps 1 to `steps` - 1; so they do here.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Literal, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import NoJobsError, TraceError
from simkit.traces.models.synthetic import check_choice, check_positive, check_range, check_whole
from simkit.units import time_on_grid
from simkit.workload import LONGEST_S, RowReport, Trace, Workload

# MERGED The unseen job sets of DeepRM's public code, bit for bit.
# MERGED
# MERGED The original draws its test sets number by number from NumPy's legacy generator with one seed, so
# MERGED that a set can only be had by drawing all that come before it. What was published of them are
# MERGED results; this makes the jobs behind them, to compare with.


SEED = 314159
"""The seed of the original's unseen job sets."""


def original_jobs(
    number: int,
    rate: float,
    steps: int,
    short_share: float,
    short_steps: tuple[int, int],
    long_steps: tuple[int, int],
    max_size: int,
) -> tuple[Ints, Ints, Ints]:
    """Return (J,) steps of arrival, (J,) lengths and (J, 2) sizes of one of the sets, from 0 on.

    The job that the original draws for step 0 is drawn and left out, as it never delivers it.
    """
    sets = _sets(rate, steps, short_share, tuple(short_steps), tuple(long_steps), max_size)
    table = sets.set(number)
    return table[:, 0], table[:, 1], table[:, 2:]


class _Sets:
    """The sets of some arguments, one after another: each begins where the last one ended."""

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


Demands = Literal["original", "paper"]

UNIT = {"original": 1.0, "paper": 0.5}
"""The amount of a resource in a unit of demand."""


class DrawnSets(NamedTuple):
    """S job sets of at most J jobs; rows are padded at the end with jobs of length 0."""

    enter: Ints
    """(S, J) step in which each job arrives, ascending along a row."""
    length: Ints
    """(S, J) steps that it takes."""
    size: Ints
    """(S, J, 2) units of cpu and mem that it holds meanwhile."""


def generate_deeprm(
    *,
    rate: float | None = None,
    load: float | None = None,
    steps: int = 50,
    step_s: float = 1.0,
    demands: Demands = "original",
    short_share: float = 0.8,
    short_steps: tuple[int, int] = (1, 3),
    long_steps: tuple[int, int] = (10, 15),
    max_size: int = 10,
    capacity: int = 10,
    original_set: int | None = None,
    rng: np.random.Generator,
) -> Trace:
    """Generate one job set.

    Args:
        rate: probability that a job arrives in a step; either this or `load`.
        load: offered load of the model on either resource: mean steps * mean demand / capacity
            for each job, `rate` jobs a step; 1.845 * `rate` with all defaults.
        steps: how many steps there are; jobs come in all but step 0.
        step_s: length of a step.
        demands: those of the original's code, or of the paper's text; see the module.
        short_share: probability that a job is short.
        short_steps: least and most steps of a short job.
        long_steps: those of a long one.
        max_size: the largest demand in units; the dominant one is at least half of it, the other
            at most a fifth.
        capacity: amount of cpu and of mem that the pool has.
        original_set: instead of drawing, take this one of the original code's unseen job sets,
            counted from 0; for a given `rate` they are always the same.
        rng: the generator; it draws the first of the sets of `draw_job_sets`.

    Returns:
        Jobs of one instance, with ``cpu`` and ``mem``, that are submitted at the beginnings of
        their steps and whose requested time is their run time.

    Raises TraceError if an argument is out of its range, NoJobsError if no job arrives at all.
    """
    check_positive("step_s", step_s)
    check_whole("capacity", capacity, 1)
    lengths = (short_share, short_steps, long_steps)
    _check(steps, demands, *lengths, max_size)
    if max_size * UNIT[demands] > capacity:
        raise TraceError(
            f"generate: max_size is {max_size}, {max_size * UNIT[demands]:g} of the capacity of "
            f"{capacity}; give at most {capacity / UNIT[demands]:g}"
        )
    mean_size = _mean_size(max_size) * UNIT[demands]
    rate = _rate(rate, load, capacity / (_mean_steps(*lengths) * mean_size))
    if original_set is None:
        arrives, *columns = _drawn(rng, 1, rate, steps, *lengths, max_size)
        there = np.flatnonzero(arrives[0])
        enter, length, size = there + 1, *(column[0, there] for column in columns)
    else:
        check_whole("original_set", original_set, 0)
        enter, length, size = original_jobs(
            original_set, rate, steps, short_share, short_steps, long_steps, max_size
        )
    if not len(enter):
        raise NoJobsError(
            f"generate: no job arrives in {steps} steps at a rate of {rate:.4g}; take another seed "
            "or set, more steps, or a higher rate"
        )
    amounts = size * UNIT[demands]
    workload = _workload(enter, length, amounts, float(time_on_grid(step_s)), capacity)
    return Trace(workload, RowReport(read=len(workload), accepted=len(workload)))


def draw_job_sets(
    rng: np.random.Generator,
    *,
    sets: int,
    rate: float,
    steps: int = 50,
    demands: Demands = "original",
    short_share: float = 0.8,
    short_steps: tuple[int, int] = (1, 3),
    long_steps: tuple[int, int] = (10, 15),
    max_size: int = 10,
) -> DrawnSets:
    """Draw many job sets at once; see `generate_deeprm` for the arguments.

    Sizes are in units, those of ``paper`` being half as large. More sets drawn with an equal
    generator begin with the same ones.

    Raises TraceError if an argument is out of its range.
    """
    check_whole("sets", sets, 1)
    _check(steps, demands, short_share, short_steps, long_steps, max_size)
    rate = _rate(rate, None, 1.0)
    return _gathered(
        *_drawn(rng, sets, rate, steps, short_share, short_steps, long_steps, max_size)
    )


def _drawn(
    rng: np.random.Generator,
    sets: int,
    rate: float,
    steps: int,
    short_share: float,
    short_steps: tuple[int, int],
    long_steps: tuple[int, int],
    max_size: int,
) -> tuple[Bools, Ints, Ints]:
    """Return, of every step but the first, whether a job arrives, its length and its sizes.

    These are (S, T), (S, T) and (S, T, 2).
    """
    numbers = rng.random((sets, steps - 1, 6))  # (set, step, what is drawn): set after set
    arrives, is_short, how_long, dominant, large, small = (numbers[..., i] for i in range(6))
    length = np.where(
        is_short < short_share, _spread(how_long, *short_steps), _spread(how_long, *long_steps)
    )
    of_dominant = _spread(large, *_dominant(max_size))
    of_other = _spread(small, *_other(max_size))
    first = dominant < 0.5
    size = np.empty((*length.shape, 2), np.int64)
    size[..., 0] = np.where(first, of_dominant, of_other)
    size[..., 1] = np.where(first, of_other, of_dominant)
    return arrives < rate, length, size


def _gathered(arrives: Bools, length: Ints, size: Ints) -> DrawnSets:
    """Leave out the steps (S, T) in which no job arrives; the first of them is step 1."""
    order = np.argsort(~arrives, axis=1, kind="stable")
    order = order[:, : max(int(arrives.sum(axis=1).max()), 1)]
    there = np.take_along_axis(arrives, order, 1)
    return DrawnSets(
        enter=np.where(there, order + 1, 0),
        length=np.where(there, np.take_along_axis(length, order, 1), 0),
        size=np.where(there[..., None], np.take_along_axis(size, order[..., None], 1), 0),
    )


def _spread(numbers: Floats, low: int, high: int) -> Ints:
    """Return whole numbers from low to high, evenly spread, of numbers in [0, 1)."""
    spread: Ints = (numbers * (high - low + 1)).astype(np.int64)  # rounds down what is not negative
    spread += low
    return spread


def _dominant(max_size: int) -> tuple[int, int]:
    """Return the least and the most units of the resource that a job mainly asks for."""
    return max(max_size // 2, 1), max_size


def _other(max_size: int) -> tuple[int, int]:
    """Return the least and the most units of the other resource."""
    return 1, max(max_size // 5, 1)


def _mean_size(max_size: int) -> float:
    """Return the mean demand in units of either resource; each is the dominant one as often."""
    return (sum(_dominant(max_size)) + sum(_other(max_size))) / 4


def _mean_steps(share: float, short: tuple[int, int], long: tuple[int, int]) -> float:
    return share * sum(short) / 2 + (1 - share) * sum(long) / 2


def _rate(rate: float | None, load: float | None, jobs_at_once: float) -> float:
    """Return the probability of a job in a step, as given or from the load.

    `jobs_at_once` is the rate at which mean jobs fill the pool exactly.
    """
    if (load is None) == (rate is None):
        both = "both" if load is not None else "neither"
        raise TraceError(f"generate: load and rate: {both} given; give exactly one of them")
    if load is not None:
        check_positive("load", load)
        rate = load * jobs_at_once
    assert rate is not None  # exactly one is given
    if not 0 < rate <= 1:
        of_load = "" if load is None else f" of a load of {load:g}; at most {1 / jobs_at_once:.4g}"
        raise TraceError(
            f"generate: rate is {rate:.4g}{of_load}; at most one job arrives in a step, so the "
            "rate must be above 0 and at most 1"
        )
    return rate


def _check(
    steps: int,
    demands: str,
    short_share: float,
    short_steps: tuple[int, int],
    long_steps: tuple[int, int],
    max_size: int,
) -> None:
    check_whole("steps", steps, 2)
    check_choice("demands", demands, UNIT)
    check_whole("max_size", max_size, 1)
    check_range("short_share", (short_share, short_share), 0, 1)
    for name, bounds in (("short_steps", short_steps), ("long_steps", long_steps)):
        for count in bounds:
            check_whole(name, count, 1)
        check_range(name, bounds, 1, 2**31)


def _workload(enter: Ints, length: Ints, amounts: Floats, step_s: float, capacity: int) -> Workload:
    jobs = len(enter)
    run_time_s: Floats = length * np.float64(step_s)
    # A clock that runs too far is a mistake, and told as one.
    make = Workload.trusted if enter[-1] * step_s <= LONGEST_S else Workload
    return make(
        resources=("cpu", "mem"),
        job_id=np.arange(1, jobs + 1),
        submit_time_s=enter * np.float64(step_s),
        first_task=np.arange(jobs + 1),
        task_id=np.zeros(jobs, np.int64),
        instances=np.ones(jobs, np.int64),
        request=amounts,
        run_time_s=run_time_s,
        requested_time_s=run_time_s,
        gang=np.ones(jobs, np.bool_),
        capacity={"cpu": float(capacity), "mem": float(capacity)},
    )
