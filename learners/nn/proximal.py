"""Reuse of samples: the clipped objective of proximal policy optimisation (PPO).

A sample that an older policy drew is weighted by the ratio of the new probability of its action to
the old one. The objective is min(ratio * advantage, clip(ratio) * advantage), where clip limits the
ratio to 1 ± clip. So several epochs over the same samples do not move the policy far from the one
that drew them (Schulman et al., "Proximal policy optimization algorithms", 2017, equation 7).
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Ints
from simkit.learners.nn.perceptron import Array, entropies


def clipped_pull(ratio: Array, advantage: Array, clip: float) -> Array:
    """Return the objective's derivative by the log-probabilities of the actions taken, (N,).

    It is ratio * advantage, but 0 if the objective is clipped. At a ratio of 1 it is the advantage,
    as in REINFORCE.

    Args:
        ratio: (N,) new over old probability of the actions taken.
        advantage: (N,) in any unit.
        clip: how far from 1 a ratio still counts, above 0.
    """
    clipped = np.where(advantage >= 0, ratio > 1 + clip, ratio < 1 - clip)
    return np.where(clipped, 0, ratio * advantage)


def pull_on_logits(probabilities: Array, actions: Ints, pull: Array) -> Array:
    """Return the derivative by the logits, (N, A), of sum(pull * log p(action)).

    Args:
        probabilities: (N, A) of a softmax policy; 0 for masked actions.
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
        log_probabilities: (N, A); -inf for masked actions.
    """
    p = np.exp(log_probabilities)
    known = np.where(p > 0, log_probabilities, 0)
    result: Array = -p * (known + entropies(log_probabilities)[:, None])
    return result
