"""Text output of the command line: lines with labels, quantities, and JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from textwrap import fill
from typing import Any

from simkit.cli.echo import echo
from simkit.cli.tables import READ_WIDTH, at_a_prompt, console, print_table
from simkit.text import counted, printable
from simkit.units import quantity as quantity

_LABEL = 12
"""Columns of the labels of lines."""


def print_json(content: Any) -> None:
    """Print JSON; what is not printable is escaped as JSON does."""
    lines = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in lines))


def as_text(show: Callable[[], None]) -> str:
    """Return what a function prints, as a prompt shows it: without the last line break."""
    written = StringIO()
    with redirect_stdout(written), at_a_prompt():
        show()
    return written.getvalue().rstrip("\n")


def say(label: str, text: str) -> None:
    """Print text after a column for its label."""
    indent = _LABEL + len(text) - len(text.lstrip())
    wrapped(f"{label:<{_LABEL}}{text}", indent)


def warn(text: str) -> None:
    """Print a warning to stderr, each of its lines wrapped in a terminal."""
    for line in text.split("\n"):
        wrapped(line, len(line) - len(line.lstrip()), err=True)


def wrapped(text: str, indent: int = 0, *, err: bool = False) -> None:
    """Print text on one line or, in a terminal, wrapped to it; a long path stays whole."""
    text, screen = printable(text), console(err=err)
    if screen.is_terminal and len(text) > screen.width:
        text = fill(
            text, screen.width, subsequent_indent=" " * indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    echo(text, err=err)


def print_rows(report: Any) -> None:
    """Print how many rows were accepted, repaired, dropped, by rule, and columns not read."""
    say("", report.sentence())
    for what, counts in (
        ("repaired", report.repaired), ("dropped", report.dropped), ("note", report.notes),
    ):  # fmt: skip
        for rule, count in counts.items():
            example = report.examples.get(rule)
            first = report.lines.get(rule, [])
            where = "" if example is None else (
                f" ({first_lines(first, count)}: {_cell(example)})" if first else ""
            )  # fmt: skip
            say("", f"  {what}: {rule} {count:,}{where}")
    _print_unread(report)


def _print_unread(report: Any) -> None:
    """Print the columns that were not read, by what they hold."""
    columns: dict[str, list[str]] = {}
    for column, holds in report.unread.items():
        columns.setdefault(holds, []).append(column)
    if columns:
        named = (f"{', '.join(names)} ({holds})" for holds, names in columns.items())
        say("", f"  not read: {'; '.join(named)}")
    if plain := report.unread_plain:
        more = "other " if report.unread else ""
        say("", f"  not read: {counted(plain, f'{more}column')} of names, comments and the like")


def first_lines(lines: Sequence[int], count: int) -> str:
    """Return ``line 3, 4, …``: the first of the lines that a rule met."""
    return f"line {', '.join(map(str, lines))}{', …' * (count > len(lines))}"


def _cell(example: str) -> str:
    return f"{example!r}" if example else "empty"


def print_pairs(first: str, second: str, rows: Mapping[str, str]) -> None:
    """Print a table of two columns of text."""
    print_table([first, second], list(rows.items()), text=1, piped_width=READ_WIDTH)


def print_plugins(found: Mapping[str, Sequence[str]]) -> None:
    """Print the names that each key of a scenario accepts."""
    print_pairs("Key", "Names", {key: ", ".join(names) or "-" for key, names in found.items()})
    echo("\nCustom policies: policy: {path: my_policy.py:MyPolicy, args: {…}}")
