"""The bound on value: no schedule earns more, and small cases by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.analysis.value_bound import BoundJobs, Capacity, bound_of_run, value_bound
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import RunError, ScenarioError
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF
from simkit.policies.ready_pool import ReadyPoolPolicy
from simkit.policy.estimates import Actual
from simkit.policy.ordered import OrderedPolicy
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Maintenance

METHODS = {"slots": 10**6, "sums": 0}


def jobs(rows):
    """Make jobs of (submit, run time, processors, value, deadline)."""
    submit, run, size, value, due = np.array(rows, dtype=float).T
    return BoundJobs(submit, run, size[:, None], value, due)


NEVER = np.inf
BY_HAND = [
    # rows, processors, window, step, most_variables, the bound
    # Both fit, one after the other.
    ([(0, 4, 1, 5, NEVER), (0, 4, 1, 7, NEVER)], 1, 8, 1, "slots", 12),
    # Only two seconds are left for the one that is worth less: 2 / 4 of it.
    ([(0, 4, 1, 5, NEVER), (0, 4, 1, 7, NEVER)], 1, 6, 1, "slots", 7 + 2.5),
    # Two processors do not make a job run at twice its pace; it cannot finish.
    ([(3, 4, 1, 5, NEVER)], 2, 6, 1, "slots", 0),
    # Side by side there is room for one of the two; both would be worth 12.
    ([(3, 3, 2, 6, NEVER), (3, 3, 2, 6, NEVER)], 2, 6, 1, "slots", 6),
    # Both must end by second 4: four processor-seconds for eight.
    ([(0, 4, 1, 5, 4), (0, 4, 1, 7, 4)], 1, 8, 1, "slots", 7),
    # Two jobs of 4 s until 6 s, each at its own pace: in slots of 6 s and in sums alike.
    ([(0, 4, 1, 5, 6), (0, 4, 1, 7, 6)], 1, 12, 6, "slots", 9.5),
    ([(0, 4, 1, 5, 6), (0, 4, 1, 7, 6)], 1, 12, 6, "sums", 9.5),
    # Pace: beside a job of all processors until 4 s the other has 2 s left of its 4 s; the sums
    # forget that it cannot use two processors at once.
    ([(0, 4, 2, 9, 4), (0, 4, 1, 4, 6)], 2, 6, 2, "slots", 11),
    ([(0, 4, 2, 9, 4), (0, 4, 1, 4, 6)], 2, 6, 2, "sums", 13),
    # What takes no time is worth its value all the same.
    ([(0, 0, 1, 3, NEVER)], 1, 1, 1, "slots", 3),
]


@pytest.mark.parametrize(("rows", "processors", "end", "step", "method", "value"), BY_HAND)
def test_by_hand(rows, processors, end, step, method, value):
    bound = value_bound(
        jobs(rows), Capacity.constant(processors), window=(0, end), step_s=step,
        most_variables=METHODS[method],
    )  # fmt: skip
    assert bound.value == pytest.approx(value, rel=1e-7)
    assert bound.submitted == sum(row[3] for row in rows)


def test_capacity_over_time():
    # 4 processors for 2 s, none until 5 s, 1 afterwards: of two jobs of 4 x 3 s nothing is whole.
    capacity = Capacity(np.array([0.0, 2.0, 5.0]), np.array([[4.0], [0.0], [1.0]]))
    assert capacity.in_slots(np.array([0.0, 1.0, 4.0, 7.0])).tolist() == [[4.0], [4.0], [2.0]]
    both = jobs([(0, 3, 4, 12, NEVER), (0, 3, 4, 6, NEVER)])
    found = value_bound(both, capacity, window=(0, 7), step_s=1.0)
    assert found.value == pytest.approx(10.0)  # 10 of 12 processor-seconds of the better one


JOB = st.tuples(
    st.integers(0, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9), st.integers(0, 6)
)
PROCESSORS = 3


def best_schedule(rows, amounts):
    """Return the most that any preemptive schedule earns, second by second, trying them all."""

    @cache
    def best(now, left):
        if now == len(amounts):
            return 0.0
        able = [j for j, rest in enumerate(left) if rest and rows[j][0] <= now < rows[j][4]]
        most = 0.0
        for chosen in range(2 ** len(able)):
            running = [j for bit, j in enumerate(able) if chosen >> bit & 1]
            if sum(rows[j][2] for j in running) > amounts[now]:
                continue
            rest = tuple(r - (j in running) for j, r in enumerate(left))
            earned = sum(rows[j][3] for j in running if not rest[j])
            most = max(most, earned + best(now + 1, rest))
        return most

    return best(0, tuple(row[1] for row in rows))


@given(
    st.lists(JOB, min_size=1, max_size=4),
    st.lists(st.integers(0, PROCESSORS), min_size=10, max_size=10),
    st.sampled_from([1.0, 2.0, 3.0]),
)
def test_no_schedule_earns_more(rows, amounts, step):
    rows = [(s, run, size, value, s + run + slack) for s, run, size, value, slack in rows]
    capacity = Capacity(np.arange(10.0), np.array(amounts, dtype=float)[:, None])
    best = best_schedule(tuple(rows), tuple(amounts))
    slots, sums = (
        value_bound(jobs(rows), capacity, window=(0, 10), step_s=step, most_variables=most).value
        for most in METHODS.values()
    )
    assert best <= slots + 1e-9
    assert slots <= sums + 1e-6, "forgetting the pace makes it no smaller"


class Tables(dict):
    def write(self, table, rows):
        self[table] = pl.concat([self[table], rows]) if table in self else rows


def simulated(policy, seed):
    """Return (a run in memory, what it earned): jobs of two resources on a pool that shrinks."""
    rng = np.random.default_rng(seed)
    count = 60
    run = rng.integers(1, 40, count).astype(float)
    demand = np.stack((rng.integers(1, 6, count), rng.integers(0, 3, count)), 1).astype(float)
    load = Workload(
        resources=("cpu", "gpu"), job_id=np.arange(count),
        submit_time_s=np.cumsum(rng.integers(0, 6, count)).astype(float),
        first_task=np.arange(count + 1), task_id=np.arange(count),
        instances=np.ones(count, int), request=demand, run_time_s=run, requested_time_s=run,
        gang=np.ones(count, bool),
    )  # fmt: skip
    worth = rng.uniform(0.1, 1.0, count) * run * demand.sum(axis=1)
    windows = (Maintenance(50, 120, 0, (6, 2), "suspend"), Maintenance(160, 200, 0, (4, 4)))
    cluster = Cluster.pool({"cpu": 10.0, "gpu": 4.0}, maintenance=windows)
    tables = Tables()
    simulation = Simulation(
        load, cluster, Recorder(load, cluster.resources, tables), predictor=Actual()
    )
    simulation.run(policy)
    of_job = pl.DataFrame({"job_id": np.arange(count), "value": worth})
    done = tables["jobs"].join(of_job, on="job_id")
    return SimpleNamespace(
        folder="run", jobs=done, tasks=tables["tasks"], timeline=tables["timeline"],
        resources=("cpu", "gpu"), capacity={"cpu": 10.0, "gpu": 4.0},
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "policy", [OrderedPolicy(FCFS()), OrderedPolicy(SJF(), Easy()), ReadyPoolPolicy(SJF())]
)
@pytest.mark.parametrize("method", METHODS)
def test_no_policy_earns_more(policy, method, seed):
    run = simulated(policy, seed)
    for end in (100.0, 180.0, 260.0):
        bound = bound_of_run(run, window=(0.0, end), step_s=10.0, most_variables=METHODS[method])
        earned = run.jobs.filter(pl.col("end_time_s") <= end)["value"].sum()
        assert 0 < earned <= bound.value + 1e-9
        assert bound.value < bound.submitted, "there is too much to do in so short a time"


def test_the_whole_of_a_run_in_which_everything_finishes():
    run = simulated(OrderedPolicy(FCFS(), Easy()), 0)
    bound = bound_of_run(run, step_s=20.0)
    assert bound.value == pytest.approx(run.jobs["value"].sum())
    assert bound.window == (run.jobs["submit_time_s"].min(), run.timeline["time_s"].max())


def test_parts_of_a_job_share_its_value():
    """A job of two tasks, one of which cannot run: at most the other's share is earned."""
    load = Workload(
        resources=("cpu",), job_id=np.array([7]), submit_time_s=np.zeros(1),
        first_task=np.array([0, 2]), task_id=np.arange(2), instances=np.array([1, 3]),
        request=np.ones((2, 1)), run_time_s=np.array([4.0, 4.0]),
        requested_time_s=np.full(2, np.nan), gang=np.array([True, False]), value=np.array([8.0]),
    )  # fmt: skip
    parts = BoundJobs.of_workload(load)
    assert parts.value.tolist() == [2.0, 6.0]
    assert parts.demand[:, 0].tolist() == [1.0, 3.0]
    whole = value_bound(parts, Capacity.constant(4.0), window=(0, 4), step_s=1.0)
    assert whole.value == pytest.approx(8.0)


WRONG = [
    ({"window": (5, 5)}, "must end after it starts"),
    ({"window": (0, 5), "step_s": 0.0}, "step_s is 0; it must be above 0 s"),
    ({"window": (0, 5), "capacity": Capacity.constant(1.0, 2.0)}, "jobs ask for 1 resources"),
    ({"window": (0, 5), "capacity": Capacity(np.ones(1), np.ones((1, 1)))}, "known from 1 s on"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_errors_name_the_problem(arguments, message):
    given_jobs = jobs([(0, 1, 1, 1, NEVER)])
    with pytest.raises(ScenarioError, match=message):
        value_bound(given_jobs, **({"capacity": Capacity.constant(1.0)} | arguments))


def test_errors_name_all_problems_of_jobs_and_capacity():
    good = jobs([(0, 1, 1, 1, NEVER)])
    with pytest.raises(ScenarioError, match=r"run_time_s must.*\n.*value must") as error:
        replace(good, run_time_s=np.array([-1.0]), value=np.array([np.nan]))
    assert len(error.value.problems) == 2
    with pytest.raises(ScenarioError, match=r"must be finite and ascend\n.*at least 0"):
        Capacity(np.array([1.0, 0.0]), np.array([[1.0], [-1.0]]))


def test_a_run_without_value_says_so():
    run = simulated(OrderedPolicy(FCFS()), 0)
    run.jobs = run.jobs.drop("value")
    with pytest.raises(RunError, match="have no value; run the scenario with a section value:"):
        bound_of_run(run)
