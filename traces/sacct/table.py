"""The table that ``sacct`` prints: how fields are told apart, its rows, and the forms of values.

``sacct --parsable2`` writes ``|`` between fields, ``--delimiter`` any other text; a spreadsheet
saves commas, semicolons or tabs, and quotes fields that hold one. Without --parsable columns have
the widths of a line of dashes, and a field that is too long is cut off, which a ``+`` at its end
shows.

The functions for fields (durations, time limits, instants, memory) take a polars column of text and
return numbers, null where the text stands for no value (empty, Unknown, …) or has no known form.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl

from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces import rules
from simkit.traces.columns import SACCT
from simkit.traces.files import Block, text_blocks
from simkit.traces.rules import BadLines, Tally
from simkit.traces.tables.layout import refuse_wide

SEPARATOR: Final = "\x1f"
"""Stands between the fields of a line that was taken apart; no text holds it."""
USUAL: Final = "|"
_BLANKS: Final = {"\t": "tab", " ": "blank"}
_QUOTED_IN: Final = (",", ";", "\t")
_GAP: Final = re.compile(r"(?<=\w)(\W+)(?=\w)")
_DASHES: Final = re.compile(r"\s*-+(?:\s+-+)+\s*")
REMEDY: Final = "print the table with --parsable2"


@dataclass(frozen=True)
class Layout:
    """How the lines of one table are taken apart."""

    delimiter: str = ""
    """Text between the fields; empty: columns of fixed width."""
    columns: tuple[slice, ...] = ()
    """Places of the columns of fixed width, in bytes."""
    guessed: bool = False
    """The delimiter is neither the usual nor given."""

    @property
    def words(self) -> str:
        """What this is called in a note."""
        if not self.delimiter:
            return "columns of fixed width: taken from the line of dashes"
        shown = _BLANKS.get(self.delimiter, repr(self.delimiter))
        return f"delimiter {shown}: taken from the header line"

    def fields(self, line: str, width: int | None = None) -> list[str]:
        """Return the fields of a line, quoted ones too if it has not as many as `width`.

        Raises ValueError, with what is wrong, for a line that does not keep to fixed widths.
        """
        if not self.delimiter:
            return self._cut(line)
        fields = line.split(self.delimiter)
        quoted = '"' in line and self.delimiter in _QUOTED_IN
        if quoted and (len(fields) != width or fields[0].startswith('"')):
            fields = next(csv.reader([line], delimiter=self.delimiter))
        return [field.strip() for field in fields]

    def _cut(self, line: str) -> list[str]:
        raw = line.encode()
        fields = [raw[place] for place in self.columns]
        between = [
            raw[a.stop : b.start] for a, b in zip(self.columns, self.columns[1:], strict=False)
        ]
        if any(gap.strip() for gap in (*between, raw[self.columns[-1].stop :])):
            raise ValueError(
                f"the fields do not keep to the widths of the line of dashes; {REMEDY}"
            )
        for field in fields:
            if field.endswith(b"+") and len(field.strip()) == len(field):
                shown = field.decode("utf-8", "replace")
                raise ValueError(
                    f"{shown!r} is cut off, as the + says; {REMEDY}, which cuts nothing"
                )
        return [field.decode("utf-8", "replace").strip() for field in fields]


def layout_of(header: str, below: str, given: str | None, place: str) -> Layout:
    """Return the layout of a table.

    Args:
        header: its first line.
        below: the line after it.
        given: the delimiter, if it is known.
        place: file and line, for messages.

    Raises TraceError if the header shows none.
    """
    if given is not None:
        return Layout(given)
    if _DASHES.fullmatch(below):
        return Layout(
            columns=tuple(slice(*m.span()) for m in re.finditer("-+", below)), guessed=True
        )
    gaps = {gap.strip(" ") or gap for gap in _GAP.findall(header.replace('"', ""))}
    if not gaps:
        return Layout(USUAL)
    delimiter = gaps.pop() if len(gaps) == 1 else ""
    if delimiter.strip(" ") or delimiter == " ":
        return Layout(delimiter, guessed=delimiter != USUAL)
    raise TraceError(
        f"{place}: no delimiter of fields can be told from this line; {REMEDY}, or name it in "
        "`delimiter`"
    )


PROCESSORS: Final = (
    *SACCT["allocated"], "AllocTRES", *SACCT["requested"], "ReqTRES", *SACCT["machines"],
)  # fmt: skip
"""Columns that give a job's size; machines are counted if there are no processors."""

COMMAND: Final = (
    "sacct --allusers --allocations --parsable2 --format=JobID,JobIDRaw,User,Account,Partition,"
    "QOS,State,Submit,Start,End,Elapsed,Timelimit,AllocCPUS,ReqCPUS,NNodes,ReqMem,AllocTRES,"
    "ReqTRES,TotalCPU"
)
"""The command whose table has all columns that are read (without --allocations: memory used)."""


def column_names(fields: Sequence[str], number: int, path: Path) -> list[str]:
    """Return the names in a header line; the last is empty after ``--parsable``, which ends in |.

    Raises TraceError, with the line `number`, if it is not a header, names too many columns or one
    twice, or lacks columns; it names all missing ones.
    """
    refuse_wide(fields, number, path)
    names = [name.strip() for name in fields]
    lower = [name.lower() for name in names]
    if "jobid" not in lower and "jobidraw" not in lower:
        raise TraceError(
            f"{path}:{number}: the first line names no column JobID or JobIDRaw, so it is no "
            "header of sacct; print with --parsable2 and without --noheader"
        )
    if twice := next((name for name in names if lower.count(name.lower()) > 1), None):
        raise TraceError(f"{path}:{number}: two columns {twice}; name each once in --format")
    if missing := _missing(lower):
        raise TraceError(
            f"{path}:{number}: no column {', no column '.join(missing)}; print the table again "
            f"with {COMMAND}"
        )
    return names


def _missing(lower: Sequence[str]) -> list[str]:
    """Return the missing columns, each with the columns that could replace it."""

    def has(*names: str) -> bool:
        return any(name.lower() in lower for name in names)

    missing = []
    if not has("Submit"):
        missing.append("Submit")
    if not has(*SACCT["run_s"]) and not (has("Start") and has("End")):
        missing.append("Elapsed (or ElapsedRaw, or both Start and End)")
    if not has(*PROCESSORS):
        missing.append(f"{PROCESSORS[0]} (or {', '.join(PROCESSORS[1:])})")
    return missing


LINE: Final = "line"
"""The column of line numbers; Slurm has no field of that name in lower case."""


def sacct_tables(
    path: Path, tally: Tally, bad: BadLines, delimiter: str | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows, block by block: the column `LINE`, then the header's columns as text.

    Rows with more or fewer fields than the header go to `bad` and are left out. Fields stand
    between delimiters; None: as the header shows, see `layout_of`. Raises TraceError for a file
    without header, or a header that lacks needed columns.
    """
    head: _Head | None = None
    for block in text_blocks(path):
        lines, numbers = _lines(block)
        if not lines:
            continue
        if head is None:
            head = _Head(lines, numbers, path, delimiter)
            if head.layout.guessed:
                tally.note(head.layout.words, np.array(numbers[:1]))
            del lines[: head.lines], numbers[: head.lines]
        repeated = [i for i, line in enumerate(lines) if line in head.texts]
        headers = [numbers[i] for i in repeated if lines[i] == head.texts[0]]
        tally.note(rules.REPEATED_HEADER, np.array(headers, np.int64))
        for index in reversed(repeated):
            del lines[index], numbers[index]
        lines = head.taken_apart(lines, numbers, bad)
        good = bad.good(np.array(numbers, np.int64)).tolist()
        if any(good):
            yield head.frame(list(compress(lines, good)), list(compress(numbers, good)))


def _lines(block: Block) -> tuple[list[bytes], list[int]]:
    """Return the lines that are not empty, and their numbers."""
    lines, numbers = [], []
    for number, line in enumerate(block.text.split(b"\n"), block.first_line):
        if line.strip():
            lines.append(line.rstrip(b"\r"))
            numbers.append(number)
    return lines, numbers


class _Head:
    """The lines above the rows: names of the columns, and how fields are told apart.

    Attributes:
        layout: tells fields apart.
        lines: how many lines it takes: 2 with a line of dashes.
        texts: these lines.
        columns: the names.
    """

    def __init__(
        self, lines: Sequence[bytes], numbers: Sequence[int], path: Path, delimiter: str | None
    ) -> None:
        """Read the first lines of a table; raises TraceError if they are no header."""
        header, below = (
            line.decode("utf-8", "replace") for line in (lines[0], *lines[1:2], b"")[:2]
        )
        self.layout = layout_of(header, below, delimiter, f"{path}:{numbers[0]}")
        self.lines = 1 if self.layout.delimiter else 2
        self.texts = list(lines[: self.lines])
        try:
            names = self.layout.fields(header)
        except ValueError as error:
            raise TraceError(f"{path}:{numbers[0]}: {error}") from None
        self.columns = column_names(names, numbers[0], path)
        self._usual = self.layout.delimiter == USUAL and " " not in header.strip()

    def taken_apart(
        self, lines: Sequence[bytes], numbers: Sequence[int], bad: BadLines
    ) -> list[bytes]:
        """Return the rows with one separator between their fields; misshapen ones go to `bad`."""
        if self._usual:
            rows = [line.strip(b" \t") for line in lines]
            counts = [row.count(b"|") + 1 for row in rows]
        else:
            rows, counts = [], []
            for line, number in zip(lines, numbers, strict=True):
                fields = self._fields(line, number, bad)
                rows.append(SEPARATOR.join(fields).encode())
                counts.append(len(fields))
        width, shown = len(self.columns), self.layout.delimiter
        for count, number in zip(counts, numbers, strict=True):
            if count != width:
                bad.add(
                    number,
                    f"{counted(count, 'field')}, the header has {width}; print the table again, "
                    f"without columns of free text (JobName, Comment) that may hold a {shown}",
                )
        return rows

    def _fields(self, line: bytes, number: int, bad: BadLines) -> list[str]:
        width = len(self.columns)
        try:
            return self.layout.fields(line.decode("utf-8", "replace"), width)
        except (ValueError, csv.Error) as error:
            bad.add(number, str(error))
            return [""] * width

    def frame(self, lines: list[bytes], numbers: list[int]) -> pl.DataFrame:
        """Return rows as columns of text."""
        columns = self.columns
        if len(columns) == 1:  # without a separator polars would guess
            text = [line.decode("utf-8", "replace") for line in lines]
            frame = pl.DataFrame({columns[0]: text})
        else:
            frame = pl.read_csv(
                b"\n".join((*lines, b"")),
                has_header=False,
                separator=USUAL if self._usual else SEPARATOR,
                quote_char=None,
                schema=dict.fromkeys(columns, pl.String),
                encoding="utf8-lossy",
            ).with_columns(pl.all().fill_null(""))
        return frame.with_columns(pl.Series(LINE, numbers, pl.Int64))


NOTHING: Final = (
    "", "unknown", "none", "n/a", "invalid", "unlimited", "partition_limit", "4294967294",
    "(null)",
)  # fmt: skip
"""What Slurm writes where there is no value, in lower case."""

NO_LIMIT: Final = ("unlimited", "infinite", "4294967295")
"""What Slurm writes for a time without limit, in lower case; the last one in minutes."""
PARTITION_LIMIT: Final = ("partition_limit", "4294967294")
"""What it writes where the limit is that of the partition."""

_DURATION = r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)$"
_MEMORY = r"^(\d+(?:\.\d+)?)([KMGTPEkmgtpe]?)([cn]?)$"
_BYTES = r"^(\d+(?:\.\d+)?)([KMGTPkmgtp]?)$"
_GIB = {"k": 2.0**-20, "m": 2.0**-10, "": 2.0**-10, "g": 1.0, "t": 2.0**10, "p": 2.0**20,
        "e": 2.0**30}  # fmt: skip


def is_nothing(text: pl.Expr) -> pl.Expr:
    """Return which fields stand for no value."""
    return is_any(text, NOTHING)


def number(text: pl.Expr) -> pl.Expr:
    """Return the number in ``120``."""
    return text.str.strip_chars().cast(pl.Float64, strict=False)


def duration_s(text: pl.Expr) -> pl.Expr:
    """Return seconds of ``[DD-[HH:]]MM:SS[.mmm]``."""
    parts = text.str.strip_chars().str.extract_groups(_DURATION).struct
    days, hours, minutes, seconds = (
        parts.field(str(i)).cast(pl.Float64, strict=False) for i in range(1, 5)
    )
    return days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds


def limit_s(text: pl.Expr, seconds: pl.Expr) -> pl.Expr:
    """Return a time limit in seconds: infinite without one, null where only the partition knows.

    Args:
        text: the column.
        seconds: what it is where it is a number or a duration.
    """
    return (
        pl.when(is_any(text, NO_LIMIT))
        .then(math.inf)
        .when(is_any(text, PARTITION_LIMIT))
        .then(None)
        .otherwise(seconds)
    )


def is_any(text: pl.Expr, words: Sequence[str]) -> pl.Expr:
    """Return which fields are one of some words, in lower case."""
    return text.str.strip_chars().str.to_lowercase().is_in(list(words))


def instant_s(
    text: pl.Expr, time_zone: str | None, twice: Literal["earliest", "latest"] = "earliest"
) -> pl.Expr:
    """Return Unix seconds of ``2023-05-01T12:00:00`` (local time) or of plain Unix seconds.

    Without a zone the clock is read as if it were UTC. A time that the zone's clock skips is null;
    of one that it shows `twice`, the earliest or latest occurrence counts.
    """
    local = text.str.strip_chars().str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False)
    if time_zone is not None:
        local = local.dt.replace_time_zone(time_zone, ambiguous=twice, non_existent="null")
    return pl.coalesce(number(text), local.dt.epoch("ms") / 1000)


def memory_gib(text: pl.Expr, processors: pl.Expr, machines: pl.Expr) -> pl.Expr:
    """Return GiB per processor of ``4000M`` (a job), ``4Gc`` (a processor), ``16Gn`` (a machine).

    As in `sacct`, K, M, G, T and P are powers of 1024; without a letter the unit is M.
    """
    amount, per = amount_gib(text)
    return (
        pl.when(per == "c")
        .then(amount)
        .when(per == "n")
        .then(amount * machines / processors)
        .otherwise(amount / processors)
    )


def amount_gib(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the GiB in ``16Gn``, and what has as much: a processor (c), a machine (n), a job."""
    parts = text.str.strip_chars().str.extract_groups(_MEMORY).struct
    unit = parts.field("2").str.to_lowercase().replace_strict(_GIB, default=None)
    return parts.field("1").cast(pl.Float64, strict=False) * unit, parts.field("3")


def bytes_of(text: pl.Expr) -> pl.Expr:
    """Return the bytes in ``1234K`` or ``1.5G`` (AveRSS, MaxRSS); plain numbers are bytes."""
    parts = text.str.strip_chars().str.extract_groups(_BYTES).struct
    unit = parts.field("2").str.to_uppercase()
    powers = {letter: 1024.0**power for power, letter in enumerate(("", *"KMGTP"))}
    return parts.field("1").cast(pl.Float64, strict=False) * unit.replace_strict(
        powers, default=None
    )


def processors_of_resources(text: pl.Expr) -> pl.Expr:
    """Return the processors in ``billing=8,cpu=8,mem=16G,node=1`` (AllocTRES, ReqTRES)."""
    return text.str.extract(r"(?:^|,)cpu=(\d+)").cast(pl.Float64, strict=False)
