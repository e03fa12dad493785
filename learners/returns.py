"""Returns: what is still to come from each decision on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def rewards_to_go(rewards: Floats, discount: float = 1.0) -> Floats:
    """Return the sum of the rewards from each decision to the end of its episode.

    G[t] = r[t] + discount * G[t + 1] (Sutton and Barto, "Reinforcement learning", 2018, equation
    3.9). t counts decisions, not steps of time: those that leave time frozen are discounted, too.

    Args:
        rewards: (T, N) reward of each decision of N episodes; 0 after an episode's end.
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
