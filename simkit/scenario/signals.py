"""The scenario's signals: numbers that change with time, such as a wind farm's power or a price.

Each has a `type`; a plain number is a constant signal. Constants, schedules and levels are in the
unit of their place: W, price/kWh, gCO2/kWh or degC.

Kinds of signals (see `kinds`) are entry points of the group ``simkit.signals``. A recorded one
derives from `RecordedSignal` or `FileSignal`; the how-to "Read power data" shows one. A file seldom
says what its numbers mean, so unit, zone and label are declared and nothing is guessed.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializeAsAny,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from simkit.dates import parse_zone
from simkit.errors import TraceError
from simkit.power.signal_patterns import weekly
from simkit.power.signal_trace import PowerTrace
from simkit.scenario.kinds import Family, Kind
from simkit.scenario.references import Arguments, File, PluginName
from simkit.sections import (
    AtLeastZero,
    BrokenRulesError,
    Duration,
    Finite,
    Many,
    PositiveDuration,
    Section,
    Share,
)
from simkit.units import DAY_S, parse_duration


def _zone(name: str) -> str:
    try:
        parse_zone(name)
    except TraceError as error:
        raise ValueError(str(error)) from error
    return name


Zone = Annotated[str, AfterValidator(_zone)]
"""``UTC``, ``UTC-06:00`` or a name such as ``America/Chicago``."""


class SignalSource(Kind):
    """What every kind of signal takes."""


SIGNALS = Family(SignalSource, "simkit.signals", "signal")
"""The kinds of signals that are installed."""


class GapRule(Section):
    """How missing rows of a file are filled."""

    rule: Literal["error", "hold", "interpolate", "zero"] = "error"
    """error: none may be missing; hold: the last value; interpolate: a straight line; zero."""
    longest: Annotated[Duration, Field(ge=0)] = 10_800.0
    """Longer gaps are an error under every rule."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"rule": value} if isinstance(value, str) else value


class RecordedSignal(SignalSource):
    """Keys of every recorded signal."""

    in_python = "simkit.power.signal_align"

    gaps: GapRule = Field(default_factory=GapRule)
    """How missing rows are filled: a rule, or {rule: hold, longest: 3h}."""
    past_end: Literal["error", "hold", "wrap"] = "error"
    """Outside the file's span: an error; the first and last value hold; or the file repeats."""
    negative: Literal["error", "zero"] = "error"
    """Values below 0 where none are allowed, as of a plant that draws at night: refused, or 0."""

    @abstractmethod
    def read(self) -> PowerTrace:
        """Read the trace; raises TraceError, with file and line, for what cannot be read."""


class FileSignal(RecordedSignal):
    """Keys of every signal from a file."""

    path: File
    """The file, plain or .gz; relative to the scenario file."""


class PluginSignal(RecordedSignal):
    """A custom reader: a function in a file, or of an installed package."""

    reader: Annotated[str, PluginName(SIGNALS.group)]
    """Entry point, package.module:attribute or file.py:attribute; returns a PowerTrace."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the reader."""

    def read(self) -> PowerTrace:
        """Call the reader: a function, or a subclass of `RecordedSignal`."""
        made: Any = SIGNALS.call(self.reader, self.args, f"the reader {self.reader!r}")
        trace: PowerTrace = made.read() if isinstance(made, RecordedSignal) else made
        return trace


_CLOCK = re.compile(r"\s*(\d{1,2}):(\d\d)(?::(\d\d))?\s*")


def _time_of_day(text: str) -> float:
    """Return the second of the day of ``7:00``, ``7h`` or a number of seconds."""
    if match := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        at = hours * 3600.0 + minutes * 60.0 + seconds
        if minutes < 60 and seconds < 60 and at < DAY_S:
            return at
        raise ValueError(f"{text!r} is not a valid time of day; write 0:00 to 23:59")
    at = parse_duration(text)
    if not 0 <= at < DAY_S:
        raise ValueError(f"{text!r} is not within a day; write 0:00 to 23:59")
    return at


def _of_day(value: object) -> object:
    """Return second of the day → value from times of day."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"must be times of day with values, {{7:00: 0.3}}, not {value!r}")
    found: dict[float, float] = {}
    problems: list[tuple[tuple[str | int, ...], str]] = []
    for time, amount in value.items():
        try:
            at = _time_of_day(str(time))
            if isinstance(amount, bool) or not isinstance(amount, (int, float)):
                raise ValueError(f"must be a number, not {amount!r}")
            if not math.isfinite(amount):
                raise ValueError(f"must be a finite number, not {amount}")
            if at in found:
                raise ValueError("the same time is given twice; keep one")
            found[at] = float(amount)
        except ValueError as error:
            problems.append(((str(time),), str(error)))
    if problems:
        raise BrokenRulesError(problems)
    return found


def _known_days(week: dict[str, dict[float, float]]) -> dict[str, dict[float, float]]:
    try:
        weekly(week)
    except TraceError as error:
        raise ValueError(str(error)) from error
    return week


_DAY_SCHEMA = {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1}
DayPattern = Annotated[dict[float, float], BeforeValidator(_of_day), WithJsonSchema(_DAY_SCHEMA)]
"""Time of day (7:00) → the value from then on."""


@dataclass(frozen=True)
class NumberIsConstant:
    """Marks a signal, so that a plain number becomes a constant one."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Expand the number before pydantic looks for the `type`."""
        return core_schema.no_info_before_validator_function(self._long_form, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema of both forms."""
        return {"anyOf": [{"type": "number"}, handler(schema)]}

    @staticmethod
    def _long_form(value: object) -> object:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {"type": "constant", "value": value} if number else value


Signal = Annotated[SerializeAsAny[SignalSource], SIGNALS, NumberIsConstant()]
"""Every kind of signal, distinguished by `type`; a number is a constant."""


class ConstantSignal(SignalSource):
    """The same value always; a plain number means the same."""

    value: Finite
    """In the unit of the place."""

    @model_serializer(mode="plain")
    def _number(self) -> float:
        return self.value


class ScheduleSignal(SignalSource):
    """A pattern of the day or the week on the local clock, such as a tariff."""

    day: DayPattern | None = None
    """Time of day → the value from then on: {7:00: 0.3, 22:00: 0.1}; or give `week`."""
    week: Annotated[dict[str, DayPattern], AfterValidator(_known_days)] | None = None
    """mon … sun, weekdays or weekend → times of day with values."""
    zone: Zone | None = None
    """Time zone of the clock; null: that of the run's site, see `power.align`, else UTC."""

    @model_validator(mode="after")
    def _one_pattern(self) -> Self:
        if (self.day is None) == (self.week is None):
            raise ValueError("needs either day or week; give one of the two")
        return self


class LevelsSignal(SignalSource):
    """A random supply: in each step high with some probability, else low; steps are independent.

    V. Venkataswamy's dissertation on power-modulated datacenters (2023) calls it power_avail_rate.
    """

    high_w: AtLeastZero
    """The high level, in the unit of the signal that it stands for."""
    low_w: AtLeastZero
    """The low level, in the same unit."""
    high_share: Share = 0.9
    """Probability of the high level in a step."""
    step: PositiveDuration = 3600.0
    """Length of a step; steps begin at the run's zero."""

    @model_validator(mode="after")
    def _low_is_lower(self) -> Self:
        if self.low_w > self.high_w:
            text = f"must be at most high_w, {self.high_w:g}, not {self.low_w:g}"
            raise BrokenRulesError([(("low_w",), text)])
        return self


class SumSignal(SignalSource):
    """The sum of signals."""

    signals: Many[Signal]
    """What is added."""

    @model_validator(mode="after")
    def _adds_something(self) -> Self:
        if not self.signals:
            raise BrokenRulesError([(("signals",), "is empty; give at least one signal")])
        return self


class ScaledSignal(SignalSource):
    """A signal times a factor."""

    signal: Signal
    """What is scaled."""
    factor: AtLeastZero
    """The factor."""


class MeansSignal(SignalSource):
    """The mean of a signal in each step, such as each hour; nothing changes within a step."""

    signal: Signal
    """What is averaged."""
    step: PositiveDuration = 3600.0
    """Length of a step; steps begin at the run's zero."""


def _not_negative(signal: Signal) -> Signal:
    if isinstance(signal, ConstantSignal) and signal.value < 0:
        raise ValueError(f"must be at least 0, not {signal.value:g}")
    return signal


AmountSignal = Annotated[Signal, AfterValidator(_not_negative)]
"""A signal of what cannot be below 0, such as power."""
