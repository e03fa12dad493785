"""Reward-to-go: what is still to come, by decision."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.learners.lockstep.rollouts import rewards_to_go

REWARDS = np.array([[-1.0, 0.0], [0.0, -2.0], [-3.0, 0.0]])  # (decision, episode)

CASES = [
    (1.0, [[-4, -2], [-3, -2], [-3, 0]]),
    (0.5, [[-1.75, -1], [-1.5, -2], [-3, 0]]),
    (0.0, [[-1, 0], [0, -2], [-3, 0]]),
]


@pytest.mark.parametrize(("discount", "expected"), CASES)
def test_returns_sum_what_is_to_come(discount: float, expected: list[list[float]]) -> None:
    assert rewards_to_go(REWARDS, discount).tolist() == expected


def test_an_almost_undiscounted_return_is_almost_the_undiscounted_one() -> None:
    """Two ways of summing, one for a discount of 1 and one for all others."""
    rewards = np.random.default_rng(0).normal(size=(50, 7))
    assert rewards_to_go(rewards, 1 - 1e-12) == pytest.approx(rewards_to_go(rewards))


def test_the_rewards_are_left_as_they_are() -> None:
    before = REWARDS.copy()
    rewards_to_go(REWARDS, 0.9)
    assert (before == REWARDS).all()
