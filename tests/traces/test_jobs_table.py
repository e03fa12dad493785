"""Tables of jobs are fed as they are: no rule repairs or drops, what is wrong is an error."""

from functools import partial

import numpy as np
import polars as pl
import pytest
from trace_files import refusal

import simkit
from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.jobs_table import read_jobs_table
from simkit.verify import verify_run

HEAD = "job_id,submit_time_s,run_time_s,processors"


@pytest.fixture
def table(write_table):
    return partial(write_table, head=HEAD)


message = partial(refusal, read_jobs_table)


def test_columns_are_fed_as_they_are_in_any_order(table):
    head = "x,processors,job_id,run_time_s,submit_time_s,requested_time_s,user"
    path = table("?,4,2,0,9.5,,3", "?,2,1,100,7,50,", head=head)
    trace = read_jobs_table(path)
    jobs = trace.workload
    assert jobs.job_id.tolist() == [1, 2]
    assert jobs.submit_time_s.tolist() == [7, 9.5]
    assert jobs.run_time_s.tolist() == [100, 0]
    assert jobs.requested_time_s.tolist() == pytest.approx([50, np.nan], nan_ok=True)
    assert jobs.instances.tolist() == [2, 4]
    assert jobs.user.tolist() == [-1, 3]
    assert (trace.report.read, trace.report.accepted) == (2, 2)


@pytest.mark.parametrize(
    ("head", "notes"),
    [
        ("processors,usr,limit", ["column 'usr' is not read; did you mean 'user'?"]),
        ("cpu,memm,instance", ["column 'instance' is not read; did you mean 'instances'?",
                               "column 'memm' is not read; did you mean 'mem'?"]),
        ("processors,mem,used_gpus", []),  # columns of other names are nobody's mistake
        ("processors,user,users", []),  # the one that is meant is there
    ],
)  # fmt: skip
def test_a_column_that_looks_misspelt_is_noted(table, head, notes):
    path = table("1,0,1,1,2,3", head=f"job_id,submit_time_s,run_time_s,{head}")
    report = read_jobs_table(path).report
    assert (list(report.notes), report.accepted) == (notes, 1)


def test_users_and_queues_may_be_names(table, tmp_path):
    path = table("2,5,1,1,ada,7,", "1,0,1,1,bob,-1,3", "3,6,1,1,,short,-1", "4,7,1,1,ada,7,4",
                 head=f"{HEAD},user,queue,partition")  # fmt: skip
    jobs = read_jobs_table(path).workload
    assert jobs.labels == {"user": ("ada", "bob"), "queue": ("7", "short")}
    assert jobs.user.tolist() == [1, 0, -1, 0]
    assert jobs.queue.tolist() == [-1, 0, 1, 0]
    assert jobs.partition.tolist() == [3, -1, -1, 4]  # numbers alone stay numbers
    parquet = tmp_path / "jobs.parquet"
    pl.read_csv(path).write_parquet(parquet)
    again = read_jobs_table(parquet).workload
    assert (again.labels, again.user.tolist()) == (jobs.labels, jobs.user.tolist())


def test_results_show_the_names(table, tmp_path):
    path = table("1,0,1,1,ada", "2,5,1,1,bob", head=f"{HEAD},user")
    scenario = {"workload": {"type": "jobs", "path": str(path)}, "cluster": {"processors": 1}}
    run = simkit.simulate(scenario | {"policy": {"order": "fcfs"}}, output=tmp_path / "run")
    assert run.jobs["user"].to_list() == ["ada", "bob"]
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.ok, [f"{v.check}: {v.message}" for v in audit.violations]


def test_worths_are_fed_where_the_table_has_them(table):
    head = f"{HEAD},qos,value,deadline_s"
    jobs = read_jobs_table(table("2,5,1,1,0.5,10,", "1,0,1,1,1,0,9", head=head)).workload
    assert jobs.qos.tolist() == [1.0, 0.5]
    assert jobs.value.tolist() == [0.0, 10.0]
    assert jobs.deadline_s.tolist() == [9.0, np.inf]  # an empty cell: no deadline
    plain = read_jobs_table(table("1,0,1,1")).workload
    assert (len(plain.qos), len(plain.value), len(plain.deadline_s)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("qos", "0", ":2: qos is 0, it must be above 0 and at most 1"),
        ("qos", "", ":2: qos is nan, it must be above 0 and at most 1"),
        ("value", "-1", ":2: value is -1, it must be finite and at least 0"),
        ("deadline_s", "-inf", ":2: deadline_s is -inf, it must be a time, or empty"),
    ],
)
def test_a_worth_out_of_range_is_an_error(table, column, cell, expected):
    found = message(table(f"1,0,1,1,{cell}", head=f"{HEAD},{column}"))
    assert found.partition("\n")[0] == expected


def test_job_ids_may_be_text(table):
    jobs = read_jobs_table(table("b,0,1,1", "7,0,1,1")).workload
    assert jobs.job_id.dtype == object
    assert jobs.job_id.tolist() == ["7", "b"]


BROKEN = [
    # rows, what the message says after the file's name
    ([], ": no jobs: the table has no rows"),
    (["1,0,1,1", ",2,1,1"], ":3: job_id is empty"),
    (["1,nan,1,1"], ":2: submit_time_s is empty; every job needs one"),
    (["1,0,1,-4"], ":2: processors is -4, it must be whole and at least 1"),
    (["1,0,1,2.5"], ":2: processors is 2.5, it must be whole and at least 1"),
    (["1,0,1,1", "2,1700000000000,1,1"], ":3: submit_time_s is 1.7e+12, it must be finite, in"),
    (["1,0,4294967297,1"], ":2: run_time_s is 4294967297, it must be finite and at least 0, in"),
    (["1,0,1,1e300"], ":2: processors is 1e+300, it must be whole and at least 1, below 2^33"),
]


@pytest.mark.parametrize(("rows", "expected"), BROKEN)
def test_a_broken_row_is_an_error_with_its_line(table, rows, expected):
    assert message(table(*rows)).startswith(expected)


def test_a_missing_column_is_an_error_with_a_suggestion(table):
    path = table("1,0,1,1", head="job_id,submit_time,run_time_s,processors")
    assert "no column 'submit_time_s'; did you mean 'submit_time'?" in message(path)


def test_damaged_parquet_and_rows_of_parquet_are_named(table, tmp_path):
    path = tmp_path / "jobs.parquet"
    frame = pl.read_csv(table("1,0,1,1", "2,3,4,0"))
    frame.write_parquet(path)
    assert message(path).startswith(": row 2: processors is 0")
    path.write_bytes(path.read_bytes()[:60])
    assert message(path).startswith(": damaged Parquet file")


def test_no_limit_is_infinite_and_an_empty_one_unknown(table):
    rows = ("1,0,1,1,inf", "2,0,1,1,UNLIMITED", "3,0,1,1,", "4,0,1,1,infinite", "5,0,1,1,60")
    path = table(*rows, head=f"{HEAD},requested_time_s")
    trace = read_jobs_table(path)
    wanted = [np.inf, np.inf, np.nan, np.inf, 60]
    np.testing.assert_equal(trace.workload.requested_time_s, wanted)
    assert trace.report.notes == {rules.NO_LIMIT: 3}
    assert "requested_time_s is 'never', not a number" in message(
        table("1,0,1,1,never", head=f"{HEAD},requested_time_s")
    )


# ---- several resources --------------------------------------------------------------------------

GANGS = "job_id,submit_time_s,run_time_s,instances,cpu,mem,gpu"


def test_gangs_ask_for_several_resources_and_an_empty_cell_for_none(table, tmp_path):
    path = table("2,9,50,1,2,8,", "1,0,100,3,4,16,1", "3,9,5,2,,,2", head=GANGS)
    parquet = tmp_path / "jobs.parquet"
    pl.read_csv(path).write_parquet(parquet)
    for copy in (path, parquet):
        jobs = read_jobs_table(copy).workload
        assert jobs.resources == ("cpu", "mem", "gpu")
        assert jobs.instances.tolist() == [3, 1, 2]
        assert jobs.request.tolist() == [[4, 16, 1], [2, 8, 0], [0, 0, 2]]
        assert jobs.gang.all()


def test_resources_may_have_other_names_and_units(table):
    path = table("1,2000,5000,150,8", head="job_id,submit_time_s,run_time_s,processors,fpga")
    assert read_jobs_table(path).workload.resources == ("processors",)  # others are ignored
    factors = {"submit_time_s": 1e-3, "run_time_s": 1e-3, "processors": 0.01}
    jobs = read_jobs_table(path, resources=["processors", "fpga"], factors=factors).workload
    assert jobs.resources == ("processors", "fpga")
    assert jobs.request.tolist() == [[1.5, 8]]
    assert (jobs.instances.tolist(), jobs.submit_time_s.tolist()) == ([1], [2])
    assert jobs.run_time_s.tolist() == [5]


def test_a_job_that_asks_for_nothing_is_malformed(table):
    path = table("1,0,1,1,,,", "2,0,1,1,,1,", "3,0,1,0,-1,1e300,", "4,0,1,1,0,0,0", head=GANGS)
    found = message(path)
    for line in (2, 5):  # empty cells and zeros are the same
        asked = "cpu, mem and gpu are 0 or empty, one must be more than 0"
        assert f":{line}: the job asks for nothing: {asked}" in found
    assert ":4: cpu is -1, it must be at least 0 and below 2^33, or empty" in found
    assert ":4: instances is 0, it must be whole and at least 1" in found
    assert "3 malformed lines" in found
    trace = read_jobs_table(path, on_error="skip")
    assert trace.workload.job_id.tolist() == [2]
    assert trace.report.dropped == {"malformed line": 3}
    alone = message(path, resources=["gpu"])
    assert ":5: the job asks for nothing: gpu is 0 or empty, it must be more than 0" in alone


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"resources": []}, "resources: is empty"),
        ({"resources": ["cpu", "qos"]}, "resources: qos is a column of its own"),
        ({"factors": {"cpus": 0.01}}, "factors.cpus: is no column of numbers; did you mean 'cpu'?"),
        ({"factors": {"user": 2}}, "factors.user: is no column of numbers"),
    ],
)
def test_keys_that_fit_no_column_are_refused(table, keys, expected):
    with pytest.raises(TraceError, match=expected.replace("?", r"\?")):
        read_jobs_table(table("1,0,1,1,1,1,1", head=GANGS), **keys)


def test_retries_are_whole_or_empty(table):
    head = f"{HEAD},retries"
    jobs = read_jobs_table(table("1,0,1,1,2", "2,0,1,1,", "3,0,1,1,0", head=head)).workload
    assert jobs.retries.tolist() == [2, -1, 0]
    assert jobs.take(np.array([2])).retries.tolist() == [0]
    found = message(table("1,0,1,1,1.5", "2,0,1,1,-1", head=head))
    assert ":2: retries is 1.5, it must be whole and at least 0, or empty" in found
    assert ":3: retries is -1, it must be whole and at least 0, or empty" in found


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            ["1,1700000000000,60000,1,1,,", "2,1700000005000,60000,1,1,,"],
            "submit_time_s looks like milliseconds since 1970 (such as 1.700000002e+12); set "
            "factors: {submit_time_s: 0.001}",
        ),
        (["1,1.7e15,6,1,1,,"], "looks like microseconds since 1970"),
        (["1,0,6,1,1,17179869184,"], "mem looks like bytes (such as 1.717986918e+10)"),
    ],
)
def test_an_error_says_what_values_out_of_range_look_like(table, rows, expected):
    assert expected in message(table(*rows, head=GANGS))
    assert "looks like" not in message(table("1,1e11,6,1,1,inf,", head=GANGS))
