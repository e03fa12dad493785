"""The slotted heuristics: who goes first, who may be placed into the future, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.engine.admission import AdmissionRule
from simkit.engine.simulation import Rules
from simkit.errors import ScenarioError
from simkit.policies.slotted import SlottedPacker, SlottedRandom, SlottedSJF, SlottedTetris
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

POOL = Cluster.pool({"cpu": 10.0, "mem": 10.0})


def rules(slots=10):
    return Rules(step_s=1.0, admission=AdmissionRule(slots=slots, backlog=60))


def workload(rows, unit=(1.0, 1.0), step=1.0):
    """Return jobs of (step of arrival, steps, units of cpu, units of mem)."""
    submit, run, *size = np.array(rows, float).T
    jobs = len(rows)
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(jobs),
        submit_time_s=submit * step,
        first_task=np.arange(jobs + 1),
        task_id=np.arange(jobs),
        instances=np.ones(jobs, int),
        request=np.stack(size, axis=1) * unit,
        run_time_s=run * step,
        requested_time_s=run * step,
        gang=np.ones(jobs, bool),
    )


# Two that do not fit beside each other, of which the second is shorter and the first better
# aligned; a third that fits beside either; and one as short as the second, less well aligned.
JOBS = [(0, 3, 9, 2), (0, 2, 6, 2), (0, 4, 1, 5), (0, 2, 6, 1)]
STARTS = [
    # policy, starts
    (SlottedSJF(), [4, 0, 0, 2]),  # of equals the lowest slot
    (SlottedPacker(), [0, 3, 0, 5]),
    (SlottedTetris(), [4, 0, 0, 2]),
    (SlottedTetris(knob=0.5), [0, 3, 0, 5]),
    (SlottedTetris(knob=0.0), [4, 0, 0, 2]),
]


@pytest.mark.parametrize(("policy", "starts"), STARTS)
def test_the_best_scored_goes_first(policy, starts, simulate):
    assert simulate(policy, workload(JOBS), POOL, rules=rules()).starts == starts


# One holds half of the pool until step 4. At step 1 come a short one that needs all of it, and two
# longer ones that need half.
AHEAD = [(0, 4, 5, 5), (1, 1, 10, 10), (1, 6, 5, 5), (1, 6, 5, 5)]
RESERVING = [
    # reserve, starts
    ("none", [0, 10, 1, 4]),  # the short one waits until nobody else fits any more
    ("best", [0, 4, 5, 5]),  # it has its place before the others are looked at: nobody starts at 1
    ("rest", [0, 7, 1, 8]),  # one starts; of the others, the short one is the first to have a place
]


@pytest.mark.parametrize(("reserve", "starts"), RESERVING)
def test_which_tasks_may_be_placed_into_the_future(reserve, starts, simulate):
    assert simulate(SlottedSJF(reserve), workload(AHEAD), POOL, rules=rules()).starts == starts


@pytest.mark.parametrize("policy", [SlottedSJF("best"), SlottedTetris(reserve="rest")])
def test_nothing_is_reserved_beyond_the_horizon(policy, simulate):
    # Each needs the whole pool, and has to wait until the one before has moved up far enough.
    rows = [(0, 12, 10, 10), (0, 12, 10, 10), (0, 12, 10, 10)]
    run = simulate(policy, workload(rows), POOL, rules=rules())
    assert run.starts == [0, 12, 24]
    reserved = run["events"]
    reserved = reserved.filter(reserved["kind"] == "reserved")
    # 12 steps may begin no later than 20 - 12 - 1 = 7 steps ahead.
    assert reserved["time_s"].to_list() == [5.0, 17.0]


def test_a_score_of_nothing_is_never_placed(simulate):
    # What asks for nothing has no alignment: the packer lets it wait for ever.
    run = simulate(SlottedPacker(), workload([(0, 1, 0, 0), (0, 1, 1, 0)]), POOL, rules=rules())
    assert run["jobs"].sort("job_id")["status"].to_list() == ["waiting", "finished"]


def test_sees_the_slots_alone(simulate):
    # The shortest is the third, behind two slots.
    rows = [(0, 5, 10, 1), (0, 4, 10, 1), (0, 1, 10, 1)]
    run = simulate(SlottedSJF(slots=2), workload(rows), POOL, rules=rules(2))
    assert run.starts == [5, 0, 4]


def test_units_and_steps_of_another_size(simulate):
    policy = SlottedTetris(step="1min", unit=[0.1, 4.0])
    load = workload(JOBS, unit=(0.1, 4.0), step=60.0)
    cluster = Cluster.pool({"cpu": 1.0, "mem": 40.0})
    minutes = Rules(step_s=60.0, admission=AdmissionRule(slots=10, backlog=60))
    run = simulate(policy, load, cluster, rules=minutes)
    assert run.starts == [240, 0, 0, 120]


def test_random_draws_from_its_own_stream_and_ends_with_all_jobs(simulate):
    rng = np.random.default_rng(5)
    rows = [(step, *rng.integers(1, 8, 3)) for step in range(25)]
    runs = [
        simulate(SlottedRandom(), workload(rows), POOL, rules=rules(), seed=seed)
        for seed in (1, 1, 2)
    ]
    assert runs[0].starts == runs[1].starts != runs[2].starts
    assert set(runs[0]["jobs"]["status"]) == {"finished"}
    assert (runs[0]["events"]["kind"] == "reserved").any()  # it may use the future


WRONG = [
    (lambda: SlottedSJF("later"), "reserve is 'later'; it is none, best or rest"),
    (lambda: SlottedTetris(knob=1.5), "knob is 1.5; it must lie from 0 to 1"),
    (lambda: SlottedTetris(knob="much"), "knob is 'much'"),
    (lambda: SlottedSJF(step="soon"), "step: 'soon' is not a duration"),
    (lambda: SlottedSJF(slots=0, horizon=0, unit=[0.0]), "unit(.|\n)*slots is 0(.|\n)*horizon"),
]


@pytest.mark.parametrize(("make", "text"), WRONG)
def test_refuses_arguments_that_are_none(make, text):
    with pytest.raises(ScenarioError, match=text):
        make()


def test_refuses_units_for_other_resources(simulate):
    with pytest.raises(ScenarioError, match="give an amount for each of cpu, mem"):
        simulate(SlottedSJF(unit=[1.0]), workload(JOBS), POOL, rules=rules())
