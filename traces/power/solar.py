"""Solar power: from irradiance through tilted modules, their temperature and an inverter."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from simkit.arrays import Floats
from simkit.power.signal import WATT
from simkit.power.signal_trace import PowerTrace
from simkit.scenario.signals import FileSignal
from simkit.sections import Positive, Section
from simkit.traces.power.libraries import deprecations_hidden, power_library
from simkit.traces.power.nrel import SolarWeather, read_nsrdb, without_last_digits


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
