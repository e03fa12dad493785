"""Real files of power, weather and carbon: what is odd about them is met by a named rule."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from trace_files import real_file

from simkit.errors import TraceError
from simkit.power.signal_align import Alignment, aligned
from simkit.power.signal_trace import Gaps, step_function
from simkit.traces.power import CarbonSignal, GenerationSignal, read_power
from simkit.traces.power.plants import (
    NsrdbSignal,
    SolarPlant,
    read_turbine,
    solar_power,
    wind_power,
)
from simkit.traces.power.weather import read_nsrdb, read_wind_toolkit

SDSC_SP2 = 893_466_664.0
"""Unix time of the zero of the log SDSC-SP2-1998."""


real = partial(real_file, "power")


def test_railsplitter_has_an_hour_twice_and_keeps_standard_time():
    path = real("railsplitter_data.csv.gz")
    wind = read_power(path, column="kw", unit="kW", zone="UTC-06:00", label="end")
    assert wind.report.dropped == {"repeated time": 1}
    assert (wind.report.read, wind.value.max()) == (23_328, 8.8e6)
    assert len(step_function(wind, Gaps()).values) == 23_327  # without a gap
    energy = read_power(path, column="MWh", unit="MWh", zone="UTC-06:00", label="end")
    assert energy.value == pytest.approx(wind.value)
    summer = read_power(path, column="kw", unit="kW", zone="America/Chicago", label="end")
    assert summer.report.dropped["time skipped by the clock"] == 3  # so that clock it is not


def test_solarfarm_is_whole():
    solar = read_power(real("solarfarm_data.csv.gz"), column="kw", unit="kW", zone="UTC-06:00")
    assert (len(solar), solar.report.accepted, solar.value.max()) == (26_304, 26_304, 4.73325e6)
    signal = aligned(solar, Alignment(epoch_s=SDSC_SP2, time_zone="America/Los_Angeles"))
    days = signal.pieces(0.0, 730 * 86_400.0)
    assert days[1].max() <= solar.value.max()


def test_ercot_by_source():
    path = real("ERCO_2022_generation_carbon.csv.gz")
    names = ("wind", "solar", "nuclear")
    sources = {name: GenerationSignal.of(path=path, source=name).read() for name in names}
    assert {len(trace) for trace in sources.values()} == {8760}
    assert (sources["wind"].value.min(), sources["wind"].value.max()) == (309e6, 26_871e6)
    assert sources["solar"].value.max() == 10_039e6


@pytest.mark.parametrize(
    ("name", "rows", "options"),
    [
        ("ERCO_2022_generation_carbon.csv.gz", 8_760, {}),
        ("DK-DK2_2021-2023_hourly_combined.csv.gz", 26_280, {"site_zone": "Europe/Copenhagen"}),
        ("ger_ci.csv.gz", 37_147, {"zone": "UTC"}),
    ],
)
def test_carbon_intensity(name, rows, options):
    trace = CarbonSignal.of(path=real(name), **options).read()
    assert (len(trace), trace.unit) == (rows, "gCO2/kWh")
    assert 30 < trace.value.min() < trace.value.max() < 700


def test_ger_ci_lacks_two_rows():
    trace = CarbonSignal.of(path=real("ger_ci.csv.gz"), zone="UTC").read()
    with pytest.raises(TraceError, match="from 2020-12-19 23:15 UTC for 00:15:00, from 2020-12-19"):
        step_function(trace, Gaps())
    assert len(step_function(trace, Gaps(rule="interpolate")).values) == 37_149
    with pytest.raises(TraceError, match="times without a time zone"):
        CarbonSignal.of(path=real("ger_ci.csv.gz")).read()


def test_texas_weather_becomes_power():
    weather = read_wind_toolkit(real("WTK_dallas_1247689_32.79_-96.79_2012.csv.gz"))
    assert (len(weather.speed), weather.speed.step_s, weather.height_m) == (105_408, 300, 100)
    curve = read_turbine(real("windpowerlib_power_curves.csv"), "E-53/800")
    power = wind_power(weather, curve)
    assert power.value.max() == curve.rated_w
    assert 0.2 < power.value.mean() / curve.rated_w < 0.5


def test_texas_sun_becomes_power():
    pytest.importorskip("pvlib", reason="pvlib (extra power) is not installed")
    path = real("NSRDB_dallas_701624_32.77_-96.82_2012.csv.gz")
    weather = read_nsrdb(path)
    assert (len(weather.time_s), weather.ghi_w_m2.max()) == (17_568, 1019)
    power = solar_power(weather, SolarPlant(rated_w=150e3))
    assert (power.value[weather.ghi_w_m2 == 0] == 0).all()
    assert 0.14 < power.value.mean() / 150e3 < 0.22
    at_noon = power.value.reshape(366, 48)[:, [23, 24, 25, 26]].mean()
    assert at_noon > 3 * power.value.mean() * 0.9
    steep = NsrdbSignal.of(path=path, rated_w=150e3, tilt_deg=80.0).read()
    assert steep.value.mean() < power.value.mean()


def test_a_log_of_1998_meets_the_wind_of_2012():
    weather = read_wind_toolkit(real("WTK_dallas_1247689_32.79_-96.79_2012.csv.gz"))
    year = aligned(weather.speed, Alignment(epoch_s=SDSC_SP2, time_zone="America/Los_Angeles"))
    # the log's zero is 24 April 1998, 18:11:04 by the clock of San Diego, 17:11:04 standard time
    row = (
        (31 + 29 + 31 + 23) * 288 + 17 * 12 + 2
    )  # the reading at 17:10; between two readings stands their mean
    assert year.value(0.0) == pytest.approx(weather.speed.value[row : row + 2].mean())
    readings = weather.speed.value
    between = np.append((readings[:-1] + readings[1:]) / 2, readings[-1])
    leap_day = slice(59 * 288, 60 * 288)  # 1999 has none
    expected = 300 * (between.sum() - between[leap_day].sum())
    assert year.integral(0.0, 365 * 86_400.0) == pytest.approx(expected, rel=1e-6)
