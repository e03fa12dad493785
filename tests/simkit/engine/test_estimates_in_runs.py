"""Estimates: what a policy is told, and that it is told nothing from the future."""

from __future__ import annotations

import pytest
from engine_runs import a_bag, a_gang, make_jobs, rigid, simulate

from simkit.engine.simulation import Rules
from simkit.policy import Place
from simkit.policy.estimates import Actual, Requested, UserMean

NAN = float("nan")


def estimates(load, predictor, **facts):
    """Return job id → the estimate that a policy saw when the job arrived."""
    seen = {}

    def schedule(state):
        seen.update({task.job_index: task.estimate_s for task in state.arrived})
        assert state.queue.columns().estimate_s.tolist() == [t.estimate_s for t in state.queue]
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)

    run = simulate(schedule, load, predictor=predictor, **facts)
    assert dict(run.rows("jobs", "job_id estimate_s")) == seen
    return [seen[job] for job in sorted(seen)]


@pytest.mark.parametrize(
    ("predictor", "expected"),
    [(Requested(), [20, 5, 10]), (Actual(), [10, 10, 10])],  # where there is no request: the truth
)
def test_requested_and_actual(predictor, expected):
    load = rigid((0, 10, 1, 20), (0, 10, 1, 5), (0, 10, 1, NAN))
    assert estimates(load, predictor) == expected


@pytest.mark.parametrize(
    ("rows", "facts", "expected"),
    [
        # rows of (submit, run time, requested time) of one user; at most the request
        ([(0, 10, 100), (0, 20, 100), (30, 1, 8)], {}, [100, 100, 8]),
        # what was killed ran until its limit
        ([(0, 50, 10), (0, 50, 20), (30, 1, 100)], {"rules": Rules(walltime="kill")}, [10, 20, 15]),
    ],
)
def test_user_mean_learns_run_times_and_keeps_to_the_request(rows, facts, expected):
    load = make_jobs(*((at, a_gang(1, run, asked)) for at, run, asked in rows), user=[1, 1, 1])
    predictor = UserMean()
    for _ in range(2):  # a second run begins anew
        assert estimates(load, predictor, **facts) == expected


def test_user_mean_learns_a_bag_once():
    # two instances of one task are not two tasks of the user
    load = make_jobs((0, a_bag(2, 10, 100)), (30, a_gang(1, 30, 100)), (70, a_gang(1, 1, 100)),
                     user=[1, 1, 1])  # fmt: skip
    assert estimates(load, UserMean(), cluster=1) == [100, 100, 20]
