"""The lines of a log in the Standard Workload Format as numbers, many lines at a time.

Nearly all lines of nearly all logs are 18 plain numbers. Blocks of such lines become arrays; all
other blocks are left to the reader of single lines.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl

from simkit.verify.folder import most_bytes
from simkit.verify.numbers import LARGEST, Bools, Floats

FIELDS: Final = 18
"""Fields of a line."""
_BLOCK: Final = 1 << 23
"""Bytes that are read at a time."""
_PLAIN: Final = np.zeros(256, dtype=np.bool_)
"""Characters of plain numbers and what separates them."""
_PLAIN[list(b"0123456789+-.eE \t\r\n")] = True
_EXACT: Final = 2.0**53
"""Whole numbers below this are exact."""


def blocks(path: Path) -> Iterator[Floats | list[bytes]]:
    """Yield the lines of a log, plain or gzipped, some at a time.

    Each block is (lines, 18) numbers, or the lines as they are if they are anything else.

    Raises ValueError if the log unpacks to far more than its size.
    """
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    left = most_bytes(path) if zipped else path.stat().st_size
    with gzip.open(path) if zipped else path.open("rb") as lines:
        while text := lines.read(_BLOCK):
            text += lines.readline(max(left, 0) + 1)
            left -= len(text)
            if left < 0:
                raise ValueError("it unpacks to far more than its size, and is not read")
            while text.startswith(b";"):  # the header
                text = text[text.find(b"\n") + 1 :] if b"\n" in text else b""
            if not text:
                continue
            numbers = _numbers(text)
            yield text.split(b"\n") if numbers is None else numbers


def _numbers(text: bytes) -> Floats | None:
    """Return (lines, 18) the numbers of lines; None unless each has 18 plain ones."""
    if not text.endswith(b"\n"):
        text += b"\n"
    characters = np.frombuffer(text, dtype=np.uint8)
    if not _PLAIN[characters].all():
        return None
    solid = characters > ord(" ")
    begins = solid & ~np.append(False, solid[:-1])
    line_ends = np.flatnonzero(characters == ord("\n"))
    counts = np.diff(np.cumsum(begins)[line_ends], prepend=0)
    if (counts != FIELDS).any():
        return None
    single = np.count_nonzero(characters == ord(" ")) == (FIELDS - 1) * len(line_ends)
    table = _separated(text) if single else _spaced(text)
    if table is None or len(table) != len(line_ends) or not np.isfinite(table).all():
        return None
    whole = table[:, [0, *range(11, 16)]]
    return table if ((whole % 1 == 0) & (np.abs(whole) < _EXACT)).all() else None


def _separated(text: bytes) -> Floats | None:
    """Return (lines, 18) the numbers of lines with one blank between two; None if there is text."""
    names = [str(field) for field in range(FIELDS)]
    try:
        frame = pl.read_csv(
            text, has_header=False, separator=" ", schema=dict.fromkeys(names, pl.Float64)
        )
    except pl.exceptions.PolarsError:
        return None
    return None if any(frame.null_count().row(0)) else frame.to_numpy()


def _spaced(text: bytes) -> Floats | None:
    """Return (lines, 18) the numbers of lines; None if there is text."""
    try:
        numbers = np.array(text.split(), dtype=np.float64)
    except ValueError:
        return None
    return numbers.reshape(-1, FIELDS)


def accepted(table: Floats, rules: Mapping[str, Any], parts: tuple[float, ...]) -> Bools:
    """Return (lines,) which lines are jobs by the scenario's rules.

    Args:
        table: (lines, 18) numbers.
        rules: the scenario's workload.
        parts: statuses of bursts of a job, whose sum has its own line.
    """
    submit, run, allocated, asked, requested = (table[:, n] for n in (1, 3, 4, 7, 8))
    sane = np.maximum.reduce([np.abs(allocated), np.abs(asked), np.abs(requested)]) < LARGEST
    sane &= (submit + run <= LARGEST) & (run <= LARGEST / 2)
    sane &= ~np.isin(table[:, 10], parts)
    ran = run >= 0 if rules.get("keep_zero_run") else run > 0
    return cast(Bools, ran & (processors(table, rules) > 0) & (submit >= 0) & sane)


def processors(table: Floats, rules: Mapping[str, Any]) -> Floats:
    """Return (lines,) processors: those that were allocated, or requested, or the other."""
    first, second = table[:, 4], table[:, 7]
    if rules.get("processors") == "requested":
        first, second = second, first
    return np.where(first > 0, first, second)


def jobs_of(table: Floats, rules: Mapping[str, Any], numbers: tuple[str, ...]) -> pl.DataFrame:
    """Return the jobs of lines that are accepted.

    Args:
        table: (lines, 18) numbers.
        rules: the scenario's workload.
        numbers: names of fields 12 to 16.

    Returns columns ``job_id, submit, run, processors, requested`` and `numbers`.
    """
    run, requested = table[:, 3], table[:, 8]
    frame = pl.DataFrame({
        "job_id": table[:, 0].astype(np.int64), "submit": table[:, 1], "run": run,
        "processors": np.ceil(processors(table, rules)),
        "requested": np.where(requested > 0, requested, np.nan),
        **{name: table[:, 11 + n].astype(np.int64) for n, name in enumerate(numbers)},
    })  # fmt: skip
    if rules.get("requested_time", "max") == "max":
        return frame.with_columns(pl.Series("requested", np.maximum(requested, run)))
    return frame.with_columns(pl.col("requested").fill_nan(None))
