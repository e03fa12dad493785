"""The slotted heuristics: who goes first, who may be placed into the future, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from workloads import one_task_jobs

import simkit
from simkit.errors import PolicyError, ScenarioError
from simkit.policies.slotted import (
    SlottedArea,
    SlottedHeadroom,
    SlottedPacker,
    SlottedRandom,
    SlottedSJF,
    SlottedTetris,
)
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import Cluster

POOL = Cluster.pool({"cpu": 10.0, "mem": 10.0})


def rules(slots=10):
    return Rules(scheduling={"step": 1.0}, admission=AdmissionRule(slots=slots, backlog=60))


def workload(rows, unit=(1.0, 1.0), step=1.0):
    """Return jobs of (step of arrival, steps, units of cpu, units of mem)."""
    submit, run, *size = np.array(rows, float).T
    return one_task_jobs(submit * step, run * step, np.stack(size, axis=1) * unit)


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


def test_units_and_steps_of_another_size(simulate):
    policy = SlottedTetris(step="1min", unit=[0.1, 4.0])
    load = workload(JOBS, unit=(0.1, 4.0), step=60.0)
    cluster = Cluster.pool({"cpu": 1.0, "mem": 40.0})
    minutes = Rules(scheduling={"step": 60.0}, admission=AdmissionRule(slots=10, backlog=60))
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
    (lambda: SlottedTetris(knob=1.5), "knob is 1.5; it must be a number from 0 to 1"),
    (lambda: SlottedSJF(step="soon"), "step: 'soon' is not a duration"),
    (lambda: SlottedTetris(knob=True), "knob is True"),
    (lambda: SlottedSJF(unit=["a", "b"]), r"unit is \['a', 'b'\]; it must be a list of positive"),
    (lambda: SlottedSJF(unit="57"), "unit is '57'; it must be a list"),
    (lambda: SlottedSJF(step=0), "step is 0; it must be a duration above 0"),
    (lambda: SlottedSJF(slots=2.5), "slots is 2.5; it must be a whole number, at least 1"),
    (lambda: SlottedSJF(horizon=True), "horizon is True; it must be a whole number"),
    (lambda: SlottedTetris(2, reserve="x", slots=0), "slots is 0(.|\n)*reserve(.|\n)*knob is 2"),
    (lambda: SlottedSJF(slots=0, horizon=0, unit=[0.0]), "unit(.|\n)*slots is 0(.|\n)*horizon"),
]


@pytest.mark.parametrize(("make", "text"), WRONG)
def test_refuses_arguments_that_are_none(make, text):
    with pytest.raises(ScenarioError, match=text):
        make()


def test_refuses_units_for_other_resources(simulate):
    with pytest.raises(ScenarioError, match="give an amount for each of cpu, mem"):
        simulate(SlottedSJF(unit=[1.0]), workload(JOBS), POOL, rules=rules())


def test_refuses_a_task_as_long_as_the_horizon(simulate):
    long = workload([(0, 3, 1, 1), (2, 20, 1, 1)])
    with pytest.raises(PolicyError, match=r"submitted at 2 s takes 20 steps .* 19 .*`horizon`"):
        simulate(SlottedSJF(), long, POOL, rules=rules())
    assert simulate(SlottedSJF(horizon=21), long, POOL, rules=rules()).starts == [0, 2]


SLOTTED = {
    "workload": {"type": "deeprm", "offered_load": 0.7, "steps": 5},
    "cluster": {"machines": [{"count": 1, "cpu": 10, "mem": 10}]},
    "admission": {"slots": 10, "backlog": 60},
    "estimates": "actual",
    "scheduling": {"step": "1s"},
    "policy": {"name": "slotted-sjf"},
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"admission": {"slots": 5}, "scheduling": {"step": "2s"}},
         ["slots is 10 and admission.slots 5;", "step is 1 and scheduling.step 2;"]),
        ({"admission": {}, "scheduling": {}},
         ["slots is 10 and admission.slots not set;", "step is 1 and scheduling.step not set;"]),
        ({"cluster": {"machines": [{"count": 2, "cpu": 5, "mem": 5}]}},
         ["the cluster has 2 machines;"]),
    ],
)  # fmt: skip
def test_other_slots_steps_and_clusters_are_refused_before_the_run(changes, told, tmp_path):
    with pytest.raises(ScenarioError) as refused:
        simkit.simulate({**SLOTTED, **changes}, output=tmp_path / "run")
    for problem, place in zip(refused.value.problems, told, strict=True):
        assert place in problem
    assert not (tmp_path / "run").exists()


# --- small and soon first ------------------------------------------------------------------------


def batch(lengths, sizes):
    """Return jobs that all come at 0, each with as many units of both resources."""
    return one_task_jobs(0.0, lengths, np.column_stack((sizes, sizes)))


@pytest.mark.parametrize("seed", range(5))
def test_with_zeros_it_is_reserving_sjf(seed, simulate):
    rng = np.random.default_rng(seed)
    jobs = batch(rng.integers(1, 12, 30), rng.integers(1, 10, 30))
    found = simulate(SlottedArea(0, 0, horizon=40), jobs, POOL, rules=rules()).starts
    assert (
        found == simulate(SlottedSJF(reserve="best", horizon=40), jobs, POOL, rules=rules()).starts
    )
    assert found != simulate(SlottedArea(horizon=40), jobs, POOL, rules=rules()).starts


@pytest.mark.parametrize(
    ("power", "delay", "expected"),
    [
        (0, 0, [3, 0]),  # the shorter one first
        (1, 0, [0, 4]),  # 4 · 2 is less than 3 · 8
    ],
)
def test_size_counts(power, delay, expected, simulate):
    jobs = batch([4, 3], [3, 8])
    assert simulate(SlottedArea(power, delay), jobs, POOL, rules=rules()).starts == expected


def test_what_can_start_soon_goes_first(simulate):
    jobs = batch([2, 4, 6], [8, 3, 2])  # once the first is placed, the last fits beside it
    assert simulate(SlottedArea(0, 0), jobs, POOL, rules=rules()).starts == [0, 2, 0]
    jobs = batch([2, 3, 6], [8, 9, 2])  # the second would wait for the last, or the other way round
    assert simulate(SlottedArea(0, 0), jobs, POOL, rules=rules()).starts == [0, 2, 5]
    assert simulate(SlottedArea(0, 4), jobs, POOL, rules=rules()).starts == [0, 6, 0]


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ({"power": 2000}, "power is 2000; it must be a number from 0 to 10"),  # once an overflow
        ({"power": True}, "power is True"),
        ({"delay": True}, "delay is True"),
        ({"delay": 10**400}, "delay is 1000"),
        ({"power": "a"}, "power is 'a'"),
    ],
)
def test_numbers_outside_their_ranges_are_told(numbers, told):
    with pytest.raises(ScenarioError, match=f"slotted area: {told}"):
        SlottedArea(**numbers)


# --- long tasks leave room ------------------------------------------------------------------------

# Of both resources alike: 3 units for 2 steps, and 5 units for 10.
SHORT_AND_LONG = one_task_jobs(0.0, [2, 10], [[3, 3], [5, 5]])


@pytest.mark.parametrize(
    ("headroom", "long", "patience", "expected"),
    [
        (0, 4, 50, [0, 0]),  # nothing need stay free: plain SJF
        (2, 4, 50, [0, 0]),  # 3 + 5 + 2 are the pool's 10
        (3, 4, 50, [0, 2]),  # 3 + 5 + 3 are more: it waits for the short one's end
        (3, 11, 50, [0, 0]),  # 10 steps are not long
        (6, 4, 5, [0, 5]),  # 5 + 6 never fit: it goes after its patience
        (6, 4, 0, [0, 0]),
    ],
)
def test_a_long_task_leaves_room(headroom, long, patience, expected, simulate):
    policy = SlottedHeadroom(headroom, long, patience)
    assert simulate(policy, SHORT_AND_LONG, POOL, rules=rules()).starts == expected


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: SlottedArea(-1, float("nan"), slots=0), ["slots", "power", "delay"]),
        (lambda: SlottedHeadroom(-1, 0, 1.5), ["headroom", "long", "patience"]),
    ],
)
def test_all_numbers_are_told_at_once(make, names):
    with pytest.raises(ScenarioError) as told:
        make()
    assert [text.split(":")[1].split()[0] for text in told.value.problems] == names
