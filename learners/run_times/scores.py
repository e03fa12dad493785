"""How well classes of run times are predicted: precision, recall, F1, and calibration."""

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
    """(C,) of the examples taken for the class, the share that is of it."""
    recall: Floats
    """(C,) of the examples of the class, the share taken for it."""
    f1: Floats
    """(C,) the harmonic mean of the two."""
    examples: Ints
    """(C,) of each class."""

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes, each counted alike."""
        return float(self.f1.mean())


def class_scores(truth: Ints, predicted: Ints, classes: int) -> ClassScores:
    """Return the scores of (n,) predicted classes, from 0."""
    right = np.bincount(truth[truth == predicted], minlength=classes)
    taken, there = (np.bincount(each, minlength=classes) for each in (predicted, truth))
    f1 = 2 * right / np.maximum(taken + there, 1)
    return ClassScores(right / np.maximum(taken, 1), right / np.maximum(there, 1), f1, there)


class Calibration(NamedTuple):
    """How often predictions are right, beside how sure the model is; (B,) bins of equal width."""

    sure: Floats
    """Mean probability of the predicted class in each bin; NaN where it is empty."""
    right: Floats
    """Share of predictions that are right."""
    examples: Ints
    """In each bin."""

    @property
    def error(self) -> float:
        """The expected calibration error: the mean difference of the two, over examples.

        M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities
        using Bayesian binning" (2015).
        """
        gaps = np.abs(np.nan_to_num(self.sure - self.right))
        return float((gaps * self.examples).sum() / max(self.examples.sum(), 1))


def calibration_of(truth: Ints, probabilities: Floats, bins: int = 10) -> Calibration:
    """Return the calibration of (n, C) probabilities of (n,) true classes."""
    return calibration(probabilities.max(axis=1), probabilities.argmax(axis=1) == truth, bins)


def calibration(sure: Floats, right: Bools, bins: int = 10) -> Calibration:
    """Return the calibration of (n,) probabilities of predictions that are right or not."""
    at = np.minimum((sure * bins).astype(np.int64), bins - 1)
    count = np.bincount(at, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_sure, mean_right = (np.bincount(at, each, bins) / count for each in (sure, right))
    return Calibration(mean_sure, mean_right, count)


def majority(truth: Ints, count: int) -> Ints:
    """Return (count,) the most frequent of some true classes, as a baseline."""
    return np.full(count, np.bincount(truth).argmax())


def guess(feature: Floats, truth: Ints, asked: Floats, neighbours: int = 5) -> Ints:
    """Return (m,) classes by one feature alone: the most frequent among the nearest examples.

    Args:
        feature: (n,) of the examples.
        truth: (n,) their classes.
        asked: (m,) feature of what is asked about.
        neighbours: how many examples answer.
    """
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(neighbours).fit(feature[:, None], truth)
    most: Ints = model.predict(asked[:, None])
    return most
