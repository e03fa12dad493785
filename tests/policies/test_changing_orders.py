"""Changing orderings: each against its formula, job by job, and by the starts it leads to."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from simkit.policies.orderings import HRRN, UNICEF, WFP3
from simkit.policy import State, SystemInfo
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
