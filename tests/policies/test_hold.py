"""Holding long jobs back: by hand, and as EASY where nothing is held."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import ScenarioError
from simkit.policies.easy import Easy, Hold
from simkit.policies.orderings import FCFS, SAF, SJF
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import Cluster, Maintenance


def starts(simulate, jobs, processors=10, order=FCFS, **arguments):
    rule = Hold(**{"longer_than": 60, "keep_free": 0.3, **arguments})
    return simulate(rule.compose(order()), jobs, processors).starts


def test_a_long_job_leaves_room_while_anything_runs(simulate, job_columns):
    # Job 1 would leave 2 of 10 processors free, and 3 must be: it waits until nothing runs.
    jobs = job_columns([(0, 50, 2, 50), (0, 100, 6, 100), (5, 10, 4, 10)])
    assert starts(simulate, jobs) == [0, 50, 5]
    assert starts(simulate, jobs, keep_free=0.2) == [0, 0, 50]


def test_a_held_job_is_no_head(simulate, job_columns):
    # EASY would keep 60..160 for job 1, and job 2 of 3 processors would not start before 160.
    jobs = job_columns([(0, 60, 5, 60), (1, 100, 10, 100), (1, 60, 3, 60), (1, 60, 1, 60)])
    assert starts(simulate, jobs) == [0, 63, 2, 3]
    easy = simulate(OrderedPolicy(FCFS(), Easy()), jobs, 10).starts
    assert easy == [0, 60, 160, 160]


def test_a_share_is_a_whole_number_of_processors_where_it_should_be(simulate, job_columns):
    jobs = job_columns([(0, 50, 5, 50), (0, 100, 40, 100)])  # 0.55 * 100 is above 55 in floats
    assert starts(simulate, jobs, 100, keep_free=0.55) == [0, 0]


def test_without_backfilling_the_head_blocks_but_held_jobs_do_not(simulate, job_columns):
    jobs = job_columns([(0, 50, 5, 50), (0, 100, 5, 100), (0, 20, 6, 20), (0, 20, 1, 20)])
    # Job 1 is held at 0, so that job 2 is the head; job 3 may only start as backfill.
    assert starts(simulate, jobs) == [0, 50, 150, 0]
    assert starts(simulate, jobs, backfilling=False) == [0, 50, 150, 150]


def test_the_request_counts_and_else_the_estimate(simulate, job_columns):
    jobs = job_columns([(0, 50, 2, 50), (0, 10, 6, 100), (0, 100, 1, 10)])
    assert starts(simulate, jobs) == [0, 50, 0]
    jobs = job_columns([(0, 50, 2, 50), (0, 100, 6, float("nan"))])
    assert starts(simulate, jobs) == [0, 50]


@pytest.mark.parametrize("keep_free", [-0.1, 1.0, float("nan"), "much"])
def test_wrong_shares_are_refused(keep_free):
    with pytest.raises(ScenarioError, match="hold: keep_free is"):
        Hold(keep_free=keep_free)


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(1, 4), st.integers(1, 9)),
    min_size=1,
    max_size=25,
)
MAINTAINED = Cluster.pool({"processors": 4.0}, maintenance=(Maintenance(10, 25, 0, (2,)),))


@given(rows=ROWS, order=st.sampled_from([FCFS, SJF, SAF]), cluster=st.sampled_from([4, MAINTAINED]))
def test_as_easy_if_no_job_is_long(rows, order, cluster, simulate, job_columns):
    jobs = job_columns(rows)
    easy = simulate(OrderedPolicy(order(), Easy()), jobs, cluster).starts
    assert starts(simulate, jobs, cluster, order) == easy


@given(rows=ROWS, order=st.sampled_from([FCFS, SJF, SAF]), backfilling=st.booleans())
def test_no_long_job_starts_where_too_little_stays_free(
    rows, order, backfilling, simulate, job_columns
):
    jobs = job_columns(rows)
    rule = Hold(longer_than=4, keep_free=0.4, backfilling=backfilling)
    run = simulate(rule.compose(order()), jobs, 4)
    begin = run.starts
    size, length = jobs["processors"], jobs["run_time_s"]
    for job, requested in enumerate(jobs["requested_time_s"]):
        at = begin[job]
        others = [
            size[other]
            for other in range(len(rows))
            if other != job and begin[other] < at < begin[other] + length[other]
        ]
        if requested > 4 and others:
            assert 4 - sum(others) - size[job] >= 0.4 * 4
