"""Action masks: a softmax over the actions that do something."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def masked_log_softmax(logits: Array, allowed: Bools | None = None) -> Array:
    """Return logits - log(sum(exp(logits))) over the actions that are allowed.

    A masked action has a probability of 0, so no gradient flows to its logit, and the others'
    probabilities keep their ratios.

    Args:
        logits: (…, A) finite numbers.
        allowed: (…, A) which actions may be taken, one at least in each row; None: all.

    Returns:
        (…, A) log-probabilities of the logits' type; -inf where not allowed.
    """
    if allowed is not None:
        logits = np.where(allowed, logits, logits.dtype.type(-np.inf))
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def sample(log_probabilities: Array, rng: np.random.Generator) -> Ints:
    """Draw an action from each row, (N,); one number of the generator a row.

    Args:
        log_probabilities: (N, A); an action at -inf is never drawn.
        rng: the generator.
    """
    below = np.exp(log_probabilities, dtype=np.float64).cumsum(axis=1)
    drawn = rng.random(len(below)) * below[:, -1]
    actions = (below <= drawn[:, None]).sum(axis=1)
    # rounding may put a draw on the very end of the range, past the last action that is allowed
    limited: Ints = np.minimum(actions, (below < below[:, -1:]).sum(axis=1))
    return limited


def entropies(log_probabilities: Array) -> Array:
    """Return the entropy of each row in nats, (N,), of (N, A) log-probabilities."""
    probabilities = np.exp(log_probabilities)
    terms = probabilities * np.where(probabilities > 0, log_probabilities, 0)
    result: Array = -terms.sum(axis=1)
    return result
