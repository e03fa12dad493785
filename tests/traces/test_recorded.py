"""What each format of logs records of when and on what its jobs ran."""

import gzip

import numpy as np
import pytest
from trace_files import real_file

from simkit.traces.jobs_table import JobsTable
from simkit.traces.sacct import SacctLog
from simkit.traces.swf import SwfLog
from simkit.workload.recorded import Peak

NAN = float("nan")
SWF = """\
; UnixStartTime: 1000000
1 0 5 100 4 -1 -1 4 200 -1 1 1 1 -1 1 1 -1 -1
3 20 -1 30 2 -1 -1 2 -1 -1 0 2 1 -1 1 2 -1 -1
2 10 0 50 8 -1 -1 4 20 -1 1 2 1 -1 1 1 -1 -1
"""


def test_swf_has_waits_and_time_limits(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(SWF)
    trace, past = SwfLog.of(path=path).recorded()
    assert trace.workload.job_id.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(past.start_s, [5, 10, NAN])
    np.testing.assert_array_equal(past.end_s, [105, 60, NAN])
    np.testing.assert_array_equal(past.limit_s, [200, 20, NAN])  # not raised to the run time
    assert past.peak("processors") == Peak(12, 10)
    assert not trace.report.unread
    assert "wait" in SwfLog.of(path=path).read().report.unread


def test_reading_what_is_recorded_changes_no_job(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(SWF)
    log = SwfLog.of(path=path)
    plain, (trace, _) = log.read(), log.recorded()
    for name in ("submit_time_s", "run_time_s", "instances", "requested_time_s", "partition"):
        one, other = (getattr(t.workload, name) for t in (plain, trace))
        np.testing.assert_array_equal(one, other)
    assert plain.report.lines == trace.report.lines


SACCT = {
    "JobID": "1", "Submit": "2024-05-01T12:00:00", "Start": "2024-05-01T12:00:10",
    "End": "2024-05-01T13:00:10", "Elapsed": "01:00:00", "Timelimit": "02:00:00",
    "AllocCPUS": "8", "NNodes": "2", "AllocTRES": "cpu=8,gres/gpu=4,mem=64G,node=2",
}  # fmt: skip
ROWS = [
    # fields; start, end, limit, machines, gpus, GiB of the job
    ({}, (10, 3610, 7200, 2, 4, 64)),
    ({"Elapsed": "00:50:00"}, (10, 3610, 7200, 2, 4, 64)),  # suspended for ten minutes
    ({"Start": None}, (10, 3610, 7200, 2, 4, 64)),
    ({"End": None}, (10, 3610, 7200, 2, 4, 64)),
    ({"Start": None, "End": None}, (NAN, NAN, 7200, 2, 4, 64)),
    ({"Timelimit": ""}, (10, 3610, NAN, 2, 4, 64)),
    ({"NNodes": None}, (10, 3610, 7200, 2, 4, 64)),
    ({"NNodes": None, "AllocTRES": "cpu=8,gres/gpu=4,mem=64G"}, (10, 3610, 7200, NAN, 4, 64)),
]


@pytest.mark.parametrize(("fields", "told"), ROWS)
def test_sacct_has_times_machines_gpus_and_memory(tmp_path, fields, told):
    row = {name: value for name, value in (SACCT | fields).items() if value is not None}
    path = tmp_path / "sacct.txt"
    path.write_text("|".join(row) + "\n" + "|".join(row.values()) + "\n")
    _, past = SacctLog.of(path=path).recorded()
    columns = (past.start_s, past.end_s, past.limit_s, past.machines, past.held["gpu"],
               past.held["mem"])  # fmt: skip
    np.testing.assert_array_equal([column[0] for column in columns], told)
    assert past.held["processors"].tolist() == [8]


def test_memory_that_was_asked_for_alone_and_gpus_of_none_are_not_held(tmp_path):
    row = SACCT | {"AllocTRES": "cpu=8", "ReqMem": "16G"}
    path = tmp_path / "sacct.txt"
    path.write_text("|".join(row) + "\n" + "|".join(row.values()) + "\n")
    _, past = SacctLog.of(path=path).recorded()
    assert list(past.held) == ["processors"]


def test_rows_of_sacct_come_in_the_order_of_the_workload(tmp_path):
    later = {"JobID": "0", "Submit": "2024-05-01T12:30:00", "Start": "2024-05-01T12:31:00",
             "End": "2024-05-01T12:41:00", "Elapsed": "00:10:00", "AllocCPUS": "1"}  # fmt: skip
    rows = [SACCT | later, SACCT]
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join(["|".join(SACCT), *("|".join(row.values()) for row in rows)]))
    trace, past = SacctLog.of(path=path, time_zone="Europe/Berlin").recorded()
    assert trace.workload.job_id.tolist() == [1, 0]
    assert past.start_s.tolist() == [10, 1860]
    assert past.peak("gpu") == Peak(8, 1860)
    assert past.peak("processors") == Peak(9, 1860)


TABLES = [
    # columns of the table, keys; starts of its jobs in order of submission
    ("start_time_s", ("12", "3"), {}, [3, 12]),
    ("wait_time_s", ("2", "3"), {}, [3, 12]),
    ("wait_time_s", ("-1", ""), {}, [NAN, NAN]),
    ("start_time_s", ("", "soon"), {}, [NAN, NAN]),
    ("begun", ("12", "3"), {}, [NAN, NAN]),
    ("start_time_s", ("12000", "3000"), {"submit_time_s": 0.001, "run_time_s": 1}, [3, 12]),
    ("start_time_s", ("24", "6"), {"start_time_s": 0.5}, [3, 12]),
]


@pytest.mark.parametrize(("column", "cells", "factors", "starts"), TABLES)
def test_a_table_may_have_starts_or_waits(tmp_path, column, cells, factors, starts):
    path, scale = tmp_path / "jobs.csv", 1 / factors.get("submit_time_s", 1)
    lines = [f"job_id,submit_time_s,run_time_s,processors,{column}"]
    lines += [f"1,{10 * scale},100,4,{cells[0]}", f"2,0,50,2,{cells[1]}"]
    path.write_text("\n".join(lines) + "\n")
    log = JobsTable.of(path=path, factors=factors)
    trace, past = log.recorded()
    np.testing.assert_array_equal(past.start_s, starts)
    assert log.read().workload.run_time_s.tolist() == [50, 100]
    assert (column in trace.report.unread) == (column == "begun")
    assert column in log.read().report.unread  # what is simulated does not depend on it


def test_the_peak_of_a_real_log_is_that_of_a_plain_count():
    """KTH-SP2: 104 of 100 processors, where the end of one job and the start of another overlap."""
    path, events = real_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz"), []
    with gzip.open(path, "rt", encoding="latin-1") as lines:
        for line in lines:
            if line.lstrip().startswith(";") or not line.strip():
                continue
            _, submit, wait, run, allocated, _, _, requested, *_ = line.split()
            size = int(allocated) if int(allocated) > 0 else int(requested)
            if int(run) > 0 and size > 0 and int(wait) >= 0:
                begin = float(submit) + float(wait)
                events += [(begin, 1, size), (begin + float(run), 0, -size)]
    in_use = most = 0
    for _, _, change in sorted(events):
        in_use += change
        most = max(most, in_use)
    _, past = SwfLog.of(path=path).recorded()
    peak = past.peak("processors")
    assert peak is not None
    assert peak.amount == most
