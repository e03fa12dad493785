"""A generated year of wind and solar power for a site like GLEAMM, which publishes no data.

GLEAMM (Texas Tech University, near Lubbock) has 150 kW of solar modules and three wind turbines of
300 kVA; figure 4.2 of V. Venkataswamy's dissertation (University of Virginia, 2023) shows peaks of
120 and 600 kW and how often the sum of 2019 exceeds a level. Here the sun is pvlib's clear sky at
that latitude behind random clouds, the wind is a random Weibull wind through a generic turbine:
the daily and yearly cycles and the persistence of weather are realistic for such a place, but no
hour is measured. One generated year is bundled as a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.dates import standard_offset_s
from simkit.errors import TraceError
from simkit.power.signal import WATT
from simkit.power.signal_trace import PowerTrace
from simkit.scenario.signals import RecordedSignal
from simkit.traces.files import written_whole
from simkit.traces.power import GleammSignal, Part, SitePower, read_gleamm
from simkit.traces.power.plants import SolarPlant, TurbineCurve, cubic_turbine, plant_power
from simkit.traces.power.weather import SolarWeather, deprecations_hidden, power_library

HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
YEAR_S: Final = 365.25 * DAY_S

CLOUD_SHARES: Final = (0.0, 0.08, 0.2, 0.4, 1.0)
CLEARNESS: Final = (0.08, 0.3, 0.7, 0.96, 1.0)
"""Share of the time -> irradiance relative to a clear sky: three hours in five are clear."""


@dataclass(frozen=True)
class GeneratedSite:
    """A place, its plants and its weather. The default is the site like GLEAMM."""

    latitude: float = 33.6
    """Degrees north."""
    longitude: float = -102.0
    """Degrees east."""
    elevation_m: float = 1010.0
    """Above the sea."""
    time_zone: str = "UTC-06:00"
    """Zone of the place; the generated times are in its standard time all year."""
    plant: SolarPlant = SolarPlant(rated_w=150_000.0, loss=0.19)  # noqa: RUF009 - frozen
    """The modules; the loss is chosen so that the peak is the figure's 120 kW."""
    turbine: TurbineCurve = cubic_turbine(200_000.0, cut_in_m_s=2.5, rated_m_s=10.5)  # noqa: RUF009
    """Each wind turbine: a third of the 600 kW that the figure shows as the peak of three."""
    turbines: int = 3
    """Number of turbines."""
    weibull_shape: float = 2.5
    """Weibull shape of the wind speed at the hub."""
    weibull_scale_m_s: float = 10.0
    """Weibull scale of the wind speed at the hub, chosen so that the year exceeds 250 kW as often
    as in the figure; the mean speed is 0.89 times the scale."""

    @property
    def utc_offset_s(self) -> float:
        """Seconds by which the place's standard time is ahead of UTC."""
        return standard_offset_s(self.time_zone, 0.0)


def generate_site(
    *,
    rng: np.random.Generator,
    year: int = 2019,
    step_s: float = 600.0,
    site: GeneratedSite | None = None,
) -> SitePower:
    """Generate a calendar year of solar and wind power.

    Args:
        rng: only spawned from, once for clouds and once for wind.
        year: the calendar year; its leap day and the sun's position follow from it.
        step_s: length of the intervals in s, a divisor of an hour.
        site: the place; None: the site like GLEAMM.

    Returns:
        Solar and wind power in W: means of intervals that start at the given times.

    Raises SimkitError without pvlib, TraceError if the step does not divide an hour.
    """
    if not 0 < step_s <= HOUR_S or HOUR_S % step_s:
        raise TraceError(f"step_s is {step_s!r}; it must divide an hour, such as 300 or 600")
    site = site or GeneratedSite()
    first, after = (
        float(np.datetime64(f"{number}-01-01", "s").astype(np.int64)) - site.utc_offset_s
        for number in (year, year + 1)
    )
    time = np.arange(first, after, step_s)
    clouds, wind = rng.spawn(2)
    middle = time + step_s / 2
    with deprecations_hidden():
        solar_w = plant_power(draw_sun(middle, site, clouds, step_s), site.plant)
    wind_w = site.turbines * site.turbine.power(draw_wind(middle, site, wind, step_s))
    return SitePower(_trace(time, solar_w, site, "solar"), _trace(time, wind_w, site, "wind"))


def draw_sun(
    time_s: Floats, site: GeneratedSite, rng: np.random.Generator, step_s: float
) -> SolarWeather:
    """Draw the weather under a cloudy sky.

    The clear sky is Ineichen's (P. Ineichen and R. Perez, "A new airmass independent formulation
    for the Linke turbidity coefficient", 2002) with a turbidity of 3; the irradiance below the
    clouds is split into direct and diffuse after D. G. Erbs et al., "Estimation of the diffuse
    radiation fraction for hourly, daily and monthly-average global radiation", 1982.
    """
    pvlib, pd = power_library("pvlib", "generated site"), power_library("pandas", "generated site")
    place = pvlib.location.Location(site.latitude, site.longitude, "UTC", site.elevation_m)
    times = pd.to_datetime(time_s, unit="s", utc=True)
    sun = place.get_solarposition(times)
    clear = place.get_clearsky(times, solar_position=sun, linke_turbidity=3.0)["ghi"]
    share = normal_shares(len(time_s), (30 * HOUR_S, 0.8), (HOUR_S, 0.6), rng=rng, step_s=step_s)
    ghi = clear.to_numpy() * np.interp(share, CLOUD_SHARES, CLEARNESS)
    split = pvlib.irradiance.erbs(pd.Series(ghi, times), sun["zenith"], times)
    return SolarWeather(
        name="generated site",
        time_s=time_s,
        ghi_w_m2=ghi,
        dni_w_m2=split["dni"].to_numpy(),
        dhi_w_m2=split["dhi"].to_numpy(),
        temperature_c=16 - 11 * _cycle(time_s, YEAR_S, 15 * DAY_S) - 7 * _of_day(time_s, site, 4),
        wind_m_s=np.full(len(time_s), 4.0),
        latitude=site.latitude,
        longitude=site.longitude,
        elevation_m=site.elevation_m,
        time_zone=site.time_zone,
    )


def draw_wind(
    time_s: Floats, site: GeneratedSite, rng: np.random.Generator, step_s: float
) -> Floats:
    """Draw wind speeds at the hub in m/s: Weibull, stronger at night and in spring.

    Weather fronts last for days, gusts for an hour: a sum of three autoregressive series ranks the
    speeds, the Weibull distribution gives their sizes.
    """
    share = normal_shares(
        len(time_s),
        (60 * HOUR_S, 0.75),
        (10 * HOUR_S, 0.57),
        (HOUR_S, 0.34),
        rng=rng,
        step_s=step_s,
    )
    calm = -np.log1p(-share)
    scale = site.weibull_scale_m_s * (1 + 0.08 * _cycle(time_s, YEAR_S, 105 * DAY_S))
    scale *= 1 + 0.06 * _of_day(time_s, site, 1)
    speed: Floats = scale * calm ** (1 / site.weibull_shape)
    return speed


def normal_shares(
    number: int, *series: tuple[float, float], rng: np.random.Generator, step_s: float
) -> Floats:
    """Return (number,) uniform shares in (0, 1) that are correlated in time.

    Args:
        number: number of shares.
        series: (time constant in s, weight) of each autoregressive series; the squares of the
            weights sum to about 1.
        rng: draws the shocks.
        step_s: time between neighbours in s.
    """
    from scipy.signal import lfilter
    from scipy.special import ndtr

    total = np.zeros(number)
    weights = np.array([weight for _, weight in series])
    for (memory, _), weight in zip(series, weights / np.sqrt((weights**2).sum()), strict=True):
        keep = np.exp(-step_s / memory)
        shocks = rng.standard_normal(number) * np.sqrt(1 - keep**2)
        shocks[0] /= np.sqrt(1 - keep**2)  # begins in its long-run distribution
        total += weight * lfilter([1.0], [1.0, -keep], shocks)
    shares: Floats = np.clip(ndtr(total), 1e-12, 1 - 1e-12)
    return shares


def _of_day(time_s: Floats, site: GeneratedSite, top_hour: float) -> Floats:
    """Return a daily cycle from -1 to 1, highest at an hour of the place's clock."""
    return _cycle(time_s + site.utc_offset_s, DAY_S, top_hour * HOUR_S)


def _cycle(time_s: Floats, period_s: float, top_s: float) -> Floats:
    wave: Floats = np.cos(2 * np.pi * (time_s - top_s) / period_s)
    return wave


def _trace(time_s: Floats, power_w: Floats, site: GeneratedSite, name: str) -> PowerTrace:
    return PowerTrace(
        time_s=time_s,
        value=power_w,
        unit=WATT,
        time_zone=site.time_zone,
        name=f"generated {name}",
    )


_SAMPLE: Final = "gleamm_like_2019.csv.gz"
_SEED: Final = 0


def sample_site_path() -> Path:
    """Return the path of the sample: a time, solar kW and wind kW every ten minutes of a year.

    The times are starts of intervals on the clock UTC-06:00.
    """
    return Path(str(resources.files("simkit.traces.samples").joinpath(_SAMPLE)))


def read_sample_site() -> SitePower:
    """Read the bundled sample."""
    return read_gleamm(sample_site_path(), zone=GeneratedSite().time_zone)


class SampleSignal(RecordedSignal):
    """The bundled, generated year of a site like GLEAMM: 120 kW solar, 600 kW wind."""

    part: Part = "both"
    """solar (peak 120 kW), wind (peak 600 kW) or their sum."""

    def read(self) -> PowerTrace:
        """Read the part."""
        return _sample_part(self.part)


@lru_cache
def _sample_part(part: Part) -> PowerTrace:
    """Return a part of the sample; it is always the same, and many replicas ask for it."""
    zone = GeneratedSite().time_zone
    return GleammSignal.of(path=sample_site_path(), part=part, zone=zone).read()


def write_sample_site(folder: Path) -> Path:
    """Generate the sample into a folder and return its path; needs pvlib."""
    site = GeneratedSite()
    power = generate_site(rng=np.random.default_rng(_SEED), site=site)
    clock = (power.solar.time_s + site.utc_offset_s).astype("datetime64[s]")
    rows = zip(
        np.datetime_as_string(clock, unit="m").tolist(),
        power.solar.value / 1000,
        power.wind.value / 1000,
        strict=True,
    )
    path = folder / _SAMPLE
    with written_whole(path) as stream:
        stream.write(b"time,solar_kw,wind_kw\n")
        for time, solar, wind in rows:
            stream.write(f"{time.replace('T', ' ')},{solar:.1f},{wind:.1f}\n".encode())
    return path
