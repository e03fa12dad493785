"""The scenario's recorded signals: what is read from a file of power, weather, carbon or prices.

The keys of a kind are keyword arguments of its reader; only `zone` is the reader's `time_zone`, and
`step` its `step_s`. A file seldom says what its numbers mean, so unit, zone and label are declared
here and nothing is guessed.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from simkit.errors import TraceError
from simkit.power.signal_zone import parse_zone
from simkit.scenario.references import Arguments, File, PluginName
from simkit.scenario.types import Count, Duration, Positive, PositiveDuration, Section

_READER_NAMES = {"zone": "time_zone", "step": "step_s"}
"""Keys whose argument of the reader has another name."""


def _zone(name: str) -> str:
    try:
        parse_zone(name)
    except TraceError as error:
        raise ValueError(str(error).removeprefix("time_zone: ")) from error
    return name


Zone = Annotated[str, AfterValidator(_zone)]
"""``UTC``, ``UTC-06:00`` or a name such as ``America/Chicago``."""
Label = Literal["start", "end"]
Part = Literal["solar", "wind", "both"]


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


class RecordedSignal(Section):
    """Keys of every recorded signal."""

    type: str
    """The kind of signal."""
    gaps: GapRule = Field(default_factory=GapRule)
    """How missing rows are filled: a rule, or {rule: hold, longest: 3h}."""
    past_end: Literal["error", "hold", "wrap"] = "error"
    """Outside the file's span: an error; the first and last value hold; or the file repeats."""
    negative: Literal["error", "zero"] = "error"
    """Values below 0 where none are allowed, as of a plant that draws at night: refused, or 0."""

    @property
    def reader_name(self) -> str:
        """Name of the reader among the plug-ins of the group ``simkit.signals``."""
        return self.type

    def reader_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the reader, without those that are null."""
        own = [key for key in type(self).model_fields if key not in RecordedSignal.model_fields]
        given = {_READER_NAMES.get(key, key): getattr(self, key) for key in own}
        return {name: value for name, value in given.items() if value is not None}


class FileSignal(RecordedSignal):
    """Keys of every signal from a table."""

    path: File
    """The file, plain or .gz; relative to the scenario file."""
    zone: Zone | None = None
    """Zone of the clock that wrote the times; null only if every time includes its zone."""
    site_zone: Zone | None = None
    """Zone of the place, whose standard time calendar alignment uses; null: `zone`."""
    label: Label = "start"
    """Which end of its interval a time marks."""


class CsvSignal(FileSignal):
    """A column of any CSV file."""

    type: Literal["csv"]
    """A column of any CSV file."""
    column: str
    """The column of values."""
    unit: str
    """Their unit: W, kW, MW, GW; Wh … GWh per interval; gCO2/kWh, price/kWh, degC, …."""
    time: str = "time"
    """The column of times."""
    sampling: Literal["mean", "instant"] = "mean"
    """A value is the mean of its interval, or read at an instant."""
    step: PositiveDuration | None = None
    """Length of the intervals; null: the most frequent step of the times."""
    time_format: str | None = None
    """Format of the times for Python's strptime; null: ISO 8601."""


class GleammSignal(FileSignal):
    """A file like GLEAMM's: a time, solar power and wind power in each row."""

    type: Literal["gleamm"]
    """A file like GLEAMM's: a time, solar power and wind power in each row."""
    part: Part = "both"
    """Which of the two, or their sum."""
    time: str = "time"
    """The column of times."""
    solar: str = "solar_kw"
    """The column of solar power."""
    wind: str = "wind_kw"
    """The column of wind power."""
    unit: str = "kW"
    """Unit of both."""


class SampleSignal(RecordedSignal):
    """The bundled, generated year of a site like GLEAMM: 120 kW solar, 600 kW wind."""

    type: Literal["gleamm-sample"]
    """The bundled, generated year of a site like GLEAMM."""
    part: Part = "both"
    """solar (peak 120 kW), wind (peak 600 kW) or their sum."""


class NsrdbSignal(RecordedSignal):
    """Solar power from an irradiance file of the NSRDB; needs the extra `power`."""

    type: Literal["nsrdb"]
    """Solar power from an irradiance file of the NSRDB; needs the extra power."""
    path: File
    """The file, plain or .gz; relative to the scenario file."""
    rated_w: Positive
    """DC power of all modules under standard conditions."""
    tilt_deg: Annotated[float, Field(ge=0, le=90)] = 25.0
    """Tilt of the modules against the ground."""
    azimuth_deg: Annotated[float, Field(ge=0, le=360)] = 180.0
    """Direction the modules face; 180 is south."""
    inverter_w: Positive | None = None
    """Largest power of the inverters; null: `rated_w`."""
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.14
    """Share lost to dirt, wires, mismatch and shade."""
    per_degree: Annotated[float, Field(ge=-0.02, le=0)] = -0.004
    """Relative change of the power per degree of the modules above 25 °C."""


class WindToolkitSignal(RecordedSignal):
    """Wind power from a file of the WIND Toolkit through a turbine's curve."""

    type: Literal["wind-toolkit"]
    """Wind power from a file of the WIND Toolkit through a turbine's curve."""
    path: File
    """The file, plain or .gz; relative to the scenario file."""
    turbine: str | None = None
    """Type of turbine, such as E-53/800; or give `rated_w` for a generic one."""
    curves: File | None = None
    """Table of power curves that lists the type; null: windpowerlib's (extra power)."""
    rated_w: Positive | None = None
    """Power of a generic turbine from its rated wind speed on."""
    cut_in_m_s: Positive | None = None
    """Wind speed at which a generic turbine starts; null: 3."""
    rated_m_s: Positive | None = None
    """Wind speed at which it reaches `rated_w`; null: 11."""
    cut_out_m_s: Positive | None = None
    """Wind speed at which it is turned off; null: 25."""
    turbines: Count = 1
    """Number of turbines."""
    hub_height_m: Positive | None = None
    """Height of the hubs; null: the file's."""
    shear_exponent: Annotated[float, Field(ge=0, le=1)] = 1 / 7
    """Exponent of the power law for wind speed over height."""

    @model_validator(mode="after")
    def _one_turbine(self) -> Self:
        if (self.turbine is None) == (self.rated_w is None):
            raise ValueError("needs either turbine or rated_w; give one of the two")
        generic = [k for k in ("cut_in_m_s", "rated_m_s", "cut_out_m_s") if getattr(self, k)]
        if self.turbine is not None and generic:
            raise ValueError(f"turbine has its own curve; leave {', '.join(generic)} out")
        return self


class GenerationSignal(FileSignal):
    """What one source feeds into a public grid; columns are named by EIA's codes."""

    type: Literal["generation"]
    """What one source feeds into a public grid; columns are named by EIA's codes (WND, SUN, …)."""
    source: Literal["wind", "solar", "hydro", "oil", "gas", "coal", "nuclear", "other"]
    """Which source."""
    time: str = "timestamp"
    """The column of times."""
    unit: str = "MW"
    """Unit of the columns."""


class CarbonSignal(FileSignal):
    """The carbon intensity of a public grid; for known layouts without naming a column."""

    type: Literal["carbon"]
    """The carbon intensity of a public grid; for known layouts without naming a column."""
    column: str | None = None
    """The column of values; null: that of a known layout."""
    time: str | None = None
    """The column of times; null: that of the layout."""
    unit: str = "gCO2/kWh"
    """Unit of the values."""


class PriceSignal(FileSignal):
    """A price of energy, which may be below 0."""

    type: Literal["price"]
    """A price of energy, which may be below 0."""
    column: str
    """The column of values."""
    time: str = "time"
    """The column of times."""
    unit: str = "price/MWh"
    """price/kWh or price/MWh, in any currency, the same everywhere."""


class PluginSignal(RecordedSignal):
    """A custom reader."""

    type: Literal["plugin"]
    """A custom reader."""
    reader: Annotated[str, PluginName("simkit.signals")]
    """Entry point, package.module:attribute or file.py:attribute; returns a PowerTrace."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the reader."""

    @property
    def reader_name(self) -> str:
        return self.reader

    def reader_arguments(self) -> dict[str, Any]:
        return dict(self.args)
