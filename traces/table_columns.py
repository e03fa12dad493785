"""Columns of a CSV or Parquet table by name: text for ids, numbers for everything else.

Numbers that are instants may be dates; they become seconds from the earliest row's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError, did_you_mean
from simkit.foreign import (
    SpecialFileError,
    TooMuchError,
    check_decoded,
    check_parquet,
    text_size,
)
from simkit.traces.bad_lines import BadLines
from simkit.traces.files import is_parquet
from simkit.traces.rules import Tally
from simkit.traces.tables.dated import seconds_of
from simkit.traces.tables.keys import TableKeys
from simkit.traces.tables.layout import Dialect, Layout, find_layout
from simkit.traces.tables.numbers import Decimals, without_marks
from simkit.traces.tables.rows import Rows, misfit_text, table_rows
from simkit.traces.tables.times import is_date


@dataclass(frozen=True)
class TableColumns:
    """The columns read, with the places of their rows for messages."""

    frame: pl.DataFrame
    line: Ints
    """(n,) line numbers in a text file, from 1, the header's included; row numbers in Parquet."""
    epoch_s: float = np.nan
    """Unix time of second 0 if instants are dates; else NaN."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.frame.height

    def take(self, rows: npt.NDArray[Any]) -> TableColumns:
        """Return some of the rows: their positions, or a mask."""
        return replace(self, frame=self.frame[np.arange(len(self))[rows]], line=self.line[rows])

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers, (n,), NaN where a field is empty."""
        return self.frame[name].fill_null(np.nan).to_numpy()

    def scaled(self, factors: Mapping[str, float]) -> TableColumns:
        """Return the columns of numbers times their factors."""
        changed = [pl.col(n) * factor for n, factor in factors.items() if n in self.frame.columns]
        return replace(self, frame=self.frame.with_columns(changed))

    def with_empty_requests_as_none(
        self, resources: Sequence[str], *, barriers: bool = False
    ) -> TableColumns:
        """Return empty cells of resources as 0, but all of a row that asks for nothing as empty.

        Where there are `barriers`, which others wait for, a row of zeros is one, and stays.
        """
        asks = pl.any_horizontal(
            pl.col(name).is_not_null() if barriers else pl.col(name).fill_null(0.0) != 0
            for name in resources
        )
        filled = [pl.when(asks).then(pl.col(name).fill_null(0.0)) for name in resources]
        return replace(self, frame=self.frame.with_columns(filled))

    def ids(self, name: str) -> npt.NDArray[Any]:
        """Return a column of ids: int64, or str objects as soon as one is no whole number."""
        words = self.frame[name]
        numbers = words.cast(pl.Int64, strict=False)
        if numbers.null_count() == 0:
            return numbers.to_numpy()
        return words.to_numpy().astype(object)


@dataclass(frozen=True)
class WantedColumns:
    """The names of the columns to read."""

    text: Sequence[str]
    """Read as text."""
    numbers: Sequence[str]
    """Read as numbers."""
    optional: Sequence[str] = ()
    """Those of them that a table need not have."""
    instants: Sequence[str] = ()
    """Those of the numbers that may be dates, the submit times first."""
    amounts: Sequence[str] = ()
    """Numbers where an empty cell asks for none; a mark of no value does not."""
    limits: Sequence[str] = ("requested_time_s",)
    """Those of the numbers that may be words for no limit: unlimited, infinite."""
    remedy: str = "name the table's columns in `columns`"
    """What to do about a missing column."""

    @property
    def needed(self) -> set[str]:
        """The columns that a table must have."""
        return {*self.text, *self.numbers} - {*self.optional}

    def among(self, names: Sequence[str], place: str) -> tuple[list[str], list[str]]:
        """Return the columns of text and of numbers that a table with these columns has.

        `place` begins messages: the file and the line of the names.

        Raises TraceError for all that are missing or there twice.
        """
        wanted = [*self.text, *self.numbers]
        problems = [
            f"{place}: no column {name!r}{did_you_mean(name, [n for n in names if n])}; "
            f"{self.remedy}"
            for name in wanted
            if name not in names and name not in self.optional
        ]
        problems += [
            f"{place}: two columns {name!r}; give each its own name"
            for name in wanted
            if names.count(name) > 1
        ]
        if problems:
            raise TraceError("\n".join(problems))
        text, numbers = ([n for n in some if n in names] for some in (self.text, self.numbers))
        return text, numbers


def misspelt(
    names: Sequence[str], read: Collection[str], optional: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield columns that nearly have the name of an optional one that is not there, and this name.

    Args:
        names: the table's columns.
        read: those that are read, whatever they are called.
        optional: names that a table need not have.
    """
    others = [name for name in names if name not in read]
    for missing in optional:
        near = get_close_matches(missing, others, n=1, cutoff=0.75)
        if near and missing not in names:
            yield near[0], missing


def header_of(path: Path, wanted: Collection[str], dialect: Dialect) -> list[str]:
    """Return the columns of a table: those of a Parquet file, or of the line that names them."""
    if is_parquet(path):
        return _parquet_names(path)
    return list(find_layout(path, [wanted], dialect).names)


def factors_of(
    factors: Mapping[str, float], table: TableColumns, instants: Sequence[str], path: Path
) -> Mapping[str, float]:
    """Return the factors; raise TraceError for one of a column of dates."""
    if not np.isnan(table.epoch_s) and (names := [n for n in instants if n in factors]):
        raise TraceError(
            f"{path}: {names[0]} holds dates, which a factor cannot convert; leave factors."
            f"{names[0]} out"
        )
    return factors


def check_columns(path: Path, wanted: WantedColumns, dialect: Dialect) -> None:
    """Raise TraceError for missing columns and a file that cannot be read, by its header alone."""
    if is_parquet(path):
        wanted.among(_parquet_names(path), f"{path}:1")
        return
    layout = find_layout(path, [wanted.needed], dialect)
    wanted.among(layout.names, f"{path}:{layout.header_line}")


def read_columns(
    path: Path, wanted: WantedColumns, bad: BadLines, keys: TableKeys, tally: Tally
) -> TableColumns:
    """Read some columns of a table with a header; CSV, gzipped CSV or Parquet, told by content.

    Empty fields and marks of no value are null. Columns of text are String, of numbers Float64;
    dates become seconds from the earliest submit time, or from the key `zero`. Rows of another
    width than the header, numbers that are none and dates that cannot be go to `bad` and are left
    out; lines that are no rows are counted in `tally`.

    Raises TraceError for missing columns, damaged files, and what the keys must say first.
    """
    table = _parquet(path, wanted) if is_parquet(path) else _text(path, wanted, bad, keys, tally)
    table = table.take(bad.good(table.line))
    names = [n for n in wanted.instants if table.frame.schema.get(n) == pl.String]
    if names and len(table):
        columns = {name: table.frame[name] for name in names}
        found = seconds_of(columns, table.line, bad, keys, tally)
        new = [pl.Series(n, values).fill_nan(None) for n, values in found.columns.items()]
        table = replace(table, frame=table.frame.with_columns(new), epoch_s=found.epoch_s)
    return table.take(bad.good(table.line))


def _text(
    path: Path, wanted: WantedColumns, bad: BadLines, keys: TableKeys, tally: Tally
) -> TableColumns:
    """Return the columns of a table of text; those of dates stay text."""
    layout = find_layout(path, [wanted.needed], keys.dialect)
    text, numbers = wanted.among(layout.names, f"{path}:{layout.header_line}")
    parser = _Parser(layout, wanted, (text, numbers), bad, keys)
    frames: list[pl.DataFrame] = []
    lines: list[Ints] = []
    for rows in table_rows(layout, tally):
        for misfit in rows.misfits:
            bad.add(misfit.line, misfit_text(misfit, layout))
        if len(rows.line):
            frames.append(parser.parsed(rows))
            lines.append(rows.line)
    if parser.decimals.said:
        tally.note(parser.decimals.said, np.array([layout.header_line]))
    if not frames:
        schema = dict.fromkeys(text, pl.String) | dict.fromkeys(numbers, pl.Float64)
        return TableColumns(pl.DataFrame(schema=schema), np.empty(0, np.int64))
    return TableColumns(pl.concat(frames), np.concatenate(lines))


class _Parser:
    """Makes columns of rows of text, block by block.

    Attributes:
        decimals: reads the numbers.
    """

    def __init__(
        self,
        layout: Layout,
        wanted: WantedColumns,
        found: tuple[Sequence[str], Sequence[str]],
        bad: BadLines,
        keys: TableKeys,
    ) -> None:
        self.decimals = Decimals(keys.decimal, layout.separator, str(layout.path))
        self._text, self._numbers = found
        self._position = {name: str(layout.names.index(name)) for names in found for name in names}
        self._bad, self._keys = bad, keys
        self._dates: list[str] | None = None
        self._amounts = wanted.amounts
        self._limits = [name for name in wanted.limits if name in self._numbers]
        self._instants = [name for name in wanted.instants if name in self._numbers]

    def parsed(self, rows: Rows) -> pl.DataFrame:
        """Return the columns of a block: numbers as Float64, others and dates as String."""
        marks = self._keys.missing
        raw = {name: rows.frame[place] for name, place in self._position.items()}
        raw |= {name: without_limit(raw[name]) for name in self._limits}
        if self._dates is None:
            self._dates = self._dated(raw)
        words = {
            name: without_marks(raw[name], marks).alias(name)
            for name in (*self._text, *self._dates)
        }
        numbers = {name: raw[name] for name in self._numbers if name not in self._dates}
        values = self._floats(numbers, rows.line, [words[name] for name in self._text])
        order = (*self._text, *self._numbers)
        return pl.DataFrame([words[n] if n in words else values[n] for n in order])

    def _dated(self, raw: dict[str, pl.Series]) -> list[str]:
        """Return which of the instants are dates: as declared, or by the first submit time."""
        declared = self._keys.time_format is not None or self._keys.zero is not None
        if not declared and self._instants:
            first = without_marks(raw[self._instants[0]], self._keys.missing).drop_nulls()
            declared = bool(len(first)) and is_date(str(first[0]))
        return self._instants if declared else []

    def _floats(
        self, raw: dict[str, pl.Series], line: Ints, text: Sequence[pl.Series]
    ) -> dict[str, pl.Series]:
        """Return columns of numbers; what is none goes to the bad lines."""
        quick = {n: words.cast(pl.Float64, strict=False).alias(n) for n, words in raw.items()}
        if self._keys.missing or not self.decimals.usual or any(
            values.null_count() > raw[name].null_count() or values.is_nan().any()
            for name, values in quick.items()
        ):  # fmt: skip
            return self._closely(raw, line, text)
        return quick

    def _closely(
        self, raw: dict[str, pl.Series], line: Ints, text: Sequence[pl.Series]
    ) -> dict[str, pl.Series]:
        """Return columns of numbers, with marks of no value and decimal signs looked for."""
        words = {name: without_marks(cells, self._keys.missing) for name, cells in raw.items()}
        read = self.decimals.read(list(words.values()))
        found: dict[str, pl.Series] = {}
        for (name, cells), values in zip(words.items(), read, strict=True):
            found[name] = pl.Series(name, values).fill_nan(None)
            if name in self._amounts:
                unknown = cells.is_null() & (raw[name].str.strip_chars() != "")
                found[name] = found[name].set(unknown.fill_null(value=False), np.nan)
            wrong = (found[name].is_null() & cells.is_not_null()).arg_true().to_list()
            for row in wrong:
                self._bad.add(int(line[row]), _no_number(name, cells[row]))
            if 2 * len(wrong) > len(line) and not is_date(str(cells[wrong[0]])):
                for other in text:
                    if other.cast(pl.Float64, strict=False).null_count() == 0:
                        self._bad.hint_swapped(name, other.name)
        return found


def _no_number(name: str, cell: str) -> str:
    remedy = "write numbers, and nothing where there is none"
    if "," in cell:
        remedy = 'if the comma is the decimal sign, declare decimal: ","; otherwise ' + remedy
    return f"{name} is {cell!r}, not a number; {remedy}"


def without_limit(text: pl.Series) -> pl.Series:
    """Return a column of time limits with ``inf`` for the words that say that there is none."""
    words = text.str.strip_chars().str.to_lowercase()
    none = words.is_in(["unlimited", "infinite", "infinity"]).fill_null(value=False)
    return text.set(none, "inf") if none.any() else text


def _parquet(path: Path, wanted: WantedColumns) -> TableColumns:
    text, numbers = wanted.among(_parquet_names(path), f"{path}:1")
    with _undamaged(path):
        check_parquet(path, len(text) + len(numbers))
        frame = pl.read_parquet(path, columns=[*text, *numbers])
        check_decoded(path, text_size(frame), frame.height)
    chosen = [pl.col(name).cast(pl.String) for name in text]
    for name in numbers:
        dtype = frame[name].dtype
        if name in wanted.instants and (dtype.is_temporal() or dtype == pl.String):
            chosen.append(_as_text(name, dtype))
        elif dtype.is_numeric() or dtype == pl.Null:
            chosen.append(pl.col(name).cast(pl.Float64))
        else:
            raise TraceError(f"{path}: {name} is of type {dtype}; it must be a number")
    frame = frame.select(chosen)
    return TableColumns(frame, np.arange(1, frame.height + 1))


def _as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return dates as text in ISO 8601, with their offset if they have one."""
    column = pl.col(name)
    if not isinstance(dtype, pl.Datetime):
        return column.cast(pl.String)
    form = "%Y-%m-%dT%H:%M:%S%.f"
    if dtype.time_zone is None:
        return column.dt.to_string(form)
    return column.dt.convert_time_zone("UTC").dt.to_string(form + "Z")


def _parquet_names(path: Path) -> list[str]:
    with _undamaged(path):
        return list(pl.read_parquet_schema(path))


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Raise TraceError for what cannot be read of a Parquet file."""
    try:
        yield
    except (SpecialFileError, TooMuchError) as error:
        raise TraceError(f"{path}: {error}") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(
            f"{path}: damaged Parquet file ({reason}); write or fetch it again"
        ) from None
