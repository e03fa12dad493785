"""Ids of up to 64 bits come through every reader and writer of ids, and the audit of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simkit import simulate
from simkit.errors import TraceError
from simkit.scenario.workload import trace_formats
from simkit.traces.convert import clean_swf
from simkit.traces.swf import read_swf, write_swf
from simkit.verify import verify_run

LARGEST = 2**63 - 1
IDS = (LARGEST, LARGEST - 1, 2**53 + 1, 2**31 + 7)
MAP = {"job_id": "job_id", "task_id": "task_id", "submit_time_s": "submit", "run_time_s": "run",
       "cpu": "cpu", "user": "user", "parents": "parents"}  # fmt: skip
LOGS = {
    "swf": "".join(
        f"{job} {n} 0 10 1 -1 -1 1 20 -1 1 {job - 9} 1 -1 1 1 -1 -1\n" for n, job in enumerate(IDS)
    ),
    "sacct": "JobID|Submit|Elapsed|AllocCPUS\n"
    + "".join(f"{job}|2024-01-01T00:00:0{n}|00:00:10|1\n" for n, job in enumerate(IDS)),
    "jobs": "job_id,submit_time_s,run_time_s,processors,user\n"
    + "".join(f"{job},{n},10,1,{job - 9}\n" for n, job in enumerate(IDS)),
    "tasks": "job_id,task_id,submit,run,cpu,user,parents\n"
    + "".join(
        f"{job},{job - 2},{n},10,1,{job - 9},\n{job},{job - 3},{n},10,1,{job - 9},{job - 2}\n"
        for n, job in enumerate(IDS)
    ),
}


def log(kind: str, folder: Path) -> dict[str, object]:
    """Write a log and return the workload of a scenario that reads it."""
    (folder / "log").write_text(LOGS[kind])
    keys = {"columns": MAP} if kind == "tasks" else {}
    return {"type": kind, "path": str(folder / "log"), **keys}


@pytest.mark.parametrize("kind", LOGS)
def test_readers_keep_every_digit(kind, tmp_path):
    keys = log(kind, tmp_path)
    trace = trace_formats()[str(keys["type"])].of(**keys).read()
    assert trace.workload.job_id.tolist() == list(IDS)
    assert trace.report.notes == {}
    if kind != "sacct":
        assert trace.workload.user.tolist() == [job - 9 for job in IDS]
    if kind == "tasks":
        assert trace.workload.task_id.tolist() == [job - n for job in IDS for n in (2, 3)]


@pytest.mark.parametrize("kind", ["swf", "jobs", "tasks"])
def test_a_run_and_its_audit_keep_every_digit(kind, tmp_path):
    cluster = {"machines": [{"count": 1, "cpu": 8}]} if kind == "tasks" else {"processors": 8}
    policy = {"fitness": "first-fit"} if kind == "tasks" else {"order": "fcfs"}
    scenario = {"workload": log(kind, tmp_path), "cluster": cluster, "policy": policy}
    run = simulate(scenario, output=tmp_path / "run")
    assert sorted(run.jobs["job_id"].to_list()) == sorted(IDS)
    audit = verify_run(tmp_path / "run")
    assert not any(check.found for check in audit.checks)


def test_swf_is_written_and_cleaned_with_every_digit(tmp_path):
    keys = log("jobs", tmp_path)
    workload = trace_formats()["jobs"].of(**keys).read().workload
    write_swf(tmp_path / "a.swf", workload)
    clean_swf(tmp_path / "a.swf", tmp_path / "b.swf")
    for name in ("a.swf", "b.swf"):
        again = read_swf(tmp_path / name).workload
        assert again.job_id.tolist() == list(IDS)
        assert again.user.tolist() == [job - 9 for job in IDS]


UNUSABLE = ("9223372036854775808", "1e300", "nan", "-inf")


@pytest.mark.parametrize("job", UNUSABLE)
def test_numbers_beyond_64_bits_are_left_out_and_counted(job, tmp_path):
    row = f"{job} 0 0 10 1 -1 -1 1 20 -1 1 1 1 -1 1 1 -1 -1\n"
    (tmp_path / "log.swf").write_text(LOGS["swf"] + row)
    report = read_swf(tmp_path / "log.swf").report
    assert report.dropped == {"not a number": 1}


def test_ids_written_as_decimals_are_read_while_they_are_exact(tmp_path):
    text = LOGS["swf"].replace(f"{2**31 + 7} ", f"{2**31 + 7}.0 ")
    (tmp_path / "log.swf").write_text(text)
    assert read_swf(tmp_path / "log.swf").workload.job_id.tolist() == list(IDS)
    assert np.array_equal(read_swf(tmp_path / "log.swf").workload.user, [j - 9 for j in IDS])


def test_a_user_beyond_64_bits_is_refused_in_a_table(tmp_path):
    (tmp_path / "log").write_text(LOGS["jobs"].replace(f",{LARGEST - 9}\n", f",{2**63}\n"))
    with pytest.raises(TraceError, match="user is .*, it must be whole .* below 2\\^63"):
        trace_formats()["jobs"].of(path=tmp_path / "log").read()
