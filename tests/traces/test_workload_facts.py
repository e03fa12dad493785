"""Facts of a workload of tasks: quantiles, rates and the busiest hour."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import a_bag, make_jobs
from hypothesis import given
from hypothesis import strategies as st

from simkit.workload.trace import QUANTILES, offered_load, spread, workload_facts

THREE = make_jobs(
    (-10, a_bag(1, 10)),
    (3599, a_bag(2, 20, request=(0.5,)), a_bag(3, 30, request=(0.5,))),
    (7200, a_bag(10, 5, request=(2,))),
    resources=("cpu",),
)


def test_counts_and_span():
    facts = workload_facts(THREE)
    assert (facts["jobs"], facts["tasks"], facts["instances"]) == (3, 4, 16)
    assert (facts["first_submit_s"], facts["last_submit_s"], facts["span_s"]) == (-10, 7200, 7210)
    assert facts["arrivals_per_h"]["instances"] == pytest.approx(16 * 3600 / 7210)
    assert facts["tasks_per_job"]["max"] == 2
    assert "dependencies" not in facts


def test_sizes_count_every_instance_and_every_task_once():
    facts = workload_facts(THREE)
    assert facts["cpu_per_instance"]["mean"] == pytest.approx((1 + 5 * 0.5 + 10 * 2) / 16)
    assert facts["cpu_per_instance"]["p50"] == 2
    assert facts["cpu_per_instance_by_task"]["mean"] == 1
    assert facts["run_time_s"]["p50"] == 5
    assert facts["run_time_s_by_task"]["max"] == 30
    assert facts["work"] == {"cpu": 1 * 10 + 2 * 0.5 * 20 + 3 * 0.5 * 30 + 10 * 2 * 5}


def test_run_times_of_single_instances_count_where_they_are_known():
    own = make_jobs((0, a_bag(3, 20)), instance_run_time_s=[10.0, 20.0, 30.0])
    assert workload_facts(own)["run_time_s"]["max"] == 30


@pytest.mark.parametrize(
    ("submit", "start", "jobs"),
    [
        ([0, 3599, 3600], 0, 2),  # an hour ends before the next begins
        ([-1, -1, 0], -3600, 2),  # before the trace's zero
        ([0, 3600], 0, 1),  # of equals, the first
    ],
)
def test_the_busiest_hour(submit, start, jobs):
    facts = workload_facts(make_jobs(*((at, a_bag(1, 1)) for at in submit)))
    assert facts["busiest_hour"] == {"start_s": start, "jobs": jobs}


def test_offered_load_is_against_known_capacities_over_the_span():
    assert offered_load(THREE, {"cpu": 2.0, "disk": 1.0}) == pytest.approx(
        {"cpu": 175 / (2 * 7210)}
    )
    assert offered_load(THREE, {"cpu": 0.0}) == {}
    at_once = make_jobs((5, a_bag(1, 1)), (5, a_bag(1, 1)), resources=("cpu",))
    assert offered_load(at_once, {"cpu": 2.0}) == {}
    assert workload_facts(at_once)["arrivals_per_h"]["jobs"] is None


values = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 6)), min_size=1, max_size=40)


@given(values)
def test_weights_are_repetitions(pairs):
    numbers, weights = (np.array(column, float) for column in zip(*pairs, strict=True))
    found = spread(numbers, weights)
    repeated = np.repeat(numbers, weights.astype(int))
    assert found["mean"] == pytest.approx(repeated.mean())
    for name, level in QUANTILES.items():
        assert found[name] == np.quantile(repeated, level, method="inverted_cdf")
