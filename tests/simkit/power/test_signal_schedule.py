"""Schedules follow the local clock: weekdays, weekends, and daylight saving."""

from __future__ import annotations

import math
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.dates import parse_zone, standard_offset_s, weekly
from simkit.errors import ScenarioError, TraceError
from simkit.power.signal_patterns import Schedule
from simkit.scenario.signals import SIGNALS, Pattern
from simkit.units import WEEK_S
from simkit.verify.site.signals import recurring

HOUR = 3600.0
DALLAS = ZoneInfo("America/Chicago")
DAY_AND_NIGHT = {7 * HOUR: 0.30, 22 * HOUR: 0.12}


def dallas(*when):
    return datetime(*when, tzinfo=DALLAS).timestamp()


def changes(signal, start, count):
    at = [start]
    for _ in range(count):
        at.append(signal.next_change(at[-1]))
    return at[1:]


def test_a_day_repeats_and_begins_with_the_value_of_the_evening_before():
    tariff = Schedule(DAY_AND_NIGHT, unit="price/kWh")
    assert [tariff.value(h * HOUR) for h in (0, 6.99, 7, 21, 22, 24, 31)] == [
        0.12, 0.12, 0.30, 0.30, 0.12, 0.12, 0.30,
    ]  # fmt: skip
    assert changes(tariff, 0.0, 3) == [7 * HOUR, 22 * HOUR, 31 * HOUR]
    assert tariff.integral(0.0, 24 * HOUR) == pytest.approx((15 * 0.30 + 9 * 0.12) * HOUR)


def test_a_week_begins_on_monday_at_midnight_of_the_place():
    pattern = weekly({"weekdays": {0.0: 1.0}, "sat": {0.0: 2.0}, "sun": {0.0: 3.0, 12 * HOUR: 4.0}})
    epoch = dallas(2022, 7, 8)  # a Friday
    signal = Schedule(pattern, period_s=WEEK_S, epoch_s=epoch, time_zone="America/Chicago")
    values = [signal.value(d * 24 * HOUR) for d in (0, 0.9, 1, 2, 2.5, 3, 8)]
    assert values == [1, 1, 2, 3, 4, 1, 2]


@pytest.mark.parametrize(
    ("day", "hours"),
    [
        ((2022, 3, 12), 24),  # an ordinary Saturday
        ((2022, 3, 13), 23),  # put forward at 2:00
        ((2022, 11, 6), 25),  # put back at 2:00
    ],
)
def test_seven_in_the_morning_is_seven_in_the_morning(day, hours):
    tariff = Schedule(DAY_AND_NIGHT, epoch_s=dallas(*day), time_zone="America/Chicago")
    morning = dallas(*day, 7) - dallas(*day)
    assert tariff.value(morning - 1) == 0.12
    assert tariff.value(morning) == 0.30
    assert tariff.integral(0.0, hours * HOUR) == pytest.approx(
        (15 * 0.30 + (hours - 15) * 0.12) * HOUR
    )


def test_a_repeated_hour_has_its_entry_twice_and_a_skipped_one_not_at_all():
    pattern = {0.0: 1.0, 1.5 * HOUR: 2.0, 2.5 * HOUR: 3.0}
    back = Schedule(pattern, epoch_s=dallas(2022, 11, 6), time_zone="America/Chicago")
    assert changes(back, 0.0, 4) == [1.5 * HOUR, 2 * HOUR, 2.5 * HOUR, 3.5 * HOUR]
    assert [back.value(h * HOUR) for h in (1.5, 2, 2.5, 3.5)] == [2, 1, 2, 3]
    forward = Schedule(pattern, epoch_s=dallas(2022, 3, 13), time_zone="America/Chicago")
    assert changes(forward, 1.5 * HOUR, 1) == [2 * HOUR]
    assert forward.value(2 * HOUR) == 3  # 3:00 on the wall


@given(st.integers(0, 366 * 24 * 4), st.sampled_from(["America/Chicago", "UTC", "UTC+05:30"]))
def test_nothing_changes_before_the_next_change(quarter, zone):
    tariff = Schedule(DAY_AND_NIGHT, epoch_s=dallas(2022, 1, 1), time_zone=zone)
    t = quarter * 900.0
    change = tariff.next_change(t)
    assert change > t
    assert {tariff.value(x) for x in np.arange(t, change, 450.0)} == {tariff.value(t)}


@given(
    st.lists(st.integers(0, 89), min_size=1, unique=True),
    st.integers(-500, 500),
    st.sampled_from([1.0, WEEK_S / 90]),
)
def test_the_auditor_lays_a_pattern_like_the_run(seconds, first, scale):
    """A week too begins at the run's zero, if it follows no clock."""
    pattern = Pattern({at * scale: float(at % 7) for at in seconds}, 90.0 * scale)
    found = recurring(pattern, None, first * scale, (first + 300.0) * scale)
    due = Schedule(pattern.entries, period_s=pattern.period_s)
    times = np.arange(first, first + 300.0, 0.5) * scale
    assert found.at(times).tolist() == [due.value(time) for time in times]


def test_a_week_without_a_clock_begins_at_the_zero_of_the_run():
    week = {0.0: 100.0, 24 * HOUR: 200.0}
    assert [Schedule(week, period_s=WEEK_S).value(d * 24 * HOUR) for d in (0, 1, 4, 7)] == [
        100, 200, 200, 100,
    ]  # fmt: skip
    assert Schedule(week, period_s=WEEK_S, epoch_s=0.0).value(0.0) == 200  # a Thursday
    with pytest.raises(TraceError, match="goes with epoch_s"):
        Schedule(week, time_zone="America/Chicago")


@pytest.mark.parametrize(
    ("entries", "period_s", "named"),
    [
        ({}, 60.0, ["empty"]),
        ({0.0: 1.0, 5.0: math.nan}, 60.0, ["5.0 s is nan"]),
        ({0.0: math.inf}, 60.0, ["0.0 s is inf"]),
        ({0.0: "7"}, 60.0, ["0.0 s is '7'"]),
        ({-1.0: 1.0}, 60.0, ["entry at -1.0 s"]),
        ({60.0: 1.0}, 60.0, ["entry at 60.0 s"]),
        ({math.nan: 1.0}, 60.0, ["entry at nan s"]),
        ({0.0: 1.0}, 0.0, ["period"]),
        ({0.0: 1.0}, 1e-9, ["period"]),
        ({-1.0: math.nan}, math.inf, ["period", "entry", "nan"]),
    ],
)
def test_a_pattern_checks_itself_and_names_all_that_is_wrong(entries, period_s, named):
    with pytest.raises(ScenarioError) as caught:
        Pattern(entries, period_s)
    assert len(caught.value.problems) == len(named)
    assert all(text in line for text, line in zip(named, caught.value.problems, strict=True))


def test_a_schedule_of_one_value_never_changes():
    assert Schedule({0.0: 5.0, 60.0: 5.0}).next_change(0.0) == math.inf


def test_mistakes():
    with pytest.raises(TraceError, match="week: is empty"):
        SIGNALS.find("schedule").of(week={})
    with pytest.raises(TraceError, match="'monday': no such days; write mon"):
        weekly({"monday": {0.0: 1.0}})
    for name in ("Mars/Olympus", "UTC+25", "", "../etc"):
        with pytest.raises(TraceError, match="is not a valid time zone"):
            parse_zone(name)


def test_standard_time_is_that_of_the_winter_on_either_half_of_the_earth():
    summer = datetime(2022, 7, 1, tzinfo=DALLAS).timestamp()
    assert standard_offset_s("America/Chicago", summer) == -6 * HOUR
    assert standard_offset_s("Australia/Sydney", summer) == 10 * HOUR
    assert standard_offset_s("UTC-06:00", summer) == -6 * HOUR
