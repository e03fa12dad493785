"""Fixed orderings: each against its formula, worked out here apart."""

from __future__ import annotations

from math import log2, log10

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policies.orderings import (
    F1,
    F2,
    F3,
    F4,
    FCFS,
    HRRN,
    LAF,
    LCFS,
    LJF,
    R2N,
    SAF,
    SJF,
    UNICEF,
    WFP3,
    LogRN,
    Random,
)
from simkit.policy import State, SystemInfo
from simkit.policy.ordered import OrderedPolicy
from simkit.policy.queue import TaskQueue
from simkit.policy.room import make_room
from simkit.policy.task import Task

FIRST = 1000.0
INFO = SystemInfo(("processors",), ("pool",), np.array([[64.0]]), (), first_submit_s=FIRST)


def begun(order, seed=0):
    if hasattr(order, "reset"):
        order.reset(INFO, np.random.default_rng(seed))
    return order


def task(index=0, submit=FIRST, processors=1, estimate=60.0):
    return Task(index, index, submit, (1.0,), processors, estimate_s=estimate)


# On 5 processors, (estimate, processors): no two of the four jobs fit beside each other.
JOBS = [(30, 3), (20, 3), (40, 4), (20, 5)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (FCFS, [1, 2, 3, 4]),
        (LCFS, [4, 3, 2, 1]),
        (SJF, [2, 4, 1, 3]),  # 20, 20, 30, 40 s: a tie goes by submission
        (LJF, [3, 1, 2, 4]),
        (SAF, [2, 1, 4, 3]),  # areas of 60, 90, 100, 160
        (LAF, [3, 4, 1, 2]),
    ],
)
def test_order_of_starts(order, expected, simulate, job_columns):
    """All four come while another job runs, at the same instant."""
    blocker = (0, 9, 5, 9)
    jobs = job_columns([blocker, *((0, run, size, run) for run, size in JOBS)])
    jobs["submit_time_s"][1:] = 1.0
    starts = simulate(OrderedPolicy(order()), jobs, 5).starts
    assert sorted(range(1, 5), key=lambda job: starts[job]) == expected


# r, n and seconds since the first job, and what each logarithm's argument is after the floors
@pytest.mark.parametrize(
    ("r", "n", "since", "log_r", "log_s"),
    [
        (3600.0, 16, 5000.0, 3600.0, 5000.0),  # above all floors
        (3600.0, 16, 0.0, 3600.0, 2.0),  # the first job: s is 1, its logarithm's argument 2
        (0.0, 4, 1.5, 2.0, 2.0),  # no estimate at all; s below 2
        (1.0, 4, 3.0, 2.0, 3.0),
    ],
)
def test_learned_functions(r, n, since, log_r, log_s):
    job = task(0, FIRST + since, n, r)
    assert begun(F1()).key(job) == pytest.approx(log10(log_r) * n + 870 * log10(log_s))
    assert begun(F2()).key(job) == pytest.approx(r**0.5 * n + 25_600 * log10(log_s))
    assert begun(F3()).key(job) == pytest.approx(r * n + 6_860_000 * log10(log_s))
    assert begun(F4()).key(job) == pytest.approx(r * n**0.5 + 530_000 * log10(log_s))


@pytest.mark.parametrize(
    ("r", "log_r", "long_r"),
    [(3600.0, 3600.0, 3600.0), (9.0, 9.0, 10.0), (1.0, 2.0, 10.0), (0.0, 2.0, 10.0)],
)
def test_estimate_and_size(r, log_r, long_r):
    job = task(processors=16, estimate=r)
    assert LogRN().key(job) == log10(log_r) * 16
    assert R2N().key(job) == long_r**2 * 16


@given(st.lists(st.integers(0, 10_000), min_size=1, unique=True), st.integers(0, 2**32))
def test_a_task_keeps_its_random_number_whatever_is_asked_beside_it(indices, seed):
    order = begun(Random(), seed)
    alone = [begun(Random(), seed).key(task(index)) for index in indices]
    together = [order.key(task(index)) for index in indices]
    assert together == alone == [order.key(task(index)) for index in indices]


def test_random_numbers_are_uniform_and_follow_the_seed():
    keys = {seed: [begun(Random(), seed).key(task(i)) for i in range(1000)] for seed in (0, 1)}
    assert keys[0] != keys[1]
    for numbers in keys.values():
        assert np.histogram(numbers, bins=4, range=(0, 1))[0].min() > 200
        assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.1


# ---- orders that change with time ---------------------------------------------------------------

TWO = SystemInfo(("processors", "mem"), ("pool",), np.array([[64.0, 64.0]]), ())
NOW = 1000.0

# (submission, estimate, instances)
WAITING = [
    (0.0, 100.0, 16),
    (500.0, 100.0, 1),  # its log2(n) is floored at 1
    (990.0, 5.0, 2),
    (1000.0, 50.0, 8),  # has not waited
    (400.0, 3600.0, 64),
]


def keys_of(order, jobs=WAITING):
    queue = TaskQueue(2)
    for index, (submit, estimate, instances) in enumerate(jobs):
        queue.add(Task(index, index, submit, (1.0, 0.5), instances, estimate_s=estimate))
    state = State(TWO, make_room(TWO.capacity), queue)
    state.now = NOW
    if hasattr(order, "reset"):
        order.reset(TWO, np.random.default_rng(0))
    return order.keys(state)


@pytest.mark.parametrize(
    ("order", "value"),
    [
        (HRRN, lambda wait, r, n: (wait + r) / r),
        (WFP3, lambda wait, r, n: (wait / r) ** 3 * n),
        (UNICEF, lambda wait, r, n: wait / (log2(max(n, 2)) * r)),
    ],
)
def test_formulas_of_changing_orders(order, value):
    expected = [-value(NOW - submit, r, n) for submit, r, n in WAITING]
    np.testing.assert_allclose(keys_of(order()), expected)


@pytest.mark.parametrize("order", [HRRN, WFP3, UNICEF])
def test_an_estimate_of_0_divides_nothing_by_0(order):
    keys = keys_of(order(), [(1000.0, 0.0, 1), (0.0, 0.0, 1), (0.0, 10.0, 1)])
    assert np.isfinite(keys).all()
    assert keys[1] < keys[2] <= keys[0]
