"""Small and soon first: reserving SJF with 0 for both numbers, and what the numbers change."""

from __future__ import annotations

import numpy as np
import pytest
from workloads import one_task_jobs

from simkit.errors import ScenarioError
from simkit.policies.slotted import SlottedArea, SlottedSJF
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import Cluster

POOL = Cluster.pool({"cpu": 10.0, "mem": 10.0})
RULES = Rules(scheduling={"step": 1.0}, admission=AdmissionRule(slots=10, backlog=60))


def batch(lengths, sizes):
    """Return jobs that all come at 0, each with as many units of both resources."""
    return one_task_jobs(0.0, lengths, np.column_stack((sizes, sizes)))


@pytest.mark.parametrize("seed", range(5))
def test_with_zeros_it_is_reserving_sjf(seed, simulate):
    rng = np.random.default_rng(seed)
    jobs = batch(rng.integers(1, 12, 30), rng.integers(1, 10, 30))
    found = simulate(SlottedArea(0, 0, horizon=40), jobs, POOL, rules=RULES).starts
    assert found == simulate(SlottedSJF(reserve="best", horizon=40), jobs, POOL, rules=RULES).starts
    assert found != simulate(SlottedArea(horizon=40), jobs, POOL, rules=RULES).starts


@pytest.mark.parametrize(
    ("power", "delay", "expected"),
    [
        (0, 0, [3, 0]),  # the shorter one first
        (1, 0, [0, 4]),  # 4 · 2 is less than 3 · 8
    ],
)
def test_size_counts(power, delay, expected, simulate):
    jobs = batch([4, 3], [3, 8])
    assert simulate(SlottedArea(power, delay), jobs, POOL, rules=RULES).starts == expected


def test_what_can_start_soon_goes_first(simulate):
    jobs = batch([2, 4, 6], [8, 3, 2])  # once the first is placed, the last fits beside it
    assert simulate(SlottedArea(0, 0), jobs, POOL, rules=RULES).starts == [0, 2, 0]
    jobs = batch([2, 3, 6], [8, 9, 2])  # the second would wait for the last, or the other way round
    assert simulate(SlottedArea(0, 0), jobs, POOL, rules=RULES).starts == [0, 2, 5]
    assert simulate(SlottedArea(0, 4), jobs, POOL, rules=RULES).starts == [0, 6, 0]


def test_all_numbers_are_told_at_once():
    with pytest.raises(ScenarioError) as told:
        SlottedArea(-1, float("nan"), slots=0)
    assert [text.split(":")[1].split()[0] for text in told.value.problems] == [
        "slots", "power", "delay",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ({"power": 2000}, "power is 2000; it must be a number from 0 to 10"),  # once an overflow
        ({"power": True}, "power is True"),
        ({"delay": True}, "delay is True"),
        ({"delay": 10**400}, "delay is 1000"),
        ({"power": "a"}, "power is 'a'"),
    ],
)
def test_numbers_outside_their_ranges_are_told(numbers, told):
    with pytest.raises(ScenarioError, match=f"slotted area: {told}"):
        SlottedArea(**numbers)
