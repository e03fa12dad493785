"""`simkit trace power`: what a file of power holds, for people and for scripts."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from simkit.cli import app

KEYS = ("--set", "column=kw", "--set", "unit=kW", "--set", "zone=UTC-06:00")


def run(*words):
    return CliRunner().invoke(app, ["trace", "power", *map(str, words)])


def refused(*words):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of two kinds; main() prints them
        CliRunner().invoke(app, ["trace", "power", *map(str, words)], catch_exceptions=False)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "wind.csv"
    rows = ["00:00,-1", "00:10,1200", "00:20,3400.5", "01:20,10", "01:30,", "02:10,20"]
    path.write_text("time,kw\n" + "".join(f"2012-07-01 {row}\n" for row in rows))
    return path


def test_facts_for_people(log):
    assert run("csv", log, *KEYS).stdout.splitlines() == [
        f"Signal      {log}: kw",
        "            6 rows read = 5 accepted + 0 repaired + 1 dropped",
        "              dropped: value missing 1 (line 6: empty)",
        "              note: negative power 1",
        "Values      5 means of intervals, at their starts, every 00:10:00",
        "Zone        UTC-06:00",
        "From        2012-07-01 00:00 UTC-06:00 to 2012-07-01 02:10 UTC-06:00, span 02:20:00",
        "Mean        925,900 W",
        "Min         -1,000 W",
        "Max         3,400,500 W",
        "Below 0     1 value",
        "Gaps        2 gaps, 01:30:00 in all, the longest 00:50:00",
        "            from 2012-07-01 00:30 UTC-06:00 for 00:50:00",
        "            from 2012-07-01 01:30 UTC-06:00 for 00:40:00",
    ]


def test_a_gap_after_an_interval_that_ends_at_its_time(log):
    gaps = json.loads(run("csv", log, *KEYS, "--set", "label=end", "--json").stdout)["gaps"]
    assert gaps["longest"][0] == {"start": "2012-07-01 00:20 UTC-06:00", "length_s": 3000.0}


def test_facts_for_scripts():
    facts = json.loads(run("gleamm-sample", "--set", "part=wind", "--json").stdout)
    assert (facts["values"], facts["step_s"], facts["span_s"]) == (52_560, 600.0, 365 * 86_400.0)
    assert (facts["unit"], facts["min"], facts["max"]) == ("W", 0.0, 600e3)
    assert (facts["rows"]["rows"], facts["rows"]["dropped"]) == (52_560, {})
    assert facts["gaps"] == {"count": 0, "total_s": 0.0, "longest_s": 0.0, "longest": []}


def test_no_gaps_are_said_to_be_none():
    assert "Gaps        none" in run("gleamm-sample").stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("solar",),
            "ScenarioError: type: solar is not read from a file; known: carbon, csv, epw-solar,",
        ),
        (("constant", "--set", "value=3"), "type: constant is not read from a file"),
        (("gleamm-sample", "--set", "part=sun"), "part: unknown value 'sun'"),
        (("csv", "no.csv"), "column: is missing"),  # with what else is wrong
        (("csv", "no.csv"), "there is no file"),
        (("gleamm-sample", "--set", "unit=kW"), "unit: does not go with gleamm-sample"),
    ],
)
def test_keys_are_judged_as_in_a_scenario(words, error):
    assert error in refused(*words)


def test_a_file_that_contradicts_is_refused(log):
    keys = ("--set", "column=kw", "--set", "unit=MW", "--set", "zone=UTC")
    assert "TraceError" in refused("csv", log, *keys)


@pytest.mark.parametrize(
    ("row", "keys", "error"),
    [
        # what the file lacks or says is told by the names of keys, not of a reader's arguments
        ("2012-01-01 00:00", (), "declare zone: UTC, UTC-06:00 if"),
        ("2012-01-01 00:00Z", ("--set", "zone=UTC"), "zone 'UTC' is declared; leave zone out"),
        (
            "2012-01-01 00:00Z",
            (),
            "the step cannot be found from a single row; give step, the length",
        ),
    ],
)
def test_messages_name_the_keys_of_a_scenario(tmp_path, row, keys, error):
    path = tmp_path / "one.csv"
    path.write_text(f"time,kw\n{row},1\n")
    told = refused("csv", str(path), "--set", "column=kw", "--set", "unit=kW", *keys)
    assert error in told
    assert "time_zone" not in told
