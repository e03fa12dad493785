"""What the models of synthetic workloads share: keys, users, random columns, rigid and pool jobs.

Users and their estimates do not belong to the published job models. Both are drawn from separate
streams, so that switching them on leaves arrivals, sizes and run times as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simkit.arrays import Bools, Floats, Ints
from simkit.scenario.workload import WorkloadModel
from simkit.sections import Count, ItemCount, Positive
from simkit.units import LONGEST_S, time_on_grid
from simkit.workload import RowReport, Trace, Workload

Estimates = Literal["none", "exact", "modal"]
"""How users estimate run times: not at all, exactly, or by round values well above them."""

Share = Annotated[float, Field(ge=0, le=1)]
Probability = Annotated[float, Field(gt=0, le=1)]


class LoadModel(WorkloadModel):
    """A model whose arrival rate may follow from an offered load."""

    rate_key: ClassVar[str] = "rate_per_s"
    offered_load: Positive | None = None
    """Requested area over capacity; the arrival rate follows from it."""

    def check_one_rate(self) -> None:
        """Raise ValueError unless exactly one of offered load and arrival rate is given."""
        given = [key for key in ("offered_load", self.rate_key) if getattr(self, key) is not None]
        if len(given) != 1:
            counted = "both are" if given else "neither is"
            raise ValueError(
                f"needs offered_load or {self.rate_key}, and {counted} there; give one of them"
            )


class RigidModel(LoadModel):
    """What every model of rigid jobs takes."""

    jobs: ItemCount
    """How many jobs."""
    processors: Count
    """The machine's size, and so the most processors of a job."""
    users: Annotated[int, Field(ge=0)] = 0
    """How many users share the jobs; 0 leaves them unknown."""
    estimates: Estimates = "exact"
    """Requested times: none, the run time exactly, or round values well above it."""

    def rigid_jobs(
        self,
        submit_time_s: Floats,
        run_time_s: Floats,
        sizes: Ints,
        queue: Ints | None,
        rng: np.random.Generator,
    ) -> Trace:
        """Return the trace of J generated jobs, numbered from 1 in order of submission.

        Args:
            submit_time_s: (J,) ascending, in seconds since the trace's zero.
            run_time_s: (J,) seconds.
            sizes: (J,) processors of each job.
            queue: (J,) queue numbers, if the model has queues.
            rng: the generator of users and estimates alone.
        """
        who, how = rng.spawn(2)
        jobs = len(submit_time_s)
        columns = {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": submit_time_s,
            "run_time_s": run_time_s,
            "processors": sizes,
        }
        if self.estimates != "none":
            columns["requested_time_s"] = requested_times(run_time_s, self.estimates, how)
        if self.users:
            columns["user"] = draw_users(jobs, self.users, who)
        if queue is not None:
            columns["queue"] = queue
        workload = Workload.from_jobs(columns, capacity={"processors": float(self.processors)})
        return Trace(workload, RowReport(read=jobs, accepted=jobs))


class DrawnSets(NamedTuple):
    """S job sets of at most J jobs; rows are padded at the end with jobs of length 0."""

    enter: Ints
    """(S, J) step in which each job arrives, ascending along a row."""
    length: Ints
    """(S, J) steps that it takes."""
    size: Ints
    """(S, J, 2) units of cpu and mem that it holds meanwhile."""

    @classmethod
    def gathered(cls, arrives: Bools, enter: Ints, length: Ints, size: Ints) -> DrawnSets:
        """Leave out the places at which no job arrives.

        Args:
            arrives: (S, P) whether a job arrives.
            enter: (P,) the step that belongs to a place.
            length: (S, P) steps.
            size: (S, P, 2) units.
        """
        order = np.argsort(~arrives, axis=1, kind="stable")
        order = order[:, : max(int(arrives.sum(axis=1).max(initial=0)), 1)]
        there = np.take_along_axis(arrives, order, 1)
        return cls(
            enter=np.where(there, enter[order], 0),
            length=np.where(there, np.take_along_axis(length, order, 1), 0),
            size=np.where(there[..., None], np.take_along_axis(size, order[..., None], 1), 0),
        )


def spread(numbers: Floats, bounds: tuple[int, int]) -> Ints:
    """Return whole numbers from the first bound to the second, evenly spread, of [0, 1)."""
    low, high = bounds
    spread: Ints = (numbers * (high - low + 1)).astype(np.int64)  # rounds down what is not negative
    spread += low
    return spread


def pool_trace(enter: Ints, length: Ints, amounts: Floats, step_s: float, capacity: float) -> Trace:
    """Return the trace of J jobs on a pool of cpu and mem; they request their run time.

    Args:
        enter: (J,) steps in which they arrive, ascending.
        length: (J,) steps that they take.
        amounts: (J, 2) of each resource.
        step_s: length of a step.
        capacity: capacity of either resource.
    """
    jobs, step, resources = len(enter), float(time_on_grid(step_s)), ("cpu", "mem")
    run_time_s: Floats = length * np.float64(step)
    # A clock that runs too far is a mistake, and told as one.
    make = Workload.trusted if enter[-1] * step <= LONGEST_S / 2 else Workload
    workload = make(
        resources=resources,
        job_id=np.arange(1, jobs + 1),
        submit_time_s=enter * np.float64(step),
        first_task=np.arange(jobs + 1),
        task_id=np.zeros(jobs, np.int64),
        instances=np.ones(jobs, np.int64),
        request=amounts,
        run_time_s=run_time_s,
        requested_time_s=run_time_s,
        gang=np.ones(jobs, np.bool_),
        capacity=dict.fromkeys(resources, float(capacity)),
    )
    return Trace(workload, RowReport(read=jobs, accepted=jobs))


_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0

ROUND_VALUES_S = np.array(
    [n * _MINUTE_S for n in (1, 2, 5, 10, 15, 20, 30)]
    + [n * _HOUR_S for n in (1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48)]
)
"""(18,) what users write, in seconds: from a minute to two days."""


def draw_users(jobs: int, users: int, rng: np.random.Generator) -> Ints:
    """Return (jobs,) user numbers 1 … users, the k-th with a share proportional to 1/k.

    In real logs few users submit most of the jobs, roughly by Zipf's law. Jobs are independent
    here: there are no sessions and no two jobs of a user are more alike than any others.
    """
    shares = np.cumsum(1.0 / np.arange(1, users + 1))
    bounds = shares / shares[-1]

    def block(_rows: slice, rng: np.random.Generator) -> Ints:
        return np.searchsorted(bounds, rng.random(BLOCK), side="right") + 1

    return draw_column(block, jobs, rng, np.int64)


def requested_times(run_time_s: Floats, estimates: Estimates, rng: np.random.Generator) -> Floats:
    """Return (J,) requested times in seconds, none below the run time.

    ``none`` gives NaN, ``exact`` the run time. ``modal`` divides the run time by an accuracy,
    uniform over (0, 1], and rounds up to the next of `ROUND_VALUES_S`, at most the largest; a run
    time beyond that is rounded up to whole days. The flat accuracy is what Mu'alem & Feitelson,
    "Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM SP2
    with backfilling" (2001), found in logs; the few round values are the modes of Tsafrir, Etsion
    & Feitelson, "Modeling user runtime estimates" (2005).
    """
    if estimates == "none":
        return np.full(len(run_time_s), np.nan)
    if estimates == "exact":
        return run_time_s

    def block(rows: slice, rng: np.random.Generator) -> Floats:
        accuracy = 1.0 - rng.random(BLOCK)
        run = run_time_s[rows]
        return _round_up(run, run / accuracy[: len(run)])

    return draw_column(block, len(run_time_s), rng)


def _round_up(run_time_s: Floats, wanted_s: Floats) -> Floats:
    last = len(ROUND_VALUES_S) - 1
    modes = ROUND_VALUES_S[np.minimum(np.searchsorted(ROUND_VALUES_S, wanted_s), last)]
    return np.where(modes >= run_time_s, modes, np.ceil(run_time_s / _DAY_S) * _DAY_S)


BLOCK = 16_384


Draw = Callable[[slice, np.random.Generator], npt.NDArray[Any]]
"""Given the rows it is for, returns BLOCK numbers; the rows past the column's end are thrown away.
It must take equally many numbers from the generator whatever the rows hold."""


def draw_column(
    draw: Draw, jobs: int, rng: np.random.Generator, dtype: type[np.generic] = np.float64
) -> npt.NDArray[Any]:
    """Return (jobs,) numbers of `dtype` made by `draw`, block by block."""
    column = np.empty(jobs, dtype)
    for first in range(0, jobs, BLOCK):
        rows = slice(first, min(first + BLOCK, jobs))
        column[rows] = draw(rows, rng)[: rows.stop - rows.start]
    return column


def redraw_above(limit: float, draw: Callable[[], Floats]) -> Floats:
    """Return draws that do not exceed `limit`: larger ones are drawn again until they fit."""
    values = draw()
    while (high := values > limit).any():
        values[high] = draw()[high]
    return values
