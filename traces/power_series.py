"""From a column of a table to a trace: the rules for rows, the order of times, the unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simkit.errors import TraceError
from simkit.signal import WATT
from simkit.signal_trace import Label, PowerTrace, Sampling
from simkit.workload import Floats, Ints, RowReport

from . import power_rules as rules
from .job_rules import first_that_applies
from .power_energy import power_of_energy
from .power_times import Instants
from .power_units import unit_of
from .rules import Tally, summary


@dataclass(frozen=True)
class Meaning:
    """What the numbers of a file mean; the file itself seldom says it."""

    time_zone: str
    """Zone of the place."""
    label: Label = "start"
    """Which end of its interval a mean's time is."""
    sampling: Sampling = "mean"
    """``mean`` of an interval, or read at an ``instant``."""
    step_s: float = 0.0
    """Regular distance of the times in s; 0: the most frequent one."""


class KeptRows(NamedTuple):
    """Rows that came through the rules, by ascending time."""

    row: Ints
    """(k,) which rows they were."""
    time_s: Floats
    """(k,) Unix times."""
    report: RowReport
    """What became of all rows."""


def keep_rows(
    when: Instants, usable: Floats, line: Ints, name: str, *, power: bool = False
) -> KeptRows:
    """Apply the rules for rows.

    Args:
        when: instants of the rows.
        usable: (n,) the value, or anything that is NaN where a value that is needed is missing.
        line: (n,) lines, for the report.
        name: file and column, for messages.
        power: note negative values.

    Raises TraceError if no row is left.
    """
    tally = Tally()
    tally.read(len(line))
    order = np.argsort(when.time_s, kind="stable")
    repeated = np.zeros(len(line), dtype=bool)
    repeated[order[1:]] = np.diff(when.time_s[order]) == 0
    unknown = ~np.isfinite(when.time_s)
    drops = {
        rules.SKIPPED_HOUR: when.skipped,
        rules.NO_TIME: unknown,
        rules.NO_VALUE: ~np.isfinite(usable),
        rules.REPEATED_TIME: repeated,
    }
    kept = first_that_applies(drops, line, tally.drop)
    latest = np.maximum.accumulate(np.where(kept, when.time_s, -np.inf))
    tally.note(rules.UNSORTED, line[kept & (when.time_s < latest)])
    tally.note(rules.SECOND_HOUR, line[kept & when.second])
    if power:
        tally.note(rules.NEGATIVE, line[kept & (usable < 0)])
    tally.accept(int(np.count_nonzero(kept)))
    rows = order[kept[order]]
    if not len(rows):
        raise TraceError(f"{name}: no row is left: {summary(tally.report)}; check the column")
    return KeptRows(rows, when.time_s[rows], tally.report)


def series(
    when: Instants, values: Floats, line: Ints, unit: str, meaning: Meaning, path: Path, column: str
) -> PowerTrace:
    """Make a trace of one column; values in a file's `unit` become those of simkit.

    Raises TraceError if no row is left or the unit is unknown.
    """
    name = f"{path}: {column}"
    of_file = unit_of(unit, name)
    kept = keep_rows(when, values, line, name, power=of_file.name == WATT)
    trace = PowerTrace(
        time_s=kept.time_s,
        value=values[kept.row] * of_file.factor,
        unit=of_file.name,
        time_zone=meaning.time_zone,
        sampling=meaning.sampling,
        label=meaning.label,
        step_s=meaning.step_s,
        name=name,
        report=kept.report,
        inputs=(path,),
    )
    return power_of_energy(trace, line[kept.row]) if of_file.per_interval else trace
