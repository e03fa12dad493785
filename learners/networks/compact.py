"""A scorer of sets over the items that are there, for rollouts: empty places cost nothing.

A log's queue fills some ten of 64 places. The items of all games become the rows of one matrix,
which torch multiplies; what is between the products is compiled. The numbers are those of
`SetScorer.with_summary`, to the bit wherever a product's rows do not depend on their number, as
those of MKL do not if there are sixteens of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Ints
from simkit.learners.common.compiled import lean
from simkit.learners.networks.build import SetScorer

__all__ = ["with_summary"]

SIXTEEN: Final = 16
"""A matrix has a multiple of these rows, and torch adds up so many rows at a time."""


def with_summary(
    scorer: SetScorer, seen: npt.NDArray[Any], allowed: Bools
) -> tuple[Tensor, Tensor]:
    """Return logits and summaries as the scorer's own `with_summary` does, without gradients.

    Args:
        scorer: on the CPU.
        seen: (B, C + M · F) float32.
        allowed: (B, M · scores + others). The logits of an empty place that is not allowed are 0.
    """
    shape, count = scorer.shape, len(seen)
    most = count * shape.items + 2 * SIXTEEN
    decision, place = np.empty(most, np.int32), np.empty(most, np.int32)
    features = np.empty((most, shape.features), np.float32)
    chosen = allowed[:, : shape.items * shape.scores]
    found = _find(seen, chosen, shape.context, shape.items, decision, place, features)
    rows = -(-(found + 2) // SIXTEEN) * SIXTEEN  # two for the sums
    features[found:rows] = 0.0
    decision, place = decision[:found], place[:found]
    context = scorer.context(torch.from_numpy(seen[:, : shape.context]))
    each = scorer.item(torch.from_numpy(features[:rows]))
    mean = torch.empty((count, shape.hidden))
    _join(each.numpy(), context.numpy(), features, decision, place, mean.numpy(), shape.items)
    combined = scorer.beside(each)
    _add(combined.numpy(), scorer.together(mean).numpy(), decision)
    scores, logits = scorer.score(combined), torch.zeros((count, shape.outputs))
    _put(scores.numpy(), decision, place, shape.items, logits.numpy())
    summary = torch.cat((mean, torch.relu(context)), dim=-1)
    if shape.others:
        others = scorer.other_score(torch.relu(scorer.other(summary)))
        logits[:, shape.items * shape.scores :] = others
    return logits, summary


@lean
def _find(
    seen: Numbers, allowed: Bools, context: int, items: int, decision: Ints, place: Ints,
    features: Numbers,
) -> int:  # fmt: skip
    """Find the items that are there or may be chosen; return how many, decision by decision."""
    found, width = 0, features.shape[1]
    for one in range(seen.shape[0]):
        for item in range(items):
            first = context + item * width
            wanted = seen[one, first] != 0.0
            for action in range(item, allowed.shape[1], items):
                wanted = wanted or allowed[one, action]
            if wanted:
                decision[found], place[found] = one, item
                for k in range(width):
                    features[found, k] = seen[one, first + k]
                found += 1
    return found


@lean
def _join(
    each: Numbers, context: Numbers, features: Numbers, decision: Ints, place: Ints, mean: Numbers,
    items: int,
) -> None:  # fmt: skip
    """Make max(0, item + context) of each row, and fill the mean over all places of a decision.

    Places are added up by sixteens, and then these, as torch does for up to 256 of them.
    """
    none, rows, row = np.float32(0.0), decision.shape[0], 0
    part, total = each[rows], each[rows + 1]
    for one in range(mean.shape[0]):
        total[:] = none
        while row < rows and decision[row] == one:
            part[:] = none
            sixteen = place[row] // SIXTEEN
            while row < rows and decision[row] == one and place[row] // SIXTEEN == sixteen:
                there = features[row, 0]
                for k in range(part.shape[0]):
                    each[row, k] = max(each[row, k] + context[one, k], none)
                    part[k] += each[row, k] * there
                row += 1
            for k in range(part.shape[0]):
                total[k] += part[k]
        for k in range(part.shape[0]):
            mean[one, k] = total[k] / np.float32(items)


@lean
def _add(combined: Numbers, together: Numbers, decision: Ints) -> None:
    """Make max(0, combined + together) of each row."""
    none = np.float32(0.0)
    for row in range(decision.shape[0]):
        for k in range(combined.shape[1]):
            combined[row, k] = max(combined[row, k] + together[decision[row], k], none)


@lean
def _put(scores: Numbers, decision: Ints, place: Ints, items: int, logits: Numbers) -> None:
    """Put the scores of the rows where they belong."""
    for row in range(decision.shape[0]):
        for k in range(scores.shape[1]):
            logits[decision[row], k * items + place[row]] = scores[row, k]
