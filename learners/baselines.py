"""Baselines: what is taken off a return, so that a decision is credited with what it changed.

The alternative that learns, a value network, is in `value_baseline`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def decision_means(returns: Floats, rollouts: int) -> Floats:
    """Return the mean return, decision by decision, over the rollouts of the same job set.

    Mao et al., "Resource management with deep reinforcement learning" (2016), algorithm 1. The jobs
    that come are the same in all of them, so that what differs is owed to the actions. A rollout
    that is over has nothing to come: it counts as 0.

    Args:
        returns: (T, N) returns, 0 after an episode's end; episodes n // rollouts are of one job
            set. T is 0 if no job set has a job.
        rollouts: episodes of each job set; N is a multiple of it.

    Returns:
        (T, N) the baseline of each return; the same for all rollouts of a job set.
    """
    decisions, episodes = returns.shape
    means = returns.reshape(decisions, episodes // rollouts, rollouts).mean(axis=2)  # (T, job sets)
    return np.repeat(means, rollouts, axis=1)
