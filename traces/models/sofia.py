"""Sofia's workload: a batch of jobs that are all there at step 0, with a dominant demand each.

The model of the public code behind "Resource management with deep reinforcement learning" (Sofia,
2021), which differs from its text. The code draws about as many jobs as there are positions times
the rate, 100 * 0.7, and fills slots and backlog with them at once, so that nothing arrives later.
80 % of the jobs take 3 to 9 steps, the others 30 to 45 (the text's 1 to 3 and 10 to 15, times its
t = 3); a job asks for 12 to 25 of 50 units of one resource, picked evenly, and for 2 to 5 of the
other (a quarter to half, and 5 to 10 %, of its r = 50). All are spread evenly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError
from simkit.traces.models.synthetic import check_positive, check_range, check_whole
from simkit.units import time_on_grid
from simkit.workload import RowReport, Trace, Workload

Range = tuple[int, int]


class DrawnBatches(NamedTuple):
    """S job sets of at most J jobs; rows are padded at the end with jobs of length 0."""

    enter: Ints
    """(S, J) step in which each job arrives: 0."""
    length: Ints
    """(S, J) steps that it takes."""
    size: Ints
    """(S, J, 2) units of cpu and mem that it holds meanwhile."""


def generate_sofia(
    *,
    positions: int = 100,
    rate: float = 0.7,
    step_s: float = 1.0,
    short_share: float = 0.8,
    short_steps: Range = (3, 9),
    long_steps: Range = (30, 45),
    dominant: Range = (12, 25),
    other: Range = (2, 5),
    capacity: int = 50,
    rng: np.random.Generator,
) -> Trace:
    """Generate one batch.

    Args:
        positions: how many jobs there are at most.
        rate: probability that there is a job at a position.
        step_s: length of a step.
        short_share: probability that a job is short.
        short_steps: least and most steps of a short job.
        long_steps: those of a long one.
        dominant: least and most units of the resource that a job mainly asks for.
        other: those of the other resource.
        capacity: units of cpu and of mem that the pool has.
        rng: the generator; it draws the first of the sets of `draw_batches`.

    Returns:
        Jobs of one instance, with ``cpu`` and ``mem``, all submitted at 0 s, whose requested time
        is their run time.

    Raises TraceError if an argument is out of its range, or there is no job at all.
    """
    check_positive("step_s", step_s)
    check_whole("capacity", capacity, 1)
    if dominant[1] > capacity or other[1] > capacity:
        raise TraceError(
            f"generate: demands are up to {max(dominant[1], other[1])} units, the capacity is "
            f"{capacity}; ask for less or give more"
        )
    drawn = draw_batches(
        rng, sets=1, positions=positions, rate=rate, short_share=short_share,
        short_steps=short_steps, long_steps=long_steps, dominant=dominant, other=other,
    )  # fmt: skip
    _, length, size = (column[0] for column in drawn)
    there = length > 0
    if not there.any():
        raise TraceError(
            f"generate: no job at any of {positions} positions at a rate of {rate:g}; take another "
            "seed, more positions, or a higher rate"
        )
    workload = _workload(length[there], size[there], float(time_on_grid(step_s)), capacity)
    return Trace(workload, RowReport(read=len(workload), accepted=len(workload)))


def draw_batches(
    rng: np.random.Generator,
    *,
    sets: int,
    positions: int = 100,
    rate: float = 0.7,
    short_share: float = 0.8,
    short_steps: Range = (3, 9),
    long_steps: Range = (30, 45),
    dominant: Range = (12, 25),
    other: Range = (2, 5),
) -> DrawnBatches:
    """Draw many batches at once; see `generate_sofia` for the arguments.

    More sets drawn with an equal generator begin with the same ones.

    Raises TraceError if an argument is out of its range.
    """
    check_whole("sets", sets, 1)
    check_whole("positions", positions, 1)
    check_range("rate", (rate, rate), 0, 1)
    check_range("short_share", (short_share, short_share), 0, 1)
    ranges = {"short_steps": short_steps, "long_steps": long_steps}
    for name, bounds in (ranges | {"dominant": dominant, "other": other}).items():
        for count in bounds:
            check_whole(name, count, 1)
        check_range(name, bounds, 1, 2**31)
    numbers = rng.random((sets, positions, 6))  # set after set, position after position
    there, is_short, how_long, which, large, small = np.moveaxis(numbers, -1, 0)
    length = np.where(
        is_short < short_share, _spread(how_long, short_steps), _spread(how_long, long_steps)
    )
    much, little = _spread(large, dominant), _spread(small, other)
    first = which < 0.5
    size = np.stack((np.where(first, much, little), np.where(first, little, much)), axis=-1)
    return _gathered(there < rate, length, size)


def _spread(numbers: Floats, bounds: Range) -> Ints:
    """Return whole numbers from the first bound to the second, evenly spread, of [0, 1)."""
    low, high = bounds
    spread: Ints = low + np.floor(numbers * (high - low + 1)).astype(np.int64)
    return spread


def _gathered(there: Bools, length: Ints, size: Ints) -> DrawnBatches:
    """Leave out the positions (S, J) without a job."""
    order = np.argsort(~there, axis=1, kind="stable")
    order = order[:, : max(int(there.sum(axis=1).max()), 1)]
    kept = np.take_along_axis(there, order, 1)
    return DrawnBatches(
        enter=np.zeros(order.shape, np.int64),
        length=np.where(kept, np.take_along_axis(length, order, 1), 0),
        size=np.where(kept[..., None], np.take_along_axis(size, order[..., None], 1), 0),
    )


def _workload(length: Ints, size: Ints, step_s: float, capacity: int) -> Workload:
    jobs = len(length)
    run_time_s = length * np.float64(step_s)
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(1, jobs + 1),
        submit_time_s=np.zeros(jobs),
        first_task=np.arange(jobs + 1),
        task_id=np.broadcast_to(np.int64(0), (jobs,)),
        instances=np.broadcast_to(np.int64(1), (jobs,)),
        request=size.astype(np.float64),
        run_time_s=run_time_s,
        requested_time_s=run_time_s,
        gang=np.broadcast_to(np.True_, (jobs,)),
        capacity={"cpu": float(capacity), "mem": float(capacity)},
    )
