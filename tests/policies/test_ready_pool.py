"""The ready-pool policies: each task in order gets its earliest slot within the horizon."""

from __future__ import annotations

import plain_conservative
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import ScenarioError
from simkit.policies.orderings import (
    FCFS,
    HRRN,
    SJF,
    HighestValue,
    LeastSlack,
    QoS,
    Random,
    ValueDensity,
)
from simkit.policies.ready_pool import ReadyPool, ReadyPoolPolicy
from simkit.policy import Suspend
from simkit.policy.task import Allocation, Task
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import CapacityStep, Cluster, Maintenance

ORDERS = (FCFS, SJF, Random, QoS, HighestValue, ValueDensity, LeastSlack, HRRN)


def pool(slots: int) -> Rules:
    return Rules(admission=AdmissionRule(slots=slots))


SCHEDULES = [
    # (gap, run time, processors) of each job, processors, slots of the ready pool, order -> starts
    # The second does not fit beside the first, the third fits into the gap before it.
    ([(0, 10, 3), (0, 5, 2), (0, 10, 1)], 4, 5, FCFS, [0, 10, 0]),
    # Nothing is moved to make place for a shorter one that comes later.
    ([(0, 10, 4), (0, 9, 4), (1, 1, 4)], 4, 5, SJF, [9, 0, 19]),
    # A pool of one task: the first in line gets the slot, whatever the order.
    ([(0, 10, 4), (0, 9, 4), (0, 1, 4)], 4, 1, SJF, [0, 10, 19]),
    # A pool of two: the shorter of the two, then the next comes into view.
    ([(0, 10, 4), (0, 9, 4), (0, 1, 4)], 4, 2, SJF, [10, 0, 9]),
]


@pytest.mark.parametrize(("jobs", "processors", "slots", "order", "starts"), SCHEDULES)
def test_earliest_slot_in_order(jobs, processors, slots, order, starts, simulate, job_columns):
    columns = job_columns([(gap, run, size, run) for gap, run, size in jobs])
    run = simulate(ReadyPoolPolicy(order()), columns, processors, rules=pool(slots))
    assert run.starts == starts


JOBS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 8), st.integers(1, 6)), min_size=1, max_size=20
)


@given(JOBS)
def test_first_come_equals_a_plain_replay(simulate, job_columns, jobs):
    rows = [(gap, run, size, run) for gap, run, size in jobs]
    starts = simulate(ReadyPoolPolicy(FCFS()), job_columns(rows), 6).starts
    assert starts == plain_conservative.replay(6, rows)


@given(JOBS, st.sampled_from(ORDERS), st.sampled_from([1, 3, 8]), st.booleans())
def test_the_kept_plan_is_the_one_made_anew(simulate, job_columns, jobs, order, slots, over):
    """A policy whose plan is void at every decision schedules the same."""

    class Forgetful(ReadyPoolPolicy):
        def schedule(self, state):
            self.plan._made = False
            yield from super().schedule(state)

    # Estimates above the truth free resources early; below it, tasks overrun.
    columns = job_columns([(gap, run, size, run * 2 if over else run) for gap, run, size in jobs])
    cluster = Cluster.pool(
        {"processors": 6}, maintenance=(Maintenance(20, 35, 0, (4,), "suspend"),)
    )
    kept, anew = (
        simulate(make(order(), 30.0), columns, cluster, rules=pool(slots))
        for make in (ReadyPoolPolicy, Forgetful)
    )
    assert kept["jobs"]["status"].to_list() == ["finished"] * len(jobs)
    assert kept.starts == anew.starts


def test_a_decision_is_asked_for_also_behind_one_that_changes_nothing(simulate, job_columns):
    # The first ends at 6 s, not 40 s. Until then a decision at 10 s was wanted; now the last of
    # the four, whose slot begins at 42 s, comes within the horizon of 30 s at 12 s.
    columns = job_columns([(0, 6, 4, 40), (0, 24, 4, 24), (0, 12, 4, 12), (0, 5, 4, 5)])
    run = simulate(ReadyPoolPolicy(FCFS(), 30.0), columns, 4)
    assert run.starts == [0, 6, 30, 42]
    reserved = run["events"].filter(pl.col("kind") == "reserved")
    assert dict(reserved.select("job_id", "time_s").rows()) == {2: 6.0, 3: 12.0}


def test_a_slot_beyond_the_horizon_is_not_taken(simulate, job_columns):
    # All need the whole pool; the horizon lets the second be scheduled, not the third, which so
    # stays in the ready pool until a shorter one that comes later has overtaken it.
    columns = job_columns([(0, 50, 4, 50), (0, 50, 4, 50), (0, 50, 4, 50), (1, 7, 4, 7)])
    run = simulate(ReadyPoolPolicy(SJF(), 60.0), columns, 4)
    assert run.starts == [0, 50, 107, 100]
    reserved = run["events"].filter(pl.col("kind") == "reserved")
    times = dict(reserved.select("job_id", "time_s").rows())
    assert times == {1: 0.0, 3: 40.0, 2: 47.0}


def test_plans_around_a_fall_of_capacity_that_is_foreseen(simulate, job_columns):
    dip = Maintenance(10, 30, 0, (4,))
    cluster = Cluster.pool({"processors": 4}, maintenance=(dip,))
    # What would run into the dip waits until it is over; what ends before it starts.
    columns = job_columns([(0, 11, 4, 11), (0, 10, 4, 10), (0, 5, 4, 5)])
    assert simulate(ReadyPoolPolicy(FCFS()), columns, cluster).starts == [30, 0, 41]


def test_a_scheduled_task_that_does_not_fit_comes_back(simulate, job_columns):
    # The first overruns its estimate of 5 s by 10 s: the second is due at 5 s, in vain.
    columns = job_columns([(0, 15, 4, 5), (0, 3, 4, 3), (0, 2, 1, 2)])
    run = simulate(ReadyPoolPolicy(FCFS()), columns, 4)
    assert run.starts == [0, 15, 18]
    assert (run["events"]["kind"] == "reservation_failed").sum() == 2


def test_suspended_tasks_come_before_the_ready_pool(simulate, job_columns):
    """Two tasks are stopped; whatever arrives afterwards leaves the room for them."""

    class Stops(ReadyPoolPolicy):
        def schedule(self, state):
            yield from super().schedule(state)
            if state.now == 5:
                for allocation in tuple(state.running):
                    yield Suspend(allocation)

    columns = job_columns([(0, 20, 3, 20), (0, 20, 1, 20), (5, 8, 4, 8), (1, 8, 4, 8)])
    run = simulate(Stops(FCFS()), columns, 4)
    jobs = run["jobs"].sort("job_id")
    # The third was scheduled to follow the first two at 20 s; they run on at 6 s, to 21 s.
    assert jobs["end_time_s"].to_list()[:2] == [21, 21]
    assert jobs["suspended_time_s"].to_list()[:2] == [1, 1]
    assert (jobs["start_time_s"].to_numpy()[2:] >= 21).all()


VICTIMS = [
    # order, which of the running tasks is stopped first
    (QoS, "low qos"),
    (HighestValue, "low value"),
    (SJF, "ends last"),
    (FCFS, "came last"),
    (LeastSlack, "low density"),  # by value density, where the order changes with time
]


@pytest.mark.parametrize(("order", "first"), VICTIMS)
def test_what_would_start_last_is_stopped_first(order, first):
    def running(rank, submit, estimate, end, qos, worth, size):
        task = Task(rank, rank, submit, (1.0,), size, estimate_s=estimate)
        task.qos, task.value_per_s = qos, worth
        return Allocation(rank, task, ((0, size),), size, 0.0, end)

    allocations = {
        # rank, submit, estimate, expected end, qos, value per second, processors
        "low qos": running(1, 1.0, 50.0, 60.0, 0.1, 9.0, 2),
        "low value": running(2, 2.0, 5.0, 50.0, 0.9, 1.0, 2),
        "ends last": running(3, 3.0, 20.0, 90.0, 0.8, 9.0, 2),
        "came last": running(4, 5.0, 30.0, 70.0, 0.7, 9.0, 2),
        "low density": running(5, 4.0, 40.0, 55.0, 0.6, 2.0, 40),
    }

    class FakeState:
        now = 40.0
        running = allocations.values()

    victims = ReadyPoolPolicy(order()).victims(FakeState())
    assert victims[0] is allocations[first]
    assert sorted(v.rank for v in victims) == [1, 2, 3, 4, 5]


def test_a_new_forecast_is_planned_with(simulate, job_columns):
    """What is foreseen changes; the policy plans with what it was told last."""

    class Foretold(ReadyPoolPolicy):
        def schedule(self, state):
            # Until 10 s, no more capacity is foreseen from 30 s on; then it turns out otherwise.
            foretold = [CapacityStep(30.0, 0, (-4.0,))] if state.now < 10 else []
            state._outlook.known_steps = foretold
            state.constrained = bool(foretold)
            yield from super().schedule(state)

    columns = job_columns([(0, 40, 4, 40), (10, 1, 1, 1)])
    assert simulate(Foretold(FCFS()), columns, 4).starts == [10, 50]


@pytest.mark.parametrize("horizon", [-1, "soon", float("inf")])
def test_refuses_a_horizon_that_is_none(horizon):
    with pytest.raises(ScenarioError, match="backfill ready-pool: horizon"):
        ReadyPool(horizon)


def test_names_all_wrong_arguments_at_once():
    with pytest.raises(ScenarioError) as caught:
        ReadyPool("soon", "largest", -1.0, 2.0)
    assert [text.split(":")[1].split()[0] for text in caught.value.problems] == [
        "horizon", "choose", "per_hour", "least_qos",
    ]  # fmt: skip


def test_left_over_packs_what_fills_the_pool(simulate, job_columns):
    """Of 1, 3 and 4 processors the last leaves nothing over of four; the order settles ties."""
    columns = job_columns([(0, 10, 1, 10), (0, 10, 3, 10), (0, 10, 4, 10), (0, 10, 4, 10)])
    policy = ReadyPool(0, "left-over").compose(FCFS())
    assert simulate(policy, columns, 4).starts == [20, 20, 0, 10]


def test_left_over_prefers_a_place_soon(simulate, job_columns):
    """A quarter of the pool counts as much as five hours."""
    hours = [(0, 2, 3, 2), (0, 9, 1, 9), (0, 9, 2, 9)]
    columns = job_columns([(t * 3600, run * 3600, n, e * 3600) for t, run, n, e in hours])
    policy = ReadyPool("12h", "left-over").compose(FCFS())
    assert [start / 3600 for start in simulate(policy, columns, 4).starts] == [0, 0, 2]


def test_what_is_of_too_little_quality_is_withheld(simulate, job_columns):
    with_qos = job_columns([(0, 10, 4, 10), (0, 10, 4, 10)]) | {"qos": [0.2, 0.9]}
    policy = ReadyPool(0, least_qos=0.5).compose(FCFS())
    assert simulate(policy, with_qos, 4).starts[1] == 0
