"""Preceding jobs, think times and release times in logs, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.convert import clean_swf
from simkit.traces.jobs_table import read_jobs_table
from simkit.traces.sacct import read_sacct
from simkit.traces.swf import read_swf, write_swf
from simkit.traces.task_table import read_task_table
from simkit.workload import Workload


def links(workload):
    job = np.repeat(np.arange(len(workload)), np.diff(workload.first_predecessor))
    ids, before = workload.job_id, workload.predecessor
    return list(
        zip(ids[job].tolist(), ids[before].tolist(), workload.think_time_s.tolist(), strict=True)
    )


def swf(path, *rows):
    """Write a log of (job, submit, run, field 17, field 18)."""
    path.write_text(
        "; MaxProcs: 8\n"
        + "".join(f"{job} {at} -1 {run} 1 -1 -1 1 9 -1 1 1 1 -1 1 -1 {before} {think}\n"
                  for job, at, run, before, think in rows)
    )  # fmt: skip
    return path


def test_fields_17_and_18_are_links(tmp_path):
    log = swf(tmp_path / "a.swf", (1, 0, 9, -1, -1), (2, 0, 9, 1, 30), (3, 5, 9, 2, 0))
    trace = read_swf(log)
    assert links(trace.workload) == [(2, 1, 30), (3, 2, 0)]
    assert trace.report.notes == {rules.PRECEDED: 2}
    assert trace.report.lines[rules.PRECEDED] == [3, 4]


# field 17, field 18 of job 5 → notes, and whether it waits
CASES = {
    "a job that does not exist": ((99, 3), {rules.PRECEDING_UNKNOWN}, False),
    "no whole number": ((1.5, 3), {rules.PRECEDING_UNKNOWN}, False),
    "itself": ((5, 3), {rules.PRECEDING_ITSELF}, False),
    "a job whose row is left out": ((4, 3), {rules.PRECEDING_LEFT_OUT}, False),
    "a job that comes later": ((6, 3), {rules.PRECEDING_LATER}, True),
    "no think time": ((1, -1), {rules.NO_THINK_TIME}, True),
    "a think time that is none": ((1, "nan"), {rules.NO_THINK_TIME}, True),
    "no job, but a think time": ((-1, 3), {rules.ONLY_THINK_TIME}, False),
    "no job, and no think time": ((-1, 0), set(), False),
    "0 where jobs count from 1": ((0, 0), set(), False),
}


@pytest.mark.parametrize("case", CASES)
def test_links_that_cannot_be_are_named_and_left_out(case, tmp_path):
    (before, think), notes, waits = CASES[case]
    log = swf(
        tmp_path / "a.swf", (1, 0, 9, -1, -1), (4, 1, 0, -1, -1), (5, 2, 9, before, think),
        (6, 3, 9, -1, -1),
    )  # fmt: skip
    trace = read_swf(log)
    assert set(trace.report.notes) == notes | ({rules.PRECEDED} if waits else set())
    assert bool(len(trace.workload.predecessor)) == waits
    assert trace.report.balanced()
    clean = clean_swf(log, tmp_path / "b.swf")
    assert clean == trace.report  # which shows the same


def test_loops_are_opened(tmp_path):
    log = swf(tmp_path / "a.swf", (1, 0, 9, 3, 0), (2, 1, 9, 1, 0), (3, 2, 9, 2, 0))
    trace = read_swf(log)
    assert links(trace.workload) == [(2, 1, 0), (3, 2, 0)]
    assert trace.report.lines[rules.PRECEDING_LOOP] == [2]


def test_job_0_may_precede_others_in_a_log_that_has_one(tmp_path):
    log = swf(tmp_path / "a.swf", (0, 0, 9, -1, -1), (1, 1, 9, 0, 2))
    assert links(read_swf(log).workload) == [(1, 0, 2)]


def test_text_in_fields_17_and_18_is_malformed(tmp_path):
    log = swf(tmp_path / "a.swf", (1, 0, 9, -1, -1), (2, 0, 9, "one", "x"))
    with pytest.raises(TraceError, match=r"a.swf:3: field 17 \(previous job\) is 'one'"):
        read_swf(log)
    trace = read_swf(log, on_error="skip")
    assert trace.report.dropped == {rules.MALFORMED: 1}


def test_what_is_written_is_read_again(tmp_path):
    log = swf(tmp_path / "a.swf", (1, 0, 9, -1, -1), (2, 0, 9, 1, 30.5), (7, 5, 9, 2, 0))
    first = read_swf(log).workload
    write_swf(tmp_path / "b.swf", first)
    assert links(read_swf(tmp_path / "b.swf").workload) == links(first)
    named = first.with_columns(job_id=np.array(["a", "b", "c"], dtype=object))
    write_swf(tmp_path / "c.swf", named)
    assert links(read_swf(tmp_path / "c.swf").workload) == [(2, 1, 30.5), (3, 2, 0)]


def test_swf_has_one_preceding_job_and_no_release_time(tmp_path):
    load = Workload.from_jobs(
        {"job_id": [1, 2, 3], "submit_time_s": [0, 0, 0], "run_time_s": [1, 1, 1],
         "processors": [1, 1, 1], "release_time_s": [0, 9, 0]}
    )  # fmt: skip
    write_swf(tmp_path / "a.swf", load)
    assert (
        "; Note: 1 job had a release time, for which SWF has no" in (tmp_path / "a.swf").read_text()
    )
    two = load.with_columns(first_predecessor=np.array([0, 0, 0, 2]), predecessor=np.array([0, 1]))
    with pytest.raises(TraceError, match="job 3 waits for several jobs, SWF has one preceding job"):
        write_swf(tmp_path / "b.swf", two)


# ---- sacct --------------------------------------------------------------------------------------

SACCT = """JobID|State|Submit|Eligible|Start|End|Elapsed|AllocCPUS
1|COMPLETED|2024-05-14T08:00:00|2024-05-14T08:00:00|2024-05-14T08:00:00|2024-05-14T10:00:00|02:00:00|4
2|COMPLETED|2024-05-14T08:05:00|2024-05-14T10:00:00|2024-05-14T10:00:09|2024-05-14T11:00:09|01:00:00|4
3|COMPLETED|2024-05-14T08:10:00|2024-05-14T08:09:00|2024-05-14T10:00:05|2024-05-14T11:00:05|01:00:00|4
4|COMPLETED|2024-05-14T08:20:00|Unknown|2024-05-14T10:00:05|2024-05-14T11:00:05|01:00:00|4
5|COMPLETED|2024-05-14T08:30:00|2024-05-14T12:00:00|2024-05-14T11:00:00|2024-05-14T12:00:00|01:00:00|4
"""


def test_eligible_is_the_release_time(tmp_path):
    (tmp_path / "sacct.txt").write_text(SACCT)
    trace = read_sacct(tmp_path / "sacct.txt", time_zone="Europe/Berlin")
    held = trace.workload.release_time_s - trace.workload.submit_time_s
    assert held.tolist() == [0, 6900, 0, 0, 9000]  # the last one until its start
    assert trace.report.notes == {
        rules.ELIGIBLE_LATE: 1, rules.RELEASED_LATER: 2, rules.RELEASED_EARLY: 1,
    }  # fmt: skip
    assert trace.report.lines[rules.RELEASED_LATER] == [3, 6]
    assert trace.report.lines[rules.RELEASED_EARLY] == [4]


def test_eligible_at_submission_is_no_release_time(tmp_path):
    lines = SACCT.splitlines(keepends=True)
    (tmp_path / "sacct.txt").write_text("".join([*lines[:2], *lines[3:5]]))
    trace = read_sacct(tmp_path / "sacct.txt")
    assert not trace.workload.has_releases
    assert trace.report.notes == {rules.RELEASED_EARLY: 1}


# ---- tables -------------------------------------------------------------------------------------


def test_a_table_of_jobs_has_three_columns_for_it(tmp_path):
    table = tmp_path / "jobs.csv"
    table.write_text(
        "job_id,submit_time_s,run_time_s,processors,release_time_s,preceding_job,think_time_s\n"
        "3,5,50,4,,2; 1,\n1,0,100,4,,-1,\n2,0,50,4,90,1,30\n4,6,1,1,2,x,9\n5,6,1,1,,,9\n"
    )
    trace = read_jobs_table(table)
    assert links(trace.workload) == [(2, 1, 30), (3, 2, 0), (3, 1, 0)]
    assert trace.workload.release_time_s.tolist() == [0, 90, 5, 2, 6]  # of 1, 2, 3, 4, 5
    assert trace.report.notes == {
        rules.RELEASED_LATER: 1, rules.RELEASED_EARLY: 1, rules.ONLY_THINK_TIME: 1,
        rules.PRECEDING_UNKNOWN: 1, rules.PRECEDED: 2,
    }  # fmt: skip
    assert trace.report.lines[rules.PRECEDED] == [2, 4]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("x,,", "release_time_s is 'x', not a number"),
        ("inf,,", "release_time_s is inf, it must be finite"),
        (",1,-3", "think_time_s is -3, it must be finite, at least 0"),
    ],
)
def test_cells_that_break_a_rule_are_malformed(cells, words, tmp_path):
    table = tmp_path / "jobs.csv"
    table.write_text(
        "job_id,submit_time_s,run_time_s,processors,release_time_s,preceding_job,think_time_s\n"
        f"1,0,100,4,,,\n2,0,50,4,{cells}\n3,0,50,4,,2,\n"
    )
    with pytest.raises(TraceError, match=words):
        read_jobs_table(table)
    trace = read_jobs_table(table, on_error="skip")
    assert trace.report.dropped == {rules.MALFORMED: 1}
    assert trace.report.notes == {rules.PRECEDING_LEFT_OUT: 1}


def test_jobs_of_a_table_of_tasks_wait_by_their_first_row(tmp_path):
    table = tmp_path / "tasks.csv"
    table.write_text(
        "job,at,secs,cores,rel,pre,think\n"
        "a,0,10,1,,,\na,0,10,1,77,,\nb,0,10,1,,a,5\nc,0,10,1,30,,\nd,0,10,1,1e99,,\n"
    )
    columns = {
        "job_id": "job", "submit_time_s": "at", "run_time_s": "secs", "cpu": "cores",
        "release_time_s": "rel", "preceding_job": "pre", "think_time_s": "think",
    }  # fmt: skip
    trace = read_task_table(table, columns=columns)
    assert trace.workload.resources == ("cpu",)
    assert links(trace.workload) == [("b", "a", 5)]
    assert trace.workload.release_time_s.tolist() == [0, 0, 30]
    assert trace.report.dropped == {"no usable release time": 1}
