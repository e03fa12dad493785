"""Columns of a CSV or Parquet table by name: text for ids, numbers for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError, did_you_mean
from simkit.traces.files import is_parquet, text_blocks


@dataclass(frozen=True)
class TableColumns:
    """The columns read, with the places of their rows for messages."""

    frame: pl.DataFrame
    line: Ints
    """(n,) line numbers in a text file, from 1, the header's included; row numbers in Parquet."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.frame.height

    def take(self, rows: Ints) -> TableColumns:
        """Return some of the rows."""
        return TableColumns(self.frame[rows], self.line[rows])

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers, (n,), NaN where a field is empty."""
        return self.frame[name].fill_null(np.nan).to_numpy()

    def ids(self, name: str) -> npt.NDArray[Any]:
        """Return a column of ids: int64, or str objects as soon as one is no whole number."""
        words = self.frame[name]
        numbers = words.cast(pl.Int64, strict=False)
        if numbers.null_count() == 0:
            return numbers.to_numpy()
        return words.to_numpy().astype(object)


def read_columns(path: Path, text: Sequence[str], numbers: Sequence[str]) -> TableColumns:
    """Read some columns of a table with a header; CSV, gzipped CSV or Parquet, told by content.

    Empty fields are null. Columns in `text` are String, in `numbers` Float64.

    Raises TraceError, with the line, for missing columns, rows of another width and numbers that
    are none.
    """
    if is_parquet(path):
        return _parquet(path, text, numbers)

    frames: list[pl.DataFrame] = []
    lines: list[Ints] = []
    names: list[str] = []
    for block in text_blocks(path):
        rows = [r.rstrip(b"\r") for r in block.text.split(b"\n")]
        kept = [i for i, row in enumerate(rows) if row]
        if not names and kept:
            names = [n.strip(' "') for n in rows[kept.pop(0)].decode("utf-8", "replace").split(",")]
            _check_names(names, [*text, *numbers], path)
        if kept:
            line = np.array(kept, np.int64) + block.first_line
            body = b"".join(rows[i] + b"\n" for i in kept)
            frames.append(_parsed(body, line, names, text, numbers, path))
            lines.append(line)
    if not frames:
        raise TraceError(f"{path}: no tasks: the table has no rows; check it")
    return TableColumns(pl.concat(frames), np.concatenate(lines))


def _check_names(names: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    problems = [
        f"{path}:1: no column {name!r}{did_you_mean(name, [n for n in names if n])}; name the "
        "table's columns in `columns`"
        for name in wanted
        if name not in names
    ]
    problems += [
        f"{path}:1: two columns {name!r}; give each its own name"
        for name in wanted
        if names.count(name) > 1
    ]
    if problems:
        raise TraceError("\n".join(problems))


def _parsed(
    body: bytes,
    line: Ints,
    names: list[str],
    text: Sequence[str],
    numbers: Sequence[str],
    path: Path,
) -> pl.DataFrame:
    chosen = [*text, *numbers]
    if b'"' not in body and body.count(b",") != (len(names) - 1) * len(line):
        raise _misshapen(body, line, len(names), path)
    labels = [str(i) for i in range(len(names))]  # the table's own may be empty or repeated
    try:
        frame = pl.read_csv(body, has_header=False, schema=dict.fromkeys(labels, pl.String))
    except pl.exceptions.PolarsError:
        raise _misshapen(body, line, len(names), path) from None
    if frame.height != len(line):
        raise TraceError(f"{path}:{line[0]}: a quoted field with a line end follows; take it out")
    frame = frame.select(
        pl.col(labels[names.index(name)]).str.strip_chars().replace("", None).alias(name)
        for name in chosen
    )
    read = {name: frame[name].cast(pl.Float64, strict=False) for name in numbers}
    for name, values in read.items():
        if (broken := values.is_null() & frame[name].is_not_null()).any():
            row = int(broken.arg_true()[0])
            raise TraceError(
                f"{path}:{line[row]}: {name} is {frame[name][row]!r}, not a number; write numbers, "
                "and nothing where there is none"
            )
    return frame.with_columns(**read)


def _misshapen(body: bytes, line: Ints, width: int, path: Path) -> TraceError:
    for number, row in zip(line, body.split(b"\n"), strict=False):
        if (fields := row.count(b",") + 1) != width:
            return TraceError(
                f"{path}:{number}: {fields} fields, the header has {width}; give every line one "
                "field a column"
            )
    return TraceError(f"{path}:{line[0]}: not a table of {width} columns from here on; check it")


def _parquet(path: Path, text: Sequence[str], numbers: Sequence[str]) -> TableColumns:
    try:
        _check_names(list(pl.read_parquet_schema(path)), [*text, *numbers], path)
        frame = pl.read_parquet(path, columns=[*text, *numbers])
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(
            f"{path}: damaged Parquet file ({reason}); write or fetch it again"
        ) from None
    for name in numbers:
        dtype = frame[name].dtype
        if not (dtype.is_numeric() or dtype == pl.Null):
            raise TraceError(f"{path}: {name} is of type {dtype}; it must be a number")
    if frame.height == 0:
        raise TraceError(f"{path}: no tasks: the table has no rows; check it")
    ids = [pl.col(name).cast(pl.String) for name in text]
    frame = frame.select(*ids, *(pl.col(name).cast(pl.Float64) for name in numbers))
    return TableColumns(frame, np.arange(1, frame.height + 1))
