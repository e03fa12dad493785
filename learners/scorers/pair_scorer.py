"""A scorer of pairs of a machine and a task: a weighted sum of features plus tanh layers.

Two sets of features are known. ``paper`` is that of F. Li and B. Hu, "DeepJS: Job scheduling based
on deep reinforcement learning in cloud data center" (ICBDC 2019): free amounts, request, run time
and the instances left. ``terms`` is that of `simkit.policy.remaining_work`, whose numbers do not
depend on the units or the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import tanh
from typing import Final, Literal

import numpy as np

from simkit.arrays import Floats
from simkit.learners.networks.inference import WeightedScorer
from simkit.policy.remaining_work import FIT_TERMS, URGENCY_TERMS

__all__ = ["RULES", "TERMS", "FeatureSet", "PairScorer", "RuleName", "feature_names"]

FeatureSet = Literal["paper", "terms"]
RuleName = Literal["balance", "longest", "work", "longest-cosine", "work-cosine"]

TERMS: Final = (*URGENCY_TERMS, *FIT_TERMS)
"""Names of the features of the set ``terms``."""


def feature_names(features: FeatureSet, resources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features of a set, in order; of ``paper`` 2 R + 2."""
    if features == "terms":
        return TERMS
    return (
        *(f"free_{name}" for name in resources),
        *(f"request_{name}" for name in resources),
        "run_time_s",
        "instances_left",
    )


PAPER_SHIFT: Final = (0.0, 0.0, 0.65, 0.009, 74.0, 80.3)
PAPER_SCALE: Final = (64.0, 1.0, 0.23, 0.005, 108.0, 643.5)
"""DeepJS shows a feature x as (x - shift) / scale; made for machines of 64 cores and memory 1."""


@dataclass(frozen=True)
class PairScorer(WeightedScorer):
    """The weights of a scorer of F features: a weighted sum and L tanh layers.

    With features x and z = (x - shift) / scale the score is linear·z + network(z).
    """

    features: FeatureSet
    shift: Floats
    """(F,)"""
    scale: Floats
    """(F,) above 0."""
    linear: Floats
    """(F,)"""
    layers: tuple[tuple[Floats, Floats], ...] = ()
    """(in, out) weights and (out,) biases of each layer, the last with one output and no tanh.

    None: the weighted sum alone."""

    @classmethod
    def by_terms(cls, weights: Mapping[str, float], hidden: Sequence[int] = ()) -> PairScorer:
        """Return a weighted sum of terms by name; its network, if it has one, scores 0."""
        width = len(TERMS)
        layers = (width, *hidden, 1) if hidden else (width,)
        blank = cls.blank("terms", np.zeros(width), np.ones(width), layers)
        for name, weight in weights.items():
            blank.linear[TERMS.index(name)] = weight
        return blank

    @classmethod
    def of_paper(cls, hidden: Sequence[int] = (3, 9, 6)) -> PairScorer:
        """Return DeepJS's network for cpu and memory, with weights of 0."""
        shift, scale = np.array(PAPER_SHIFT), np.array(PAPER_SCALE)
        widths = (len(shift), *hidden, 1) if hidden else (len(shift),)
        return cls.blank("paper", shift, scale, widths)

    @classmethod
    def blank(
        cls, features: FeatureSet, shift: Floats, scale: Floats, widths: Sequence[int]
    ) -> PairScorer:
        """Return a scorer with weights of 0; `widths` as below."""
        layers = tuple((np.zeros(pair), np.zeros(pair[1])) for pair in pairwise(widths))
        return cls(features, shift, scale, np.zeros(len(shift)), layers)

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs of each layer, then the outputs of the last; F alone without a network."""
        if not self.layers:
            return (len(self.linear),)
        return (*(len(weight) for weight, _ in self.layers), 1)

    @property
    def weights(self) -> dict[str, Floats]:
        """The arrays by name, as in a bundle: ``linear``, ``layers.0.weight``, …."""
        named = {"linear": self.linear}
        for number, (weight, bias) in enumerate(self.layers):
            named |= {f"layers.{number}.weight": weight, f"layers.{number}.bias": bias}
        return named

    def with_weights(self, weights: Mapping[str, Floats]) -> PairScorer:
        linear, *arrays = weights.values()
        layers = tuple(zip(arrays[::2], arrays[1::2], strict=True))
        return replace(self, linear=linear, layers=layers)

    def scores(self, features: Floats) -> Floats:
        """Return (P,) scores of (P, F) features.

        Equal rows have equal scores, to the bit, and those of the compiled model: sums are formed
        one number after the other, not by a matrix product, whose order depends on a row's place.
        """
        seen = (features - self.shift) / self.scale
        total = _weighted(seen, self.linear[:, None])[:, 0]
        for number, (weight, bias) in enumerate(self.layers):
            seen = _weighted(seen, weight) + bias
            if number + 1 < len(self.layers):
                seen = np.asarray(_tanh(seen), np.float64)
        return total + seen[:, 0] if self.layers else total


_tanh: Final = np.frompyfunc(tanh, 1, 1)
"""That of the C library, as numba's; NumPy's differs from it in the last bit, and this would decide
which of two machines gets a task if rounding is all that tells their free amounts apart."""


def _weighted(seen: Floats, weight: Floats) -> Floats:
    """Return (P, out) of (P, in) and (in, out)."""
    total: Floats = seen[:, :1] * weight[0]
    for k in range(1, len(weight)):
        total = total + seen[:, k : k + 1] * weight[k]
    return total


RULES: Final[Mapping[RuleName, PairScorer]] = {
    "balance": PairScorer.by_terms({"urgency": 1.0, "balance": 1.0, "cosine": 0.5}),
    "longest": PairScorer.by_terms({"log_time": 1.0, "imbalance_after": -0.001}),
    "work": PairScorer.by_terms(
        {"time": 1.0, "work": 1.0, "balance": 2.0, "imbalance_after": -0.001}
    ),
    "longest-cosine": PairScorer.by_terms({"time": 1.0, "cosine": 0.5}),
    "work-cosine": PairScorer.by_terms({"time": 1.0, "work": 1.0, "cosine": 0.5}),
}
"""Simple rules as weighted sums of terms; the lookahead chooses among them."""
