"""A copied environment goes on as the original would, whatever has been done in either."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import simkit  # noqa: E402
from simkit.env import MaskedObservation, SchedulingEnv  # noqa: E402

LEARNS = {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 120}}
KINDS: dict[str, dict[str, Any]] = {
    "deeprm": {"scenario": "deeprm", "observation": "deeprm-image", "cost": ["rejected"]},
    "rare": {
        "scenario": "rare", "actions": "ready-pool", "reward": "value",
        "action_arguments": {"suspend": 2, "reject": True},
    },
    "log, a window": {
        "scenario": "quickstart", "observation": "queue-set", "actions": "next-head",
        "episode": {"jobs": 40, "from": "train"}, "reward": "bounded-slowdown",
    },
    "log, pick": {"scenario": "quickstart", "actions": "pick", "episode": {"jobs": 40}},
    "log, classes": {
        "scenario": "quickstart", "actions": "classes", "action_arguments": {"step": "2h"},
    },
    "an estimator that learns": {
        "scenario": {"workload": LEARNS, "estimates": {"type": "user-mean"}},
    },
    "cloud, failures": {
        "scenario": {
            "workload": {"type": "tasks", "path": "tasks.csv", "columns": {
                "job_id": "job", "task_id": "task", "submit_time_s": "at", "run_time_s": "run",
                "cpu": "cpu", "parents": "needs"}},
            "cluster": {"machines": [{"count": 3, "cpu": 4}],
                        "failures": {"mtbf": "5m", "mttr": "1m"}},
        },
        "observation": "queue-set+machine-set", "metrics": "run",
    },
    "pairs": {
        "scenario": {"workload": LEARNS, "cluster": {"machines": [{"count": 4, "processors": 64}]}},
        "observation": "fitness-pairs",
    },
    "green": {
        "scenario": "green-quickstart", "observation": "queue-set+power-forecast",
        "reward": {"wait": 1.0, "carbon": 0.1}, "max_decisions": 60,
    },
}  # fmt: skip
HOW = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda e: pickle.loads(pickle.dumps(e)),
}


@pytest.fixture(scope="module", autouse=True)
def tasks(tmp_path_factory):
    """Write a table of jobs of several tasks, and work beside it."""
    folder = tmp_path_factory.mktemp("tables")
    rows = [
        f"{job},{task},{20 * job},{30 + 17 * task},{1 + (job + task) % 3},{task - 1 if task else ''}"
        for job in range(25)
        for task in range(1 + job % 3)
    ]
    (folder / "tasks.csv").write_text("\n".join(["job,task,at,run,cpu,needs", *rows]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def played(env, rng, steps):
    """Take random actions, most of them offered ones, over the ends of episodes; return all seen."""
    seen: list[Any] = []
    for _ in range(steps):
        offered = np.flatnonzero(env.unwrapped.action_masks())
        action = int(
            rng.choice(offered if rng.random() < 0.9 else np.arange(env.unwrapped.void + 1))
        )
        observation, reward, over, cut, info = env.step(action)
        seen += [action, np.asarray(observation).tobytes(), reward, over, cut, info["time_s"]]
        seen += [info["action_mask"].tobytes(), info["cost"], repr(info.get("metrics"))]
        if over or cut:
            observation, info = env.reset()
            seen += [observation.tobytes(), info["seed"], info.get("first_job")]
    return seen


@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 2**31), before=st.integers(0, 90), how=st.sampled_from([*HOW]))
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_goes_on_as_the_original_would(kind, seed, before, how):
    env = SchedulingEnv(**KINDS[kind])
    env.reset(seed=seed)
    played(env, np.random.default_rng(seed), before)
    other = HOW[how](env)
    aside = HOW[how](other)  # a copy of a copy, which goes another way
    played(aside, np.random.default_rng(seed + 1), 30)
    assert np.array_equal(other.action_masks(), env.action_masks())
    assert other.state.now == env.state.now
    later = np.random.default_rng(seed + 2)
    once = played(other, copy.deepcopy(later), 60)
    assert played(env, later, 60) == once


@pytest.mark.parametrize("how", HOW)
def test_a_copy_that_nobody_seeds_begins_as_the_original(how):
    other = SchedulingEnv("deeprm")
    other.reset()
    env = SchedulingEnv("deeprm")
    fresh = HOW[how](env)
    again = HOW[how](fresh)
    seeds = [one.reset()[1]["seed"] for one in (again, env, fresh)]
    assert len({*seeds}) == 1
    assert SchedulingEnv("deeprm").reset()[1]["seed"] != seeds[0]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["deeprm", "log, a window"])
def test_before_the_first_reset_and_after_an_end(kind, how):
    env = SchedulingEnv(**KINDS[kind] | {"max_decisions": 15})
    fresh = HOW[how](env)
    with pytest.raises(gymnasium.error.ResetNeeded, match="no episode has begun"):
        fresh.step(0)
    assert np.array_equal(fresh.reset(seed=3)[0], env.reset(seed=3)[0])
    over = False
    while not over:
        *_, over, cut, _ = env.step(int(np.argmax(env.action_masks())))
        over = over or cut
    ended = HOW[how](env)
    with pytest.raises(gymnasium.error.ResetNeeded, match="is over"):
        ended.step(0)
    assert ended.state.now == env.state.now
    assert np.array_equal(ended.reset()[0], env.reset()[0])
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded):
        HOW[how](env).step(0)


@pytest.mark.parametrize("how", HOW)
def test_the_records_of_a_copy_are_those_of_the_whole_episode(how):
    env = SchedulingEnv("quickstart", actions="next-head", records=True)
    env.reset(seed=0)
    for _ in range(300):
        env.step(0)
    other = HOW[how](env)
    over = False
    while not over:
        over = other.step(0)[2]
    for ended in (other, HOW[how](other)):
        assert ended.records().jobs.equals(simkit.simulate("quickstart").jobs)


@pytest.mark.parametrize("how", HOW)
def test_ones_own_jobs_go_along(how):
    env = SchedulingEnv("quickstart", actions="next-head", episode={"jobs": 20})
    first = env.reset(options={"first_job": 100})[1]["first_job"]
    load = env._episodes.windows.take(first)
    env = SchedulingEnv("quickstart", actions="next-head")
    env.reset(seed=1, options={"workload": load})
    env.step(0)
    other = HOW[how](env)
    rng = np.random.default_rng(2)
    assert played(other, copy.deepcopy(rng), 15) == played(env, rng, 15)


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_wrappers_and_vectors_of_environments_are_copied_as_well(how):
    env = MaskedObservation(gymnasium.make("simkit/DeepRM-v0", max_episode_steps=30))
    env.reset(seed=5)
    for _ in range(20):
        env.step(0)
    other = HOW[how](env)
    for _ in range(10):
        mine, its = env.step(0), other.step(0)
        assert (mine[1], mine[2], mine[3]) == (its[1], its[2], its[3])
        assert np.array_equal(mine[0]["observation"], its[0]["observation"])
    assert mine[3]
    with pytest.warns(UserWarning, match="one after another"):
        slow = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=2, reward="wait")
    for envs in (gymnasium.make_vec("simkit/DeepRM-v0", num_envs=2), slow):
        envs.reset(seed=5)
        envs.step([0, 1])
        twin = HOW[how](envs)
        for _ in range(30):
            (mine, *rewards), (its, *others) = envs.step([1, 0]), twin.step([1, 0])
            assert np.array_equal(mine, its)
            assert np.array_equal(rewards[0], others[0])


class Counting(SchedulingEnv):
    """A subclass of one's own, which sees the steps that are asked of it."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.steps, self.resets = 0, 0

    def reset(self, **arguments):
        self.resets += 1
        return super().reset(**arguments)

    def step(self, action):
        self.steps += 1
        return super().step(action)


@pytest.mark.parametrize("how", HOW)
def test_a_subclass_keeps_its_attributes_and_is_not_asked_again(how):
    env = Counting(scenario="deeprm")
    env.reset(seed=0)
    for _ in range(5):
        env.step(10)
    other = HOW[how](env)
    assert (type(other), other.steps, other.resets) == (Counting, 5, 1)
    other.step(10)
    assert (env.steps, env.state.now + 1) == (5, other.state.now)


def test_a_deep_copy_shares_what_never_changes():
    env = SchedulingEnv("quickstart", episode={"jobs": 40})
    twin = copy.deepcopy(env)
    assert twin._episodes.windows is env._episodes.windows
    assert twin.scenario is env.scenario
