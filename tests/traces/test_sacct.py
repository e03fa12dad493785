"""Reading Slurm's accounting: fields by header, steps, arrays, cancelled jobs, formats."""

from functools import partial

import numpy as np
import pytest
from trace_files import refusal

from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.sacct import read_sacct
from simkit.traces.sacct.table import COMMAND

COLUMNS = (
    "JobID", "JobIDRaw", "User", "Account", "Partition", "QOS", "State", "Submit", "Start", "End",
    "Elapsed", "Timelimit", "AllocCPUS", "ReqCPUS", "NNodes", "ReqMem",
)  # fmt: skip
JOB = {
    "JobID": "10", "User": "ann", "Account": "physics", "Partition": "batch", "QOS": "normal",
    "State": "COMPLETED", "Submit": "2024-05-01T12:00:00", "Start": "2024-05-01T12:00:10",
    "End": "2024-05-01T13:00:10", "Elapsed": "01:00:00", "Timelimit": "02:00:00",
    "AllocCPUS": "8", "ReqCPUS": "8", "NNodes": "2", "ReqMem": "16G",
}  # fmt: skip


def job(number="10", **fields):
    return JOB | {"JobID": number, "JobIDRaw": number} | fields


@pytest.fixture
def table(tmp_path):
    def write(*jobs, columns=COLUMNS, tail="", name="sacct.txt"):
        path = tmp_path / name
        lines = ["|".join(columns), *("|".join(j[c] for c in columns) for j in jobs)]
        path.write_text("".join(f"{line}{tail}\n" for line in lines))
        return path

    return write


message = partial(refusal, read_sacct)


def without(*names):
    return tuple(c for c in COLUMNS if c not in names)


def test_rows_become_rigid_jobs_with_names_behind_the_numbers(table):
    path = table(
        job("10"),
        job("11", User="bob", Account="", Submit="2024-05-01T12:00:30", AllocCPUS="16"),
        job("12", Submit="2024-05-01T12:01:00", Partition="gpu"),
    )
    trace = read_sacct(path)
    jobs = trace.workload
    assert jobs.job_id.tolist() == [10, 11, 12]
    assert jobs.submit_time_s.tolist() == [0, 30, 60]
    assert jobs.run_time_s.tolist() == [3600] * 3
    assert jobs.requested_time_s.tolist() == [7200] * 3
    assert jobs.instances.tolist() == [8, 16, 8]
    assert jobs.user.tolist() == [0, 1, 0]
    assert jobs.group.tolist() == [0, -1, 0]
    assert jobs.partition.tolist() == [0, 0, 1]
    assert jobs.labels == {
        "user": ("ann", "bob"),
        "group": ("physics",),
        "queue": ("normal",),
        "partition": ("batch", "gpu"),
    }
    assert jobs.epoch_s == 1714564800  # 2024-05-01 12:00 UTC
    assert trace.report.accepted == trace.report.read == 3


LEFT_OUT = [
    # fields of the row, the rule that leaves it out
    ({"JobID": "9.batch", "JobIDRaw": "9.batch"}, rules.JOB_STEP),
    ({"JobID": "9.0", "JobIDRaw": "9.0"}, rules.JOB_STEP),
    ({"JobID": "9_2.extern", "JobIDRaw": "11.extern"}, rules.JOB_STEP),
    ({"JobID": "9_[1-5%2]", "State": "PENDING", "Start": "Unknown"}, rules.PENDING_ARRAY),
    ({"State": "CANCELLED by 1000", "Start": "Unknown", "Elapsed": "00:00:00"}, rules.CANCELLED),
    ({"State": "CANCELLED", "Start": "None", "AllocCPUS": "0"}, rules.CANCELLED),
    ({"State": "CANCELLED by 0", "Elapsed": "00:00:00"}, rules.CANCELLED),
    ({"State": "PENDING", "Start": "Unknown", "End": "Unknown"}, rules.NOT_STARTED),
    ({"State": "RUNNING", "End": "Unknown"}, rules.STILL_RUNNING),
    ({"State": "COMPLETED", "Elapsed": "00:00:00"}, rules.ZERO_RUN),
    ({"AllocCPUS": "0", "ReqCPUS": ""}, rules.NO_PROCESSORS),
    ({"Submit": "Unknown"}, rules.NO_SUBMIT),
    ({"Elapsed": ""}, rules.NO_RUN),
]


@pytest.mark.parametrize(("fields", "rule"), LEFT_OUT)
def test_rows_that_are_no_finished_jobs_are_dropped_and_counted(table, fields, rule):
    report = read_sacct(table(job("8"), job("9", **fields))).report
    assert report.dropped == {rule: 1}
    assert report.lines == {rule: [3]}
    assert report.balanced()
    assert report.read == 2


def test_a_job_cancelled_while_it_ran_is_a_job(table):
    assert len(read_sacct(table(job(State="CANCELLED by 7"))).workload) == 1


def test_array_tasks_have_text_ids_in_numerical_order_unless_raw_ids_are_there(table):
    rows = [job("12_10", JobIDRaw="30"), job("12_9", JobIDRaw="20"), job("4", JobIDRaw="4")]
    assert read_sacct(table(*rows)).workload.job_id.tolist() == [4, 20, 30]
    jobs = read_sacct(table(*rows, columns=without("JobIDRaw"))).workload
    assert jobs.job_id.dtype == object
    assert jobs.job_id.tolist() == ["4", "12_9", "12_10"]


DURATIONS = [
    # text of Elapsed, seconds
    ("00:01", 1),
    ("10:30", 630),
    ("01:00:00", 3600),
    ("1-02:03:04", 93784),
    ("00:01.500", 1.5),
    ("10-00:00:00", 864000),
]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_durations(table, text, seconds):
    assert read_sacct(table(job(Elapsed=text))).workload.run_time_s[0] == seconds


PROCESSORS = [
    # columns instead of AllocCPUS, ReqCPUS and NNodes; processors; note
    ({"NCPUS": "24"}, 24, {}),
    ({"AllocTRES": "cpu=12,mem=1G,node=3"}, 12, {}),
    ({"AllocTRES": "", "ReqTRES": "cpu=5"}, 5, {}),
    ({"NNodes": "3"}, 3, {rules.NODES_COUNTED: 1}),
]


@pytest.mark.parametrize(("fields", "count", "notes"), PROCESSORS)
def test_processors_come_from_the_columns_there_are(table, fields, count, notes):
    columns = (*without("AllocCPUS", "ReqCPUS", "NNodes"), *fields)
    trace = read_sacct(table(job(**fields), columns=columns))
    assert trace.workload.instances.tolist() == [count]
    assert trace.report.notes == notes


def test_a_time_zone_counts_the_hours_across_the_end_of_summer_time(table):
    path = table(
        job("1", Submit="2024-10-27T00:30:00"),
        job("2", Submit="2024-10-27T04:30:00"),
    )
    assert read_sacct(path).workload.submit_time_s.tolist() == [0, 4 * 3600]
    jobs = read_sacct(path, time_zone="Europe/Berlin").workload
    assert jobs.submit_time_s.tolist() == [0, 5 * 3600]
    assert (jobs.epoch_s, jobs.time_zone) == (1729981800, "Europe/Berlin")


def test_broken_tables_are_errors_with_line_and_remedy(table, tmp_path):
    def text(content):
        path = tmp_path / "broken.txt"
        path.write_text(content)
        return message(path)

    assert text("") == ": no jobs: the file is empty or holds only comments; check it"
    assert text("10|ann|batch\n").startswith(":1: the first line names no column JobID")
    assert text("JobID|JobID\n1|1\n").startswith(":1: two columns JobID")
    needed = "JobID|Submit|Elapsed|NCPUS\n"
    fields = "1|2024-01-01T08:00:00|00:10:00|4"
    wide, narrow = text(f"{needed}{fields}\n\n{fields}|5\n"), text(f"{needed}1\n")
    assert wide.startswith(":4: 5 fields, the header has 4;")
    assert narrow.startswith(":2: 1 field, the header has 4;")
    for field, value in (
        ("Submit", "yesterday"),
        ("Elapsed", "3 h"),
        ("Timelimit", "soon"),
        ("AllocCPUS", "4K"),
        ("ReqMem", "much"),
    ):
        expected = f":3: {field} is {value!r}; it should look like "
        assert message(table(job("1"), job("2", **{field: value}))).startswith(expected)
    assert "JobIDRaw is 'x'" in message(table(job("x")))


MISSING = [
    # columns that are left out, what the message says is missing
    ({"Submit"}, ["Submit"]),
    ({"Elapsed", "End"}, ["Elapsed (or ElapsedRaw, or both Start and End)"]),
    ({"AllocCPUS", "ReqCPUS", "NNodes"},
     ["AllocCPUS (or NCPUS, AllocTRES, ReqCPUS, ReqTRES, NNodes, AllocNodes, ReqNodes)"]),
    ({"Submit", "Elapsed", "Start"},
     ["Submit", "Elapsed (or ElapsedRaw, or both Start and End)"]),
]  # fmt: skip


@pytest.mark.parametrize(("left_out", "missing"), MISSING)
def test_missing_columns_are_named_all_at_once(table, left_out, missing):
    named = ", ".join(f"no column {name}" for name in missing)
    assert message(table(job(), columns=without(*left_out))) == (
        f":1: {named}; print the table again with {COMMAND}"
    )


def test_an_unknown_time_zone_is_refused(table):
    with pytest.raises(TraceError, match="unknown time zone 'Mars/Olympus'"):
        read_sacct(table(job()), time_zone="Mars/Olympus")


NO_LIMITS = [
    # the column, what it says, the requested time with requested_time: max and raw, the rule
    ("Timelimit", "UNLIMITED", (np.inf, np.inf), rules.NO_LIMIT),
    ("Timelimit", "Unlimited", (np.inf, np.inf), rules.NO_LIMIT),
    ("Timelimit", "INFINITE", (np.inf, np.inf), rules.NO_LIMIT),
    ("TimelimitRaw", "UNLIMITED", (np.inf, np.inf), rules.NO_LIMIT),
    ("TimelimitRaw", "4294967295", (np.inf, np.inf), rules.NO_LIMIT),
    ("Timelimit", "Partition_Limit", (3600.0, np.nan), rules.PARTITION_LIMIT),
    ("TimelimitRaw", "Partition_Limit", (3600.0, np.nan), rules.PARTITION_LIMIT),
    ("TimelimitRaw", "4294967294", (3600.0, np.nan), rules.PARTITION_LIMIT),
    ("Timelimit", "", (3600.0, np.nan), rules.NO_REQUEST),
    ("Timelimit", "Unknown", (3600.0, np.nan), rules.NO_REQUEST),
]


@pytest.mark.parametrize(("column", "text", "seconds", "rule"), NO_LIMITS)
def test_no_limit_is_not_an_unknown_one(table, column, text, seconds, rule):
    columns = tuple(column if name == "Timelimit" else name for name in COLUMNS)
    path = table(job(**{column: text}), job("11", **{column: "60" if "Raw" in column else "01:00:00"}),
                 columns=columns)  # fmt: skip
    for choice, expected in zip(("max", "raw"), seconds, strict=True):
        trace = read_sacct(path, requested_time=choice)
        np.testing.assert_equal(trace.workload.requested_time_s, [expected, 3600.0])
        of_partition = trace.workload.limit_of_partition.tolist()
        assert of_partition == ([True, False] if rule == rules.PARTITION_LIMIT else [])
        counts = dict(trace.report.counts())
        assert counts.get(rule, 0) == (rule != rules.NO_REQUEST or choice == "max")
        assert rules.NO_REQUEST not in counts or rule == rules.NO_REQUEST
        assert trace.report.balanced()
