"""Returns, credit and advantages of N episodes side by side.

Arrays are (T, N), decisions by episodes; after the end of an episode, rewards and values are 0.
Credit compares a decision with all K episodes of its slice: episode n plays slice n // K. The same
jobs arrive in all K, so their differences are due to the actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simkit.arrays import Bools, Floats, Ints

__all__ = [
    "Credit", "MovingMean", "advantages_over_time", "credit", "deviation_by_group",
    "generalised_advantages", "rewards_to_go", "time_moved",
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


@dataclass(frozen=True)
class Credit:
    """What each decision of N episodes earned from then on, and what is usual there; all (T, N)."""

    rewards: Floats
    """Rewards, as shares of the magnitude of their slice's mean return if that is asked for."""
    returns: Floats
    """Their sums from each decision to the end of its episode."""
    usual: Floats
    """The mean of these over the slice's episodes, from the same time step on or at the same
    decision."""

    @property
    def gain(self) -> Floats:
        """By how much a decision earned more than is usual."""
        return self.returns - self.usual


def credit(
    rewards: Floats, steps: Ints, rollouts: int, *, by_step: bool, relative: bool = False,
    discount: float = 1.0,
) -> Credit:  # fmt: skip
    """Compare what each decision earned with the mean over the episodes of its slice.

    The mean at the same decision is the baseline of H. Mao, M. Alizadeh, I. Menache and S. Kandula,
    "Resource management with deep reinforcement learning" (2016), algorithm 1. It compares
    decisions at different times if episodes place different numbers of jobs; the mean from the same
    time step on compares them at the same time. A baseline that is a function of the state takes
    out what no action changes, and leaves the best policy the same (A. Y. Ng, D. Harada and S.
    Russell, "Policy invariance under reward transformations", 1999).

    Args:
        rewards: (T, N), 0 after an episode's end; T is 0 if no slice has a job.
        steps: (T, N) time step of each decision, from 0; any number after the end.
        rollouts: K episodes of each slice; N is a multiple of it.
        by_step: whether the mean is that from the same time step on, which is not discounted, or at
            the same decision. An episode that has ended counts as 0.
        relative: whether rewards count as shares of the magnitude of their slice's mean return.
            Half the waits are as good where all wait for days as where they wait for seconds, and a
            slice in which no decision matters much counts little; in deviations of its own it would
            count as much as any other.
        discount: factor per decision.
    """
    if relative:
        means = np.abs(rewards.sum(axis=0).reshape(-1, rollouts).mean(axis=1))
        rewards = rewards / np.repeat(np.where(means > 0, means, 1.0), rollouts)
    returns = rewards_to_go(rewards, discount)
    usual = _from_step(rewards, steps, rollouts) if by_step else _at_decision(returns, rollouts)
    return Credit(rewards, returns, usual)


def _at_decision(returns: Floats, rollouts: int) -> Floats:
    """Return (T, N) the mean of (T, N) returns at each decision number over a slice's episodes."""
    decisions, episodes = returns.shape
    means = returns.reshape(decisions, episodes // rollouts, rollouts).mean(axis=2)
    return np.repeat(means, rollouts, axis=1)


def _from_step(rewards: Floats, steps: Ints, rollouts: int) -> Floats:
    """Return (T, N) the mean of later rewards, from each decision's time step on."""
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
