"""Changing orderings: each against its formula, job by job, and by the starts it leads to."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from simkit.policies.orderings import HRRN, UNICEF, WFP3
from simkit.policy import State, SystemInfo
from simkit.policy.ordered import OrderedPolicy
from simkit.policy.queue import TaskQueue
from simkit.policy.room import make_room
from simkit.policy.task import Task

INFO = SystemInfo(("processors", "mem"), ("pool",), np.array([[64.0, 64.0]]), ())
NOW = 1000.0

# (submission, estimate, instances)
JOBS = [
    (0.0, 100.0, 16),
    (500.0, 100.0, 1),  # its log2(n) is floored at 1
    (990.0, 5.0, 2),
    (1000.0, 50.0, 8),  # has not waited
    (400.0, 3600.0, 64),
]


def keys_of(order, jobs=JOBS):
    queue = TaskQueue(2)
    for index, (submit, estimate, instances) in enumerate(jobs):
        queue.add(Task(index, index, submit, (1.0, 0.5), instances, estimate_s=estimate))
    state = State(INFO, make_room(INFO.capacity), queue)
    state.now = NOW
    if hasattr(order, "reset"):
        order.reset(INFO, np.random.default_rng(0))
    return order.keys(state)


@pytest.mark.parametrize(
    ("order", "value"),
    [
        (HRRN, lambda wait, r, n: (wait + r) / r),
        (WFP3, lambda wait, r, n: (wait / r) ** 3 * n),
        (UNICEF, lambda wait, r, n: wait / (log2(max(n, 2)) * r)),
    ],
)
def test_formula(order, value):
    expected = [-value(NOW - submit, r, n) for submit, r, n in JOBS]
    np.testing.assert_allclose(keys_of(order()), expected)


@pytest.mark.parametrize("order", [HRRN, WFP3, UNICEF])
def test_an_estimate_of_0_divides_nothing_by_0(order):
    keys = keys_of(order(), [(1000.0, 0.0, 1), (0.0, 0.0, 1), (0.0, 10.0, 1)])
    assert np.isfinite(keys).all()
    assert keys[1] < keys[2] <= keys[0]


@pytest.mark.parametrize(
    ("order", "third", "second"),
    [
        # At 10, job 1 (20 s, 1 processor of 4) has waited 10 s, job 2 (40 s, 4 processors) 9 s.
        (HRRN, 30, 10),  # 1.5 against 1.225
        (WFP3, 30, 10),  # 0.125 against 0.0456
        (UNICEF, 30, 10),  # 0.5 against 0.1125
    ],
)
def test_order_of_starts(order, third, second, simulate, job_columns):
    jobs = job_columns([(0, 10, 4, 10), (0, 20, 1, 20), (1, 40, 4, 40)])
    assert simulate(OrderedPolicy(order()), jobs, 4).starts == [0, second, third]


def test_wfp3_prefers_the_large_job_where_hrrn_does_not(simulate, job_columns):
    # At 10, both have waited 10 s: one processor for 20 s, four for 25 s.
    jobs = job_columns([(0, 10, 4, 10), (0, 20, 1, 20), (0, 25, 4, 25)])
    assert simulate(OrderedPolicy(HRRN()), jobs, 4).starts == [0, 10, 30]
    assert simulate(OrderedPolicy(WFP3()), jobs, 4).starts == [0, 35, 10]
