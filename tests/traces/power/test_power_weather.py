"""From weather to power: files of NREL, power curves of turbines, solar modules."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.traces.power import plants
from simkit.traces.power.plants import (
    SolarPlant,
    TurbineCurve,
    cubic_turbine,
    library_turbine,
    read_turbine,
    solar_power,
    wind_power,
)
from simkit.traces.power.weather import SolarWeather, read_nsrdb, read_wind_toolkit

WIND = """SiteID,1247689,Site Timezone,-6,Data Timezone,-6,Longitude,-96.79,Latitude,32.79
Year,Month,Day,Hour,Minute,wind speed at 100m (m/s),air temperature at 100m (C)
2012,2,29,23,55,12.81,13.83
2012,3,1,0,0,6,13.76
2012,3,1,0,5,0.5,13.70
"""
SUN = """Source,Location ID,Latitude,Longitude,Time Zone,Elevation,Local Time Zone
NSRDB,701624,32.77,-96.82,-6,130,-6
Year,Month,Day,Hour,Minute,DHI,DNI,GHI,Surface Albedo,Wind Speed,Temperature,Pressure,
2012,6,21,0,0,0,0,0,0.1,3,22,1000,N/A
2012,6,21,0,30,0,0,0,0.1,3,22,1000,N/A
2012,6,21,12,30,100,900,,0.1,3,34,1000,N/A
2012,6,21,13,0,110,880,1000,0.1,3,34,1000,N/A
"""


def test_wind_toolkit(file):
    weather = read_wind_toolkit(file(WIND))
    assert weather.speed.time_s[0] == datetime(2012, 3, 1, 5, 55, tzinfo=UTC).timestamp()
    assert weather.speed.value.tolist() == [12.81, 6, 0.5]
    assert (weather.speed.unit, weather.speed.sampling) == ("m/s", "instant")
    assert (weather.speed.step_s, weather.speed.time_zone) == (300, "UTC-06:00")
    assert (weather.height_m, weather.temperature_c[0]) == (100, 13.83)


def test_nsrdb(file):
    weather = read_nsrdb(file(SUN))
    assert weather.time_s[-1] == datetime(2012, 6, 21, 19, tzinfo=UTC).timestamp()
    assert (weather.latitude, weather.longitude, weather.elevation_m) == (32.77, -96.82, 130)
    assert weather.ghi_w_m2.tolist() == [0, 0, 1000]
    assert weather.report.dropped == {"value missing": 1}
    assert weather.report.lines == {"value missing": [6]}


@pytest.mark.parametrize(
    "date", ["2012,13,1,0,0", "2012,6,45,0,0", "2012,2,30,0,0", "2012,6,1,25,0"]
)
def test_dates_that_cannot_be_are_dropped_and_shown(file, date):
    report = read_nsrdb(file(f"{SUN}{date},0,0,0,0.1,3,22,1000,N/A\n")).report
    assert report.dropped == {"value missing": 1, "date that cannot be": 1}
    assert report.lines["date that cannot be"] == [8]
    assert report.examples["date that cannot be"] == date.replace(",", ", ")


def test_hour_24_is_the_next_day(file):
    weather = read_nsrdb(file(f"{SUN}2012,6,21,24,0,0,0,0,0.1,3,22,1000,N/A\n"))
    assert weather.time_s[-1] == datetime(2012, 6, 22, 6, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("read", "text", "what"),
    [
        (read_nsrdb, WIND, ":2: Time Zone is 'missing'; the header of such a file"),
        (read_wind_toolkit, SUN, ":1: Data Timezone is 'missing'"),
        (read_wind_toolkit, WIND.replace("wind speed", "wind"), ":2: no column 'wind speed at"),
        (read_nsrdb, "a,b\n", "1 line, its header alone takes 3"),
        (read_nsrdb, SUN.replace("GHI", "GHJ"), ":3: no column 'GHI'; did you mean"),
    ],
)
def test_other_files_are_refused(file, read, text, what):
    path = file(text)
    with pytest.raises(TraceError, match=f"^{path}.*{what}"):
        read(path)


def test_a_turbine_follows_its_curve():
    curve = TurbineCurve("small", np.array([3.0, 5.0, 25.0]), np.array([0.0, 100.0, 100.0]))
    speeds = np.array([0.0, 2.9, 4.0, 5.0, 20.0, 25.0, 25.1])
    assert curve.power(speeds).tolist() == [0, 0, 50, 100, 100, 100, 0]
    assert curve.rated_w == 100


def test_wind_power_counts_turbines_and_height(file):
    weather = read_wind_toolkit(file(WIND))
    curve = TurbineCurve("linear", np.array([0.0, 30.0]), np.array([0.0, 30.0]))
    # rounded to millionths of the rated 30 W
    assert wind_power(weather, curve, turbines=3).value == pytest.approx([38.43, 18, 1.5], abs=9e-5)
    lower = wind_power(weather, curve, hub_height_m=50.0)
    assert lower.value == pytest.approx(np.array([12.81, 6, 0.5]) * 0.5 ** (1 / 7), abs=3e-5)
    assert (lower.unit, lower.report.read) == ("W", 3)
    with pytest.raises(TraceError, match="0 turbines at 100.0 m"):
        wind_power(weather, curve, turbines=0)


def test_a_table_of_curves(file):
    path = file("turbine_type,0.0,3.0,3.5,10.0\nA/1,0,0,,900\nB/2,,10,20,30\n")
    curve = read_turbine(path, "A/1")
    assert (curve.speed_m_s.tolist(), curve.power_w.tolist()) == ([0, 3, 10], [0, 0, 900])
    with pytest.raises(TraceError, match="no turbine 'A/2'; did you mean"):
        read_turbine(path, "A/2")


@pytest.mark.parametrize(
    ("speed", "power"), [([1.0], [1.0]), ([2.0, 1.0], [0.0, 1.0]), ([0.0, 1.0], [0.0, -1.0])]
)
def test_what_is_no_curve(speed, power):
    with pytest.raises(TraceError, match="turbine x: .* ascending speeds and powers of 0 or more"):
        TurbineCurve("x", np.array(speed), np.array(power))


def test_turbines_of_the_library():
    pytest.importorskip("windpowerlib", reason="windpowerlib (extra power) is not installed")
    curve = library_turbine("E-53/800")
    assert curve.rated_w == 810e3  # the maker's curve ends a little above the name
    with pytest.raises(TraceError, match="no power curve of 'E-53/8000'; did you mean"):
        library_turbine("E-53/8000")


def midsummer(ghi, dni, dhi):
    hours = datetime(2012, 6, 21, 0, tzinfo=UTC).timestamp() + 1800.0 * np.arange(48)
    noon = np.where(np.arange(48) == 37, 1.0, 0.0)  # 18:30 UTC, near noon at 97 degrees west
    return SolarWeather(
        "test", hours, ghi * noon, dni * noon, dhi * noon, np.full(48, 25.0), np.full(48, 3.0),
        32.77, -96.82, 130.0, "UTC-06:00",
    )  # fmt: skip


def test_solar_power_is_rated_power_times_sun_less_heat_and_losses():
    pytest.importorskip("pvlib", reason="pvlib (extra power) is not installed")
    flat = SolarPlant(rated_w=100e3, tilt_deg=0.0, loss=0.1, per_degree=0.0)
    power = solar_power(midsummer(1000.0, 900.0, 105.0), flat)
    # 1000 W/m2 on flat modules, no effect of heat, 10 % loss, inverters of 96 %
    assert power.value.max() == pytest.approx(100e3 * 0.9 * 0.96, rel=0.02)
    assert np.count_nonzero(power.value) == 1
    assert (power.unit, power.sampling, power.step_s) == ("W", "instant", 1800)
    warm = SolarPlant(rated_w=100e3, tilt_deg=0.0, loss=0.1, per_degree=-0.004)
    hot = solar_power(midsummer(1000.0, 900.0, 105.0), warm).value.max()
    assert 0.8 < hot / power.value.max() < 0.95  # modules some 30 degrees above the air
    small = SolarPlant(rated_w=100e3, tilt_deg=0.0, inverter_w=50e3)
    assert solar_power(midsummer(1000.0, 900.0, 105.0), small).value.max() == pytest.approx(48e3)


def test_power_from_weather_does_not_depend_on_the_processor(monkeypatch, file):
    """Another processor gives other last bits, of which rounding to the rated power leaves none."""
    pytest.importorskip("pvlib", reason="pvlib (extra power) is not installed")
    sun, plant = midsummer(1000.0, 900.0, 105.0), SolarPlant(rated_w=150e3)
    wind, curve = read_wind_toolkit(file(WIND)), cubic_turbine(8e5)

    def powers():
        return [solar_power(sun, plant).value.tolist(),
                wind_power(wind, curve, hub_height_m=73.0).value.tolist()]  # fmt: skip

    usual, computed, power = powers(), plants.plant_power, TurbineCurve.power
    monkeypatch.setattr(plants, "plant_power", lambda *told: computed(*told) * (1 + 4e-16))
    monkeypatch.setattr(TurbineCurve, "power", lambda *told: power(*told) * (1 + 4e-16))
    assert powers() == usual
