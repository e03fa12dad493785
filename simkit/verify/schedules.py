"""The schedules of other tools: a table of jobs with their starts, held against capacity and order.

    audit = verify_schedule("jobs.csv", processors=128, policy="easy")

Nothing is known of such a run but its table, so that few rules can be checked; they are those on
which simulators of the same policy have to agree.
"""

from __future__ import annotations

import gzip
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop
from os import PathLike
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import polars as pl

from simkit.errors import RunError, did_you_mean
from simkit.files import check_parquet, check_texts
from simkit.text import counted
from simkit.verify.audit import Audit, Check, Floats, NotApplicableError, NotAuditedError, rule

Claim = Literal["easy", "fcfs", "any"]
"""What a schedule claims: EASY backfilling in order of submission, first come first served without
backfilling, or no order at all."""

ENDINGS: Final = (".csv", ".tsv", ".txt", ".parquet", ".gz")
"""Endings of files that are read as tables of schedules."""


def verify_schedule(
    file: str | PathLike[str], *, processors: float, policy: Claim = "easy"
) -> Audit:
    """Check the schedule in a table.

    Args:
        file: a table with a header (.csv and the like, or .parquet) and a row a job: its number,
            submit, start and end, and processors; and, where it has one, the requested time, by
            which EASY plans. Times are in seconds, or dates. See `NAMES` for what columns may be
            called.
        processors: how many there are.
        policy: what the schedule claims; see `Claim`.

    Returns:
        The audit: `times` and `capacity` in any case, `order` of "fcfs", `easy` of "easy"; what is
        not claimed does not apply.

    Raises RunError if the table cannot be read, or an argument is out of range.
    """
    if policy not in get_args(Claim):
        raise RunError(f"policy: {policy!r} is no claim{did_you_mean(policy, get_args(Claim))}")
    if not processors > 0:
        raise RunError(f"processors: {processors!r}; a machine has more than 0")
    table = read_schedule(Path(file), processors, policy)
    rules = (check_times, check_capacity, check_order, check_easy)
    return Audit(Path(file), tuple(check(table) for check in rules))


# ---- the table ----------------------------------------------------------------------------------

NAMES: Final = {
    "job": ("job", "job_id", "id", "jobid", "job_number"),
    "submit": ("submit", "submit_time_s", "submit_time", "submission_time", "submitted"),
    "start": ("start", "start_time_s", "start_time", "starting_time", "started"),
    "end": ("end", "end_time_s", "end_time", "finish_time", "finish", "ended"),
    "processors": ("processors", "procs", "cpus", "cores", "nodes", "size",
                   "requested_number_of_resources", "allocated_processors"),
    "requested": ("requested", "requested_time_s", "requested_time", "walltime", "time_limit",
                  "estimate"),
}  # fmt: skip
"""What a column is about → what it may be called; capitals and spaces make no difference."""
_OPTIONAL: Final = ("requested",)
_LARGEST: Final = 1 << 30
"""Bytes of text that are read."""


@dataclass(frozen=True)
class Schedule:
    """The jobs of a schedule that started and ended, in order of submission; then of the table."""

    available: float
    """How many processors there are."""
    claim: Claim

    job: list[str]
    """(J,) as the table has it."""
    submit: Floats
    """(J,) seconds."""
    start: Floats
    end: Floats
    processors: Floats
    requested: Floats
    """(J,) seconds that the policy plans with: what was requested, or else the run time."""
    without_start: int
    """Rows without a start or an end, which are left out."""
    without_request: int
    """Jobs that have no requested time."""

    def row(self, place: int) -> dict[str, str | float]:
        """Return a job for a message."""
        return {
            "job": self.job[place], "submit": float(self.submit[place]),
            "start": float(self.start[place]), "end": float(self.end[place]),
            "processors": float(self.processors[place]),
        }  # fmt: skip


def read_schedule(path: Path, processors: float, policy: Claim) -> Schedule:
    """Read a table; raises RunError, with all that is wrong with its columns at once."""
    frame = _frame(path)
    if not frame.height:
        raise RunError(f"{path}: no rows below the header; a schedule has a row a job")
    found = _columns(path, frame.columns)
    numbers = {what: _seconds(path, frame[column], what) for what, column in found.items()
               if what != "job"}  # fmt: skip
    known = np.ones(frame.height, np.bool_)
    for what in ("submit", "processors"):
        if missing := np.flatnonzero(np.isnan(numbers[what])).tolist():
            raise RunError(
                f"{path}: {counted(len(missing), 'row')} without {found[what]} (row "
                f"{missing[0] + 1} of the data first); every job needs it"
            )
    for what in ("start", "end"):
        known &= ~np.isnan(numbers[what])
    asked = numbers.get("requested", np.full(frame.height, np.nan))
    run = numbers["end"] - numbers["start"]
    unknown = np.isnan(asked) | (asked <= 0)
    order = np.flatnonzero(known)
    order = order[np.argsort(numbers["submit"][order], kind="stable")]
    names = frame[found["job"]].cast(pl.String).fill_null("-")
    return Schedule(
        processors, policy,
        job=names.gather(order.tolist()).to_list(),
        submit=numbers["submit"][order],
        start=numbers["start"][order],
        end=numbers["end"][order],
        processors=numbers["processors"][order],
        requested=np.where(unknown, run, asked)[order],
        without_start=int((~known).sum()),
        without_request=int((unknown & known).sum()),
    )  # fmt: skip


def _frame(path: Path) -> pl.DataFrame:
    """Return the table as text, or with the types of a Parquet file."""
    try:
        if not path.is_file():
            raise RunError(f"{path}: there is no such file; check the path")
        if path.suffix == ".parquet":
            wanted = {name for names in NAMES.values() for name in names}
            columns = [c for c in pl.read_parquet_schema(path) if _plain(c) in wanted]
            check_parquet(path, len(columns))
            check_texts(path)
            return pl.read_parquet(path, columns=columns, glob=False)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            text = stream.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise RunError(f"{path}: more than {_LARGEST:,} bytes of text; write it as .parquet")
        head = text[: text.find(b"\n")]
        mark = max((b",", b";", b"\t", b"|"), key=head.count)
        return pl.read_csv(text, separator=mark.decode(), infer_schema=False)
    except (OSError, EOFError, ValueError, pl.exceptions.PolarsError) as error:
        first = str(error).splitlines()[0]
        raise RunError(f"{path}: cannot be read as a table with a header ({first})") from error


def _plain(name: str) -> str:
    return name.strip().strip('"#').strip().casefold().replace(" ", "_").replace("-", "_")


def _columns(path: Path, names: list[str]) -> dict[str, str]:
    """Return what is known → its column; raises RunError for what is missing or there twice."""
    found, problems = dict[str, str](), []
    plain = {_plain(name): name for name in names}
    for what, wanted in NAMES.items():
        there = [plain[name] for name in wanted if name in plain]
        if there:
            found[what] = there[0]
        elif what not in _OPTIONAL:
            problems.append(
                f"{path}: no column {what} (or {', '.join(wanted[1:])}); it has {', '.join(names)}"
            )
    if problems:
        raise RunError("\n".join(problems))
    return found


def _seconds(path: Path, column: pl.Series, what: str) -> Floats:
    """Return numbers, or dates as seconds; NaN where there is nothing, or a -1."""
    if column.dtype.is_numeric():
        values = column.cast(pl.Float64)
    elif column.dtype == pl.Datetime:
        values = column.dt.epoch("us").cast(pl.Float64) / 1e6
    else:
        words = column.cast(pl.String).str.strip_chars()
        words = words.set(words.is_in(["", "-", "nan", "NaN", "None", "null", "Unknown"]), None)
        values = words.cast(pl.Float64, strict=False)
        if what != "processors" and values.is_null().all():
            dates = words.str.to_datetime(strict=False, time_unit="us", time_zone="UTC")
            values = dates.dt.epoch("us").cast(pl.Float64) / 1e6
        wrong = (values.is_null() & words.is_not_null()).arg_true().to_list()
        if wrong:
            raise RunError(
                f"{path}: {column.name} of row {wrong[0] + 1} of the data is {words[wrong[0]]!r}; "
                f"{what} must be a number" + (" or a date" if what != "processors" else "")
            )
    found = values.fill_null(np.nan).to_numpy().astype(np.float64)
    if what in ("start", "end", "requested"):
        found = np.where(found < 0, np.nan, found)
    return found


@rule
def check_times(table: Schedule, check: Check) -> None:
    """Submit <= start <= end, and a job has processors."""
    check.examined = len(table.job)
    for message, wrong in (
        ("starts before its submission", table.start < table.submit),
        ("ends before its start", table.end < table.start),
        ("has no processors", ~(table.processors > 0)),
    ):
        for place in np.flatnonzero(wrong).tolist():
            check.add(message, table.row(place))
    if repeated := len(table.job) - len(set(table.job)):
        check.notes["rows with the job of another row, taken as jobs of their own"] = repeated
    if table.without_start:
        check.notes["rows without a start or an end, left out"] = table.without_start


@rule
def check_capacity(table: Schedule, check: Check) -> None:
    """At most as many processors are in use as there are."""
    processors = table.available
    check.rule = f"at most {processors:,.10g} processors are in use"
    check.examined = len(table.job)
    starts = np.argsort(table.start, kind="stable")
    ends = np.argsort(table.end, kind="stable")
    ended = np.cumsum(table.processors[ends])
    before = np.searchsorted(table.end[ends], table.start[starts], side="right")
    gone = np.where(before > 0, ended[before - 1], 0.0)
    # A job that takes no time is gone at its own start, but holds its processors at that instant.
    instant = table.end[starts] == table.start[starts]
    used = np.cumsum(table.processors[starts]) - gone + instant * table.processors[starts]
    for at in np.flatnonzero(used > processors + 1e-9 * processors).tolist():
        check.add(
            "starts, though too few processors are free",
            table.row(int(starts[at])) | {"in_use": float(used[at])},
        )


@rule
def check_order(table: Schedule, check: Check) -> None:
    """Jobs start in the order of their submission."""
    if table.claim != "fcfs":
        raise NotApplicableError("the schedule does not claim first come, first served")
    check.examined = len(table.job)
    latest = np.maximum.accumulate(table.start)
    at_latest = np.where(table.start == latest, np.arange(len(latest)), 0)
    overtaken_job = np.maximum.accumulate(at_latest)
    for place in np.flatnonzero(table.start < latest).tolist():
        ahead = int(overtaken_job[place])
        overtaken = {"overtakes": table.job[ahead], "which_starts": float(table.start[ahead])}
        check.add("starts before a job that was submitted earlier", table.row(place) | overtaken)


@rule
def check_easy(table: Schedule, check: Check) -> None:
    """Jobs start when EASY backfilling starts them, and no other.

    Every wait is checked as well. EASY plans in order of submission.
    """
    if table.claim != "easy":
        raise NotApplicableError("the schedule does not claim EASY backfilling")
    check.examined = len(table.job)
    if table.without_request:
        check.notes["jobs without a requested time, planned with their run time"] = (
            table.without_request
        )
    replay = _Easy(table, check)
    for now, ended, arrived, started in _instants(table):
        replay.step(now, ended, arrived, started)
        if replay.looks > _MOST_LOOKS:
            reason = f"the queue is too long to be followed beyond {now:,.15g} s"
            if check.found:
                check.notes["not followed to the end"] = reason
            raise NotAuditedError(reason)


_MOST_LOOKS = 50_000_000
"""How often waiting jobs are looked at, a minute or so; queues of honest schedules are shorter."""


def _instants(table: Schedule) -> Iterator[tuple[float, list[int], list[int], set[int]]]:
    """Yield each time at which jobs end, arrive or start, and which."""
    streams: dict[float, tuple[list[int], list[int], set[int]]] = {}

    def at(time: float) -> tuple[list[int], list[int], set[int]]:
        return streams.setdefault(time, ([], [], set()))

    for place, (submit, start, end) in enumerate(
        zip(table.submit.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
    ):
        at(submit)[1].append(place)
        at(start)[2].add(place)
        if end > start:
            at(end)[0].append(place)
    times = list(streams)
    heapify(times)
    while times:
        now = heappop(times)
        yield now, *streams.pop(now)


class _Easy:
    """The queue and the machine of a schedule, from instant to instant."""

    def __init__(self, table: Schedule, check: Check) -> None:
        self._table, self._check = table, check
        self._free, self._now = table.available, 0.0
        self._size = table.processors.tolist()
        self._planned = table.requested.tolist()
        self._expected = (table.start + table.requested).tolist()
        self._end, self._start = table.end.tolist(), table.start.tolist()
        self._waiting: list[int] = []
        """Jobs in the order of submission."""
        self._running: list[tuple[float, int]] = []
        """(expected end, job), the earliest first."""
        self.looks = 0
        """How many waiting jobs were looked at so far."""
        self._reported: set[int] = set()
        """Jobs that were already found to wait for nothing."""

    def step(self, now: float, ended: list[int], arrived: list[int], started: set[int]) -> None:
        """Let jobs end, arrive and start as the schedule has it, and check what starts and waits.

        Args:
            now: the time, s.
            ended: jobs that end.
            arrived: jobs that are submitted.
            started: jobs that start.
        """
        self._now = now
        for job in ended:
            entry = (self._expected[job], job)
            place = bisect_left(self._running, entry)
            if self._running[place : place + 1] == [entry]:
                del self._running[place]
                self._free += self._size[job]
        self._waiting.extend(arrived)
        while self._waiting and self._waiting[0] in started:
            self._begin(self._waiting.pop(0))
        if not self._waiting:
            return
        head = self._waiting[0]
        if self._size[head] <= self._free:
            self._tell("is first in the queue and fits, but waits", head)
        self._check_others(head, started)

    def _check_others(self, head: int, started: set[int]) -> None:
        """Check the jobs behind the first one: those that start, and those that could."""
        self.looks += len(self._waiting)
        bound: tuple[float, float] | None = None
        left = [head]
        for job in self._waiting[1:]:
            if job not in started and self._size[job] > self._free:
                left.append(job)
                continue
            if bound is None:
                bound = self._shadow(head)
            shadow, extra = bound
            harmless = self._now + self._planned[job] <= shadow or self._size[job] <= extra
            if job in started:
                if not harmless:
                    self._check.add(
                        "overtakes the first job of the queue and delays its reservation",
                        self._table.row(job) | {"overtakes": self._table.job[head],
                                                "reserved_at": shadow},
                    )  # fmt: skip
                self._begin(job)
                bound = None
                continue
            if harmless:
                self._tell("fits and would delay no reservation, but waits", job)
            left.append(job)
        self._waiting = left

    def _begin(self, job: int) -> None:
        if self._end[job] > self._start[job]:
            self._free -= self._size[job]
            insort(self._running, (self._expected[job], job))

    def _shadow(self, head: int) -> tuple[float, float]:
        """Return when the first job is expected to fit, and how much is free then besides it."""
        free, needed = self._free, self._size[head]
        if free >= needed:  # it could start now
            return self._now, free - needed
        at = float("inf")
        for expected, job in self._running:
            if expected > at:
                break
            free += self._size[job]
            if free >= needed and at == float("inf"):
                at = max(expected, self._now)
        return at, free - needed

    def _tell(self, message: str, job: int) -> None:
        if job not in self._reported:
            self._reported.add(job)
            self._check.add(message, self._table.row(job) | {"at": self._now})
