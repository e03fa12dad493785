"""The scenario's recorded signals: what is read from a file of power, weather, carbon or prices.

The keys that are a kind's own are its reader's keyword arguments; only `zone` is the reader's
`time_zone`, and `step` its `step_s`. A file seldom says what its numbers mean, so unit, zone and
label are declared here and nothing is guessed.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from simkit.errors import TraceError
from simkit.power.signal_zone import parse_zone
from simkit.scenario.references import Arguments, File, PluginName
from simkit.scenario.types import Count, Duration, Positive, PositiveDuration, Section

_READER_NAMES = {"zone": "time_zone", "step": "step_s"}
"""Keys that the reader calls otherwise."""


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
    """What stands in for rows that a file lacks."""

    rule: Literal["error", "hold", "interpolate", "zero"] = "error"
    """error: none may be missing; hold: the last value; interpolate: a straight line; zero."""
    longest: Annotated[Duration, Field(ge=0)] = 10_800.0
    """Longer gaps are an error under any rule."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"rule": value} if isinstance(value, str) else value


class RecordedSignal(Section):
    """What every recorded signal takes."""

    type: str
    """The kind of signal."""
    gaps: GapRule = Field(default_factory=GapRule)
    """What stands in for missing rows: a rule, or {rule: hold, longest: 3h}."""
    past_end: Literal["error", "hold", "wrap"] = "error"
    """Outside the file's span: an error, the first and last value hold, or it begins again."""
    negative: Literal["error", "zero"] = "error"
    """Values below 0 where none may be, as of a plant that draws at night: refused, or 0."""

    @property
    def reader_name(self) -> str:
        """The name under which plug-ins know the reader, in the group ``simkit.signals``."""
        return self.type

    def reader_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the reader; what is null it sets itself."""
        own = [key for key in type(self).model_fields if key not in RecordedSignal.model_fields]
        given = {_READER_NAMES.get(key, key): getattr(self, key) for key in own}
        return {name: value for name, value in given.items() if value is not None}


class FileSignal(RecordedSignal):
    """What every signal from a table takes."""

    path: File
    """The file, plain or .gz; relative to the scenario file."""
    zone: Zone | None = None
    """Zone of the clock that wrote the times; null only if every time says it itself."""
    site_zone: Zone | None = None
    """Zone of the place, whose standard time calendar alignment compares; null: `zone`."""
    label: Label = "start"
    """Which end of its interval a time is."""


class CsvSignal(FileSignal):
    """A column of any CSV file."""

    type: Literal["csv"]
    """A column of any CSV file."""
    column: str
    """The column of values."""
    unit: str
    """What they are in: W, kW, MW, GW; Wh … GWh an interval; gCO2/kWh, price/kWh, degC, …."""
    time: str = "time"
    """The column of times."""
    sampling: Literal["mean", "instant"] = "mean"
    """A value is the mean of its interval, or read at an instant."""
    step: PositiveDuration | None = None
    """Length of the intervals; null: the most frequent distance of the times."""
    time_format: str | None = None
    """Form of the times, as Python's strptime has it; null: ISO 8601."""


class GleammSignal(FileSignal):
    """A file as GLEAMM's: a time, solar power and wind power in each row."""

    type: Literal["gleamm"]
    """A file as GLEAMM's: a time, solar power and wind power in each row."""
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
    """The generated year of a site like GLEAMM that comes with simkit: 120 kW sun, 600 kW wind."""

    type: Literal["gleamm-sample"]
    """The generated year of a site like GLEAMM that comes with simkit."""
    part: Part = "both"
    """solar (peak 120 kW), wind (peak 600 kW) or their sum."""


class NsrdbSignal(RecordedSignal):
    """Solar power from a file of the NSRDB's sunshine; needs the extra `power`."""

    type: Literal["nsrdb"]
    """Solar power from a file of the NSRDB's sunshine; needs the extra power."""
    path: File
    """The file, plain or .gz; relative to the scenario file."""
    rated_w: Positive
    """Power of all modules under standard conditions, direct current."""
    tilt_deg: Annotated[float, Field(ge=0, le=90)] = 25.0
    """Of the modules against the ground."""
    azimuth_deg: Annotated[float, Field(ge=0, le=360)] = 180.0
    """Direction that they face; 180 is south."""
    inverter_w: Positive | None = None
    """Largest power of the inverters; null: `rated_w`."""
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.14
    """Share lost to dirt, wires, mismatch and shade."""
    per_degree: Annotated[float, Field(ge=-0.02, le=0)] = -0.004
    """Change of the power with each degree of the modules above 25 °C, as a share."""


class WindToolkitSignal(RecordedSignal):
    """Wind power from a file of the WIND Toolkit through a turbine's curve."""

    type: Literal["wind-toolkit"]
    """Wind power from a file of the WIND Toolkit through a turbine's curve."""
    path: File
    """The file, plain or .gz; relative to the scenario file."""
    turbine: str | None = None
    """Type of turbine, such as E-53/800; or give `rated_w` for a generic one."""
    curves: File | None = None
    """Table of curves that has the type; null: windpowerlib's (extra power)."""
    rated_w: Positive | None = None
    """Power of a generic turbine from its rated wind speed on."""
    cut_in_m_s: Positive | None = None
    """Wind speed at which a generic turbine starts; null: 3."""
    rated_m_s: Positive | None = None
    """Wind speed at which it reaches `rated_w`; null: 11."""
    cut_out_m_s: Positive | None = None
    """Wind speed at which it is turned off; null: 25."""
    turbines: Count = 1
    """How many of them."""
    hub_height_m: Positive | None = None
    """Height of the hubs; null: that of the file."""
    shear_exponent: Annotated[float, Field(ge=0, le=1)] = 1 / 7
    """Of the power law by which wind grows with height."""

    @model_validator(mode="after")
    def _one_turbine(self) -> Self:
        if (self.turbine is None) == (self.rated_w is None):
            raise ValueError("needs either turbine or rated_w; give one of the two")
        generic = [k for k in ("cut_in_m_s", "rated_m_s", "cut_out_m_s") if getattr(self, k)]
        if self.turbine is not None and generic:
            raise ValueError(f"turbine has a curve of its own; leave {', '.join(generic)} out")
        return self


class GenerationSignal(FileSignal):
    """What one source gives to a public grid, columns by EIA's codes."""

    type: Literal["generation"]
    """What one source gives to a public grid, columns by EIA's codes (WND, SUN, …)."""
    source: Literal["wind", "solar", "hydro", "oil", "gas", "coal", "nuclear", "other"]
    """Which source."""
    time: str = "timestamp"
    """The column of times."""
    unit: str = "MW"
    """Unit of the columns."""


class CarbonSignal(FileSignal):
    """The carbon intensity of a public grid, of known files without naming a column."""

    type: Literal["carbon"]
    """The carbon intensity of a public grid, of known files without naming a column."""
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
    """A reader of one's own, or of another package."""

    type: Literal["plugin"]
    """A reader of one's own, or of another package."""
    reader: Annotated[str, PluginName("simkit.signals")]
    """Entry point, package.module:attribute or file.py:attribute; gives a PowerTrace."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the reader."""

    @property
    def reader_name(self) -> str:
        """The name of the reader that the scenario gives."""
        return self.reader

    def reader_arguments(self) -> dict[str, Any]:
        """Return the scenario's `args`."""
        return dict(self.args)
