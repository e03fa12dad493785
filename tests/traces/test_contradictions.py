"""Times of a job that contradict each other are counted, with a line and an example."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.traces import rules
from simkit.traces.jobs_table import JobsTable
from simkit.traces.sacct import SacctLog
from simkit.traces.swf import SwfLog
from simkit.workload import RowReport

GOOD = {
    "JobID": "1", "State": "COMPLETED", "Submit": "2024-01-10T08:00:00",
    "Start": "2024-01-10T08:10:00", "End": "2024-01-10T09:10:00", "Elapsed": "01:00:00",
    "AllocCPUS": "4",
}  # fmt: skip
EARLY, END, RUN = rules.START_EARLY, rules.END_EARLY, rules.RUN_UNLIKE


def sacct(tmp_path: Path, *rows: dict[str, str], **keys: str) -> SacctLog:
    names = [name for name in rows[0] if rows[0][name] != "-"]
    lines = ["|".join(names), *("|".join(row[name] for name in names) for row in rows)]
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    return SacctLog.of(path=tmp_path / "sacct.txt", **keys)


SACCT = [
    # fields of the row; notes, and the example of the first
    ({}, {}, ""),
    ({"Submit": "2024-01-10T13:00:00"}, {EARLY: 1}, "04:50:00 before submission"),
    ({"End": "2024-01-10T07:10:00"}, {END: 1}, "01:00:00 before start"),
    ({"Elapsed": "9-01:00:00"}, {RUN: 1}, "run time 9d 01:00:00, start to end 01:00:00"),
    ({"Elapsed": "01:00:01"}, {}, ""),  # rounded
    ({"Elapsed": "00:30:00"}, {}, ""),  # it may have been suspended
    ({"Elapsed": "00:30:00", "Suspended": "00:30:00"}, {}, ""),
    ({"Elapsed": "00:30:00", "Suspended": "00:10:00"}, {RUN: 1},
     "run time 00:30:00, start to end 01:00:00"),
    ({"Suspended": "00:10:00"}, {RUN: 1}, "run time 01:00:00, start to end 01:00:00"),
    ({"Elapsed": "-", "ElapsedRaw": "7200"}, {RUN: 1}, "run time 02:00:00, start to end 01:00:00"),
    ({"Submit": "2024-01-10T13:00:00", "Elapsed": "02:00:00"}, {EARLY: 1, RUN: 1},
     "04:50:00 before submission"),
    ({"Submit": "2024-01-10T13:00:00", "Eligible": "2024-01-10T13:00:00"},
     {EARLY: 1, rules.ELIGIBLE_LATE: 1}, "04:50:00 before submission"),
    ({"Eligible": "2024-01-10T07:00:00"}, {rules.RELEASED_EARLY: 1}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "notes", "example"), SACCT)
def test_sacct(tmp_path, fields, notes, example):
    row = GOOD | fields
    second = row | {"JobID": "2", "Submit": row["Submit"]}
    report = sacct(tmp_path, row, second).read().report
    assert report.notes == {rule: 2 * count for rule, count in notes.items()}
    for rule in notes:
        assert report.lines[rule] == [2, 3]
    assert next(iter(report.examples.values()), "") == example
    assert (report.dropped, report.jobs) == ({}, 2)


WITHOUT_ELAPSED = [
    ({"End": "2024-01-10T07:10:00"}, END),
    ({"Suspended": "02:00:00"}, RUN),
]


@pytest.mark.parametrize(("fields", "rule"), WITHOUT_ELAPSED)
def test_a_negative_run_time_that_follows_from_others_is_left_out(tmp_path, fields, rule):
    suspended = {"Elapsed": "-", "Suspended": "00:00:00"}
    log = sacct(tmp_path, GOOD | suspended, GOOD | suspended | fields)
    report = log.read().report
    assert (report.dropped, report.lines[rule]) == ({rule: 1}, [3])
    assert report.balanced()


def test_the_recorded_past_counts_as_the_plain_log_does(tmp_path):
    log = sacct(tmp_path, GOOD, GOOD | {"JobID": "2", "Submit": "2024-01-10T13:00:00"})
    trace, past = log.recorded()
    assert trace.report.notes == log.read().report.notes == {EARLY: 1}
    assert past.waits_s(trace.workload).tolist() == [600]


def test_an_hour_that_the_clock_shows_twice_is_no_contradiction(tmp_path):
    row = GOOD | {
        "Submit": "2024-10-27T01:59:00", "Start": "2024-10-27T01:59:00",
        "End": "2024-10-27T02:10:00", "Elapsed": "01:11:00",
    }  # fmt: skip
    assert sacct(tmp_path, row).read().report.notes == {RUN: 1}
    zoned = sacct(tmp_path, row, time_zone="Europe/Berlin").read().report
    assert zoned.notes == {rules.FIRST_HOUR: 1}


def test_suspended_is_named_as_not_read_where_elapsed_counts(tmp_path):
    assert "Suspended" in sacct(tmp_path, GOOD | {"Suspended": "?"}).read().report.unread
    row = GOOD | {"Elapsed": "-", "Suspended": "00:10:00"}
    assert "Suspended" not in sacct(tmp_path, row).read().report.unread


def swf(tmp_path: Path, *waits: str) -> RowReport:
    rows = [f"{n} {n} {wait} 100 4" + 13 * " -1" for n, wait in enumerate(waits, 1)]
    (tmp_path / "log.swf").write_text("\n".join(rows) + "\n")
    return SwfLog.of(path=tmp_path / "log.swf").read().report


def test_swf(tmp_path):
    report = swf(tmp_path, "0", "-1", "-300", "5", "-2")
    assert (report.notes, report.lines[EARLY]) == ({EARLY: 2}, [3, 5])
    assert report.examples[EARLY] == "00:05:00 before submission"
    assert "wait" in report.unread  # no job is made of it
    assert swf(tmp_path, "0", "-1", "many").notes == {}
    assert "wait" not in swf(tmp_path, "-1", "-1").unread


def table(tmp_path: Path, head: str, *cells: str, **keys: object) -> RowReport:
    rows = [f"{n},1000,100,4,{text}" for n, text in enumerate(cells, 1)]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([f"job_id,submit_time_s,run_time_s,processors,{head}", *rows]) + "\n")
    return JobsTable.of(path=path, **keys).read().report


TABLES = [
    # columns, cells of a row; rules
    ("start_time_s", "1000", ()),
    ("start_time_s", "900", (EARLY,)),
    ("start_time_s", "", ()),
    ("start_time_s", "soon", (rules.UNREADABLE_START,)),
    ("wait_time_s", "-1", ()),
    ("wait_time_s", "-100", (EARLY,)),
    ("start_time_s,wait_time_s", "1000,-100", (EARLY,)),
    ("start_time_s,end_time_s", "1000,1100", ()),
    ("start_time_s,end_time_s", "1000,1300", ()),  # it may have been suspended
    ("start_time_s,end_time_s", "1000,1050", (RUN,)),
    ("start_time_s,end_time_s", "1000,900", (END,)),
    ("wait_time_s,end_time_s", "0,1050", (RUN,)),
    ("release_time_s", "900", (rules.RELEASED_EARLY,)),
]


@pytest.mark.parametrize(("head", "cells", "met"), TABLES)
def test_tables(tmp_path, head, cells, met):
    report = table(tmp_path, head, cells, cells)
    assert report.notes == dict.fromkeys(met, 2)
    for rule in met:
        assert report.lines[rule] == [2, 3]
    assert set(report.unread) == {*head.split(",")} - {"release_time_s"}


def test_tables_compare_times_in_seconds(tmp_path):
    scaled = {"factors": {"submit_time_s": 0.001, "run_time_s": 1}}
    assert table(tmp_path, "start_time_s", "1000", **scaled).notes == {}
    assert table(tmp_path, "start_time_s", "900", **scaled).notes == {EARLY: 1}
