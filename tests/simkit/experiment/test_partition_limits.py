"""A time limit that is that of the partition: the scenario's partition gives it, where it has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simkit

HEADER = "JobID|Partition|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS"
ROW = "{job}|{partition}|COMPLETED|2024-05-14T08:0{job}:00|2024-05-14T09:00:00|" + (
    "2024-05-14T09:30:00|00:30:00|{limit}|2"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rows = [("batch", "Partition_Limit"), ("long", "Partition_Limit"), ("batch", "UNLIMITED"),
            ("batch", ""), ("batch", "00:50:00")]  # fmt: skip
    lines = [ROW.format(job=n, partition=p, limit=t) for n, (p, t) in enumerate(rows, 1)]
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([HEADER, *lines, ""]))
    return path


def requested(log: Path, choice: str, *partitions: dict[str, Any]) -> dict[int, float | None]:
    run = simkit.simulate(
        {
            "workload": {"type": "sacct", "path": str(log), "requested_time": choice},
            "cluster": {"processors": 8, "partitions": list(partitions)},
            "policy": {"order": "fcfs", "backfill": "easy"},
        }
    )
    return dict(run.jobs.select("job_id", "requested_time_s").rows())


BATCH = {"name": "batch", "partitions": ["batch"], "max_time": "2h"}
SHORT = {"name": "batch", "partitions": ["batch"], "max_time": "10m"}
REST = {"name": "rest"}


@pytest.mark.parametrize(("choice", "unknown"), [("raw", None), ("max", 1800.0)])
def test_the_scenarios_partition_gives_the_limit(log: Path, choice: str, unknown: Any) -> None:
    endless = float("inf")
    found = requested(log, choice, BATCH, REST)
    assert found == {1: 7200.0, 2: unknown, 3: endless, 4: unknown, 5: 3000.0}
    assert requested(log, choice) == {1: unknown, 2: unknown, 3: endless, 4: unknown, 5: 3000.0}


def test_a_limit_below_the_run_time_is_raised_as_the_reader_raises_it(log: Path) -> None:
    assert requested(log, "raw", SHORT, REST)[1] == 600.0
    assert requested(log, "max", SHORT, REST)[1] == 1800.0


def test_a_job_without_a_limit_is_too_long_for_a_partition_that_has_one(log: Path) -> None:
    run = simkit.simulate(
        {
            "workload": {"type": "sacct", "path": str(log), "requested_time": "raw"},
            "cluster": {"processors": 8, "partitions": [BATCH | {"partitions": []}]},
        }
    )
    reasons = dict(run.jobs.filter(status="rejected").select("job_id", "reason").rows())
    assert reasons == {3: "has no time limit, partition batch allows 7200 s"}
