"""What becomes of the rows of a log: named rules that repair or leave out, each row counted.

Rows read = accepted + repaired under a rule + left out under a rule. A line is malformed if it does
not have the format's fields, or a value that cannot be read: such lines are refused, all in one
error, or left out. What a readable value means is for the rules of each format.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Ints
from simkit.errors import TraceError
from simkit.scenario.workload import TraceFormat
from simkit.text import counted
from simkit.traces.columns import PLAIN, UNKNOWN_COLUMN
from simkit.workload import RowReport

LARGEST = 2.0**33
"""Processors and requested times must be below, and what other formats have no limit for."""
LARGEST_ID = 2.0**53
"""Ids that are read as doubles must be below: above, these cannot tell neighbours apart."""
NO_ID: Final = -(2**63)
"""Stands for the number of a job that has none, or none of 64 bits."""

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
NO_LIMIT: Final = "no time limit"
PARTITION_LIMIT: Final = "time limit of the partition"
RAISED: Final = "requested time raised"
OUT_OF_ORDER: Final = "out of submit order"
REPEATED_ID: Final = "repeated job id"
SWAPPED_TIMES: Final = "submit and run time look swapped"
SWAPPED_LIMITS: Final = "run and requested time look swapped"
TOO_LARGE: Final = "larger than the machine"
PART_OF_A_JOB: Final = "part of a job"
EXTRA_FIELDS: Final = "more than 18 fields"
ABSOLUTE_TIMES: Final = "absolute submit times"
UNKNOWN_ZONE: Final = "unknown time zone"
MILLISECONDS: Final = "start time in milliseconds"
NO_DATE: Final = "start time is no date"
RELEASED_LATER: Final = "released after submission"
RELEASED_EARLY: Final = "released before submission"
START_EARLY: Final = "start before submission"
END_EARLY: Final = "end before start"
RUN_UNLIKE: Final = "run time unlike start and end"
ELIGIBLE_LATE: Final = "eligible after its start"
PRECEDED: Final = "has a preceding job"
PRECEDING_UNKNOWN: Final = "preceding job unknown"
PRECEDING_LEFT_OUT: Final = "preceding job left out"
PRECEDING_ITSELF: Final = "preceding job is itself"
PRECEDING_LOOP: Final = "preceding jobs in a loop"
PRECEDING_LATER: Final = "preceding job comes later"
NO_THINK_TIME: Final = "think time missing"
ONLY_THINK_TIME: Final = "think time without preceding job"
JOB_STEP: Final = "job step"
PENDING_ARRAY: Final = "pending array"
CANCELLED: Final = "cancelled before start"
NOT_STARTED: Final = "not started"
STILL_RUNNING: Final = "still running"
EARLIER_ATTEMPT: Final = "earlier attempt"
FURTHER_ATTEMPT: Final = "further attempt"
REPEATED_ROW: Final = "repeated row"
SKIPPED_TIME: Final = "time skipped by the clock"
COMMENT: Final = "comment line"
ABOVE: Final = "line above the column names"
BELOW: Final = "note below the table"
ENCODING: Final = "not in UTF-8"
SECOND_HOUR: Final = "hour shown twice, the second taken"
FIRST_HOUR: Final = "hour shown twice, the first taken"
REPEATED_HEADER: Final = "repeated header"
NODES_COUNTED: Final = "machines counted as processors"
UNEVEN: Final = "processors in equal units"
UNEVEN_GPUS: Final = "gpus in equal units"
MEMORY_UNKNOWN: Final = "memory unknown"
GPUS_UNTOLD: Final = "gpus unknown"
GPUS_UNUSED: Final = "gpus not asked for"
UNREADABLE_START: Final = "recorded start cannot be read"

RULES: Final[dict[str, str]] = {
    MALFORMED: "The line lacks fields or has a value that cannot be read; left out (on_error: "
    "skip). With on_error: refuse an error says what is wrong with each.",
    NOT_A_NUMBER: "A field that is needed (job, submit, run, processors, requested time) is nan, "
    "infinite or out of range (job: 2^63; run time: 2^32 s; submit time + run time and others: "
    "2^33), so the row is left out; a requested time may be infinite.",
    NO_SUBMIT: "The submit time is missing (negative), so the row cannot be placed in time and is "
    "left out.",
    NO_RUN: "The run time is missing (negative), mostly of jobs cancelled before they started; "
    "the row is left out.",
    ZERO_RUN: "The run time is 0, so the row is left out; keep_zero_run keeps such rows.",
    NO_PROCESSORS: "Neither allocated nor requested processors are above 0, so the row is left "
    "out.",
    FROM_REQUESTED: "The allocated processors are missing, so the requested ones are taken.",
    FROM_ALLOCATED: "The requested processors are missing, so the allocated ones are taken.",
    ROUNDED_UP: "The number of processors is not whole and is rounded up.",
    NO_REQUEST: "The requested time is missing (empty, 0 or below), so the run time is taken.",
    NO_LIMIT: "The job had no time limit (UNLIMITED), so its requested time is endless.",
    PARTITION_LIMIT: "The job had the time limit of its partition (Partition_Limit): max_time of "
    "the scenario's partition that takes it is its requested time; without, it counts as missing.",
    RAISED: "The job ran longer than requested, so the requested time is raised to the run time.",
    OUT_OF_ORDER: "The row comes after a job that was submitted later; jobs are sorted by submit "
    "time and id.",
    REPEATED_ID: "Another job has the same id; both are kept, in the order of the file.",
    SWAPPED_TIMES: "Run times ascend through the file and submit times do not: check whether the "
    "two columns are swapped.",
    SWAPPED_LIMITS: "Nearly all jobs ran longer than they requested: check whether the two "
    "columns are swapped.",
    TOO_LARGE: "The job needs more processors than the header gives the machine; it is kept, and "
    "a simulation with that machine rejects it.",
    PART_OF_A_JOB: "One burst of a job that was swapped out or restarted from a checkpoint (field "
    "11, status, is 2, 3 or 4); SWF sums up the whole job in a line of its own, so it is left out.",
    EXTRA_FIELDS: "The row has more fields than SWF's 18; those after the 18th are ignored.",
    ABSOLUTE_TIMES: "Submit times are Unix times; the first job's becomes the trace's zero.",
    UNKNOWN_ZONE: "The header's TimeZoneString is no IANA time zone; it is ignored.",
    MILLISECONDS: "The header's UnixStartTime is in milliseconds; it is read as that.",
    NO_DATE: "The header's UnixStartTime lies beyond the years 1900 to 2199; it is ignored, so "
    "the date of the log's zero is unknown.",
    RELEASED_LATER: "The job could not run from its submission on (sacct's Eligible: --begin, a "
    "dependency, a hold; release_time_s in a table). It waits for its release; with dependencies: "
    "ignore in the workload it does not.",
    RELEASED_EARLY: "The release (sacct's Eligible, release_time_s in a table) lies before the "
    "submission; the job may run from its submission on.",
    START_EARLY: "The recorded start lies before the submission (SWF: a negative wait other than "
    "-1). The job is submitted when the log says; its recorded wait counts as unknown. If it is "
    "an hour in a night in which the clock was put back, set time_zone.",
    END_EARLY: "The recorded end lies before the start. The run time is what the log says it was; "
    "if it says nothing of it, the row is left out.",
    RUN_UNLIKE: "The run time does not fit between start and end: it is longer, or, where the "
    "time suspended is known, not what that leaves. The run time counts; if it follows from the "
    "other times and is negative, the row is left out. If it is an hour, set time_zone.",
    ELIGIBLE_LATE: "Eligible is later than Start: the job ran, so that it is released at Start.",
    PRECEDED: "The job waits until another has ended, and the think time after that; with "
    "dependencies: recorded or ignore in the workload it does not.",
    PRECEDING_UNKNOWN: "The log has no job of the number that should precede this one, which "
    "therefore waits for none.",
    PRECEDING_LEFT_OUT: "The row of the job that should precede this one is left out, so it waits "
    "for none.",
    PRECEDING_ITSELF: "The job should precede itself; it waits for none.",
    PRECEDING_LOOP: "The job should wait for one that comes later and waits for it in turn; it "
    "does not.",
    PRECEDING_LATER: "The job that precedes this one comes after it in order of submission; it is "
    "waited for all the same.",
    NO_THINK_TIME: "A preceding job, but no think time after its end: 0 s are taken.",
    ONLY_THINK_TIME: "A think time, but no preceding job after whose end it would begin; ignored.",
    JOB_STEP: "A step of a job (12.batch, 12.0); its job has a separate row, so it is left out.",
    PENDING_ARRAY: "Array tasks that have not started (12_[1-5]) have no run time; left out.",
    CANCELLED: "The job was cancelled before it started, so it has no run time; left out.",
    NOT_STARTED: "The job has not started, so it has no run time; left out.",
    STILL_RUNNING: "The job has not ended, so its run time is not known yet; left out.",
    EARLIER_ATTEMPT: "Slurm started the job again later (requeued, preempted, machine failed), "
    "and with attempts: last the last attempt that ran counts alone; left out.",
    FURTHER_ATTEMPT: "Slurm started the job again (requeued, preempted, machine failed); with "
    "attempts: all each attempt is a job of its own, submitted when Slurm queued it.",
    REPEATED_ROW: "The same attempt of the same job again (equal id, submit, start and end), as "
    "in tables put together; left out.",
    SKIPPED_TIME: "The clock of time_zone was put forward over this time, so that it does not "
    "exist; the row is left out if its submit or run time hangs on it. If this occurs every "
    "spring, sacct printed standard time: set a zone without summer time, such as Etc/GMT+6 for "
    "UTC-6.",
    COMMENT: "The line begins with #; it is no row.",
    ABOVE: "The line stands above that with the column names; it is no row.",
    BELOW: "Text below the last row, with other fields than the column names; it is left out.",
    ENCODING: "The line holds bytes that are no UTF-8; it is read as Windows-1252, which includes "
    "Latin-1.",
    SECOND_HOUR: "The clock was put back, and by the order of the rows this one is from the "
    "second time that it showed this hour.",
    FIRST_HOUR: "The clock was put back and showed this time twice; nothing tells which it is, so "
    "the first is taken, and the time may be an hour early.",
    REPEATED_HEADER: "The header line occurs again, as in files put together; it is no row.",
    NODES_COUNTED: "The table has no column of processors; the number of machines is taken.",
    UNEVEN: "The job's processors do not split evenly over its machines or gpus, so each unit is "
    "rounded up (7 processors and 2 gpus on 2 machines: 4 and 1 on each).",
    UNEVEN_GPUS: "The job's gpus do not split evenly over its machines, so each unit is rounded "
    "up, and it asks for more gpus than it had (64 processors and 1 gpu on 2 machines: 32 and 1 "
    "on each).",
    MEMORY_UNKNOWN: "The job asked for all memory of its machines (--mem=0), or the table does "
    "not say how much it had; it takes all memory of each of its machines (NNodes; without it, "
    "one). With memory: false jobs ask for none.",
    GPUS_UNTOLD: "The table says how many gpus each task, socket or machine of the job had "
    "(PER_TASK, PER_SOCKET, PER_NODE), but not how many of these there were; those of one are "
    "taken, the least that it can have had.",
    GPUS_UNUSED: "The job had gpus, which nothing asks for, as the machines have no gpu or gpus "
    "is false. In a simulation gpus: true, or machines with gpu, make jobs ask for theirs.",
    UNREADABLE_START: "The recorded start or wait is no number or date of the form that submit "
    "times have, so when the job started is unknown; no simulation uses it.",
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

    def unread(self, columns: Iterable[str], holds: Mapping[str, str]) -> None:
        """Name columns that were not read, unless they are known to be plain.

        Every reader calls it with all columns of the file that it leaves aside. A column that no
        list knows is named too: it may hold anything.

        Args:
            columns: their names, as the file has them.
            holds: what columns of this format hold, by name in lower case; `PLAIN` for names,
                comments, folders and the like, which are counted.
        """
        for column in columns:
            meaning = holds.get(column.lower(), UNKNOWN_COLUMN)
            if meaning == PLAIN:
                self.report.unread_plain += 1
            else:
                self.report.unread[column] = meaning

    def _count(self, counts: dict[str, int], rule: str, lines: npt.NDArray[np.integer]) -> None:
        if len(lines) == 0:
            return
        counts[rule] = counts.get(rule, 0) + len(lines)
        remembered = self.report.lines.setdefault(rule, [])
        remembered.extend(int(line) for line in lines[: LINES_KEPT - len(remembered)])


def summary(report: RowReport) -> str:
    """Return ``run time 0 12, processors missing 3``: why rows were left out, for a message."""
    return ", ".join(f"{rule} {count}" for rule, count in report.dropped.items())


SHOWN: Final = 20
"""How many problems an error names."""

OnError = Literal["refuse", "skip"]


class LineFormat(TraceFormat):
    """A format whose lines, or rows, may be malformed."""

    on_error: OnError = "refuse"
    """Malformed lines: refuse the file, with all of them in one error; or skip and count them."""


class BadLines:
    """Collects the malformed lines of a file.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path, on_error: OnError = "refuse", *, rows: bool = False) -> None:
        """Begin with none; `rows` says that the file has numbered rows, as Parquet, not lines."""
        self.path = path
        self._skip, self._rows = on_error == "skip", rows
        self._lines: set[int] = set()
        self._problems: list[tuple[int, str]] = []
        self._hints: list[str] = []

    def add(self, line: int, problem: str) -> None:
        """Add what is wrong with a line; a line may have several problems."""
        self._lines.add(line)
        insort(self._problems, (line, problem))
        del self._problems[SHOWN:]

    def hint_swapped(self, column: str, other: str) -> None:
        """Add two columns that look swapped, which an error then says."""
        self.hint(
            f"the columns {column} and {other} look swapped: the values of each would do for the "
            "other"
        )

    def hint(self, text: str) -> None:
        """Add what may explain the problems, which an error then says."""
        if text not in self._hints:
            self._hints.append(text)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._lines)

    def place(self, line: int) -> str:
        """Return the file and the line, or the row, for messages."""
        return f"{self.path}: row {line}" if self._rows else f"{self.path}:{line}"

    def good(self, lines: Ints) -> Bools:
        """Return (n,) which of these lines have no problem."""
        return ~np.isin(lines, np.fromiter(self._lines, np.int64, len(self._lines)))

    def settle(self, tally: Tally) -> None:
        """Count the lines as left out.

        Raises TraceError, with the first problems in the order of lines, unless they are skipped.
        """
        if not self._lines:
            return
        if self._skip:
            tally.read(len(self._lines))
            tally.drop(MALFORMED, np.array(sorted(self._lines)))
            tally.show(MALFORMED, self._problems[0][1].partition("; ")[0])
            return
        found = [f"{self.place(line)}: {problem}" for line, problem in self._problems]
        noun = "row" if self._rows else "line"
        if more := len(self._lines - {line for line, _ in self._problems}):
            found.append(f"… and {counted(more, f'more malformed {noun}')}")
        hints = [f"{self.path}: {text}" for text in self._hints]
        raise TraceError("\n".join([*found, *hints, self._remedy(noun)]))

    def _remedy(self, noun: str) -> str:
        many = len(self._lines) > 1
        return (
            f"{self.path}: {counted(len(self._lines), f'malformed {noun}')}; correct "
            f"{'them' if many else 'it'}, or leave {'them' if many else 'it'} out with "
            "on_error: skip, which counts such rows"
        )


def first_that_applies(
    masks: dict[str, Bools], lines: Ints, count: Callable[[str, npt.NDArray[np.integer]], None]
) -> Bools:
    """Count every row under the first rule whose mask holds; return the rows that none met."""
    left = np.ones(len(lines), dtype=bool)
    for rule, mask in masks.items():
        hit = mask & left
        count(rule, lines[hit])
        left &= ~hit
    return left


def refuse_empty(path: Path, tally: Tally, jobs: int) -> None:
    """Raise TraceError if no row became a job."""
    report = tally.report
    if report.read == 0:
        raise TraceError(f"{path}: no jobs: the file is empty or holds only comments; check it")
    if jobs == 0:
        rows = "the only row is" if report.read == 1 else f"all {report.read:,} rows are"
        raise TraceError(
            f"{path}: no jobs: {rows} left out ({summary(report)}); "
            "`simkit trace check` explains these rules"
        )
