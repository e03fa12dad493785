"""A scorer of sets over the items that are there, for rollouts: empty places cost nothing.

A log's queue fills some ten of 64 places. The items of all games become the rows of one matrix,
which torch multiplies. The numbers are those of `SetScorer.with_summary`, to the bit wherever a
product's rows do not depend on their number, as those of MKL do not if there are sixteens of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Ints
from simkit.learners.networks.build import SetScorer
from simkit.machine_code import compiled

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
    most, scored = count * shape.items + 2 * SIXTEEN, shape.items * shape.scores
    where, features = np.empty((2, most), np.int64), np.empty((most, shape.features), np.float32)
    found = _find(seen, allowed[:, :scored], shape.context, shape.items, where, features)
    rows = -(-(found + 2) // SIXTEEN) * SIXTEEN  # two for the sums
    features[found:rows] = 0.0
    decision, place = where[:, :found]
    context = _product(scorer.context, torch.from_numpy(seen[:, : shape.context]))
    each = _product(scorer.item, torch.from_numpy(features[:rows]))
    mean = np.empty((count, shape.hidden), np.float32)
    _join(each.numpy(), context.numpy(), features, where, mean, found, shape.items)
    mean_of_places = torch.from_numpy(mean)
    combined = _product(scorer.beside, each)
    combined[:found].add_(_product(scorer.together, mean_of_places)[torch.from_numpy(decision)])
    scores = _product(scorer.score, combined.relu_()).numpy()
    logits = np.zeros((count, shape.outputs), np.float32)
    for score in range(shape.scores):
        logits[decision, score * shape.items + place] = scores[:found, score]
    summary = torch.cat((mean_of_places, torch.relu(context)), dim=-1)
    if shape.others:
        logits[:, scored:] = _product(
            scorer.other_score, torch.relu(_product(scorer.other, summary))
        ).numpy()
    return torch.from_numpy(logits), summary


def _product(layer: nn.Linear, rows: Tensor) -> Tensor:
    """Return what the layer returns, without what surrounds its call."""
    return linear(rows, layer.weight, layer.bias)


@compiled
def _find(
    seen: Numbers, allowed: Bools, context: int, items: int, where: Ints, features: Numbers
) -> int:
    """Find the items that are there or may be chosen; return how many.

    `where` becomes the decision and the place of each.
    """
    found, width = 0, features.shape[1]
    for one in range(seen.shape[0]):
        for item in range(items):
            first = context + item * width
            wanted = seen[one, first] != 0.0
            for action in range(item, allowed.shape[1], items):
                wanted = wanted or allowed[one, action]
            if wanted:
                where[0, found], where[1, found] = one, item
                for k in range(width):
                    features[found, k] = seen[one, first + k]
                found += 1
    return found


@compiled
def _join(
    each: Numbers, context: Numbers, features: Numbers, where: Ints, mean: Numbers, rows: int,
    items: int,
) -> None:  # fmt: skip
    """Make max(0, item + context) of each row, and fill the mean over all places of a decision.

    Places are added up by sixteens, and then these, as torch does for up to 256 of them.
    """
    none, row = np.float32(0.0), 0
    part, total = each[rows], each[rows + 1]
    for one in range(mean.shape[0]):
        total[:] = none
        while row < rows and where[0, row] == one:
            part[:] = none
            sixteen = where[1, row] // SIXTEEN
            while row < rows and where[0, row] == one and where[1, row] // SIXTEEN == sixteen:
                there = features[row, 0]
                for k in range(part.shape[0]):
                    each[row, k] = max(each[row, k] + context[one, k], none)
                    part[k] += each[row, k] * there
                row += 1
            for k in range(part.shape[0]):
                total[k] += part[k]
        for k in range(part.shape[0]):
            mean[one, k] = total[k] / np.float32(items)
