"""Columns that look swapped are noted, or named in the error; repeated ids are noted, as in SWF."""

from functools import partial

import pytest
from trace_files import real_file

from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.jobs_table import read_jobs_table
from simkit.traces.swf import read_swf

HEAD = "job_id,submit_time_s,run_time_s,processors"


@pytest.fixture
def table(write_table):
    return partial(write_table, head=HEAD)


def swf(job, submit, run, wanted):
    return f"{job} {submit} -1 {run} 2 -1 -1 2 {wanted} -1 1 1 1 -1 -1 -1 -1 -1"


RUN_TIMES = (500, 20, 3000, 7, 900, 60)


def test_job_ids_that_repeat_are_kept_and_noted_as_in_swf(table, tmp_path):
    path = table("7,0,1,1", "8,0,2,1", "7,5,3,1", "7,0,4,1")
    log = tmp_path / "log.swf"
    log.write_text(
        "".join(swf(*job, 20) + "\n" for job in ((7, 0, 1), (8, 0, 2), (7, 5, 3), (7, 0, 4)))
    )
    trace, same = read_jobs_table(path), read_swf(log)
    assert trace.workload.job_id.tolist() == same.workload.job_id.tolist() == [7, 7, 8, 7]
    assert trace.workload.run_time_s.tolist() == same.workload.run_time_s.tolist() == [1, 4, 2, 3]
    assert trace.report.notes[rules.REPEATED_ID] == same.report.notes[rules.REPEATED_ID] == 2
    assert trace.report.lines[rules.REPEATED_ID] == [4, 5]
    text = read_jobs_table(table("a,0,1,1", "a,0,2,1", "b,0,1,1"))
    assert text.report.notes == {rules.REPEATED_ID: 1}


def test_submit_and_run_times_that_look_swapped_are_noted(table):
    right = [f"{n},{10 * n},{run},1" for n, run in enumerate(RUN_TIMES)]
    swapped = [f"{n},{run},{10 * n},1" for n, run in enumerate(RUN_TIMES)]
    assert read_jobs_table(table(*right)).report.notes == {}
    report = read_jobs_table(table(*swapped)).report
    assert report.notes == {rules.SWAPPED_TIMES: 3}
    assert report.lines[rules.SWAPPED_TIMES] == [3, 5, 7]
    log = table(*(swf(n, run, 10 * n + 1, 1e6) for n, run in enumerate(RUN_TIMES)), head=";")
    assert rules.SWAPPED_TIMES in read_swf(log).report.notes


def test_run_and_requested_times_that_look_swapped_are_noted(table):
    rows = [f"{n},{10 * n},{2 * run},1,{run}" for n, run in enumerate(RUN_TIMES)]
    report = read_jobs_table(table(*rows, head=f"{HEAD},requested_time_s")).report
    assert report.notes == {rules.SWAPPED_LIMITS: 6}
    log = table(*(swf(n, 10 * n, 2 * run, run) for n, run in enumerate(RUN_TIMES)), head=";")
    for how in ("max", "raw"):
        assert read_swf(log, requested_time=how).report.notes == {rules.SWAPPED_LIMITS: 6}


SWAPPED = [
    # header, rows, the columns that are named
    (HEAD, ["1,0,8,10.5", "2,3,4,60.25", "3,9,2,7.75"], "processors and run_time_s"),
    (f"{HEAD},user", ["1,0,1,ann,4", "2,0,1,bob,8"], "processors and user"),
    (f"{HEAD},qos,value", ["1,0,1,4,10,0.5", "2,0,1,4,20,1"], "qos and value"),
]


@pytest.mark.parametrize(("head", "rows", "columns"), SWAPPED)
def test_an_error_names_columns_that_look_swapped(table, head, rows, columns):
    with pytest.raises(TraceError) as caught:
        read_jobs_table(table(*rows, head=head))
    assert f": the columns {columns} look swapped: " in str(caught.value)


T = 1_700_000_000  # a Unix time
DATES = [
    # header, rows: one column is wrong, and the dates of another would do for it
    (HEAD, [f"1,{T},-1,1", f"2,{T + 60},-1,1", f"3,{T + 90},-1,1"]),
    (HEAD, [f"1,{T},9.5,0", f"2,{T + 60},9.5,0", f"3,{T + 90},9.5,0"]),
    ("job_id,submit_time_s,processors,run_time_s", ["7,0,1,2024-01-05", "8,9,1,2024-01-06"]),
    ("job_id,submit_time_s,processors,run_time_s", ["7,0,1,10:30:00", "8,9,1,11:00:00"]),
]


@pytest.mark.parametrize(("head", "rows"), DATES)
def test_a_date_is_not_swapped_with_a_number(table, head, rows):
    with pytest.raises(TraceError) as caught:
        read_jobs_table(table(*rows, head=head))
    assert "look swapped" not in str(caught.value)


@pytest.mark.parametrize("first", [0, T])
def test_run_times_that_ascend_are_no_swap_of_dates(table, first):
    order = [5, 1, 4, 0, 3, 2]
    rows = [f"{n},{first + 100 * at},{n + 1},1" for n, at in enumerate(order)]
    notes = read_jobs_table(table(*rows)).report.notes
    assert (rules.SWAPPED_TIMES in notes) == (first == 0)


def test_one_bad_value_is_no_swap(table):
    with pytest.raises(TraceError) as caught:
        read_jobs_table(table("1,1,8,2", "2,3,4,0.5", "3,9,2,1"))
    assert "swapped" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["KTH-SP2-1996-2.1-cln.swf.gz", "theta_2022.swf.gz", "NASA-iPSC-1993-3.1-cln.swf.gz"]
)
def test_no_column_of_a_real_log_looks_swapped(name):
    notes = read_swf(real_file("swf", name)).report.notes
    assert not {rules.SWAPPED_TIMES, rules.SWAPPED_LIMITS} & set(notes)
