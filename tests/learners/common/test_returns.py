"""Returns, advantages and baselines, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.learners.common.returns import (
    credit,
    deviation_by_group,
    generalised_advantages,
    rewards_to_go,
    time_moved,
)

seeds = st.integers(0, 2**32 - 1)


def episodes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (T, N) rewards, values and steps of time of episodes of different lengths."""
    rng = np.random.default_rng(seed)
    longest, count = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    over = np.arange(longest)[:, None] >= rng.integers(1, longest + 1, count)
    rewards, values = rng.normal(size=(2, longest, count))
    steps = rng.integers(0, 2, (longest, count)).cumsum(axis=0)
    return np.where(over, 0, rewards), np.where(over, 0, values), steps


@given(seeds, st.floats(0, 1), st.floats(0, 1))
def test_it_is_the_sum_of_later_errors(seed, decay, discount):
    """A[t] = Σ_l (γλ)^l δ[t + l], equation 16 of the paper, with λ where time moves and else 1."""
    rewards, values, steps = episodes(seed)
    decays = np.where(time_moved(steps), decay, 1.0)
    after = np.vstack([values[1:], np.zeros(values.shape[1])])
    errors = rewards + discount * after - values
    expected = np.zeros(rewards.shape)
    for n in range(rewards.shape[1]):
        for t in range(len(rewards)):
            weight = 1.0
            for later in range(t, len(rewards)):
                expected[t, n] += weight * errors[later, n]
                moved = later + 1 == len(rewards) or steps[later + 1, n] != steps[later, n]
                weight *= discount * (decay if moved else 1.0)
    assert np.allclose(generalised_advantages(rewards, values, decays, discount), expected)


REWARDS = np.array([[-1.0, 0.0], [0.0, -2.0], [-3.0, 0.0]])  # (decision, episode)

CASES = [
    (1.0, [[-4, -2], [-3, -2], [-3, 0]]),
    (0.5, [[-1.75, -1], [-1.5, -2], [-3, 0]]),
    (0.0, [[-1, 0], [0, -2], [-3, 0]]),
]


@pytest.mark.parametrize(("discount", "expected"), CASES)
def test_returns_sum_later_rewards(discount, expected):
    assert rewards_to_go(REWARDS, discount).tolist() == expected


def test_each_group_has_its_own_deviation():
    advantages = np.array([1.0, 10.0, 3.0, 30.0, 7.0])
    deviation = deviation_by_group(advantages, np.array([0, 2, 0, 2, 3]))
    assert deviation.tolist() == [1, 10, 1, 10, 1]
    assert deviation_by_group(np.zeros(0), np.zeros(0, np.int64)).shape == (0,)


# --- credit ---------------------------------------------------------------------------------------


def test_by_decision_rollouts_share_the_mean_and_ended_ones_count_as_0():
    rewards = np.array(
        [[-2.0, 2.0, 0.0, 2.0], [6.0, 0.0, 1.0, 1.0]]
    )  # two slices, two episodes each
    earned = credit(rewards, np.zeros((2, 4), np.int64), 2, by_step=False)
    assert earned.returns.tolist() == [[4, 2, 1, 3], [6, 0, 1, 1]]
    assert earned.usual.tolist() == [[3, 3, 2, 2], [3, 3, 1, 1]]
    assert earned.gain.tolist() == [[1, -1, -1, 1], [3, -3, 0, 0]]


@given(seeds)
def test_by_step_it_is_the_mean_of_sums_written_out(seed):
    rng = np.random.default_rng(seed)
    decisions, sets, rollouts = (int(n) for n in rng.integers(1, 5, 3))
    count = sets * rollouts
    rewards = rng.normal(size=(decisions, count))
    steps = rng.integers(0, 2, (decisions, count)).cumsum(axis=0)
    usual = credit(rewards, steps, rollouts, by_step=True).usual
    for n in range(count):
        same = [m for m in range(count) if m // rollouts == n // rollouts]
        for t in range(decisions):
            to_come = [rewards[steps[:, m] >= steps[t, n], m].sum() for m in same]
            assert np.isclose(usual[t, n], np.mean(to_come))


@pytest.mark.parametrize("by_step", [False, True])
def test_without_a_decision_there_is_no_mean(by_step):
    earned = credit(np.zeros((0, 4)), np.zeros((0, 4), np.int64), 2, by_step=by_step)
    assert earned.usual.shape == (0, 4)


def test_rewards_are_shares_of_their_slices_mean_return():
    # two slices, two rollouts each: mean returns of -8 and 0
    rewards = np.array([[-2.0, -6.0, 1.0, -2.0], [-4.0, -4.0, 1.0, 0.0]])
    steps = np.zeros((2, 4), np.int64)

    def shares(of):
        return credit(of, steps, 2, by_step=False, relative=True).rewards

    assert shares(rewards).tolist() == [[-0.25, -0.75, 1.0, -2.0], [-0.5, -0.5, 1.0, 0.0]]
    assert shares(1e6 * rewards)[:, :2].tolist() == [[-0.25, -0.75], [-0.5, -0.5]]
