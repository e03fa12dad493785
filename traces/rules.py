"""The rules by which readers repair or leave out rows: their names, their meaning, their count."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from simkit.workload import RowReport

LINES_KEPT = 5
"""How many line numbers a report remembers for each rule."""
LONGEST_EXAMPLE = 60
"""How many characters of a cell it remembers."""

MALFORMED: Final = "malformed line"
NOT_A_NUMBER: Final = "not a number"
NO_SUBMIT: Final = "submit time missing"
NO_RUN: Final = "run time missing"
ZERO_RUN: Final = "run time 0"
NO_PROCESSORS: Final = "processors missing"
FROM_REQUESTED: Final = "processors from requested"
FROM_ALLOCATED: Final = "processors from allocated"
ROUNDED_UP: Final = "processors rounded up"
NO_REQUEST: Final = "requested time missing"
RAISED: Final = "requested time raised"
OUT_OF_ORDER: Final = "out of submit order"
REPEATED_ID: Final = "repeated job id"
SWAPPED_TIMES: Final = "submit and run time look swapped"
SWAPPED_LIMITS: Final = "run and requested time look swapped"
TOO_LARGE: Final = "larger than the machine"
EXTRA_FIELDS: Final = "more than 18 fields"
ABSOLUTE_TIMES: Final = "absolute submit times"
UNKNOWN_ZONE: Final = "unknown time zone"
MILLISECONDS: Final = "start time in milliseconds"
NO_DATE: Final = "start time is no date"
JOB_STEP: Final = "job step"
PENDING_ARRAY: Final = "pending array"
CANCELLED: Final = "cancelled before start"
NOT_STARTED: Final = "not started"
STILL_RUNNING: Final = "still running"
REPEATED_HEADER: Final = "repeated header"
NODES_COUNTED: Final = "machines counted as processors"

RULES: Final[dict[str, str]] = {
    MALFORMED: "The line lacks fields or has a value that cannot be read; left out (on_error: "
    "skip). With on_error: refuse an error says what is wrong with each.",
    NOT_A_NUMBER: "A field that is needed (job, submit, run, processors, requested time) is nan, "
    "infinite or out of range (submit and run time: 2^32 s; others: 2^33), so the row is left out.",
    NO_SUBMIT: "The submit time is missing (negative), so the row cannot be placed in time and is "
    "left out.",
    NO_RUN: "The run time is missing (negative), mostly of jobs cancelled before they started; the "
    "row is left out.",
    ZERO_RUN: "The run time is 0, so the row is left out; keep_zero_run keeps such rows.",
    NO_PROCESSORS: "Neither allocated nor requested processors are above 0, so the row is left "
    "out.",
    FROM_REQUESTED: "The allocated processors are missing, so the requested ones are taken.",
    FROM_ALLOCATED: "The requested processors are missing, so the allocated ones are taken.",
    ROUNDED_UP: "The number of processors is not whole and is rounded up.",
    NO_REQUEST: "The requested time is missing (0 or below), so the run time is taken.",
    RAISED: "The job ran longer than requested, so the requested time is raised to the run time.",
    OUT_OF_ORDER: "The row comes after a job that was submitted later; jobs are sorted by submit "
    "time and id.",
    REPEATED_ID: "Another job has the same id; both are kept, in the order of the file.",
    SWAPPED_TIMES: "Run times ascend through the file and submit times do not: check whether the "
    "two columns are swapped.",
    SWAPPED_LIMITS: "Nearly all jobs ran longer than they requested: check whether the two columns "
    "are swapped.",
    TOO_LARGE: "The job needs more processors than the header gives the machine; it is kept, and a "
    "simulation with that machine rejects it.",
    EXTRA_FIELDS: "The row has more fields than SWF's 18; those after the 18th are ignored.",
    ABSOLUTE_TIMES: "Submit times are Unix times; the first job's becomes the trace's zero.",
    UNKNOWN_ZONE: "The header's TimeZoneString is no IANA time zone; it is ignored.",
    MILLISECONDS: "The header's UnixStartTime is in milliseconds; it is read as that.",
    NO_DATE: "The header's UnixStartTime lies beyond the years 1900 to 2199; it is ignored, so the "
    "date of the log's zero is unknown.",
    JOB_STEP: "A step of a job (12.batch, 12.0); its job has a separate row, so it is left out.",
    PENDING_ARRAY: "Array tasks that have not started (12_[1-5]) have no run time; left out.",
    CANCELLED: "The job was cancelled before it started, so it has no run time; left out.",
    NOT_STARTED: "The job has not started, so it has no run time; left out.",
    STILL_RUNNING: "The job has not ended, so its run time is not known yet; left out.",
    REPEATED_HEADER: "The header line occurs again, as in files put together; it is no row.",
    NODES_COUNTED: "The table has no column of processors; the number of machines is taken.",
}
"""What each rule or note means, in a sentence."""


class Tally:
    """Counts rows by rule while a reader goes through a file.

    Attributes:
        report: what has been counted so far.
    """

    def __init__(self) -> None:
        self.report = RowReport()

    def read(self, rows: int) -> None:
        """Count rows of the file."""
        self.report.read += rows

    def accept(self, rows: int) -> None:
        """Count rows that came through unchanged."""
        self.report.accepted += rows

    def drop(self, rule: str, lines: npt.NDArray[np.integer]) -> None:
        """Count rows left out under `rule`, given by their line numbers."""
        self._count(self.report.dropped, rule, lines)

    def repair(self, rule: str, lines: npt.NDArray[np.integer]) -> None:
        """Count rows repaired under `rule`."""
        self._count(self.report.repaired, rule, lines)

    def note(self, rule: str, lines: npt.NDArray[np.integer]) -> None:
        """Count rows that are odd but not changed."""
        self._count(self.report.notes, rule, lines)

    def show(self, rule: str, example: str) -> None:
        """Keep what the first row under `rule` has, for messages."""
        short = example if len(example) <= LONGEST_EXAMPLE else f"{example[:LONGEST_EXAMPLE]}…"
        self.report.examples.setdefault(rule, short)

    def _count(self, counts: dict[str, int], rule: str, lines: npt.NDArray[np.integer]) -> None:
        if len(lines) == 0:
            return
        counts[rule] = counts.get(rule, 0) + len(lines)
        remembered = self.report.lines.setdefault(rule, [])
        remembered.extend(int(line) for line in lines[: LINES_KEPT - len(remembered)])


def summary(report: RowReport) -> str:
    """Return ``run time 0 12, processors missing 3``: why rows were left out, for a message."""
    return ", ".join(f"{rule} {count}" for rule, count in report.dropped.items())
