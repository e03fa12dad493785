"""The table that ``sacct --parsable2`` prints: a header line of names, then rows of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.errors import TraceError
from simkit.words import counted

from . import rules
from .files import Block, text_blocks
from .rules import Tally
from .sacct_header import column_names

if TYPE_CHECKING:
    import polars as pl

LINE: Final = "line"
"""The column of line numbers; Slurm has no field of that name in lower case."""


def sacct_tables(path: Path, tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the rows, block by block: the column `LINE`, then the header's columns as text.

    Raises TraceError for a file without header, a header that lacks columns which are needed, or a
    row with more or fewer fields than the header.
    """
    header = b""
    for block in text_blocks(path):
        lines, numbers = _lines(block)
        if not header and lines:
            header = lines.pop(0)
            columns = column_names(header, numbers.pop(0), path)
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


def _check_width(lines: list[bytes], numbers: list[int], header: bytes, path: Path) -> None:
    width = header.count(b"|")
    for line, number in zip(lines, numbers, strict=True):
        if (bars := line.count(b"|")) != width:
            raise TraceError(
                f"{path}:{number}: {counted(bars + 1, 'field')}, the header has {width + 1}; "
                "print the table again, without columns of free text (JobName, Comment) that may "
                "hold a |"
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
