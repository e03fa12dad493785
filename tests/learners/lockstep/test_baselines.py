"""The baseline by decision: a mean over the rollouts of one job set."""

from __future__ import annotations

import numpy as np

from simkit.learners.lockstep.rollouts import decision_means


def test_rollouts_of_a_set_share_the_mean_and_ended_ones_count_as_0() -> None:
    returns = np.array(
        [  # two rollouts of set 0, two of set 1
            [-4.0, -2.0, -10.0, -20.0],
            [-3.0, 0.0, 0.0, -8.0],  # the second and third rollout are over
        ]
    )
    assert decision_means(returns, 2).tolist() == [[-3, -3, -15, -15], [-1.5, -1.5, -4, -4]]


def test_a_single_rollout_has_no_advantage() -> None:
    returns = np.random.default_rng(0).normal(size=(5, 3))
    assert (decision_means(returns, 1) == returns).all()


def test_without_a_decision_there_is_no_mean() -> None:
    assert decision_means(np.zeros((0, 6)), 2).shape == (0, 6)
