"""Returns and advantages of N episodes side by side; arrays are (T, N), decisions by episodes.

After the end of an episode, rewards and values are 0.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Bools, Floats, Ints

__all__ = [
    "advantages_over_time",
    "deviation_by_group",
    "generalised_advantages",
    "rewards_to_go",
    "time_moved",
]


def rewards_to_go(rewards: Floats, discount: float = 1.0) -> Floats:
    """Return the sum of the rewards from each decision to the end of its episode.

    G[t] = r[t] + discount · G[t + 1] (R. S. Sutton and A. G. Barto, "Reinforcement learning",
    2018, equation 3.9). t counts decisions, not time steps: decisions between which no time passes
    are discounted as well.

    Args:
        rewards: (T, N)
        discount: from 0 to 1.

    Returns:
        (T, N) returns, 0 after an episode's end.
    """
    if discount == 1.0:
        return np.cumsum(rewards[::-1], axis=0)[::-1]
    returns = rewards.copy()
    for t in range(len(rewards) - 2, -1, -1):
        returns[t] += discount * returns[t + 1]
    return returns


def generalised_advantages(
    rewards: Floats, values: Floats, decay: float | Floats, discount: float = 1.0
) -> Floats:
    """Return how much better each decision turned out than its value.

    A[t] = δ[t] + discount · decay[t] · A[t + 1] with
    δ[t] = r[t] + discount · V[t + 1] - V[t] (J. Schulman, P. Moritz, S. Levine, M. Jordan and
    P. Abbeel, "High-dimensional continuous control using generalized advantage estimation", 2016,
    equation 16). A decay of 1 gives return - value, 0 the error of one step.

    Args:
        rewards: (T, N)
        values: (T, N) expected return at each decision.
        decay: λ, from 0 to 1; (T, N) if it differs between decisions, from each to the next.
        discount: from 0 to 1.
    """
    decays = np.broadcast_to(np.asarray(decay, np.float64), rewards.shape)
    advantages = np.zeros(rewards.shape)
    after, value_after = np.zeros(rewards.shape[1]), np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        error = rewards[t] + discount * value_after - values[t]
        advantages[t] = after = error + discount * decays[t] * after
        value_after = values[t]
    return advantages


def advantages_over_time(
    rewards: Floats, values: Floats, passed: Floats, discount: float, decay: float, cut: Bools
) -> Floats:
    """Return how much better each decision turned out than its value, where time passes unevenly.

    As `generalised_advantages`, but discount and decay are raised to the power of the time until
    the next decision: if no time passes, neither applies.

    Args:
        rewards: (T, N) reward of each decision, discounted to its own time.
        values: (T + 1, N) expected return at each decision, and after the last.
        passed: (T, N) time until the next decision.
        discount: γ per unit of time, from 0 to 1.
        decay: λ per unit of time, from 0 to 1.
        cut: (T, N) whether another episode begins after the decision; its outcome is then unknown,
            and its advantage 0.
    """
    advantages, after = np.zeros(rewards.shape), np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        error = rewards[t] + discount ** passed[t] * values[t + 1] - values[t]
        carried = error + (discount * decay) ** passed[t] * after
        advantages[t] = after = np.where(cut[t], 0.0, carried)
    return advantages


def time_moved(steps: Ints) -> Bools:
    """Return (T, N) whether time passes between a decision and the next of its episode.

    In slotted models many decisions share a time step. A decay that is below 1 only where time
    passes counts time, not decisions.

    Args:
        steps: (T, N) time step of each decision.
    """
    moved = np.ones(steps.shape, np.bool_)
    moved[:-1] = steps[1:] != steps[:-1]
    return moved


def deviation_by_group(values: Floats, group: Ints) -> Floats:
    """Return (D,) the standard deviation in each value's group; 1 if all its values are equal.

    Advantages are divided by it but not centred: a baseline has done that already, and if all
    decisions of a group were good, their advantages stay positive.

    Args:
        values: (D,)
        group: (D,) number of each value's group, from 0.
    """
    if not len(group):
        return np.ones(0)
    count = np.maximum(np.bincount(group), 1)
    mean = np.bincount(group, values) / count
    deviation = np.sqrt(np.bincount(group, (values - mean[group]) ** 2) / count)
    result: Floats = np.where(deviation > 0, deviation, 1.0)[group]
    return result
