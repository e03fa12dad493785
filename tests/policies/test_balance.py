"""Fitness `balance`: what it prefers, under its own rules and under CloudSimPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_runs import TaskRow, a_bag, make_jobs

from simkit.policies.cloudsimpy import CloudSimPy
from simkit.policies.fitness import Balance
from simkit.policy import Policy
from simkit.policy.fitness import FitnessPolicy
from simkit.rules import Rules
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

Simulate = Callable[..., Any]
Row = tuple[int, float, float, float]
"""Instances, cpu, mem and run time."""

ONE = Cluster(("cpu", "mem"), ("a",), np.array([[4.0, 4.0]]))
TWO = Cluster(("cpu", "mem"), ("a", "b"), np.array([[4.0, 4.0]] * 2))
SHAPES = Cluster(("cpu", "mem"), ("even", "cores"), np.array([[4.0, 4.0], [8.0, 2.0]]))
EVERY_SECOND = Rules(scheduling={"every": 1.0})
POLICIES: dict[str, Callable[[], Policy]] = {
    "own rules": lambda: FitnessPolicy(Balance()),
    "CloudSimPy's": lambda: CloudSimPy("balance"),
}


def bags(*rows: Row) -> list[TaskRow]:
    return [a_bag(count, run, request=(cpu, mem)) for count, cpu, mem, run in rows]


def batch(*rows: Row) -> Workload:
    """Return a job with one bag a row."""
    return make_jobs((0, *bags(*rows)), resources=("cpu", "mem"))


def first_starts(policy: Policy, jobs: Workload, cluster: Cluster, simulate: Simulate) -> Any:
    """Return (task, machine, count) of what starts at the first decision with tasks."""
    run = simulate(policy, jobs, cluster, rules=EVERY_SECOND)
    rows = run["allocations"].select("start_time_s", "task_id", "machine_id", "count").rows()
    first = min(start for start, *_ in rows)
    return sorted(tuple(rest) for start, *rest in rows if start == first)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("rows", "cluster", "expected"),
    [
        # The longest goes first, whatever its place.
        ([(1, 3, 3, 5), (1, 3, 3, 9), (1, 3, 3, 7)], ONE, [(1, 0, 1)]),
        # 40 instances of 3 s need 30 s of the cluster: more than one of 9 s holds it.
        ([(1, 4, 4, 9), (40, 1, 1, 3)], ONE, [(1, 0, 4)]),
        # Equally long ones; the short ones ask for memory, so what asks for more of it goes first.
        ([(1, 3, 2, 20), (1, 2, 3, 20), *[(1, 0.1, 3, 4)] * 6], ONE, [(1, 0, 1)]),
        # … and with short ones that ask for cores, the other one.
        ([(1, 3, 2, 20), (1, 2, 3, 20), *[(1, 3, 0.1, 4)] * 6], ONE, [(0, 0, 1)]),
        # Amounts count as shares of the machine: where there is less memory than cores, memory is
        # the busier resource, and a larger part of what it asks for.
        ([(1, 0.5, 0.5, 5)], SHAPES, [(0, 1, 1)]),
        # The long one takes cores of the first machine. What asks for memory fits the rest's shape;
        # what asks for cores fits the empty machine better.
        ([(1, 3, 0, 50), (1, 0.5, 2, 5)], TWO, [(0, 0, 1), (1, 0, 1)]),
        ([(1, 3, 0, 50), (1, 1, 0.1, 5)], TWO, [(0, 0, 1), (1, 1, 1)]),
    ],
)
def test_what_it_prefers(rows, cluster, expected, policy, simulate):
    assert first_starts(POLICIES[policy](), batch(*rows), cluster, simulate) == expected


def test_work_that_runs_counts(simulate):
    """Memory is the busiest resource because of what runs; so what asks for it goes first."""
    # At 30 s, the first job still needs 4 · 70 of memory; those of 20 s come, and one has to wait.
    first, *later = bags((1, 0.1, 4, 100), (1, 3, 2, 20), (1, 2, 3, 20))
    apart = make_jobs((0, first), (30, *later), resources=("cpu", "mem"))
    for policy in POLICIES.values():
        run = simulate(policy(), apart, TWO, rules=EVERY_SECOND)
        start = dict(run["allocations"].select("task_id", "start_time_s").rows())
        assert start[2] < start[1]


def test_a_resource_that_there_is_none_of(simulate):
    cluster = Cluster(("cpu", "mem"), ("a",), np.array([[4.0, 0.0]]))
    for policy in POLICIES.values():
        rows: list[Row] = [(1, 3, 0, 5), (1, 3, 0, 9)]
        assert first_starts(policy(), batch(*rows), cluster, simulate) == [(1, 0, 1)]
