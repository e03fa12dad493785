"""Training examples for run times, ways to hold some of them out, and scores of classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces.elf_bursts import SIGNATURE
from simkit.traces.elf_bursts.measurements import CLASSES, LONGEST_S

__all__ = ["ClassScores", "Examples", "by_group", "by_size", "class_scores", "of_programs",
           "random_rows"]  # fmt: skip


@dataclass(frozen=True)
class Examples:
    """The features of n jobs, and how long they ran."""

    names: tuple[str, ...]
    """Names of the F features."""
    features: Floats
    """(n, F)"""
    run_time_s: Floats
    """(n,) above 0."""
    edges_s: Floats
    """(C - 1,) run times at which a class ends and the next begins, ascending."""

    def __len__(self) -> int:
        return len(self.run_time_s)

    @property
    def classes(self) -> int:
        """C, the number of classes."""
        return len(self.edges_s) + 1

    @property
    def label(self) -> Ints:
        """(n,) class of each run time, from 0."""
        return self.class_of(self.run_time_s)

    def class_of(self, run_time_s: Floats) -> Ints:
        """Return the classes, (m,), of (m,) run times."""
        return np.searchsorted(self.edges_s, run_time_s, side="right")

    def take(self, rows: Ints | Bools) -> Examples:
        """Return some of the examples."""
        return Examples(self.names, self.features[rows], self.run_time_s[rows], self.edges_s)

    def balanced(self, rng: np.random.Generator) -> Examples:
        """Return equally many examples of each class, as many as the rarest has, at random.

        Raises ValueError if a class has none.
        """
        label = self.label
        rarest = int(np.bincount(label, minlength=self.classes).min())
        if not rarest:
            raise ValueError("a class has no examples")
        rows = [rng.permutation(np.flatnonzero(label == k))[:rarest] for k in range(self.classes)]
        return self.take(np.sort(np.concatenate(rows)))


def of_programs(table: pl.DataFrame) -> Examples:
    """Return the examples in a table from `read_bursts`; ten classes divide 0.3 s equally."""
    return Examples(
        SIGNATURE,
        table.select(SIGNATURE).to_numpy().astype(np.float64),
        table["run_time_s"].to_numpy(),
        np.arange(1.0, CLASSES) * (LONGEST_S / CLASSES),
    )


def random_rows(count: int, share: float, rng: np.random.Generator) -> Bools:
    """Return (count,) which rows to hold out: a share of all, drawn at random.

    If there are near duplicates of held-out rows among the others, the score tells how well a model
    remembers them.
    """
    held_out = np.zeros(count, np.bool_)
    held_out[rng.permutation(count)[: round(share * count)]] = True
    return held_out


def by_group(group: Sequence[str], share: float, rng: np.random.Generator) -> Bools:
    """Return (n,) which rows to hold out: all rows of a share of the groups.

    At least one group is held out, and at least one is not; raises ValueError if there are fewer
    than two groups.
    """
    numbers = np.unique(group, return_inverse=True)[1]
    groups = int(numbers.max(initial=-1)) + 1
    if groups < 2:
        raise ValueError("there must be at least two groups")
    chosen = rng.permutation(groups)[: min(max(1, round(share * groups)), groups - 1)]
    return np.isin(numbers, chosen)


def by_size(group: Sequence[str], size: Ints, share: float, rng: np.random.Generator) -> Bools:
    """Return (n,) which rows to hold out: those of one range of sizes in each group.

    Unless the range is at an end, the model sees smaller and larger sizes of the same group.

    Args:
        group: (n,) group of each row.
        size: (n,) size of each row.
        share: share of each group's rows to hold out.
        rng: draws where each range begins.
    """
    numbers = np.unique(group, return_inverse=True)[1]
    held_out = np.zeros(len(size), np.bool_)
    for number in range(int(numbers.max(initial=-1)) + 1):
        rows = np.flatnonzero(numbers == number)
        rows = rows[np.argsort(size[rows], kind="stable")]
        width = round(share * len(rows))
        start = int(rng.integers(len(rows) - width + 1))
        held_out[rows[start : start + width]] = True
    return held_out


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
