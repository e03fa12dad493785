"""The form of times is checked when a scenario is read, with a remedy for each mistake."""

import polars as pl
import pytest

from simkit.errors import TraceError
from simkit.scenario.overrides import parse_overrides
from simkit.scenario.signals import SIGNALS
from simkit.scenario.workload import WORKLOADS
from simkit.traces.tables.layout import SUGGESTED, UNITS, check_time_format, pattern_of


@pytest.mark.parametrize("form", [*SUGGESTED, *UNITS, "%d.%m.%Y %H:%M - %d.%m.%Y %H:%M",
                                  "%d.%m.%Y %H:%M-%H:%M", "%Y-%m-%d/%Y-%m-%d", "%Y-%j %H",
                                  "%a %d %B %Y", "%%%Y%m%d"])  # fmt: skip
def test_forms_that_are_read(form):
    assert check_time_format(form) == form


@pytest.mark.parametrize(
    ("form", "remedy"),
    [
        ("%Q", "%Q, which is no directive; known: %Y"),
        ("%Y-%m-%d %", "ends in a single %"),
        ("%H:%M %H", "repeats %H"),
        ("%d.%m.%Y %d.%m.%Y", "repeats %d"),
        ("%H:%M", "names no year"),
        ("%Y %H:%M", "names no month"),
        ("%Y-%m %H:%M", "names no day"),
        ("%Y-%y-%m-%d", "names the year twice"),
        ("%Y-%m-%d %I:%M", "no %p; add %p, or write %H"),
        ("%Y-%m-%d %H:%M %p", "write %I for %H"),
        ("%F %T", "%F, which is not read; write %Y-%m-%d"),
        ("%s", "write time_format: seconds"),
        ("[", "has no directive"),
        ("(?P<Y>x", "has no directive"),
        ("", "has no directive"),
        ("ms", "did you mean 'milliseconds'?"),
        ("milisecond", "did you mean 'milliseconds'?"),
        ("iso8601", "leave it out"),
        ("dd.MM.yyyy HH:mm", "did you mean '%d.%m.%Y %H:%M'?"),
        ("YYYY-MM-DD HH:MM", "did you mean '%Y-%m-%d %H:%M'?"),
    ],
)
def test_forms_that_are_refused_with_a_remedy(form, remedy):
    with pytest.raises(ValueError, match="^") as caught:
        check_time_format(form)
    assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("family", "kind", "fields"),
    [
        (SIGNALS, "csv", {"column": "x", "unit": "kW"}),
        (SIGNALS, "price", {"column": "x"}),
        (SIGNALS, "carbon", {}),
        (SIGNALS, "generation", {"source": "wind"}),
        (SIGNALS, "gleamm", {}),
        (WORKLOADS, "jobs", {}),
        (WORKLOADS, "tasks", {}),
    ],
)
@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"time_format": "%Q"}, "time_format: '%Q' has %Q, which is no directive"),
        ({"zone": "Mars"}, "zone: 'Mars' is not a valid time zone"),
        ({"separator": "ab"}, "separator: 'ab' does not separate fields; give one character"),
        ({"separator": "."}, "separator: '.' does not separate fields"),
        ({"decimal": ";"}, "decimal: "),
        ({"header_line": 0}, "header_line: must be at least 1"),
        ({"missing": True}, "missing: must be a list of marks"),
        ({"zero": "2020-01-01", "time_format": "%Y%m%d"}, "zero is for times that are numbers"),
    ],
)
def test_every_reader_of_tables_checks_the_same_keys(tmp_path, family, kind, fields, keys, problem):
    (tmp_path / "x.csv").write_text("time,x\n")
    with pytest.raises(TraceError) as caught:
        family.find(kind).of(path=tmp_path / "x.csv", **fields, **keys)
    assert problem in str(caught.value)


def test_a_form_on_the_command_line_needs_no_quotes():
    assert parse_overrides(["time_format=%d.%m.%Y %H:%M"]) == {"time_format": "%d.%m.%Y %H:%M"}


def test_text_of_a_form_is_no_pattern():
    words = pl.Series(["(2024).01+02", "x2024.01+02"])
    assert words.str.contains(pattern_of("(%Y).%m+%d")).to_list() == [True, False]
