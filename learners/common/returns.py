"""Returns, baselines and advantages of N episodes side by side.

Arrays are (T, N), decisions by episodes; after the end of an episode, rewards and values are 0.
Baselines compare a decision with all K rollouts of the same problem instance, such as a job set:
episode n plays instance n // K. The same jobs arrive in all K, so their differences are due to the
actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simkit.arrays import Bools, Floats, Ints

__all__ = [
    "MovingMean", "advantages_over_time", "decision_means", "deviation_by_group",
    "generalised_advantages", "rewards_to_go", "rollout_means", "slice_shares", "step_means",
    "time_moved",
]  # fmt: skip


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


def slice_shares(rewards: Floats, rollouts: int) -> Floats:
    """Return rewards as shares of the magnitude of their slice's mean return.

    Half the waits are as good where all wait for days as where they wait for seconds, and a slice
    in which no decision matters much counts little; in deviations of its own it would count as much
    as any other.

    Args:
        rewards: (T, N), 0 after an episode's end.
        rollouts: K episodes of each slice; N is a multiple of it.

    Returns:
        (T, N), unchanged where the mean return is 0.
    """
    means = np.abs(rewards.sum(axis=0).reshape(-1, rollouts).mean(axis=1))
    result: Floats = rewards / np.repeat(np.where(means > 0, means, 1.0), rollouts)
    return result


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
