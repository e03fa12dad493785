"""What is suspended keeps its place: nothing of an equal or lower priority starts there first."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, make_jobs, pool, simulate

from simkit.policies.conservative import Conservative
from simkit.policies.drf import DRF
from simkit.policies.easy import Easy, Hold
from simkit.policies.fitness import Balance, BestFit, FirstFit, Tetris
from simkit.policies.orderings import FCFS, SJF
from simkit.policies.ready_pool import ReadyPool
from simkit.policies.rlscheduler import RLScheduler
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import CapacityChange, Cluster, Maintenance, Partition

URGENT = Partition("urgent", priority=2, queues=frozenset({2}))
MIDDLE = Partition("middle", priority=1, queues=frozenset({1}))
REST = Partition("rest", preempt="suspend")

ORDERED = {
    "none": lambda: OrderedPolicy(FCFS()),
    "easy": lambda: OrderedPolicy(FCFS(), Easy()),
    "easy-sjf": lambda: OrderedPolicy(SJF(), Easy(order="sjf")),
}
"""Policies that let tasks be preempted."""
POLICIES = {
    **ORDERED,
    "conservative": lambda: Conservative().compose(FCFS()),
    "conservative-by-start": lambda: Conservative(compress="completion").compose(FCFS()),
    "hold": lambda: Hold(longer_than="1d").compose(FCFS()),
    "hold-in-order": lambda: Hold(longer_than="1d", backfilling=False).compose(FCFS()),
    "ready-pool": lambda: ReadyPool().compose(FCFS()),
    "left-over": lambda: ReadyPool(choose="left-over").compose(FCFS()),
    "rlscheduler": lambda: RLScheduler().compose(FCFS()),
    "first-fit": lambda: FitnessPolicy(FirstFit()),
    "best-fit": lambda: FitnessPolicy(BestFit()),
    "tetris": lambda: FitnessPolicy(Tetris()),
    "balance": lambda: FitnessPolicy(Balance()),
    "pairs": lambda: FitnessPolicy(lambda pairs: -pairs.free.sum(axis=1)),
    "drf": lambda: DRF(),
}


def window(start: float, end: float, amount: float, machine: int = 0) -> Maintenance:
    return Maintenance(start, end, machine, (amount,), "suspend")


@pytest.mark.parametrize("policy", ORDERED)
def test_a_filler_does_not_start_where_a_preempted_task_will_go_on(policy):
    """The urgent job outlives its request, so that the paused one could go on at any moment."""
    fillers = [(15, a_gang(1, 500)), (16, a_gang(1, 500))]
    load = make_jobs(
        (0, a_gang(4, 100)), (10, a_gang(3, 100, requested=20)), *fillers, queue=[0, 2, 0, 0]
    )
    run = simulate(ORDERED[policy](), load, pool(4, URGENT, REST))
    assert run.starts() == {0: 0, 1: 10, 2: 200, 3: 200}
    assert run.rows("jobs", "job_id end_time_s", by="job_id")[0] == (0, 200)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_filler_does_not_start_where_maintenance_has_suspended_a_task(policy):
    load = make_jobs((0, a_gang(4, 100, 8)), (15, a_gang(2, 500)), (16, a_gang(2, 500)))
    run = simulate(POLICIES[policy](), load, pool(4, maintenance=(window(10, 30, 2),)))
    assert run.starts() == {0: 0, 1: 120, 2: 120}
    assert run.rows("jobs", "job_id suspended_time_s", by="job_id")[0] == (0, 20)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_ends_before_a_suspended_task_goes_on_may_start(policy):
    """Without backfilling, even short tasks wait."""
    load = make_jobs((0, a_gang(4, 100, 8)), (15, a_gang(2, 10)), (16, a_gang(2, 500)))
    run = simulate(POLICIES[policy](), load, pool(4, maintenance=(window(10, 30, 2),)))
    waits = policy in ("none", "hold-in-order", "rlscheduler")
    assert run.starts() == {0: 0, 1: 120 if waits else 15, 2: 120}


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"rlscheduler"}))
def test_other_machines_are_not_kept(policy):
    """A bag goes on where it ran; long tasks start on the machine beside it."""
    machines = Cluster(
        ("processors",), ("a", "b"), np.array([[4.0], [2.0]]),
        maintenance=(window(10, 30, 4),),
    )  # fmt: skip
    load = make_jobs((0, a_bag(4, 100, 8)), (15, a_gang(2, 500)))
    run = simulate(POLICIES[policy](), load, machines)
    assert run.starts()[1] == 15 or policy in ("best-fit", "tetris", "balance", "pairs")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_filler_does_not_start_where_a_failure_has_suspended_a_task(policy):
    """Nobody knew of the failure; the task goes on when another one ends."""
    failure = CapacityChange(10, 0, "take", "failure", (1.0,), "suspend")
    load = make_jobs(
        (0, a_gang(1, 30)), (1, a_gang(3, 100)), (15, a_gang(2, 500)), (16, a_gang(1, 500))
    )
    run = simulate(POLICIES[policy](), load, pool(4, changes=(failure,)))
    assert run.starts() == {0: 0, 1: 1, 2: 121, 3: 121}
    assert run.rows("jobs", "job_id suspended_time_s", by="job_id")[1] == (1, 20)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_place_that_nobody_knows_to_come_is_not_kept(policy):
    """Capacity goes unforeseen and returns; whether it will, no policy can know."""
    taken = CapacityChange(10, 0, "take", "container", (2.0,), "suspend")
    given_back = CapacityChange(30, 0, "give", "container", (2.0,), "suspend")
    load = make_jobs((0, a_gang(4, 100)), (15, a_gang(2, 50)), (66, a_gang(2, 500)))
    run = simulate(POLICIES[policy](), load, pool(4, changes=(taken, given_back)))
    assert run.starts() == {0: 0, 1: 15, 2: 155}
    assert run.rows("jobs", "job_id end_time_s", by="job_id")[0] == (0, 155)


@pytest.mark.parametrize(
    "policy", sorted(POLICIES.keys() - {"rlscheduler", "ready-pool", "left-over"})
)
def test_a_higher_priority_may_take_the_place(policy):
    load = make_jobs(
        (0, a_gang(4, 100, 8)), (15, a_gang(2, 500)), (16, a_gang(2, 500)), queue=[0, 1, 0]
    )
    cluster = pool(4, MIDDLE, Partition("rest"), maintenance=(window(10, 30, 2),))
    run = simulate(POLICIES[policy](), load, cluster)
    assert run.starts() == {0: 0, 1: 15, 2: 605}
