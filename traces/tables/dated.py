"""Columns of instants that are dates: as seconds from the earliest, whose date is the epoch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.traces.bad_lines import BadLines
from simkit.traces.rules import Tally
from simkit.traces.tables import rules
from simkit.traces.tables.keys import TableKeys
from simkit.traces.tables.times import Instants, instants, zero_s


class Dated(NamedTuple):
    """Columns of instants."""

    columns: dict[str, Floats]
    """Name → (n,) seconds from the epoch; NaN where there is none, infinite where never."""
    epoch_s: float
    """Unix time of second 0."""


def seconds_of(
    columns: dict[str, pl.Series], line: Ints, bad: BadLines, keys: TableKeys, tally: Tally
) -> Dated:
    """Return dates as seconds from the earliest of the first column, or from `zero`.

    Args:
        columns: name → (n,) text, null where empty; the first is that of submit times.
        line: (n,) the rows' lines.
        bad: gets the rows whose date cannot be read, or does not exist.
        keys: how they are written.
        tally: notes what was recognised.

    Raises TraceError if no date of a column can be read, or a zone is missing.
    """
    times: dict[str, Floats] = {}
    for name, words in columns.items():
        never = words.str.to_lowercase().is_in(["inf", "+inf", "infinity"]).fill_null(value=False)
        finite = words.set(never, None)
        time_s = np.full(len(words), np.nan)
        if finite.null_count() < len(words):
            found = instants(finite, keys, f"{bad.path}: {name}", in_order=True)
            time_s = found.time_s
            _refuse(found, finite, line, bad, keys)
            for said in found.said:
                tally.note(said, line[:1])
            tally.note(rules.SECOND_HOUR, line[found.second])
        times[name] = np.where(never.to_numpy(), np.inf, time_s)
    epoch = zero_s(keys, str(bad.path)) if keys.zero is not None else np.nan
    first = next(iter(times.values()))
    if np.isnan(epoch) and np.isfinite(first).any():
        epoch = float(first[np.isfinite(first)].min())
    return Dated({name: time - epoch for name, time in times.items()}, epoch)


def _refuse(found: Instants, words: pl.Series, line: Ints, bad: BadLines, keys: TableKeys) -> None:
    """Add the rows whose date is none."""
    for row in np.flatnonzero(words.is_not_null().to_numpy() & np.isnan(found.time_s)).tolist():
        if found.skipped[row]:
            why = f"a time that the clock of {keys.zone} skips as it is put forward"
        else:
            why = "a date that cannot be" if found.impossible[row] else "not of the form of dates"
        bad.add(int(line[row]), f"{words.name} is {words[row]!r}, {why}; correct it")
