"""EnergyPlus weather (EPW): sun, wind and temperature through pvlib; typical years; unknowns."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.scenario.signals import SIGNALS
from simkit.traces.power.weather import read_epw

pytest.importorskip("pvlib")

HEAD = "LOCATION,Somewhere,TX,USA,TMY3,722670,33.67,-101.82,-6.0,988.0\n" + "".join(
    f"{line}\n"
    for line in (
        "DESIGN CONDITIONS,0", "TYPICAL/EXTREME PERIODS,0", "GROUND TEMPERATURES,0",
        "HOLIDAYS/DAYLIGHT SAVINGS,No,0,0,0", "COMMENTS 1,x", "COMMENTS 2,y",
    )
)  # fmt: skip
PERIODS = "DATA PERIODS,{},Data,Sunday, 1/ 1,12/31\n"
LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
TYPICAL = (1987, 1992, 1980, 1992, 1991, 1990, 1984, 1985, 1986, 1983, 1982, 1981)


def row(year, month, day, hour, *, air=20.0, wind=5.0, ghi=0):
    return (
        f"{year},{month},{day},{hour},60,?9?9,{air},1.0,57,90500,0,1415,280,{ghi},{ghi},{ghi // 9},"
        f"0,0,0,0,290,{wind},5,5,16.1,77777,9,999,9,0.05,0,88,0,0,0\n"
    )


def year(years=TYPICAL, **values):
    """Return rows of a year; irradiance is that of noon."""
    return "".join(
        row(years[month], month + 1, day, hour, ghi=max(0, 900 - 150 * abs(hour - 13)), **values)
        for month, days in enumerate(LENGTHS)
        for day in range(1, days + 1)
        for hour in range(1, 25)
    )


@pytest.fixture
def place(tmp_path):
    def write(rows, *, head=HEAD, periods="1,1", name="place.epw"):
        path = tmp_path / name
        path.write_text(head + PERIODS.format(periods) + rows)
        return path

    return write


def read(kind, path, **keys):
    return SIGNALS.find(f"epw-{kind}").of(path=path, **keys).read()


def test_a_typical_year_of_sun_wind_and_temperature(place):
    path = place(year())
    for kind, keys in (("solar", {"rated_w": 1e5}), ("wind", {"rated_w": 2e5}),
                       ("temperature", {})):  # fmt: skip
        trace = read(kind, path, **keys)
        assert len(trace) == 8760
        assert trace.typical
        assert "typical year: months of 1980 to 1992 are one year" in trace.notes[0]
        assert (trace.time_zone, trace.sampling) == ("UTC-06:00", "instant")
        assert np.unique(np.diff(trace.time_s)).tolist() == [3600]
        assert trace.inputs == (path,)


def test_each_value_stands_where_it_was_measured(place):
    rows = "".join(row(2019, 6, 1, hour, air=hour, wind=hour, ghi=300) for hour in range(1, 25))
    path = place(rows)
    noon = datetime(2019, 6, 1, 18, tzinfo=UTC).timestamp()
    air = read("temperature", path)
    assert not air.typical
    assert air.value[air.time_s == noon].tolist() == [12]  # hour 12 ends at noon
    sun = read_epw(path).sun()
    assert sun.time_s[11] == noon - 1800  # irradiance is that of the hour before
    assert (sun.latitude, sun.longitude, sun.elevation_m) == (33.67, -101.82, 988)
    wind = read_epw(path).wind()
    assert (wind.height_m, wind.speed.value.tolist()) == (10, list(range(1, 25)))
    higher = read("wind", path, rated_w=1e5, hub_height_m=80)
    assert (higher.value >= read("wind", path, rated_w=1e5).value)[:10].all()


def test_solar_power_is_highest_about_noon(place):
    power = read("solar", place(year()), rated_w=1e5)
    day = power.value[24 * 180 : 24 * 181]
    assert 11 <= day.argmax() <= 13
    assert (day[:4] == 0).all()
    assert 20e3 < day.max() < 100e3


def test_marks_of_missing_values_are_no_numbers(place):
    rows = row(2019, 6, 1, 1) + row(2019, 6, 1, 2, air=99.9) + row(2019, 6, 1, 3, wind=999)
    path = place(rows + row(2019, 6, 1, 4, ghi=9999) + row(2019, 6, 1, 5))
    air, speed = read_epw(path).readings("temp_air", "degC"), read_epw(path).wind().speed
    assert air.report.dropped == speed.report.dropped == {"value missing": 1}
    assert (len(air), len(speed), len(read_epw(path).sun().ghi_w_m2)) == (4, 4, 2)
    assert air.report.lines == {"value missing": [10]}


def test_rows_of_no_date_and_of_no_number_are_dropped_and_counted(place):
    rows = year().splitlines(keepends=True)
    rows[3] = rows[3].replace("1987,1,1,4,", "1987,1,1,25,")
    rows[30] = rows[30].replace("1987,1,2,7,", "1987,2,30,7,")
    rows[50] = row(1987, 1, 3, 3, air="x")
    rows[60] = row(1987, 1, 3, 13, air="")
    rows.insert(10, "\n")
    trace = read_epw(place("".join(rows))).readings("temp_air", "degC")
    assert len(trace) == 8760 - 4
    assert trace.report.dropped == {
        "date that cannot be": 2, "value not a number": 1, "value missing": 1,
    }  # fmt: skip
    assert trace.report.lines["date that cannot be"] == [12, 40]
    assert trace.report.examples["date that cannot be"] == "1987,1,1,25"
    assert trace.report.lines["value not a number"] == [60]


@pytest.mark.parametrize(
    ("rows", "keys", "what"),
    [
        ("", {"head": "time,ghi\n"}, ":1: EnergyPlus weather begins with LOCATION"),
        (row(2019, 6, 1, 1), {"periods": "1,4"}, ":8: 4 rows an hour; only files with one row"),
        (row(2019, 13, 1, 1), {}, ": no row is left: date that cannot be 1"),
        (row(2019, 6, 1, 1, air="warm"), {}, ": no row is left: value not a number 1"),
        ("", {}, ": "),
    ],
)
def test_other_files_are_refused(place, rows, keys, what):
    path = place(rows, **keys)
    with pytest.raises(TraceError) as caught:
        read("temperature", path)
    assert str(caught.value).startswith(f"{path}{what}")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("csv", {"column": "ghi", "unit": "W/m2"}), ("nsrdb", {"rated_w": 1e3}),
     ("wind-toolkit", {"rated_w": 1e3})],
)  # fmt: skip
def test_other_kinds_of_signals_refuse_it_with_its_own(place, kind, fields):
    path = place(row(2019, 6, 1, 1))
    with pytest.raises(TraceError, match="place.epw:1: .* epw-solar, epw-wind or epw-temperature"):
        SIGNALS.find(kind).of(path=path, **fields).read()
