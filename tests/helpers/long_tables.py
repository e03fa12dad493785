"""Made-up results of a study: long tables from a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from simkit.learners.studies.results import COLUMNS

__all__ = ["made_up"]


def made_up(
    arms: Mapping[str, object], case: str, *metrics: str, items: Sequence[int] | None = None
) -> pl.DataFrame:
    """Return rows of the long table: each metric has the values of an arm on each item.

    Args:
        arms: arm → (I,) values of a rule, or (S, I) of trainings with the seeds 0, 1, …
        case: where.
        metrics: names.
        items: (I,) by default from 0.
    """
    rows = []
    for arm, values in arms.items():
        each = np.asarray(values, np.float64)
        seeds = [None] if each.ndim == 1 else range(len(each))
        for metric in metrics:
            for seed, row in zip(seeds, np.atleast_2d(each), strict=True):
                places = range(len(row)) if items is None else items
                pairs = zip(places, row.tolist(), strict=True)
                rows += [(arm, seed, case, item, metric, value) for item, value in pairs]
    return pl.DataFrame(rows, COLUMNS, orient="row")
