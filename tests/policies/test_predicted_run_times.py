"""Orders by the user's recent run times: what is predicted, and the starts it leads to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.policies.easy import Easy
from simkit.policies.orderings import SAFP, WFP3P
from simkit.policy import State, SystemInfo
from simkit.policy.estimates import RecentRunTimes
from simkit.policy.ordered import OrderedPolicy
from simkit.policy.queue import TaskQueue
from simkit.policy.room import make_room
from simkit.policy.task import Allocation, Task

INFO = SystemInfo(("processors",), ("pool",), np.array([[64.0]]), ())
NOW = 1000.0


def state_of(tasks, ended=()):
    queue = TaskQueue(1)
    for task in tasks:
        queue.add(task)
    state = State(INFO, make_room(INFO.capacity), queue)
    state.now = NOW
    state.ended += ended
    return state


def task(index, user, estimate=3600.0, processors=1, submit=0.0):
    return Task(index, index, submit, (1.0,), processors, estimate_s=estimate, user=user)


def ended(rank, user, run):
    return Allocation(rank, task(100 + rank, user), ((0, 1),), 1, NOW - run, NOW)


def predictions(waiting, *endings):
    recent = RecentRunTimes()
    state = state_of(waiting, endings)
    recent.update(state)
    columns = state.queue.columns()
    return recent.predict(columns.user, columns.estimate_s).tolist()


@pytest.mark.parametrize(
    ("runs", "estimate", "predicted"),
    [
        ([], 3600.0, 3600.0),  # nothing has ended
        ([], 3.0, 10.0),
        ([100.0], 3600.0, 100.0),
        ([100.0, 300.0], 3600.0, 200.0),
        ([9999.0, 100.0, 300.0], 3600.0, 200.0),  # the last two
        ([100.0, 300.0], 150.0, 150.0),  # at most the estimate
        ([1.0, 2.0], 3600.0, 10.0),  # at least 10 s
        ([100.0], 5.0, 10.0),  # also above the estimate
    ],
)
def test_prediction(runs, estimate, predicted):
    endings = [ended(rank, 7, run) for rank, run in enumerate(runs)]
    assert predictions([task(0, 7, estimate)], *endings) == [predicted]


def test_users_are_told_apart_and_unknown_ones_have_no_past():
    waiting = [task(0, 9), task(1, 2), task(2, -1), task(3, 5)]
    endings = [ended(0, 2, 20.0), ended(1, 9, 90.0), ended(2, -1, 50.0)]
    assert predictions(waiting, *endings) == [90.0, 20.0, 3600.0, 3600.0]


def test_an_end_counts_once_however_often_it_is_shown():
    recent = RecentRunTimes()
    state = state_of([task(0, 7)], [ended(0, 7, 100.0)])
    recent.update(state)
    state.ended.append(ended(1, 7, 300.0))
    recent.update(state)
    recent.update(state)
    assert recent.predict(np.array([7.0]), np.array([3600.0])).tolist() == [200.0]


def test_work_that_starts_over_has_not_ended():
    recent, again = RecentRunTimes(), ended(0, 7, 100.0)
    state = state_of([again.task], [again])
    state.arrived.append(again.task)
    recent.update(state)
    assert recent.predict(np.array([7.0]), np.array([3600.0])).tolist() == [3600.0]


@pytest.mark.parametrize(
    ("order", "value"),
    [(SAFP, lambda w, p, n: p * n), (WFP3P, lambda w, p, n: -((w / p) ** 3) * n**2)],
)
def test_formula(order, value):
    waiting = [task(0, 7, 900.0, 4, submit=200.0), task(1, 8, 600.0, 16, submit=900.0)]
    made = order()
    made.reset(INFO, np.random.default_rng(0))
    keys = made.keys(state_of(waiting, [ended(0, 7, 50.0)]))
    expected = [value(800.0, 50.0, 4), value(100.0, 600.0, 16)]
    np.testing.assert_allclose(keys, expected)


def with_users(jobs, users):
    return jobs | {"user": np.array(users)}


def test_backfilling_keeps_to_the_estimate(simulate, job_columns):
    # User 1's first job ran 10 s, but job 3 of that user is not taken to end by the shadow time.
    rows = [(0, 10, 1, 60), (20, 50, 3, 50), (1, 10, 4, 10), (0, 15, 1, 60)]
    jobs = with_users(job_columns(rows), [1, 2, 3, 1])
    policy = OrderedPolicy(WFP3P(), Easy())
    assert simulate(policy, jobs, 4).starts == [0, 20, 70, 80]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 9), st.integers(1, 40), st.integers(1, 4), st.integers(1, 60),
        st.integers(-1, 2),
    ),
    min_size=1, max_size=25,
)  # fmt: skip


@given(rows=ROWS)
def test_starts_as_by_hand(rows, simulate, job_columns):
    """Without backfilling, on a machine that runs one job at a time."""
    *_, users = zip(*rows, strict=True)
    jobs = with_users(job_columns([(gap, run, 4, asked) for gap, run, _, asked, _ in rows]), users)
    submit, run, asked = (jobs[k] for k in ("submit_time_s", "run_time_s", "requested_time_s"))
    left, past, now, expected = list(range(len(rows))), {}, 0.0, {}
    while left:
        now = max(now, min(submit[job] for job in left))

        def predicted(job):
            recent = past.get(users[job], [])[-2:] if users[job] >= 0 else []
            return max(min(np.mean(recent), asked[job]) if recent else asked[job], 10.0)

        first = min([job for job in left if submit[job] <= now], key=lambda j: (predicted(j), j))
        left.remove(first)
        expected[first] = now
        now += run[first]
        past.setdefault(users[first], []).append(run[first])
    starts = simulate(OrderedPolicy(SAFP()), jobs, 4).starts
    assert starts == [expected[job] for job in range(len(rows))]


def test_suspended_work_has_not_ended():
    recent, stopped = RecentRunTimes(), ended(0, 7, 100.0)
    queue = TaskQueue(1)
    state = State(INFO, make_room(INFO.capacity), queue, suspended={stopped: None})
    state.now = NOW
    state.ended.append(stopped)
    recent.update(state)
    assert recent.predict(np.array([7.0]), np.array([3600.0])).tolist() == [3600.0]
