"""The rows of a table of text, block by block: quoted fields, notes and comments included.

Most tables hold no quotes, and polars reads them at full speed. Where there are quotes, a reader
that knows all of CSV takes over: fields may then hold separators, line ends and doubled quotes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Ints
from simkit.text import counted
from simkit.traces import rules
from simkit.traces.files import Block, text_blocks
from simkit.traces.rules import Tally
from simkit.traces.tables.layout import Layout, decoded

_LONGEST_FIELD: Final = 200
"""Lines that a quoted field may go on for; a longer one is a quote that nobody closed."""
_TEXT: Final = re.compile(r"[^\W\d_]{2,}.*[\s:()]|[\s:()].*[^\W\d_]{2,}")
UNCLOSED: Final = -1
"""Stands for the number of fields of a line whose quote is not closed."""


class Misfit(NamedTuple):
    """A line of another width than the column names."""

    line: int
    fields: int
    """How many it has, or `UNCLOSED`."""
    cells: tuple[str, ...]
    after_empty: bool
    """Whether the line before it is empty."""

    @property
    def is_note(self) -> bool:
        """Whether it reads like text below a table, not like a row that was cut off."""
        text = " ".join(self.cells).strip()
        return bool(_TEXT.search(text)) or (self.after_empty and any(map(str.isalpha, text)))


def misfit_text(misfit: Misfit, layout: Layout) -> str:
    """Return what is wrong with a line of another width, and the remedy."""
    if misfit.fields == UNCLOSED:
        return (
            "a quote is not closed, or text follows a quoted field; double quotes inside a field, "
            "and end it with one"
        )
    return (
        f"{counted(misfit.fields, 'field')}, the header has {len(layout.names)}; give every line "
        "one field a column"
    )


class Rows(NamedTuple):
    """Some rows of a table."""

    frame: pl.DataFrame
    """Text by position of its column: ``"0"``, ``"1"``, …; null where empty."""
    line: Ints
    """(n,) the line on which each begins."""
    misfits: list[Misfit]
    """Lines among them that are none."""


def table_rows(layout: Layout, tally: Tally, *, pad: bool = False) -> Iterator[Rows]:
    """Yield the rows below the column names.

    Comments, notes below the table and repeated column names are counted in `tally`, as is what
    stands above.

    Args:
        layout: of the file.
        tally: counts lines that are no rows.
        pad: rows with fewer fields than columns are rows whose last fields are empty.
    """
    _note_layout(layout, tally)
    reader = _Reader(layout, tally)
    waiting: list[Misfit] = []
    for rows in reader.all_rows():
        last = int(rows.line[-1]) if len(rows.line) else 0
        before, after = waiting + rows.misfits, list[Misfit]()
        if not last:
            waiting = before
            continue
        after = [misfit for misfit in before if misfit.line > last]
        yield _with(rows, [m for m in before if m.line < last], pad, reader)
        waiting = after
    _count_notes(waiting, tally)
    rest = [misfit for misfit in waiting if not misfit.is_note]
    if rest:
        yield _with(Rows(reader.frame([]), np.empty(0, np.int64), []), rest, pad, reader)


def _count_notes(waiting: list[Misfit], tally: Tally) -> None:
    notes = [misfit for misfit in waiting if misfit.is_note]
    tally.read(len(notes))
    tally.drop(rules.BELOW, np.array([note.line for note in notes], np.int64))
    if notes:
        tally.show(rules.BELOW, " ".join(notes[0].cells))


def _with(rows: Rows, misfits: list[Misfit], pad: bool, reader: _Reader) -> Rows:
    """Return rows with the lines that do not fit; short ones are rows if they are to be padded."""
    short = [m for m in misfits if pad and 0 < m.fields < reader.width]
    misfits = [misfit for misfit in misfits if misfit not in short]
    if not short:
        return Rows(rows.frame, rows.line, misfits)
    filled = [[*m.cells, *[""] * (reader.width - m.fields)] for m in short]
    line = np.concatenate([rows.line, [misfit.line for misfit in short]]).astype(np.int64)
    frame = pl.concat([rows.frame, reader.frame(filled)])
    order = np.argsort(line, kind="stable")
    return Rows(frame[order], line[order], misfits)


def _note_layout(layout: Layout, tally: Tally) -> None:
    for said in layout.said:
        tally.note(said, np.array([layout.header_line]))
    tally.note(rules.ABOVE, np.array(layout.above, np.int64))


class _Reader:
    """Reads block after block; a quoted field that goes on is finished in the next one."""

    def __init__(self, layout: Layout, tally: Tally) -> None:
        self.layout, self.tally = layout, tally
        self.width = len(layout.names)
        self.schema = {str(number): pl.String for number in range(self.width)}
        self._separator, self._names = layout.separator.encode(), layout.names[0].encode()
        self._rest, self._rest_line = b"", 0

    def frame(self, rows: list[list[str]]) -> pl.DataFrame:
        """Return rows of text as a frame."""
        return pl.DataFrame(rows, schema=self.schema, orient="row")

    def all_rows(self) -> Iterator[Rows]:
        """Yield the rows of each block of the file."""
        for block in text_blocks(self.layout.path):
            yield self.read(block)
        if self._rest:
            yield self._quoted(Block(self._rest_line, b""), last=True)

    def read(self, block: Block) -> Rows:
        """Return the rows of a block."""
        if b'"' in block.text or self._rest:
            return self._quoted(block)
        text = self._utf8(block)
        lines = [line.rstrip(b"\r") for line in text.split(b"\n")]
        skip = max(0, self.layout.header_line + 1 - block.first_line)
        kept = [i for i in range(skip, len(lines)) if lines[i]]
        if b"#" in text:
            kept = self._without_comments(lines, kept, block.first_line)
        body = b"\n".join([lines[i] for i in kept])
        line = np.array(kept, np.int64) + block.first_line
        if (
            len(self._separator) == 1
            and body.count(self._separator) == (self.width - 1) * len(kept)
            and kept
        ):
            try:
                frame = pl.read_csv(
                    body, has_header=False, schema=self.schema, quote_char=None,
                    separator=self.layout.separator,
                )  # fmt: skip
                if frame.height == len(kept):
                    rows = Rows(frame, line, [])
                    return self._without_names(rows) if self._names in text else rows
            except pl.exceptions.PolarsError:  # a line has a field too many, another too few
                pass
        kept = [i for i in kept if lines[i].strip()]
        line = np.array(kept, np.int64) + block.first_line
        cells = [lines[i].decode().split(self.layout.separator) for i in kept]
        empty = {i for i in kept if i and not lines[i - 1].strip()}
        return self._checked(cells, line, {block.first_line + i for i in empty})

    def _utf8(self, block: Block) -> bytes:
        """Return the text in UTF-8; note lines that are not, which change no other line."""
        if block.text.isascii() or not decoded(block.text)[1]:
            return block.text
        lines = [decoded(line) for line in block.text.split(b"\n")]
        odd = [i for i, (_, foreign) in enumerate(lines) if foreign]
        self.tally.note(rules.ENCODING, np.array(odd, np.int64) + block.first_line)
        return "\n".join(text for text, _ in lines).encode()

    def _without_comments(self, lines: list[bytes], kept: list[int], first: int) -> list[int]:
        comments = {i for i in kept if lines[i].startswith(b"#")}
        if not comments:
            return kept
        self.tally.note(rules.COMMENT, np.array(sorted(comments), np.int64) + first)
        return [i for i in kept if i not in comments]

    def _without_names(self, rows: Rows) -> Rows:
        """Leave out lines that repeat the column names, as in files put together."""
        if not rows.frame.height:
            return rows
        names = self.layout.names
        first = pl.col("0").str.strip_chars(' "')
        if not rows.frame.select((first == names[0]).any()).item():
            return rows
        same = rows.frame.select(
            pl.all_horizontal(
                pl.col(str(i)).str.strip_chars(' "').fill_null("") == name
                for i, name in enumerate(names)
            )
        ).to_series().to_numpy()  # fmt: skip
        self.tally.note(rules.REPEATED_HEADER, rows.line[same])
        return Rows(rows.frame.filter(~same), rows.line[~same], rows.misfits)

    def _checked(self, cells: list[list[str]], line: Ints, after_empty: set[int]) -> Rows:
        """Return rows of the right width, and the others."""
        fits = [len(row) == self.width for row in cells]
        misfits = [
            Misfit(number, len(row), tuple(row), number in after_empty)
            for number, row, good in zip(line.tolist(), cells, fits, strict=True)
            if not good
        ]
        frame = self.frame([row for row, good in zip(cells, fits, strict=True) if good])
        return self._without_names(Rows(frame, line[np.array(fits, dtype=bool)], misfits))

    def _quoted(self, block: Block, *, last: bool = False) -> Rows:
        """Return the rows of a block with quotes."""
        first = self._rest_line if self._rest else block.first_line
        text = (self._rest + self._utf8(block)).decode()
        lines = [line.removesuffix("\r") for line in text.split("\n")[:-1]]
        at = max(0, self.layout.header_line + 1 - first)
        if not self._rest and (rows := self._single_lines(lines, at, first)) is not None:
            return rows
        self._rest = b""
        found = _Found()
        while at < len(lines):
            height = self._height(lines, at)
            if not height and len(lines) - at < _LONGEST_FIELD and not last:
                self._rest, self._rest_line = ("\n".join(lines[at:]) + "\n").encode(), first + at
                break
            self._take(lines[at : at + max(height, 1)], first + at, found, closed=height > 0)
            at += max(height, 1)
        self.tally.note(rules.COMMENT, np.array(found.comments, np.int64))
        rows = self._checked(found.cells, np.array(found.line, np.int64), found.after_empty)
        return Rows(rows.frame, rows.line, sorted(rows.misfits + found.misfits))

    def _single_lines(self, lines: list[str], at: int, first: int) -> Rows | None:
        """Return the rows if each is on one line and fits; None if they need a closer look."""
        kept = [i for i in range(at, len(lines)) if lines[i]]
        body = [lines[i] for i in kept]
        if any(line.count('"') % 2 or line.startswith("#") for line in body) or not kept:
            return None
        try:
            cells = list(csv.reader(body, delimiter=self.layout.separator, skipinitialspace=True,
                                    strict=True))  # fmt: skip
        except csv.Error:
            return None
        if len(cells) != len(body) or any(len(row) != self.width for row in cells):
            return None
        columns = {str(i): [row[i] for row in cells] for i in range(self.width)}
        frame = pl.DataFrame(columns, schema=self.schema)
        return self._without_names(Rows(frame, np.array(kept, np.int64) + first, []))

    def _take(self, lines: list[str], line: int, found: _Found, *, closed: bool) -> None:
        """Add one row, which may go over several lines, or what is none."""
        if not closed:
            found.misfits.append(Misfit(line, UNCLOSED, (lines[0],), after_empty=False))
        elif len(lines) == 1 and not lines[0].strip():
            found.after_empty.add(line + 1)
        elif lines[0].startswith("#"):
            found.comments.append(line)
        elif (row := self._fields("\n".join(lines))) is not None:
            found.cells.append(row)
            found.line.append(line)

    def _height(self, lines: list[str], at: int) -> int:
        """Return over how many lines a row goes; 0: a quote in it is not closed."""
        if not lines[at].strip() or lines[at].startswith("#"):
            return 1
        text = ""
        for height in range(1, min(_LONGEST_FIELD, len(lines) - at) + 1):
            text += ("\n" if height > 1 else "") + lines[at + height - 1]
            even = text.count('"') % 2 == 0
            if (even or height == 1) and self._fields(text) is not None:
                return height
        return 0

    def _fields(self, text: str) -> list[str] | None:
        """Return the fields of a row; None if a quote in it is not closed."""
        stream = io.StringIO(text, newline="")
        try:
            rows = list(csv.reader(
                stream, delimiter=self.layout.separator, skipinitialspace=True, strict=True
            ))  # fmt: skip
        except csv.Error:
            return None
        return rows[0] if len(rows) == 1 else None


class _Found:
    """What a block with quotes holds."""

    def __init__(self) -> None:
        self.cells: list[list[str]] = []
        self.line: list[int] = []
        self.misfits: list[Misfit] = []
        self.comments: list[int] = []
        self.after_empty: set[int] = set()
