"""CSV tables of measured series, read as text: columns by name, below any number of head lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces.bad_lines import SHOWN
from simkit.traces.files import text_blocks
from simkit.traces.power.units import near_name
from simkit.traces.rules import Tally
from simkit.traces.tables.layout import Dialect, Layout, find_layout, separator_name
from simkit.traces.tables.numbers import Decimals, without_marks
from simkit.traces.tables.rows import Misfit, misfit_text, table_rows
from simkit.workload import RowReport


@dataclass(frozen=True)
class Table:
    """The rows of a file as text."""

    path: Path
    columns: dict[str, pl.Series]
    """Name -> (n,) fields; null where one stands for no value."""
    line: Ints
    """(n,) the line of each row."""
    values: dict[str, Floats]
    """Name of a column of numbers -> (n,) numbers; NaN where a field is not a number."""
    cells: dict[str, pl.Series]
    """Name -> (n,) fields as the file has them, for messages."""
    report: RowReport
    """Counts of the lines that are no rows."""

    def numbers(self, name: str) -> Floats:
        """Return a column as numbers, (n,); NaN where a field is not a number."""
        return self.values[name]

    def cells_of(self, names: Sequence[str], row: int) -> str:
        """Return what the file has in a row, for a message; empty if it has nothing."""
        cells = [self.cells[name][row] or "" for name in names]
        return ", ".join(cells) if any(cells) else ""

    def unreadable(self, names: Sequence[str]) -> Bools:
        """Return (n,) which rows have text in one of these columns that is no number."""
        found = [
            self.columns[name].is_not_null().to_numpy() & np.isnan(self.values[name])
            for name in names
        ]
        any_of_them: Bools = np.any(found, axis=0)
        return any_of_them


def head_lines(path: Path, number: int) -> list[list[str]]:
    """Return the fields of the first lines of a file."""
    first = next(iter(text_blocks(path)), None)
    lines = first.text.decode("utf-8", "replace").splitlines() if first else []
    if lines and lines[0].startswith("LOCATION,"):
        raise TraceError(
            f"{path}:1: this is EnergyPlus weather (EPW), which has no line of column names; read "
            "it as type epw-solar, epw-wind or epw-temperature"
        )
    if len(lines) < number:
        raise TraceError(
            f"{path}: {counted(len(lines), 'line')}, its header alone takes {number}; check which "
            "file it is"
        )
    return [[word.strip(' "') for word in line.split(",")] for line in lines[:number]]


def read_table(
    path: Path, wanted: Sequence[str], *, dialect: Dialect, numbers: Sequence[str] | None = None
) -> Table:
    """Read columns of a table, plain or gzipped, as text.

    Args:
        path: the file.
        wanted: names of columns.
        dialect: how the table is written; its `header_line` if other lines than that of the column
            names may have them.
        numbers: the columns among them that hold numbers; None: all.

    Raises TraceError if a column is missing, a name occurs twice, a row has too many fields, or
    the decimal sign cannot be told.
    """
    layout = find_layout(path, [set(wanted)], dialect)
    head_lines(path, 1)
    names, tally = list(layout.names), Tally()
    chosen = {name: _position(name, names, layout) for name in dict.fromkeys(wanted)}
    frames, lines, misfits = [], [], list[Misfit]()
    for rows in table_rows(layout, tally, pad=True):
        frames.append(rows.frame.select(map(str, chosen.values())))
        lines.append(rows.line)
        misfits += rows.misfits
    if misfits:
        raise _misshapen(misfits, layout)
    frame = pl.concat(frames) if frames else pl.DataFrame()
    if not frame.height:
        raise TraceError(f"{path}: no rows below the header; check the file")
    columns = {
        name: without_marks(frame[str(place)], dialect.missing) for name, place in chosen.items()
    }
    cells = {name: frame[str(place)] for name, place in chosen.items()}
    decimals = Decimals(dialect.decimal, layout.separator, str(path))
    figures = list(dict.fromkeys(wanted if numbers is None else numbers))
    values = dict(zip(figures, decimals.read([columns[n] for n in figures]), strict=True))
    if decimals.said:
        tally.note(decimals.said, np.array([layout.header_line]))
    return Table(path, columns, np.concatenate(lines), values, cells, tally.report)


def _position(name: str, names: list[str], layout: Layout) -> int:
    if (found := names.count(name)) == 1:
        return names.index(name)
    place = f"{layout.path}:{layout.header_line}"
    if found:
        raise TraceError(f"{place}: column {name!r} is there {found} times; rename one")
    fields = f" (separated by {separator_name(layout.separator)})" if layout.said else ""
    raise TraceError(
        f"{place}: no column {name!r}{near_name(name, filter(None, names))}{fields}"
        + (LINES_ABOVE if len(names) < 2 or layout.above else "")
    )


LINES_ABOVE: Final = (
    "; if the column names stand in another line, below others, say which: header_line: 4"
)


def _misshapen(misfits: Sequence[Misfit], layout: Layout) -> TraceError:
    width = len(layout.names)
    problems = [f"{layout.path}:{m.line}: {misfit_text(m, layout)}" for m in misfits[:SHOWN]]
    if more := len(misfits[SHOWN:]):
        problems.append(f"… and {counted(more, 'more malformed line')}")
    if layout.separator == "," and any(m.fields > width for m in misfits):
        problems.append(
            f"{layout.path}: if the comma is the decimal sign, another mark must separate the "
            "fields, or numbers must be in quotes; export the table again"
        )
    return TraceError("\n".join(problems))
