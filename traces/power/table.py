"""CSV tables of measured series, read as text: columns by name, below any number of head lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces.bad_lines import SHOWN
from simkit.traces.files import text_blocks
from simkit.traces.power.units import near_name


@dataclass(frozen=True)
class Table:
    """The rows of a file as text."""

    path: Path
    columns: dict[str, pl.Series]
    """Name -> (n,) fields; empty ones are null."""
    line: Ints
    """(n,) the line of each row."""

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers, (n,); NaN where a field is not a number."""
        column = self.columns[name].cast(pl.Float64, strict=False)
        return column.fill_null(np.nan).to_numpy().astype(np.float64)


_FROM_EPW: Final = (
    "convert it in Python: import pvlib; pvlib.iotools.read_epw('place.epw', coerce_year=2019)[0]"
    ".to_csv('place.csv', index_label='time'), and read columns of place.csv as type csv "
    "(temp_air in degC, wind_speed in m/s, ghi in W/m2); for solar power take a file of the NSRDB"
)


def head_lines(path: Path, number: int) -> list[list[str]]:
    """Return the fields of the first lines of a file."""
    first = next(iter(text_blocks(path)), None)
    lines = first.text.decode("utf-8", "replace").splitlines() if first else []
    if lines and lines[0].startswith("LOCATION,"):
        raise TraceError(
            f"{path}:1: this is EnergyPlus weather (EPW), which has no line of column names and is "
            f"not read as it is; {_FROM_EPW}"
        )
    if len(lines) < number:
        raise TraceError(
            f"{path}: {counted(len(lines), 'line')}, its header alone takes {number}; check which "
            "file it is"
        )
    return [[word.strip(' "') for word in line.split(",")] for line in lines[:number]]


def read_table(path: Path, wanted: Sequence[str], *, header_line: int = 1) -> Table:
    """Read columns of a CSV file, plain or gzipped, as text.

    Args:
        path: the file.
        wanted: names of columns.
        header_line: the line with the names, from 1; lines above it are skipped.

    Raises TraceError if a column is missing, a name occurs twice, or a row has too many
    fields.
    """
    names = head_lines(path, header_line)[-1]
    chosen = [_position(name, names, path, header_line) for name in dict.fromkeys(wanted)]
    text = b"".join(block.text for block in text_blocks(path))
    for _ in range(header_line):
        text = text.partition(b"\n")[2]
    if not text.strip():
        raise TraceError(f"{path}: no rows below the header; check the file")
    labels = [str(number) for number in range(len(names))]
    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            schema=dict.fromkeys(labels, pl.String),
            columns=sorted(chosen),
        )
    except pl.exceptions.PolarsError:
        raise _misshapen(text, len(names), header_line + 1, path) from None
    columns = {
        name: frame[str(row)].str.strip_chars().replace("", None)
        for name, row in zip(dict.fromkeys(wanted), chosen, strict=True)
    }
    return Table(path, columns, np.arange(frame.height, dtype=np.int64) + header_line + 1)


def _position(name: str, names: list[str], path: Path, line: int) -> int:
    if (found := names.count(name)) != 1:
        what = f"column {name!r} is there {found} times" if found else f"no column {name!r}"
        near = "; rename one" if found else near_name(name, filter(None, names))
        raise TraceError(f"{path}:{line}: {what}{near}")
    return names.index(name)


def _misshapen(text: bytes, width: int, first_line: int, path: Path) -> TraceError:
    problems = [
        f"{path}:{number}: {counted(fields, 'field')}, the header has {width}; give every line one "
        "field for each column"
        for number, row in enumerate(text.splitlines(), first_line)
        if (fields := row.count(b",") + 1) > width
    ]
    if more := len(problems[SHOWN:]):
        problems[SHOWN:] = [f"… and {counted(more, 'more malformed line')}"]
    if problems:
        return TraceError("\n".join(problems))
    return TraceError(
        f"{path}:{first_line}: not a table of {counted(width, 'column')}; check the file"
    )
