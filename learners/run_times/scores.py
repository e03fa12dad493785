"""Scores of run time classifiers: precision, recall, F1, and calibration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints

__all__ = [
    "Calibration", "ClassScores", "calibration", "calibration_of", "class_scores", "guess",
    "majority",
]  # fmt: skip


class ClassScores(NamedTuple):
    """Scores of each of C classes, 0 where they are undefined.

    C. J. van Rijsbergen, "Information retrieval" (1979).
    """

    precision: Floats
    """(C,) share of the examples predicted to be in a class that are."""
    recall: Floats
    """(C,) share of the examples in a class that are predicted to be."""
    f1: Floats
    """(C,) harmonic mean of precision and recall."""
    examples: Ints
    """(C,) number of examples in each class."""

    @property
    def macro_f1(self) -> float:
        """The unweighted mean F1 of the classes."""
        return float(self.f1.mean())


def class_scores(truth: Ints, predicted: Ints, classes: int) -> ClassScores:
    """Return the scores of (n,) predicted classes, from 0."""
    right, positive, actual = (
        np.bincount(labels, minlength=classes)
        for labels in (truth[truth == predicted], predicted, truth)
    )
    precision, recall = right / np.maximum(positive, 1), right / np.maximum(actual, 1)
    return ClassScores(precision, recall, 2 * right / np.maximum(positive + actual, 1), actual)


class Calibration(NamedTuple):
    """Confidence against accuracy in B bins of confidence, of equal width."""

    sure: Floats
    """(B,) mean probability of the predicted class; NaN where the bin is empty."""
    right: Floats
    """(B,) share of predictions that are right; NaN where the bin is empty."""
    examples: Ints
    """(B,) number of examples."""

    @property
    def error(self) -> float:
        """The expected calibration error: mean |confidence - accuracy|, weighted by examples.

        M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities
        using Bayesian binning" (2015).
        """
        gaps = np.abs(np.nan_to_num(self.sure - self.right))
        return float((gaps * self.examples).sum() / max(self.examples.sum(), 1))


def calibration_of(truth: Ints, probabilities: Floats, bins: int = 10) -> Calibration:
    """Return the calibration of (n, C) probabilities against (n,) true classes."""
    return calibration(probabilities.max(axis=1), probabilities.argmax(axis=1) == truth, bins)


def calibration(sure: Floats, right: Bools, bins: int = 10) -> Calibration:
    """Return the calibration of predictions.

    Args:
        sure: (n,) probability that the model gives each prediction.
        right: (n,) whether it is right.
        bins: B.
    """
    place = np.minimum((sure * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_sure, mean_right = (np.bincount(place, each, bins) / count for each in (sure, right))
    return Calibration(mean_sure, mean_right, count)


def majority(truth: Ints, count: int) -> Ints:
    """Return the most frequent true class `count` times, as a baseline."""
    return np.full(count, np.bincount(truth).argmax())


def guess(feature: Floats, truth: Ints, asked: Floats, neighbours: int = 5) -> Ints:
    """Return (m,) classes from one feature alone: the most frequent among the nearest examples.

    Args:
        feature: (n,) the feature of the examples.
        truth: (n,) classes of the examples.
        asked: (m,) the feature of the queries.
        neighbours: number of examples that vote.
    """
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(neighbours).fit(feature[:, None], truth)
    classes: Ints = model.predict(asked[:, None])
    return classes
