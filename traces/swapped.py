"""Columns that look swapped: notes on a log that was read, hints in the error about another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.traces import rules
from simkit.traces.bad_lines import BadLines
from simkit.traces.rules import Tally

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
