"""Dominant resource fairness: the paper's example, and what its properties promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import one_task_jobs

from simkit.errors import ScenarioError
from simkit.policies.drf import DRF
from simkit.policies.fitness import WorstFit
from simkit.workload.cluster import Cluster


def bags(*rows):
    """Make one bag a job of (user, instances, cpu, mem, run time[, submit])."""
    user, count, cpu, mem, run = zip(*(row[:5] for row in rows), strict=True)
    submit = [row[5] if len(row) > 5 else 0.0 for row in rows]
    request = np.column_stack((cpu, mem))
    return one_task_jobs(submit, run, request, count, gang=False, user=np.array(user))


def started(run, at=0.0):
    """Return how many instances of each task start at a time."""
    table = run["allocations"]
    counts: dict[int, int] = {}
    for task, start, count in table.select("task_id", "start_time_s", "count").rows():
        if start == at:
            counts[task] = counts.get(task, 0) + count
    return counts


PAPER = Cluster.pool({"cpu": 9.0, "mem": 18.0})


@pytest.mark.parametrize("by", ["user", "job"])
def test_the_example_of_the_paper(by, simulate):
    # 9 CPUs, 18 GB; A asks for <1 CPU, 4 GB>, B for <3 CPUs, 1 GB>: three tasks of A, two of B.
    run = simulate(DRF(by), bags((1, 50, 1, 4, 9), (2, 50, 3, 1, 9)), PAPER)
    assert started(run) == {0: 3, 1: 2}


def test_users_are_equal_however_many_jobs_they_have(simulate):
    jobs = [(1, 20, 1, 1, 9)] * 3 + [(2, 20, 1, 1, 9)]
    pool = Cluster.pool({"cpu": 12.0, "mem": 100.0})
    assert started(simulate(DRF("user"), bags(*jobs), pool)) == {0: 6, 3: 6}
    assert started(simulate(DRF("job"), bags(*jobs), pool)) == {0: 3, 1: 3, 2: 3, 3: 3}


def test_what_runs_counts(simulate):
    # User 1 holds 6 of 8 cores when user 2 comes; at 5 s two come free, and both go to user 2.
    jobs = bags((1, 6, 1, 1, 9), (1, 2, 1, 1, 5), (1, 9, 1, 1, 9, 1), (2, 9, 1, 1, 9, 2))
    run = simulate(DRF("user"), jobs, Cluster.pool({"cpu": 8.0, "mem": 8.0}))
    assert started(run, 5.0) == {3: 2}
    # At 9 s user 1 has nothing left and user 2 holds 2 of 8: equal shares are 4 and 4.
    assert started(run, 9.0) == {2: 4, 3: 2}


def one_by_one(jobs, capacity):
    """Fill progressively, one instance at a time; ties to the earlier user."""
    free, held, left = capacity.copy(), {}, jobs.instances.copy()
    while True:
        able = [
            (max((held.get(user, 0 * free)) / capacity), row)
            for row, user in enumerate(jobs.user.tolist())
            if left[row] and (jobs.request[row] <= free).all()
        ]
        if not able:
            return {row: int(n) for row, n in enumerate(jobs.instances - left) if n}
        _, row = min(able)
        user = int(jobs.user[row])
        held[user] = held.get(user, 0 * free) + jobs.request[row]
        free, left[row] = free - jobs.request[row], left[row] - 1


rows = st.tuples(
    st.just(0), st.integers(1, 20), st.sampled_from([0.25, 0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.just(9.0),
)  # fmt: skip


@given(rows=st.lists(rows, min_size=1, max_size=6), cpu=st.integers(2, 20), mem=st.integers(2, 20))
def test_many_at_once_is_one_by_one(simulate, rows, cpu, mem):
    jobs = bags(*[(user, *row[1:]) for user, row in enumerate(rows)])
    jobs = jobs.take(np.flatnonzero((jobs.request <= (cpu, mem)).all(axis=1)))
    if not len(jobs):
        return
    run = simulate(DRF("user"), jobs, Cluster.pool({"cpu": float(cpu), "mem": float(mem)}))
    found = {int(np.flatnonzero(jobs.task_id == task)[0]): n for task, n in started(run).items()}
    assert found == one_by_one(jobs, np.array([cpu, mem], float))


def test_on_machines_and_with_another_fitness(simulate):
    cluster = Cluster(("cpu", "mem"), ("a", "b"), np.array([[4.0, 4.0], [4.0, 4.0]]))
    run = simulate(DRF("user", WorstFit()), bags((1, 9, 1, 1, 9), (2, 9, 1, 1, 9)), cluster)
    assert started(run) == {0: 4, 1: 4}


def test_an_unknown_choice_is_named():
    with pytest.raises(ScenarioError, match=r"drf: by is 'users'; did you mean 'user'\?"):
        DRF("users")
