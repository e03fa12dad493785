"""Power from CSV files: units, zones and daylight saving; every row is accounted for."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.power.signal_trace import Gaps, step_function
from simkit.traces.power import RULES as MEANINGS
from simkit.traces.power import CarbonSignal, GenerationSignal, PriceSignal, read_power

DALLAS = "America/Chicago"


def refused(read, *args, **options):
    with pytest.raises(TraceError) as caught:
        read(*args, **options)
    return str(caught.value)


def clock(trace, zone):
    return [f"{datetime.fromtimestamp(t, ZoneInfo(zone)):%d %H:%M %z}" for t in trace.time_s]


def test_columns_become_watts_at_unix_times(table):
    path = table("x,time,kw", "?,2012-07-01 00:00:00,1.5", "?,2012-07-01T01:00,2")
    trace = read_power(path, column="kw", unit="kW", zone=DALLAS)
    assert trace.value.tolist() == [1500, 2000]
    assert clock(trace, DALLAS) == ["01 00:00 -0500", "01 01:00 -0500"]
    assert (trace.unit, trace.step_s, trace.time_zone) == ("W", 3600, DALLAS)
    assert (trace.label, trace.sampling, trace.inputs) == ("start", "mean", (path,))
    assert trace.report.read == trace.report.accepted == 2


@pytest.mark.parametrize(
    ("unit", "value", "expected", "becomes"),
    [
        ("W", 3, 3, "W"),
        ("MW", 3, 3e6, "W"),
        ("kWh", 3, 6e3, "W"),  # in half an hour
        ("MWh", 3, 6e6, "W"),
        ("gCO2/kWh", 3, 3, "gCO2/kWh"),
        ("tCO2/MWh", 0.3, 300, "gCO2/kWh"),
        ("lbCO2/MWh", 1000, 453.59237, "gCO2/kWh"),
        ("price/MWh", 40, 0.04, "price/kWh"),
        ("degF", 212, 100, "degC"),
    ],
)
def test_units(table, unit, value, expected, becomes):
    path = table("time,x", f"2012-01-01 00:00,{value}", f"2012-01-01 00:30,{value}")
    trace = read_power(path, column="x", unit=unit, zone="UTC")
    assert trace.unit == becomes
    assert trace.value.tolist() == pytest.approx([expected, expected])


def test_another_unit_or_zone_than_the_file_says_is_refused(table):
    path = table("time,solar_kw,Datetime (UTC)", "2012-01-01 00:00+00:00,1,2012-01-01 00:00")
    text = refused(read_power, path, column="solar_kw", unit="MW", zone="UTC")
    assert text.startswith(f"{path}: column 'solar_kw' names kW, but unit 'MW' is declared")
    text = refused(read_power, path, column="solar_kw", unit="kW", zone=DALLAS)
    assert "times carry their own offset from UTC, but zone 'America/Chicago'" in text
    text = refused(
        read_power, path, column="solar_kw", unit="kW", time="Datetime (UTC)", zone=DALLAS
    )
    assert "column 'Datetime (UTC)' is in UTC, but zone 'America/Chicago' is declared" in text
    assert "unit 'kw' is unknown; did you mean 'kW'" in refused(
        read_power, path, column="solar_kw", unit="kw"
    )


def test_a_file_that_has_the_repeated_hour_once_has_a_gap(table):
    path = table("time,kw", *(f"2022-11-06 0{hour}:00,1" for hour in range(4)))
    trace = read_power(path, column="kw", unit="kW", zone=DALLAS)
    assert np.diff(trace.time_s).tolist() == [3600, 7200, 3600]
    with pytest.raises(TraceError, match=r"gaps from 2022-11-06 01:00 CST for 01:00:00"):
        step_function(trace, Gaps())


def test_an_hour_that_the_clock_skipped_is_left_out(table):
    path = table("time,kw", *(f"2022-03-13 0{hour}:00,{hour}" for hour in range(5)))
    trace = read_power(path, column="kw", unit="kW", zone=DALLAS)
    assert trace.value.tolist() == [0, 1000, 3000, 4000]
    assert np.diff(trace.time_s).tolist() == [3600] * 3
    assert trace.report.dropped == {"time skipped by the clock": 1}
    assert trace.report.lines == {"time skipped by the clock": [4]}
    standard = read_power(path, column="kw", unit="kW", zone="UTC-06:00")
    assert standard.report.accepted == 5


def test_rows_are_accepted_or_left_out_by_rule(table):
    path = table(
        "time,kw",
        "2012-01-01 02:00,3",
        "2012-01-01 00:00,1",  # out of order
        "2012-01-01 00:00,7",  # repeated
        "2012-01-01 01:00,",  # no value
        "2012-01-01 03:00,nan",
        "2012-01-01 04:00,x",
        "noon,5",
        ",5",
        "2012-01-01 05:00,-2",  # a plant that consumes
    )
    trace = read_power(path, column="kw", unit="kW", zone="UTC", step=3600.0)
    assert trace.value.tolist() == [1000, 3000, -2000]
    report = trace.report
    assert report.balanced()
    assert (report.read, report.accepted) == (9, 3)
    assert report.dropped == {"time unreadable": 2, "value missing": 2,
                              "value not a number": 1, "repeated time": 1}  # fmt: skip
    assert report.notes == {"out of time order": 1, "negative power": 1}
    assert report.lines["value missing"] == [5, 6]
    assert report.examples == {"time unreadable": "noon", "value missing": "",
                               "value not a number": "x", "repeated time": "2012-01-01 00:00"}  # fmt: skip
    assert set(report.lines) <= MEANINGS.keys()


IRREGULAR = ("00:00,0", "00:10,1", "00:20,2", "00:35,3", "00:50,4", "01:20,5")


@pytest.mark.parametrize(
    ("label", "minutes", "lines"),
    [
        # the row at 00:50 stands beside a gap, as long as the one before it; the last between a
        # gap and the end, as the regular step
        ("start", (10, 10, 15, 15, 15, 10), [4, 5, 6]),
        ("end", (10, 10, 10, 15, 15, 10), [5, 6]),
    ],
)
def test_energy_is_divided_by_the_interval_that_a_row_has(table, label, minutes, lines):
    path = table("time,kwh", *(f"2012-01-01 {row}" for row in IRREGULAR))
    trace = read_power(path, column="kwh", unit="kWh", zone="UTC", label=label)
    assert trace.step_s == 600
    assert trace.value == pytest.approx([60e3 * n / m for n, m in enumerate(minutes)])
    starts, values, end = step_function(trace, Gaps(rule="zero"))
    assert values @ np.diff(starts, append=end) == pytest.approx(15 * 3.6e6)
    assert trace.report.notes == {"interval of another length": len(lines)}
    assert trace.report.lines["interval of another length"] == lines
    assert set(trace.report.lines) <= MEANINGS.keys()


HALVES = ("00:00", "00:30", "01:00", "01:30")
QUARTERS = ("02:00", "02:15", "02:30")


@pytest.mark.parametrize(
    ("times", "label", "options", "megawatts"),
    [
        # 5 MWh in each row. Half hours, then quarters: the last is as long as the one before it.
        ((*HALVES, *QUARTERS), "start", {}, [10, 10, 10, 10, 20, 20, 20]),
        # where times are ends, each row tells its length; the first is as long as the second
        ((*HALVES, *QUARTERS), "end", {}, [10, 10, 10, 10, 10, 20, 20]),
        # quarters, then half hours: the step is a half hour, and the first ends a quarter
        (("23:30", "23:45", *HALVES), "end", {}, [20, 20, 20, 10, 10, 10]),
        (("23:30", "23:45", *HALVES), "start", {}, [20, 20, 10, 10, 10, 10]),
        # a row is missing after the first two quarters: they stay quarters
        (
            (*HALVES, "02:00", "02:15", "03:30", "03:45"),
            "start",
            {},
            [10, 10, 10, 10, 20, 20, 20, 20],
        ),
        (
            (*HALVES, "02:00", "03:30", "03:45", "04:00"),
            "end",
            {},
            [10, 10, 10, 10, 10, 20, 20, 20],
        ),
        # a declared step is that of the rows that do not tell their length
        ((*HALVES, *QUARTERS), "start", {"step": 1800.0}, [10, 10, 10, 10, 20, 20, 10]),
        (("23:30", "23:45", *HALVES), "end", {"step": 1800.0}, [10, 20, 20, 10, 10, 10]),
    ],
)
def test_the_last_of_mixed_intervals_is_as_long_as_its_neighbour(
    table, times, label, options, megawatts
):
    rows = [f"2012-01-0{1 if time >= '23' else 2} {time},5" for time in times]
    path = table("time,mwh", *rows)
    read = read_power(path, column="mwh", unit="MWh", zone="UTC", label=label, **options)
    assert read.step_s == 1800
    assert (read.value / 1e6).tolist() == pytest.approx(megawatts)
    starts, values, end = step_function(read, Gaps(rule="zero"))
    assert values @ np.diff(starts, append=end) == pytest.approx(5 * 3.6e9 * len(times))


@given(st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1e6)), min_size=2, max_size=30))
def test_a_file_of_energies_holds_as_much_when_it_is_read(tmp_path_factory, rows):
    minutes = np.cumsum([minute for minute, _ in rows]).tolist()
    lines = [f"2012-01-{1 + m // 1440:02d} {m // 60 % 24:02d}:{m % 60:02d}" for m in minutes]
    path = tmp_path_factory.mktemp("energy") / "energy.csv"
    shown = [f"{time},{kwh!r}" for time, (_, kwh) in zip(lines, rows, strict=True)]
    path.write_text("\n".join(["time,kwh", *shown]) + "\n")
    trace = read_power(path, column="kwh", unit="kWh", zone="UTC")
    starts, values, end = step_function(trace, Gaps(rule="zero", longest=1e9))
    energy = values @ np.diff(starts, append=end)
    assert energy == pytest.approx(3.6e6 * sum(kwh for _, kwh in rows), rel=1e-9, abs=1e-3)


def test_an_energy_is_no_reading_at_an_instant(table):
    path = table("time,kwh", "2012-01-01 00:00,1", "2012-01-01 01:00,2")
    text = refused(read_power, path, column="kwh", unit="kWh", zone="UTC", sampling="instant")
    assert text.startswith(f"{path}: kwh: an energy is that of an interval")


def test_a_single_row_tells_what_became_of_the_others(table):
    path = table(
        "time,kw", "2012-01-01 00:00,1", "2012-01-01 01:00,", "noon,3", "2012-01-01 02:00,x"
    )
    text = refused(read_power, path, column="kw", unit="kW", zone="UTC")
    assert text.startswith(f"{path}: kw: the step cannot be found")
    for dropped in ("time unreadable 1 (line 4)", "missing 1 (line 3)", "not a number 1 (line 5)"):
        assert dropped in text
    assert read_power(path, column="kw", unit="kW", zone="UTC", step=600).step_s == 600


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["time,kW", "2012-01-01 00:00,1"], ":1: no column 'kw'; did you mean 'kW'"),
        (["time,kw,kw", "2012-01-01 00:00,1,2"], ":1: column 'kw' is there 2 times; rename one"),
        (["time,kw"], ": no rows below the header"),
        (["time,kw", "2012-01-01 00:00,1,2"], ":2: 3 fields, the header has 2"),
        (["time,kw", "2012-01-01 00:00,"], "no row is left: value missing 1; check the column"),
        (
            ["time,kw", "2012-01-01 00:00,4"],
            "the step cannot be found from a single row; give step",
        ),
    ],
)
def test_files_that_are_none(table, lines, what):
    path = table(*lines)
    text = refused(read_power, path, column="kw", unit="kW", zone="UTC")
    assert text.startswith(str(path))
    assert what in text


def test_the_grid(table):
    eia = table("timestamp,WND,SUN,avg_CI", "2022-01-01 00:00:00+00:00,16317,50,334.2",
                "2022-01-01 01:00:00+00:00,18425,0,311.3")  # fmt: skip
    named = {name: GenerationSignal.of(path=eia, source=name) for name in ("wind", "solar", "gas")}
    assert named["wind"].read().value.tolist() == [16317e6, 18425e6]
    assert named["solar"].read().value.tolist() == [50e6, 0]
    assert f"{eia}:1: no column 'NG'; known: " in refused(named["gas"].read)
    assert CarbonSignal.of(path=eia).read().value.tolist() == [334.2, 311.3]
    prices = table("time,spot", "2022-01-01 00:00,-5", "2022-01-01 01:00,40", name="price.csv")
    columns = {"path": prices, "column": "spot", "zone": "UTC"}
    assert PriceSignal.of(**columns).read().value.tolist() == [-0.005, 0.04]
    unknown = refused(CarbonSignal.of(path=prices).read)
    assert "match no known layout of carbon intensity" in unknown
    assert CarbonSignal.of(**columns, time="time").read().value.tolist() == [-5, 40]


SECONDS = (",berlin", "0,0.1", "300,0.2", "600,0.4")
BERLIN = {"column": "berlin", "unit": "kW", "time": ""}


def test_seconds_from_a_zero_are_read_with_its_date(table):
    path = table(*SECONDS)
    zone = {"zone": "Europe/Berlin", "zero": "2022-06-15 00:00"}
    trace = read_power(path, label="end", **BERLIN, **zone)
    assert trace.time_s.tolist() == [1655244000 + n for n in (0, 300, 600)]  # UTC+02:00
    assert (trace.value.tolist(), trace.step_s) == ([100.0, 200.0, 400.0], 300.0)
    for keys in ({"zero": "2022-06-15T00:00+02:00"}, zone | {"zero": "2022-06-15"}):
        assert read_power(path, **BERLIN, **keys).time_s.tolist() == trace.time_s.tolist()


@pytest.mark.parametrize(
    ("keys", "remedy"),
    [
        ({"zone": "UTC"}, 'give zero, the date of number 0: zero: "2020-01-01 00:00"'),
        ({"zone": "UTC", "zero": "soon"}, "zero: no time can be read, the first is 'soon'"),
        ({"zero": "2022-06-15 00:00"}, "zero: times without a time zone"),
    ],
)
def test_seconds_without_a_usable_zero_are_refused(table, keys, remedy):
    assert remedy in refused(read_power, table(*SECONDS), **BERLIN, **keys)


def test_dates_need_no_zero(table):
    path = table("time,kw", "2022-06-15 00:00,1", "2022-06-15 00:05,2")
    keys = {"column": "kw", "unit": "kW", "zone": "UTC", "zero": "2022-06-15 00:00"}
    assert "leave zero out" in refused(read_power, path, **keys)
