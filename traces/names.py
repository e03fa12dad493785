"""Ids, and names of users, groups, queues, …, as a log has them: as numbers where they are."""

from __future__ import annotations

from typing import Final

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


EXACT: Final = 2.0**53
"""Whole numbers that are written as floats must be below: above, doubles skip some."""


def whole_numbers(words: pl.Series) -> pl.Series:
    """Return (n,) text as Int64: 7, and 7.0 as data frames write it; null for anything else."""
    exact = words.cast(pl.Int64, strict=False)
    if exact.null_count() == words.null_count():
        return exact
    number = words.cast(pl.Float64, strict=False)
    whole = (number.floor() == number) & (number.abs() < EXACT)
    return exact.fill_null(number.set(~whole.fill_null(value=False), None).cast(pl.Int64))


def plain_ids(words: pl.Series) -> pl.Series:
    """Return (n,) text with whole numbers in their shortest form: 7.0 and 07 as 7."""
    return whole_numbers(words).cast(pl.String).fill_null(words)
