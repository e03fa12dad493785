"""Alignment: a log of one year meets the weather of another."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.dates import is_utc
from simkit.errors import TraceError
from simkit.power.signal_align import Alignment, aligned
from simkit.power.signal_trace import Gaps, PowerTrace
from simkit.workload.workload import Span

HOUR, DAY = 3600.0, 86_400.0


def at(*when, hours=0):
    return datetime(*when, tzinfo=timezone(timedelta(hours=hours))).timestamp()


def hourly(first, after, zone="UTC"):
    """A trace whose value tells its own hour: its Unix time in hours."""
    times = np.arange(first, after, HOUR)
    return PowerTrace(times, times / HOUR, unit="W", time_zone=zone, name="weather")


def moment(signal, epoch, instant):
    """The instant of the trace that a signal shows at an instant of the run."""
    return datetime.fromtimestamp(signal.value(instant - epoch) * HOUR, UTC)


def test_epoch_is_the_same_instant_in_history():
    epoch = at(2012, 3, 1, 5)
    signal = aligned(hourly(at(2012, 1, 1), at(2013, 1, 1)), Alignment("epoch", epoch_s=epoch))
    assert moment(signal, epoch, at(2012, 6, 1, 12)) == datetime(2012, 6, 1, 12, tzinfo=UTC)
    assert signal.end_s == at(2013, 1, 1) - epoch
    with pytest.raises(TraceError, match="weather: no value at .* past its end"):
        signal.value(signal.end_s)


def test_offset_starts_so_far_into_the_trace():
    year = hourly(at(2012, 1, 1), at(2013, 1, 1))
    signal = aligned(year, Alignment("offset", offset_s=36 * HOUR), past_end="wrap", factor=2.0)
    assert signal.value(0.0) == 2 * year.value[36]
    assert signal.value(365 * DAY) == 2 * year.value[12]  # 2012 has 366 days


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        ((1998, 4, 24, 17), (2012, 4, 24, 17)),
        ((1998, 12, 31, 23), (2012, 12, 31, 23)),
        ((1999, 1, 1, 0), (2012, 1, 1, 0)),  # wrapped at the year's end
        ((1998, 2, 28, 23), (2012, 2, 28, 23)),
        ((1999, 3, 1, 0), (2012, 3, 1, 0)),  # 1999 has no 29 February: it is passed over
        ((2000, 2, 29, 12), (2012, 2, 29, 12)),
        ((2100, 3, 1, 0), (2012, 3, 1, 0)),  # 2100 is no leap year
    ],
)
def test_calendar_is_the_same_month_day_and_hour(run, shown):
    epoch = at(1998, 4, 24)
    signal = aligned(hourly(at(2012, 1, 1), at(2013, 1, 1)), Alignment("calendar", epoch_s=epoch))
    assert moment(signal, epoch, at(*run)) == datetime(*shown, tzinfo=UTC)
    assert signal.values(at(*run) - epoch) == signal.value(at(*run) - epoch)


def test_a_trace_without_29_february_shows_28_february_twice():
    epoch = at(2012, 1, 1)
    signal = aligned(hourly(at(2022, 1, 1), at(2023, 1, 1)), Alignment(epoch_s=epoch))
    shown = [moment(signal, epoch, at(2012, *day)) for day in ((2, 28, 7), (2, 29, 7), (3, 1, 7))]
    assert shown == [
        datetime(2022, 2, 28, 7, tzinfo=UTC),
        datetime(2022, 2, 28, 7, tzinfo=UTC),
        datetime(2022, 3, 1, 7, tzinfo=UTC),
    ]


def test_of_several_years_the_first_that_has_a_day_counts():
    epoch = at(1998, 1, 1)
    signal = aligned(hourly(at(2016, 11, 1), at(2019, 7, 1)), Alignment(epoch_s=epoch))
    years = [moment(signal, epoch, at(1998, month, 5)).year for month in (1, 6, 10, 11, 12)]
    assert years == [2017, 2017, 2017, 2016, 2016]
    # 2016's February is before the start, 2017's has 28 days
    assert moment(signal, epoch, at(2004, 2, 29, 3)) == datetime(2017, 2, 28, 3, tzinfo=UTC)


def test_noon_in_san_diego_meets_noon_in_dallas_in_summer_too():
    year = hourly(at(2012, 1, 1, hours=-6), at(2013, 1, 1, hours=-6), zone="America/Chicago")
    epoch = at(1998, 7, 1)
    signal = aligned(year, Alignment(epoch_s=epoch, time_zone="America/Los_Angeles"))
    # standard time on both sides: the sun knows no daylight saving
    shown = signal.value(at(1998, 7, 1, 12, hours=-8) - epoch) * HOUR
    assert shown == at(2012, 7, 1, 12, hours=-6)


def test_a_year_of_utc_fills_the_calendar_of_another_zone():
    year = hourly(at(2022, 1, 1), at(2023, 1, 1))
    local = PowerTrace(year.time_s, year.value, unit="W", time_zone="America/Chicago")
    signal = aligned(local, Alignment(epoch_s=0.0))
    # in UTC the evening of 31 December 2021 in Chicago is in January 2022
    assert signal.value(at(1970, 12, 31, 20, hours=-6)) * HOUR == at(2022, 1, 1, 2)


SIGNAL = aligned(
    hourly(at(2022, 1, 1), at(2023, 1, 1)), Alignment(epoch_s=at(1999, 6, 1)), factor=1.0
)


@given(st.integers(0, 600 * 24 * 4), st.integers(0, 400 * 24 * 4))
def test_calendar_values_changes_and_integrals_agree(start, length):
    a, b = start * 900.0, (start + length) * 900.0
    quarters = np.arange(a, b, 900.0)
    values = SIGNAL.values(quarters)
    assert SIGNAL.integral(a, b) == pytest.approx(values.sum() * 900.0, rel=1e-12)
    pieces_s, heights = SIGNAL.pieces(a, b)
    assert (heights * np.diff(pieces_s, append=b)).sum() == pytest.approx(
        SIGNAL.integral(a, b), rel=1e-12
    )
    change = SIGNAL.next_change(a)
    assert a < change <= a + HOUR
    assert set(SIGNAL.values(np.arange(a, change, 900.0)).tolist()) == {SIGNAL.value(a)}


def test_less_than_a_year_is_refused_or_filled():
    short = hourly(at(2016, 1, 1), at(2016, 12, 31))
    with pytest.raises(
        TraceError, match=r"no year in it has 31 Dec 00:00 for 1d 00:00:00"
    ) as caught:
        aligned(short, Alignment(epoch_s=0.0), needed=Span(-60.0, 5 * HOUR))
    assert str(caught.value).startswith(
        "weather: covers from 2016-01-01 00:00 to 2016-12-31 00:00, and the run needs power from "
        "1969-12-31 23:59 to 1970-01-01 05:00; align calendar needs every hour of a year"
    )
    with pytest.raises(TraceError, match="allows 03:00:00; align by epoch or offset"):
        aligned(short, Alignment(epoch_s=0.0), gaps=Gaps(rule="hold"))
    held = aligned(short, Alignment(epoch_s=0.0), gaps=Gaps(rule="hold", longest=DAY))
    assert moment(held, 0.0, at(1970, 12, 31, 15)) == datetime(2016, 12, 30, 23, tzinfo=UTC)
    dark = aligned(short, Alignment(epoch_s=0.0), gaps=Gaps(rule="zero", longest=DAY))
    assert dark.value(at(1970, 12, 31, 15)) == 0
    line = aligned(short, Alignment(epoch_s=0.0), gaps=Gaps(rule="interpolate", longest=DAY))
    last, first = short.value[-1], short.value[0]
    assert line.value(at(1970, 12, 31, 0)) == pytest.approx(last + (first - last) / 25)


def test_a_january_that_is_missing_is_filled_from_the_december_before():
    late = hourly(at(2016, 1, 2), at(2017, 1, 1))
    held = aligned(late, Alignment(epoch_s=0.0), gaps=Gaps(rule="hold", longest=DAY))
    assert held.value(0.0) == late.value[-1]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Alignment("calender", epoch_s=0.0), "is unknown; did you mean 'calendar'"),
        (lambda: Alignment(), "calendar needs the date"),
        (lambda: Alignment("epoch"), "epoch needs the date"),
        (lambda: Alignment("offset", offset_s=float("inf")), "offset_s is inf"),
        (lambda: Alignment("epoch", epoch_s=0.0, offset_s=5.0), "belongs to align offset"),
    ],
)
def test_alignments_that_make_no_sense(make, what):
    with pytest.raises(TraceError, match=what):
        make()


@pytest.mark.parametrize("utc", ["UTC", "GMT", "UTC+00:00", "Etc/UTC", "Zulu"])
def test_utc_of_an_unknown_place_is_refused_on_another_clock(utc):
    year = replace(hourly(at(2012, 1, 1), at(2013, 1, 1), utc), place_known=False)
    epoch = at(1998, 7, 1)
    west = "America/Los_Angeles"
    with pytest.raises(TraceError) as caught:
        aligned(year, Alignment(epoch_s=epoch, time_zone=west))
    assert str(caught.value) == (
        f"weather: its times are in {utc} and nothing says where its place is, but the run's zone "
        f"is {west}; align calendar would take 12:00 {utc} for 12:00 in {west}: declare the zone "
        "of the place as site_zone (site_zone: UTC if that is meant), or align by epoch or offset"
    )
    # nothing is compared, or the run is on that clock, too, or it is said where the place is
    aligned(year, Alignment("epoch", epoch_s=epoch, time_zone=west))
    aligned(year, Alignment("offset", time_zone=west))
    for zone in (None, "UTC", "Etc/GMT"):
        aligned(year, Alignment(epoch_s=epoch, time_zone=zone))
    aligned(replace(year, place_known=True), Alignment(epoch_s=epoch, time_zone=west))


def test_london_is_a_place():
    assert not any(map(is_utc, ("Europe/London", "Africa/Abidjan", "UTC-01:00", "Iceland")))
