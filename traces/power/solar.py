"""Solar power: from irradiance through tilted modules, their temperature and an inverter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.power.signal import WATT
from simkit.power.signal_trace import PowerTrace
from simkit.traces.power.libraries import deprecations_hidden, power_library
from simkit.traces.power.nrel import SolarWeather


@dataclass(frozen=True)
class SolarPlant:
    """A field of fixed modules.

    Raises TraceError if a number is out of its range.
    """

    rated_w: float
    """Power of all modules under standard conditions (1000 W/m2, 25 degrees C), direct current."""
    tilt_deg: float = 25.0
    """Angle to the ground; 0 lies flat."""
    azimuth_deg: float = 180.0
    """Direction that the modules face; 180 is south."""
    inverter_w: float | None = None
    """Largest power of the inverters, direct current; None: `rated_w`."""
    loss: float = 0.14
    """Share lost to dirt, wires, mismatch and shade (PVWatts' default)."""
    per_degree: float = -0.004
    """Change of the power with each degree of the modules above 25 degrees C, as a share."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        limits = {
            "rated_w": self.rated_w > 0,
            "tilt_deg": 0 <= self.tilt_deg <= 90,
            "azimuth_deg": 0 <= self.azimuth_deg <= 360,
            "inverter_w": self.inverter_w is None or self.inverter_w > 0,
            "loss": 0 <= self.loss < 1,
            "per_degree": -0.02 <= self.per_degree <= 0,
        }
        wrong = [
            f"{name} is {getattr(self, name)!r}" for name, holds in limits.items() if not holds
        ]
        if wrong:
            raise TraceError(
                f"solar plant: {', '.join(wrong)}; powers must be above 0, tilt 0 to 90, azimuth 0 "
                "to 360, loss 0 to 1, change per degree -0.02 to 0"
            )


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
        The power in W, alternating current, read at instants; 0 at night.

    Raises SimkitError without pvlib.
    """
    with deprecations_hidden():
        power = plant_power(weather, plant)
    return PowerTrace(
        time_s=weather.time_s,
        value=power,
        unit=WATT,
        time_zone=weather.time_zone,
        sampling="instant",
        name=f"{weather.name}: {plant.rated_w / 1000:g} kW of solar modules",
        report=weather.report,
        inputs=weather.inputs,
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
