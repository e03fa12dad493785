"""Baselines: means over the rollouts of one instance, by decision and by step of time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simkit.learners.common.baselines import decision_means, step_means


def test_by_decision_rollouts_share_the_mean_and_ended_ones_count_as_0():
    returns = np.array([[4.0, 2.0, 1.0, 3.0], [6.0, 0.0, 1.0, 1.0]])
    assert decision_means(returns, 2).tolist() == [[3, 3, 2, 2], [3, 3, 1, 1]]


@given(st.integers(0, 2**32 - 1))
def test_by_step_it_is_the_mean_of_sums_written_out(seed):
    rng = np.random.default_rng(seed)
    decisions, sets, rollouts = (int(n) for n in rng.integers(1, 5, 3))
    count = sets * rollouts
    rewards = rng.normal(size=(decisions, count))
    steps = rng.integers(0, 2, (decisions, count)).cumsum(axis=0)
    found = step_means(rewards, steps, rollouts)
    for n in range(count):
        same = [m for m in range(count) if m // rollouts == n // rollouts]
        for t in range(decisions):
            to_come = [rewards[steps[:, m] >= steps[t, n], m].sum() for m in same]
            assert np.isclose(found[t, n], np.mean(to_come))


def test_without_a_decision_there_is_no_mean():
    assert decision_means(np.zeros((0, 4)), 2).shape == (0, 4)
    assert step_means(np.zeros((0, 4)), np.zeros((0, 4), np.int64), 2).shape == (0, 4)
