"""Stable-Baselines3 and sb3-contrib train on the environment as on any other."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")
stable_baselines3 = pytest.importorskip("stable_baselines3")
sb3_contrib = pytest.importorskip("sb3_contrib")

from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402

from simkit.env import SchedulingEnv  # noqa: E402

pytestmark = pytest.mark.thorough

STEPS = 2048


def trained(algorithm, env=None):
    """Return a small agent after a few thousand steps."""
    learner = algorithm(
        "MlpPolicy", env or SchedulingEnv("deeprm"), n_steps=512, batch_size=128, n_epochs=4,
        seed=3, device="cpu", policy_kwargs={"net_arch": [16]},
    )  # fmt: skip
    return learner.learn(STEPS)


def weights(learner):
    return np.concatenate([p.detach().numpy().ravel() for p in learner.policy.parameters()])


def test_its_checker_has_nothing_to_say():
    check_env(SchedulingEnv("deeprm"))


def test_ppo_trains_and_a_seed_gives_the_same_weights():
    monitor = Monitor(SchedulingEnv("deeprm"))
    one, again = trained(stable_baselines3.PPO, monitor), trained(stable_baselines3.PPO)
    assert one.num_timesteps == STEPS
    assert len(monitor.get_episode_rewards()) > 5
    assert max(monitor.get_episode_rewards()) < 0
    assert np.isfinite(weights(one)).all()
    assert np.array_equal(weights(one), weights(again))


def test_maskable_ppo_takes_no_action_that_places_nothing():
    taken = []

    class Watched(SchedulingEnv):
        def step(self, action):
            taken.append(bool(self.action_masks()[action]))
            return super().step(action)

    learner = trained(sb3_contrib.MaskablePPO, Watched("deeprm"))
    assert learner.num_timesteps == STEPS == len(taken)
    assert all(taken)
