"""Columns of a CSV or Parquet table by name: text for ids, numbers for everything else.

Numbers that are instants may be dates; they become seconds from the earliest row's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError, did_you_mean
from simkit.files import (
    SpecialFileError,
    TooMuchError,
    check_decoded,
    check_parquet,
    text_size,
)
from simkit.traces.bad_lines import BadLines
from simkit.traces.files import is_parquet
from simkit.traces.names import whole_numbers
from simkit.traces.rules import UNREADABLE_START, Tally
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
    malformed: pl.DataFrame = field(default_factory=pl.DataFrame)
    """The columns of text of the rows that were left out as malformed."""

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
        numbers = whole_numbers(words)
        if numbers.null_count() == 0:
            return numbers.to_numpy()
        return words.to_numpy().astype(object)

    def with_one_form_of_ids(self, names: Sequence[str]) -> TableColumns:
        """Return columns of ids in one form: 1.0 and 01 as 1, if all ids are whole numbers."""
        changed = []
        for name in names:
            numbers = whole_numbers(self.frame[name])
            if numbers.null_count() == self.frame[name].null_count():
                changed.append(numbers.cast(pl.String))
        return replace(self, frame=self.frame.with_columns(changed))


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
    records: Sequence[str] = ()
    """Those of the numbers that no simulation uses: what is none is unknown, and noted."""
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


def not_read(names: Sequence[str], read: Collection[str]) -> Iterator[str]:
    """Yield the columns of a table that are not read; one without a name by its number, from 1."""
    for number, name in enumerate(names, 1):
        if name not in read:
            yield name or f"column {number} without a name"


def header_of(path: Path, wanted: Collection[str], dialect: Dialect) -> list[str]:
    """Return the columns of a table: those of a Parquet file, or of the line that names them."""
    if is_parquet(path):
        return _parquet_names(path)
    return list(find_layout(path, [wanted], dialect).names)


def factors_of(
    factors: Mapping[str, float],
    table: TableColumns,
    instants: Sequence[str],
    path: Path,
    tally: Tally,
) -> Mapping[str, float]:
    """Return the factors; raise TraceError for one of a column of dates.

    Note the `instants` of the table without one, where submit times, the first of them, have one.
    """
    if not np.isnan(table.epoch_s) and (names := [n for n in instants if n in factors]):
        raise TraceError(
            f"{path}: {names[0]} holds dates, which a factor cannot convert; leave factors."
            f"{names[0]} out"
        )
    for name in instants[1:] if instants[0] in factors else ():
        if name not in factors:
            tally.note(f"factors multiplies {instants[0]}, and {name} not", np.ones(1, int))
    return factors


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
    if is_parquet(path):
        read = _parquet(path, wanted, keys, tally)
    else:
        read = _text(path, wanted, bad, keys, tally)
    table = read.take(bad.good(read.line))
    names = [n for n in wanted.instants if table.frame.schema.get(n) == pl.String]
    if names and len(table):
        columns = {name: table.frame[name] for name in names}
        found = seconds_of(columns, table.line, bad, keys, tally, wanted.records)
        new = [pl.Series(n, values).fill_nan(None) for n, values in found.columns.items()]
        table = replace(table, frame=table.frame.with_columns(new), epoch_s=found.epoch_s)
    text = [name for name in wanted.text if name in read.frame.columns]
    malformed = read.frame.select(text).filter(~bad.good(read.line))
    return replace(table.take(bad.good(table.line)), malformed=malformed)


def _text(
    path: Path, wanted: WantedColumns, bad: BadLines, keys: TableKeys, tally: Tally
) -> TableColumns:
    """Return the columns of a table of text; those of dates stay text."""
    layout = find_layout(path, [wanted.needed], keys.dialect)
    found = wanted.among(layout.names, f"{path}:{layout.header_line}")
    parser = _Parser(layout, wanted, found, bad, keys)
    frames: list[pl.DataFrame] = []
    lines: list[Ints] = []
    whole = False  # one decimal sign holds for the whole file, so all of it must be seen first
    for rows in table_rows(layout, tally):
        for misfit in rows.misfits:
            bad.add(misfit.line, misfit_text(misfit, layout))
        if not len(rows.line):
            continue
        block = parser.words(rows)
        numbers = None if whole else parser.of_block(block, rows.line)
        if numbers is None and not whole:
            whole = True
            again = (parser.words(one) for one in table_rows(layout, Tally()) if len(one.line))
            frames = list(islice(again, len(frames)))
        frames.append(block if numbers is None else numbers)
        lines.append(rows.line)
    if not frames:
        schema = dict.fromkeys(found[0], pl.String) | dict.fromkeys(found[1], pl.Float64)
        return TableColumns(pl.DataFrame(schema=schema), np.empty(0, np.int64))
    frame, line = pl.concat(frames), np.concatenate(lines)
    if whole:
        frame = parser.of_file(frame, line)
    if parser.decimals.said:
        tally.note(parser.decimals.said, np.array([layout.header_line]))
    parser.note_unreadable(tally)
    return TableColumns(frame, line)


class _Parser:
    """Makes columns of rows of text: block by block, if each says by itself what its numbers are.

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
        self._wanted = wanted
        self._limits = [name for name in wanted.limits if name in self._numbers]
        self._instants = [name for name in wanted.instants if name in self._numbers]
        self._unreadable = np.empty(0, np.int64)

    def words(self, rows: Rows) -> pl.DataFrame:
        """Return the columns of a block as text: numbers as they stand there, others bare."""
        marks = self._keys.missing
        raw = {name: rows.frame[place].alias(name) for name, place in self._position.items()}
        raw |= {name: without_limit(raw[name]) for name in self._limits}
        if self._dates is None:
            self._dates = self._dated(raw)
        raw |= {name: without_marks(raw[name], marks) for name in (*self._text, *self._dates)}
        return pl.DataFrame([raw[name] for name in (*self._text, *self._numbers)])

    def _dated(self, raw: dict[str, pl.Series]) -> list[str]:
        """Return which of the instants are dates: as declared, or by the first submit time."""
        declared = self._keys.time_format is not None or self._keys.zero is not None
        if not declared and self._instants:
            first = without_marks(raw[self._instants[0]], self._keys.missing).drop_nulls()
            declared = bool(len(first)) and is_date(str(first[0]))
        return self._instants if declared else []

    def of_block(self, block: pl.DataFrame, line: Ints) -> pl.DataFrame | None:
        """Return a block with numbers as Float64; None if only the whole file tells their sign."""
        raw = self._of_numbers(block)
        quick = {n: words.cast(pl.Float64, strict=False) for n, words in raw.items()}
        if self._keys.missing or not self.decimals.usual or any(
            values.null_count() > raw[name].null_count() or values.is_nan().any()
            for name, values in quick.items()
        ):  # fmt: skip
            if self._keys.decimal is None and not self._plain(raw):
                return None
            return self.of_file(block, line)
        return block.with_columns(quick.values())

    def _of_numbers(self, block: pl.DataFrame) -> dict[str, pl.Series]:
        return {name: block[name] for name in self._numbers if name not in (self._dates or ())}

    def _plain(self, raw: Mapping[str, pl.Series]) -> bool:
        """Return whether all cells are numbers that mean what they say, or stand for no value."""
        if not self.decimals.usual:
            return False
        words = [without_marks(cells, self._keys.missing) for cells in raw.values()]
        return all(w.cast(pl.Float64, strict=False).null_count() == w.null_count() for w in words)

    def of_file(self, frame: pl.DataFrame, line: Ints) -> pl.DataFrame:
        """Return columns with numbers as Float64, with marks and decimal signs looked for.

        What is no number goes to the bad lines.
        """
        raw = self._of_numbers(frame)
        words = {name: without_marks(cells, self._keys.missing) for name, cells in raw.items()}
        read = self.decimals.read(list(words.values()))
        found: list[pl.Series] = []
        for (name, cells), numbers in zip(words.items(), read, strict=True):
            values = pl.Series(name, numbers).fill_nan(None)
            if name in self._wanted.amounts:
                unknown = cells.is_null() & (raw[name].str.strip_chars() != "")
                values = values.set(unknown.fill_null(value=False), np.nan)
            found.append(values)
            wrong = (values.is_null() & cells.is_not_null()).arg_true().to_numpy()
            if name in self._wanted.records:
                self._unreadable = np.append(self._unreadable, line[wrong])
            else:
                self._refuse(name, cells, line, wrong.tolist(), frame)
        return frame.with_columns(found)

    def _refuse(
        self, name: str, cells: pl.Series, line: Ints, wrong: list[int], frame: pl.DataFrame
    ) -> None:
        """Add the rows with what is no number to the bad lines."""
        instant = name in self._instants[1:]
        for row in wrong:
            self._bad.add(int(line[row]), _no_number(name, cells[row], instant=instant))
        if 2 * len(wrong) > len(line) and not is_date(str(cells[wrong[0]])):
            for other in (frame[other] for other in self._text):
                if other.cast(pl.Float64, strict=False).null_count() == 0:
                    self._bad.hint_swapped(name, other.name)

    def note_unreadable(self, tally: Tally) -> None:
        """Note the cells of records that are no number."""
        tally.note(UNREADABLE_START, np.sort(self._unreadable))


def _no_number(name: str, cell: str, *, instant: bool = False) -> str:
    remedy = "write numbers, and nothing where there is none"
    if instant and is_date(cell):
        remedy = "submit times are numbers, so write seconds from the same zero, or all as dates"
    if "," in cell:
        remedy = 'if the comma is the decimal sign, declare decimal: ","; otherwise ' + remedy
    return f"{name} is {cell!r}, not a number; {remedy}"


def without_limit(text: pl.Series) -> pl.Series:
    """Return a column of time limits with ``inf`` for the words that say that there is none."""
    words = text.str.strip_chars().str.to_lowercase()
    none = words.is_in(["unlimited", "infinite", "infinity"]).fill_null(value=False)
    return text.set(none, "inf") if none.any() else text


def _parquet(path: Path, wanted: WantedColumns, keys: TableKeys, tally: Tally) -> TableColumns:
    """Return the columns of a Parquet file; those of dates as text.

    Raises TraceError for all columns of a type that is neither text nor number nor date.
    """
    text, numbers = wanted.among(_parquet_names(path), f"{path}:1")
    with _undamaged(path):
        check_parquet(path, len(text) + len(numbers))
        frame = pl.read_parquet(path, columns=[*text, *numbers])
        check_decoded(path, text_size(frame), frame.height)
    dates = _dated_columns(frame, [n for n in wanted.instants if n in numbers], keys)
    line = np.arange(1, frame.height + 1)
    problems = {
        n: why for n, dtype in frame.schema.items() if (why := _unfit(n, dtype, text, dates))
    }
    for name in problems.keys() & {*wanted.records}:
        tally.note(UNREADABLE_START, line[frame[name].is_not_null().to_numpy()])
        frame = frame.with_columns(pl.lit(None, pl.Float64).alias(name))
        del problems[name]
    if problems:
        raise TraceError("\n".join(f"{path}: {problem}" for problem in problems.values()))
    chosen = [_words(frame[name], keys) for name in text]
    for name in numbers:
        if name in dates:
            chosen.append(
                _words(frame.select(_as_text(name, frame.schema[name])).to_series(), keys)
            )
        else:
            chosen.append(_numbers(frame[name], keys, amount=name in wanted.amounts))
    return TableColumns(pl.DataFrame(chosen), line)


def _dated_columns(frame: pl.DataFrame, instants: Sequence[str], keys: TableKeys) -> Sequence[str]:
    """Return which instants are dates: all, as declared or as submit times are; or none."""
    if keys.time_format is not None or keys.zero is not None:
        return instants
    submit = frame.schema[instants[0]] if instants else pl.Float64()
    return instants if isinstance(submit, (*_WORDS, pl.Date, pl.Datetime)) else []


_WORDS: Final = (pl.String, pl.Categorical, pl.Enum)


def _unfit(name: str, dtype: pl.DataType, text: Sequence[str], dates: Sequence[str]) -> str:
    """Return what is wrong with a column of a type that cannot be read; empty if it can be."""
    if dtype.is_numeric() or dtype == pl.Null or (name in text and isinstance(dtype, _WORDS)):
        return ""
    if name in dates and isinstance(dtype, (*_WORDS, pl.Date, pl.Datetime)):
        return ""
    must = "it must be a number"
    if name in text:
        must = "it must be text, or whole numbers"
        if isinstance(dtype, (pl.List, pl.Array)):
            must += '; write several ids as text: "3;5"'
    elif name in dates:
        must = "it must hold dates or numbers, as submit times do"
    elif isinstance(dtype, (pl.Date, pl.Datetime)):
        must += ", as submit times are"
    elif dtype == pl.Duration:
        must += "; write it in seconds"
    return f"{name} is of type {dtype}; {must}"


def _words(column: pl.Series, keys: TableKeys) -> pl.Series:
    """Return a column as text, null where it stands for no value, as in a table of text."""
    return without_marks(column.cast(pl.String), keys.missing)


def _numbers(column: pl.Series, keys: TableKeys, *, amount: bool) -> pl.Series:
    """Return a column as Float64, null where it stands for no value; NaN if that is an amount."""
    values = column.cast(pl.Float64)
    if keys.missing:
        none = _words(column, keys).is_null() & column.is_not_null()
        values = values.set(none, np.nan)
    return values if amount else values.fill_nan(None)


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
