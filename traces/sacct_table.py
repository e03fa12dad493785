"""The table that ``sacct --parsable2`` prints: a header line of names, then rows of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.errors import TraceError

from . import rules
from .files import Block, text_blocks
from .rules import Tally

if TYPE_CHECKING:
    import polars as pl

LINE: Final = "line"
"""The column of line numbers; Slurm has no field of that name in lower case."""


def sacct_tables(path: Path, tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the rows, block by block: the column `LINE`, then the header's columns as text.

    Raises TraceError for a file without header, or a row with more or fewer fields than it.
    """
    header = b""
    for block in text_blocks(path):
        lines, numbers = _lines(block)
        if not header and lines:
            header = lines.pop(0)
            columns = _names(header, numbers.pop(0), path)
        repeated = [i for i, line in enumerate(lines) if line == header]
        tally.note(rules.REPEATED_HEADER, np.array([numbers[i] for i in repeated], np.int64))
        for index in reversed(repeated):
            del lines[index], numbers[index]
        if lines:
            _check_width(lines, numbers, header, path)
            yield _frame(lines, numbers, columns)


def _lines(block: Block) -> tuple[list[bytes], list[int]]:
    """Return the lines that are not empty, and their numbers."""
    lines, numbers = [], []
    for number, line in enumerate(block.text.split(b"\n"), block.first_line):
        if bare := line.strip(b" \r\t"):
            lines.append(bare)
            numbers.append(number)
    return lines, numbers


def _names(header: bytes, number: int, path: Path) -> list[str]:
    """Return the column names; after ``--parsable``, which ends lines in |, the last is empty."""
    names = [name.strip() for name in header.decode("utf-8", "replace").split("|")]
    lower = [name.lower() for name in names]
    if "jobid" not in lower and "jobidraw" not in lower:
        raise TraceError(
            f"{path}:{number}: the first line names no column JobID or JobIDRaw, so it is no "
            "header of sacct; print with --parsable2 and without --noheader"
        )
    if twice := next((name for name in names if lower.count(name.lower()) > 1), None):
        raise TraceError(f"{path}:{number}: two columns {twice}; name each once in --format")
    return names


def _check_width(lines: list[bytes], numbers: list[int], header: bytes, path: Path) -> None:
    width = header.count(b"|")
    for line, number in zip(lines, numbers, strict=True):
        if (bars := line.count(b"|")) != width:
            raise TraceError(
                f"{path}:{number}: {bars + 1} fields, the header has {width + 1}; print the table "
                "again, without columns of free text (JobName, Comment) that may hold a |"
            )


def _frame(lines: list[bytes], numbers: list[int], columns: list[str]) -> pl.DataFrame:
    import polars as pl

    if len(columns) == 1:  # without a separator polars would guess
        text = [line.decode("utf-8", "replace") for line in lines]
        frame = pl.DataFrame({columns[0]: text})
    else:
        frame = pl.read_csv(
            b"\n".join((*lines, b"")),
            has_header=False,
            separator="|",
            quote_char=None,
            schema=dict.fromkeys(columns, pl.String),
            encoding="utf8-lossy",
        ).with_columns(pl.all().fill_null(""))
    return frame.with_columns(pl.Series(LINE, numbers, pl.Int64))
