"""Columns that a reader leaves aside are named, or counted where they are plain."""

from __future__ import annotations

import pytest

from simkit.scenario.workload import trace_formats
from simkit.traces.columns import UNKNOWN_COLUMN
from simkit.traces.sacct.table import COMMAND

SACCT = (
    "JobID|Submit|Elapsed|NCPUS|AllocCPUS|Licenses|Colour|JobName|WorkDir\n"
    "1|2024-01-01T00:00:00|00:01:00|1|1|matlab:1|red|a|/home\n"
)
SWF_ROWS = "1 0 5 100 4 -1 -1 4 200 2048 1 1 1 -1 1 1 -1 -1\n2 1 5 100 4 7 -1 4 200 -1 1 1 1 -1 1 1 -1 -1\n"
CASES = (
    # format, text, columns named, plain columns
    ("sacct", SACCT, {"Licenses": "resources asked for", "Colour": UNKNOWN_COLUMN}, 1),
    ("jobs", "job_id,submit_time_s,run_time_s,processors,power_w,name\n1,0,1,1,5,x\n",
     {"power_w": UNKNOWN_COLUMN}, 1),
    ("tasks", "job_id,task_id,submit_time,duration,instances_num,cpu,memory,disk,comment\n"
     "1,1,0,5,1,1,0.1,3,x\n", {"disk": UNKNOWN_COLUMN}, 1),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "named", "plain"), CASES, ids=[c[0] for c in CASES])
def test_columns_left_aside_are_named(kind, text, named, plain, tmp_path):
    (tmp_path / "log.csv").write_text(text)
    report = trace_formats()[kind].of(path=tmp_path / "log.csv").read().report
    assert (report.unread, report.unread_plain) == (named, plain)


def test_swf_fields_are_named_only_where_they_hold_values(tmp_path):
    (tmp_path / "log.swf").write_text(SWF_ROWS)
    report = trace_formats()["swf"].of(path=tmp_path / "log.swf").read().report
    assert set(report.unread) == {"wait", "cpu_time", "requested_memory"}


def test_the_command_that_is_proposed_leaves_nothing_aside(tmp_path):
    fields = COMMAND.partition("--format=")[2].split(",")
    row = dict.fromkeys(fields, "") | {
        "JobID": "1", "JobIDRaw": "1", "Submit": "2024-01-01T00:00:00", "Elapsed": "00:01:00",
        "Start": "2024-01-01T00:00:00", "End": "2024-01-01T00:01:00", "AllocCPUS": "1",
    }  # fmt: skip
    (tmp_path / "log.txt").write_text("|".join(fields) + "\n" + "|".join(row.values()) + "\n")
    report = trace_formats()["sacct"].of(path=tmp_path / "log.txt").read().report
    assert set(report.unread) <= {"TotalCPU", "ReqMem"}  # go to SWF, or to machines with mem


def test_bursts_of_a_job_in_swf_are_left_out_for_the_line_that_sums_them_up(tmp_path):
    rows = [(1, 1, 90), (1, 2, 30), (1, 3, 60), (2, 0, 20), (2, 4, 20), (3, 5, 10), (4, -1, 10)]
    (tmp_path / "log.swf").write_text(
        "".join(
            f"{job} {n} 0 {run} 1 -1 -1 1 90 -1 {status} 1 1 -1 1 1 -1 -1\n"
            for n, (job, status, run) in enumerate(rows)
        )
    )
    trace = trace_formats()["swf"].of(path=tmp_path / "log.swf").read()
    assert trace.workload.run_time_s.tolist() == [90, 20, 10, 10]
    assert trace.report.dropped == {"part of a job": 3}
