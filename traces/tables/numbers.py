"""Numbers, ids and names in tables as people write them.

Decimal commas, grouped thousands, marks of no value; ids as whole numbers where they are; names of
users, queues, … numbered in order of appearance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError

MISSING: Final = (
    "", "-", "--", "---", "–", "—", "n/e", "n/a", "#n/a", "na", "n.a.", "nan", "null", "none",
    "nil", "<na>", "(null)", "?", ".", "..", "...", "missing", "not available",
)  # fmt: skip
"""What stands for no value, in any case."""
_VARIANTS: Final = frozenset(
    form for mark in MISSING for form in (mark, mark.upper(), mark.capitalize(), mark.title())
) | {"NaN", "N/e", "Na"}

_GROUPS: Final = " \u00a0\u202f\u2009'’_"
_SURE_COMMA: Final = (
    r"^[+-]?(?:\d*,(?:\d{1,2}|\d{4,})?|0*,\d{3}|0\d*,\d+|\d{4,},\d+|\d{1,3}(?:\.\d{3})+,\d*"
    r"|\d{1,3}(?:\.\d{3}){2,})(?:[eE][+-]?\d+)?$"
)
_SURE_POINT: Final = (
    r"^[+-]?(?:\d*\.(?:\d{1,2}|\d{4,})?|0*\.\d{3}|0\d*\.\d+|\d{4,}\.\d+|\d{1,3}(?:,\d{3})+\.\d*"
    r"|\d{1,3}(?:,\d{3}){2,})(?:[eE][+-]?\d+)?$"
)
_EITHER_COMMA: Final = r"^[+-]?[1-9]\d{0,2},\d{3}$"
_EITHER_POINT: Final = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
_UNGROUPED: Final = r"^[+-]?\d{4,}$"


def without_marks(words: pl.Series, more: Collection[str] = ()) -> pl.Series:
    """Return text without spaces around it; null where it stands for no value.

    Args:
        words: (n,) text.
        more: further marks; one that is a number stands for all ways to write it.
    """
    bare = words.str.strip_chars()
    marks = [*_VARIANTS, *(mark.strip() for mark in more)]
    none = bare.is_in(marks)
    if figures := [value for mark in more if np.isfinite(value := _figure(mark))]:
        none |= bare.str.replace(",", ".").cast(pl.Float64, strict=False).is_in(figures).fill_null(
            value=False
        )  # fmt: skip
    return bare.set(none.fill_null(value=False), None)


def _figure(mark: str) -> float:
    try:
        return float(mark)
    except ValueError:
        return np.nan


class Decimals:
    """Reads numbers with the decimal sign of a table, declared or found.

    Attributes:
        sign: the sign; empty as long as no number tells it.
        said: what was recognised, for the report; empty if it is the usual point.
    """

    def __init__(self, declared: str | None, separator: str, place: str) -> None:
        """Begin.

        Args:
            declared: the sign; None: found.
            separator: of the fields; where it is a comma, a number such as 1.234 has a point.
            place: the file, for messages.
        """
        self.sign, self.said = declared or "", ""
        self._place, self._separator = place, separator

    @property
    def usual(self) -> bool:
        """Whether numbers that polars reads as they are mean what they say."""
        return self.sign != "," and (self.sign == "." or self._separator == ",")

    def read(self, columns: Sequence[pl.Series]) -> list[Floats]:
        """Return columns of text as numbers, (n,) each; NaN where a cell is empty or no number.

        Raises TraceError if the numbers could have either sign.
        """
        plain = [words.cast(pl.Float64, strict=False) for words in columns]
        odd = any(
            (p.is_null() & w.is_not_null()).any() for p, w in zip(plain, columns, strict=True)
        )
        if not self.sign and (odd or self._separator != ","):
            self._find(pl.concat([_ungrouped(words.drop_nulls()) for words in columns]))
        if not odd and self.sign != ",":
            return [_floats(values) for values in plain]
        return [self._floats(words) for words in columns]

    def _find(self, words: pl.Series) -> None:
        """Find the sign by numbers that have only one meaning."""

        def first(pattern: str) -> str | None:
            found = words.filter(words.str.contains(pattern))
            return str(found[0]) if len(found) else None

        comma, point = first(_SURE_COMMA), first(_SURE_POINT)
        if comma and point:
            raise TraceError(
                f"{self._place}: the numbers {comma} and {point} have different decimal signs; "
                'correct them, or declare decimal: "," or decimal: "."'
            )
        if comma:
            self.sign, self.said = ",", "decimal comma"
        elif point:
            self.sign = "."
        elif doubtful := first(_EITHER_COMMA):
            raise self._ask(doubtful, ",")
        elif self._separator != "," and (doubtful := first(_EITHER_POINT)):
            if first(_UNGROUPED) is None:
                raise self._ask(doubtful, ".")
            self.sign = "."

    def _ask(self, number: str, sign: str) -> TraceError:
        other = "." if sign == "," else ","
        whole = number.replace(sign, "")
        return TraceError(
            f"{self._place}: {number} may be {number.replace(',', '.')} or {whole}, and no number "
            f'in the file tells; declare decimal: "{sign}" for {number.replace(",", ".")}, or '
            f'decimal: "{other}" for {whole}'
        )

    def _floats(self, words: pl.Series) -> Floats:
        """Return numbers with the sign found, thousands grouped or not."""
        sign = self.sign or "."
        group = "." if sign == "," else ","
        bare = _ungrouped(words)
        grouped = bare.str.contains(
            rf"^[+-]?\d{{1,3}}(?:\{group}\d{{3}})+(?:\{sign}\d*)?(?:[eE][+-]?\d+)?$"
        ).fill_null(value=False)
        bare = bare.set(grouped, None).fill_null(
            bare.str.replace_all(group, "", literal=True).set(~grouped, None)
        )
        if sign == ",":  # a point that groups nothing is no part of a number
            bare = bare.str.replace_all(".", "x", literal=True)
        return _floats(bare.str.replace(sign, ".", literal=True).cast(pl.Float64, strict=False))


def _ungrouped(words: pl.Series) -> pl.Series:
    """Return text with the minus of typographers as -, and without spaces that group thousands."""
    bare = words.str.replace("−", "-", literal=True)
    grouped = bare.str.contains(rf"^[+-]?\d{{1,3}}(?:[{_GROUPS}]\d{{3}})+(?:[.,]\d*)?$")
    if not grouped.any():
        return bare
    plain = bare.str.replace_all(f"[{_GROUPS}]", "")
    return plain.set(~grouped.fill_null(value=False), None).fill_null(bare)


def _floats(values: pl.Series) -> Floats:
    return values.fill_null(np.nan).to_numpy().astype(np.float64)


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
