"""The signals of a scenario: constants and patterns, and recorded files laid on a run's clock.

`SignalBuilder` makes the signals of one run; `read_signal_file` reads a signal's file alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from pydantic import ValidationError

from simkit import plugins
from simkit.dates import fixed_zone
from simkit.errors import PluginError, ScenarioError, SimkitError, TraceError, did_you_mean
from simkit.power.signal import CARBON, PRICE, WATT, Constant, Means, Scaled, Signal, Sum
from simkit.power.signal_align import Alignment, Span, aligned, scale_factor
from simkit.power.signal_patterns import WEEK_S, Levels, Schedule, weekly
from simkit.power.signal_trace import Gaps, PowerTrace, long_fill_warning
from simkit.scenario.overrides import cut_at_scalar, dotted
from simkit.scenario.power import Align
from simkit.scenario.references import Context
from simkit.scenario.signals import (
    SIGNALS,
    ConstantSignal,
    LevelsSignal,
    MeansSignal,
    RecordedSignal,
    ScaledSignal,
    ScheduleSignal,
    SumSignal,
)
from simkit.scenario.signals import Signal as SignalSection
from simkit.sections import Section, problems_of
from simkit.text import counted
from simkit.units import DAY_S
from simkit.workload import RowReport, Workload


class Quantity(NamedTuple):
    """What a signal measures."""

    unit: str
    name: str
    """Its name in messages."""
    least: float = 0.0
    """Smallest value allowed."""


POWER: Final = Quantity(WATT, "power")
ENERGY_PRICE: Final = Quantity(PRICE, "a price", -math.inf)
CARBON_INTENSITY: Final = Quantity(CARBON, "carbon intensity")
TEMPERATURE: Final = Quantity("degC", "temperature", -math.inf)


class Findings:
    """What is found while a site is built: problems, and the files that were read."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        """One line each, beginning with the dotted place."""
        self.inputs: list[Path] = []
        self.reports: dict[str, RowReport] = {}
        """Dotted place of a signal -> which rows of its file were read, repaired and dropped."""
        self.notes: dict[str, tuple[str, ...]] = {}
        """Dotted place of a signal -> what its reader took for granted."""
        self.warnings: list[str] = []
        self.facts: dict[str, float | str] = {}
        """What the run reports about the site."""

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Collect a `SimkitError` of the block as problems of a dotted place, and go on."""
        try:
            yield
        except SimkitError as error:
            own = f"{place.rpartition('.')[2]}: "
            self.problems += [
                line if line.startswith(place) else f"{place}: {line.removeprefix(own)}"
                for line in str(error).splitlines()
            ]

    def raise_problems(self) -> None:
        """Raise ScenarioError with all problems, if there are any."""
        if self.problems:
            raise ScenarioError(dict.fromkeys(self.problems))


class SignalBuilder:
    """Makes signals on the clock of one run.

    Args:
        align: how files lie on the clock.
        workload: gives the date of the run's zero and the zone of its site, if known.
        seed: of the run; each random signal has its own stream.
        findings: collects the files read and the reports about their rows.
        span: part of the run in which signals are needed.
        most_steps: how often a signal may change within the span; None: any number.
    """

    def __init__(
        self,
        align: Align,
        workload: Workload,
        seed: int,
        findings: Findings,
        span: Span,
        most_steps: int | None = None,
    ) -> None:
        self.align = align
        self.seed = seed
        self.findings = findings
        self._span = span
        self._most_steps = most_steps
        zero = align.zero
        self.epoch_s = zero.timestamp() if isinstance(zero, datetime) else workload.epoch_s
        """Unix time of the run's zero; NaN if unknown."""
        self.zone = align.zone or workload.time_zone
        """Of the run's site; None if unknown."""
        offset = zero.utcoffset() if isinstance(zero, datetime) else None
        self._clock = self.zone or (fixed_zone(offset.total_seconds()) if offset else "UTC")
        """Zone of the local clock that schedules follow."""

    def make(
        self,
        section: SignalSection,
        place: str,
        quantity: Quantity,
        *,
        peak_w: float | None = None,
        mean_w: float | None = None,
    ) -> Signal:
        """Return a signal.

        Args:
            section: of the scenario.
            place: its dotted place; begins messages and names reports and random streams.
            quantity: what the signal measures.
            peak_w: a recorded signal is scaled to this peak.
            mean_w: a recorded signal is scaled to this mean over time.

        Raises ScenarioError, TraceError or PluginError if it cannot be made, or changes too often.
        """
        made = self._made(section, place, quantity, peak_w, mean_w)
        self._refuse_beyond(made.changes(self._span.last_s - self._span.first_s), "changes")
        return made

    def _refuse_beyond(self, count: float, noun: str) -> None:
        """Raise ScenarioError for more of something than a signal may have."""
        if self._most_steps is not None and count > self._most_steps:
            raise ScenarioError(
                f"makes {count:,.0f} {noun} in the time that the jobs take, and at most "
                f"{self._most_steps:,} are allowed; use longer steps, or raise limits.steps"
            )

    def _made(
        self,
        section: SignalSection,
        place: str,
        quantity: Quantity,
        peak_w: float | None,
        mean_w: float | None,
    ) -> Signal:
        match section:
            case ConstantSignal():
                return Constant(_at_least(section.value, quantity), quantity.unit)
            case ScheduleSignal():
                return self._schedule(section, quantity)
            case LevelsSignal():
                return Levels(
                    section.high_w,
                    section.low_w,
                    high_share=section.high_share,
                    step_s=section.step,
                    seed=self.seeds(place),
                    unit=quantity.unit,
                )
            case SumSignal():
                parts = enumerate(section.signals)
                return Sum([self.make(p, f"{place}.signals.{n}", quantity) for n, p in parts])
            case ScaledSignal():
                inner = self.make(section.signal, f"{place}.signal", quantity)
                return Scaled(inner, section.factor)
            case MeansSignal():
                of = f"{place}.signal"
                inner = self.make(section.signal, of, quantity, peak_w=peak_w, mean_w=mean_w)
                return Means(inner, section.step)
            case RecordedSignal():
                return self._recorded(section, place, quantity, peak_w, mean_w)
        raise PluginError(f"{section.type!r} is not a RecordedSignal; derive its class from that")

    def seeds(self, place: str) -> list[int]:
        """Return the seed of the random stream of a place; see `simkit.arrays`."""
        return [self.seed, crc32(place.encode())]

    def _schedule(self, section: ScheduleSignal, quantity: Quantity) -> Schedule:
        week = section.week
        pattern = weekly(week) if week is not None else dict(section.day or {})
        _at_least(min(pattern.values()), quantity)
        if math.isnan(self.epoch_s):
            raise ScenarioError(
                "a schedule follows the local clock, but the date of the run's zero is unknown; "
                "add power.align: {zero: 2019-01-01T00:00:00+00:00}"
            )
        return Schedule(
            pattern,
            period_s=DAY_S if week is None else WEEK_S,
            unit=quantity.unit,
            epoch_s=self.epoch_s,
            time_zone=section.zone or self._clock,
        )

    def _recorded(
        self,
        section: RecordedSignal,
        place: str,
        quantity: Quantity,
        peak_w: float | None,
        mean_w: float | None,
    ) -> Signal:
        trace = _read(section)
        self.findings.inputs += trace.inputs
        if trace.report is not None:
            self.findings.reports[place] = trace.report
        if trace.notes:
            self.findings.notes[place] = trace.notes
        self.findings.warnings += trace.warnings
        if self.align.type == "calendar":
            self.findings.facts[f"{place.removeprefix('power.')}.zone"] = trace.time_zone
        trace.require(quantity.unit, quantity.name)
        trace = _not_below(trace, quantity, section.negative)
        gaps = Gaps(section.gaps.rule, section.gaps.longest)
        self._refuse_beyond(gaps.pieces(trace), "pieces of a straight line in gaps")
        if warning := long_fill_warning(trace, gaps):
            self.findings.warnings.append(warning)
        factor = scale_factor(trace, gaps, peak_w=peak_w, mean_w=mean_w)
        if peak_w is not None or mean_w is not None:
            self.findings.facts[f"{place.removeprefix('power.')}.factor"] = factor
        return aligned(
            trace,
            self._alignment(),
            gaps=gaps,
            past_end=section.past_end,
            factor=factor,
            needed=self._span,
        )

    def _alignment(self) -> Alignment:
        if self.align.type == "offset":
            return Alignment("offset", offset_s=self.align.offset)
        if math.isnan(self.epoch_s):
            raise ScenarioError(
                f"align {self.align.type} needs the date of the run's zero, which the workload "
                "does not have; add power.align: {zero: 2019-01-01T00:00:00+00:00}, or {offset: 0}"
            )
        zone = self.zone if self.align.type == "calendar" else None
        return Alignment(self.align.type, epoch_s=self.epoch_s, time_zone=zone)


def read_signal_file(keys: Mapping[str, Any]) -> PowerTrace:
    """Read the trace of a recorded signal without a run.

    Args:
        keys: as in a scenario, with `type`; relative paths start from the working directory.

    Raises ScenarioError with all problems of the keys, TraceError for the file, SimkitError if
    pvlib or windpowerlib is needed and missing. Messages name the keys.
    """
    kinds = SIGNALS.classes().items()
    recorded = [name for name, kind in kinds if issubclass(kind, RecordedSignal)]
    if (name := str(keys.get("type"))) not in recorded:
        raise ScenarioError(f"type: {name} is not read from a file{did_you_mean(name, recorded)}")
    data = {"signal": dict(keys)}
    try:
        signal = _Place.model_validate(
            data, context=Context(Path.cwd(), plugins.name_checker())
        ).signal
    except ValidationError as error:
        problems = [
            (cut_at_scalar(problem.path, data), problem.text)
            for problem in problems_of(error, _Place)
        ]
        # each path begins with the name of the only field
        lines = [": ".join([*filter(None, [dotted(path[1:])]), text]) for path, text in problems]
        raise ScenarioError(dict.fromkeys(lines)) from error
    assert isinstance(signal, RecordedSignal)
    return _read(signal)


class _Place(Section):
    """The place of a signal in a scenario."""

    signal: SignalSection


def _read(section: RecordedSignal) -> PowerTrace:
    """Read the trace of a recorded signal; PluginError if its reader returns something else."""
    trace = section.read()
    if not isinstance(trace, PowerTrace):
        raise PluginError(
            f"the reader {getattr(section, 'reader', section.type)!r} returned a "
            f"{type(trace).__name__}; a reader of signals returns a "
            "simkit.power.signal_trace.PowerTrace"
        )
    return trace


def _at_least(value: float, quantity: Quantity) -> float:
    """Return a value that the quantity may have, or raise ScenarioError."""
    if value < quantity.least:
        raise ScenarioError(
            f"is {value:g} {quantity.unit}; {quantity.name} must be at least {quantity.least:g}: "
            "give the amount without a sign"
        )
    return value


def _not_below(trace: PowerTrace, quantity: Quantity, negative: str) -> PowerTrace:
    """Return a trace without values below the quantity's least, by the scenario's rule."""
    below = trace.value < quantity.least
    if not below.any():
        return trace
    if negative == "zero":
        return replace(trace, value=np.maximum(trace.value, quantity.least))
    values = counted(int(below.sum()), "value")
    raise TraceError(
        f"{trace.name}: {values} below {quantity.least:g}, the smallest is "
        f"{trace.value.min():g} {trace.unit}; {quantity.name} must be at least "
        f"{quantity.least:g}: read them as 0 with negative: zero, or fix the file"
    )
