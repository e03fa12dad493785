"""The layout of tables: delimiters, lines above and below, quotes, comments, encodings."""

import gzip
import itertools
from functools import partial

import pytest
from trace_files import refusal

from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.jobs_table import read_jobs_table
from simkit.traces.power import read_power

ROWS = [("2024-01-01 00:00", "1"), ("2024-01-01 01:00", "2"), ("2024-01-01 02:00", "3")]


def series(separator=",", names=("time", "kw"), rows=ROWS, end="\n"):
    return "".join(f"{separator.join(row)}{end}" for row in [names, *rows])


def read(path, **keys):
    return read_power(path, **{"column": "kw", "unit": "kW", "zone": "UTC"} | keys)


refused = partial(refusal, read)


JOBS = "job_id,submit_time_s,run_time_s,processors\n1,0,10,2\n2,5,10,2\n"


@pytest.mark.parametrize(
    ("separator", "name"), [(";", "';'"), ("\t", "tab"), ("|", "'|'"), (",", None)]
)
def test_a_delimiter_is_found_and_named(file, separator, name):
    trace = read(file(series(separator)))
    assert trace.value.tolist() == [1000, 2000, 3000]
    said = {} if name is None else {f"fields separated by {name}": 1}
    assert trace.report.notes == said
    jobs = read_jobs_table(file(JOBS.replace(",", separator), "jobs.csv"))
    assert jobs.workload.job_id.tolist() == [1, 2]
    assert jobs.report.notes == said


@pytest.mark.parametrize(("key", "mark"), [("^", "^"), ("~", "~"), ("space", " "), ("§", "§")])
def test_any_delimiter_can_be_declared(file, key, mark):
    rows = [("2024-01-01T00:00", "1"), ("2024-01-01T01:00", "2")]
    trace = read(file(series(mark, rows=rows)), separator=key)
    assert (trace.value.tolist(), trace.report.notes) == ([1000, 2000], {})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks(file, end, mark):
    assert len(read(file(mark + series(";", end=end).encode()))) == 3
    packed = gzip.compress(mark + series(end=end).encode())
    assert len(read(file(packed, "packed.csv.gz"))) == 3


ABOVE = "Weather of Somewhere\nlatitude,longitude\n48.1,11.5\n\n# made up\n"
BELOW = "\nP: power of the plant (kW)\n(c) somebody 2024\n"


def test_lines_above_and_notes_below_are_counted(file):
    trace = read(file(ABOVE + series() + BELOW))
    assert trace.value.tolist() == [1000, 2000, 3000]
    assert trace.report.notes == {rules.ABOVE: 4}
    assert trace.report.dropped == {rules.BELOW: 2}
    assert trace.report.lines == {rules.ABOVE: [1, 2, 3, 5], rules.BELOW: [11, 12]}
    assert trace.report.examples == {rules.BELOW: "P: power of the plant (kW)"}
    assert trace.report.balanced()


def test_a_note_with_as_many_fields_as_columns_is_a_row_without_a_time(file):
    report = read(file(series() + "\nP: power\n(c) somebody, 2024\n")).report
    assert report.dropped == {"time unreadable": 2}
    assert report.examples == {"time unreadable": "P: power"}


def test_lines_above_and_notes_below_jobs(file):
    trace = read_jobs_table(file("# from our site\nexported by ada\n" + JOBS + "(2 rows)\n"))
    assert trace.workload.job_id.tolist() == [1, 2]
    assert (trace.report.notes, trace.report.dropped) == ({rules.ABOVE: 2}, {rules.BELOW: 1})
    assert trace.report.balanced()


@pytest.mark.parametrize("cut", ["3,20", "3", "3,20,5"])
def test_a_row_that_was_cut_off_is_no_note(file, cut):
    with pytest.raises(TraceError, match="the header has 4"):
        read_jobs_table(file(JOBS + cut))


def test_comments_among_rows_are_counted(file):
    lines = series().splitlines()
    trace = read(file("\n".join([*lines[:2], "# a break", *lines[2:]]) + "\n"))
    assert (len(trace), trace.report.notes) == (3, {rules.COMMENT: 1})
    assert trace.report.lines == {rules.COMMENT: [3]}


def test_the_names_may_be_a_comment(file):
    assert len(read(file("#" + series()))) == 3


def test_a_header_line_can_be_declared(file):
    twice = "time,kw\nwhen,how much\n" + series(names=("time", "kw"))
    assert read(file(twice), header_line=3).report.notes == {}
    assert ":2: no column 'time'" in refused(file(twice), header_line=2)
    assert "so header_line: 99 does not exist" in refused(file(twice), header_line=99)


def test_names_that_are_not_found_say_where_they_were_looked_for(file):
    found = refused(file(series(names=("zeit", "kw"))))
    assert found.startswith(":1: no column 'time'; known: kw, zeit")
    found = refused(file("A,B\n1,2\nC,D\n" + series(";", names=("zeit", "kw"))))
    assert found.startswith(":4: no column 'time'")
    assert "separated by ';'" in found
    assert "which: header_line: 4" in found


def test_quoted_fields_may_hold_anything(file):
    text = (
        'time,note,kw\n2024-01-01 00:00,"a, b",1\n2024-01-01 01:00,"two\nlines",2\n'
        '"2024-01-01 02:00","say ""hi""","3"\n2024-01-01 03:00,5" disk,4\n'
    )
    trace = read(file(text))
    assert trace.value.tolist() == [1000, 2000, 3000, 4000]
    bad = file(text + "2024-01-01 04:00,x,y\n", "bad.csv")
    assert read(bad).report.lines == {"value not a number": [7]}  # lines of the file, not rows


def test_quoted_fields_of_jobs_over_blocks(file, monkeypatch):
    names = [f'"a, {n}\n""b"""' if n % 3 else f"u{n}" for n in range(50)]
    rows = "".join(f"{n},{n},10,2,{name}\n" for n, name in enumerate(names))
    path = file("job_id,submit_time_s,run_time_s,processors,user\n" + rows)
    whole = read_jobs_table(path).workload
    assert whole.labels["user"][:2] == ("u0", 'a, 1\n"b"')
    monkeypatch.setattr("simkit.traces.files.text_blocks.__defaults__", (61,))
    pieces = read_jobs_table(path).workload
    assert pieces.labels == whole.labels
    assert pieces.user.tolist() == whole.user.tolist()


def test_a_quote_that_is_not_closed_costs_one_line(file):
    rows = "".join(f"{n},{n},10,2\n" for n in range(3, 300))
    path = file(JOBS + '300,"0,10,2\n' + rows)
    with pytest.raises(TraceError, match="4: a quote is not closed") as caught:
        read_jobs_table(path)
    assert "1 malformed line" in str(caught.value)
    trace = read_jobs_table(path, on_error="skip")
    assert trace.report.dropped == {"malformed line": 1}
    assert len(trace.workload) == 299


def test_files_put_together_repeat_their_names(file):
    trace = read_jobs_table(file(JOBS + JOBS.replace("\n1,", "\n3,").replace("\n2,", "\n4,")))
    assert sorted(trace.workload.job_id.tolist()) == [1, 2, 3, 4]
    assert trace.report.notes == {"repeated header": 1}


def test_text_that_is_not_utf_8_is_read_and_said(file):
    text = series(names=("time", "Leistung für µ²"))
    assert len(read(file(text), column="Leistung für µ²")) == 3
    trace = read(file(text.encode("latin-1"), "old.csv"), column="Leistung für µ²")
    assert trace.report.notes == {rules.ENCODING: 1}


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_with_the_remedy(file, code):
    path = file(series().encode(code))
    assert "is in UTF-16, with two bytes a character" in refused(path)
    with pytest.raises(TraceError, match="iconv -f UTF-16 -t UTF-8"):
        read_jobs_table(path)


def test_files_that_are_none(file):
    assert "the file is empty" in refused(file(""))
    assert "the file is empty" in refused(file("\n \n"))
    assert "no rows below the header" in refused(file("time,kw\n"))
    assert "lines end in CR alone" in refused(file(series(end="\r")))
    assert "another mark must separate the fields" in refused(
        file("time,kw\n2024-01-01 00:00,12,5\n2024-01-01 01:00,13,5\n")
    )


def test_rows_that_are_dropped_show_the_cell(file):
    rows = [*ROWS, ("2024-13-01 00:00", "4"), ("n/e", "5"), ("2024-01-01 04:00", "n/e"),
            ("2024-01-01 05:00", "much"), ("2024-01-01 02:00", "7")]  # fmt: skip
    report = read(file(series(";", rows=rows))).report
    assert report.dropped == {
        "date that cannot be": 1, "time unreadable": 1, "value missing": 1,
        "value not a number": 1, "repeated time": 1,
    }  # fmt: skip
    assert report.examples == {
        "date that cannot be": "2024-13-01 00:00", "time unreadable": "n/e",
        "value missing": "n/e", "value not a number": "much",
        "repeated time": "2024-01-01 02:00",
    }  # fmt: skip


def test_decimal_comma_and_marks_of_a_series(file):
    rows = [(at, value) for (at, _), value in zip(ROWS, ("1,5", "-999", "k.A."), strict=True)]
    trace = read(file(series(";", rows=rows)), missing=[-999, "k.A."], step=3600)
    assert (trace.value.tolist(), trace.report.dropped) == ([1500], {"value missing": 2})
    assert trace.report.notes["decimal comma"] == 1


def test_an_interval_at_its_end_is_a_contradiction(file):
    rows = [(f"{a} - {b}", "1") for (a, _), (b, _) in itertools.pairwise(ROWS)]
    path = file(series(rows=rows))
    assert read(path).report.notes == {"intervals in one cell, whose begins count": 1}
    assert "label: end is declared; leave label out" in refused(path, label="end")
