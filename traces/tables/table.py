"""Columns of a CSV or Parquet table by a column map: text for ids, numbers for everything else.

Columns of instants may hold dates; they become seconds from the earliest row's, whose date is the
epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError, TraceError
from simkit.files import (
    SpecialFileError,
    TooMuchError,
    check_decoded,
    check_parquet,
    text_size,
)
from simkit.traces import rules
from simkit.traces.columns import Column, ColumnMap, Kind
from simkit.traces.files import is_parquet
from simkit.traces.rules import UNREADABLE_START, BadLines, Tally
from simkit.traces.tables.layout import Dialect, Layout, TableKeys, find_layout
from simkit.traces.tables.rows import (
    Decimals,
    Rows,
    misfit_text,
    table_rows,
    whole_numbers,
    without_marks,
)
from simkit.traces.tables.times import Instants, instants, is_date, unknown_instants, zero_s


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
    columns: ColumnMap = field(default_factory=ColumnMap)
    """The columns of the map that the file has."""

    def said(self, name: str) -> str:
        """Return our name of a column and what the file calls it, for messages."""
        theirs = self.columns[name].in_file if name in self.columns else name
        return name if theirs == name else f"{name} (column {theirs!r})"

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.frame.height

    def take(self, rows: npt.NDArray[Any]) -> TableColumns:
        """Return some of the rows: their positions, or a mask."""
        return replace(self, frame=self.frame[np.arange(len(self))[rows]], line=self.line[rows])

    def only(self, names: Collection[str]) -> TableColumns:
        """Return those of some columns that there are."""
        kept = [name for name in self.frame.columns if name in names]
        return replace(self, frame=self.frame.select(kept))

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


class RowRule(NamedTuple):
    """A named rule of a format: which rows it meets, and what becomes of them."""

    name: str
    """Reports count rows under it; `meanings` of the format explains it."""
    rows: Bools
    """(n,) the rows that it meets."""
    repairs: Mapping[str, Floats] | None = None
    """Column of numbers → (n,) its new values; None: the rows are left out."""


def apply_rules(
    table: TableColumns, row_rules: Sequence[RowRule], tally: Tally
) -> tuple[TableColumns, dict[str, Ints]]:
    """Leave out rows, each counted under the first rule that meets it; then repair others.

    Returns the rows that stay, and rule → the lines that it repaired, which `count_kept` counts.
    """
    drops = {rule.name: rule.rows for rule in row_rules if rule.repairs is None}
    left = rules.first_that_applies(drops, table.line, tally.drop)
    tally.read(int(np.count_nonzero(~left)))
    repaired: dict[str, Ints] = {}
    unchanged, frame = left.copy(), table.frame
    for rule in row_rules:
        if rule.repairs is not None:
            hit = unchanged & rule.rows
            repaired[rule.name] = table.line[hit]
            unchanged &= ~hit
            mask = pl.Series(hit)
            for name, values in rule.repairs.items():
                new = pl.Series(name, values).fill_nan(None)
                frame = frame.with_columns(new.zip_with(mask, frame[name]))
    return replace(table, frame=frame).take(left), repaired


def count_kept(table: TableColumns, repaired: Mapping[str, Ints], tally: Tally) -> None:
    """Count the rows that stay: repaired under a rule, or accepted as they are."""
    tally.read(len(table))
    changed = 0
    for name, lines in repaired.items():
        there = lines[np.isin(lines, table.line)]
        tally.repair(name, there)
        changed += len(there)
    tally.accept(len(table) - changed)


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
    following: Collection[str] = (),
) -> Mapping[str, float]:
    """Return the factors; raise ScenarioError, with their places, for those of columns of dates.

    Note the `instants` of the table without one, where submit times, the first of them, have one;
    those `following` take that one.
    """
    if not np.isnan(table.epoch_s) and (names := [n for n in instants if n in factors]):
        raise ScenarioError(
            f"workload.factors.{name}: {path} has dates in this column, which a factor cannot "
            "convert; leave it out"
            for name in names
        )
    for name in instants[1:] if instants[0] in factors else ():
        if name not in factors and name not in following:
            tally.note(f"factors multiplies {instants[0]}, and {name} not", np.ones(1, int))
    return factors


def read_columns(
    path: Path,
    wanted: ColumnMap,
    bad: BadLines,
    keys: TableKeys,
    tally: Tally,
    *,
    remedy: str = "name the table's columns in `columns`",
) -> TableColumns:
    """Read the columns of a map from a table with a header, under our names and in our units.

    The file is CSV, gzipped CSV or Parquet: its content tells. Empty fields and marks of no value
    are null. Columns of ids and text are String, the others Float64; dates become seconds from the
    earliest submit time, or from the key `zero`. Rows of another width than the header, numbers
    that are none and dates that cannot be go to `bad` and are left out; lines that are no rows are
    counted in `tally`.

    Args:
        path: the table.
        wanted: its columns; the first instant is that of submit times.
        bad: gets malformed lines.
        keys: how the table is written.
        tally: counts and notes.
        remedy: what to do about a missing column.

    Raises TraceError for missing columns, damaged files, and what the keys must say first.
    """
    if is_parquet(path):
        read = _parquet(path, wanted, keys, tally, remedy)
    else:
        read = _text(path, wanted, bad, keys, tally, remedy)
    found = read.columns
    table = read.take(bad.good(read.line))
    names = [n for n in _instants(found) if table.frame.schema[n] == pl.String]
    if names and len(table):
        columns = {name: table.frame[name] for name in names}
        dated = seconds_of(columns, table.line, bad, keys, tally, _records(found))
        new = [pl.Series(n, values).fill_nan(None) for n, values in dated.columns.items()]
        table = replace(table, frame=table.frame.with_columns(new), epoch_s=dated.epoch_s)
    malformed = _ours(read.frame.filter(~bad.good(read.line)), found, _TEXT)
    good = table.take(bad.good(table.line))
    return replace(good, frame=_ours(good.frame, found, dates=names), malformed=malformed)


_TEXT: Final = ("id", "text")
"""Kinds of columns that are read as text."""
_NUMBERS: Final = ("number", "instant", "amount", "limit")


def _instants(columns: ColumnMap) -> list[str]:
    return columns.in_file(columns.of_kind("instant"))


def _records(columns: ColumnMap) -> list[str]:
    return columns.in_file([column.name for column in columns if column.record])


def _ours(
    frame: pl.DataFrame,
    columns: ColumnMap,
    kinds: Sequence[Kind] = (*_TEXT, *_NUMBERS),
    *,
    dates: Sequence[str] = (),
) -> pl.DataFrame:
    """Return columns under our names and in our units; those of `dates` are in seconds already."""

    def ours(column: Column) -> pl.Expr:
        values = pl.col(column.in_file)
        if column.per != 1 and column.in_file not in dates:
            values = values / column.per
        return values.alias(column.name)

    return frame.select(ours(c) for c in columns if c.kind in kinds)


def _text(
    path: Path, wanted: ColumnMap, bad: BadLines, keys: TableKeys, tally: Tally, remedy: str
) -> TableColumns:
    """Return the columns of a table of text under its names; those of dates stay text."""
    layout = find_layout(path, [wanted.needed], keys.dialect)
    found = wanted.among(layout.names, f"{path}:{layout.header_line}", remedy)
    parser = _Parser(layout, found, bad, keys)
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
        return TableColumns(parser.nothing(), np.empty(0, np.int64), columns=found)
    frame, line = pl.concat(frames), np.concatenate(lines)
    if whole:
        frame = parser.of_file(frame, line)
    if parser.decimals.said:
        tally.note(parser.decimals.said, np.array([layout.header_line]))
    parser.note_unreadable(tally)
    return TableColumns(frame, line, columns=found)


class _Parser:
    """Makes columns of rows of text: block by block, if each says by itself what its numbers are.

    Attributes:
        decimals: reads the numbers.
    """

    def __init__(self, layout: Layout, found: ColumnMap, bad: BadLines, keys: TableKeys) -> None:
        self.decimals = Decimals(keys.decimal, layout.separator, str(layout.path))
        self._text = found.in_file(found.of_kind(*_TEXT))
        self._numbers = found.in_file(found.of_kind(*_NUMBERS))
        both = (*self._text, *self._numbers)
        self._position = {name: str(layout.names.index(name)) for name in both}
        self._bad, self._keys = bad, keys
        self._dates: list[str] | None = None
        self._limits = found.in_file(found.of_kind("limit"))
        self._amounts = found.in_file(found.of_kind("amount"))
        self._instants, self._records = _instants(found), _records(found)
        self._unreadable = np.empty(0, np.int64)

    def nothing(self) -> pl.DataFrame:
        """Return the columns of a table without rows."""
        schema: dict[str, Any] = dict.fromkeys(self._text, pl.String)
        return pl.DataFrame(schema=schema | dict.fromkeys(self._numbers, pl.Float64))

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
            if name in self._amounts:
                unknown = cells.is_null() & (raw[name].str.strip_chars() != "")
                values = values.set(unknown.fill_null(value=False), np.nan)
            found.append(values)
            wrong = (values.is_null() & cells.is_not_null()).arg_true().to_numpy()
            if name in self._records:
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


def _parquet(
    path: Path, wanted: ColumnMap, keys: TableKeys, tally: Tally, remedy: str
) -> TableColumns:
    """Return the columns of a Parquet file under its names; those of dates as text.

    Raises TraceError for all columns of a type that is neither text nor number nor date.
    """
    found = wanted.among(_parquet_names(path), f"{path}:1", remedy)
    text = found.in_file(found.of_kind(*_TEXT))
    numbers = found.in_file(found.of_kind(*_NUMBERS))
    with _undamaged(path):
        check_parquet(path, len(text) + len(numbers))
        frame = pl.read_parquet(path, columns=[*text, *numbers])
        check_decoded(path, text_size(frame), frame.height)
    dates = _dated_columns(frame, _instants(found), keys)
    amounts = found.in_file(found.of_kind("amount"))
    line = np.arange(1, frame.height + 1)
    problems = {
        n: why for n, dtype in frame.schema.items() if (why := _unfit(n, dtype, text, dates))
    }
    for name in problems.keys() & {*_records(found)}:
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
            chosen.append(_numbers(frame[name], keys, amount=name in amounts))
    return TableColumns(pl.DataFrame(chosen), line, columns=found)


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


class Dated(NamedTuple):
    """Columns of instants."""

    columns: dict[str, Floats]
    """Name → (n,) seconds from the epoch; NaN where there is none, infinite where never."""
    epoch_s: float
    """Unix time of second 0."""


def seconds_of(
    columns: dict[str, pl.Series],
    line: Ints,
    bad: BadLines,
    keys: TableKeys,
    tally: Tally,
    records: Sequence[str] = (),
) -> Dated:
    """Return dates as seconds from the earliest of the first column, or from `zero`.

    Args:
        columns: name → (n,) text, null where empty; the first is that of submit times.
        line: (n,) the rows' lines.
        bad: gets the rows whose date cannot be read, or does not exist.
        keys: how they are written.
        tally: notes what was recognised.
        records: columns among them where a date that cannot be read is unknown, and noted.

    Raises TraceError if no date of another column can be read, or a zone is missing.
    """
    times: dict[str, Floats] = {}
    for name, words in columns.items():
        never = words.str.to_lowercase().is_in(["inf", "+inf", "infinity"]).fill_null(value=False)
        finite = words.set(never, None)
        time_s = np.full(len(words), np.nan)
        if finite.null_count() < len(words):
            found = _found(finite, bad, keys, recorded=name in records)
            time_s = found.time_s
            if name in records:
                unread = finite.is_not_null().to_numpy() & np.isnan(time_s)
                tally.note(UNREADABLE_START, line[unread])
            else:
                _refuse(found, finite, line, bad, keys)
            for said in found.said:
                tally.note(said, line[:1])
            tally.note(rules.SECOND_HOUR, line[found.second])
            tally.note(rules.FIRST_HOUR, line[found.doubtful])
        times[name] = np.where(never.to_numpy(), np.inf, time_s)
    epoch = zero_s(keys, str(bad.path)) if keys.zero is not None else np.nan
    first = next(iter(times.values()))
    if np.isnan(epoch) and np.isfinite(first).any():
        epoch = float(first[np.isfinite(first)].min())
    return Dated({name: time - epoch for name, time in times.items()}, epoch)


def _found(words: pl.Series, bad: BadLines, keys: TableKeys, *, recorded: bool) -> Instants:
    """Return the instants of a column; of one that is only `recorded`, unknown if none is read."""
    try:
        return instants(words, keys, f"{bad.path}: {words.name}", in_order=True)
    except TraceError:
        if not recorded:
            raise
        return unknown_instants(len(words))


def _refuse(found: Instants, words: pl.Series, line: Ints, bad: BadLines, keys: TableKeys) -> None:
    """Add the rows whose date is none."""
    for row in np.flatnonzero(words.is_not_null().to_numpy() & np.isnan(found.time_s)).tolist():
        if found.skipped[row]:
            why = f"a time that the clock of {keys.zone} skips as it is put forward"
        else:
            why = "a date that cannot be" if found.impossible[row] else "not of the form of dates"
        bad.add(int(line[row]), f"{words.name} is {words[row]!r}, {why}; correct it")
