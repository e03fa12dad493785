"""Times in seconds from a zero, as Vessim's files have; EnergyPlus weather; many malformed lines."""

import pytest

from simkit.errors import TraceError
from simkit.scenario.signals import SIGNALS
from simkit.traces.power import read_power

ROWS = ",berlin\n0,0.1\n300,0.2\n600,0.4\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="vessim.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def refused(path, **fields):
    with pytest.raises(TraceError) as caught:
        read_power(path, **{"column": "berlin", "unit": "kW", "time": ""} | fields)
    return str(caught.value).removeprefix(f"{path}")


def test_seconds_from_a_zero_are_read_with_its_date(file):
    path = file(ROWS)
    zone = {"zone": "Europe/Berlin", "zero": "2022-06-15 00:00"}
    trace = read_power(path, column="berlin", unit="kW", time="", label="end", **zone)
    assert trace.time_s.tolist() == [1655244000 + n for n in (0, 300, 600)]  # UTC+02:00
    assert (trace.value.tolist(), trace.step_s) == ([100.0, 200.0, 400.0], 300.0)
    there = read_power(path, column="berlin", unit="kW", time="", zero="2022-06-15T00:00+02:00")
    assert there.time_s.tolist() == trace.time_s.tolist()
    day = read_power(path, column="berlin", unit="kW", time="", **zone | {"zero": "2022-06-15"})
    assert day.time_s.tolist() == trace.time_s.tolist()


def test_unix_times_are_recognised_and_may_be_declared(file):
    path = file("time,berlin\n1655244000,1\n1655244300,2\n")
    for keys in ({}, {"zero": "1970-01-01T00:00Z"}, {"time_format": "seconds"}):
        trace = read_power(path, column="berlin", unit="kW", **keys)
        assert trace.time_s.tolist() == [1655244000, 1655244300]
        assert trace.report.notes == ({} if keys else {"Unix times in seconds": 1})


def test_seconds_without_a_zero_are_refused_with_the_remedy(file):
    found = refused(file(ROWS), zone="UTC")
    assert found.startswith(": : no time can be read, the first is '0'; if the times are numbers")
    assert 'give zero, the date of number 0: zero: "2020-01-01 00:00"' in found


def test_a_zero_must_be_a_date_on_a_known_clock_and_the_only_form(file):
    path = file(ROWS)
    assert "zero: no time can be read, the first is 'soon'" in refused(
        path, zero="soon", zone="UTC"
    )
    assert "zero: times without a time zone" in refused(path, zero="2022-06-15 00:00")
    assert "time_format for dates; give one" in refused(
        path, zero="2022-06-15 00:00", time_format="%Y%m%d"
    )
    dates = file("time,berlin\n2022-06-15 00:00,1\n2022-06-15 00:05,2\n", "dates.csv")
    found = refused(dates, time="time", zero="2022-06-15 00:00", zone="UTC")
    assert "numbers of seconds, but the first is '2022-06-15 00:00'; leave zero out" in found


EPW = "LOCATION,Lubbock,TX,USA,TMY3,722670,33.67,-101.82,-6.0,988.0\n" + "\n".join(
    ["DESIGN CONDITIONS,0", "TYPICAL/EXTREME PERIODS,0", "GROUND TEMPERATURES,0",
     "HOLIDAYS/DAYLIGHT SAVINGS,No,0,0,0", "COMMENTS 1,x", "COMMENTS 2,y",
     "DATA PERIODS,1,1,Data,Sunday, 1/ 1,12/31"]
) + "\n"  # fmt: skip
HOUR = ",60,?9?9,{air},1.0,57,90500,0,1415,280,{ghi},0,{ghi},0,0,0,0,290,3.6,5,5,16.1,77777,9,99" \
    ",9,0.05,0,88,0,0,0\n"  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("csv", {"column": "ghi", "unit": "W/m2"}), ("nsrdb", {"rated_w": 1e3}),
     ("wind-toolkit", {"rated_w": 1e3})],
)  # fmt: skip
def test_energyplus_weather_of_another_type_is_refused_with_its_own(file, kind, fields):
    path = file(EPW, "place.epw")
    with pytest.raises(TraceError) as caught:
        SIGNALS.find(kind).of(path=path, **fields).read()
    assert str(caught.value).startswith(f"{path}:1: this is EnergyPlus weather (EPW)")
    assert "read it as type epw-solar, epw-wind or epw-temperature" in str(caught.value)


def test_all_lines_with_too_many_fields_are_named(file):
    rows = "".join(f"2022-06-15 00:{n:02},1,2,3\n" for n in range(30))
    path = file(f"time,berlin\n{rows}")
    found = refused(path, time="time", zone="UTC").splitlines()
    assert found[0].startswith(":2: 4 fields, the header has 2")
    assert len(found) == 22
    assert found[20] == "… and 10 more malformed lines"
    assert "if the comma is the decimal sign" in found[21]
