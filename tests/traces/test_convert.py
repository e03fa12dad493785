"""Converting logs to SWF: what sacct knows of a job stands in SWF's fields afterwards."""

import gzip

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.scenario.workload import WORKLOADS
from simkit.traces.convert import convert_log
from simkit.traces.sacct import SacctLog
from simkit.traces.swf import SwfLog, read_swf

SACCT = """\
JobID|User|Account|JobName|Partition|QOS|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|\
ReqCPUS|NNodes|ReqMem|TotalCPU|MaxRSS|NTasks
101|ada|phys|sim|short|high|COMPLETED|2024-01-01T08:00:00|2024-01-01T08:00:05|\
2024-01-01T09:00:05|01:00:00|02:00:00|4|2|1|16G|02:00:00||
101.batch||||||COMPLETED|2024-01-01T08:00:05|2024-01-01T08:00:05|\
2024-01-01T09:00:05|01:00:00||4|4|1||00:10:00|1M|1
101.0||||||COMPLETED|2024-01-01T08:00:05|2024-01-01T08:00:05|\
2024-01-01T09:00:05|01:00:00||4|4|1||01:50:00|2048K|4
103_1|bob|phys|fit|long|high|TIMEOUT|2024-01-01T08:30:00|2024-01-01T09:00:05|\
2024-01-01T10:00:05|01:00:00|01:00:00|8|8|1|0|||
102|bob||fit|long||CANCELLED by 7|2024-01-01T08:10:00|2024-01-01T08:10:00|\
2024-01-01T08:20:00|00:10:00|1-00:00:00|3|3|1|512Mc|||
"""


def rows_of(path):
    text = path.read_text().splitlines()
    return [line.split() for line in text if line[0] != ";"]


def header_of(path):
    return [line for line in path.read_text().splitlines() if line[0] == ";"]


@pytest.fixture
def sacct(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    return path


def test_all_that_swf_has_a_field_for_is_carried_over(sacct, tmp_path):
    target = tmp_path / "log.swf"
    convert_log(WORKLOADS.find("sacct").of(path=sacct), target)
    # job, submit, wait, run, allocated, cpu time, memory, requested, requested time, requested
    # memory, status, user, group, executable, queue, partition, previous job, think time
    assert [" ".join(row) for row in rows_of(target)] == [
        # 2 h of processor time on 4 processors; 4 tasks of 2 MiB on 4; 16 GiB on 4
        "1 0 5 3600 4 1800 2048 2 7200 4194304 1 1 1 1 1 1 -1 -1",
        "2 600 0 600 3 -1 -1 3 86400 524288 5 2 -1 2 -1 2 -1 -1",
        "3 1800 1805 3600 8 -1 -1 8 3600 -1 0 2 1 2 1 2 -1 -1",  # ReqMem 0: unknown
    ]


def test_names_of_queues_and_partitions_stand_in_the_header_those_of_users_do_not(sacct, tmp_path):
    target = tmp_path / "log.swf"
    convert_log(WORKLOADS.find("sacct").of(path=sacct), target)
    named = [line for line in header_of(target) if "Queue" in line or "Partition" in line]
    assert named == ["; Queue: 1 high", "; Partition: 1 short", "; Partition: 2 long"]
    assert "ada" not in target.read_text()


def test_the_machines_size_is_what_was_used_at_once_unless_it_is_given(sacct, tmp_path):
    target = tmp_path / "log.swf"
    done = convert_log(WORKLOADS.find("sacct").of(path=sacct), target)
    assert done.remarks == (
        "MaxProcs 8 is the largest number of processors used at once in the log; the machine may "
        "have more",
    )
    assert f"; Note: {done.remarks[0]}" in header_of(target)
    assert read_swf(target).workload.capacity == {"processors": 8}
    assert (
        convert_log(WORKLOADS.find("sacct").of(path=sacct), target, machine_processors=64).remarks
        == ()
    )
    assert read_swf(target).workload.capacity == {"processors": 64}


def test_a_converted_log_needs_no_repair_and_tells_what_was_left_out(sacct, tmp_path):
    target = tmp_path / "log.swf.gz"
    report = convert_log(WORKLOADS.find("sacct").of(path=sacct), target).report
    trace = read_swf(target, requested_time="raw")
    assert trace.report.accepted == trace.report.read == report.jobs == 3
    text = gzip.decompress(target.read_bytes()).decode()
    assert "; Note: cleaned by simkit, 3 of 5 rows kept\n" in text
    assert "; Note: job step, 2 rows. A step of a job" in text


def test_times_are_of_the_zone_that_is_given(sacct, tmp_path):
    target = tmp_path / "log.swf"
    convert_log(SacctLog.of(path=sacct, time_zone="Europe/Berlin"), target)
    assert {"; UnixStartTime: 1704092400", "; TimeZoneString: Europe/Berlin"} < {*header_of(target)}


def test_a_table_of_jobs_has_no_starts_so_no_size(tmp_path):
    table, target = tmp_path / "jobs.csv", tmp_path / "log.swf"
    table.write_text("job_id,submit_time_s,run_time_s,processors,user\n7,0,10,4,0\n")
    done = convert_log(WORKLOADS.find("jobs").of(path=table), target)
    assert done.remarks == ("MaxProcs is unknown, as the log does not tell when its jobs started",)
    assert read_swf(target).workload.capacity == {}
    assert rows_of(target)[0][11] == "0"  # a number is kept, only names are numbered anew
    convert_log(WORKLOADS.find("jobs").of(path=table), target, machine_processors=8)
    assert read_swf(target).workload.capacity == {"processors": 8}


@pytest.mark.parametrize("size", ["processors", "cpu"])
@pytest.mark.parametrize(("past", "values"), [("start_time_s", "9,"), ("wait_time_s", "2,-1")])
def test_a_table_of_jobs_keeps_its_recorded_waits(tmp_path, size, past, values):
    table, target = tmp_path / "jobs.csv", tmp_path / "log.swf"
    first, second = values.split(",")
    table.write_text(
        f"job_id,submit_time_s,run_time_s,{size},{past}\n7,7,10,4,{first}\n8,8,10,6,{second}\n"
    )
    convert_log(WORKLOADS.find("jobs").of(path=table), target)
    assert [row[2] for row in rows_of(target)] == ["2", "-1"]
    assert read_swf(target).workload.capacity == {"processors": 6}  # a job whose start is unknown


def test_an_swf_log_keeps_its_header_and_all_fields(tmp_path):
    log, target = tmp_path / "log.swf", tmp_path / "clean.swf"
    row = "4 50 3 10 4 9.50 7 8 15 6 1 2 3 4 5 6 7 8"
    log.write_text(f"; Computer: ours\n; MaxProcs: 4 (of 9)\n{row}\n5 60 -1 0 1" + " -1" * 13)
    report = convert_log(WORKLOADS.find("swf").of(path=log), target).report
    assert (report.read, report.jobs) == (2, 1)
    assert rows_of(target) == [row.split()]
    assert header_of(target)[:2] == ["; Computer: ours", "; MaxProcs: 4 (of 9)"]
    convert_log(SwfLog.of(path=log, keep_zero_run=True), target, machine_processors=16)
    assert header_of(target)[:2] == ["; Computer: ours", "; MaxProcs: 16"]
    assert len(rows_of(target)) == 2


STATES = [
    # Slurm's state, SWF's status
    ("COMPLETED", 1), ("CANCELLED", 5), ("CANCELLED by 1000", 5), ("REVOKED", 5), ("FAILED", 0),
    ("TIMEOUT", 0), ("NODE_FAIL", 0), ("OUT_OF_MEMORY", 0), ("PREEMPTED", 0), ("", np.nan),
]  # fmt: skip


@pytest.mark.parametrize(("state", "status"), STATES)
def test_states(sacct, state, status):
    sacct.write_text(SACCT.replace("TIMEOUT", state))
    _, columns = SacctLog.of(path=sacct).swf_fields()
    np.testing.assert_array_equal(columns["status"], [1, 5, status])


WAITS = [
    # what is changed in the first job's row, its wait
    (("Submit|Start|End", "Submit|Begin|End"), 5),  # without starts: end - run time
    (("2024-01-01T08:00:00|2024-01-01T08:00:05", "2024-01-01T08:00:07|2024-01-01T08:00:05"),
     np.nan),  # a start before the submission
]  # fmt: skip


@pytest.mark.parametrize(("change", "wait"), WAITS)
def test_waits(sacct, change, wait):
    sacct.write_text(SACCT.replace(*change))
    _, columns = SacctLog.of(path=sacct).swf_fields()
    np.testing.assert_array_equal(columns["wait_time_s"][0], wait)


def test_columns_that_are_not_there_are_unknown(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|Submit|Elapsed|AllocCPUS\n5|2024-01-01T08:00:00|00:10:00|2\n")
    trace, columns = SacctLog.of(path=path).swf_fields()
    assert len(trace.workload) == 1
    assert {name: column.tolist() for name, column in columns.items()} == {
        name: [pytest.approx(np.nan, nan_ok=True)] for name in columns
    }


def test_blocks_do_not_show(sacct, monkeypatch):
    whole, columns = SacctLog.of(path=sacct).swf_fields()
    monkeypatch.setattr("simkit.traces.files.text_blocks.__defaults__", (150,))
    pieces, same = SacctLog.of(path=sacct).swf_fields()
    for name, column in columns.items():
        np.testing.assert_array_equal(column, same[name], err_msg=name)
    assert pieces.report == whole.report
    assert pieces.workload.user.tolist() == whole.workload.user.tolist()
    assert pieces.workload.labels == whole.workload.labels


@pytest.mark.parametrize(("good", "bad"), [("|02:00:00||", "|2 h||"), ("|2048K|", "|lots|")])
def test_what_cannot_be_read_is_named_by_its_line(sacct, good, bad):
    sacct.write_text(SACCT.replace(good, bad))
    with pytest.raises(TraceError, match=r":[24]: (TotalCPU|MaxRSS) is '(2 h|lots)'; it should"):
        SacctLog.of(path=sacct).swf_fields()


def test_what_cannot_be_done_is_said(sacct, tmp_path):
    before = sacct.read_bytes()
    with pytest.raises(TraceError, match="is the log itself.*choose another file"):
        convert_log(WORKLOADS.find("sacct").of(path=sacct), sacct)
    assert sacct.read_bytes() == before
