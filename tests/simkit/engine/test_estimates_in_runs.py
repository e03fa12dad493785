"""Estimates: what a policy is told, and that it is told nothing from the future."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.engine.simulation import Rules
from simkit.errors import ScenarioError
from simkit.policy import Place
from simkit.policy.estimates import Actual, Perturbed, Requested, UserMean

NAN = float("nan")


def estimates(simulate, load, predictor, **facts):
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
def test_requested_and_actual(predictor, expected, simulate, rigid):
    load = rigid((0, 10, 1, 20), (0, 10, 1, 5), (0, 10, 1, NAN))
    assert estimates(simulate, load, predictor) == expected


def test_perturbed_is_between_the_truth_and_its_multiple(simulate, rigid):
    load = rigid(*[(float(t), 10.0 * (t % 7), 1, 3) for t in range(400)])
    told = np.array(estimates(simulate, load, Perturbed(2.0), cluster=400))
    run = load.run_time_s
    assert (told >= run).all()
    assert (told <= 3 * run).all()
    factor = told[run > 0] / run[run > 0]
    assert factor.mean() == pytest.approx(2.0, abs=0.1)  # uniform in [1, 3]
    assert factor.std() == pytest.approx(2 / np.sqrt(12), abs=0.05)


def test_perturbed_depends_on_the_seed_alone(simulate, rigid):
    load = rigid(*[(float(t), 10.0, 1) for t in range(50)])
    told = [
        estimates(simulate, load, Perturbed(), seed=s, cluster=c)
        for s, c in [(0, 4), (0, 50), (1, 4)]
    ]
    assert told[0] == told[1]  # whatever is made of them
    assert told[0] != told[2]


def test_no_perturbation_is_the_truth(simulate, rigid):
    assert estimates(simulate, rigid((0, 10, 1, 99)), Perturbed(0.0)) == [10]


def test_user_mean_of_the_last_two_that_have_finished(simulate, make_jobs, a_gang):
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
    assert estimates(simulate, load, UserMean(), cluster=8) == [
        100,
        100,
        100,
        15,
        12.5,
        100,
        100,
        3,
    ]


def test_user_mean_is_at_most_the_request(simulate, make_jobs, a_gang):
    load = make_jobs(
        (0, a_gang(1, 10, 100)), (0, a_gang(1, 20, 100)), (30, a_gang(1, 1, 8)), user=[1, 1, 1]
    )
    assert estimates(simulate, load, UserMean()) == [100, 100, 8]


def test_user_mean_learns_what_ran_until_the_limit(simulate, make_jobs, a_gang):
    load = make_jobs(
        (0, a_gang(1, 50, 10)), (0, a_gang(1, 50, 20)), (30, a_gang(1, 1, 100)), user=[1, 1, 1]
    )
    assert estimates(simulate, load, UserMean(), rules=Rules(walltime="kill")) == [10, 20, 15]


def test_user_mean_learns_a_bag_once(simulate, make_jobs, a_gang, a_bag):
    # two instances of one task are not two tasks of the user
    load = make_jobs((0, a_bag(2, 10, 100)), (30, a_gang(1, 30, 100)), (70, a_gang(1, 1, 100)),
                     user=[1, 1, 1])  # fmt: skip
    assert estimates(simulate, load, UserMean(), cluster=1) == [100, 100, 20]


def test_user_mean_of_more(simulate, make_jobs, a_gang):
    load = make_jobs(*((10.0 * n, a_gang(1, n + 1, 100)) for n in range(5)), user=[1] * 5)
    assert estimates(simulate, load, UserMean(last=3)) == [100, 100, 100, 2, 3]


def test_a_second_run_begins_anew(simulate, make_jobs, a_gang):
    load = make_jobs(*((10.0 * n, a_gang(1, n + 1, 100)) for n in range(4)), user=[1] * 4)
    predictor = UserMean()
    first = estimates(simulate, load, predictor)
    assert estimates(simulate, load, predictor) == first == [100, 100, 1.5, 2.5]


@pytest.mark.parametrize(
    "make", [lambda: Perturbed(-1.0), lambda: Perturbed(NAN), lambda: UserMean(0)]
)  # fmt: skip
def test_arguments_out_of_range(make):
    with pytest.raises(ScenarioError, match=r"estimates: .* must be at least"):
        make()
