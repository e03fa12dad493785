"""Machines join, leave, fail and are repaired, and containers take part of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from engine_runs import greedy, rigid, simulate

from simkit.policies.orderings import FCFS
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import Cluster, Failures, Maintenance

PIECES = "job_id machine_id start_time_s end_time_s outcome"


def two(*changes, **facts) -> Cluster:
    """Return machines 0 and 1 of 4 processors and changes of (time, machine, kind[, …])."""
    return Cluster(
        ("processors",), ("a", "b"), np.array([[4.0], [4.0]]),
        changes=tuple(change(*row) for row in changes), **facts,
    )  # fmt: skip


def change(time_s, machine, kind, running="drain", amount=(), fault=0) -> CapacityChange:
    return CapacityChange(time_s, machine, kind, "test", amount, running, fault)


def pieces(run) -> list[tuple]:
    return run.rows("allocations", PIECES)


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        ("requeue", [(0, 0, 0, 3, "lost"), (0, 1, 3, 13, "finished")]),
        ("suspend", [(0, 0, 0, 3, "suspended"), (0, 1, 3, 10, "finished")]),
        ("drain", [(0, 0, 0, 10, "finished")]),
    ],
)
def test_what_runs_on_a_machine_that_fails(running, expected):
    cluster = two((3, 0, "down", running), (50, 0, "up"))
    assert pieces(simulate(OrderedPolicy(FCFS()), rigid((0, 10, 4)), cluster)) == expected


def test_what_ends_as_its_machine_fails_has_ended():
    cluster = two((10, 0, "down", "requeue"), (50, 0, "up"))
    assert pieces(simulate(greedy, rigid((0, 10, 4)), cluster)) == [(0, 0, 0, 10, "finished")]


def test_a_machine_with_two_faults_is_up_when_both_are_repaired():
    faults = [(1, 0, "down"), (2, 0, "down", "drain", (), 1), (5, 0, "up"),
              (9, 0, "up", "drain", (), 1), (0, 1, "leave")]  # fmt: skip
    assert pieces(simulate(greedy, rigid((3, 1, 4)), two(*faults))) == [(0, 0, 9, 10, "finished")]


def test_maintenance_containers_and_faults_at_once_never_go_below_nothing():
    cluster = two(
        (1, 0, "take", "drain", (3.0,)), (2, 0, "down"), (4, 0, "up"), (6, 0, "give", "drain", (3.0,)),
        (0, 1, "leave"), maintenance=(Maintenance(3, 5, 0, (3.0,)),),
    )  # fmt: skip
    run = simulate(greedy, rigid((7, 1, 4)), cluster)
    capacity = [
        (row[0], json.loads(row[1])["capacity"]["processors"])
        for row in run.rows("events", "time_s detail machine_id")
        if row[2] == 0
    ]
    assert capacity == [(1, 1), (2, 0), (5, 1), (6, 4)]  # up again at 4, but nothing is left


# ---- random failures ----------------------------------------------------------------------------


def failing(**facts) -> Cluster:
    return Cluster(
        ("processors",), ("a", "b", "c"), np.full((3, 1), 4.0),
        failures=Failures(**{"mtbf": 50.0, "mttr": 10.0} | facts),
    )  # fmt: skip


def faults(run) -> list[tuple]:
    """Return (time, machine, capacity) of all changes."""
    return [
        (time, machine, json.loads(detail)["capacity"]["processors"])
        for time, machine, detail, kind in run.rows("events", "time_s machine_id detail kind")
        if kind == "capacity"
    ]


def test_failures_are_as_frequent_and_as_long_as_said():
    load = rigid(*[(10.0 * n, 5, 1) for n in range(5000)])
    events = faults(simulate(greedy, load, failing()))
    up, down = [], []
    for machine in range(3):
        since = 0.0
        for time, _, capacity in [row for row in events if row[1] == machine]:
            (down if capacity else up).append(time - since)
            since = time
    assert np.mean(up) == pytest.approx(50, rel=3 / len(up) ** 0.5)
    assert np.mean(down) == pytest.approx(10, rel=3 / len(down) ** 0.5)


def test_failures_are_the_same_whatever_the_policy():
    load = rigid(*[(10.0 * n, 30, 4) for n in range(50)])
    some = faults(simulate(greedy, load, failing()))
    others = faults(simulate(OrderedPolicy(FCFS()), load, failing()))
    both = min(len(some), len(others))
    assert both > 20
    assert some[:both] == others[:both]
    assert faults(simulate(greedy, load, failing(), seed=1))[:both] != some[:both]


def test_what_a_machine_will_have_later_counts_for_what_can_ever_run():
    run = simulate(greedy, rigid((0, 1, 9)), two((5, 0, "join", "drain", (16.0,)), (0, 1, "leave")))
    assert pieces(run) == [(0, 0, 5, 6, "finished")]


@pytest.mark.parametrize("machines", [3, 100])
def test_a_run_ends_although_some_machine_is_always_down(machines):
    cluster = Cluster(
        ("processors",), tuple(f"m{n}" for n in range(machines)), np.full((machines, 1), 4.0),
        failures=Failures(mtbf=50.0, mttr=50.0),
    )  # fmt: skip
    run = simulate(greedy, rigid((0, 10, 4), (0, 10, 4)), cluster)
    assert {status for (status,) in run.rows("jobs", "status")} == {"finished"}


def test_a_policy_that_places_nothing_is_not_given_repairs_for_ever():
    run = simulate(lambda _: (), rigid((0, 10, 4)), failing(mtbf=5.0, mttr=5.0))
    assert run.rows("jobs", "status") == [("waiting",)]
