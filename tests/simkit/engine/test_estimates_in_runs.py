"""Estimates: what a policy is told, and that it is told nothing from the future."""

from __future__ import annotations

import pytest
from engine_runs import a_bag, a_gang, make_jobs, rigid, simulate

from simkit.engine.simulation import Rules
from simkit.policy import Place
from simkit.policy.estimates import Actual, Perturbed, Requested, UserMean

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


def test_perturbed_depends_on_the_seed_alone():
    load = rigid(*[(float(t), 10.0, 1) for t in range(50)])
    told = [estimates(load, Perturbed(), seed=s, cluster=c) for s, c in [(0, 4), (0, 50), (1, 4)]]
    assert told[0] == told[1]  # whatever is made of them
    assert told[0] != told[2]


def test_user_mean_of_the_last_two_that_have_finished():
    # user 7 on four processors, requests of 100 s
    jobs = [
        (0, 10),  # 100: nothing has finished
        (5, 20),  # 100
        (11, 30),  # 100: one has
        (25, 5),  # (10 + 20) / 2 = 15: the first two have, at 10 and 25
        (31, 1),  # (20 + 5) / 2: ended at 25 and 30
        (31, 1),  # user 8: nothing
        (32, 1),  # unknown: nothing
        (33, 1),  # user 7: (5 + 1) / 2
    ]
    load = make_jobs(
        *((submit, a_gang(1, run, 100)) for submit, run in jobs), user=[7, 7, 7, 7, 7, 8, -1, 7]
    )
    assert estimates(load, UserMean(), cluster=8) == [
        100,
        100,
        100,
        15,
        12.5,
        100,
        100,
        3,
    ]


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
