"""Tables on a terminal: a number is never cut, however narrow the terminal is.

What does not fit is helped in this order: text wraps; heads, then names break into two lines at an
underscore or the like; and columns continue in another table below, which repeats the names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table

from simkit.text import printable

PIPED_WIDTH = 140
"""Characters per line of a table in a file or a pipe."""
READ_WIDTH = 80
"""The same of a table that is read rather than searched."""
GAP = 2
"""Spaces between two columns."""
_TEXT_WIDTH = 24  # of a column that wraps, at least, if its text is that long
_SHORT = 10  # a name of so many characters is not broken
# Where a name may go on in the next line:
_BREAKS = re.compile(r"(?<=[_/.:+=,])(?!\d)|(?<=[a-z)] )")


def console(*, err: bool = False, piped_width: int = PIPED_WIDTH) -> Console:
    """Return a console on the current stdout, or stderr, with a width if it is no terminal."""
    piped = not (sys.stderr if err else sys.stdout).isatty()
    # Names are shown as they are: without emoji for `:a:`, too.
    return Console(
        stderr=err,
        width=piped_width if piped else None,
        highlight=False,
        soft_wrap=False,
        markup=False,
        emoji=False,
    )


def print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    names: int = 1,
    text: int = 0,
    piped_width: int = PIPED_WIDTH,
) -> None:
    """Print a table; control characters in it are shown, see `printable`.

    Args:
        heads: a head per column.
        rows: a cell per column.
        names: how many columns, from the left, name a row; a table below repeats them.
        text: how many columns, from the right, wrap. Those between are numbers.
        piped_width: characters per line in a file or a pipe.
    """
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
        made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for column in named:
            made.add_column(column[0], no_wrap=True)
        for place in block:
            if place < wrapped:
                made.add_column(rest[place][0], justify="right", no_wrap=True)
            else:
                made.add_column(rest[place][0], overflow="fold")
        for row in range(1, len(cells)):
            made.add_row(*(c[row] for c in named), *(rest[place][row] for place in block))
        screen.print(made)


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
