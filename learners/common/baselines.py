"""Baselines that compare a decision with all rollouts of the same problem instance.

There are K episodes of each instance of the workload, such as a job set: episode n plays instance
n // K. The same jobs arrive in all K, so their differences are due to the actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simkit.arrays import Floats, Ints

__all__ = ["MovingMean", "decision_means", "rollout_means", "step_means"]


def rollout_means(
    rewards: Floats, to_go: Floats, steps: Ints, rollouts: int, *, by_step: bool
) -> Floats:
    """Return (T, N) `step_means` of undiscounted rewards, or `decision_means` of returns.

    Args:
        rewards: (T, N), 0 after an episode's end.
        to_go: (T, N) their returns from each decision on.
        steps: (T, N) time step of each decision.
        rollouts: K episodes of each instance.
        by_step: whether decisions at the same time step are compared; see `Source.in_steps`.
    """
    return step_means(rewards, steps, rollouts) if by_step else decision_means(to_go, rollouts)


def decision_means(returns: Floats, rollouts: int) -> Floats:
    """Return the mean return at each decision number, over the rollouts of an instance.

    H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
    learning" (2016), algorithm 1. A rollout that has ended counts as 0.

    Args:
        returns: (T, N) returns, 0 after an episode's end; T is 0 if no instance has a job.
        rollouts: K episodes of each instance; N is a multiple of it.

    Returns:
        (T, N) baseline of each return, equal for all rollouts of an instance.
    """
    decisions, episodes = returns.shape
    means = returns.reshape(decisions, episodes // rollouts, rollouts).mean(axis=2)
    return np.repeat(means, rollouts, axis=1)


def step_means(rewards: Floats, steps: Ints, rollouts: int) -> Floats:
    """Return the mean return from each decision's time step on, over the rollouts of an instance.

    `decision_means` compares decisions with the same number, although they lie at different times
    if rollouts place different numbers of jobs. This baseline compares them at the same time.

    Args:
        rewards: (T, N), 0 after an episode's end.
        steps: (T, N) time step of each decision, from 0; any number after the end.
        rollouts: K episodes of each instance; N is a multiple of it.

    Returns:
        (T, N) baseline of each return; a rollout that has ended counts as 0.
    """
    decisions, episodes = rewards.shape
    if not decisions:
        return np.zeros(rewards.shape)
    length = int(steps.max()) + 1
    place = np.arange(episodes) * length + steps
    by_step = np.bincount(place.ravel(), rewards.ravel(), episodes * length)
    returns = by_step.reshape(episodes, length)[:, ::-1].cumsum(axis=1)[:, ::-1]
    means = returns.reshape(episodes // rollouts, rollouts, length).mean(axis=1)
    result: Floats = means[np.arange(episodes) // rollouts, steps]
    return result


class MovingMean:
    """A mean that gives the latest numbers the most weight."""

    def __init__(self, share: float = 0.1, first: float | None = None) -> None:
        """Start at a prior estimate, or at 0 until the first number arrives.

        Args:
            share: weight of a new number; the n-th number weighs 1 / n if that is more.
            first: prior estimate, worth 1 / share numbers; None: none.
        """
        self._share = share
        self.value = 0.0 if first is None else float(first)
        self._count = 0 if first is None else round(1.0 / share)

    def take(self, number: float) -> None:
        """Add a number."""
        self._count += 1
        share = max(self._share, 1.0 / self._count)
        self.value += share * (float(number) - self.value)

    def state(self) -> dict[str, Any]:
        """Return the mean and the count of numbers."""
        return {"value": self.value, "count": self._count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.value, self._count = float(state["value"]), int(state["count"])
