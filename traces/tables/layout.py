"""The layout of a table of text: which line names the columns, and what separates the fields."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces.files import text_blocks

SEPARATORS: Final = (",", ";", "\t", "|")
"""What is looked for between fields."""
_HEAD_BYTES: Final = 1 << 18
"""How much of a file is searched for the column names."""
MOST_COLUMNS: Final = 10_000
"""A table of more columns is refused: it takes seconds a row, and no log has so many."""
_NAMES: Final = {"\t": "tab", " ": "space"}


@dataclass(frozen=True)
class Dialect:
    """How a table is written: keys of `TableKeys`; None is found."""

    separator: str | None = None
    """What stands between two fields."""
    header_line: int | None = None
    """The line of the column names, from 1."""
    decimal: str | None = None
    """Decimal sign."""
    missing: tuple[str, ...] = ()
    """Marks of no value besides the usual ones."""


@dataclass(frozen=True)
class Layout:
    """Where a table's columns are."""

    path: Path
    names: tuple[str, ...]
    """The columns, without spaces and quotes around them."""
    separator: str
    header_line: int
    """The line with their names, from 1."""
    above: tuple[int, ...]
    """Lines above it that are not empty, if it was found."""
    found: bool
    """Whether the separator was found, not declared."""

    @property
    def said(self) -> tuple[str, ...]:
        """What was found and is not what most tables have."""
        if not self.found or self.separator == ",":
            return ()
        return (f"fields separated by {separator_name(self.separator)}",)


def separator_name(separator: str) -> str:
    """Return ``tab``, or the mark in quotes."""
    return _NAMES.get(separator, f"'{separator}'")


def find_layout(path: Path, wanted: Sequence[Collection[str]], dialect: Dialect) -> Layout:
    """Find the line with the column names and the separator.

    Args:
        path: the file.
        wanted: sets of columns; the line must have all of one set.
        dialect: what is declared.

    Returns:
        The layout; if no line has all of a set, of the line that comes closest, for a message.

    Raises TraceError if the file is empty, cannot be read, is shorter than `header_line`, or has
    more than `MOST_COLUMNS`.
    """
    lines = head(path)
    if not any(map(str.strip, lines)):
        raise TraceError(f"{path}: the file is empty; check it")
    if dialect.header_line is not None and dialect.header_line > len(lines):
        raise TraceError(
            f"{path}: {counted(len(lines), 'line')} at its beginning, so header_line: "
            f"{dialect.header_line} does not exist; check which line has the column names"
        )
    places = range(len(lines)) if dialect.header_line is None else [dialect.header_line - 1]
    separators = SEPARATORS if dialect.separator is None else (dialect.separator,)
    best, place, separator, names = 0, -1, "", [""]
    for at, mark, line in _candidates(lines, places, separators):
        found = split(line, mark)
        if (score := _score(found, wanted)) > best:
            best, place, separator, names = score, at, mark, found
        if best >= _WHOLE:
            break
    if place < 0:
        place, separator = _likely(lines, places, separators)
        names = split(lines[place], separator)
    refuse_wide(names, place + 1, path)
    found_above = lines[:place] if dialect.header_line is None else []
    above = tuple(n for n, line in enumerate(found_above, 1) if line.strip())
    return Layout(path, tuple(names), separator, place + 1, above, dialect.separator is None)


def refuse_wide(names: Sequence[str], line: int, path: Path) -> None:
    """Raise TraceError if a line names more columns than a table may have."""
    if len(names) > MOST_COLUMNS:
        raise TraceError(
            f"{path}:{line}: {len(names):,} columns, and at most {MOST_COLUMNS:,} are read; keep "
            "those that are needed"
        )


def _candidates(
    lines: Sequence[str], places: Sequence[int], separators: Sequence[str]
) -> Iterator[tuple[int, str, str]]:
    """Yield (line from 0, separator, text); a line of names may be a comment."""
    for at in places:
        texts = [lines[at], lines[at].lstrip("# ")] if lines[at].startswith("#") else [lines[at]]
        for text in texts:
            yield from ((at, mark, text) for mark in separators if mark in text)


def head(path: Path) -> list[str]:
    """Return the first lines of a file, without line ends."""
    first = next(iter(text_blocks(path, _HEAD_BYTES)), None)
    if first is None:
        return []
    if b"\r" in first.text and first.text.count(b"\n") == 1:
        raise TraceError(
            f"{path}: its lines end in CR alone, as on old Macintoshes; save it with the line ends "
            "of Unix or Windows"
        )
    return [line.removesuffix("\r") for line in decoded(first.text)[0].split("\n")[:-1]]


def decoded(text: bytes) -> tuple[str, bool]:
    """Return text in UTF-8, or else in Windows-1252, and whether it was the latter."""
    try:
        return text.decode(), False
    except UnicodeDecodeError:
        return text.decode("cp1252", "replace"), True


def split(line: str, separator: str) -> list[str]:
    """Return the fields of a line with column names, without spaces, quotes, or a # before all."""
    fields: list[str] = []
    with suppress(csv.Error):  # a quote that does not end
        fields = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    return [field.strip(' "\t\ufeff') for field in fields] or [""]


_WHOLE: Final = 1000
"""Score of a line that has all columns of a set."""


def _score(names: Sequence[str], wanted: Sequence[Collection[str]]) -> int:
    """Return how well a line does as that of the column names; 0: not at all."""
    known = set(names)
    if len(names) < 2:
        return 0
    best = max(len(known.intersection(columns)) for columns in wanted)
    return _WHOLE if any(known.issuperset(columns) for columns in wanted) else best


def _likely(
    lines: Sequence[str], places: Sequence[int], separators: Sequence[str]
) -> tuple[int, str]:
    """Return the line that looks most like one of names: the first of the most frequent width."""
    counts = Counter(
        (mark, lines[at].count(mark))
        for at in places
        for mark in separators
        if mark in lines[at] and not lines[at].startswith("#")
    )
    if not counts:
        return next((at for at in places if lines[at].strip()), places[0]), separators[0]
    (mark, number), _ = max(counts.items(), key=lambda item: (item[1], item[0][1]))
    return next(at for at in places if lines[at].count(mark) == number), mark
