"""The bounds on times: the best of all schedules of a few jobs is never below them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from simkit import carry_out, load_scenario, prepare
from simkit.analysis.time_bound import (
    METRICS,
    EndCosts,
    TimedJobs,
    bound_by_prices,
    bounds_of,
    run_one_at_a_time,
    time_bound,
)
from simkit.errors import ScenarioError
from simkit.workload import Workload

CAPACITY = 4.0
TAU = 2.0


def timed(rows):
    """Make jobs of (submit, run time, units of each resource …)."""
    table = np.array(rows, dtype=float)
    submit, run, request = table[:, 0], table[:, 1], table[:, 2:]
    half = np.repeat(run[:, None] / 2, request.shape[1], 1)
    whole = np.ones(len(table), np.bool_)
    return TimedJobs(submit, submit, run, request, request, request * run[:, None], half, whole)


def schedules(jobs, capacity):
    """Yield the ends of all schedules in which no job could begin earlier by itself."""
    span = int(jobs.ready_s.max() + jobs.run_time_s.sum()) + 1
    for order in permutations(range(len(jobs))):
        free, ends = np.tile(capacity, (span, 1)), np.zeros(len(jobs))
        for job in order:
            start, run = int(jobs.ready_s[job]), int(jobs.run_time_s[job])
            while (free[start : start + run] < jobs.request[job]).any():
                start += 1
            free[start : start + run] -= jobs.request[job]
            ends[job] = start + run
        yield ends


def measured(jobs, ends, metric):
    """Return a metric of a schedule, by its definition."""
    turnaround, run = ends - jobs.submit_time_s, jobs.run_time_s
    if metric == "makespan_s":
        return ends.max() - jobs.submit_time_s.min()
    if metric == "turnaround_time_s":
        return turnaround.mean()
    if metric == "wait_time_s":
        return (turnaround - run).mean()
    if metric == "slowdown":
        return (turnaround / run)[run > 0].mean()
    below = np.maximum(run, TAU)
    if metric == "bounded_slowdown":
        return np.maximum(turnaround / below, 1.0).mean()
    wide = jobs.request[:, 0] > 0
    return np.maximum(turnaround / below / np.where(wide, jobs.request[:, 0], 1.0), 1.0)[
        wide
    ].mean()


def check(seeds):
    closest = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        count, resources = int(rng.integers(1, 6)), int(rng.integers(1, 3))
        request = rng.integers(0, 5, (count, resources))
        request[(request == 0).all(axis=1), 0] = 1
        submit, run = np.sort(rng.integers(0, 9, count)), rng.integers(1, 8, count)
        jobs = timed(np.column_stack((submit, run, request)))
        capacity = np.full(resources, CAPACITY)
        ends = list(schedules(jobs, capacity))
        for metric in METRICS:
            if metric.startswith("per_processor") and not request[:, 0].any():
                continue
            best = min(measured(jobs, each, metric) for each in ends)
            bound = time_bound(jobs, capacity, metric, tau=TAU)
            assert bound.value <= best * (1 + 1e-9) + 1e-9, (seed, metric, bound, best)
            closest.append(bound.value / best if best else 1.0)
    return closest


def test_no_schedule_of_a_few_jobs_is_below_a_bound():
    closest = check(range(50))
    assert np.mean(closest) > 0.9  # and the bounds are not idle


@pytest.mark.slow
def test_no_schedule_of_500_cases_is_below_a_bound():
    check(range(500))


def test_by_hand_the_shortest_goes_first_on_one_machine():
    # 1 machine: 4 s at 0, and 1 s at 1, which interrupts it: ends 5 and 2
    ends, moments = run_one_at_a_time(np.array([0.0, 1.0]), np.array([4.0, 1.0]))
    assert ends.tolist() == [5.0, 2.0]
    assert moments.tolist() == [(0.5 * 1 + 3.5 * 3) / 4, 1.5]


def test_jobs_that_take_all_processors_are_bounded_exactly():
    jobs = timed([(0, 4, 4), (0, 2, 4), (0, 1, 4)])
    bound = time_bound(jobs, [CAPACITY], "turnaround_time_s")
    assert bound.value == pytest.approx((1 + 3 + 7) / 3, rel=0.02)
    many = time_bound(jobs, [CAPACITY], "turnaround_time_s", few=0)
    assert many.value == pytest.approx((1 + 3 + 7) / 3)


def test_a_mean_slowdown_of_full_width_is_bounded_by_mean_work():
    jobs = timed([(0, 4, 4), (0, 1, 4)])
    bound = time_bound(jobs, [CAPACITY], "slowdown", few=0)
    assert bound.method == "mean work"
    assert bound.value == pytest.approx((1 + 5 / 4) / 2)


def test_prices_see_that_two_wide_jobs_cannot_run_side_by_side():
    jobs = timed([(0, 4, 3), (0, 4, 3)])
    costs = EndCosts(np.ones(2), jobs.submit_time_s, np.zeros(2))
    prices = bound_by_prices(
        jobs.ready_s, jobs.run_time_s, jobs.request, costs, np.array([CAPACITY])
    )
    assert 8 < prices <= 12  # 4 + 8; alone, both would end at 4
    # what is asked for in pieces is more than the cluster's share, so that the others say less
    assert time_bound(jobs, [CAPACITY], few=0).value == pytest.approx((2 + 8 / 2 + 4) / 2)


def test_parts_of_a_long_log_are_bounded_one_by_one(monkeypatch):
    rows = [(2.0 * k, 3, 3) for k in range(30)]
    whole = time_bound(timed(rows), [CAPACITY]).value
    monkeypatch.setattr("simkit.analysis.time_bound.PART", 10)
    parts = time_bound(timed(rows), [CAPACITY]).value
    best = np.mean([3.0 * (k + 1) - 2.0 * k for k in range(30)])
    assert 3.0 < parts < whole <= best + 1e-9


def workload(**columns):
    base = {
        "resources": ("processors",),
        "job_id": np.array([1, 2]),
        "submit_time_s": np.array([0.0, 1.0]),
        "first_task": np.array([0, 1, 3]),
        "task_id": np.array([1, 2, 3]),
        "instances": np.array([1, 2, 1]),
        "request": np.array([[2.0], [1.0], [1.0]]),
        "run_time_s": np.array([8.0, 4.0, 2.0]),
        "requested_time_s": np.array([5.0, np.nan, np.inf]),
        "gang": np.array([True, False, True]),
    }
    return Workload(**{**base, **columns})


def test_jobs_of_several_tasks_and_killed_ones():
    jobs = TimedJobs.of(workload())
    assert jobs.run_time_s.tolist() == [8.0, 4.0]
    assert jobs.work.tolist() == [[16.0], [10.0]]
    assert jobs.half_s.tolist() == [[4.0], [(8 * 2 + 2 * 1) / 10]]
    assert jobs.whole.tolist() == [True, False]
    killed = TimedJobs.of(workload(), kill=True)
    assert killed.run_time_s.tolist() == [5.0, 4.0]
    assert killed.work.tolist() == [[10.0], [10.0]]
    # the second job may have begun with a part of it: nothing is known of its wait
    assert time_bound(jobs, [2.0], "wait_time_s").value == 0.0


def test_a_dependency_makes_the_critical_path_longer():
    depends = workload(first_parent=np.array([0, 0, 0, 1]), parent=np.array([1]))
    assert TimedJobs.of(depends).run_time_s.tolist() == [8.0, 6.0]


def test_what_depends_on_a_killed_task_is_never_run():
    depends = workload(
        first_task=np.array([0, 2, 3]), first_parent=np.array([0, 0, 1, 1]), parent=np.array([0])
    )
    killed = TimedJobs.of(depends, kill=True)  # the first task at its limit of 5 s
    assert killed.run_time_s.tolist() == [5.0, 2.0]
    assert killed.work.tolist() == [[10.0], [2.0]]


def test_of_a_killed_bag_one_instance_is_sure_to_run_until_the_limit():
    bag = workload(
        requested_time_s=np.array([np.nan, 3.0, np.nan]),
        instance_run_time_s=np.array([8.0, 1.0, 7.0, 2.0]),
    )
    killed = TimedJobs.of(bag, kill=True)
    assert killed.run_time_s.tolist() == [8.0, 3.0]
    assert killed.work.tolist() == [[16.0], [3.0 + 2.0]]


def test_a_released_job_counts_from_its_submission():
    jobs = TimedJobs.of(workload(release_time_s=np.array([10.0, 0.0])))
    assert jobs.ready_s.tolist() == [10.0, 1.0]
    assert time_bound(jobs, [4.0]).value == pytest.approx((18 + 4) / 2)


def test_an_empty_workload_and_wrong_questions():
    empty = timed(np.zeros((0, 3)))
    found = [time_bound(empty, [1.0], metric) for metric in METRICS]
    assert {(one.value, one.method, one.jobs) for one in found} == {(None, "no job", 0)}
    with pytest.raises(ScenarioError, match="did you mean 'wait_time_s'"):
        time_bound(empty, [1.0], "wait_time")


@pytest.mark.parametrize("metric", METRICS)
def test_jobs_that_can_never_run_are_left_out_and_counted(metric):
    both = time_bound(timed([(0, 1, 5), (0, 1, 4)]), [CAPACITY], metric)
    alone = time_bound(timed([(0, 1, 4)]), [CAPACITY], metric)
    assert (both.value, both.jobs, both.left_out) == (alone.value, 1, 1)


def test_a_cluster_with_a_resource_that_no_job_asks_for():
    machines = [{"count": 32, "processors": 8, "gpus": 4}]
    few = {"workload.window.jobs": "0..39"}
    more = load_scenario("quickstart", overrides=few | {"cluster.machines": machines})
    same = load_scenario("quickstart", overrides=few | {"cluster": {"processors": 256}})
    assert bounds_of(prepare(more)) == bounds_of(prepare(same))


def test_waits_of_jobs_that_may_be_interrupted_have_no_bound():
    machines = {
        "cluster.failures": {"mtbf": "10d", "mttr": "1h"},
        "workload.window.jobs": "0..39",
    }
    found = bounds_of(prepare(load_scenario("quickstart", overrides=machines)))
    unknown = {one.metric for one in found if one.method == "interrupted"}
    assert unknown == {"wait_time_s", "bounded_slowdown", "per_processor_bounded_slowdown"}


@pytest.mark.parametrize(("order", "backfill"), [("fcfs", "easy"), ("saf", "conservative")])
def test_runs_of_the_quickstart_are_above_the_bounds(order, backfill):
    """A second implementation: what the engine measures is never below."""
    policy = {"policy.order": order, "policy.backfill": backfill, "workload.window.jobs": "0..149"}
    experiment = prepare(load_scenario("quickstart", overrides=policy))
    metrics = carry_out(experiment).metrics
    for bound in bounds_of(experiment):
        facts = metrics[bound.metric]
        assert 0 < bound.value <= facts.get("mean", facts.get("value")) * (1 + 1e-6), bound
