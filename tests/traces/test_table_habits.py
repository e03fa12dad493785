"""Tables of jobs and tasks as data frames and spreadsheets write them."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from trace_files import refusal

import simkit
from simkit.errors import ScenarioError, TraceError
from simkit.traces.jobs_table import JobsTable, read_jobs_table
from simkit.traces.task_table import read_task_table
from simkit.verify import verify_run

HEAD = "job_id,submit_time_s,run_time_s,processors"
TASKS = {"job_id": "job", "submit_time_s": "at", "run_time_s": "secs", "cpu": "cores"}
BERLIN = "Europe/Berlin"
MARCH_S = 1709276400.0
"""2024-03-01 08:00 in Berlin."""


def links(load):
    counts = np.diff(load.first_predecessor) if len(load.predecessor) else []
    job = np.repeat(np.arange(len(load)), counts) if len(load.predecessor) else []
    return [(load.job_id[j], load.job_id[p]) for j, p in zip(job, load.predecessor, strict=True)]


# --- one decimal sign holds for a file ----------------------------------------------------------


@pytest.fixture
def long_table(table, monkeypatch):
    """Return a function that writes a table of many blocks, each of a few rows."""
    monkeypatch.setattr("simkit.traces.files.text_blocks.__defaults__", (61,))
    return lambda last, cell="1.234": table(HEAD, *(f"{n},{n},{cell},4" for n in range(30)), last)


def test_a_sign_in_the_last_block_is_that_of_all(long_table):
    trace = read_jobs_table(long_table('30,30,"1.234,5",4'))
    assert trace.workload.run_time_s[[0, -2, -1]].tolist() == [1234, 1234, 1234.5]
    assert trace.report.notes == {"decimal comma": 1}
    pointed = read_jobs_table(long_table("30,30,1.25,4"))
    assert pointed.workload.run_time_s[[0, -1]].tolist() == pytest.approx([1.234, 1.25], abs=1e-6)


def test_different_signs_far_apart_are_refused(long_table):
    path = long_table('30,30,"0,5",4', cell="1.5")
    with pytest.raises(TraceError, match=r"1\.5 have different decimal signs"):
        read_jobs_table(path)
    with pytest.raises(TraceError, match=r"run_time_s is '0,5', not a number"):
        read_jobs_table(path, decimal=".")


def test_marks_of_no_value_far_apart_change_no_number(long_table):
    trace = read_jobs_table(long_table("30,30,NA,4", cell="1.5"), on_error="skip")
    assert np.unique(trace.workload.run_time_s).tolist() == [1.5]
    assert trace.report.dropped == {"malformed line": 1}


# --- ids as floats --------------------------------------------------------------------------------


def test_whole_floats_are_ids_everywhere(table):
    path = table(
        f"{HEAD},preceding_job,user,queue", "1.0,0,10,4,,1.0,7", "2.0,5,20,4,1.0,,7",
        "03,6,20,4,2;1.0,-1.0,7",
    )  # fmt: skip
    trace = read_jobs_table(path)
    assert trace.workload.job_id.tolist() == [1, 2, 3]
    assert links(trace.workload) == [(2, 1), (3, 2), (3, 1)]
    assert trace.workload.user.tolist() == [1, -1, -1]
    assert trace.report.notes == {"has a preceding job": 2}


def test_ids_that_are_text_keep_their_form(table):
    path = table(f"{HEAD},preceding_job", "1,0,1,1,", "2.0,1,1,1,1.0", "a,2,1,1,2.0", "b,3,1,1,2")
    trace = read_jobs_table(path)
    assert links(trace.workload) == [("2.0", "1"), ("a", "2.0")]
    assert trace.report.notes["preceding job unknown"] == 1


@pytest.mark.parametrize("ids", [pl.Float64, pl.Int32, pl.String, pl.Decimal(10, 2), pl.UInt64])
def test_ids_of_parquet_may_have_any_type_of_number(tmp_path, ids):
    jobs = pl.DataFrame({
        "job_id": [1, 2], "submit_time_s": [0, 5], "run_time_s": [10.0, 20.0], "processors": 4,
        "preceding_job": [None, 1], "user": [9, None],
    })  # fmt: skip
    names = ("job_id", "preceding_job", "user")
    jobs = jobs.with_columns(pl.col(names).cast(pl.Int64).cast(ids))
    if ids == pl.Float64:
        jobs = jobs.with_columns(pl.col(names).fill_null(float("nan")))
    jobs.write_parquet(tmp_path / "jobs.parquet")
    load = read_jobs_table(tmp_path / "jobs.parquet").workload
    assert (load.job_id.tolist(), links(load)) == ([1, 2], [(2, 1)])
    assert load.user.tolist() == [9, -1]


def test_tasks_and_parents_may_be_whole_floats(table):
    columns = {**TASKS, "task_id": "task", "parents": "after", "user": "who", "preceding_job": "p"}
    path = table(
        "job,task,at,secs,cores,after,who,p", "1.0,1.0,0,5,1,,4.0,", "01,2.0,0,5,1,1.0,4,",
        "2,1,1,5,1,,,1.0",
    )  # fmt: skip
    trace = read_task_table(path, columns=columns)
    load = trace.workload
    assert load.job_id.tolist() == [1, 2]
    assert load.task_id.tolist() == [1, 2, 1]
    assert (load.parent.tolist(), links(load)) == ([0], [(2, 1)])
    assert load.user.tolist() == [4, -1]
    assert trace.report.notes == {"has a preceding job": 1}


# --- instants -------------------------------------------------------------------------------------


INSTANTS = "job_id,submit_time_s,run_time_s,processors,release_time_s,deadline_s,start_time_s"


@pytest.mark.parametrize(
    ("cells", "keys"),
    [
        (("0", "300", "6000", "600"), {}),
        (("0", "5", "100", "10"), {"time_format": "minutes", "zero": "2024-03-01 08:00"}),
        (("1709276400", "1709276700", "1709282400", "1709277000"), {"time_format": "seconds"}),
        (("2024-03-01 08:00", "2024-03-01 08:05", "2024-03-01 09:40", "2024-03-01 08:10"),
         {"zone": BERLIN}),
        (("01.03.2024 08:00", "01.03.2024 08:05", "01.03.2024 09:40", "01.03.2024 08:10"),
         {"zone": BERLIN, "time_format": "%d.%m.%Y %H:%M"}),
    ],
)  # fmt: skip
def test_all_instants_are_read_alike(table, cells, keys):
    if "zero" in keys:
        keys = {**keys, "zone": BERLIN}
    path = table(INSTANTS, f"1,{cells[0]},10,4,{cells[1]},{cells[2]},{cells[3]}")
    trace, past = JobsTable.of(path=path, **keys).recorded()
    load = trace.workload
    assert (load.submit_time_s[0], load.release_time_s[0], load.deadline_s[0]) == (0, 300, 6000)
    assert past.start_s.tolist() == [600]
    assert load.epoch_s == MARCH_S if keys else np.isnan(load.epoch_s)
    assert trace.report.notes == {"released after submission": 1}


def test_instants_of_tasks_and_of_parquet_are_read_alike(tmp_path):
    eight = datetime(2024, 3, 1, 8)
    frame = pl.DataFrame({
        "job_id": [1], "submit_time_s": [eight], "run_time_s": [10.0], "processors": [4],
        "release_time_s": [eight + timedelta(minutes=5)],
        "start_time_s": [eight + timedelta(minutes=10)],
    })  # fmt: skip
    frame.write_parquet(tmp_path / "jobs.parquet")
    trace, past = JobsTable.of(path=tmp_path / "jobs.parquet", zone=BERLIN).recorded()
    assert (trace.workload.release_time_s[0], past.start_s[0]) == (300, 600)
    columns = {"job_id": "job_id", "submit_time_s": "submit_time_s", "run_time_s": "run_time_s",
               "cpu": "processors", "release_time_s": "release_time_s"}  # fmt: skip
    load = read_task_table(tmp_path / "jobs.parquet", columns=columns, zone=BERLIN).workload
    assert (load.release_time_s[0], load.epoch_s) == (300, MARCH_S)


def test_dates_of_parquet_may_have_a_zone(tmp_path):
    at = pl.Series([datetime(2024, 3, 1, 8)]).dt.replace_time_zone(BERLIN)
    frame = pl.DataFrame({"job_id": [1], "run_time_s": [60], "processors": [1]})
    frame.with_columns(submit_time_s=at).write_parquet(tmp_path / "jobs.parquet")
    load = read_jobs_table(tmp_path / "jobs.parquet").workload
    assert (load.epoch_s, load.submit_time_s.tolist()) == (MARCH_S, [0])


def test_parquet_counts_in_the_declared_unit(tmp_path):
    frame = pl.DataFrame({
        "job_id": [1, 2], "submit_time_s": [1, 11], "run_time_s": 1.0, "processors": 1,
        "release_time_s": [5.0, None],
    })  # fmt: skip
    frame.write_parquet(tmp_path / "jobs.parquet")
    keys = {"time_format": "minutes", "zero": "2024-03-01 08:00", "zone": BERLIN}
    load = read_jobs_table(tmp_path / "jobs.parquet", **keys).workload
    assert (load.submit_time_s.tolist(), load.release_time_s.tolist()) == ([60, 660], [300, 660])
    assert load.epoch_s == MARCH_S


def test_dates_beside_numbers_are_refused(table, tmp_path):
    path = table(f"{HEAD},release_time_s", "1,0,10,4,2024-03-01 08:00")
    with pytest.raises(TraceError, match="submit times are numbers, so write seconds from the sa"):
        read_jobs_table(path)
    frame = pl.DataFrame({"job_id": [1], "submit_time_s": [0], "run_time_s": [1.0],
                          "processors": [1], "deadline_s": [datetime(2024, 3, 1)]})  # fmt: skip
    frame.write_parquet(tmp_path / "jobs.parquet")
    with pytest.raises(TraceError, match="deadline_s is of type Datetime.*as submit times are"):
        read_jobs_table(tmp_path / "jobs.parquet")


def test_a_start_that_cannot_be_read_is_unknown_and_noted(table):
    path = table(f"{HEAD},start_time_s", "1,0,10,4,soon", "2,1,10,4,7", "3,1,10,4,", "4,1,10,4,inf")
    trace, past = JobsTable.of(path=path).recorded()
    np.testing.assert_array_equal(past.start_s, [np.nan, 7, np.nan, np.nan])
    assert trace.report.notes == {"recorded start cannot be read": 1}
    dated = table(f"{HEAD},start_time_s", "1,2024-03-01,10,4,soon", "2,2024-03-01,10,4,")
    trace, past = JobsTable.of(path=dated, zone="UTC").recorded()
    assert np.isnan(past.start_s).all()
    assert trace.report.notes == {"recorded start cannot be read": 1}


def test_a_factor_of_submit_times_alone_is_noted(table):
    path = table(f"{HEAD},release_time_s", "1,10,10,4,20")
    notes = read_jobs_table(path, factors={"submit_time_s": 60}).report.notes
    assert "factors multiplies submit_time_s, and release_time_s not" in notes
    both = {"submit_time_s": 60, "release_time_s": 60}
    assert list(read_jobs_table(path, factors=both).report.notes) == ["released after submission"]


# --- tables of tasks ------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [{}, {"rows": "instance"}, {"gang": True, "rows": "instance"}])
@pytest.mark.parametrize("parents", [False, True])
def test_tables_of_tasks_keep_their_dates(table, keys, parents):
    path = table("job,at,secs,cores,after", "1,2024-03-01 08:00,10,1,", "1,2024-03-01 08:00,9,1,1")
    columns = TASKS | ({"parents": "after"} if parents and not keys else {})
    load = read_task_table(path, columns=columns, zone=BERLIN, **keys).workload
    assert (load.epoch_s, load.time_zone) == (MARCH_S, BERLIN)


OF_JOBS = {**TASKS, "release_time_s": "rel", "preceding_job": "pred", "think_time_s": "think",
           "user": "who"}  # fmt: skip
DIFFERS = {
    "release time differs within the job": 1, "preceding job differs within the job": 1,
    "think time differs within the job": 1, "user differs within the job": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [
        ("2,1,5,1,,,,", "2,1,5,1,500,1,7,eve"),
        ("2,1,-5,1,500,1,7,eve", "2,1,5,1,,,,"),
        ("2,1,5,1,3,1,2,ann", "2,1,5,1,500,3,7,eve", "3,1,5,1,,,,"),
    ],
)
def test_rows_that_differ_from_the_first_of_their_job_are_noted(table, rows):
    path = table("job,at,secs,cores,rel,pred,think,who", "1,0,5,1,,,,", *rows)
    notes = read_task_table(path, columns=OF_JOBS).report.notes
    assert {rule: n for rule, n in notes.items() if "differs" in rule} == DIFFERS


def test_rows_that_say_the_same_or_nothing_are_not_noted(table):
    path = table("job,at,secs,cores,rel,pred,think,who", "1,0,5,1,,,,", "2,1,5,1,9,1,2,ann",
                 "2,1,5,1,9,1,2,ann", "2,1,5,1,,,,", "9,1,-5,1,9,1,2,ann")  # fmt: skip
    notes = read_task_table(path, columns=OF_JOBS).report.notes
    assert notes == {"has a preceding job": 1, "released after submission": 1}


def test_instances_that_differ_from_the_first_of_their_task_are_noted(table):
    columns = {**TASKS, "requested_time_s": "limit", "retries": "again"}
    path = table("job,at,secs,cores,limit,again", "1,0,5,1,9,1", "1,0,5,1,8,2", "1,0,5,1,,")
    notes = read_task_table(path, columns=columns, rows="instance").report.notes
    assert notes == {
        "requested time differs within the task": 1, "retries differ within the task": 1,
    }  # fmt: skip


@pytest.mark.parametrize("row", ["1,0,-5,1,,,,", "1,0,x,1,,,,"])
def test_a_preceding_job_that_was_left_out_is_said_to_be(table, row):
    path = table("job,at,secs,cores,rel,pred,think,who", row, "2,1,5,1,,1,,", "3,1,5,1,,7,,")
    trace = read_task_table(path, columns=OF_JOBS, on_error="skip")
    assert trace.report.notes == {"preceding job left out": 1, "preceding job unknown": 1}


# --- types of columns -----------------------------------------------------------------------------


ODD_TYPES = [
    pl.Series([[1]]), pl.Series([{"a": 1}]), pl.Series([b"1"]), pl.Series([True]),
    pl.Series([timedelta(1)]), pl.Series([datetime(2024, 1, 1).time()]),
    pl.Series([[1]], dtype=pl.Array(pl.Int64, 1)),
]  # fmt: skip


@pytest.mark.parametrize("column", ODD_TYPES, ids=lambda column: str(column.dtype))
@pytest.mark.parametrize(
    "name", ["job_id", "preceding_job", "user", "run_time_s", "submit_time_s", "deadline_s"]
)
def test_columns_of_odd_types_are_refused_by_name_and_type(tmp_path, name, column):
    frame = pl.DataFrame({"job_id": [1], "submit_time_s": [0], "run_time_s": [1], "processors": 1})
    frame.with_columns(column.alias(name)).write_parquet(tmp_path / "jobs.parquet")
    with pytest.raises(TraceError, match=f"{name} is of type .*; it must"):
        read_jobs_table(tmp_path / "jobs.parquet")


def test_categories_and_decimals_are_text_and_numbers(tmp_path):
    frame = pl.DataFrame({"job_id": ["a"], "submit_time_s": [0], "run_time_s": ["1.5"],
                          "processors": [1], "queue": ["x"]})  # fmt: skip
    frame = frame.with_columns(
        pl.col("job_id", "queue").cast(pl.Categorical), pl.col("run_time_s").cast(pl.Decimal(9, 2))
    )
    frame.write_parquet(tmp_path / "jobs.parquet")
    load = read_jobs_table(tmp_path / "jobs.parquet").workload
    assert (load.job_id[0], load.run_time_s[0], load.labels["queue"]) == ("a", 1.5, ("x",))


def test_marks_of_no_value_count_in_parquet(tmp_path):
    frame = pl.DataFrame({
        "job_id": [1, 2], "submit_time_s": [0, 1], "run_time_s": [5, -999], "processors": 1,
        "user": ["ann", "NA"],
    })  # fmt: skip
    frame.write_parquet(tmp_path / "jobs.parquet")
    trace = read_jobs_table(tmp_path / "jobs.parquet", missing=["-999"], on_error="skip")
    assert (trace.workload.job_id.tolist(), trace.workload.labels["user"]) == ([1], ("ann",))


# --- columns that are not read --------------------------------------------------------------------


def test_columns_without_a_name_are_named_by_their_place(table):
    path = table(f",{HEAD},,end_time_s", "0,1,0,5,2,,9")
    unread = read_jobs_table(path).report.unread
    assert unread == {
        "column 1 without a name": "not known to simkit",
        "column 6 without a name": "not known to simkit", "end_time_s": "recorded end",
    }  # fmt: skip


# --- a clock that is put back ---------------------------------------------------------------------


def test_an_hour_shown_twice_is_said_to_be_the_first_or_the_second(table):
    night = ["01:30", "02:10", "02:40", "02:10", "03:10"]
    path = table(HEAD, *(f"{n},2024-10-27 {at},5,1" for n, at in enumerate(night)))
    trace = read_jobs_table(path, zone=BERLIN)
    assert trace.report.notes == {"hour shown twice, the second taken": 1}
    assert trace.workload.submit_time_s.tolist() == [0, 2400, 4200, 6000, 9600]
    path = table(HEAD, *(f"{n},2024-10-27 {at},5,1" for n, at in enumerate(night[:2])))
    assert read_jobs_table(path, zone=BERLIN).report.notes == {
        "hour shown twice, the first taken": 1
    }


# --- encodings ------------------------------------------------------------------------------------


def test_a_line_in_another_encoding_changes_no_other_line(tmp_path):
    path = tmp_path / "jobs.csv"
    rows = ["1,0,5,1,Zoë".encode(), "2,1,5,1,Zoë".encode("cp1252"), b"3,2,5,1,Ann"]
    path.write_bytes(b"\n".join([f"{HEAD},user".encode(), *rows, b""]))
    trace = read_jobs_table(path)
    assert trace.workload.labels["user"] == ("Zoë", "Ann")
    assert trace.report.notes == {"not in UTF-8": 1}
    assert trace.report.lines["not in UTF-8"] == [3]


# --- dates ----------------------------------------------------------------------------------------

DATED = f"{HEAD},deadline_s"
DATES = ("1,2024-03-01 08:00,60,2,2024-03-01 10:00", "2,2024-03-01 08:30,60,2,",
         "3,2024-03-01 08:15,60,1,inf")  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "keys", "problem"),
    [
        (DATES, {}, "submit_time_s: times without a time zone"),
        (("1,2024-13-01 08:00,60,2,", DATES[1]), {"zone": "UTC"}, ":2: submit_time_s is '2024-13"),
        (("1,2024-03-31 02:30,60,2,", DATES[1]), {"zone": BERLIN}, ":2: submit_time_s"),
        (("1,soon,60,2,", DATES[1]), {"zone": "UTC"}, ":2: submit_time_s is 'soon'"),
        ((DATES[1], "1,soon,60,2,"), {"zone": "UTC"}, ":3: submit_time_s is 'soon'"),
        (("1,2024-03-01 08:00,60,2,99",), {"zone": "UTC"}, "deadline_s: no time can be read"),
        (("1,01.03.2024 08:00,60,2,",), {"zone": "UTC"}, 'time_format: "%d.%m.%Y %H:%M"'),
    ],
)
def test_dates_that_cannot_be_read(table, rows, keys, problem):
    assert problem in refusal(read_jobs_table, table(DATED, *rows), **keys)


@pytest.mark.parametrize("column", ["submit_time_s", "start_time_s"])
def test_dates_take_no_factor(table, column):
    past = [f"{row},2024-03-01 09:00" for row in DATES]
    workload = {"type": "jobs", "path": str(table(f"{DATED},start_time_s", *past)), "zone": "UTC",
                "factors": {column: 0.001}}  # fmt: skip
    with pytest.raises(ScenarioError, match=rf"^workload\.factors\.{column}: "):
        simkit.simulate(
            {"workload": workload, "cluster": {"processors": 4}, "policy": {"recorded": {}}}
        )


def test_an_unknown_amount_is_not_none_of_it(table):
    head = "job_id,submit_time_s,run_time_s,cpu,mem"
    assert read_jobs_table(table(head, "1,0,5,2,")).workload.request.tolist() == [[2, 0]]
    assert ":2: mem is nan" in refusal(read_jobs_table, table(head, "1,0,5,2,N/A"))
    tasks = table("job,at,secs,cores", "a,0,5,n/e", "b,0,5,1")
    assert read_task_table(tasks, columns=TASKS).report.dropped == {"no usable request": 1}


@pytest.mark.parametrize("kind", ["jobs", "tasks"])
def test_a_run_of_dates_is_audited(tmp_path, table, kind):
    if kind == "jobs":
        rows = (row.replace(",", ";").replace("60", "60,5") for row in DATES)
        path = table("a note", DATED.replace(",", ";"), *rows)
        keys = {"cluster": {"processors": 4}, "policy": {"order": "fcfs"}}
    else:
        path = table("job\tat\tsecs\tcores", "a\t2024-03-01 08:00\t60\t1,5",
                     "b\t2024-03-01 08:30\t60\t2")  # fmt: skip
        keys = {"cluster": {"machines": [{"count": 2, "cpu": 4}]},
                "policy": {"fitness": "first-fit"}}  # fmt: skip
    workload = {"type": kind, "path": str(path), "zone": BERLIN}
    workload |= {"columns": TASKS} if kind == "tasks" else {}
    simkit.simulate({"workload": workload, **keys}, output=tmp_path / "run")
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.ok, [f"{v.check}: {v.message}" for v in audit.violations]
    assert {"tasks", "input"} & {check.name for check in audit.done}
