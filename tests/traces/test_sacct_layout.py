"""How tables of sacct tell their fields apart: delimiters of any length, quotes, fixed widths."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.errors import TraceError
from simkit.scenario.workload import recognise
from simkit.traces.sacct import read_sacct
from simkit.workload import Trace

ROWS = (
    ("JobID", "JobName", "State", "Submit", "Elapsed", "Timelimit", "AllocCPUS"),
    ("601", "grep a", "COMPLETED", "2024-03-04T08:00:00", "01:00:00", "02:00:00", "4"),
    ("602", "plain", "COMPLETED", "2024-03-04T08:05:00", "00:10:00", "00:30:00", "2"),
)


def table(tmp_path: Path, text: str) -> Path:
    (tmp_path / "log.txt").write_text(text)
    return tmp_path / "log.txt"


def joined(delimiter: str, tail: str = "") -> str:
    return "".join(delimiter.join(row) + tail + "\n" for row in ROWS)


def assert_read(trace: Trace) -> None:
    assert trace.workload.job_id.tolist() == [601, 602]
    assert trace.workload.run_time_s.tolist() == [3600, 600]
    assert trace.workload.labels["executable"] == ("grep a", "plain")


DELIMITERS = ("^|^", ",", ";", "\t", "#", "||", "~", ", ", " | ", "::", "<->", "@")


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("closed", [False, True])
def test_the_header_shows_the_delimiter_which_is_named(tmp_path, delimiter, closed):
    path = table(tmp_path, joined(delimiter, delimiter if closed else ""))
    assert recognise(path) == "sacct"
    trace = read_sacct(path)
    assert_read(trace)
    [note] = [*trace.report.notes, *([""] if delimiter.strip() == "|" else [])]
    assert delimiter.strip() == "|" or "delimiter" in note
    assert_read(read_sacct(path, delimiter=delimiter))


def test_a_given_delimiter_is_not_named(tmp_path):
    path = table(tmp_path, joined("xx"))  # which no header shows
    assert read_sacct(path, delimiter="xx").report.notes == {}
    with pytest.raises(TraceError, match="names no column JobID"):
        read_sacct(path)


def test_a_spreadsheet_quotes_fields(tmp_path):
    some = joined(",").replace("grep a", '"grep, ""a"""')
    assert read_sacct(table(tmp_path, some)).workload.labels["executable"][0] == 'grep, "a"'
    every = "".join(",".join(f'"{field}"' for field in row) + "\n" for row in ROWS)
    assert_read(read_sacct(table(tmp_path, every)))


@pytest.mark.parametrize("delimiter", ["|", ",", "^|^", "\t"])
def test_a_delimiter_within_a_name_is_refused_with_the_line(tmp_path, delimiter):
    path = table(tmp_path, joined(delimiter).replace("plain", f"a{delimiter}b"))
    with pytest.raises(TraceError, match=r"log.txt:3: 8 fields, the header has 7"):
        read_sacct(path)
    report = read_sacct(path, on_error="skip").report
    assert report.dropped == {"malformed line": 1}


def test_columns_that_are_told_apart_by_unequal_text_are_refused(tmp_path):
    with pytest.raises(TraceError, match=r"log.txt:1: no delimiter .* print the table with --pars"):
        read_sacct(table(tmp_path, joined(",").replace("JobName,", "JobName;")))


WIDTHS = (12, 10, 10, 19, 10, 10, 10)


def fixed(rows: tuple[tuple[str, ...], ...] = ROWS) -> str:
    lines = [
        " ".join(f"{field:>{w}}" for field, w in zip(row, WIDTHS, strict=True)) for row in rows
    ]
    return "\n".join([lines[0], " ".join("-" * w for w in WIDTHS), *lines[1:]]).replace("\n", " \n")


DASHES = "columns of fixed width: taken from the line of dashes"


@pytest.mark.parametrize(
    ("text", "notes"), [(fixed() + "\n\n" + fixed(), {DASHES: 1}), (2 * joined("|"), {})]
)
def test_tables_may_be_printed_twice(tmp_path, text, notes):
    path = table(tmp_path, text)
    trace = read_sacct(path)
    assert_read(trace)
    assert trace.report.notes == notes | {"repeated header": 1}
    assert recognise(path) == "sacct"


CUT = (
    # a row of fixed width, what is wrong with it
    (("603", "a long nam+", "COMPLETED"), "do not keep to the widths"),
    (("603", "a long na+", "COMPLETED"), "'a long na\\+' is cut off"),
    (("603", "plain", "CANCELLED+"), "'CANCELLED\\+' is cut off"),
)


@pytest.mark.parametrize(("begin", "problem"), CUT)
def test_what_is_cut_off_is_refused(tmp_path, begin, problem):
    path = table(tmp_path, fixed((*ROWS, (*begin, *ROWS[1][3:]))))
    with pytest.raises(TraceError, match=rf"log.txt:5: .*{problem}.* --parsable2"):
        read_sacct(path)


def test_a_plus_that_ends_a_short_name_is_no_cut(tmp_path):
    row = (ROWS[1][0], "c++", *ROWS[1][2:])
    labels = read_sacct(table(tmp_path, fixed((ROWS[0], row)))).workload.labels
    assert labels["executable"] == ("c++",)


def test_a_table_without_dashes_is_refused(tmp_path):
    with pytest.raises(TraceError, match="no delimiter"):
        read_sacct(table(tmp_path, "\n".join(fixed().splitlines()[::2])))
    short = fixed().replace("-" * 19, "-" * 18)
    with pytest.raises(TraceError, match="log.txt:1: the fields do not keep to the widths"):
        read_sacct(table(tmp_path, short))


@pytest.mark.parametrize("text", ["", "\n\n", joined(",").splitlines()[0] + "\n"])
def test_an_empty_table_is_an_error(tmp_path, text):
    with pytest.raises(TraceError, match="no jobs"):
        read_sacct(table(tmp_path, text))
