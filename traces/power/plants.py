"""Solar and wind power from weather: modules with an inverter, and the power curve of a turbine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Final, Self

import numpy as np
from pydantic import Field, model_validator

from simkit.arrays import Floats
from simkit.errors import TraceError, did_you_mean
from simkit.power.signal import WATT
from simkit.power.signal_trace import PowerTrace
from simkit.scenario.references import File
from simkit.scenario.signals import FileSignal
from simkit.sections import Count, Positive, Section
from simkit.traces.power.table import head_lines, read_table
from simkit.traces.power.weather import (
    SolarWeather,
    WindWeather,
    deprecations_hidden,
    power_library,
    read_epw,
    read_nsrdb,
    read_wind_toolkit,
    without_last_digits,
)
from simkit.traces.tables.layout import Dialect


class SolarPlant(Section):
    """A field of fixed modules."""

    rated_w: Positive
    """DC power of all modules under standard conditions (1000 W/m2, 25 °C)."""
    tilt_deg: Annotated[float, Field(ge=0, le=90)] = 25.0
    """Tilt of the modules against the ground."""
    azimuth_deg: Annotated[float, Field(ge=0, le=360)] = 180.0
    """Direction the modules face; 180 is south."""
    inverter_w: Positive | None = None
    """Largest DC power of the inverters; null: `rated_w`."""
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.14
    """Share lost to dirt, wires, mismatch and shade (PVWatts' default)."""
    per_degree: Annotated[float, Field(ge=-0.02, le=0)] = -0.004
    """Relative change of the power per degree of the modules above 25 °C."""


class NsrdbSignal(SolarPlant, FileSignal):
    """Solar power from an irradiance file of the NSRDB; needs the extra `power`."""

    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def read(self) -> PowerTrace:
        """Compute the power of the plant; raises SimkitError without pvlib."""
        return solar_power(read_nsrdb(self.path, typical_year=self.typical_year), self)


def solar_power(weather: SolarWeather, plant: SolarPlant) -> PowerTrace:
    """Turn irradiance into power with pvlib.

    Irradiance on the modules after J. E. Hay and J. A. Davies, "Calculations of the solar radiation
    incident on an inclined surface", 1980; their temperature after D. Faiman, "Assessing the
    outdoor operating temperature of photovoltaic modules", 2008; power and inverter as in
    PVWatts (A. P. Dobos, "PVWatts Version 5 Manual", 2014).

    Args:
        weather: sunshine, temperature and wind of a place.
        plant: the modules.

    Returns:
        The power in W, alternating current, read at instants and rounded to millionths of the
        rated power, so that it does not depend on the processor; 0 at night.

    Raises SimkitError without pvlib.
    """
    with deprecations_hidden():
        power = plant_power(weather, plant)
    return PowerTrace(
        time_s=weather.time_s,
        value=without_last_digits(power, plant.rated_w),
        unit=WATT,
        time_zone=weather.time_zone,
        sampling="instant",
        name=f"{weather.name}: {plant.rated_w / 1000:g} kW of solar modules",
        report=weather.report,
        inputs=weather.inputs,
        typical=bool(weather.typical),
        notes=(weather.typical,) if weather.typical else (),
    )


def plant_power(weather: SolarWeather, plant: SolarPlant) -> Floats:
    """Return the power in W at each of the weather's instants, (n,)."""
    pvlib, pd = power_library("pvlib", "solar power"), power_library("pandas", "solar power")
    times = pd.to_datetime(weather.time_s, unit="s", utc=True)
    sun = pvlib.solarposition.get_solarposition(
        times, weather.latitude, weather.longitude, weather.elevation_m
    )
    total = pvlib.irradiance.get_total_irradiance(
        plant.tilt_deg,
        plant.azimuth_deg,
        sun["apparent_zenith"],
        sun["azimuth"],
        pd.Series(weather.dni_w_m2, times),
        pd.Series(weather.ghi_w_m2, times),
        pd.Series(weather.dhi_w_m2, times),
        dni_extra=pvlib.irradiance.get_extra_radiation(times),
        model="haydavies",
    )
    on_modules = total["poa_global"].fillna(0.0).clip(lower=0.0).to_numpy()
    warm = pvlib.temperature.faiman(on_modules, weather.temperature_c, weather.wind_m_s)
    direct = pvlib.pvsystem.pvwatts_dc(on_modules, warm, plant.rated_w, plant.per_degree)
    limit = plant.rated_w if plant.inverter_w is None else plant.inverter_w
    power = pvlib.inverter.pvwatts(direct * (1 - plant.loss), limit)
    return np.asarray(np.nan_to_num(power), dtype=np.float64)


SHEAR_EXPONENT: Final = 1 / 7
"""Exponent of Hellmann's power law over open land."""


@dataclass(frozen=True)
class TurbineCurve:
    """Power of a turbine by wind speed: points joined by straight lines, 0 beyond them.

    Raises TraceError unless speeds ascend from 0 m/s or above and powers are not negative.
    """

    name: str
    speed_m_s: Floats
    """(n,) ascending wind speeds at the hub."""
    power_w: Floats
    """(n,) power."""

    def __post_init__(self) -> None:
        """Check the points."""
        speed, power = self.speed_m_s, self.power_w
        fits = len(speed) == len(power) >= 2 and np.isfinite(speed).all()
        if not (fits and speed[0] >= 0 and (np.diff(speed) > 0).all() and (power >= 0).all()):
            raise TraceError(
                f"turbine {self.name}: {len(speed)} speeds and {len(power)} powers; a curve needs "
                "two points or more, ascending speeds and powers of 0 or more"
            )

    @property
    def rated_w(self) -> float:
        """The largest power."""
        return float(self.power_w.max())

    def power(self, speed_m_s: Floats) -> Floats:
        """Return the power in W at (n,) wind speeds at the hub."""
        return np.interp(speed_m_s, self.speed_m_s, self.power_w, left=0.0, right=0.0)


def cubic_turbine(
    rated_w: float, *, cut_in_m_s: float = 3.0, rated_m_s: float = 11.0, cut_out_m_s: float = 25.0
) -> TurbineCurve:
    """Return a generic curve: between cut-in and rated speed the power grows as the speed cubed.

    The power in the wind through a circle is proportional to the cube of its speed (A. Betz,
    "Wind-Energie und ihre Ausnutzung durch Windmühlen", 1926).

    Args:
        rated_w: power from the rated speed to the cut-out speed.
        cut_in_m_s: below this speed the turbine stands still.
        rated_m_s: from this speed on the power is `rated_w`.
        cut_out_m_s: above this speed the turbine is turned out of the wind.
    """
    rising = np.linspace(cut_in_m_s, rated_m_s, 33)
    share = (rising**3 - cut_in_m_s**3) / (rated_m_s**3 - cut_in_m_s**3)
    return TurbineCurve(
        f"generic {rated_w / 1000:g} kW",
        np.append(rising, cut_out_m_s),
        rated_w * np.append(share, 1.0),
    )


def read_turbine(path: str | PathLike[str], turbine: str) -> TurbineCurve:
    """Read a turbine's curve from a table of curves in the form of windpowerlib and OEDB.

    Args:
        path: a CSV file: ``turbine_type`` and one column for each wind speed in m/s; power in W,
            empty where a curve has no point.
        turbine: its type, such as ``E-53/800``.

    Raises TraceError, with the nearest name, if it is not in the table.
    """
    path = Path(path)
    names = head_lines(path, 1)[0]
    speeds = [name for name in names if name.replace(".", "", 1).isdigit()]
    table = read_table(path, ["turbine_type", *speeds], dialect=Dialect(), numbers=speeds)
    types = table.columns["turbine_type"].to_list()
    if turbine not in types:
        known = [str(name) for name in types if name]
        raise TraceError(f"{path}: no turbine {turbine!r}{did_you_mean(turbine, known)}")
    row = types.index(turbine)
    power = np.array([table.values[speed][row] for speed in speeds])
    known_points = np.isfinite(power)
    return TurbineCurve(turbine, np.array(speeds, np.float64)[known_points], power[known_points])


def library_turbine(turbine: str) -> TurbineCurve:
    """Return a turbine's curve from windpowerlib.

    Raises SimkitError without windpowerlib, TraceError if it knows no such turbine.
    """
    library = power_library("windpowerlib", "wind power")
    # For an unknown name the library makes a turbine without a curve.
    with deprecations_hidden():
        types = library.get_turbine_types(print_out=False)
    known = types.loc[types["has_power_curve"], "turbine_type"].tolist()
    if turbine not in known:
        near = did_you_mean(turbine, known)
        raise TraceError(f"windpowerlib has no power curve of {turbine!r}{near}")
    with deprecations_hidden():
        curve = library.WindTurbine(turbine_type=turbine, hub_height=100.0).power_curve
    return TurbineCurve(
        turbine,
        curve["wind_speed"].to_numpy(dtype=np.float64),
        curve["value"].to_numpy(dtype=np.float64),
    )


class TurbineSignal(FileSignal):
    """Keys of wind power from a file of wind speeds through a turbine's curve."""

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
    shear_exponent: Annotated[float, Field(ge=0, le=1)] = SHEAR_EXPONENT
    """Exponent of the power law for wind speed over height."""

    @model_validator(mode="after")
    def _one_turbine(self) -> Self:
        if (self.turbine is None) == (self.rated_w is None):
            raise ValueError("needs either turbine or rated_w; give one of the two")
        if self.turbine is not None and self._generic():
            raise ValueError(f"turbine has its own curve; leave {', '.join(self._generic())} out")
        if self.turbine is None and self.curves is not None:
            raise ValueError("curves lists types of turbines; name one as turbine")
        return self

    def _generic(self) -> dict[str, float]:
        """Return the keys of a generic turbine's curve that are given."""
        keys = ("cut_in_m_s", "rated_m_s", "cut_out_m_s")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}

    def power_of(self, weather: WindWeather) -> PowerTrace:
        """Compute the power; SimkitError if windpowerlib is needed and not installed."""
        if self.rated_w is not None:
            curve = cubic_turbine(self.rated_w, **self._generic())
        elif self.curves is not None:
            curve = read_turbine(self.curves, str(self.turbine))
        else:
            curve = library_turbine(str(self.turbine))
        power = wind_power(
            weather,
            curve,
            turbines=self.turbines,
            hub_height_m=self.hub_height_m,
            shear_exponent=self.shear_exponent,
        )
        inputs = power.inputs if self.curves is None else (*power.inputs, Path(self.curves))
        return replace(power, inputs=inputs)


class WindToolkitSignal(TurbineSignal):
    """Wind power from a file of the WIND Toolkit through a turbine's curve."""

    def read(self) -> PowerTrace:
        """Compute the power; SimkitError if windpowerlib is needed and not installed."""
        return self.power_of(read_wind_toolkit(self.path))


def wind_power(
    weather: WindWeather,
    turbine: TurbineCurve,
    *,
    turbines: int = 1,
    hub_height_m: float | None = None,
    shear_exponent: float = SHEAR_EXPONENT,
) -> PowerTrace:
    """Turn wind speed into power.

    The speed at the hub follows Hellmann's power law (G. Hellmann, "Über die Bewegung der Luft in
    den untersten Schichten der Atmosphäre", 1915): it grows with the height to the power of the
    exponent. Wake losses and air density are not modelled.

    Args:
        weather: wind at one height.
        turbine: the curve of each turbine.
        turbines: number of turbines.
        hub_height_m: height of the hubs in m; None: the height of the weather.
        shear_exponent: exponent of the power law.

    Returns:
        The power of all turbines together in W, read at instants and rounded to millionths of the
        rated power, so that it does not depend on the processor.

    Raises TraceError if a number is not above 0.
    """
    height = weather.height_m if hub_height_m is None else hub_height_m
    if turbines < 1 or not 0 < height < np.inf:
        raise TraceError(
            f"wind power: {turbines!r} turbines at {height!r} m; there must be at least one, above "
            "the ground"
        )
    speed = weather.speed.value * (height / weather.height_m) ** shear_exponent
    return replace(
        weather.speed,
        value=turbines * without_last_digits(turbine.power(speed), turbine.rated_w),
        unit=WATT,
        name=f"{weather.speed.name}: {turbines} x {turbine.name}",
    )


class EpwSolarSignal(SolarPlant, FileSignal):
    """Solar power from EnergyPlus weather; needs the extra `power`."""

    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def read(self) -> PowerTrace:
        """Compute the power of the plant; raises SimkitError without pvlib."""
        return solar_power(read_epw(self.path, typical_year=self.typical_year).sun(), self)


class EpwWindSignal(TurbineSignal):
    """Wind power from EnergyPlus weather, whose wind is 10 m above ground; needs `power`."""

    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def read(self) -> PowerTrace:
        """Compute the power; raises SimkitError without pvlib."""
        return self.power_of(read_epw(self.path, typical_year=self.typical_year).wind())


class EpwTemperatureSignal(FileSignal):
    """Air temperature from EnergyPlus weather, such as for `pue`; needs the extra `power`."""

    typical_year: bool | None = None
    """Whether months of different years make up one year, as in TMY files; null: recognised."""

    def read(self) -> PowerTrace:
        """Read the temperature; raises SimkitError without pvlib."""
        return read_epw(self.path, typical_year=self.typical_year).readings("temp_air", "degC")
