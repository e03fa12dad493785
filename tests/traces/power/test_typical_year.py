"""Typical years: files whose months are of different years become one year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.power.signal_align import Alignment, aligned
from simkit.power.signal_trace import Gaps, step_function
from simkit.scenario.signals import SIGNALS
from simkit.traces.power import read_power

YEARS = (2007, 2004, 2015, 2009, 2009, 2013, 1999, 2001, 2018, 2010, 2003, 2016)
"""The year of each month."""
JUNE = datetime(2021, 6, 1, tzinfo=UTC).timestamp()


def month(year, number, *, leap_day=False):
    """Yield the hours of a month."""
    at = datetime(year, number, 1, tzinfo=UTC)
    while at.month == number:
        if leap_day or (at.month, at.day) != (2, 29):
            yield at
        at += timedelta(hours=1)


def hours(years=YEARS, **keys):
    return [at for number, year in enumerate(years, 1) for at in month(year, number, **keys)]


def value(at):
    """Return a number that tells month, day and hour."""
    return at.month * 10_000 + at.day * 100 + at.hour


@pytest.fixture
def write(tmp_path):
    def table(times, form="%Y-%m-%d %H:%M", name="tmy.csv"):
        path = tmp_path / name
        rows = (f"{at.strftime(form)},{value(at)}\n" for at in times)
        path.write_text("time,x\n" + "".join(rows))
        return path

    return table


def read(path, **keys):
    return read_power(path, **{"column": "x", "unit": "W", "zone": "UTC"} | keys)


def on_june(trace, **keys):
    return aligned(trace, Alignment("calendar", epoch_s=JUNE, time_zone="UTC"), **keys)


def test_the_first_of_june_is_the_first_of_june(write):
    trace = read(write(hours()))
    assert trace.typical
    assert trace.notes == (
        "typical year: months of 1999 to 2018 are one year without a date, shown as 1990",
    )
    assert np.diff(trace.time_s).tolist() == [3600] * 8759
    signal = on_june(trace)
    assert signal.value(0.0) == 60_100
    assert signal.value(13 * 3600.0) == 60_113
    assert signal.value(30 * 86_400.0) == 70_100  # the next month is of another year
    plain = on_june(read(write(hours([2010] * 12), name="2010.csv")))
    year = 3600.0 * np.arange(8760)
    assert (signal.values(year) == plain.values(year)).all()


def test_29_february_and_a_doubled_day(write):
    whole = hours(leap_day=True)  # February is of 2004
    trace = read(write(whole))
    assert len(trace) == 8784
    assert "shown as 1992" in trace.notes[0]
    last = datetime(2024, 2, 29, 5, tzinfo=UTC).timestamp() - JUNE
    assert on_june(trace).value(last) == 22_905
    twice = hours()
    day = [at for at in twice if (at.month, at.day) == (2, 28)]
    at = twice.index(day[-1]) + 1
    doubled = read(write(twice[:at] + day + twice[at:], name="twice.csv"))
    assert doubled.report.dropped == {"repeated time": 24}
    assert on_june(doubled).value(last) == 22_805  # without 29 February, 28 February again


def test_rows_at_the_ends_of_hours_and_rows_in_order_of_their_dates(write):
    ends = read(write([at + timedelta(hours=1) for at in hours()]), label="end")
    assert ends.typical  # the last hour of a month ends in the next one
    assert np.diff(ends.time_s).tolist() == [3600] * 8759
    in_order = read(write(sorted(hours()), name="sorted.csv"))
    assert in_order.typical
    assert (in_order.time_s == read(write(hours())).time_s).all()


@pytest.mark.parametrize(
    "times",
    [
        hours([2010] * 12),
        hours([2010] * 12)[4000:] + hours([2011] * 12)[:4000],  # from July to June
        hours([2010] * 12) + hours([2011] * 12),
        [at for at in hours([2010] * 12) if at.month != 5],  # a month is missing
        hours([2010] * 12)[:300] + hours([2012] * 12)[4000:],  # a gap of two years
    ],
)
def test_other_files_keep_their_dates(write, times):
    trace = read(write(times))
    assert not trace.typical
    assert trace.time_s[0] == times[0].timestamp()


def test_a_key_says_whether_it_is_one(write):
    path = write(hours())
    dated = read(path, typical_year=False)
    assert not dated.typical
    assert dated.time_s[0] == datetime(1999, 7, 1, tzinfo=UTC).timestamp()
    half = read(write(hours([2010] * 12), name="2010.csv"), typical_year=True)
    assert half.typical
    both = write(hours([2010] * 12) + hours([2011] * 12), name="both.csv")
    with pytest.raises(TraceError, match="rows of different years have the same month and day"):
        read(both, typical_year=True)


def test_a_typical_year_has_no_date_in_history(write):
    trace = read(write(hours()))
    with pytest.raises(TraceError, match="is a typical year, .* align by calendar or offset"):
        aligned(trace, Alignment("epoch", epoch_s=JUNE))
    assert aligned(trace, Alignment("offset")).value(0.0) == 10_100


def test_no_rule_is_advised_for_gaps_longer_than_a_day(write):
    trace = read(write(hours()), typical_year=False)
    for gaps in (Gaps(), Gaps(rule="hold")):
        with pytest.raises(TraceError) as caught:
            step_function(trace, gaps)
        said = str(caught.value)
        assert "set typical_year: true" in said
        assert "the rule hold" not in said
        assert "raise longest" not in said
    short = write([at for at in hours([2010] * 12) if at.day != 5 or at.hour > 9], name="5th.csv")
    with pytest.raises(TraceError, match="fill them with the rule hold"):
        step_function(read(short), Gaps())


NSRDB = "Source,Latitude,Longitude,Time Zone,Elevation,Local Time Zone\nNSRDB,33,-97,-6,100,-6\n"


def test_solar_power_of_a_typical_year_of_the_nsrdb(tmp_path):
    pytest.importorskip("pvlib")

    def sun(years, name):
        path = tmp_path / name
        rows = (
            f"{at.year},{at.month},{at.day},{at.hour},30,{max(0, 9 - abs(at.hour - 12)) * 90},"
            "500,100,20,2\n"
            for at in hours(years)
        )
        head = "Year,Month,Day,Hour,Minute,GHI,DNI,DHI,Temperature,Wind Speed\n"
        path.write_text(NSRDB + head + "".join(rows))
        return SIGNALS.find("nsrdb").of(path=path, rated_w=1e5).read()

    typical, plain = sun(YEARS, "tmy.csv"), sun([2010] * 12, "2010.csv")
    assert typical.typical
    assert not plain.typical
    days = [on_june(trace).integral(0.0, 86_400.0) for trace in (typical, plain)]
    assert days[0] == pytest.approx(days[1], rel=1e-3)
    assert days[0] > 100e3 * 3600
