"""The rows of a table of text, block by block, and their values: numbers, ids and names.

Most tables hold no quotes, and polars reads them at full speed. Where there are quotes, a reader
that knows all of CSV takes over: fields may then hold separators, line ends and doubled quotes.

Numbers may have a decimal comma and grouped thousands; marks stand for no value; ids are whole
numbers where they are; names of users, queues, … are numbered in order of appearance.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces import rules
from simkit.traces.files import Block, text_blocks
from simkit.traces.rules import Tally
from simkit.traces.tables.layout import Layout, decoded

MISSING: Final = (
    "", "-", "--", "---", "–", "—", "n/e", "n/a", "#n/a", "na", "n.a.", "nan", "null", "none",
    "nil", "<na>", "(null)", "?", ".", "..", "...", "missing", "not available",
)  # fmt: skip
"""What stands for no value, in any case."""
_VARIANTS: Final = frozenset(
    form for mark in MISSING for form in (mark, mark.upper(), mark.capitalize(), mark.title())
) | {"NaN", "N/e", "Na"}

_GROUPS: Final = " \u00a0\u202f\u2009'’_"
_SURE_COMMA: Final = (
    r"^[+-]?(?:\d*,(?:\d{1,2}|\d{4,})?|0*,\d{3}|0\d*,\d+|\d{4,},\d+|\d{1,3}(?:\.\d{3})+,\d*"
    r"|\d{1,3}(?:\.\d{3}){2,})(?:[eE][+-]?\d+)?$"
)
_SURE_POINT: Final = (
    r"^[+-]?(?:\d*\.(?:\d{1,2}|\d{4,})?|0*\.\d{3}|0\d*\.\d+|\d{4,}\.\d+|\d{1,3}(?:,\d{3})+\.\d*"
    r"|\d{1,3}(?:,\d{3}){2,})(?:[eE][+-]?\d+)?$"
)
_EITHER_COMMA: Final = r"^[+-]?[1-9]\d{0,2},\d{3}$"
_EITHER_POINT: Final = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
_UNGROUPED: Final = r"^[+-]?\d{4,}$"


def without_marks(words: pl.Series, more: Collection[str] = ()) -> pl.Series:
    """Return text without spaces around it; null where it stands for no value.

    Args:
        words: (n,) text.
        more: further marks; one that is a number stands for all ways to write it.
    """
    bare = words.str.strip_chars()
    marks = [*_VARIANTS, *(mark.strip() for mark in more)]
    none = bare.is_in(marks)
    if figures := [value for mark in more if np.isfinite(value := _figure(mark))]:
        none |= bare.str.replace(",", ".").cast(pl.Float64, strict=False).is_in(figures).fill_null(
            value=False
        )  # fmt: skip
    return bare.set(none.fill_null(value=False), None)


def _figure(mark: str) -> float:
    try:
        return float(mark)
    except ValueError:
        return np.nan


class Decimals:
    """Reads numbers with the decimal sign of a table, declared or found.

    Attributes:
        sign: the sign; empty as long as no number tells it.
        said: what was recognised, for the report; empty if it is the usual point.
    """

    def __init__(self, declared: str | None, separator: str, place: str) -> None:
        """Begin.

        Args:
            declared: the sign; None: found.
            separator: the mark between fields; where it is a comma, 1.234 has a decimal point.
            place: the file, for messages.
        """
        self.sign, self.said = declared or "", ""
        self._place, self._separator = place, separator

    @property
    def usual(self) -> bool:
        """Whether numbers that polars reads as they are mean what they say."""
        return self.sign != "," and (self.sign == "." or self._separator == ",")

    def read(self, columns: Sequence[pl.Series]) -> list[Floats]:
        """Return columns of text as numbers, (n,) each; NaN where a cell is empty or no number.

        Raises TraceError if the numbers could have either sign.
        """
        plain = [words.cast(pl.Float64, strict=False) for words in columns]
        odd = any(
            (p.is_null() & w.is_not_null()).any() for p, w in zip(plain, columns, strict=True)
        )
        if not self.sign and (odd or self._separator != ","):
            self._find(pl.concat([_ungrouped(words.drop_nulls()) for words in columns]))
        if not odd and self.sign != ",":
            return [_floats(values) for values in plain]
        return [self._floats(words) for words in columns]

    def _find(self, words: pl.Series) -> None:
        """Find the sign by numbers that have only one meaning."""

        def first(pattern: str) -> str | None:
            found = words.filter(words.str.contains(pattern))
            return str(found[0]) if len(found) else None

        comma, point = first(_SURE_COMMA), first(_SURE_POINT)
        if comma and point:
            raise TraceError(
                f"{self._place}: the numbers {comma} and {point} have different decimal signs; "
                'correct them, or declare decimal: "," or decimal: "."'
            )
        if comma:
            self.sign, self.said = ",", "decimal comma"
        elif point:
            self.sign = "."
        elif doubtful := first(_EITHER_COMMA):
            raise self._ask(doubtful, ",")
        elif self._separator != "," and (doubtful := first(_EITHER_POINT)):
            if first(_UNGROUPED) is None:
                raise self._ask(doubtful, ".")
            self.sign = "."

    def _ask(self, number: str, sign: str) -> TraceError:
        other = "." if sign == "," else ","
        whole = number.replace(sign, "")
        return TraceError(
            f"{self._place}: {number} may be {number.replace(',', '.')} or {whole}, but no number "
            f'in the file tells; declare decimal: "{sign}" for {number.replace(",", ".")}, or '
            f'decimal: "{other}" for {whole}'
        )

    def _floats(self, words: pl.Series) -> Floats:
        """Return numbers with the sign found, thousands grouped or not."""
        sign = self.sign or "."
        group = "." if sign == "," else ","
        bare = _ungrouped(words)
        grouped = bare.str.contains(
            rf"^[+-]?\d{{1,3}}(?:\{group}\d{{3}})+(?:\{sign}\d*)?(?:[eE][+-]?\d+)?$"
        ).fill_null(value=False)
        bare = bare.set(grouped, None).fill_null(
            bare.str.replace_all(group, "", literal=True).set(~grouped, None)
        )
        if sign == ",":  # a point that groups nothing is no part of a number
            bare = bare.str.replace_all(".", "x", literal=True)
        return _floats(bare.str.replace(sign, ".", literal=True).cast(pl.Float64, strict=False))


def _ungrouped(words: pl.Series) -> pl.Series:
    """Return text with the minus of typographers as -, and without spaces that group thousands."""
    bare = words.str.replace("−", "-", literal=True)
    grouped = bare.str.contains(rf"^[+-]?\d{{1,3}}(?:[{_GROUPS}]\d{{3}})+(?:[.,]\d*)?$")
    if not grouped.any():
        return bare
    plain = bare.str.replace_all(f"[{_GROUPS}]", "")
    return plain.set(~grouped.fill_null(value=False), None).fill_null(bare)


def _floats(values: pl.Series) -> Floats:
    return values.fill_null(np.nan).to_numpy().astype(np.float64)


def number_names(names: pl.Series, known: dict[str, int]) -> Ints:
    """Return (n,) the numbers of names, in order of appearance; -1 for an empty one or null.

    Args:
        names: (n,) text.
        known: the names so far with their numbers, from 0; new ones are added.
    """
    for name in names.unique(maintain_order=True):
        if name:
            known.setdefault(name, len(known))
    return names.replace_strict(known, default=-1, return_dtype=pl.Int64).to_numpy()


EXACT: Final = 2.0**53
"""Whole numbers that are written as floats must be below: above, doubles skip some."""


def whole_numbers(words: pl.Series) -> pl.Series:
    """Return (n,) text as Int64: 7, and 7.0 as data frames write it; null for anything else."""
    exact = words.cast(pl.Int64, strict=False)
    if exact.null_count() == words.null_count():
        return exact
    number = words.cast(pl.Float64, strict=False)
    whole = (number.floor() == number) & (number.abs() < EXACT)
    return exact.fill_null(number.set(~whole.fill_null(value=False), None).cast(pl.Int64))


def plain_ids(words: pl.Series) -> pl.Series:
    """Return (n,) text with whole numbers in their shortest form: 7.0 and 07 as 7."""
    return whole_numbers(words).cast(pl.String).fill_null(words)


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
        layout: the layout of the file.
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
