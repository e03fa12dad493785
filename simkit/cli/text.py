"""The printer of the command line: facts, tables and JSON, written in one place.

A command makes blocks: `print_blocks` writes them, `print_or_json` writes JSON for scripts instead.
Names and messages may come from strangers' files: an escape sequence in them could rename the
window, hide lines or write over others, so nothing else prints, and control characters are shown.

A number in a table is never cut, however narrow the terminal is. What does not fit is helped in
this order: text wraps; heads, then names break into two lines at an underscore or the like; and
columns continue in another table below, which repeats the names.

Output may lose its reader: `simkit run … | head -1` runs to its end, with its own exit code. A
write to a closed pipe, or to a full disk, fails; the text then goes to the null device instead, and
so does all that follows. A reader that left wanted no more; any other failure loses output, and
`output_is_lost` tells the command line so.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any, TextIO

import typer

from simkit.text import counted, printable

if TYPE_CHECKING:
    from rich.console import Console


def echo(text: object = "", *, err: bool = False, end: str = "\n") -> None:
    """Print a text of one or more lines, to stderr if `err`."""
    lines = str(text).split("\n")
    typer.echo("\n".join(map(printable, lines)) + end, err=err, nl=False)


_LABEL = 12
"""Columns of the labels of lines."""


def print_json(content: Any) -> None:
    """Print JSON; what is not printable is escaped as JSON does."""
    lines = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in lines))


@dataclass(frozen=True)
class Line:
    """A fact: text after a column for its label; without a label it continues the one before."""

    label: str
    text: str


@dataclass(frozen=True)
class Plain:
    """Text of one or more lines as it is; an empty one separates blocks."""

    text: str = ""
    wraps: bool = False
    """Whether a terminal wraps it."""


@dataclass(frozen=True)
class Table:
    """Rows below heads; a number is never cut."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    """How many columns, from the left, name a row; a table below repeats them."""
    text: int = 0
    """How many columns, from the right, wrap. Those between are numbers."""
    piped_width: int | None = None
    """Characters per line in a file or a pipe; None: `PIPED_WIDTH`."""


Blocks = Iterator[Line | Plain | Table]


def print_blocks(blocks: Iterable[Line | Plain | Table]) -> None:
    """Print what a command reports."""
    for block in blocks:
        if isinstance(block, Line):
            indent = _LABEL + len(block.text) - len(block.text.lstrip())
            wrapped(f"{block.label:<{_LABEL}}{block.text}", indent)
        elif isinstance(block, Table):
            _print_table(block)
        elif block.wraps:
            wrapped(block.text)
        else:
            echo(block.text)


def print_or_json(blocks: Iterable[Line | Plain | Table], content: Any, *, as_json: bool) -> None:
    """Print what a command reports, or the same as JSON for scripts."""
    if as_json:
        print_json(content)
    else:
        print_blocks(blocks)


def as_text(blocks: Iterable[Line | Plain | Table]) -> str:
    """Return blocks as a prompt shows them: without the last line break."""
    written = StringIO()
    with redirect_stdout(written), at_a_prompt():
        print_blocks(blocks)
    return written.getvalue().rstrip("\n")


def warn(text: str) -> None:
    """Print a warning to stderr, each of its lines wrapped in a terminal."""
    for line in text.split("\n"):
        wrapped(line, len(line) - len(line.lstrip()), err=True)


@contextmanager
def warnings_kept() -> Iterator[list[str]]:
    """Collect what is warned of, to print it when the screen is free."""
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: said.append(str(message))
        yield said


def wrapped(text: str, indent: int = 0, *, err: bool = False) -> None:
    """Print text on one line or, in a terminal, wrapped to it; a long path stays whole."""
    text, screen = printable(text), console(err=err)
    if screen.is_terminal and len(text) > screen.width:
        text = fill(
            text, screen.width, subsequent_indent=" " * indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    echo(text, err=err)


def rows_blocks(report: Any) -> Blocks:
    """Yield how many rows were accepted, repaired, dropped, by rule, and columns not read."""
    yield Line("", report.sentence())
    for what, counts in (
        ("repaired", report.repaired), ("dropped", report.dropped), ("note", report.notes),
    ):  # fmt: skip
        for rule, count in counts.items():
            example = report.examples.get(rule)
            first = report.lines.get(rule, [])
            where = "" if example is None else (
                f" ({first_lines(first, count)}: {_cell(example)})" if first else ""
            )  # fmt: skip
            yield Line("", f"  {what}: {rule} {count:,}{where}")
    yield from _unread_blocks(report)


def _unread_blocks(report: Any) -> Blocks:
    """Yield the columns that were not read, by what they hold."""
    columns: dict[str, list[str]] = {}
    for column, holds in report.unread.items():
        columns.setdefault(holds, []).append(column)
    if columns:
        named = (f"{', '.join(names)} ({holds})" for holds, names in columns.items())
        yield Line("", f"  not read: {'; '.join(named)}")
    if plain := report.unread_plain:
        more = "other " if report.unread else ""
        yield Line(
            "", f"  not read: {counted(plain, f'{more}column')} of names, comments and the like"
        )


def first_lines(lines: Sequence[int], count: int) -> str:
    """Return ``line 3, 4, …``: the first of the lines that a rule met."""
    return f"line {', '.join(map(str, lines))}{', …' * (count > len(lines))}"


def _cell(example: str) -> str:
    return f"{example!r}" if example else "empty"


def rounded(value: float) -> str:
    """Return a fact's number in four digits, or as a whole number from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def pairs_blocks(first: str, second: str, rows: Mapping[str, str]) -> Blocks:
    """Yield a table of two columns of text."""
    yield Table([first, second], list(rows.items()), text=1, piped_width=READ_WIDTH)


def plugins_blocks(found: Mapping[str, Sequence[str]]) -> Blocks:
    """Yield the names that each key of a scenario accepts."""
    yield from pairs_blocks(
        "Key", "Names", {key: ", ".join(names) or "-" for key, names in found.items()}
    )
    yield Plain("\nCustom policies: policy: {path: my_policy.py:MyPolicy, args: {…}}")


PIPED_WIDTH = 140
"""Characters per line of a table in a file or a pipe."""
READ_WIDTH = 80
"""The same of a table that is read rather than searched."""
GAP = 2
"""Spaces between two columns."""
_TEXT_WIDTH = 24  # of a column that wraps, at least, if its text is that long
_SHORT = 10  # a name of up to this many characters is not broken
# Where a name may go on in the next line:
_BREAKS = re.compile(r"(?<=[_/.:+=,])(?!\d)|(?<=[a-z)] )")


_prompt: ContextVar[int] = ContextVar("prompt", default=0)
"""Characters per line of the prompt that a text is for; 0: it is for stdout."""


@contextmanager
def at_a_prompt() -> Iterator[None]:
    """Let tables be as wide as the terminal in which Python runs, wherever they are written."""
    before = _prompt.set(get_terminal_size().columns)
    try:
        yield
    finally:
        _prompt.reset(before)


def console(*, err: bool = False, piped_width: int = PIPED_WIDTH) -> Console:
    """Return a console on the current stdout, or stderr, with a width if it is no terminal."""
    from rich.console import Console

    piped = not (sys.stderr if err else sys.stdout).isatty()
    width = _prompt.get() or (piped_width if piped else None)
    # Names are shown as they are: without emoji for `:a:`, too.
    return Console(
        stderr=err,
        width=width,
        highlight=False,
        soft_wrap=False,
        markup=False,
        emoji=False,
    )


def _print_table(table: Table) -> None:
    from rich.table import Table as RichTable

    heads, rows, names, text = table.heads, table.rows, table.names, table.text
    piped_width = PIPED_WIDTH if table.piped_width is None else table.piped_width
    cells = [[printable(cell) for cell in row] for row in (heads, *rows)]
    columns = [list(column) for column in zip(*cells, strict=True)]
    screen = console(piped_width=piped_width)
    named, rest = columns[:names], columns[names:]
    wrapped = len(rest) - text  # the first of the columns that wrap
    needed = [_width(c) if n < wrapped else _text_width(c) for n, c in enumerate(rest)]
    if _total([*map(_width, named), *needed]) > screen.width:
        for place, column in enumerate(rest[:wrapped]):
            column[0] = _in_two_lines(column[0], max(map(len, column[1:]), default=0))
            needed[place] = _width(column)
        named = _fitted(named, screen.width, needed)
    room = screen.width - _total(map(_width, named))
    for number, block in enumerate(_blocks(needed, room)):
        if number:
            screen.print()
        made = RichTable(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for column in named:
            made.add_column(column[0], no_wrap=True)
        for place in block:
            if place < wrapped:
                made.add_column(rest[place][0], justify="right", no_wrap=True)
            else:
                made.add_column(rest[place][0], overflow="fold")
        for row in range(1, len(cells)):
            made.add_row(*(c[row] for c in named), *(rest[place][row] for place in block))
        if screen.is_terminal:
            screen.print(made)
            continue
        with screen.capture() as written:
            screen.print(made)
        echo("\n".join(line.rstrip() for line in written.get().splitlines()))


def _fitted(named: Sequence[Sequence[str]], width: int, needed: Sequence[int]) -> list[list[str]]:
    """Return the columns of names, broken so that the others fit beside them, if they can."""
    widest = width - max(needed, default=0) - GAP  # that names may have in any case
    beside_all = width - sum(needed) - GAP * len(needed)
    for room, limit in ((beside_all, beside_all), (width // 2, width // 2), (0, widest)):
        folded = _in_room(named, room)
        if _total(map(_width, folded)) <= limit:
            return folded
    return [_cut(column, widest // len(named) - GAP) for column in named]


def _in_room(named: Sequence[Sequence[str]], room: int) -> list[list[str]]:
    """Break names into two lines, in the widest column first, as far as the room is too small."""
    folded = [list(column) for column in named]
    for column in sorted(folded, key=_width, reverse=True):
        over = _total(map(_width, folded)) - room
        if over > 0:
            limit = max(_width(column) - over, _SHORT)
            limit = _width([_in_two_lines(name, limit) for name in column])
            column[:] = [_in_two_lines(name, limit) for name in column]
    return folded


def _blocks(needed: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the columns of each table: as many as fit beside the names."""
    block: list[int] = []
    left = room
    for place, width in enumerate(needed):
        if block and width + GAP > left:
            yield block
            block, left = [], room
        block.append(place)
        left -= width + GAP
    yield block


def _width(column: Sequence[str]) -> int:
    return max(len(line) for cell in column for line in cell.split("\n"))


def _text_width(column: Sequence[str]) -> int:
    """Return the least width of a column that wraps."""
    return min(_width(column), _TEXT_WIDTH)


def _total(widths: Iterable[int]) -> int:
    """Return the width of columns side by side."""
    return sum(width + GAP for width in widths) - GAP


def _in_two_lines(name: str, limit: int) -> str:
    """Break a name that is longer than the limit where its two lines are most alike."""
    breaks = [found.end() for found in _BREAKS.finditer(name)]
    if len(name) <= limit or not breaks:
        return name
    place = min(breaks, key=lambda length: max(length, len(name) - length))
    return f"{name[:place].rstrip()}\n{name[place:].lstrip()}"


def _cut(column: Sequence[str], width: int) -> list[str]:
    """Break names anywhere into lines of a width."""
    return ["\n".join(re.findall(f".{{1,{max(width, 1)}}}", name)) for name in column]


_STDERR = 2


class LeftPipe(io.FileIO):
    """A file descriptor that leads to the null device as soon as it cannot be written."""

    lost = False
    """Whether a write failed for another reason than that the reader left."""

    def write(self, data: Any) -> int:
        """Write, if anybody reads it."""
        try:
            return super().write(data)
        except OSError as error:  # nobody reads any more, or the disk is full
            self.lost = not isinstance(error, BrokenPipeError)
            if self.lost and self.fileno() != _STDERR:
                os.write(_STDERR, f"the output cannot be written: {error.strerror}\n".encode())
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def outlive_readers() -> None:
    """Let stdout and stderr survive their readers, and be there even if they were closed."""
    sys.stdout = _outliving(sys.stdout, sys.__stdout__)
    sys.stderr = _outliving(sys.stderr, sys.__stderr__)


def output_is_lost() -> bool:
    """Return whether output could not be written, although its reader is there."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, LeftPipe) and raw.lost


def _outliving(stream: TextIO | None, own: TextIO | None) -> TextIO:
    """Return a stream that outlives its reader; another's, such as a test's, stays as it is."""
    if stream is None:  # closed, as by `simkit run … >&-`
        return Path(os.devnull).open("w", encoding="utf-8")
    if stream is not own:
        return stream
    stream.flush()
    raw = LeftPipe(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=own is sys.__stderr__ or stream.isatty(),
    )
