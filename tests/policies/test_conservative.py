"""Conservative backfilling: nobody starts later than promised, and the plan is the right one."""

from __future__ import annotations

import numpy as np
import plain_conservative
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import mixed_jobs

from simkit.errors import PolicyError, ScenarioError
from simkit.policies.conservative import Conservative, ConservativePolicy
from simkit.policies.fitness import BestFit, RandomFit, WorstFit
from simkit.policies.orderings import FCFS, SJF, WFP3, Random
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import Cluster, Maintenance, Partition

PROCESSORS = 6
SIZES = st.integers(1, PROCESSORS)
# (gap, run time, processors, how much longer the estimate is)
JOBS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), SIZES, st.integers(0, 6)),
    min_size=1,
    max_size=20,
)


class Promises(ConservativePolicy):
    """Keeps every promise that is made on arrival."""

    def reset(self, info, rng):
        super().reset(info, rng)
        self.first = {}

    def schedule(self, state):
        yield from super().schedule(state)
        for task in state.arrived:
            self.first.setdefault(task.index, self.promised[task.index])


def over_estimated(rows):
    return [(gap, run, size, run + more) for gap, run, size, more in rows]


def assert_kept(policy, run):
    tasks = run["tasks"].sort("job_id", "task_id")["status", "start_time_s"].rows()
    starts = {i: start for i, (status, start) in enumerate(tasks) if status != "rejected"}
    assert sorted(policy.first) == sorted(starts)
    late = {i: (policy.first[i], s) for i, s in starts.items() if not s <= policy.first[i]}
    assert late == {}
    assert policy.promised == {}, "promises to tasks that have ended are forgotten"


@pytest.mark.parametrize("compress", ["queue", "completion"])
@pytest.mark.parametrize("order", [FCFS, SJF, WFP3, Random])
def test_no_job_starts_later_than_promised(order, compress, simulate, job_columns):
    @given(JOBS)
    def check(rows):
        policy = Promises(order(), compress=compress)
        run = simulate(policy, job_columns(over_estimated(rows)), PROCESSORS)
        assert_kept(policy, run)

    check()


def test_no_job_of_a_real_log_starts_later_than_promised(simulate, reference):
    jobs = reference("KTH-SP2-1996-2.1-cln").select(
        "job_id", "submit_time_s", "run_time_s", "processors", "requested_time_s"
    )[:5_000]
    policy = Promises(FCFS())
    run = simulate(policy, {c: jobs[c].to_numpy() for c in jobs.columns}, 100)
    by_arrival = run["jobs"].sort("submit_time_s", "job_id")["start_time_s"].to_numpy()
    promised = np.array([policy.first[row] for row in range(len(jobs))])
    assert len(by_arrival) == len(jobs) == 5_000
    assert (by_arrival <= promised).all()
    assert (by_arrival < promised).any()


# ---- which plan ---------------------------------------------------------------------------------


def test_equals_a_plain_replay_with_exact_estimates(simulate, job_columns):
    @given(JOBS)
    def check(rows):
        rows = [(gap, 1 + run, size, 1 + run) for gap, run, size, _ in rows]
        run = simulate(ConservativePolicy(FCFS()), job_columns(rows), PROCESSORS)
        assert run.starts == plain_conservative.replay(PROCESSORS, rows)

    check()


@pytest.mark.parametrize("compress", ["queue", "completion"])
def test_equals_a_plain_replay_when_tasks_end_early(compress, simulate, job_columns):
    by_start = compress == "completion"

    @given(JOBS)
    def check(rows):
        rows = [(gap, run, size, 1 + run + more) for gap, run, size, more in rows]
        policy = Conservative(compress).compose(FCFS())
        run = simulate(policy, job_columns(rows), PROCESSORS)
        assert run.starts == plain_conservative.replay(PROCESSORS, rows, by_start=by_start)

    check()


def crowded(seed, jobs=30):
    """Return jobs that queue, of which most end long before their estimate."""
    rng = np.random.default_rng(seed)
    run = rng.integers(1, 40, jobs)
    columns = (rng.integers(0, 12, jobs), run, rng.integers(1, PROCESSORS + 1, jobs),
               run * rng.integers(1, 9, jobs))  # fmt: skip
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_the_two_compressions_are_two_schedules_on_crowded_workloads(simulate, job_columns):
    other = 0
    for seed in range(6):
        rows = crowded(seed)
        found = {}
        for compress in ("queue", "completion"):
            policy = Conservative(compress).compose(FCFS())
            found[compress] = simulate(policy, job_columns(rows), PROCESSORS).starts
            by_start = compress == "completion"
            assert found[compress] == plain_conservative.replay(PROCESSORS, rows, by_start=by_start)
        other += found["queue"] != found["completion"]
    assert other > 3


def test_a_compression_of_another_name_is_refused():
    with pytest.raises(ScenarioError, match=r"compress: queue .* or completion .* not 'start'"):
        Conservative("start")


@pytest.mark.parametrize("order", [FCFS, SJF])
def test_plans_a_pool_as_it_plans_machines(order, simulate, job_columns):
    """A second resource that nobody asks for changes nothing; single processors keep promises."""
    wide = Cluster.pool({"processors": PROCESSORS, "unused": 1.0})
    names = tuple(f"m{row}" for row in range(PROCESSORS))
    machines = Cluster(("processors",), names, np.ones((PROCESSORS, 1)))

    @given(JOBS)
    def check(rows):
        jobs = job_columns([(gap, run, size, more) for gap, run, size, more in rows])
        starts = simulate(ConservativePolicy(order()), jobs, PROCESSORS).starts
        assert simulate(ConservativePolicy(order()), jobs, wide).starts == starts

        jobs = job_columns(over_estimated(rows))
        policy = Promises(order())
        assert_kept(policy, simulate(policy, jobs, machines))

    check()


@pytest.mark.parametrize(
    ("jobs", "starts"),
    [
        # The first ends at 4 instead of 9: the rest moves up in order.
        ([(0, 4, 4, 9), (0, 5, 4, 5), (0, 1, 2, 1)], [0, 4, 9]),
        # The first overruns by 3: everything is planned anew, and waits for its real end.
        ([(0, 9, 4, 6), (0, 5, 3, 5), (0, 8, 1, 8)], [0, 9, 9]),
    ],
)
def test_by_hand(jobs, starts, simulate, job_columns):
    assert simulate(ConservativePolicy(FCFS()), job_columns(jobs), 4).starts == starts


# ---- clusters of all kinds ----------------------------------------------------------------------

MACHINES = np.array([[4.0, 2.0], [4.0, 2.0], [2.0, 4.0]])
NAMES = ("a", "b", "c")
HALVES = (Partition("ab", machines=(0, 1), queues=frozenset({0})), Partition("c", machines=(2,)))
SHARED = (Partition("all", queues=frozenset({0}), priority=1.0), Partition("b", machines=(1,)))
DOWN = Maintenance(10.0, 25.0, machine=0, amount=(4.0, 2.0))
CLUSTERS = {
    "machines": Cluster(("cpu", "mem"), NAMES, MACHINES),
    "pool of two resources": Cluster.pool({"cpu": 8.0, "mem": 6.0}),
    "partitions apart": Cluster(("cpu", "mem"), NAMES, MACHINES, HALVES),
    "partitions that share": Cluster(("cpu", "mem"), NAMES, MACHINES, SHARED),
    "drained": Cluster(("cpu", "mem"), NAMES, MACHINES, maintenance=(DOWN,)),
    "requeued": Cluster(
        ("cpu", "mem"), NAMES, MACHINES, maintenance=(Maintenance(10, 25, 0, (4, 2), "requeue"),)
    ),
    "a pool that shrinks": Cluster.pool(
        {"cpu": 8.0, "mem": 6.0}, maintenance=(Maintenance(10, 25, 0, (6, 5), "requeue"),)
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("rule", [None, BestFit, WorstFit, RandomFit])
@pytest.mark.parametrize("compress", ["queue", "completion"])
def test_promises_are_kept_on_every_kind_of_cluster(cluster, rule, compress, simulate):
    for seed in range(3):
        policy = Promises(FCFS(), rule and rule(), compress)
        run = simulate(policy, mixed_jobs(seed, 40, off=(0, 5)), cluster, seed=seed)
        assert_kept(policy, run)
        assert set(run["jobs"]["status"]) <= {"finished", "rejected"}


def test_runs_everything_when_tasks_are_suspended(simulate):
    cluster = Cluster(
        ("cpu", "mem"), NAMES, MACHINES, maintenance=(Maintenance(10, 25, 0, (4, 2), "suspend"),)
    )
    suspended = 0
    for seed in range(5):
        jobs = mixed_jobs(seed, 40, off=(0, 5))
        jobs = jobs.with_columns(
            requested_time_s=jobs.run_time_s / 2
        )  # or none would be there then
        run = simulate(ConservativePolicy(FCFS()), jobs, cluster)
        assert run["jobs"]["status"].unique().to_list() == ["finished"]
        suspended += run["events"].filter(pl.col("kind") == "suspended").height
    assert suspended > 0


def test_the_rule_makes_the_policy_and_refuses_to_be_a_part(simulate, job_columns):
    jobs = job_columns([(0, 3, 3, 3), (0, 3, 3, 3), (0, 3, 1, 3)])
    composed = Conservative().compose(FCFS(), BestFit())
    assert simulate(composed, jobs, 4).starts == [0, 3, 0]
    with pytest.raises(PolicyError, match="compose"):
        simulate(OrderedPolicy(FCFS(), Conservative()), jobs, 4)
