"""The scenario's signals: numbers that change with time, such as a wind farm's power or a price.

Each has a `type`; a plain number is a constant signal. Constants, schedules and levels are in the
unit of their place: W, price/kWh, gCO2/kWh or degC.

Kinds of signals (see `references`) are entry points of the group ``simkit.signals``. A recorded one
derives from `RecordedSignal` or `FileSignal`; the how-to "Read power data" shows one. A file seldom
says what its numbers mean, so unit, zone and label are declared and nothing is guessed.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from zlib import crc32

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from simkit import plugins
from simkit.dates import fixed_zone, weekly
from simkit.errors import PluginError, ScenarioError, SimkitError, TraceError
from simkit.power import signal as curves
from simkit.power.facts import POWER, Quantity
from simkit.power.signal_trace import Gaps, PowerTrace, long_fill_warning
from simkit.scenario.references import Arguments, Family, File, Kind, PluginName
from simkit.sections import (
    AtLeastZero,
    BrokenRulesError,
    Duration,
    Finite,
    Instant,
    KeyProblem,
    Many,
    PositiveDuration,
    Section,
    Share,
    Zone,
)
from simkit.text import counted
from simkit.units import DAY_S, TIME_GRID, WEEK_S, parse_duration
from simkit.workload import RowReport, Workload

if TYPE_CHECKING:  # how traces lie on the clock is imported when a signal is built
    from simkit.power.signal_align import Alignment
    from simkit.workload.workload import Span


class Align(Section):
    """Which instant of a file belongs to which instant of the run."""

    type: Literal["calendar", "epoch", "offset"] = "calendar"
    """The same month, day and hour of any year; the same instant in history; or an `offset`."""
    offset: Duration = 0.0
    """For type offset: time from the start of each file to the run's zero."""
    zero: Instant | None = None
    """Date of the run's zero, with its zone, not a duration; null: the log's."""
    zone: Zone | None = None
    """Time zone of the run's site; null: the log's; without one, each file's own, and for schedules
    the offset of `zero` from UTC."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if isinstance(value, str):
            return {"type": value}
        if isinstance(value, dict) and "offset" in value and "type" not in value:
            return {"type": "offset", **value}
        return value

    @field_validator("zero", mode="wrap")
    @classmethod
    def _keeps_its_offset(cls, value: object, check: ValidatorFunctionWrapHandler) -> object:
        """Keep the offset from UTC that the date is written with: schedules use it."""
        moment = check(value)
        if not isinstance(moment, datetime):
            return moment
        written = (
            value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}".strip())
        )
        return moment.astimezone(written.tzinfo)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems: list[KeyProblem] = []
        if self.offset and self.type != "offset":
            problems.append((("offset",), f"goes with type offset, not {self.type}"))
        if self.zero is not None and not isinstance(self.zero, datetime):
            text = "must be a date such as 2019-06-01T00:00:00-06:00, not a duration"
            problems.append((("zero",), text))
        if problems:
            raise BrokenRulesError(problems)
        return self


class Findings:
    """What is found while a site is built: problems, and the files that were read."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        """One line each, beginning with the dotted place."""
        self.inputs: list[Path] = []
        self.reports: dict[str, RowReport] = {}
        """Dotted place of a signal → which rows of its file were read, repaired and dropped."""
        self.notes: dict[str, tuple[str, ...]] = {}
        """Dotted place of a signal → what its reader took for granted."""
        self.warnings: list[str] = []
        self.facts: dict[str, float | str] = {}
        """What the run reports about the site."""

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Collect a `SimkitError` of the block as problems of a dotted place, and go on."""
        try:
            yield
        except SimkitError as error:
            above, _, own = place.rpartition(".")
            for line in str(error).splitlines():
                if line.startswith((f"{own}: ", f"{own}.")):
                    line = f"{above}.{line}"
                self.problems.append(line if line.startswith(place) else f"{place}: {line}")

    def raise_problems(self) -> None:
        """Raise ScenarioError with all problems, if there are any."""
        if self.problems:
            raise ScenarioError(dict.fromkeys(self.problems))


@dataclass(frozen=True)
class SignalContext:
    """What a signal is built for: the clock of a run, and a place in its scenario.

    A kind of signal that holds others builds these with `part`.
    """

    align: Align
    """How files lie on the clock."""
    epoch_s: float
    """Unix time of the run's zero; NaN if unknown."""
    zone: str | None
    """Time zone of the run's site; None if unknown."""
    seed: int
    """The run's; see `seeds`."""
    span: Span
    """Part of the run in which signals are needed."""
    findings: Findings = field(default_factory=Findings)
    """Collects the files read and the reports about their rows."""
    most_steps: int | None = None
    """How often a signal may change within the span; None: any number."""
    ahead_s: float = 0.0
    """How far after the span a forecast looks."""
    place: str = ""
    """Dotted place of the signal; begins messages and names reports and random streams."""
    quantity: Quantity = POWER
    """What it measures."""
    peak_w: float | None = None
    """A recorded signal is scaled to this peak; None: it is not."""
    mean_w: float | None = None
    """A recorded signal is scaled to this mean over time; None: it is not."""

    @classmethod
    def of_run(cls, align: Align, workload: Workload, seed: int, **facts: Any) -> SignalContext:
        """Return the context of a run; its workload gives date and zone if `align` does not."""
        zero = align.zero
        epoch_s = zero.timestamp() if isinstance(zero, datetime) else workload.epoch_s
        return cls(align, epoch_s, align.zone or workload.time_zone, seed, **facts)

    def make(
        self,
        section: SignalSource,
        place: str,
        quantity: Quantity,
        *,
        peak_w: float | None = None,
        mean_w: float | None = None,
    ) -> curves.Signal:
        """Return the signal of a section at a dotted place.

        Raises ScenarioError, TraceError or PluginError if it cannot be made, or changes too often.
        """
        context = replace(self, place=place, quantity=quantity, peak_w=peak_w, mean_w=mean_w)
        what = f"the signal {section.type!r}"
        with plugins.blaming_author(section, what):
            made = section.build(context)
        if not isinstance(made, curves.Signal) or not hasattr(made, "end_s"):
            raise PluginError(
                f"{what}: build returned a {type(made).__name__}; it returns a "
                "simkit.power.signal.Signal, whose __init__ calls super().__init__(unit)"
            )
        with plugins.blaming_author(made, what):
            self.refuse_beyond(made.changes(self.span.last_s - self.span.first_s), "changes")
            if not plugins.is_of_simkit(type(section).build.__module__):
                checked = curves.Checked(made, quantity.least, place)
                context._try_out(checked)
                # simkit's own signals are finite, but may be negative after the span
                if quantity.least > -math.inf or not _is_own(made):
                    return checked
        return made

    def _try_out(self, made: curves.Checked) -> None:
        """Go once through a signal: what is wrong is best known before the run.

        Raises TraceError as `curves.Checked` does.
        """
        at = max(self.span.first_s, made.start_s)
        last = min(self.span.last_s + self.ahead_s, made.end_s)
        if not at < made.end_s:
            return
        steps = 0
        while at < last or not steps:
            made.value(at)
            at = made.next_change(at)
            steps += 1
            self.refuse_beyond(steps, "changes")

    def part(self, section: SignalSource, key: str, *, sized: bool = False) -> curves.Signal:
        """Return a signal that the one at this place holds under a key, ``signals.0``.

        `sized`: it is scaled to the peak or mean of the whole.
        """
        size = {"peak_w": self.peak_w, "mean_w": self.mean_w} if sized else {}
        return self.make(section, f"{self.place}.{key}", self.quantity, **size)

    def covered(self, section: SignalSource, place: str, quantity: Quantity) -> curves.Signal:
        """Return a signal as `make` does; raises TraceError if it does not cover the span."""
        from simkit.power.signal_align import check_covers

        made = self.make(section, place, quantity)
        check_covers(made, self.span, self.ahead_s)
        return made

    def amount(self, section: SignalSource, place: str, quantity: Quantity) -> curves.Amount:
        """Return a signal, or a number if it is constant; 0 if there is a problem, collected."""
        with self.findings.at(place):
            made = self.covered(section, place, quantity)
            return made.constant if isinstance(made, curves.Constant) else made
        return 0.0

    def seeds(self, place: str = "") -> list[int]:
        """Return the seed of the random stream of a place, by default its own; see `seeds`."""
        return [self.seed, crc32((place or self.place).encode())]

    @property
    def clock(self) -> str:
        """Zone of the local clock that schedules follow."""
        zero = self.align.zero
        offset = zero.utcoffset() if isinstance(zero, datetime) else None
        return self.zone or (fixed_zone(offset.total_seconds()) if offset else "UTC")

    @property
    def alignment(self) -> Alignment:
        """How traces lie on the clock; raises TraceError if the run's date is not known."""
        from simkit.power.signal_align import Alignment

        kind = self.align.type
        epoch_s = None if kind == "offset" else self.epoch_s
        zone = self.zone if kind == "calendar" else None
        return Alignment(kind, epoch_s, zone, self.align.offset)

    def refuse_beyond(self, count: float, noun: str) -> None:
        """Raise ScenarioError for more of something than a signal may have."""
        if self.most_steps is not None and count > self.most_steps:
            raise ScenarioError(
                f"makes {count:,.0f} {noun} in the time that the jobs take, and at most "
                f"{self.most_steps:,} are allowed; use longer steps, or raise limits.steps"
            )


def _is_own(signal: curves.Signal) -> bool:
    """Return whether a signal and all its parts are of simkit's own classes."""
    return all(plugins.is_of_simkit(type(part).__module__) for part in curves.parts_of(signal))


class SignalSource(Kind):
    """What every kind of signal takes."""

    @property
    def can_be_sized(self) -> bool:
        """Whether it can be scaled to a peak or a mean."""
        return False

    def build(self, context: SignalContext) -> curves.Signal:
        """Return the signal on the clock of a run.

        Raises ScenarioError or TraceError, which the place is put before, if it cannot be made.
        """
        raise PluginError(f"{self.type!r} has no build(context), which makes its signal")


SIGNALS = Family(SignalSource, "simkit.signals", "signal")
"""The kinds of signals that are installed."""


class RecordedSignal(SignalSource):
    """Keys of every recorded signal."""

    in_python = "simkit.power.signal_align"

    gaps: Gaps = Field(default_factory=Gaps)
    """How missing rows are filled: a rule, or {rule: hold, longest: 3h}."""
    past_end: Literal["error", "hold", "wrap"] = "error"
    """Outside the file's span: an error; the first and last value hold; or the file repeats."""
    negative: Literal["error", "zero"] = "error"
    """Values below 0 where none are allowed, as of a plant that draws at night: refused, or 0."""

    @abstractmethod
    def read(self) -> PowerTrace:
        """Read the trace; raises TraceError, with file and line, for what cannot be read."""

    def trace(self) -> PowerTrace:
        """Read the trace; PluginError if `read` returns something else."""
        with plugins.blaming_author(self, f"the signal {self.type!r}"):
            trace = self.read()
        if not isinstance(trace, PowerTrace):
            raise PluginError(
                f"the reader {getattr(self, 'reader', self.type)!r} returned a "
                f"{type(trace).__name__}; a reader of signals returns a "
                "simkit.power.signal_trace.PowerTrace"
            )
        return trace

    @property
    def can_be_sized(self) -> bool:
        return True

    def build(self, context: SignalContext) -> curves.Signal:
        """Read the trace, fill its gaps, scale it, and lay it on the run's clock."""
        from simkit.power.signal_align import aligned, scale_factor

        findings, quantity, trace = context.findings, context.quantity, self.trace()
        key = context.place.removeprefix("power.")
        findings.inputs += trace.inputs
        if trace.report is not None:
            findings.reports[context.place] = trace.report
        if trace.notes:
            findings.notes[context.place] = trace.notes
        findings.warnings += trace.warnings
        if context.align.type == "calendar":
            findings.facts[f"{key}.zone"] = trace.time_zone
        trace.require(quantity.unit, quantity.name)
        trace = self._not_below(trace, quantity)
        context.refuse_beyond(self.gaps.pieces(trace), "pieces of a straight line in gaps")
        if warning := long_fill_warning(trace, self.gaps):
            findings.warnings.append(warning)
        size = {"peak_w": context.peak_w, "mean_w": context.mean_w}
        factor = scale_factor(trace, self.gaps, **size)
        if any(watts is not None for watts in size.values()):
            findings.facts[f"{key}.factor"] = factor
        return aligned(
            trace,
            context.alignment,
            gaps=self.gaps,
            past_end=self.past_end,
            factor=factor,
            needed=context.span,
        )

    def _not_below(self, trace: PowerTrace, quantity: Quantity) -> PowerTrace:
        """Return a trace without values below the quantity's least."""
        below = trace.value < quantity.least
        if not below.any():
            return trace
        if self.negative == "zero":
            return replace(trace, value=np.maximum(trace.value, quantity.least))
        values = counted(int(below.sum()), "value")
        raise TraceError(
            f"{trace.name}: {values} below {quantity.least:g}, the smallest is "
            f"{trace.value.min():g} {trace.unit}; {quantity.name} must be at least "
            f"{quantity.least:g}: read them as 0 with negative: zero, or fix the file"
        )


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
        if isinstance(made, RecordedSignal):
            return made.trace()
        trace: PowerTrace = made
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
    problems: list[KeyProblem] = []
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
    if not week:
        raise ValueError("is empty; give at least one day, {weekdays: {7:00: 0.3}}")
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
        return {"anyOf": [{"type": "number"}, handler(schema)]}

    @staticmethod
    def _long_form(value: object) -> object:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {"type": "constant", "value": value} if number else value


Signal = Annotated[SerializeAsAny[SignalSource], SIGNALS, NumberIsConstant()]
"""Every kind of signal, distinguished by `type`; a number is a constant."""


class SignalPlace(Section):
    """A place of a signal in a scenario."""

    signal: Signal


class ConstantSignal(SignalSource):
    """The same value always; a plain number means the same."""

    value: Finite
    """In the unit of the place."""

    @model_serializer(mode="plain")
    def _number(self) -> float:
        return self.value

    def build(self, context: SignalContext) -> curves.Signal:
        context.quantity.check(self.value)
        return curves.Constant(self.value, context.quantity.unit)


@dataclass(frozen=True)
class Pattern:
    """Values that recur; the run and its auditor each lay them on their clock.

    Raises ScenarioError, with all that is wrong, for entries or a period out of their range.
    """

    entries: Mapping[float, float]
    """Second of the period → the value from then on, finite, at least one. Before the first entry
    the last one holds."""
    period_s: float
    """Length of the period, at least a step of the grid of times (about a microsecond)."""
    local: bool = False
    """Whether periods are days, or weeks from Monday 0:00 on, of a local clock; else they begin at
    the run's zero."""
    zone: str | None = None
    """Zone of the local clock; None: that of the run's site."""

    def __post_init__(self) -> None:
        """Keep a copy of the entries, so that what has been checked stays as it is."""
        object.__setattr__(self, "entries", dict(self.entries))
        if problems := list(self._problems()):
            raise ScenarioError(problems)

    def _problems(self) -> Iterator[str]:
        period = _number(self.period_s)
        if not TIME_GRID <= period < math.inf:
            yield (
                f"the period of the pattern is {self.period_s!r} s; it must be finite and at least "
                f"{TIME_GRID:.2g} s"
            )
            period = math.inf
        if not self.entries:
            yield "the pattern is empty; give it at least one entry, such as {0.0: 100.0}"
        if late := [at for at in self.entries if not 0 <= _number(at) < period]:
            yield (
                f"the pattern has an entry at {late[0]!r} s; it must be at least 0 s and before "
                f"the end of the period, {period:.10g} s"
            )
        for at, value in self.entries.items():
            if not math.isfinite(_number(value)):
                yield f"the pattern's value at {at!r} s is {value!r}; it must be a finite number"
                return


def _number(given: object) -> float:
    """Return a number, or NaN, which is in no range, for anything else."""
    return float(given) if isinstance(given, Real) else math.nan


class RecurringSignal(SignalSource):
    """Keys of every signal whose values recur: its form is `pattern`."""

    @abstractmethod
    def pattern(self) -> Pattern:
        """Return what recurs."""

    def checked_pattern(self) -> Pattern:
        """Return what recurs; raises PluginError if `pattern` returns something else."""
        with plugins.blaming_author(self, f"the signal {self.type!r}"):
            pattern = self.pattern()
        if not isinstance(pattern, Pattern):
            raise PluginError(
                f"the signal {self.type!r}: pattern returned a {type(pattern).__name__}; it "
                "returns a simkit.scenario.signals.Pattern"
            )
        return pattern

    def build(self, context: SignalContext) -> curves.Signal:
        from simkit.power.signal_patterns import Schedule

        pattern = self.checked_pattern()
        context.quantity.check(min(pattern.entries.values()))
        if not pattern.local:
            return Schedule(pattern.entries, period_s=pattern.period_s, unit=context.quantity.unit)
        if math.isnan(context.epoch_s):
            raise ScenarioError(
                f"a {self.type} follows the local clock, but the date of the run's zero is "
                "unknown; add power.align: {zero: 2019-01-01T00:00:00+00:00}"
            )
        return Schedule(
            pattern.entries,
            period_s=pattern.period_s,
            unit=context.quantity.unit,
            epoch_s=context.epoch_s,
            time_zone=pattern.zone or context.clock,
        )


class ScheduleSignal(RecurringSignal):
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

    def pattern(self) -> Pattern:
        if self.week is not None:
            return Pattern(weekly(self.week), WEEK_S, local=True, zone=self.zone)
        return Pattern(self.day or {}, DAY_S, local=True, zone=self.zone)


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

    def build(self, context: SignalContext) -> curves.Signal:
        from simkit.power.signal_patterns import Levels

        return Levels(
            self.high_w,
            self.low_w,
            high_share=self.high_share,
            step_s=self.step,
            seed=context.seeds(),
            unit=context.quantity.unit,
        )


class SumSignal(SignalSource):
    """The sum of signals."""

    signals: Many[Signal]
    """What is added."""

    @model_validator(mode="after")
    def _adds_something(self) -> Self:
        if not self.signals:
            raise BrokenRulesError([(("signals",), "is empty; give at least one signal")])
        return self

    def build(self, context: SignalContext) -> curves.Signal:
        parts = enumerate(self.signals)
        return curves.Sum([context.part(part, f"signals.{row}") for row, part in parts])


class ScaledSignal(SignalSource):
    """A signal times a factor."""

    signal: Signal
    """What is scaled."""
    factor: AtLeastZero
    """The factor."""

    def build(self, context: SignalContext) -> curves.Signal:
        return curves.Scaled(context.part(self.signal, "signal"), self.factor)


class MeansSignal(SignalSource):
    """The mean of a signal in each step, such as each hour; nothing changes within a step."""

    signal: Signal
    """What is averaged."""
    step: PositiveDuration = 3600.0
    """Length of a step; steps begin at the run's zero."""

    @property
    def can_be_sized(self) -> bool:
        """Whether what is averaged can be; it is sized before it is averaged."""
        return self.signal.can_be_sized

    def build(self, context: SignalContext) -> curves.Signal:
        return curves.Means(context.part(self.signal, "signal", sized=True), self.step)


def _not_negative(signal: Signal) -> Signal:
    if isinstance(signal, ConstantSignal) and signal.value < 0:
        raise ValueError(f"must be at least 0, not {signal.value:g}")
    return signal


AmountSignal = Annotated[Signal, AfterValidator(_not_negative)]
"""A signal of what cannot be below 0, such as power."""
