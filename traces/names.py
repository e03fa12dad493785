"""Names of users, groups, queues, … as a log has them: a workload holds them as numbers."""

from __future__ import annotations

import polars as pl

from simkit.arrays import Ints


def number_names(names: pl.Series, known: dict[str, int]) -> Ints:
    """Return (n,) the numbers of names, in order of appearance; -1 for an empty one or null.

    Args:
        names: (n,) text.
        known: the names so far with their numbers, from 0; new ones are added.
    """
    for name in names.unique(maintain_order=True):
        if name:
            known.setdefault(name, len(known))
    return names.replace_strict(known, default=-1, return_dtype=pl.Int64).to_numpy()
