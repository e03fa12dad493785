"""The ready pool: what its actions do, what is seen of it, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simkit.agent.ready_pool import (
    ReadyPool,
    ReadyView,
    ready_image,
    ready_set,
    ready_size,
)
from simkit.env import SchedulingEnv
from simkit.errors import PolicyError, ScenarioError

POOL = ReadyPool(ready=2, waiting=10, horizon=6, max_start=5, longest=4)


def view(**changed: Any) -> ReadyView:
    """Four of ten units are held for two steps; one job of 5 and 8 units for three steps."""
    free = np.ones((6, 2))
    free[:2] = 0.6
    facts = {
        "free": free, "capacity": np.ones(6), "there": np.array([True, False]),
        "size": np.array([[0.5, 0.8], [0.0, 0.0]]), "length": np.array([3, 0]),
        "qos": np.array([0.5, 0.0]), "value": np.array([1.0, 0.0]), "waited": np.array([4, 0]),
        "slack": np.array([1, 0]), "start": np.array([2, -1]), "waiting": np.array(5),
        "suspended": np.array(0),
    }  # fmt: skip
    return ReadyView(**facts | changed)


def job(numbers: np.ndarray) -> list[float]:
    return numbers[-2 * ready_size(POOL) : -ready_size(POOL)].tolist()


def test_a_job_is_told_by_what_its_rectangle_leaves_over():
    numbers = ready_set(view(), POOL)
    assert numbers[:12].tolist() == pytest.approx([0.6] * 4 + [1.0] * 8)
    assert numbers[18:21].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert job(numbers) == pytest.approx([
        1, 0.75, 0.5, 0.25, 1, 0, 1 / 3, 0.5, 0.25, 0, 0.325,
        0.5, 0.8, 0.5, 0.2, 0.5, 0.2, 0.6, 0.6, 1.0, 1.0,
    ])  # fmt: skip
    assert not numbers[-ready_size(POOL) :].any()


def test_what_may_not_be_placed_has_no_rectangle():
    numbers = job(ready_set(view(start=np.array([-1, -1])), POOL))
    assert numbers[4:7] == [0, 0, 1]
    assert numbers[13:] == [0.0] * 8


def test_the_image_has_a_cell_for_each_unit_and_step():
    capacity = np.array([1, 1, 1, 1, 1, 0.5])
    free = np.ones((6, 2)) * capacity[:, None]
    free[0] = (0.5, 1.0)
    image = ready_image(view(free=free, capacity=capacity), POOL, (4, 2))[:36].reshape(6, 6)
    assert image[0].tolist() == [1, 1, 0, 0, 0, 0]
    assert image[5].tolist() == [0, 0, -1, -1, 0, -1]


# ---- in the environment -------------------------------------------------------------------------


def scenario(**changed: Any) -> dict[str, Any]:
    return {
        "name": "ready", "seed": 1, "workload": {"type": "rare", "jobs": 60, "offered_load": 1.2},
        "value": {}, "estimates": "actual", "scheduling": {"step": "1h"},
        "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
        "admission": {"slots": 5, "backlog": 144},
    } | changed  # fmt: skip


def env(told: Any = None, **arguments: Any) -> SchedulingEnv:
    return SchedulingEnv(
        scenario() if told is None else told, reward="value", actions="ready-pool",
        action_arguments=arguments, records=True, max_decisions=3000,
    )  # fmt: skip


def play(games: SchedulingEnv, seed: int) -> Any:
    """Act at random; check every observation against its schema."""
    rng = np.random.default_rng(seed)
    seen, info = games.reset(seed=seed)
    while True:
        assert games.observation_space.contains(seen)
        number = rng.choice(np.flatnonzero(info["action_mask"]))
        seen, _, over, cut, info = games.step(number)
        if over or cut:
            return games.records()


@pytest.mark.parametrize(
    "arguments",
    [{}, {"max_start": 0}, {"reject": True}, {"suspend": 3}, {"advance": "each"}, {"horizon": 70}],
)
def test_any_choice_is_legal_and_shown_within_the_schema(arguments):
    run = play(env(**arguments), 3)
    kinds = set(run.events["kind"].to_list())
    assert ("suspended" in kinds) == ("suspend" in arguments)
    assert ("rejected" in kinds) == ("reject" in arguments)


def test_resumed_jobs_break_no_reservation():
    """What is left of an allocation is known when it is suspended."""
    kinds = [set(play(env(suspend=3), seed).events["kind"].to_list()) for seed in range(4)]
    assert all("suspended" in each and "reservation_failed" not in each for each in kinds)


def test_without_steps_suspended_jobs_still_go_on():
    told = scenario(scheduling={}, workload={"type": "rare", "jobs": 1, "offered_load": 1.2})
    games = env(told, suspend=1, step="1h")
    _, info = games.reset(seed=1)
    over, stops = False, 3
    while not over:  # place the job, then stop it a few times: nothing else happens
        possible = np.flatnonzero(info["action_mask"])
        number = possible[-1] if possible[0] == 5 and not stops else possible[0]
        stops -= number == 5
        _, _, over, _, info = games.step(number)
    run = games.records()
    assert run.events.filter(kind="suspended").height == 3
    assert run.jobs["status"].to_list() == ["finished"]


@pytest.mark.parametrize("arguments", [{}, {"reject": True, "suspend": 2}])
def test_jobs_of_several_tasks_and_bags_are_legal_and_within_the_schema(arguments):
    games = SchedulingEnv(
        "cloud-quickstart", reward="slowdown", actions="ready-pool", records=True,
        action_arguments={"step": "1h", **arguments}, max_decisions=400, horizon=48,
    )  # fmt: skip
    assert play(games, 1).jobs.height


def test_jobs_start_only_now_or_only_within_the_horizon():
    reserved = play(env(), 1).events.filter(kind="reserved").height
    assert reserved > 0
    assert not play(env(max_start=0), 1).events.filter(kind="reserved").height


def test_nobody_starts_late_where_late_jobs_leave():
    told = scenario(admission={"slots": 5, "backlog": 144, "late": "leave"})
    jobs = play(env(told), 2).jobs
    due = jobs["submit_time_s"] + jobs["estimate_s"] / jobs["qos"]
    started = jobs["start_time_s"].is_not_null()
    assert ((jobs["start_time_s"] + jobs["estimate_s"]) <= due + 1e-6).filter(started).all()
    assert (jobs["status"] == "rejected").any()


def test_with_each_action_a_step_passes():
    games = env(advance="each")
    _, info = games.reset(seed=1)
    before = info["time_s"]
    info = games.step(int(np.argmax(info["action_mask"])))[-1]
    assert info["time_s"] > before


def test_a_number_beyond_the_last_is_refused():
    games = env(reject=True)
    games.reset()
    with pytest.raises(PolicyError, match="action 11 is not one of 0 … 10: 5 to place a job, 5 to"):
        games.step(11)


WRONG = [
    ({"max_start": 48}, "max_start: is 48; it must be below the horizon, 48"),
    ({"max_start": 1.5}, "max_start: must be a whole number, not 1.5"),
    ({"horizon": 0}, "horizon: must be at least 1, not 0"),
    ({"horizon": 2.5}, "horizon: must be a whole number, not 2.5"),
    ({"longest": None}, "longest: must be a whole number, not null"),
    ({"worth": 0.0}, "worth: must be more than 0, not 0.0"),
    ({"advance": "now"}, "advance: unknown value 'now'; known: each, no-op"),
    ({"suspend": -1}, "suspend: must be at least 0, not -1"),
    ({"reject": "no"}, "reject: must be true or false, not 'no'"),
    ({"ready": 3}, "ready is the number of `slots`; give that"),
    ({"step": "soon"}, "step: 'soon' is not a duration"),
    ({"rejects": True}, "rejects: unknown key; did you mean 'reject'"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG)
def test_wrong_arguments_are_named(arguments, text):
    with pytest.raises(ScenarioError, match=text):
        env(**arguments)


def test_other_observations_are_refused():
    with pytest.raises(ScenarioError, match="does not show a ready pool; take ready-set or ready"):
        SchedulingEnv(scenario(), "queue-table", actions="ready-pool")


def test_a_horizon_is_given_once():
    with pytest.raises(ScenarioError, match="horizon is given twice"):
        SchedulingEnv(
            scenario(), actions="ready-pool", horizon=10, action_arguments={"horizon": 20}
        )
