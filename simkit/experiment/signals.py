"""Where a scenario's signals come from: its constants and patterns, and files laid on its clock."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from pydantic import ValidationError

from simkit import plugins
from simkit.errors import PluginError, ScenarioError, SimkitError, TraceError
from simkit.plugins import instantiate
from simkit.power.signal import CARBON, PRICE, WATT, Constant, Scaled, Signal, Sum
from simkit.power.signal_align import Alignment, Span, aligned
from simkit.power.signal_patterns import DAY_S, WEEK_S, Levels, Schedule, weekly
from simkit.power.signal_scaling import Scaling
from simkit.power.signal_trace import Gaps, PowerTrace
from simkit.power.signal_zone import fixed_zone
from simkit.scenario.error_messages import problems_of
from simkit.scenario.overrides import cut_at_scalar, dotted
from simkit.scenario.power import Align
from simkit.scenario.recorded import RecordedSignal
from simkit.scenario.references import Context
from simkit.scenario.signals import (
    ConstantSignal,
    LevelsSignal,
    ScaledSignal,
    ScheduleSignal,
    SumSignal,
)
from simkit.scenario.signals import Signal as SignalSection
from simkit.scenario.types import Section
from simkit.text import counted
from simkit.workload import RowReport, Workload

# MERGED A signal's file by itself: read with the keys that a scenario would give, outside of any run.


_ARGUMENTS: Final = re.compile(r"(?<![\w./-])(?:(time_zone)|(longest|step)_s)(?![\w./-])")
"""Arguments that have other names as keys of a scenario."""


class _Place(Section):
    """Where a scenario has a signal."""

    signal: SignalSection


def read_signal_file(keys: Mapping[str, Any]) -> PowerTrace:
    """Read the trace of a recorded signal.

    Args:
        keys: as a scenario has them, `type` among them; relative paths start from the working
            directory.

    Raises ScenarioError with all problems of the keys, TraceError for the file, SimkitError
    without pvlib or windpowerlib where they are needed. Messages name the keys.
    """
    section = _checked({"signal": dict(keys)})
    try:
        return read_recorded(section)
    except TraceError as error:
        raise TraceError(in_keys(str(error))) from error


def read_recorded(section: RecordedSignal) -> PowerTrace:
    """Read the trace of a scenario's signal with the reader that it names.

    Raises PluginError if there is none, if it does not take the keys or gives something else, and
    what the reader raises.
    """
    name = section.reader_name
    reader: Callable[..., object] = plugins.find("simkit.signals", name)
    trace = instantiate(f"the reader {name!r}", reader, section.reader_arguments())
    if not isinstance(trace, PowerTrace):
        raise PluginError(
            f"the reader {name!r} returned a {type(trace).__name__}; a reader of signals returns "
            "a simkit.power.signal_trace.PowerTrace"
        )
    return trace


def in_keys(text: str) -> str:
    """Return a reader's message with the scenario's keys for the arguments that it names."""
    return _ARGUMENTS.sub(lambda found: found[2] or "zone", text)


def _checked(data: dict[str, Any]) -> RecordedSignal:
    try:
        place = _Place.model_validate(data, context=Context(Path.cwd(), plugins.name_checker()))
    except ValidationError as error:
        problems = [
            (cut_at_scalar(problem.path, data), problem.text)
            for problem in problems_of(error, _Place)
        ]
        # each path begins with the name of the only field
        lines = [": ".join([*filter(None, [dotted(path[1:])]), text]) for path, text in problems]
        raise ScenarioError(dict.fromkeys(lines)) from error
    if not isinstance(place.signal, RecordedSignal):
        raise ScenarioError(
            f"type: a {place.signal.type} signal is not read from a file; name a type that is"
        )
    return place.signal


class Quantity(NamedTuple):
    """What a signal stands for, and so what its values may be."""

    unit: str
    words: str
    """How messages call it."""
    least: float = 0.0
    """No value is below it."""


POWER: Final = Quantity(WATT, "power")
MONEY: Final = Quantity(PRICE, "a price", -math.inf)
CLEANNESS: Final = Quantity(CARBON, "carbon intensity")
WARMTH: Final = Quantity("degC", "temperature", -math.inf)


class Found:
    """What came to light while a site was built: problems, files, what became of their rows."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        """One line each, beginning with the dotted place."""
        self.inputs: list[Path] = []
        self.reports: dict[str, RowReport] = {}
        self.facts: dict[str, float | str] = {}

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Take note of simkit's own errors, and go on behind the block."""
        try:
            yield
        except SimkitError as error:
            own = f"{place.rpartition('.')[2]}: "
            self.problems += [
                line if line.startswith(place) else f"{place}: {line.removeprefix(own)}"
                for line in in_keys(str(error)).splitlines()
            ]

    def raise_problems(self) -> None:
        """Raise ScenarioError with all that is wrong, if anything is."""
        if self.problems:
            raise ScenarioError(dict.fromkeys(self.problems))


class SignalSource:
    """Makes signals on the clock of one run."""

    def __init__(
        self, align: Align, workload: Workload, seed: int, found: Found, span: Span | None = None
    ) -> None:
        """Take the clock of a run.

        Args:
            align: how files lie on it.
            workload: tells the date of the run's zero and the zone of its site, if it knows.
            seed: of the run; each random signal has a stream of its own.
            found: takes the files read and the reports of their rows.
            span: part of the run in which signals are needed, for messages; None: not said.
        """
        self.align = align
        self.seed = seed
        self.found = found
        self._span = span
        zero = align.zero
        self.epoch_s = zero.timestamp() if isinstance(zero, datetime) else workload.epoch_s
        """Unix time of the run's zero; NaN if nobody tells."""
        self.zone = align.zone or workload.time_zone
        """Of the run's site; None if nobody tells."""
        self.clock = self.zone or _zone_of(zero)
        """Zone of the clock on the wall, by which schedules go."""

    def make(
        self,
        section: SignalSection,
        place: str,
        quantity: Quantity,
        scaling: Scaling | None = None,
        load_w: float | None = None,
    ) -> Signal:
        """Return a signal.

        Args:
            section: what the scenario says.
            place: where it says so, dotted: begins messages and names reports and random streams.
            quantity: what the signal stands for.
            scaling: of a recorded signal; None: as recorded.
            load_w: the site's load, to which `scaling` may refer.

        Raises ScenarioError, TraceError or PluginError if there is no such signal.
        """
        match section:
            case ConstantSignal():
                return Constant(_checked_of_source(section.value, quantity), quantity.unit)
            case ScheduleSignal():
                return self._schedule(section, quantity)
            case LevelsSignal():
                return self._levels(section, place, quantity)
            case SumSignal():
                parts = enumerate(section.signals)
                return Sum([self.make(p, f"{place}.signals.{n}", quantity) for n, p in parts])
            case ScaledSignal():
                inner = self.make(section.signal, f"{place}.signal", quantity)
                return Scaled(inner, section.factor)
        return self._recorded(section, place, quantity, scaling or Scaling(), load_w)

    def seeds(self, place: str) -> list[int]:
        """Return the seed of the random stream of a place; see `simkit.seeds`."""
        return [self.seed, crc32(place.encode())]

    def _schedule(self, section: ScheduleSignal, quantity: Quantity) -> Schedule:
        week = section.week
        pattern = weekly(week) if week is not None else dict(section.day or {})
        _checked_of_source(min(pattern.values()), quantity)
        if math.isnan(self.epoch_s):
            raise ScenarioError(
                "a schedule follows the clock on the wall, but nothing tells the date of the run's "
                "zero; add power.align: {zero: 2019-01-01T00:00:00+00:00}"
            )
        return Schedule(
            pattern,
            period_s=DAY_S if week is None else WEEK_S,
            unit=quantity.unit,
            epoch_s=self.epoch_s,
            time_zone=section.zone or self.clock,
        )

    def _levels(self, section: LevelsSignal, place: str, quantity: Quantity) -> Levels:
        return Levels(
            section.high_w,
            section.low_w,
            high_share=section.high_share,
            step_s=section.step,
            seed=self.seeds(place),
            unit=quantity.unit,
        )

    def _recorded(
        self,
        section: RecordedSignal,
        place: str,
        quantity: Quantity,
        scaling: Scaling,
        load_w: float | None,
    ) -> Signal:
        trace = self._read(section, place)
        trace.require(quantity.unit, quantity.words)
        trace = _not_below(trace, quantity, section.negative)
        gaps = Gaps(section.gaps.rule, section.gaps.longest)
        factor = scaling.factor(trace, load_w=load_w, gaps=gaps)
        if scaling != Scaling():
            self.found.facts[f"{place.removeprefix('power.')}.factor"] = factor
        return aligned(
            trace,
            self._alignment(),
            gaps=gaps,
            past_end=section.past_end,
            factor=factor,
            needed=self._span,
        )

    def _read(self, section: RecordedSignal, place: str) -> PowerTrace:
        """Read the file of a recorded signal, and keep the report of its rows."""
        trace = read_recorded(section)
        self.found.inputs += trace.inputs
        if trace.report is not None:
            self.found.reports[place] = trace.report
        return trace

    def _alignment(self) -> Alignment:
        if self.align.type == "offset":
            return Alignment("offset", offset_s=self.align.offset)
        if math.isnan(self.epoch_s):
            raise ScenarioError(
                f"align {self.align.type} needs the date of the run's zero, which the workload "
                "does not tell; add power.align: {zero: 2019-01-01T00:00:00+00:00}, or {offset: 0}"
            )
        zone = self.zone if self.align.type == "calendar" else None
        return Alignment(self.align.type, epoch_s=self.epoch_s, time_zone=zone)


def _zone_of(zero: object) -> str:
    """Return the zone in which the date of the run's zero is written; UTC if there is none."""
    offset = zero.utcoffset() if isinstance(zero, datetime) else None
    return fixed_zone(offset.total_seconds()) if offset else "UTC"


def _checked_of_source(value: float, quantity: Quantity) -> float:
    """Return a value that the quantity may have, or raise ScenarioError."""
    if value < quantity.least:
        raise ScenarioError(
            f"is {value:g} {quantity.unit}; {quantity.words} must be at least {quantity.least:g}: "
            "give the amount without a sign"
        )
    return value


def _not_below(trace: PowerTrace, quantity: Quantity, negative: str) -> PowerTrace:
    """Return a trace without values that the quantity may not have, by the scenario's rule."""
    below = trace.value < quantity.least
    if not below.any():
        return trace
    if negative == "zero":
        return replace(trace, value=np.maximum(trace.value, quantity.least))
    values = counted(int(below.sum()), "value")
    raise TraceError(
        f"{trace.name}: {values} below {quantity.least:g}, the least is "
        f"{trace.value.min():g} {trace.unit}; {quantity.words} must be at least "
        f"{quantity.least:g}: take them for 0 with negative: zero, or mend the file"
    )
