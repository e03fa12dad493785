"""Estimates of runs, without the future; and corrections of what outlives its estimate."""

from __future__ import annotations

from math import inf, nan

import pytest
from engine_runs import a_bag, a_gang, make_jobs, rigid, simulate

from simkit.errors import PolicyError
from simkit.policy import Place, Resume, Suspend, WakeAt
from simkit.policy.estimates import CORRECTIONS, Actual, Requested, UserMean, corrected
from simkit.rules import Rules

TSAFRIR = CORRECTIONS["tsafrir"]
MINUTE, HOUR = 60.0, 3600.0

SERIES = [
    # first estimate, request, executed, the estimate after its corrections
    (100, inf, 99, 100),  # not outlived
    (100, inf, 100, 160),  # outlived at this instant: the first step, a minute
    (100, inf, 160, 400),  # added to the first estimate, not to the last
    (100, inf, 400 + 1000, 100 + 1800),
    (100, inf, 100 + 50 * HOUR, 100 + 100 * HOUR),
    (100, inf, 100 + 100 * HOUR, 100 + 100 * HOUR),  # there are no more steps
    (100, 150, 100, 150),  # never above the request
    (100, 150, 150, 150),
    (100, 80, 100, 100),  # a prediction above the request is not lowered
    (100, nan, 160, 400),  # no request, no bound
    (0, inf, 0, 60),
]


@pytest.mark.parametrize(("first", "request_s", "executed", "estimate"), SERIES)
def test_the_steps_of_tsafrir(first, request_s, executed, estimate):
    assert corrected(first, request_s, executed, TSAFRIR) == estimate


@pytest.mark.parametrize(
    ("request_s", "executed", "estimate"), [(500, 99, 100), (500, 100, 500), (nan, 100, 100)]
)
def test_straight_to_the_request(request_s, executed, estimate):
    assert corrected(100, request_s, executed, CORRECTIONS["request"]) == estimate


class Guess(Requested):
    """Tells every task the same."""

    learns = True

    def __init__(self, seconds):
        self.seconds = seconds

    def on_submission(self, task):
        return self.seconds


def expectations(load, correction, guess=10.0, **facts):
    """Return (instant of a decision, the expected ends) and the table of jobs."""
    seen = []

    def schedule(state):
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)
        seen.append((state.now, [end for end, _, _ in state.expected_ends]))

    rules = Rules(**facts)
    run = simulate(schedule, load, predictor=Guess(guess), correction=correction, rules=rules)
    return seen, run


def test_instances_that_start_later_are_corrected_later():
    seen, run = expectations(make_jobs((0, a_bag(5, 40, 1000))), "tsafrir")
    assert seen == [(0, [10]), (10, [70]), (40, [50]), (50, [110]), (80, [])]
    assert run.rows("jobs", "corrected_estimate_s") == [(None,)]


def test_a_suspended_job_goes_on_with_what_it_has_executed():
    seen = []

    def schedule(state):
        if state.now == 0:
            yield Place(state.queue[0], ((0, 1),))
            yield WakeAt(20)
        if state.now == 20:
            yield Suspend(next(iter(state.running)))
            yield WakeAt(1000)
        if state.now == 1000:
            yield Resume(next(iter(state.suspended)))
        seen.append((state.now, [end for end, _, _ in state.expected_ends]))

    run = simulate(schedule, rigid((0, 100, 1, 1000)), predictor=Guess(10.0),
                   correction="tsafrir")  # fmt: skip
    # 20 s are done, so that the estimate is 70 s and 50 s are left
    assert seen == [(0, [10]), (10, [70]), (20, []), (1000, [1050]), (1050, [1290]), (1080, [])]
    assert run.rows("jobs", "corrected_estimate_s") == [(310,)]


def test_what_a_predictor_sees():
    class ByGroup(Requested):
        learns = True

        def reset(self, workload, rng):
            super().reset(workload, rng)
            self.workload, self.seen, self.ended = workload, [], []

        def on_submission(self, task):
            executable = int(self.workload.executable[task.job_index])
            self.seen.append(
                (
                    task.submit_time_s,
                    task.user,
                    task.group,
                    task.queue,
                    task.instances,
                    task.requested_time_s,
                    task.estimate_s,
                    executable,
                )
            )
            return 5

        def on_end(self, task, run_time_s):
            self.ended.append((task.group, run_time_s))

    load = make_jobs((3, a_gang(2, 20, 100)), user=[7], group=[8], queue=[9], executable=[4])
    predictor = ByGroup()
    run = simulate(lambda s: [Place(t, s.fit(t)) for t in s.queue], load, predictor=predictor)
    assert predictor.seen == [(3, 7, 8, 9, 2, 100, 100, 4)]
    assert predictor.ended == [(8, 20)]
    assert run.rows("jobs", "estimate_s") == [(5,)]


@pytest.mark.parametrize("estimate", [nan, -1.0, inf, None, "5"])
def test_a_prediction_that_is_no_time(estimate):
    with pytest.raises(PolicyError, match=r"estimates: Guess returned .* for job 0; .* at least 0"):
        simulate(lambda state: (), rigid((0, 1, 1)), predictor=Guess(estimate))


def test_user_means_do_not_betray_the_run_time():
    # without a request, the mean is not cut at the run time of the job that is predicted
    load = make_jobs(*((100 * n, a_gang(1, run, nan)) for n, run in enumerate((50, 50, 2))),
                     user=[1, 1, 1])  # fmt: skip
    run = simulate(lambda s: [Place(t, s.fit(t)) for t in s.queue], load, predictor=UserMean())
    assert run.rows("jobs", "estimate_s") == [(50,), (50,), (50,)]


SEEN = [
    # run time, requested time, guess, rules, (decision, expected ends), the last estimate
    (100, 1000, 10.0, {}, [(0, [10]), (10, [70]), (70, [310]), (100, [])], 310),
    # an end at the estimate is no correction
    (70, 1000, 10.0, {}, [(0, [10]), (10, [70]), (70, [])], 70),
    # an estimate at the request is final; from 40 on the job is overdue, or killed
    (100, 40, 10.0, {}, [(0, [10]), (10, [40]), (100, [])], 40),
    (100, 40, 10.0, {"walltime": "kill"}, [(0, [10]), (10, [40]), (40, [])], 40),
    (30, 1000, 0.0, {}, [(0, [0]), (0, [60]), (30, [])], 60),  # corrected at the start
    # decisions stay periodic
    (
        100,
        1000,
        10.0,
        {"scheduling": {"every": 30.0}},
        [(0, [10]), (30, [70]), (90, [310]), (120, [])],
        310,
    ),
]


@pytest.mark.parametrize(("run_s", "asked_s", "guess", "facts", "seen", "last"), SEEN)
def test_a_decision_follows_each_correction(run_s, asked_s, guess, facts, seen, last):
    load = rigid((0, run_s, 1, asked_s))
    found, run = expectations(load, "tsafrir", guess, **facts)
    assert found == seen
    assert run.rows("jobs", "corrected_estimate_s") == [(last,)]


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
