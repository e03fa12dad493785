"""Columns of a CSV or Parquet table by name: text for ids, numbers for everything else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError, did_you_mean
from simkit.traces.bad_lines import BadLines, refuse_misshapen
from simkit.traces.files import is_parquet, text_blocks

_HEAD_BYTES: Final = 1 << 16
"""How much of a table is unpacked to see its header."""


@dataclass(frozen=True)
class TableColumns:
    """The columns read, with the places of their rows for messages."""

    frame: pl.DataFrame
    line: Ints
    """(n,) line numbers in a text file, from 1, the header's included; row numbers in Parquet."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.frame.height

    def take(self, rows: npt.NDArray[Any]) -> TableColumns:
        """Return some of the rows: their positions, or a mask."""
        return TableColumns(self.frame[np.arange(len(self))[rows]], self.line[rows])

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers, (n,), NaN where a field is empty."""
        return self.frame[name].fill_null(np.nan).to_numpy()

    def scaled(self, factors: Mapping[str, float]) -> TableColumns:
        """Return the columns of numbers times their factors."""
        changed = [pl.col(n) * factor for n, factor in factors.items() if n in self.frame.columns]
        return TableColumns(self.frame.with_columns(changed), self.line)

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
        return TableColumns(self.frame.with_columns(filled), self.line)

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
    limits: Sequence[str] = ("requested_time_s",)
    """Those of the numbers that may be words for no limit: unlimited, infinite."""
    remedy: str = "name the table's columns in `columns`"
    """What to do about a missing column."""

    def among(self, names: Sequence[str], path: Path) -> tuple[list[str], list[str]]:
        """Return the columns of text and of numbers that a table with these columns has.

        Raises TraceError for all that are missing or there twice.
        """
        wanted = [*self.text, *self.numbers]
        problems = [
            f"{path}:1: no column {name!r}{did_you_mean(name, [n for n in names if n])}; "
            f"{self.remedy}"
            for name in wanted
            if name not in names and name not in self.optional
        ]
        problems += [
            f"{path}:1: two columns {name!r}; give each its own name"
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


def check_columns(path: Path, wanted: WantedColumns) -> None:
    """Raise TraceError for missing columns and a file that cannot be read, by its header alone."""
    if is_parquet(path):
        names = _parquet_names(path)
    else:
        blocks = text_blocks(path, _HEAD_BYTES)
        lines = (line for block in blocks for line in block.text.split(b"\n") if line.strip())
        if not (header := next(lines, b"")):
            raise TraceError(f"{path}: the file is empty; check it")
        names = _names(header)
    wanted.among(names, path)


def read_columns(path: Path, wanted: WantedColumns, bad: BadLines) -> TableColumns:
    """Read some columns of a table with a header; CSV, gzipped CSV or Parquet, told by content.

    Empty fields are null. Columns of text are String, of numbers Float64. Rows of another width
    than the header and numbers that are none go to `bad` and are left out.

    Raises TraceError for missing columns and damaged files.
    """
    if is_parquet(path):
        return _parquet(path, wanted)
    frames: list[pl.DataFrame] = []
    lines: list[Ints] = []
    names: list[str] = []
    text, numbers = list(wanted.text), list(wanted.numbers)
    for block in text_blocks(path):
        rows = [r.rstrip(b"\r") for r in block.text.split(b"\n")]
        kept = [i for i, row in enumerate(rows) if row]
        if not names and kept:
            names = _names(rows[kept.pop(0)])
            text, numbers = wanted.among(names, path)
        if kept:
            line = np.array(kept, np.int64) + block.first_line
            table = _parsed([rows[i] for i in kept], line, names, text, numbers, wanted.limits, bad)
            frames.append(table.frame)
            lines.append(table.line)
    if not frames:
        schema = dict.fromkeys(text, pl.String) | dict.fromkeys(numbers, pl.Float64)
        return TableColumns(pl.DataFrame(schema=schema), np.empty(0, np.int64))
    return TableColumns(pl.concat(frames), np.concatenate(lines))


def _names(header: bytes) -> list[str]:
    """Return the columns that a header line names."""
    return [name.strip(' "') for name in header.rstrip(b"\r").decode("utf-8", "replace").split(",")]


def _parsed(
    rows: list[bytes],
    line: Ints,
    names: list[str],
    text: Sequence[str],
    numbers: Sequence[str],
    limits: Sequence[str],
    bad: BadLines,
) -> TableColumns:
    body = b"\n".join(rows)
    if b'"' in body or body.count(b",") != (len(names) - 1) * len(line):
        refuse_misshapen(rows, line, len(names), bad)
        good = bad.good(line)
        rows, line = [row for row, fits in zip(rows, good, strict=True) if fits], line[good]
        body = b"\n".join(rows)
    labels = [str(i) for i in range(len(names))]  # the table's own may be empty or repeated
    schema = dict.fromkeys(labels, pl.String)
    frame = pl.DataFrame(schema=schema)
    with suppress(pl.exceptions.PolarsError):  # of no rows, too
        frame = pl.read_csv(body, has_header=False, schema=schema)
    if frame.height != len(line):
        raise TraceError(
            f"{bad.place(int(line[0]))}: not a table of {len(names)} columns from here on; check it"
        )
    frame = frame.select(
        pl.col(labels[names.index(name)]).str.strip_chars().replace("", None).alias(name)
        for name in [*text, *numbers]
    )
    frame = frame.with_columns(without_limit(pl.col(name)) for name in limits if name in numbers)
    read = {name: frame[name].cast(pl.Float64, strict=False) for name in numbers}
    for name, values in read.items():
        for row in (values.is_null() & frame[name].is_not_null()).arg_true().to_list():
            bad.add(
                int(line[row]),
                f"{name} is {frame[name][row]!r}, not a number; write numbers, and nothing where "
                "there is none",
            )
        if 2 * (values.is_null() & frame[name].is_not_null()).sum() > len(line):
            for other in text:
                if frame[other].cast(pl.Float64, strict=False).null_count() == 0:
                    bad.hint_swapped(name, other)
    table = TableColumns(frame.with_columns(**read), line)
    return table.take(bad.good(line))


def without_limit(text: pl.Expr) -> pl.Expr:
    """Return a column of time limits with ``inf`` for the words that say that there is none."""
    none = text.str.to_lowercase().is_in(["unlimited", "infinite", "infinity"])
    return pl.when(none).then(pl.lit("inf")).otherwise(text).alias(text.meta.output_name())


def _parquet(path: Path, wanted: WantedColumns) -> TableColumns:
    text, numbers = wanted.among(_parquet_names(path), path)
    with _undamaged(path):
        frame = pl.read_parquet(path, columns=[*text, *numbers])
    for name in numbers:
        dtype = frame[name].dtype
        if not (dtype.is_numeric() or dtype == pl.Null):
            raise TraceError(f"{path}: {name} is of type {dtype}; it must be a number")
    ids = [pl.col(name).cast(pl.String) for name in text]
    frame = frame.select(*ids, *(pl.col(name).cast(pl.Float64) for name in numbers))
    return TableColumns(frame, np.arange(1, frame.height + 1))


def _parquet_names(path: Path) -> list[str]:
    with _undamaged(path):
        return list(pl.read_parquet_schema(path))


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Raise TraceError for what cannot be read of a Parquet file."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(
            f"{path}: damaged Parquet file ({reason}); write or fetch it again"
        ) from None
