"""Logs of rigid jobs: rules for rows, links and oddities, and jobs gathered into a workload.

A reader reads; what is left out or repaired is a named and counted rule, and a choice of the
experiment. Whole numbers are held in four bytes until the end, and each column is freed as its
successor is made, so that reading costs little more than the workload itself. Oddities (swapped
columns, other units, contradictory times) are noted, or hinted at in an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Floats, Ints
from simkit.traces import rules
from simkit.traces.rules import (
    LARGEST,
    NO_ID,
    RULES,
    BadLines,
    LineFormat,
    Tally,
    first_that_applies,
)
from simkit.units import LATEST_S, LONGEST_S, format_duration
from simkit.workload import Workload
from simkit.workload.dependencies import Links
from simkit.workload.workload import JOB_COLUMNS

Column = npt.NDArray[Any]


class GrowingColumn:
    """Numbers that arrive in pieces: four bytes each while they are whole, none while constant."""

    def __init__(self) -> None:
        self._data: Column = np.empty(0, np.int32)
        self._constant: np.generic | None = None
        self._size = 0

    def append(self, piece: Column) -> None:
        """Add numbers at the end."""
        if self._size == 0 and len(piece):
            self._constant = piece[0]
        if self._constant is not None and not (piece == self._constant).all():
            self._data = _narrow(np.full(self._size, self._constant))
            self._constant = None
        if self._constant is None:
            self._store(_narrow(piece))
        self._size += len(piece)

    def _store(self, piece: Column) -> None:
        dtype = np.promote_types(self._data.dtype, piece.dtype)
        end = self._size + len(piece)
        if end > len(self._data) or dtype != self._data.dtype:
            room = np.empty(max(end + end // 4, 1024), dtype)
            room[: self._size] = self._data[: self._size]
            self._data = room
        self._data[self._size : end] = piece

    def values(self) -> Column:
        """Return all numbers, (n,) int32, int64 or float64."""
        if self._constant is not None:
            return np.broadcast_to(_narrow(np.array([self._constant])), (self._size,))
        return self._data[: self._size]


class RigidJobs:
    """Columns under construction, by name, in the order in which rows come.

    They are line, job, submit, run, processors, requested_time, the numbers of users, queues, …,
    held (seconds from submission to release), previous_job and think_time where the log has them,
    and what else a format needs to say what its jobs ask for.
    """

    def __init__(self) -> None:
        self._columns: dict[str, GrowingColumn] = {}
        self._jobs = 0

    def __len__(self) -> int:
        """Return the number of jobs so far."""
        return self._jobs

    def add(self, columns: Mapping[str, Column]) -> None:
        """Append jobs; every call gives the same columns, all of one length."""
        for name, column in columns.items():
            self._columns.setdefault(name, GrowingColumn()).append(column)
        self._jobs += len(next(iter(columns.values())))

    def column(self, name: str) -> Column:
        """Return one column, whole, in the order in which jobs were added."""
        return self._columns[name].values()

    def note_oddities(
        self, tally: Tally, capacity: Mapping[str, float], *, ids: bool = True
    ) -> None:
        """Note rows out of order, `ids` that repeat, and jobs larger than the machine."""
        line, job, submit = (self.column(name) for name in ("line", "job", "submit"))
        if (submit[1:] < submit[:-1]).any():
            tally.note(rules.OUT_OF_ORDER, line[submit < np.maximum.accumulate(submit)])
        if ids and not (job[1:] > job[:-1]).all():
            tally.note(rules.REPEATED_ID, line[repeats(job)])
        note_swapped_times(tally, line, submit, self.column("run"))
        note_swapped_limits(tally, self.column("run"), self.column("requested_time"))
        if (size := capacity.get("processors")) is not None:
            tally.note(rules.TOO_LARGE, line[self.column("processors") > size])

    def workload(
        self, *, zero_s: float = 0.0, request: Request | None = None, **facts: Any
    ) -> Workload:
        """Make the workload, sorted by (submit, job), and give up the columns.

        Args:
            zero_s: subtracted from the submit times.
            request: what the jobs ask for; None: processors, an instance each.
            facts: further fields of the workload (``job_id`` replaces the numbers in ``job``
                and is in the order in which jobs were added).
        """
        order, size = self.order(), len(self)
        self._columns.pop("line", None)
        ids = facts.pop("job_id", None)
        for name in JOB_COLUMNS:
            if (numbers := self._numbers(name, order)) is not None:
                facts[name] = numbers
        job = self._final("job", np.int64, order)
        submit = self._final("submit", np.float64, order)
        submit -= zero_s
        if request is None:
            facts |= {"resources": ("processors",), "request": np.broadcast_to(1.0, (size, 1))}
            facts["instances"] = self._final("processors", np.int64, order)
        else:
            facts |= {"resources": request.resources, "request": request.amounts[order]}
            facts["instances"] = request.instances[order]
            if request.whole_memory.any():
                facts["whole_memory"] = request.whole_memory[order]
        if "limit_of_partition" in self._columns:
            of_partition = self._final("limit_of_partition", np.bool_, order)
            if of_partition.any():
                facts["limit_of_partition"] = of_partition
        if "held" in self._columns and (self.column("held") > 0).any():
            facts["release_time_s"] = submit + self._final("held", np.float64, order)
        return Workload(
            job_id=job if ids is None else ids[order],
            submit_time_s=submit,
            first_task=np.arange(size + 1),
            task_id=np.broadcast_to(np.int64(0), (size,)),
            run_time_s=self._final("run", np.float64, order),
            requested_time_s=self._final("requested_time", np.float64, order),
            gang=np.broadcast_to(np.True_, (size,)),
            **facts,
        )

    def order(self) -> Any:
        """Return the rows by (submit, job, task); a slice of all where they are so already."""
        names = ("task", "job", "submit") if "task" in self._columns else ("job", "submit")
        columns = [self.column(name) for name in names]
        sorted_ = np.ones(max(len(self) - 1, 0), dtype=bool)
        for column in columns:
            sorted_ = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & sorted_)
        return slice(None) if sorted_.all() else np.lexsort(columns)

    def _final(self, name: str, dtype: type, order: Any) -> Any:
        column = self.column(name)
        del self._columns[name]
        return column[order].astype(dtype)

    def _numbers(self, name: str, order: Any) -> Ints | None:
        """Return a column of numbers, or None where all are unknown."""
        if name not in self._columns or (self.column(name) == -1).all():
            self._columns.pop(name, None)
            return None
        numbers: Ints = self._final(name, np.int64, order)
        return numbers


def _narrow(column: Column) -> Column:
    """Return whole numbers as int32 where they fit, integers else as int64, others as float64."""
    with np.errstate(invalid="ignore"):
        narrow = column.astype(np.int32)
    if np.array_equal(narrow, column):
        return narrow
    return column.astype(np.int64 if column.dtype.kind in "iu" else np.float64)


def repeats(ids: Column) -> Ints:
    """Return the rows whose id an earlier row has."""
    order = np.argsort(ids, kind="stable")
    same = ids[order][1:] == ids[order][:-1]
    return np.sort(order[1:][same])


@dataclass(frozen=True)
class RawJobs:
    """Columns of rows as a log has them, (n,) each; times in seconds; negative means missing.

    An infinite requested time means that there was no limit.
    """

    line: Ints
    job: Ints
    """`NO_ID` where there is none."""
    submit: Floats
    run: Floats
    allocated: Floats
    requested: Floats
    requested_time: Floats
    limit_of_partition: Bools | None = None
    """Whether the time limit is that of the partition, so that it is missing here."""


@dataclass(frozen=True)
class KeptJobs:
    """The rows that became jobs, (k,) each."""

    row: Ints
    """Which rows they were, ascending."""
    processors: Floats
    """At least 1, whole."""
    requested_time: Floats
    """Seconds; NaN where the log has none and the rules leave it so; infinite without a limit."""
    unchanged: Bools
    """Which of them no rule repaired."""


@dataclass(frozen=True)
class Request:
    """What jobs ask for, where that is more than an instance for each processor.

    n jobs, in the order in which they were added.
    """

    resources: tuple[str, ...]
    instances: Ints
    """(n,) of each job, at least 1."""
    amounts: Floats
    """(n, R) what one instance asks of each resource."""
    whole_memory: Bools
    """(n,) see `Workload.whole_memory`."""


class RigidLog(LineFormat):
    """A log of rigid jobs: which of its rows count, and how they are repaired."""

    processors: Literal["allocated", "requested"] = "allocated"
    """Which of the log's two numbers counts first; the other one where it is missing."""
    requested_time: Literal["max", "raw"] = "max"
    """max: at least the run time, and the run time where it is missing; raw: as the log has it. One
    without a limit is endless either way."""
    keep_zero_run: bool = False
    """Keep jobs whose run time is 0."""

    meanings = RULES

    def judge(
        self, rows: RawJobs, tally: Tally, no_jobs: Mapping[str, Bools] | None = None
    ) -> KeptJobs:
        """Leave out and repair rows, each counted in `tally` under the first rule that applies.

        Args:
            rows: n rows.
            tally: counts them.
            no_jobs: rule of the format alone → (n,) rows that are no jobs by it.
        """
        first, other = rows.allocated, rows.requested
        if self.processors == "requested":
            first, other = other, first
        processors = np.where(first > 0, first, other)
        kept = self._drop(rows, processors, tally, no_jobs or {})
        processors, first = processors[kept], first[kept]
        run, requested = rows.run[kept], rows.requested_time[kept]
        missing = ~(requested > 0)
        wanted, late = np.where(missing, np.nan, requested), np.zeros(len(kept), dtype=bool)
        of_partition = np.zeros(len(kept), dtype=bool)
        if rows.limit_of_partition is not None:
            of_partition = rows.limit_of_partition[kept] & missing
        tally.note(rules.NO_LIMIT, rows.line[kept][np.isinf(wanted)])
        missing &= ~of_partition
        if self.requested_time == "max":
            late = run > wanted
            wanted = np.fmax(wanted, run)
        else:
            tally.note(rules.PARTITION_LIMIT, rows.line[kept][of_partition])
            missing = of_partition = late
        by_default = self.processors == "allocated"
        other_used = rules.FROM_REQUESTED if by_default else rules.FROM_ALLOCATED
        whole = np.ceil(processors)
        repairs = {
            other_used: first <= 0,
            rules.ROUNDED_UP: whole != processors,
            rules.PARTITION_LIMIT: of_partition,
            rules.NO_REQUEST: missing,
            rules.RAISED: late,
        }
        unchanged = first_that_applies(repairs, rows.line[kept], tally.repair)
        tally.accept(int(np.count_nonzero(unchanged)))
        return KeptJobs(kept, whole, wanted, unchanged)

    def _drop(
        self, rows: RawJobs, processors: Floats, tally: Tally, no_jobs: Mapping[str, Bools]
    ) -> Ints:
        usable = rows.job != NO_ID
        usable &= (rows.submit >= -LONGEST_S) & (np.abs(rows.run) <= LONGEST_S)
        usable &= rows.submit + np.maximum(rows.run, 0.0) <= LATEST_S
        for column in (rows.allocated, rows.requested):
            usable &= np.abs(column) < LARGEST
        usable &= (np.abs(rows.requested_time) < LARGEST) | (rows.requested_time == np.inf)
        drops = {
            **no_jobs,
            rules.NOT_A_NUMBER: ~usable,
            rules.NO_SUBMIT: rows.submit < 0,
            rules.NO_RUN: rows.run < 0,
            rules.ZERO_RUN: (rows.run == 0) & (not self.keep_zero_run),
            rules.NO_PROCESSORS: ~(processors > 0),
        }
        tally.read(len(rows.line))
        return np.flatnonzero(first_that_applies(drops, rows.line, tally.drop))


def note_releases(tally: Tally, line: Ints, held_s: Floats) -> None:
    """Note the jobs that may not run from their submission on, and those released before it.

    Args:
        tally: counts them.
        line: (n,) the rows' lines.
        held_s: (n,) from submission to release, NaN where unknown.
    """
    tally.note(rules.RELEASED_LATER, line[held_s > 0])
    tally.note(rules.RELEASED_EARLY, line[held_s < 0])


def preceding_jobs(
    job_id: npt.NDArray[Any],
    line: Ints,
    job: Ints,
    wanted: npt.NDArray[Any],
    think_time_s: Floats,
    tally: Tally,
    left_out: Collection[Any] = (),
) -> dict[str, Any]:
    """Return the fields of a workload that say which jobs precede others.

    A link that cannot be is left out and noted: its job does not wait. A job that comes later may
    precede one, unless the two are in a loop.

    Args:
        job_id: (J,) ids of all jobs, sorted by submission.
        line: (J,) their lines in the log.
        job: (L,) rows of jobs that name a preceding one, ascending.
        wanted: (L,) the ids that they name, of the type of `job_id`.
        think_time_s: (L,) seconds; NaN, negative or endless: unknown, 0 is taken.
        tally: counts jobs by rule.
        left_out: ids of jobs in rows that are no part of the workload.
    """
    known = (think_time_s >= 0) & (think_time_s <= LONGEST_S)
    links = Links.by_id(job_id, job, wanted, np.where(known, think_time_s, 0.0))
    missing = links.predecessor < 0
    dropped = missing & np.isin(wanted, list(left_out)) if missing.any() else missing
    itself = links.predecessor == job
    loop = links.in_loops(len(job_id)) & ~itself
    kept = ~(missing | itself | loop)
    for rule, rows in {
        rules.PRECEDING_LEFT_OUT: dropped,
        rules.PRECEDING_UNKNOWN: missing & ~dropped,
        rules.PRECEDING_ITSELF: itself,
        rules.PRECEDING_LOOP: loop,
        rules.PRECEDING_LATER: kept & (links.predecessor > job),
        rules.NO_THINK_TIME: kept & ~known,
        rules.PRECEDED: kept,
    }.items():
        tally.note(rule, np.sort(line[np.unique(job[rows])]))
    return links.of(kept).columns(len(job_id))


FEWEST_ROWS: Final = 5
"""Fewer rows prove nothing."""


def note_swapped_times(tally: Tally, line: Ints, submit: Floats, run: Floats) -> None:
    """Note that submit and run times look swapped: run times ascend, submit times do not.

    Args:
        tally: counts the rows that are submitted before the row above them.
        line: (n,) the rows' lines.
        submit: (n,) submit times in s, in the order of the file.
        run: (n,) run times in s.
    """
    if _are_dates(submit) and not _are_dates(run):
        return  # they are where they belong
    earlier = np.flatnonzero(submit[1:] < submit[:-1]) + 1
    ascends = bool((run[1:] >= run[:-1]).all()) and len(np.unique(run)) > 2
    if len(line) >= FEWEST_ROWS and ascends and len(earlier) * 4 >= len(line):
        tally.note(rules.SWAPPED_TIMES, line[earlier])


def note_swapped_limits(tally: Tally, run: Floats, requested: Floats) -> None:
    """Note that run and requested times look swapped: nearly all jobs ran longer than requested.

    Args:
        tally: counts the rows that ran longer, with those that it has counted as raised.
        run: (n,) run times in s.
        requested: (n,) requested times in s, NaN where unknown.
    """
    longer = int(np.count_nonzero(run > requested)) + tally.report.repaired.get(rules.RAISED, 0)
    shorter = int(np.count_nonzero(run < requested))
    if longer >= FEWEST_ROWS and longer > 9 * shorter:
        tally.report.notes[rules.SWAPPED_LIMITS] = longer


def _are_dates(values: Floats) -> bool:
    """Return whether times are seconds since 1970, which nothing but a date reaches."""
    known = values[~np.isnan(values)]
    if not len(known) or known.max() < _DATES_FROM_S:
        return False
    return bool(np.median(known) >= _DATES_FROM_S)


_DATES_FROM_S: Final = 1e9
"""Larger times are dates, not before 2001: as a run time it would be 31 years."""


def hint_swapped(
    columns: Mapping[str, Floats], keeps: Callable[[str, Floats], Bools], bad: BadLines
) -> None:
    """Add a hint on columns most of whose values break their rule, and keep that of another.

    Args:
        columns: name -> (n,) numbers.
        keeps: returns (n,) which numbers keep the rule of the column of that name.
        bad: gets the hint.
    """
    for name, values in columns.items():
        if np.count_nonzero(keeps(name, values)) * 2 >= len(values):
            continue
        for other, theirs in columns.items():
            if _are_dates(values) != _are_dates(theirs):
                continue  # a date and another number are not each other's
            both = other != name and keeps(name, theirs).all() and keeps(other, values).all()
            if both:
                bad.hint_swapped(name, other)


SLACK_S = 1.0
"""Logs round times to seconds."""


def note_early_starts(tally: Tally, line: Ints, wait_s: Floats) -> None:
    """Note rows of jobs that started before they were submitted.

    Args:
        tally: counts them.
        line: (n,) the rows' lines.
        wait_s: (n,) from submission to start, NaN where unknown.
    """
    early = wait_s < 0
    if early.any():
        first = float(wait_s[early][0])
        tally.show(rules.START_EARLY, f"{format_duration(-first)} before submission")
        tally.note(rules.START_EARLY, line[early])


def note_odd_run_times(
    tally: Tally, line: Ints, span_s: Floats, run_s: Floats, paused_s: Floats | None = None
) -> None:
    """Note rows whose end is before their start, or whose run time does not fit between these.

    Args:
        tally: counts them.
        line: (n,) the rows' lines.
        span_s: (n,) from start to end, NaN where unknown.
        run_s: (n,) how long the job ran.
        paused_s: (n,) of the span, when it was suspended, NaN where unknown; None: unknown of all.
            Where it is known, a run time that is too short is as odd as one that is too long.
    """
    backwards = span_s < 0
    tally.note(rules.END_EARLY, line[backwards])
    if backwards.any():
        first = float(span_s[backwards][0])
        tally.show(rules.END_EARLY, f"{format_duration(-first)} before start")
    odd = _odd(span_s, run_s, paused_s) & ~backwards
    tally.note(rules.RUN_UNLIKE, line[odd])
    if odd.any():
        row = int(np.argmax(odd))
        span, run = format_duration(float(span_s[row])), format_duration(float(run_s[row]))
        tally.show(rules.RUN_UNLIKE, f"run time {run}, start to end {span}")


def _odd(span_s: Floats, run_s: Floats, paused_s: Floats | None) -> Bools:
    """Return which run times are longer than the span, or, with the pause, not the rest of it."""
    longer: Bools = run_s > span_s + SLACK_S
    if paused_s is None:
        return longer
    shorter: Bools = np.abs(span_s - paused_s - run_s) > SLACK_S
    return longer | shorter


_SINCE_1970: Final = (("milliseconds", 1e-3), ("microseconds", 1e-6), ("nanoseconds", 1e-9))
_EARLIEST_S, _LATEST_S = 3e8, LONGEST_S
"""Unix times of traces, from 1979 on."""


class OddUnit(NamedTuple):
    """A column with values beyond its range that would do in another unit."""

    beyond: Bools
    """(n,) the values beyond the range."""
    hint: str
    """What they look like, and the remedy."""


def odd_units(columns: Mapping[str, Floats], resources: Sequence[str]) -> Iterator[OddUnit]:
    """Yield submit times that look like milliseconds, and requests that look like bytes.

    Args:
        columns: name → (n,) numbers as they are read, NaN where empty.
        resources: the columns that are requests.
    """
    times = columns["submit_time_s"]
    if (beyond := np.abs(times) > LONGEST_S).any():
        middle = float(np.median(times[beyond]))
        for unit, factor in _SINCE_1970:
            if _EARLIEST_S <= middle * factor <= _LATEST_S:
                yield OddUnit(beyond, (
                    f"submit_time_s looks like {unit} since 1970 (such as {middle:.10g}); set "
                    f"factors: {{submit_time_s: {factor:g}}}, and the same for run_time_s and "
                    "requested_time_s if they are in this unit, too; or time_format: "
                    f"{unit}, which makes dates of the submit times"
                ))  # fmt: skip
    for name in resources:
        values = columns[name]
        if (beyond := (values >= LARGEST) & (values < np.inf)).any():
            yield OddUnit(beyond, (
                f"{name} looks like bytes (such as {values[beyond][0]:.10g}); give it the unit of "
                f"the machines, for GiB with factors: {{{name}: {2.0**-30:.10g}}}"
            ))  # fmt: skip
