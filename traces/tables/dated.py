"""Columns of instants that are dates: as seconds from the earliest, whose date is the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.traces.bad_lines import BadLines
from simkit.traces.rules import UNREADABLE_START, Tally
from simkit.traces.tables import rules
from simkit.traces.tables.keys import TableKeys
from simkit.traces.tables.times import Instants, instants, unknown_instants, zero_s


class Dated(NamedTuple):
    """Columns of instants."""

    columns: dict[str, Floats]
    """Name → (n,) seconds from the epoch; NaN where there is none, infinite where never."""
    epoch_s: float
    """Unix time of second 0."""


def seconds_of(
    columns: dict[str, pl.Series],
    line: Ints,
    bad: BadLines,
    keys: TableKeys,
    tally: Tally,
    records: Sequence[str] = (),
) -> Dated:
    """Return dates as seconds from the earliest of the first column, or from `zero`.

    Args:
        columns: name → (n,) text, null where empty; the first is that of submit times.
        line: (n,) the rows' lines.
        bad: gets the rows whose date cannot be read, or does not exist.
        keys: how they are written.
        tally: notes what was recognised.
        records: columns among them where a date that cannot be read is unknown, and noted.

    Raises TraceError if no date of another column can be read, or a zone is missing.
    """
    times: dict[str, Floats] = {}
    for name, words in columns.items():
        never = words.str.to_lowercase().is_in(["inf", "+inf", "infinity"]).fill_null(value=False)
        finite = words.set(never, None)
        time_s = np.full(len(words), np.nan)
        if finite.null_count() < len(words):
            found = _found(finite, bad, keys, recorded=name in records)
            time_s = found.time_s
            if name in records:
                unread = finite.is_not_null().to_numpy() & np.isnan(time_s)
                tally.note(UNREADABLE_START, line[unread])
            else:
                _refuse(found, finite, line, bad, keys)
            for said in found.said:
                tally.note(said, line[:1])
            tally.note(rules.SECOND_HOUR, line[found.second])
            tally.note(rules.FIRST_HOUR, line[found.doubtful])
        times[name] = np.where(never.to_numpy(), np.inf, time_s)
    epoch = zero_s(keys, str(bad.path)) if keys.zero is not None else np.nan
    first = next(iter(times.values()))
    if np.isnan(epoch) and np.isfinite(first).any():
        epoch = float(first[np.isfinite(first)].min())
    return Dated({name: time - epoch for name, time in times.items()}, epoch)


def _found(words: pl.Series, bad: BadLines, keys: TableKeys, *, recorded: bool) -> Instants:
    """Return the instants of a column; of one that is only `recorded`, unknown if none is read."""
    try:
        return instants(words, keys, f"{bad.path}: {words.name}", in_order=True)
    except TraceError:
        if not recorded:
            raise
        return unknown_instants(len(words))


def _refuse(found: Instants, words: pl.Series, line: Ints, bad: BadLines, keys: TableKeys) -> None:
    """Add the rows whose date is none."""
    for row in np.flatnonzero(words.is_not_null().to_numpy() & np.isnan(found.time_s)).tolist():
        if found.skipped[row]:
            why = f"a time that the clock of {keys.zone} skips as it is put forward"
        else:
            why = "a date that cannot be" if found.impossible[row] else "not of the form of dates"
        bad.add(int(line[row]), f"{words.name} is {words[row]!r}, {why}; correct it")
