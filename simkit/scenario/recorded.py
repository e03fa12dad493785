"""The scenario's recorded signals: what is read from a file of power, weather, carbon or prices.

Kinds of signals (see `kinds`) are entry points of the group ``simkit.signals``. A recorded one
derives from `RecordedSignal` or `FileSignal`; the how-to "Read power data" shows one. A file seldom
says what its numbers mean, so unit, zone and label are declared and nothing is guessed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from simkit.errors import TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.power.signal_zone import parse_zone
from simkit.scenario.kinds import Family, Kind
from simkit.scenario.references import Arguments, File, PluginName
from simkit.scenario.types import Duration, Section


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
