"""Writing and cleaning SWF logs: what is written reads back as the same workload."""

import errno
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import real_file

from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.convert import clean_swf
from simkit.traces.swf import read_swf, write_swf
from simkit.workload import Workload
from simkit.workload.workload import JOB_COLUMNS

COLUMNS = ("job_id", "submit_time_s", "run_time_s", "instances", "requested_time_s", *JOB_COLUMNS)


def same(one, other):
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    facts = [(w.resources, w.capacity, w.time_zone, repr(float(w.epoch_s))) for w in (one, other)]
    assert facts[0] == facts[1]


def small(**changes):
    columns = {
        "job_id": [3, 1, 2],
        "submit_time_s": [0, 5, 5.25],
        "run_time_s": [10, 20, 30.5],
        "processors": [1, 2, 64],
        "requested_time_s": [10, 60, 100],
    }
    facts = {"capacity": {"processors": 64.0}, "epoch_s": 1e9 + 0.5, "time_zone": "US/Pacific"}
    return Workload.from_jobs(columns | changes, **facts)


def test_the_text_is_plain_swf():
    stream = io.BytesIO()
    write_swf(stream, small(), header={"Computer": "a\nPC"}, notes=["made here"])
    assert stream.getvalue().decode().splitlines() == [
        "; Version: 2.2",
        "; MaxJobs: 3",
        "; MaxRecords: 3",
        "; UnixStartTime: 1000000000.5",
        "; TimeZoneString: US/Pacific",
        "; MaxNodes: 64",
        "; MaxProcs: 64",
        "; Computer: a PC",
        "; Note: made here",
        "3 0 -1 10 1 -1 -1 1 10 -1 -1 -1 -1 -1 -1 -1 -1 -1",
        "1 5 -1 20 2 -1 -1 2 60 -1 -1 -1 -1 -1 -1 -1 -1 -1",
        "2 5.25 -1 30.5 64 -1 -1 64 100 -1 -1 -1 -1 -1 -1 -1 -1 -1",
    ]


TIMES = st.integers(0, 2**48).map(lambda ticks: ticks / 2**20)  # the grid of times, to 8.5 years
NUMBERS = st.integers(-1, 2**40)


@st.composite
def workloads(draw):
    jobs = draw(st.integers(1, 20))

    def column(values):
        return draw(st.lists(values, min_size=jobs, max_size=jobs))

    ids = draw(st.lists(st.integers(0, 2**52), min_size=jobs, max_size=jobs, unique=True))
    wanted = st.one_of(st.just(np.nan), TIMES.filter(lambda t: t > 0))
    return Workload.from_jobs(
        {
            "job_id": np.array(ids, np.int64),
            "submit_time_s": column(TIMES),
            "run_time_s": column(TIMES),
            "processors": column(st.integers(1, 2**22)),
            "requested_time_s": column(wanted),
        }
        | {name: column(NUMBERS) for name in JOB_COLUMNS},
        epoch_s=draw(st.one_of(st.just(np.nan), st.integers(1, 2**32).map(float))),
        time_zone=draw(st.sampled_from([None, "Europe/Berlin", "UTC"])),
        capacity=draw(st.sampled_from([{}, {"processors": 2.0**23}])),
    )


@given(workloads())
def test_reading_what_was_written_gives_the_workload_back(tmp_path_factory, workload):
    path = tmp_path_factory.mktemp("log") / "log.swf"
    write_swf(path, workload)
    trace = read_swf(path, requested_time="raw", keep_zero_run=True)
    assert trace.report.read == trace.report.accepted == len(workload)
    same(trace.workload, workload)


UNFIT = [
    # workload or results that SWF cannot hold, what the message says
    ({"submit_time_s": [-1, 0, 1]}, {}, "no negative times"),
    ({}, {"wait": [1, 2, 3]}, "results: wait"),
    ({}, {"status": [1, 2]}, r"results: status of shape \(2,\)"),
]


@pytest.mark.parametrize(("changes", "results", "expected"), UNFIT)
def test_what_swf_cannot_hold_is_refused(changes, results, expected):
    with pytest.raises(TraceError, match=expected):
        write_swf(io.BytesIO(), small(**changes), results=results)


def test_fractional_processors_and_several_tasks_are_refused():
    jobs = small()
    with pytest.raises(TraceError, match="SWF has whole processors"):
        write_swf(io.BytesIO(), jobs.with_columns(request=np.full((3, 1), 0.5)))
    with pytest.raises(TraceError, match="3 tasks in 2 jobs"):
        write_swf(
            io.BytesIO(),
            jobs.with_columns(
                job_id=jobs.job_id[:2],
                submit_time_s=jobs.submit_time_s[:2],
                first_task=np.array([0, 2, 3]),
                **{name: getattr(jobs, name)[:2] for name in JOB_COLUMNS},
            ),
        )


def test_gzip_is_told_by_the_name_and_repeats_byte_for_byte(tmp_path):
    one, two = tmp_path / "a.swf.gz", tmp_path / "b.swf.gz"
    for path in (one, two):
        write_swf(path, small())
    assert one.read_bytes()[:2] == b"\x1f\x8b"
    assert one.read_bytes() == two.read_bytes()
    same(read_swf(one).workload, small())


def test_a_full_disk_leaves_the_old_file_and_no_part_of_a_new_one(tmp_path, monkeypatch):
    path = tmp_path / "log.swf"
    write_swf(path, small())
    before = path.read_bytes()

    def full(*args, **kwargs):
        yield b"; half"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("simkit.traces.swf.writer._text", full)
    with pytest.raises(TraceError, match="cannot be written: No space left on device"):
        write_swf(path, small())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_takes_no_file_is_an_error(tmp_path):
    with pytest.raises(TraceError, match="No such file or directory"):
        write_swf(tmp_path / "nowhere" / "log.swf", small())
    with pytest.raises(TraceError, match="directory"):
        write_swf(tmp_path, small())


# ---- cleaning -----------------------------------------------------------------------------------

DIRTY = """\
; Computer:   old   one
4   50 3 10 -1 9.50 7 8 5 6 1 2 3 4 5 6 7 8 extra
; a comment between
2 20 3 10 4 -1 -1 4 20 -1 1 -1 -1 -1 -1 -1 -1 -1
3 30 3 0 4 -1 -1 4 20 -1 1 -1 -1 -1 -1 -1 -1 -1
1 20 3 1.50 4 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
"""


def test_a_clean_log_keeps_all_fields_and_says_what_was_done(tmp_path):
    dirty, clean = tmp_path / "dirty.swf", tmp_path / "clean.swf"
    dirty.write_text(DIRTY)
    report = clean_swf(dirty, clean)
    lines = clean.read_text().splitlines()
    assert [line for line in lines if line[0] != ";"] == [
        "1 20 3 1.50 4 -1 -1 4 1.5 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "2 20 3 10 4 -1 -1 4 20 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "4 50 3 10 8 9.50 7 8 10 6 1 2 3 4 5 6 7 8",
    ]
    assert lines[:3] == [
        "; Computer:   old   one",
        "; a comment between",
        "; Note: cleaned by simkit, 3 of 4 rows kept",
    ]
    assert any(line.startswith(f"; Note: {rules.ZERO_RUN}, 1 row. ") for line in lines)
    assert report == read_swf(dirty).report
    assert report.lines[rules.ZERO_RUN] == [5]


def test_a_log_can_be_cleaned_in_place_and_stays_clean(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(DIRTY)
    before = read_swf(path).workload
    clean_swf(path, path)
    trace = read_swf(path)
    assert trace.report.accepted == trace.report.read == 3
    assert trace.report.notes == {rules.PRECEDING_UNKNOWN: 1}  # its field stays as it was
    same(trace.workload, before)


def test_the_choices_of_reading_are_those_of_cleaning(tmp_path):
    path, clean = tmp_path / "log.swf", tmp_path / "clean.swf"
    path.write_text("1 0 -1 0 4 -1 -1 9 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
    choices = {"processors": "requested", "requested_time": "raw", "keep_zero_run": True}
    clean_swf(path, clean, **choices)
    assert clean.read_text().splitlines()[-1] == "1 0 -1 0 9 -1 -1 9 -1 -1 1 -1 -1 -1 -1 -1 -1 -1"


def test_a_log_without_jobs_leaves_no_clean_one(tmp_path):
    path, clean = tmp_path / "log.swf", tmp_path / "clean.swf"
    path.write_text("1 0 -1 -1 4 -1 -1 9 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
    with pytest.raises(TraceError, match="no jobs: the only row is left out"):
        clean_swf(path, clean)
    assert not clean.exists()


@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "SDSC-SP2-1998-4.2-cln"])
def test_a_real_log_survives_writing_and_cleaning(tmp_path, name):
    path = real_file("swf", f"{name}.swf.gz")
    jobs = read_swf(path).workload
    write_swf(tmp_path / "written.swf", jobs)
    clean_swf(path, tmp_path / "clean.swf")
    for copy in ("written.swf", "clean.swf"):
        trace = read_swf(tmp_path / copy)
        assert trace.report.accepted == trace.report.read == len(jobs)
        same(trace.workload, jobs)
