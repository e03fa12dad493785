"""The Standard Workload Format (SWF): reads logs of the Parallel Workloads Archive.

The format is that of Chapin, Cirne, Feitelson, Jones, Leutenegger, Schwiegelshohn, Smith and
Talby, "Benchmarks and standards for the evaluation of parallel job schedulers" (1999).

A row is 18 numbers between blanks; the Parallel Workloads Archive pads them into columns. A block
of lines is squeezed to one blank between fields and handed to polars whole; only lines that polars
cannot read are read one by one, to repair them or to say what is wrong with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal
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
from simkit.traces.rigid_jobs import (
    Column,
    KeptJobs,
    RawJobs,
    RigidJobs,
    RigidLog,
    note_early_starts,
    preceding_jobs,
)
from simkit.traces.rules import NO_ID, BadLines, Tally, refuse_empty
from simkit.traces.swf.writer import write_swf
from simkit.workload import Trace, Workload
from simkit.workload.recorded import Recorded
from simkit.workload.workload import JOB_COLUMNS

_ENTRY = re.compile(r"\s*;\s*([A-Za-z][A-Za-z0-9_ ]*?)\s*:\s*(.*?)\s*$", re.ASCII)
_ANY_NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")
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
        found = _ANY_NUMBER.search(self.values.get(key.lower(), ""))
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


__all__ = ["read_swf", "write_swf"]
FIELDS: Final = SWF.names
NEEDED: Final = tuple(column.name for column in SWF if column.needed)
"""The fields that a workload is made of; the others are not read."""
CHECKED: Final = tuple(column.name for column in SWF if column.record)
"""Fields that no workload is made of, and whose values are compared with others."""
IDS: Final = SWF.of_kind("id")
"""The fields that are whole numbers of up to 64 bits."""
_JOBS: Final = ("job", "previous_job")
_WIDTH: Final = len(FIELDS)
_OTHER_BLANKS: Final = (b"\r", b"\t", b"\v", b"\f")


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
        unseen = [n for n in FIELDS if n in CHECKED or n not in (*NEEDED, *filled)]
        unasked = [name for name in unseen if name not in (*also, *filled)]
        longer = np.empty(0, np.int64)
        if (values := _parse_clean(block, unseen)) is not None:
            text, line = block.text, block.first_line + np.arange(len(values["job"]))
        else:
            text, line = _rows(block, header, str(path))
            if text.count(b" ") == (_WIDTH - 1) * len(line):
                values = _parse(text, len(line), unseen)
            if values is None:
                text, line, longer = _cut_to_width(text, line, bad)
                values = _parse(text, len(line), unseen) or _parse_slowly(text, line, unseen, bad)
        good = bad.good(line)
        if not good.all():
            text, line = _some(text, good), line[good]
            values = {name: column[good] for name, column in values.items()}
        if len(line):
            filled += tuple(name for name in unasked if (values[name] >= 0).any())
            values = {n: c for n, c in values.items() if n in CHECKED or n not in unasked}
            yield SwfBlock(line, text, values, longer[bad.good(longer)], filled)


def _some(text: bytes, rows: Bools) -> bytes:
    lines = text.split(b"\n")[:-1]
    return b"".join(line + b"\n" for line, wanted in zip(lines, rows, strict=True) if wanted)


def squeezed(text: bytes) -> bytes:
    """Return lines without blanks at their ends and with one blank between fields."""
    for blank in _OTHER_BLANKS:
        if blank in text:
            text = text.replace(blank, b" ")
    letters = np.frombuffer(text, np.uint8)
    dark = letters > 32
    keep = letters == 10
    keep |= dark
    keep[1:] |= dark[:-1]  # the first blank after a field
    text = letters.compress(keep).tobytes()
    return text.replace(b" \n", b"\n") if b" \n" in text else text


def _rows(block: Block, header: SwfHeader, place: str) -> tuple[bytes, Ints]:
    """Return the squeezed data lines of a block and their numbers."""
    text, first = squeezed(block.text), block.first_line
    if b";" not in text and b"\n\n" not in text and not text.startswith(b"\n"):
        return text, np.arange(first, first + text.count(b"\n"))
    letters = np.frombuffer(text, np.uint8)
    end = np.flatnonzero(letters == 10) + 1
    start = np.concatenate(([0], end[:-1]))
    is_comment = letters[start] == ord(";")
    is_row = ~is_comment & (letters[start] != 10)
    _read_header(block.text, np.flatnonzero(is_comment), header)
    header.remarks += len(end) - int(np.count_nonzero(is_row))
    if header.remarks > MOST_REMARKS:
        raise TraceError(
            f"{place}:{first}: more than {MOST_REMARKS:,} lines are comments or empty, so this may "
            "be made to fill the memory; leave them out"
        )
    turns = np.flatnonzero(np.diff(is_row, prepend=False, append=False)).reshape(-1, 2)
    parts = (text[start[begin] : end[after - 1]] for begin, after in turns.tolist())
    return b"".join(parts), first + np.flatnonzero(is_row)


def _read_header(text: bytes, comments: Ints, header: SwfHeader) -> None:
    """Give the header its lines, by their indices in the text, as they stand there."""
    end = np.flatnonzero(np.frombuffer(text, np.uint8) == 10)
    start = np.concatenate(([0], end[:-1] + 1))
    for begin, after in zip(start[comments].tolist(), end[comments].tolist(), strict=True):
        header.add(text[begin:after])


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


def _parse_clean(block: Block, unseen: Sequence[str]) -> dict[str, Column] | None:
    """Return the columns of a block as it stands; None if it is more than rows of 18 numbers.

    What has no empty field, in no row more than 18, and 17 blanks a row has 18 in each row, with
    one blank between: it need not be squeezed.
    """
    text = block.text
    rows = text.count(b"\n")
    if text.count(b" ") != (_WIDTH - 1) * rows or any(one in text for one in _OTHER_BLANKS):
        return None
    frame = _read(text, pl.Int64, FIELDS)
    if frame is None or frame.height != rows or any(frame.null_count().row(0)):
        return None
    return {name: frame[name].to_numpy() for name in (*NEEDED, *unseen)}


def _read(text: bytes, ids: type[pl.Int64 | pl.Float64], names: Iterable[str]) -> Any:
    """Return the frame of some fields, null where they hold no number; None for other lines."""
    schema: dict[str, Any] = dict.fromkeys(FIELDS, pl.Float64) | dict.fromkeys(IDS, ids)
    try:
        return pl.read_csv(
            text,
            has_header=False,
            separator=" ",
            quote_char=None,
            columns=sorted(map(FIELDS.index, names)),
            schema=schema,
            ignore_errors=True,
        )
    except pl.exceptions.PolarsError:
        return None


def _as_numbers(
    text: bytes, rows: int, ids: type[pl.Int64 | pl.Float64], unseen: Sequence[str]
) -> dict[str, Column] | None:
    """Return the columns, those of `IDS` read as this type; None if they are not all of it."""
    frame = _read(text, ids, {*NEEDED, *unseen})
    if frame is None or frame.height != rows or any(frame.select(NEEDED).null_count().row(0)):
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


FIRST_ABSOLUTE_S = 1e9
"""A log whose first submit is at or after this (September 2001) counts from the Unix epoch."""
PARTS: Final = (2.0, 3.0, 4.0)
"""Statuses of one burst of a job that was swapped out: to be continued, or the last one."""
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan", re.IGNORECASE)


class SwfLog(RigidLog):
    """A log in the Standard Workload Format."""

    suffixes = (".swf",)

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether the first line is a comment or begins with a number; or there is none."""
        fields = head.split()
        is_row = len(fields) > 1 and _NUMBER.fullmatch(fields[0]) is not None
        return not head or head.startswith(";") or is_row

    def source_of(self, resource: str) -> str:
        """Return what an SWF log leaves for gpus."""
        draw = "; value.gpu draws some" if resource == "gpu" else ""
        return f"an SWF log has processors alone{draw}"

    def read(self) -> Trace:
        """Read the log; see `read_swf`."""
        return self._scan()[0]

    def recorded(self) -> tuple[Trace, Recorded]:
        """Read the log with its waits (field 3)."""
        trace, fields = self._scan(("wait", "requested_time"))
        load, wait, limit = trace.workload, fields["wait"], fields["requested_time"]
        past = Recorded.started(load, np.where(wait >= 0, load.submit_time_s + wait, np.nan))
        return trace, replace(past, limit_s=np.where(limit > 0, limit, np.nan))

    def _scan(self, also: Sequence[str] = ()) -> tuple[Trace, dict[str, Column]]:
        """Read the log; return it, and fields as they stand there, in the workload's order."""
        path, tally, header, jobs = Path(self.path), Tally(), SwfHeader(), RigidJobs()
        bad, left_out = BadLines(path, self.on_error), set[int]()
        for block in swf_blocks(path, header, bad, also):
            kept = self.judge_block(block, tally)
            if len(kept.row) < len(block.line):
                left_out.update(np.delete(block.values["job"], kept.row).tolist())
            if len(kept.row):
                raw = {f"raw {name}": block.values[name][kept.row] for name in also}
                jobs.add(_columns(block, kept) | raw)
        bad.settle(tally)
        refuse_empty(path, tally, len(jobs))
        jobs.note_oddities(tally, header.capacity)
        links = links_of(jobs, left_out, tally)
        order = jobs.order()
        fields = {name: jobs.column(f"raw {name}")[order] for name in also}
        return Trace(_workload(jobs, header, tally, links), tally.report, (path,)), fields

    def judge_block(self, block: SwfBlock, tally: Tally) -> KeptJobs:
        """Apply the rules to a block of rows."""
        values = block.values
        names = ("job", "submit", "run", "allocated", "requested", "requested_time")
        tally.note(rules.EXTRA_FIELDS, block.longer)
        tally.unread(block.filled, SWF.holds)
        columns: dict[str, Any] = {name: values[name] for name in names}
        rows = RawJobs(block.line, **columns)
        parts = {rules.PART_OF_A_JOB: np.isin(values["status"], PARTS)}
        kept = self.judge(rows, tally, parts)
        wait = values["wait"][kept.row]
        note_early_starts(tally, block.line[kept.row], np.where(wait == -1, np.nan, wait))
        return kept


def read_swf(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read an SWF log, plain or gzipped, as a workload of rigid jobs.

    Times are in seconds. The trace's zero is the log's own (its header's UnixStartTime, which
    becomes `epoch_s`), so that submit times stay as the log has them. A log whose first job is
    submitted at 1e9 s or later holds Unix times instead, whatever its header says: then the first
    job's submission becomes the zero, and the report notes it. `capacity` is MaxProcs, else
    MaxNodes.

    Args:
        path: the log.
        arguments: the other fields of `SwfLog`: `processors`, `requested_time`, `keep_zero_run`,
            `on_error`.

    Returns:
        The workload, sorted by (submit time, job id), and the report of its rows.

    Raises TraceError, with file and line, if the file is not an SWF log, has malformed lines
    (all are named; unless `on_error` is ``skip``) or has no jobs.
    """
    return SwfLog.of(path=path, **arguments).read()


def _columns(block: SwfBlock, kept: KeptJobs) -> dict[str, Column]:
    rows, values = kept.row, block.values
    names = ("job", "submit", "run", *JOB_COLUMNS, "previous_job", "think_time")
    columns = {name: values[name][rows] for name in names}
    columns["line"] = block.line[rows].astype(np.float64)
    columns["processors"] = kept.processors
    columns["requested_time"] = kept.requested_time
    return columns


def links_of(jobs: RigidJobs, left_out: set[int], tally: Tally) -> dict[str, Any]:
    """Return the links that fields 17 and 18 give; -1 there, and 0 unless it is a job, is none."""
    before, think = jobs.column("previous_job"), jobs.column("think_time")
    if ((before <= 0) & (before != NO_ID)).all() and (think <= 0).all():
        return {}
    order = jobs.order()
    job, line = jobs.column("job")[order], jobs.column("line")[order].astype(int)
    before, think = before[order], think[order].astype(np.float64)
    named = (before > 0) | (before == NO_ID) | ((before == 0) & bool((job == 0).any()))
    tally.note(rules.ONLY_THINK_TIME, line[~named & (think > 0)])
    rows = np.flatnonzero(named)
    return preceding_jobs(job, line, rows, before[rows], think[rows], tally, left_out)


def _workload(jobs: RigidJobs, header: SwfHeader, tally: Tally, links: dict[str, Any]) -> Workload:
    zone = header.time_zone
    if zone is None and header.values.get("timezonestring"):
        tally.report.notes[rules.UNKNOWN_ZONE] = 1
    zero, epoch = 0.0, header.epoch_s
    if odd := header.odd_epoch:
        tally.report.notes[odd] = 1
    first = float(jobs.column("submit").min())
    if first >= FIRST_ABSOLUTE_S:
        zero = epoch = first
        tally.report.notes[rules.ABSOLUTE_TIMES] = len(jobs)
    return jobs.workload(
        zero_s=zero, epoch_s=epoch, time_zone=zone, capacity=header.capacity,
        header_names=header.names, **links,
    )  # fmt: skip


_MISSING_RUN_S = 10.0


class RLSchedulerLog(SwfLog):
    """An SWF log in which a missing run time becomes 10 s, and the larger processor count counts.

    RLScheduler reads logs so (D. Zhang, D. Dai, Y. He, F. S. Bao and B. Xie, "RLScheduler: an
    automated HPC batch job scheduler using reinforcement learning", SC 2020).

    Requested times stay as the log has them, also where the job ran longer; a missing one becomes
    the run time, and stays missing where that is missing too. Jobs whose run time is 0 are left
    out. A window of the paper is a range of the jobs:

        workload:
          type: plugin
          reader: simkit.traces.swf:RLSchedulerLog
          args: {path: SDSC-SP2-1998-4.2-cln.swf.gz}
          window: {jobs: 1981..3004}

    """

    requested_time: Literal["max", "raw"] = "raw"
    """As the log has it; RLScheduler kills no job."""

    def judge_block(self, block: SwfBlock, tally: Tally) -> KeptJobs:
        """Repair what RLScheduler repairs, then apply the rules to a block of rows."""
        values, wanted = block.values, block.values["requested_time"]
        values["requested_time"] = np.where(wanted == -1, values["run"], wanted)
        values["run"] = np.where(values["run"] < 0, _MISSING_RUN_S, values["run"])
        values["allocated"] = np.maximum(values["allocated"], values["requested"])
        return super().judge_block(block, tally)
