"""An SWF log's header, and its rows as columns, block by block; the values are not judged here.

A row is 18 numbers between blanks; the Parallel Workloads Archive pads them into columns. A block
of lines is squeezed to one blank between fields and handed to polars whole; only lines that polars
cannot read are read one by one, to repair them or to say what is wrong with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from simkit.arrays import Bools, Ints
from simkit.dates import is_dated
from simkit.errors import TraceError
from simkit.text import counted
from simkit.traces import rules
from simkit.traces.columns import SWF
from simkit.traces.files import Block, text_blocks
from simkit.traces.rigid_jobs import Column
from simkit.traces.rules import NO_ID, BadLines

_ENTRY = re.compile(r"\s*;\s*([A-Za-z][A-Za-z0-9_ ]*?)\s*:\s*(.*?)\s*$", re.ASCII)
_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")
_FIRST_IN_MS: Final = 6.3e11
"""A UnixStartTime from here on is in milliseconds: that of 1990, which in seconds is far off."""
_INTEGER = re.compile(rb"[-+]?[0-9]{1,30}")
MOST_REMARKS: Final = 1_000_000
"""A log of more comments and empty lines is refused: they are kept."""
_EXACT = 2.0**53
"""Whole numbers below are exact as doubles."""


class SwfHeader:
    """Comment lines as they come, and the first value of each key.

    Attributes:
        lines: all comment lines of the file, without line ends.
        values: key in lower case → text of its first occurrence.
        remarks: how many lines were comments or empty.
    """

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.values: dict[str, str] = {}
        self.remarks = 0

    def add(self, line: bytes) -> None:
        """Take in one comment line (bytes: the archive's older headers are in Latin-1)."""
        self.lines.append(line.strip())
        if entry := _ENTRY.match(line.decode("latin-1")):
            self.values.setdefault(entry[1].lower(), entry[2])

    def replace(self, key: str, value: str) -> None:
        """Set a key: its line, or its lines, give way to one at the end."""
        kept = (line for line in self.lines if not _has_key(line, key))
        self.lines = [*kept, f"; {key}: {value}".encode()]
        self.values[key.lower()] = value

    def number(self, key: str) -> float | None:
        """Return the first number in a value: 338 for "338 (batch partition; 512 total)"."""
        found = _NUMBER.search(self.values.get(key.lower(), ""))
        return float(found[0]) if found else None

    @property
    def capacity(self) -> dict[str, float]:
        """``{"processors": n}`` of MaxProcs, else of MaxNodes; empty where neither says."""
        for key in ("MaxProcs", "MaxNodes"):
            count = self.number(key)
            if count is not None and count >= 1:
                return {"processors": count}
        return {}

    @property
    def names(self) -> dict[str, dict[int, str]]:
        """Names of queues and partitions, by number: of lines such as ``; Queue: 1 express``."""
        found: dict[str, dict[int, str]] = {}
        for line in self.lines:
            entry = _ENTRY.match(line.decode("latin-1"))
            if entry and (key := entry[1].lower()) in ("queue", "partition"):
                number, *words = entry[2].split() or [""]
                if words and number.isdecimal():
                    found.setdefault(key, {}).setdefault(int(number), " ".join(words))
        return found

    @property
    def epoch_s(self) -> float:
        """UnixStartTime, the Unix time of the log's zero; NaN where it is absent, 0 or no date.

        Milliseconds, which no date in seconds looks like, are converted.
        """
        start = self.number("UnixStartTime") or float("nan")
        if start >= _FIRST_IN_MS and is_dated(start / 1000):
            return start / 1000
        return start if start > 0 and is_dated(start) else float("nan")

    @property
    def odd_epoch(self) -> str:
        """The rule by which UnixStartTime is not read as it is; empty if it is."""
        start = self.number("UnixStartTime") or 0.0
        if start <= 0 or start == self.epoch_s:
            return ""
        return rules.NO_DATE if math.isnan(self.epoch_s) else rules.MILLISECONDS

    @property
    def time_zone(self) -> str | None:
        """TimeZoneString, or None where it is absent or unknown to the IANA data base."""
        name = self.values.get("timezonestring", "")
        return name if is_time_zone(name) else None


def _has_key(line: bytes, key: str) -> bool:
    entry = _ENTRY.match(line.decode("latin-1"))
    return entry is not None and entry[1].lower() == key.lower()


def is_time_zone(name: str) -> bool:
    """Return whether a name is in the IANA time zone data base."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not known, not a name, or the name of a folder
        return False
    return True


FIELDS: Final = SWF.names
NEEDED: Final = tuple(column.name for column in SWF if column.needed)
"""The fields that a workload is made of; the others are not read."""
CHECKED: Final = tuple(column.name for column in SWF if column.record)
"""Fields that no workload is made of, and whose values are compared with others."""
IDS: Final = SWF.of_kind("id")
"""The fields that are whole numbers of up to 64 bits."""
_JOBS: Final = ("job", "previous_job")
_WIDTH: Final = len(FIELDS)


@dataclass(frozen=True)
class SwfBlock:
    """Some consecutive rows of a log, n of them."""

    line: Ints
    """(n,) line numbers in the file, from 1."""
    text: bytes
    """The rows: exactly 18 fields each, one blank between, a newline after each."""
    values: dict[str, Column]
    """(n,) per name in `NEEDED` and `CHECKED`, and field wanted also: int64 for `IDS` (unknown: -1,
    of jobs `NO_ID`), else float64 (of `CHECKED`, NaN where it is no number)."""
    longer: Ints
    """Numbers of the lines that had more than 18 fields."""
    filled: tuple[str, ...]
    """Fields that are not read and hold a value, here or in an earlier block."""


def swf_blocks(
    path: Path, header: SwfHeader, bad: BadLines, also: Sequence[str] = ()
) -> Iterator[SwfBlock]:
    """Yield the rows of a log; comment lines, wherever they stand, go to `header`.

    Fields that are wanted `also` stand among the values as float64, NaN where they hold no number.
    Lines that are not a job's row go to `bad` and are left out. Raises TraceError for a file that
    cannot be read.
    """
    filled: tuple[str, ...] = ()
    for block in text_blocks(path):
        text, line = _rows(block, header, str(path))
        longer = np.empty(0, np.int64)
        right_width = _count(text, b" ") == (_WIDTH - 1) * len(line)
        unseen = [n for n in FIELDS if n in CHECKED or n not in (*NEEDED, *filled)]
        unasked = [name for name in unseen if name not in (*also, *filled)]
        values = _parse(text, len(line), unseen) if right_width else None
        if values is None:
            text, line, longer = _cut_to_width(text, line, bad)
            values = _parse(text, len(line), unseen) or _parse_slowly(text, line, unseen, bad)
        good = bad.good(line)
        if not good.all():
            text, line, values = _some(text, good), line[good], _of(values, good)
        if len(line):
            filled += tuple(name for name in unasked if (values[name] >= 0).any())
            values = {n: c for n, c in values.items() if n in CHECKED or n not in unasked}
            yield SwfBlock(line, text, values, longer[bad.good(longer)], filled)


def _some(text: bytes, rows: Bools) -> bytes:
    lines = text.split(b"\n")[:-1]
    return b"".join(line + b"\n" for line, wanted in zip(lines, rows, strict=True) if wanted)


def _of(values: dict[str, Column], rows: Bools) -> dict[str, Column]:
    return {name: column[rows] for name, column in values.items()}


def squeezed(text: bytes) -> bytes:
    """Return lines without blanks at their ends and with one blank between fields."""
    for blank in (b"\r", b"\t"):
        if blank in text:
            text = text.replace(blank, b" ")
    letters = np.frombuffer(text, np.uint8)
    dark = letters > 32
    keep = dark.copy()
    keep[1:] |= dark[:-1]  # the first blank after a field
    keep |= letters == 10
    text = letters[keep].tobytes()
    return text.replace(b" \n", b"\n") if b" \n" in text else text


def _rows(block: Block, header: SwfHeader, place: str) -> tuple[bytes, Ints]:
    """Return the squeezed data lines of a block and their numbers."""
    text, first = squeezed(block.text), block.first_line
    if b";" not in text and b"\n\n" not in text and not text.startswith(b"\n"):
        return text, np.arange(first, first + text.count(b"\n"))
    rows, numbers = [], []
    for number, line in enumerate(block.text.split(b"\n"), first):
        bare = line.strip()
        if bare.startswith(b";"):
            header.add(bare)
        elif bare:
            rows.append(bare)
            numbers.append(number)
    header.remarks += block.text.count(b"\n") - len(rows)
    if header.remarks > MOST_REMARKS:
        raise TraceError(
            f"{place}:{first}: more than {MOST_REMARKS:,} lines are comments or empty, so this may "
            "be made to fill the memory; leave them out"
        )
    text = squeezed(b"\n".join((*rows, b""))) if rows else b""
    return text, np.array(numbers, np.int64)


def _count(text: bytes, letter: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == letter[0]))


def _cut_to_width(text: bytes, line: Ints, bad: BadLines) -> tuple[bytes, Ints, Ints]:
    """Cut lines after the 18th field; those with fewer go to `bad`. Return the longer ones, too."""
    rows, kept, longer = [], [], []
    for number, row in zip(line.tolist(), text.split(b"\n")[:-1], strict=True):
        fields = row.count(b" ") + 1
        if fields < _WIDTH:
            bad.add(
                number,
                f"{counted(fields, 'field')}, SWF has {_WIDTH}; pad unknown fields with -1, or "
                "check that the file is an SWF log",
            )
            continue
        if fields > _WIDTH:
            row = b" ".join(row.split(b" ", _WIDTH)[:_WIDTH])
            longer.append(number)
        rows.append(row)
        kept.append(number)
    return b"\n".join((*rows, b"")), np.array(kept, np.int64), np.array(longer, np.int64)


def _parse(text: bytes, rows: int, unseen: Sequence[str]) -> dict[str, Column] | None:
    """Return the columns of rows of 18 fields; None if polars cannot read all that are needed.

    Args:
        text: the rows.
        rows: how many there are.
        unseen: fields that are not needed, and are checked or have shown no value yet: NaN where
            they hold none.
    """
    for ids in (pl.Int64, pl.Float64):
        if (columns := _as_numbers(text, rows, ids, unseen)) is not None:
            return columns
    return None


def _as_numbers(
    text: bytes, rows: int, ids: type[pl.Int64 | pl.Float64], unseen: Sequence[str]
) -> dict[str, Column] | None:
    """Return the columns, those of `IDS` read as this type; None if they are not all of it."""
    schema: dict[str, Any] = dict.fromkeys(FIELDS, pl.Float64) | dict.fromkeys(IDS, ids)
    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            separator=" ",
            quote_char=None,
            columns=sorted(FIELDS.index(name) for name in {*NEEDED, *unseen}),
            schema=schema,
            ignore_errors=True,
        )
    except pl.exceptions.PolarsError:
        return None
    if frame.height != rows or any(frame.select(NEEDED).null_count().row(0)):
        return None
    columns = {name: frame[name].to_numpy() for name in (*NEEDED, *unseen)}
    if ids == pl.Int64:
        return columns
    whole = {name: np.floor(columns[name]) for name in NEEDED if name in IDS}
    if (whole["previous_job"] != columns["previous_job"]).any():
        return None
    if not all((np.abs(column) < _EXACT).all() for column in whole.values()):
        return None
    if (whole["job"] != columns["job"]).any():
        return None
    return columns | {name: column.astype(np.int64) for name, column in whole.items()}


def _parse_slowly(
    text: bytes, line: Ints, unseen: Sequence[str], bad: BadLines
) -> dict[str, Column]:
    """Read lines one by one, as Python reads numbers; those that fail go to `bad`."""
    columns: dict[str, Column] = {
        name: np.full(len(line), -1) if name in IDS else np.full(len(line), np.nan)
        for name in (*NEEDED, *unseen)
    }
    for index, content in enumerate(text.split(b"\n")[:-1]):
        fields = content.split()
        for name, column in columns.items():
            position = FIELDS.index(name)
            try:
                number = _number(fields[position], position)
                column[index] = _whole(number, name) if name in IDS else number
            except ValueError as error:
                if name in NEEDED:
                    bad.add(int(line[index]), str(error))
    return columns


def _whole(number: float, name: str) -> int:
    """Return an id as a whole number; ValueError for the number of a job that is none."""
    unknown = NO_ID if name in _JOBS else -1
    if not math.isfinite(number):
        return unknown
    if name == "job" and number != math.floor(number):
        raise ValueError(
            f"field 1 (job) is {number:g}, not a whole number; number the jobs 1, 2, 3, …"
        )
    whole = math.floor(number)
    if abs(whole) >= 2**63 or (name in _JOBS and whole != number):
        return unknown
    return whole


def _number(field: bytes, position: int) -> float:
    """Return the number in a field, exact if it is whole; ValueError says what is wrong with it."""
    try:
        if b"_" not in field:  # Python allows 1_000, a log does not
            return int(field) if _INTEGER.fullmatch(field) else float(field)
    except ValueError:
        pass
    shown = field[:40].decode("ascii", "replace")
    raise ValueError(
        f"field {position + 1} ({FIELDS[position].replace('_', ' ')}) is {shown!r}, not a number; "
        "write numbers, and -1 for what is unknown"
    )
