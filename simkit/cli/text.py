"""Text output of the command line: lines with labels, tables, quantities, and JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.table import Table

from simkit.cli.echo import echo
from simkit.text import counted, printable
from simkit.units import format_duration

PIPED_WIDTH = 140
"""Characters per line of a table in a file or a pipe."""


def console() -> Console:
    """Return a console on the current stdout: wide if it is not a terminal."""
    piped = not sys.stdout.isatty()
    return Console(
        width=PIPED_WIDTH if piped else None, highlight=False, soft_wrap=False, markup=False
    )


def print_json(content: Any) -> None:
    """Print JSON; what is not printable is escaped as JSON does."""
    lines = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in lines))


def say(label: str, text: str) -> None:
    """Print a line after a column for its label; long paths are not cut."""
    echo(f"{label:<12}{printable(text)}")


class _Table(Table):
    """A table whose cells show control characters; see `printable`."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*map(_shown, cells), **options)


def _shown(cell: Any) -> Any:
    return printable(cell) if isinstance(cell, str) else cell


def table(*columns: str, text: Sequence[str] = ()) -> Table:
    """Return a table of names, then numbers, then the columns of `text`, which may wrap."""
    made = _Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        made.add_column(printable(column), justify="right" if position else "left", no_wrap=True)
    for column in text:
        made.add_column(printable(column), overflow="fold")
    return made


def quantity(value: float | None, unit: str) -> str:
    """Return a readable number: durations as ``1d 02:03:04``, others with four digits."""
    if value is None:
        return "-"
    if unit == "s":
        return format_duration(float(value))
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.4g}"


def print_rows(report: Any) -> None:
    """Print how many rows of a trace were accepted, repaired and dropped, by rule."""
    repaired, dropped = sum(report.repaired.values()), sum(report.dropped.values())
    say("", f"{counted(report.read, 'row')} read = {report.accepted:,} accepted + "
        f"{repaired:,} repaired + {dropped:,} dropped")  # fmt: skip
    for what, counts in (
        ("repaired", report.repaired), ("dropped", report.dropped), ("note", report.notes),
    ):  # fmt: skip
        for rule, count in counts.items():
            say("", f"  {what}: {rule} {count:,}")


def print_pairs(first: str, second: str, rows: Mapping[str, str]) -> None:
    """Print a table of two columns of text."""
    made = table(first, text=[second])
    for row in rows.items():
        made.add_row(*row)
    console().print(made)


def print_plugins(found: Mapping[str, Sequence[str]]) -> None:
    """Print the names that each key of a scenario accepts."""
    width = max(map(len, found))
    for key, names in found.items():
        lines = wrap(", ".join(names) or "-", 98 - width)
        echo(f"{key:{width}}  " + f"\n{'':{width}}  ".join(lines))
    echo("\nCustom policies: policy: {path: my_policy.py:MyPolicy, args: {…}}")
