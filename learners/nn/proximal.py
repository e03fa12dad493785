"""Reuse of samples: the clipped objective of proximal policy optimisation (PPO).

A sample that an older policy drew counts by the ratio of the new probability of its action to the
old one; beyond 1 ± clip, in the direction that its advantage pulls, it counts no more, so that
several epochs over the same samples do not run away from the policy that drew them (Schulman et
al., "Proximal policy optimization algorithms", 2017, equation 7).
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Ints
from simkit.learners.nn.perceptron import Array, entropies


def clipped_objective(ratio: Array, advantage: Array, clip: float) -> Array:
    """Return min(ratio * advantage, clip(ratio) * advantage), (N,), for ascent.

    Args:
        ratio: (N,) new over old probability of the actions taken.
        advantage: (N,) in any unit.
        clip: how far from 1 a ratio still counts, above 0.
    """
    result: Array = np.minimum(ratio * advantage, np.clip(ratio, 1 - clip, 1 + clip) * advantage)
    return result


def clipped_pull(ratio: Array, advantage: Array, clip: float) -> Array:
    """Return the objective's derivative by the log-probabilities of the actions taken, (N,).

    It is ratio * advantage, and 0 where the ratio has left the range on the side that the
    advantage pulls to. At a ratio of 1 it is the advantage: plain REINFORCE.
    """
    done = np.where(advantage >= 0, ratio > 1 + clip, ratio < 1 - clip)
    return np.where(done, 0, ratio * advantage)


def pull_on_logits(probabilities: Array, actions: Ints, pull: Array) -> Array:
    """Return the derivative by the logits, (N, A), of sum(pull * log p(action)).

    Args:
        probabilities: (N, A) of a softmax policy; 0 for actions that may not be taken.
        actions: (N,) the actions taken.
        pull: (N,) the derivative by each log-probability.
    """
    result = -probabilities * pull[:, None]
    result[np.arange(len(actions)), actions] += pull
    return result


def entropy_pull(log_probabilities: Array) -> Array:
    """Return the derivative by the logits, (N, A), of the sum of the policies' entropies in nats.

    -p (log p + entropy), Williams and Peng, "Function optimization using connectionist
    reinforcement learning algorithms" (1991).

    Args:
        log_probabilities: (N, A); -inf for actions that may not be taken.
    """
    p = np.exp(log_probabilities)
    known = np.where(p > 0, log_probabilities, 0)
    result: Array = -p * (known + entropies(log_probabilities)[:, None])
    return result
