"""Oddities of logs, for notes and hints: swapped columns, other units, contradictory times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.traces import rules
from simkit.traces.rules import LARGEST, BadLines, Tally
from simkit.units import LONGEST_S, format_duration

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
    return bool(len(known)) and bool(np.median(known) >= _DATES_FROM_S)


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
