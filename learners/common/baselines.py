"""Baselines from the other rollouts of the same instance: what a decision is compared with.

N episodes are of N / K instances of the workload, such as job sets: episodes n // K are of one.
The same jobs arrive in all of them, so that differences are due to the actions.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Floats, Ints

__all__ = ["decision_means", "step_means"]


def decision_means(returns: Floats, rollouts: int) -> Floats:
    """Return the mean return at the same decision's number, over the rollouts of an instance.

    H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
    learning" (2016), algorithm 1. A rollout that is over counts as 0.

    Args:
        returns: (T, N) returns, 0 after an episode's end; T is 0 if no instance has a job.
        rollouts: K episodes of each instance; N is a multiple of it.

    Returns:
        (T, N) the baseline of each return; the same for all rollouts of an instance.
    """
    decisions, episodes = returns.shape
    means = returns.reshape(decisions, episodes // rollouts, rollouts).mean(axis=2)
    return np.repeat(means, rollouts, axis=1)


def step_means(rewards: Floats, steps: Ints, rollouts: int) -> Floats:
    """Return the mean return from the same step of time on, over the rollouts of an instance.

    `decision_means` compares decisions of the same number, which lie at different times where
    rollouts place different numbers of jobs; here the time is the same.

    Args:
        rewards: (T, N), 0 after an episode's end.
        steps: (T, N) the step of time of each decision, from 0; any number after the end.
        rollouts: K episodes of each instance; N is a multiple of it.

    Returns:
        (T, N); what a rollout that is over has to come counts as 0.
    """
    decisions, episodes = rewards.shape
    if not decisions:
        return np.zeros(rewards.shape)
    length = int(steps.max()) + 1
    place = np.arange(episodes) * length + steps
    by_step = np.bincount(place.ravel(), rewards.ravel(), episodes * length)
    to_come = by_step.reshape(episodes, length)[:, ::-1].cumsum(axis=1)[:, ::-1]
    means = to_come.reshape(episodes // rollouts, rollouts, length).mean(axis=1)
    result: Floats = means[np.arange(episodes) // rollouts, steps]
    return result
