"""What was in use at once, against a plain loop over the jobs."""

import random
import tracemalloc

import numpy as np
import pytest

from simkit.workload import Workload
from simkit.workload.machine_groups import machine_size
from simkit.workload.recorded import Peak, Recorded, peak_use


def by_a_loop(starts, ends, amounts):
    """Return the most in use at any start: what began by then and has not ended."""
    most = 0
    for instant in starts:
        jobs = zip(starts, ends, amounts, strict=True)
        most = max(most, sum(a for start, end, a in jobs if start <= instant < end))
    return most


@pytest.mark.parametrize("seed", range(20))
def test_the_peak_is_that_of_a_plain_loop(seed):
    draw = random.Random(seed)
    starts = [draw.randrange(50) for _ in range(60)]
    ends = [start + draw.randrange(12) for start in starts]  # some end as they start
    amounts = [draw.choice((1, 2, 5, 64)) for _ in starts]
    peak = peak_use(*(np.array(column, float) for column in (starts, ends, amounts)))
    assert peak is not None
    assert peak.amount == by_a_loop(starts, ends, amounts)
    then = [
        (s, e, a) for s, e, a in zip(starts, ends, amounts, strict=True) if s <= peak.time_s < e
    ]
    assert sum(amount for _, _, amount in then) == peak.amount
    earlier = [start for start in starts if start < peak.time_s]
    jobs = list(zip(starts, ends, amounts, strict=True))
    assert all(sum(a for s, e, a in jobs if s <= t < e) < peak.amount for t in earlier)


NAN = float("nan")
PEAKS = [
    # starts, ends, amounts; the peak
    ([0, 10], [10, 20], [3, 4], Peak(4, 10)),  # what ends at an instant leaves first
    ([0, 10], [11, 20], [3, 4], Peak(7, 10)),
    ([5, NAN], [9, NAN], [3, 400], Peak(3, 5)),  # a job of which no start is known
    ([5, 6], [9, 9], [3, NAN], Peak(3, 5)),  # a job of which the amount is not known
    ([5, 6], [9, 9], [0, 0], Peak(0, 5)),
    ([7], [7], [3], Peak(0, 7)),
    ([NAN], [NAN], [3], None),
    ([], [], [], None),
]


@pytest.mark.parametrize(("starts", "ends", "amounts", "peak"), PEAKS)
def test_peaks(starts, ends, amounts, peak):
    assert peak_use(*(np.array(column, float) for column in (starts, ends, amounts))) == peak


def test_a_million_jobs_cost_columns_and_no_more():
    rng = np.random.default_rng(1)
    starts = rng.random(1_000_000) * 1e7
    ends, amounts = starts + rng.random(1_000_000) * 1e5, np.ones(1_000_000)
    tracemalloc.start()
    try:
        peak = peak_use(starts, ends, amounts)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak is not None
    assert 5_000 < peak.amount < 6_000  # a tenth of a second apart, 50,000 s each
    assert used < 150 * 1_000_000  # bytes: some columns of doubles


def rigid(*jobs):
    """Return jobs of (submit, run, processors)."""
    names = ("submit_time_s", "run_time_s", "processors")
    columns = dict(zip(names, zip(*jobs, strict=True), strict=True))
    return Workload.from_jobs({"job_id": range(len(jobs)), **columns})


SIZES = [
    # starts of jobs of 4, 2 and 1 processors that run 10 s; header; processors
    ((0, 5, 20), None, 6),
    ((0, 20, 40), None, 4),
    ((NAN, NAN, NAN), None, 4),  # the largest job
    ((0, 5, 20), 8, 8),
    ((0, 5, 20), 5, 5),  # times in the log overlap
    ((0, 5, 20), 3, 4),
]


@pytest.mark.parametrize(("starts", "header", "processors"), SIZES)
def test_a_pool_holds_what_ran_at_once_unless_the_header_tells(starts, header, processors):
    load = rigid((0, 10, 4), (0, 10, 2), (0, 10, 1))
    past = Recorded.started(load, np.array(starts, float))
    size = machine_size(load, past, np.arange(3), header=header)
    assert (size.count, size.each) == (1, {"processors": processors})
    assert bool(size.peak) == np.isfinite(starts).any()
