"""Every order with every backfilling rule on random workloads: what holds whatever the policy."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from workloads import mixed_jobs

from simkit import check_policy, plugins
from simkit.policies.lookahead import Lookahead
from simkit.policy import SystemInfo
from simkit.policy.declared import reads_estimates
from simkit.policy.estimates import Actual
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.greedy import GreedyPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import Cluster, Maintenance, Partition

ARGUMENTS = {
    "hold": {"longer_than": 5},
    "carbon-threshold": {"at_most": 100},
    "price-threshold": {"at_most": 0.1},
}
"""Of rules that cannot do without; every other plug-in is made as it is."""


def part(kind, name):
    return plugins.find("simkit.policies", name, kind=kind)(**ARGUMENTS.get(name, {}))


def compose(order, backfill, rule=None):
    filling, placing = part("backfill", backfill), part("placement", rule) if rule else None
    if hasattr(filling, "compose"):
        return filling.compose(part("order", order), placing)
    return OrderedPolicy(part("order", order), filling, placing)


def by_fitness(name):
    fitness = part("fitness", name)
    return fitness if isinstance(fitness, GreedyPolicy) else FitnessPolicy(fitness)


def composable():
    """Return the backfilling rules for any cluster; those that need a site or a pool have tests."""
    info = SystemInfo(("cpu",), ("a", "b"), np.ones((2, 1)), (Partition("all"),))

    def fits(policy):
        return not hasattr(policy, "check_site") and not (
            hasattr(policy, "check_cluster") and policy.check_cluster(info)
        )

    names = plugins.names("simkit.policies", "backfill")
    return [name for name in names if fits(compose("fcfs", name))]


ORDERS, PLACEMENTS, FITNESSES = (
    plugins.names("simkit.policies", kind) for kind in ("order", "placement", "fitness")
)
BACKFILLS = composable()

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


FIXED, CHANGING = "fcfs", "hrrn"
KINDS = [
    # a fixed and a changing order on all clusters, every other order on one of them in turn
    (order, backfill, cluster)
    for number, (order, backfill) in enumerate(product(ORDERS, BACKFILLS))
    for turn, cluster in enumerate(CLUSTERS)
    if order in (FIXED, CHANGING) or turn == number % len(CLUSTERS)
]


@pytest.mark.parametrize(("order", "backfill", "cluster"), KINDS)
def test_every_job_runs_once_and_in_what_there_is(order, backfill, cluster, simulate):
    load, cluster = mixed_jobs(len(order), 30), CLUSTERS[cluster]
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
    first = simulate(policy, mixed_jobs(7, 30), cluster, seed=3)
    again = simulate(policy, mixed_jobs(7, 30), cluster, seed=3)  # reset forgets the first run
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
    run = simulate(compose(order, backfill), jobs, 4, rules=Rules(scheduling={"every": 10.0}))
    assert run["jobs"]["status"].to_list() == ["finished"] * 20
    assert (run["jobs"]["start_time_s"] % 10.0 == 0).all()


PLAIN = {
    **{f"order {name}": lambda name=name: compose(name, "none") for name in ORDERS},
    **{f"fitness {name}": lambda name=name: by_fitness(name) for name in FITNESSES},
}


CONFORMING = PLAIN | {
    **{f"backfill {name}": lambda name=name: compose("fcfs", name) for name in BACKFILLS},
    "ready-pool, worst-fit": lambda: compose("fcfs", "ready-pool", "worst-fit"),
    "lookahead": lambda: Lookahead([compose("fcfs", "none"), by_fitness("tetris")]),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.thorough] if name == "lookahead" else [])
        for name, make in CONFORMING.items()
    ],
)
def test_it_keeps_the_rules_of_policies(make):
    check_policy(make)


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_policies_that_read_estimates_say_so(make, simulate):
    """What does not say that it reads them decides alike, whatever they are."""
    policy, load = make(), mixed_jobs(11, 80)
    by_request, by_run_time = (
        simulate(policy, load, CLUSTERS["machines"], predictor=source)["allocations"]
        for source in (None, Actual())
    )
    places = ["task_id", "machine_id", "start_time_s"]
    same = by_request.select(places).equals(by_run_time.select(places))
    assert same or reads_estimates(policy)
