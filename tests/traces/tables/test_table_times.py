"""Times of tables: intervals, Unix times, 24:00, dates that cannot be, the night of 25 hours."""

import contextlib
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.traces.tables.times import Times, instants


def read(*words, **form):
    return instants(pl.Series(list(words)), Times(**form), "file: time")


def dates(*words, **form):
    """Return the instants in UTC as text; None where there is none."""
    return [
        None if np.isnan(at) else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
        for at in read(*words, **form).time_s.tolist()
    ]


def refused(*words, **form):
    with pytest.raises(TraceError) as caught:
        read(*words, **form)
    return str(caught.value)


NEW_YEAR = "2024-01-01 00:00:00"


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("2024-01-01 00:00", None),
        ("2024-01-01", None),
        ("2024-01-01T00", None),
        ("2024-01-01T00:00:00.000", None),
        ("2023-12-31 24:00", None),
        ("2023-12-31T24:00:00", None),
        ("20240101T0000", None),
        ("2024-01-01 00:00 - 2024-01-01 01:00", None),
        ("2024-01-01 00:00/2024-01-01 01:00", None),
        ("2024-01-01T00:00/PT1H", None),
        ("01.01.2024 00:00", "%d.%m.%Y %H:%M"),
        ("01.01.2024 00:00 - 01.01.2024 01:00", "%d.%m.%Y %H:%M"),
        ("01.01.2024 00:00 – 01:00", "%d.%m.%Y %H:%M"),
        ("01.01.2024 00:00 - 01.01.2024 01:00", "%d.%m.%Y %H:%M - %d.%m.%Y %H:%M"),
        ("01.01.2024 00:00-01:00", "%d.%m.%Y %H:%M-%H:%M"),
        ("01/01/2024 00:00:00 - 01/01/2024 01:00:00", "%d/%m/%Y %H:%M:%S"),
        ("31.12.2023 24:00", "%d.%m.%Y %H:%M"),
        ("1/1/2024 12:00 AM", "%m/%d/%Y %I:%M %p"),
        ("1/1/2024 12:00 a.m.", "%m/%d/%Y %I:%M %p"),
        ("Jan 1, 2024 00:00", "%b %d, %Y %H:%M"),
        ("1 january 2024", "%d %B %Y"),
        ("Mon, 01 Jan 2024 00:00", "%a, %d %b %Y %H:%M"),
        ("2024-001", "%Y-%j"),
        ("01.01.24", "%d.%m.%y"),
        ("20240101:0000", "%Y%m%d:%H%M"),
        ("2024010100", "%Y%m%d%H"),
    ],
)
def test_forms_of_midnight(word, form):
    assert dates(word, zone="UTC", time_format=form) == [NEW_YEAR]


@pytest.mark.parametrize(
    "word",
    ["2024-01-01T00:00Z", "2024-01-01 00:00 UTC", "2024-01-01T01:00+01:00", "2023-12-31T18:00-06",
     "2024-01-01T00:00Z/2024-01-01T01:00Z"],
)  # fmt: skip
def test_offsets_of_times(word):
    assert dates(word) == [NEW_YEAR]
    assert "leave zone out, and give the zone of the place as site_zone" in refused(
        word, zone="Europe/Berlin"
    )


@pytest.mark.parametrize(
    ("factor", "unit"),
    [(1, "seconds"), (10**3, "milliseconds"), (10**6, "microseconds"), (10**9, "nanoseconds")],
)
def test_unix_times_are_recognised_by_their_size_and_said(factor, unit):
    words = [str((1704067200 + 3600 * hour) * factor) for hour in range(3)]
    found = read(*words)
    assert found.time_s.tolist() == [1704067200.0 + 3600 * hour for hour in range(3)]
    assert found.said == (f"Unix times in {unit}",)
    assert read(*words, time_format=unit).time_s.tolist() == found.time_s.tolist()
    assert "Unix times count from 1970 in UTC, but zone 'Europe/Berlin'" in refused(
        *words, zone="Europe/Berlin"
    )


def test_unix_times_of_another_unit_than_declared_are_refused_with_the_key():
    found = refused("1704067200000", "1704070800000", zero="1970-01-01T00:00Z")
    assert "are no seconds from zero" in found
    assert "they look like Unix times in milliseconds: give time_format: milliseconds" in found


def test_numbers_that_may_be_dates_written_together_are_asked_for():
    assert '"%Y%m%d%H" reads them' in refused("2024010113", "2024010114", zone="UTC")


@pytest.mark.parametrize(("unit", "step"), [("hours", 1), ("days", 1 / 24), ("minutes", 60)])
def test_numbers_count_from_zero_in_their_unit(unit, step):
    words = [repr(hour * step) for hour in range(3)]
    found = read(*words, zero="2024-01-01", zone="UTC", time_format=unit)
    assert found.time_s == pytest.approx([1704067200 + 3600 * hour for hour in range(3)])


@pytest.mark.parametrize(
    "word",
    ["2024-13-01 00:00", "2024-01-45 00:00", "2024-02-30 00:00", "2023-02-29 00:00",
     "2024-01-01 24:01", "2024-01-01 25:00", "2024-01-01 12:60", "9999-12-31 00:00",
     "0001-01-01 00:00", "2024-00-01 00:00"],
)  # fmt: skip
def test_dates_that_cannot_be_are_none_and_told_apart(word):
    found = read("2024-01-01 00:00", word, "soon", zone="UTC")
    assert np.isnan(found.time_s).tolist() == [False, True, True]
    assert found.impossible.tolist() == [False, True, False]


def test_hours_of_a_clock_of_twelve_end_at_twelve():
    form = {"zone": "UTC", "time_format": "%Y-%m-%d %I:%M %p"}
    words = ("2024-01-01 12:30 AM", "2024-01-01 12:30 PM", "2024-01-01 01:30 pm")
    assert [date[11:16] for date in dates(*words, **form)] == ["00:30", "12:30", "13:30"]
    assert read("2024-01-01 01:00 PM", "2024-01-01 13:00 PM", "2024-01-01 00:30 AM", **form
                ).impossible.tolist() == [False, True, True]  # fmt: skip


def test_ends_that_look_like_offsets_are_asked_for():
    words = [f"2024-01-01 {hour:02}:00-{hour + 1:02}:00" for hour in range(23)]
    assert 'time_format: "%Y-%m-%d %H:%M-%H:%M"' in refused(*words)
    found = dates(*words, zone="UTC", time_format="%Y-%m-%d %H:%M-%H:%M")
    assert found[1] == "2024-01-01 01:00:00"
    assert dates("2024-01-01 00:00-05:00") == ["2024-01-01 05:00:00"]  # one offset is an offset


@pytest.mark.parametrize(
    ("word", "form"),
    [("31.01.2024 13:05", '"%d.%m.%Y %H:%M"'), ("1/31/2024 1:05 PM", '"%m/%d/%Y %I:%M %p"'),
     ("01/02/2024 13:05", '"%d/%m/%Y %H:%M" or "%m/%d/%Y %H:%M"')],
)  # fmt: skip
def test_the_form_that_would_read_the_times_is_proposed(word, form):
    assert f"time_format: {form} reads them" in refused(word, zone="UTC")


# --- the night of 25 hours -----------------------------------------------------------------------


def night(step_min):
    """Return the clock readings of a day around the change, and their instants."""
    zone, begin = ZoneInfo("Europe/Brussels"), 1761429600  # 2025-10-26 00:00 CEST
    times = [begin + 60 * minute for minute in range(0, 6 * 60, step_min)]
    return [f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M}" for at in times], times


@given(step=st.sampled_from([5, 15, 30, 60]), turned=st.booleans())
def test_the_repeated_hour_is_read_in_both_directions(step, turned):
    words, times = night(step)
    if turned:
        words, times = words[::-1], times[::-1]
    found = read(*words, zone="Europe/Brussels")
    assert found.time_s.tolist() == times
    assert found.newest_first == turned
    assert found.second.sum() == 60 // step


def test_days_newest_first_whose_hours_ascend():
    words, times = night(60)
    next_day = [f"2025-10-27 {hour:02}:00" for hour in range(24)]
    found = read(*next_day, *words, zone="Europe/Brussels")
    assert found.time_s.tolist()[24:] == times


def test_jobs_of_one_second_are_not_two_hours_apart():
    words = ["2025-10-26 01:00", "2025-10-26 02:10", "2025-10-26 02:10", "2025-10-26 02:50",
             "2025-10-26 02:05", "2025-10-26 02:55", "2025-10-26 03:00"]  # fmt: skip
    form = Times("Europe/Brussels")
    found = instants(pl.Series(words), form, "jobs: submit", in_order=True)
    assert found.second.tolist() == [False, False, False, False, True, True, False]
    shuffled = instants(pl.Series([words[-1], *words[:-1]]), form, "jobs: submit", in_order=True)
    assert not shuffled.second.any()  # the order of such a file tells nothing


def test_the_hour_that_spring_skips_is_called_so():
    found = read("2025-03-30 01:30", "2025-03-30 02:30", zone="Europe/Brussels")
    assert (found.skipped.tolist(), found.impossible.any()) == ([False, True], False)


FORMS = (Times("UTC"), Times("UTC", "%d.%m.%Y %H:%M"), Times(None, "milliseconds"),
         Times("Europe/Berlin", None, "2020-01-01"))  # fmt: skip
WORDS = st.text("0123456789-+:/. TZUCpm%é\0\n\u2013", max_size=20)


@given(st.lists(WORDS, min_size=1, max_size=5), st.sampled_from(FORMS))
def test_no_text_ends_in_a_traceback(words, form):
    with contextlib.suppress(TraceError):
        instants(pl.Series(words), form, "file: time")


@given(
    st.lists(st.floats(), min_size=1, max_size=5),
    st.sampled_from([Times(None), Times(None, "nanoseconds"), Times("UTC", None, "2020-01-01")]),
)
def test_no_number_ends_in_a_traceback(numbers, form):
    words = pl.Series([repr(number) for number in numbers])
    with contextlib.suppress(TraceError):
        assert not np.isinf(instants(words, form, "file: time").time_s).any()
