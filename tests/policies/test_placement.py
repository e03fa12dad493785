"""Placement rules: which machine comes first."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.policies.fitness import BestFit, FirstFit, RandomFit, WorstFit
from simkit.policy import SystemInfo
from simkit.policy.room import MachineRoom
from simkit.policy.task import Task

CAPACITY = np.array([[8.0, 16.0], [8.0, 16.0], [4.0, 64.0], [8.0, 16.0]])
# Shares of the largest machine (8 cpu, 64 mem): cpu 4/8, 2/8, 4/8, 2/8; mem 8/64, 16/64, 64/64, 0.
FREE = np.array([[4.0, 8.0], [2.0, 16.0], [4.0, 64.0], [2.0, 0.0]])
INFO = SystemInfo(("cpu", "mem"), tuple("abcd"), CAPACITY, ())


def begun(rule, seed=0):
    rule.reset(INFO, np.random.default_rng(seed))
    return rule


def order_of(rule, request, fitting):
    task = Task(0, 0, 0.0, request)
    return rule.order(task, FREE, CAPACITY, np.array(fitting)).tolist()


@pytest.mark.parametrize(
    ("rule", "request_", "fitting", "expected"),
    [
        (FirstFit, (1.0, 0.0), [0, 1, 2, 3], [0, 1, 2, 3]),
        # cpu alone: ½ ¼ ½ ¼; ties go by row
        (BestFit, (1.0, 0.0), [0, 1, 2, 3], [1, 3, 0, 2]),
        (WorstFit, (1.0, 0.0), [0, 1, 2, 3], [0, 2, 1, 3]),
        # memory alone: of the machines that have room
        (BestFit, (0.0, 4.0), [0, 1, 2], [0, 1, 2]),
        (WorstFit, (0.0, 4.0), [0, 1, 2], [2, 1, 0]),
        # both: 0.625, 0.5, 1.5
        (BestFit, (1.0, 4.0), [0, 1, 2], [1, 0, 2]),
        (WorstFit, (1.0, 4.0), [0, 1, 2], [2, 0, 1]),
        # asks for nothing: all alike
        (BestFit, (0.0, 0.0), [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_order_of_machines(rule, request_, fitting, expected):
    assert order_of(begun(rule()), request_, fitting) == expected


@pytest.mark.parametrize("rule", [FirstFit, BestFit, WorstFit, RandomFit])
def test_instances_go_where_the_rule_says_and_no_more_than_fit(rule):
    task = Task(0, 0, 0.0, (1.0, 4.0), instances=5)
    chosen = begun(rule())
    on = MachineRoom(CAPACITY, FREE.copy()).fit(task, chosen)
    assert sum(count for _, count in on) == 5
    for machine, count in on:
        assert (np.array(task.request) * count <= FREE[machine]).all()
    if rule is not RandomFit:
        assert [m for m, _ in on] == order_of(chosen, task.request, [0, 1, 2])[: len(on)]
