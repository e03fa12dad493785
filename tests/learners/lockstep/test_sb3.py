"""Learners of other libraries play many replicas: Stable-Baselines3, and a plain loop of PPO."""

from __future__ import annotations

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from gymnasium.vector import SyncVectorEnv  # noqa: E402

import simkit.env  # noqa: E402
from simkit.errors import ScenarioError  # noqa: E402
from simkit.learners.lockstep.sb3 import MaskedVecEnv  # noqa: E402

pytestmark = pytest.mark.thorough


def make(count, **arguments):
    return gymnasium.make_vec(
        "simkit/DeepRM-v0", num_envs=count, autoreset_mode="SameStep", **arguments
    )


def test_the_mask_is_an_observation_and_a_method():
    envs = MaskedVecEnv(make(3))
    seen = envs.reset()
    assert envs.observation_space["action_mask"].n == 11
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert seen["observation"].shape == (3, 72)
        masks = np.stack(envs.env_method("action_masks"))
        assert (masks == seen["action_mask"]).all()
        seen, rewards, over, infos = envs.step(rng.integers(0, 11, 3))
        assert rewards.shape == over.shape == (3,)
        for replica in range(3):
            assert ("terminal_observation" in infos[replica]) == over[replica]
            if over[replica]:
                last = infos[replica]["terminal_observation"]
                assert last["action_mask"].tolist() == [0] * 10 + [1]
                assert infos[replica]["metrics"]["unfinished"] == 0
                assert not infos[replica]["TimeLimit.truncated"]


def test_a_truncated_episode_says_so():
    envs = MaskedVecEnv(make(2, max_decisions=5), mask_key=None)
    assert envs.reset().shape == (2, 72)
    for _ in range(5):
        _, _, over, infos = envs.step(np.full(2, 10))
    assert over.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [True, True]
    assert infos[0]["terminal_observation"].shape == (72,)


def test_seeds_are_those_of_the_replicas():
    envs = MaskedVecEnv(make(3))
    envs.seed(7)
    envs.reset()
    assert [info["seed"] for info in envs.reset_infos] == [7, 8, 9]


def test_single_environments_show_the_same():
    singles = [lambda: simkit.env.SchedulingEnv("deeprm") for _ in range(2)]
    fast, slow = (
        MaskedVecEnv(make(2)),
        MaskedVecEnv(SyncVectorEnv(singles, autoreset_mode="SameStep")),
    )
    for envs in (fast, slow):
        envs.seed(0)
    seen, there = fast.reset(), slow.reset()
    rng = np.random.default_rng(0)
    for _ in range(250):
        for key in seen:
            assert (seen[key] == there[key]).all()
        actions = rng.integers(0, 11, 2)
        seen, rewards, over, infos = fast.step(actions)
        there, *then, wanted = slow.step(actions)
        assert rewards == pytest.approx(then[0], rel=1e-6)
        assert (over == then[1]).all()
        assert [info.keys() for info in infos] == [info.keys() for info in wanted]


def test_another_autoreset_mode_is_refused():
    with pytest.raises(ScenarioError, match="SameStep"):
        MaskedVecEnv(gymnasium.make_vec("simkit/DeepRM-v0", num_envs=2))
