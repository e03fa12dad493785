"""The order of simultaneous events, a test for each pair.

Completions, then capacity changes and power, then reservations due, then arrivals, then wake-ups and the
scheduler's ticks, then ONE decision. Each test makes two things happen at t = 10 and compares the
whole log of what was recorded with the one that only this order can give.
"""

from __future__ import annotations

import pytest
from engine_runs import a_gang, greedy, make_jobs, pool_away, rigid, simulate

from simkit.policy import Cancel, Place, WakeAt
from simkit.policy.estimates import UserMean
from simkit.power.facts import Supply
from simkit.power.machine_model import PowerModel
from simkit.power.signal import Steps
from simkit.power.site import Site, Source
from simkit.rules import AdmissionRule, Rules

NO_BACKLOG = Rules(admission=AdmissionRule(slots=1, backlog=0))
JOB_LOG = "job_id start_time_s end_time_s status"
EVENT_LOG = "time_s kind job_id"


def reserve(reserved: int, start: float, greedy):
    """Return a policy that reserves a later start for one task and starts the others."""

    def schedule(state):
        for task in state.queue:
            if task.index == reserved and state.now < start:
                yield Place(task, ((0, task.instances),), start)
        yield from greedy(state)

    return schedule


def logged(log, schedule):
    """Return a policy that notes each decision: (now, arrived, ended, free processors)."""

    def schedule_and_log(state):
        arrived = [task.index for task in state.arrived]
        ended = [allocation.task.index for allocation in state.ended]
        log.append((state.now, arrived, ended, float(state.free[0, 0])))
        yield from schedule(state)

    return schedule_and_log


def test_completion_before_capacity():
    # The machine goes away at the instant at which its job ends: the job has ended.
    run = simulate(greedy, rigid((0, 10, 4)), pool_away((10, 20, 4, "requeue")))
    assert run.rows("jobs", JOB_LOG) == [(0, 0, 10, "finished")]
    assert run.rows("events", EVENT_LOG) == [(10, "capacity", None), (20, "capacity", None)]


def test_completion_before_reservation():
    # What the reservation needs is given back at the instant at which it falls due.
    run = simulate(reserve(1, 10, greedy), rigid((0, 10, 4), (0, 5, 4)))
    assert run.rows("jobs", JOB_LOG) == [(0, 0, 10, "finished"), (1, 10, 15, "finished")]
    assert run.rows("events", EVENT_LOG) == [(0, "reserved", 1)]


def test_completion_before_arrival():
    # The estimate of a job that arrives knows what ends at that instant: (10 + 6) / 2.
    load = make_jobs(
        (0, a_gang(1, 6, 100)), (0, a_gang(1, 10, 100)), (10, a_gang(1, 1, 100)), user=[7, 7, 7]
    )
    run = simulate(greedy, load, predictor=UserMean())
    assert run.rows("jobs", "job_id estimate_s") == [(0, 100), (1, 100), (2, 8)]


def test_capacity_before_reservation_when_it_returns():
    run = simulate(reserve(0, 10, greedy), rigid((0, 5, 4)), pool_away((5, 10, 1, "drain")))
    assert run.rows("jobs", JOB_LOG) == [(0, 10, 15, "finished")]
    assert run.rows("events", EVENT_LOG) == [
        (0, "reserved", 0), (5, "capacity", None), (10, "capacity", None),
    ]  # fmt: skip


def test_capacity_before_reservation_when_it_goes():
    run = simulate(reserve(0, 10, greedy), rigid((0, 5, 4)), pool_away((10, 20, 1, "drain")))
    assert run.rows("jobs", JOB_LOG) == [(0, 20, 25, "finished")]
    assert run.rows("events", EVENT_LOG) == [
        (0, "reserved", 0), (10, "capacity", None), (10, "reservation_failed", 0),
        (20, "capacity", None),
    ]  # fmt: skip


def test_capacity_before_arrival():
    # What has to start over takes the only slot; the job that arrives finds it taken.
    cluster = pool_away((10, 20, 4, "requeue"))
    run = simulate(greedy, rigid((0, 15, 4), (10, 1, 1)), cluster, rules=NO_BACKLOG)
    assert run.rows("jobs", JOB_LOG) == [(1, None, None, "rejected"), (0, 0, 35, "finished")]
    assert run.rows("events", EVENT_LOG) == [
        (10, "capacity", None), (10, "lost", 0), (10, "rejected", 1), (20, "capacity", None),
    ]  # fmt: skip


def test_reservation_before_arrival():
    # The reservation that fails takes a slot again; the job that arrives finds none.
    rules = Rules(admission=AdmissionRule(slots=2, backlog=0))
    load = rigid((0, 20, 4), (0, 5, 4), (5, 1, 2), (10, 1, 1))
    run = simulate(reserve(1, 10, greedy), load, rules=rules)
    assert run.rows("events", EVENT_LOG) == [
        (0, "reserved", 1), (10, "reservation_failed", 1), (10, "rejected", 3),
    ]  # fmt: skip


def test_one_decision_at_an_instant_sees_all_that_happened():
    # At 10: two completions, a capacity change, a reservation, two arrivals and two wake-ups.
    log: list[object] = []

    def schedule(state):
        if state.now == 0:
            yield WakeAt(10.0)
            yield WakeAt(10.0)
        yield from reserve(2, 10, greedy)(state)

    load = rigid((0, 10, 2), (0, 10, 2), (0, 5, 1), (10, 5, 1), (10, 5, 1))
    simulate(logged(log, schedule), load, pool_away((10, 20, 1, "drain")))
    assert log == [
        (0, [0, 1, 2], [], 4),
        (10, [3, 4], [0, 1], 2),  # four, less one away, less the reserved task
        (15, [], [2, 3, 4], 3),
        (20, [], [], 4),
    ]


def test_ties_of_one_kind_go_by_age():
    # completions in order of start, arrivals in order of job id
    log: list[object] = []
    simulate(logged(log, greedy), rigid((0, 10, 1), (0, 8, 1), (2, 8, 1), (10, 1, 1), (10, 1, 1)))
    assert log == [
        (0, [0, 1], [], 4), (2, [2], [], 2), (8, [], [1], 2), (10, [3, 4], [0, 2], 4),
        (11, [], [3, 4], 4),
    ]  # fmt: skip


def test_a_run_time_of_zero_makes_a_further_round():
    log: list[object] = []
    run = simulate(logged(log, greedy), rigid((0, 0, 4), (0, 0, 4), (0, 3, 4)))
    assert log == [(0, [0, 1, 2], [], 4), (0, [], [0], 4), (0, [], [1], 4), (3, [], [2], 4)]
    assert run.rows("jobs", JOB_LOG) == [
        (0, 0, 0, "finished"), (1, 0, 0, "finished"), (2, 0, 3, "finished"),
    ]  # fmt: skip


def test_nothing_is_decided_when_nothing_changes():
    # A cancelled reservation's instant passes without a decision.
    log: list[object] = []

    def schedule(state):
        for task in state.queue:
            if state.now == 0 and task not in state.reservations:
                yield Place(task, ((0, 1),), 7.0)
                yield Cancel(task)
                yield Place(task, ((0, 1),))

    simulate(logged(log, schedule), rigid((0, 10, 1)))
    assert log == [(0, [0], [], 4), (10, [], [0], 4)]


def test_sums_of_times_meet():
    # 0.1 + 0.2 is not 0.3 in doubles; on the grid of 2⁻²⁰ s the end and the arrival are one instant.
    log: list[object] = []
    simulate(logged(log, greedy), rigid((0, 0.125, 4), (0, 0.2, 4), (0.325, 1, 4)))
    assert [row[1:3] for row in log] == [([0, 1], []), ([], [0]), ([2], [1]), ([], [2])]


WAKES = [
    # what happens at 10, as a wake-up does: jobs, windows, period, decisions as they are logged
    ("completion", [(0, 10, 4)], [], None, [(0, [0], [], 4), (10, [], [0], 4)]),
    # without the wake-up there would be no further decision before 20
    ("completion, periodic", [(0, 10, 4)], [], 5.0, [(0, [0], [], 4), (10, [], [0], 4)]),
    ("capacity", [(0, 1, 1)], [(10, 20, 3, "drain")], None,
     [(0, [0], [], 4), (1, [], [0], 4), (10, [], [], 1), (20, [], [], 4)]),
    ("reservation", [(0, 5, 3)], [], None, [(0, [0], [], 4), (10, [], [], 1), (15, [], [0], 4)]),
    ("arrival", [(0, 1, 1), (10, 1, 1)], [], None,
     [(0, [0], [], 4), (1, [], [0], 4), (10, [1], [], 4), (11, [], [1], 4)]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "jobs", "windows", "every", "decisions"), WAKES)
def test_all_before_wake(what, jobs, windows, every, decisions):
    log: list[object] = []
    inner = reserve(0, 10, greedy) if what == "reservation" else greedy

    def schedule(state):
        if state.now == 0:
            yield WakeAt(10.0)
        yield from inner(state)

    simulate(
        logged(log, schedule),
        rigid(*jobs),
        pool_away(*windows),
        rules=Rules(scheduling={"every": every}),
    )
    assert log == decisions


PIECES = "job_id start_time_s end_time_s outcome"


def sun(*watts: float) -> Site:
    """Return a site whose power changes every 10 s, and whose tasks start over when it falls."""
    signal = Steps([10.0 * i for i in range(len(watts))], watts, 1e9)
    model = PowerModel.linear(0.0, 1000.0, "processors")
    return Site((model,), (Source("sun", signal),), supply=Supply(limit="power", running="requeue"))


def test_completion_before_power():
    # The sun is gone at the instant at which the job ends: it has ended.
    run = simulate(greedy, rigid((0, 10, 10)), 10, site=sun(1000, 0, 1000))
    assert run.rows("allocations", PIECES) == [(0, 0, 10, "finished")]


def test_power_before_reservation_when_it_returns():
    def reserve(state):
        for task in state.queue:
            if state.now < 10:
                yield Place(task, ((0, task.instances),), 10.0)

    run = simulate(reserve, rigid((0, 5, 10)), 10, site=sun(500, 1000))
    assert run.rows("allocations", PIECES) == [(0, 10, 15, "finished")]
    assert "reservation_failed" not in run["events"]["kind"].to_list()


def test_power_before_arrival():
    # Job 0 has to start over and takes the only place in the queue before job 1 comes.
    rules = Rules(admission=AdmissionRule(slots=1, backlog=0))
    jobs = rigid((0, 30, 10), (10, 5, 5))
    run = simulate(greedy, jobs, 10, rules=rules, site=sun(1000, 0, 1000))
    assert run.rows("jobs", "job_id status", by="job_id") == [(0, "finished"), (1, "rejected")]
    assert run.rows("allocations", PIECES) == [(0, 0, 10, "lost"), (0, 20, 50, "finished")]


def test_one_decision_sees_power_and_arrival():
    seen = []

    def note(state):
        seen.append((state.now, len(state.arrived), float(state.free[0, 0])))
        yield from greedy(state)

    simulate(note, rigid((0, 5, 1), (10, 5, 10)), 10, site=sun(500, 1000))
    assert [row for row in seen if row[0] == 10] == [(10, 1, 10)]
