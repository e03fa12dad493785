"""Every order with every backfilling rule on random workloads: what holds whatever the policy."""

from __future__ import annotations

from importlib.metadata import entry_points

import numpy as np
import polars as pl
import pytest

from simkit.engine.simulation import Rules
from simkit.policies import (
    changing_orders,
    fitness,
    multifactor,
    orderings,
    rlscheduler,
    value_orders,
)
from simkit.policies import orderings as bag_orders
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.hold import Hold
from simkit.policies.ready_pool import ReadyPool
from simkit.policy.ordered import OrderedPolicy
from simkit.workload import Workload
from simkit.workload.admission import AdmissionRule
from simkit.workload.cluster import Cluster, Maintenance, Partition

ORDERS = {
    "fcfs": orderings.FCFS,
    "lcfs": orderings.LCFS,
    "sjf": orderings.SJF,
    "ljf": orderings.LJF,
    "saf": orderings.SAF,
    "laf": orderings.LAF,
    "f1": orderings.F1,
    "f2": orderings.F2,
    "f3": orderings.F3,
    "f4": orderings.F4,
    "log-r-n": orderings.LogRN,
    "r2-n": orderings.R2N,
    "random": orderings.Random,
    "hrrn": changing_orders.HRRN,
    "wfp3": changing_orders.WFP3,
    "unicef": changing_orders.UNICEF,
    "saf-p": changing_orders.SAFP,
    "wfp3-p-n2": changing_orders.WFP3P,
    "multifactor": multifactor.Multifactor,
    "fewest-remaining": bag_orders.FewestRemaining,
    "largest-request": bag_orders.LargestRequest,
    "qos": value_orders.QoS,
    "value": value_orders.HighestValue,
    "value-density": value_orders.ValueDensity,
    "least-slack": value_orders.LeastSlack,
    "rlscheduler-wfp3": rlscheduler.RLSchedulerWFP3,
    "rlscheduler-unicep": rlscheduler.RLSchedulerUNICEP,
    "rlscheduler-f1": rlscheduler.RLSchedulerF1,
}
BACKFILLS = {
    "none": None,
    "easy": Easy,
    "conservative": Conservative,
    "ready-pool": ReadyPool,
    "hold": lambda: Hold(longer_than=5),
}
# Tried on sites with power, in test_power_policies.py.
NEED_POWER = {
    "backfill.power-cap",
    "backfill.green-slot",
    "backfill.carbon-threshold",
    "backfill.price-threshold",
}
# Knows pools of gangs alone; tried in test_rlscheduler.py.
NEED_A_POOL = {"backfill.rlscheduler"}
PLACEMENTS = {
    "first-fit": fitness.FirstFit,
    "best-fit": fitness.BestFit,
    "worst-fit": fitness.WorstFit,
    "random": fitness.RandomFit,
}


def compose(order, backfill, rule=None):
    rule = PLACEMENTS[rule]() if rule else None
    filling = BACKFILLS[backfill] and BACKFILLS[backfill]()
    if hasattr(filling, "compose"):
        return filling.compose(ORDERS[order](), rule)
    return OrderedPolicy(ORDERS[order](), filling, rule)


NAMES = ("a", "b", "c")
CAPACITY = np.array([[4.0, 2.0], [4.0, 2.0], [2.0, 4.0]])
APART = (Partition("ab", machines=(0, 1), queues=frozenset({0})), Partition("c", machines=(2,)))
SHARED = (Partition("b", machines=(1,), queues=frozenset({0}), priority=1.0), Partition("all"))
WINDOWS = (Maintenance(10, 25, 0, (2, 1)), Maintenance(30, 40, 1, (4, 2), "requeue"))
CLUSTERS = {
    "pool": Cluster.pool({"cpu": 10.0, "mem": 8.0}),
    "pool that shrinks": Cluster.pool(
        {"cpu": 10.0, "mem": 8.0}, maintenance=(Maintenance(10, 25, 0, (9, 7)),)
    ),
    "machines": Cluster(("cpu", "mem"), NAMES, CAPACITY),
    "partitions apart": Cluster(("cpu", "mem"), NAMES, CAPACITY, APART),
    "partitions that share": Cluster(("cpu", "mem"), NAMES, CAPACITY, SHARED),
    "maintenance": Cluster(("cpu", "mem"), NAMES, CAPACITY, maintenance=WINDOWS),
}


def workload(seed, jobs=30):
    """Return gangs and bags in jobs of 1 to 3 tasks; estimates lie on both sides of the truth."""
    rng = np.random.default_rng(seed)
    tasks = rng.integers(1, 4, jobs)
    total = int(tasks.sum())
    run = rng.integers(0, 8, total).astype(float)
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(jobs),
        submit_time_s=np.cumsum(rng.integers(0, 4, jobs)).astype(float),
        first_task=np.concatenate(([0], np.cumsum(tasks))),
        task_id=np.arange(total),
        instances=rng.integers(1, 4, total),
        request=rng.choice([0.0, 0.5, 1.0], (total, 2)),
        run_time_s=run,
        requested_time_s=np.maximum(run + rng.integers(-3, 8, total), 0.0),
        gang=rng.random(total) < 0.6,
        queue=rng.integers(0, 2, jobs),
        user=rng.integers(-1, 4, jobs),
    )


def most_held(allocations, load):
    """Return (R,): the most that was held at once of each resource, after ends at an instant."""
    of_task = dict(zip(load.task_id.tolist(), load.request, strict=True))
    changes = []
    for task, count, start, end in allocations.select(
        "task_id", "count", "start_time_s", "end_time_s"
    ).rows():
        changes += [(start, 1, of_task[task] * count), (end, 0, -of_task[task] * count)]
    held, most = np.zeros(2), np.zeros(2)
    for _, _, change in sorted(changes, key=lambda change: change[:2]):
        held = held + change
        most = np.maximum(most, held)
    return most


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("order", ORDERS)
def test_every_job_runs_once_and_in_what_there_is(order, backfill, cluster, simulate):
    load = workload(seed=len(order))
    run = simulate(compose(order, backfill), load, cluster)
    jobs, tasks, allocations = run["jobs"], run["tasks"], run["allocations"]

    assert sorted(jobs["job_id"]) == list(range(len(load)))
    assert set(jobs["status"]) <= {"finished", "rejected"}
    assert (jobs["status"] == "finished").sum() > 15
    assert (jobs["wait_time_s"].drop_nulls() >= 0).all()
    finished = allocations.filter(pl.col("outcome") == "finished")
    placed = dict(finished.group_by("task_id").agg(pl.col("count").sum()).rows())
    for task, instances, status in tasks.select("task_id", "instances", "status").rows():
        assert placed.get(task, 0) == (instances if status == "finished" else 0)
    run_times = load.run_time_s[finished["task_id"].to_numpy()]
    assert (finished["end_time_s"] - finished["start_time_s"]).to_list() == run_times.tolist()
    # Instances that last no time and end at the instant of the next start are no overlap.
    assert (most_held(allocations, load) <= cluster.capacity.sum(axis=0)).all()


@pytest.mark.parametrize("rule", PLACEMENTS)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_every_placement_rule_and_the_same_run_twice(rule, backfill, simulate):
    cluster = CLUSTERS["machines"]
    policy = compose("random", backfill, rule)
    first = simulate(policy, workload(7), cluster, seed=3)
    again = simulate(policy, workload(7), cluster, seed=3)  # reset forgets the first run
    assert set(first["jobs"]["status"]) <= {"finished", "rejected"}
    for table in ("jobs", "tasks", "allocations", "timeline", "events"):
        assert first[table].equals(again[table])


@pytest.mark.parametrize("refill", ["at_once", "next_decision"])
@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("order", ["fcfs", "sjf", "hrrn"])
def test_admission_loses_no_task(order, backfill, refill, simulate, job_columns):
    # "at_once" shows a task in the middle of a decision; the policy has to take it in there.
    rules = Rules(admission=AdmissionRule(slots=2, refill=refill))
    jobs = job_columns([(0, 3, 1, 3), (0, 2, 2, 4), (1, 5, 3, 5)] * 5)
    run = simulate(compose(order, backfill), jobs, 4, rules=rules)
    assert run["jobs"]["status"].to_list() == ["finished"] * 15


@pytest.mark.parametrize(
    "backfill", ["none", "easy", "conservative", "hold"]
)  # none that reserves ahead
@pytest.mark.parametrize("order", ORDERS)
def test_periodic_decisions(order, backfill, simulate, job_columns):
    jobs = job_columns([(1, 3, 2, 5), (1, 4, 3, 4), (0, 7, 1, 2), (2, 0, 4, 0)] * 5)
    run = simulate(compose(order, backfill), jobs, 4, rules=Rules(every_s=10.0))
    assert run["jobs"]["status"].to_list() == ["finished"] * 20
    assert (run["jobs"]["start_time_s"] % 10.0 == 0).all()


def test_the_names_of_scenarios_are_those_tried_here():
    names = {point.name for point in entry_points(group="simkit.policies")}
    for kind, tried in (("order", ORDERS), ("backfill", BACKFILLS), ("placement", PLACEMENTS)):
        found = {n for n in names if n.startswith(f"{kind}.")}
        found -= NEED_POWER | NEED_A_POOL
        assert found == {f"{kind}.{n}" for n in tried}
    assert names >= NEED_POWER | NEED_A_POOL
