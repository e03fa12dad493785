"""Columns of a power file as traces: the rules for rows, the order of times, units, energies.

Rules, counted by name, decide which rows become values. Energies, such as kWh for each interval,
become mean powers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from simkit.arrays import Bools, Floats, Ints
from simkit.dates import is_utc
from simkit.errors import TraceError
from simkit.power.signal import WATT
from simkit.power.signal_trace import Label, PowerTrace, Sampling, intervals
from simkit.scenario.signals import FileSignal, Zone
from simkit.traces.power import rules
from simkit.traces.power.declared_unit import UnitChoice, choose_unit
from simkit.traces.power.formats import TableFormat, find_format
from simkit.traces.power.table import Table, read_table
from simkit.traces.power.typical_year import one_year
from simkit.traces.power.units import unit_of
from simkit.traces.rigid_jobs import first_that_applies
from simkit.traces.rules import Tally, summary
from simkit.traces.tables.keys import TableKeys
from simkit.traces.tables.times import Instants, Times, instants
from simkit.workload import RowReport

_SAME_LENGTH: Final = 1e-6
"""Share of the step by which an interval may differ: the last digits of a time."""


class KeptRows(NamedTuple):
    """Rows that passed the rules, by ascending time."""

    row: Ints
    """(k,) positions of the kept rows."""
    time_s: Floats
    """(k,) Unix times."""
    report: RowReport
    """Counts of all rows, by rule."""


def keep_rows(
    when: Instants,
    usable: Floats,
    table: Table,
    name: str,
    *,
    times: Sequence[str],
    values: Sequence[str],
    power: bool = False,
) -> KeptRows:
    """Apply the rules for rows.

    Args:
        when: instants of the rows.
        usable: (n,) the value; or any number that is NaN where a needed value is missing.
        table: the rows, whose report is continued.
        name: file and column, for messages.
        times: columns of the times.
        values: columns of the values.
        power: note negative values.

    Raises TraceError if no row is left.
    """
    tally, line = Tally(), table.line
    tally.report = deepcopy(table.report)
    tally.read(len(line))
    for said in when.said:
        tally.note(said, line[:1])
    order = np.argsort(when.time_s, kind="stable")
    repeated = np.zeros(len(line), dtype=bool)
    repeated[order[1:]] = np.diff(when.time_s[order]) == 0
    drops = {
        rules.SKIPPED_HOUR: when.skipped,
        rules.NO_SUCH_DATE: when.impossible,
        rules.NO_TIME: ~np.isfinite(when.time_s),
        rules.NO_VALUE: ~np.isfinite(usable) & ~(unreadable := table.unreadable(values)),
        rules.NO_NUMBER: unreadable,
        rules.REPEATED_TIME: repeated,
    }
    kept = first_that_applies(drops, line, tally.drop)
    for rule in drops.keys() & tally.report.dropped.keys():
        row = int(np.searchsorted(line, tally.report.lines[rule][0]))
        of_value = rule in (rules.NO_NUMBER, rules.NO_VALUE)
        tally.show(rule, table.cells_of(values if of_value else times, row))
    _note_order(when, kept, line, tally)
    tally.note(rules.SECOND_HOUR, line[kept & when.second])
    tally.note(rules.FIRST_HOUR, line[when.doubtful[kept[when.doubtful]]])
    if power:
        tally.note(rules.NEGATIVE, line[kept & (usable < 0)])
    tally.accept(int(np.count_nonzero(kept)))
    rows = order[kept[order]]
    if not len(rows):
        raise TraceError(f"{name}: no row is left: {summary(tally.report)}; check the column")
    return KeptRows(rows, when.time_s[rows], tally.report)


def _note_order(when: Instants, kept: Bools, line: Ints, tally: Tally) -> None:
    """Note that the newest row comes first, or else the rows that come after a later one."""
    if when.newest_first:
        tally.note(rules.NEWEST_FIRST, line[kept][:1])
        return
    latest = np.maximum.accumulate(np.where(kept, when.time_s, -np.inf))
    tally.note(rules.UNSORTED, line[kept & (when.time_s < latest)])


class TableSignal(TableKeys, FileSignal):
    """Keys of every signal from a table."""

    site_zone: Zone | None = None
    """Zone of the place, whose standard time calendar alignment uses; null: `zone`. It must be
    given for a file in UTC if the run's zone is another."""
    label: Label | None = None
    """Which end of its interval a time marks; null: start, or as the format has it."""
    unit_in_name: Literal["check", "ignore"] = "check"
    """Whether a unit in a column's name counts: it must not contradict the declared one, and
    stands for one that is not declared."""
    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def sheet(
        self,
        columns: Sequence[str],
        unit: str | None,
        time: str,
        *,
        usual: str | None = None,
        sampling: Sampling = "mean",
        step_s: float = 0.0,
    ) -> Sheet:
        """Read columns of one unit and their times, and check the declarations against the file.

        Args:
            columns: the columns of values.
            unit: of the values; None: the one in the columns' names, else the usual one.
            time: the column of times.
            usual: unit of such values; None: there is none.
            sampling: ``mean`` of an interval, or read at an ``instant``.
            step_s: length of the intervals in s; 0: the most frequent distance.

        Raises TraceError if the file cannot be read, something is undeclared, or a declaration
        contradicts the file.
        """
        chosen = choose_unit(columns, unit, self.path, usual, compare=self.unit_in_name == "check")
        zone_in_name = "UTC" if re.search(r"(?:^|[\s()])UTC(?:$|[\s()])", time) else None
        if zone_in_name and (self.zone or "UTC").upper() not in ("UTC", "GMT", "Z"):
            raise TraceError(
                f"{self.path}: column {time!r} is in UTC, but zone {self.zone!r} is declared; "
                "leave zone out, and give the zone of the place as site_zone"
            )
        path = Path(self.path)
        table = read_table(path, [time, *columns], dialect=self.dialect, numbers=columns)
        zone = self.zone or zone_in_name
        form = Times(zone, self.time_format, self.zero)
        when = instants(table.columns[time], form, f"{self.path}: {time}")
        if when.spans and self.label == "end":
            raise TraceError(
                f"{self.path}: cells of {time!r} hold begin and end of their intervals, and the "
                "begin counts, but label: end is declared; leave label out"
            )
        when, typical = one_year(
            when, zone or "UTC", f"{self.path}: {time}", declared=self.typical_year
        )
        site_zone = self.site_zone or zone or "UTC"
        known = self.site_zone is not None or not is_utc(site_zone)
        label = self.label or "start"
        return Sheet(table, when, chosen, site_zone, known, label, sampling, step_s, time, typical)


class ColumnSignal(TableSignal):
    """Keys of every signal from one column of a table."""

    format: TableFormat | None = None
    """A download of a known source: entsoe, smard, electricity-maps or open-meteo; sets the keys
    of times, zone and columns that are not given."""
    column: Annotated[str | None, Field(validate_default=True)] = None
    """The column of values; null: the one that is meant in a file of the format."""
    time: str | None = None
    """The column of times; null: time, or that of the format."""
    column_needed: ClassVar[bool] = True
    """Whether a file without a format must name its column."""

    @field_validator("column")
    @classmethod
    def _is_named(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and cls.column_needed and info.data.get("format") is None:
            raise ValueError("is missing; add it: The column of values")
        return value

    def column_trace(
        self,
        usual: str | None,
        unit: str | None,
        *,
        sampling: Sampling | None = None,
        step_s: float = 0.0,
    ) -> PowerTrace:
        """Read the column.

        Args:
            usual: unit of such values; None: there is none.
            unit: the declared unit; None: it is not declared.
            sampling: ``mean`` or ``instant``; None: mean, or as the format has it.
            step_s: see `TableSignal.sheet`.

        Raises TraceError as `TableSignal.sheet`, or if the file does not have the format.
        """
        if self.format is None:
            signal, column = self, str(self.column)
            time = "time" if self.time is None else self.time
        else:
            wanted = None if usual is None else unit_of(usual, self.path).name
            found = find_format(Path(self.path), self.format, self.column, wanted)
            time, column, sampling = (
                found.time if self.time is None else self.time,
                found.column,
                sampling or found.sampling,
            )
            given = {key for key in found.keys if getattr(self, key) is not None}
            new = {key: value for key, value in found.keys.items() if key not in given}
            signal = self.model_copy(update=new)
        sheet = signal.sheet(
            [column], unit, time, usual=usual, sampling=sampling or "mean", step_s=step_s
        )
        return sheet.trace(column)


class Sheet(NamedTuple):
    """Columns of one unit with the instants of their rows, read from a file once."""

    table: Table
    when: Instants
    unit: UnitChoice
    time_zone: str
    place_known: bool
    label: Label
    sampling: Sampling
    step_s: float
    time: str
    """The column of times."""
    typical: str
    """How months of different years became one year; empty if they did not."""

    def trace(self, *columns: str) -> PowerTrace:
        """Return a column, or the sum of several, in the units of simkit.

        Rows without a time or a value are left out and leave a gap; of several rows with the same
        time the first is kept. Raises TraceError if no row is left.
        """
        path, line = self.table.path, self.table.line
        name = f"{path}: {' + '.join(columns)}"
        unit = self.unit.unit
        values = np.sum([self.table.numbers(column) for column in columns], axis=0)
        kept = keep_rows(
            self.when, values, self.table, name,
            times=[self.time], values=columns, power=unit.name == WATT,
        )  # fmt: skip
        trace = PowerTrace(
            time_s=kept.time_s,
            value=values[kept.row] * unit.factor + unit.offset,
            unit=unit.name,
            time_zone=self.time_zone,
            place_known=self.place_known,
            sampling=self.sampling,
            label=self.label,
            step_s=self.step_s,
            name=name,
            report=kept.report,
            inputs=(path,),
            typical=bool(self.typical),
            notes=tuple(filter(None, (self.unit.said and f"unit {self.unit.said}", self.typical))),
            warnings=self.unit.warnings,
        )
        return _power_of_energy(trace, line[kept.row]) if unit.per_interval else trace


def _power_of_energy(trace: PowerTrace, line: Ints) -> PowerTrace:
    """Return the mean power of each interval, from the energy in it.

    For the lengths of the intervals see `intervals`. Those of another length than the step are
    noted in the trace's report.

    Args:
        trace: energies in J as its values.
        line: (n,) the line of each row, for the report.

    Raises TraceError for readings at an instant, which hold no energy.
    """
    if trace.sampling == "instant":
        raise TraceError(
            f"{trace.name}: an energy is that of an interval, not a reading at an instant; leave "
            "sampling: instant out, or give the unit of a power"
        )
    starts, ends, energy_j = intervals(trace)
    seconds = ends - starts
    other = np.abs(seconds - trace.step_s) > _SAME_LENGTH * trace.step_s
    if trace.report is not None:
        tally = Tally()
        tally.report = trace.report
        tally.note(rules.OTHER_LENGTH, line[other])
    return replace(trace, value=energy_j * (1 / seconds))
