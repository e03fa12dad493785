"""EASY backfilling: equal to other schedulers, and to itself on other forms of a cluster."""

from __future__ import annotations

import plain_replay
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import CapacityStep, Cluster, Maintenance

PROCESSORS = 6
ORDERS = {"fcfs": FCFS, "sjf": SJF}

# Few different numbers: ties in every column, run times of 0, estimates below the run time.
JOB = st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(1, PROCESSORS), st.integers(0, 8))
JOBS = st.lists(JOB, min_size=1, max_size=24)


def composed(order: str, easy: bool) -> OrderedPolicy:
    return OrderedPolicy(ORDERS[order](), Easy() if easy else None)


@pytest.mark.parametrize("order", ["fcfs", "sjf"])
@pytest.mark.parametrize("easy", [False, True], ids=["none", "easy"])
def test_equals_a_plain_replay(order, easy, simulate, job_columns):
    @given(JOBS)
    def check(rows):
        jobs = job_columns(rows)
        ours = simulate(composed(order, easy), jobs, PROCESSORS).starts
        names = ("submit_time_s", "run_time_s", "processors", "requested_time_s")
        plain = plain_replay.replay(
            PROCESSORS,
            *(jobs[name].tolist() for name in names),
            shortest_first=order == "sjf",
            easy=easy,
        )
        assert ours == plain

    check()


LOGS = [
    ("lublin_256", 256),
    pytest.param("KTH-SP2-1996-2.1-cln", 100, marks=pytest.mark.thorough),
    pytest.param("SDSC-SP2-1998-4.2-cln", 128, marks=pytest.mark.thorough),
    pytest.param("HPC2N-2002-2.2-cln", 240, marks=pytest.mark.slow),
    pytest.param("SDSC-BLUE-2000-4.2-cln", 1152, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("log", "processors"), LOGS)
@pytest.mark.parametrize("order", ["fcfs", "sjf"])
@pytest.mark.parametrize("easy", [False, True], ids=["none", "easy"])
def test_equals_the_reference_schedule_job_by_job(
    log, processors, order, easy, simulate, reference
):
    table = reference(log)
    column = {
        ("fcfs", False): "start_fcfs_s",
        ("fcfs", True): "start_easy_s",
        ("sjf", False): "start_sjf_s",
        ("sjf", True): "start_sjf_easy_s",
    }[order, easy]
    jobs = table.select("job_id", "submit_time_s", "run_time_s", "processors", "requested_time_s")
    run = simulate(composed(order, easy), {c: jobs[c].to_numpy() for c in jobs.columns}, processors)
    both = run["jobs"].select("job_id", "start_time_s").join(table, on="job_id", how="inner")
    different = both.filter(pl.col("start_time_s") != pl.col(column))
    assert len(both) == len(table)
    assert different.is_empty()


@pytest.mark.parametrize("order", ["fcfs", "sjf"])
def test_is_the_same_in_the_availability_profile(order, simulate, job_columns):
    """A known step of capacity that changes nothing, far ahead, makes EASY plan in the profile."""
    never = Maintenance(2.0**31, 2.0**31 + 1, machine=0, amount=(0.0,))
    planned = Cluster.pool({"processors": PROCESSORS}, maintenance=(never,))

    @given(JOBS)
    def check(rows):
        jobs = job_columns(rows)
        expected = simulate(composed(order, easy=True), jobs, PROCESSORS).starts
        assert simulate(composed(order, easy=True), jobs, planned).starts == expected

    check()


@pytest.mark.parametrize("order", ["fcfs", "sjf"])
def test_is_the_same_on_machines_of_one_processor(order, simulate, job_columns):
    """The head needs that many machines at the shadow time, not the very ones it would get now."""
    names = tuple(f"m{row}" for row in range(PROCESSORS))
    machines = Cluster(("processors",), names, [[1.0]] * PROCESSORS)

    @given(JOBS)
    def check(rows):
        jobs = job_columns(rows)
        expected = simulate(composed(order, easy=True), jobs, PROCESSORS).starts
        assert simulate(composed(order, easy=True), jobs, machines).starts == expected

    check()


@pytest.mark.parametrize(
    ("foretold", "jobs", "starts"),
    [
        # At 2 s all capacity is to go at 5 s, which keeps job 2 back; at 3 s nothing is.
        ({2: [(5, -8)]}, [(0, 100, 6, 100), (1, 10, 8, 10), (1, 10, 2, 10)], [0, 100, 3, 110]),
        # At 2 s job 2 would delay the head; at 3 s the head has to wait until 30 s.
        (
            {1: [(99, -1)], 3: [(10, -6), (30, 6)]},
            [(0, 10, 6, 10), (1, 10, 8, 10), (1, 15, 2, 15)],
            [0, 18, 3, 28],
        ),
    ],
    ids=["a constraint ends", "a constraint begins"],
)  # each job's submission is in seconds after the one before it
def test_all_are_tried_again_when_what_is_known_ahead_changes(
    foretold, jobs, starts, simulate, job_columns
):
    class Foretold(OrderedPolicy):
        def schedule(self, state):
            steps = foretold.get(state.now, [])
            state._outlook.known_steps = [CapacityStep(t, 0, (n,)) for t, n in steps]
            state.constrained = bool(steps)
            yield from super().schedule(state)

    jobs = [*jobs, (1, 10, 8, 10)]  # it does not start, but makes the policy look again
    assert simulate(Foretold(FCFS(), Easy()), job_columns(jobs), 8).starts == starts


@pytest.mark.parametrize("more_ahead", [False, True])
def test_an_overdrawn_machine_hides_nothing_of_others(more_ahead, simulate, job_columns):
    """The first job runs on into maintenance: its machine has 2 less than nothing."""
    windows = [Maintenance(4, 9, machine=0, amount=(2.0,))]
    if more_ahead:  # then EASY plans in a profile
        windows.append(Maintenance(500, 501, machine=0, amount=(2.0,)))
    cluster = Cluster(("processors",), ("a", "b", "c"), [[2.0]] * 3, maintenance=tuple(windows))
    jobs = [(0, 20, 2, 3), (0, 30, 2, 30), (5, 5, 4, 5), (0, 1, 1, 1)]
    starts = simulate(composed("fcfs", easy=True), job_columns(jobs), cluster).starts
    assert starts[:2] == [0, 0]
    assert starts[3] == 5  # beside the head, on the machine that has room
