"""Runs whose tables stay on disk: the same verdict as of a run in memory, in little memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import simkit
from simkit import verify
from simkit.errors import RunError
from simkit.verify import capacity, inputs, pool, verify_run
from simkit.verify import folder as tables

pytestmark = pytest.mark.sampled

SWF = "".join(
    f"{n} {17 * n} -1 {60 + n * n % 997} {1 + n % 4} -1 -1 {1 + n % 4} {100 + n % 900} -1 "
    f"{1 - n % 2} {n % 5} -1 -1 {n % 3} -1 -1 -1\n"
    for n in range(1, 60)
)
FAILING = {"machines": [{"count": 3, "processors": 4}], "failures": {"mtbf": "20m", "mttr": "1m"}}
USERS = {"processors": 6, "partitions": [{"name": "all", "max_running_per_user": 2}]}
TASKS = "job,task,submit,run,cpu,after\n" + "".join(
    f"{n},{task},{20 * n},{60 + (n * 31 + task * 7) % 300},{1 + n % 3},{('', '1', '1;2')[task - 1]}\n"
    for n in range(1, 40) for task in (1, 2, 3)
)  # fmt: skip
PARTS = {"processors": 6, "partitions": [{"name": "short", "max_time": "8m"}, {"name": "rest"}]}
BAGS = {"type": "tasks", "path": "tasks.csv", "columns": {
    "job_id": "job", "task_id": "task", "submit_time_s": "submit", "run_time_s": "run",
    "cpu": "cpu", "parents": "after"}}  # fmt: skip
RUNS: dict[str, dict[str, Any]] = {
    "partitions": {"cluster": PARTS},
    "corrected": {
        "cluster": {"processors": 6},
        "estimates": {"type": "requested", "correction": "tsafrir"},
    },
    "perturbed": {"cluster": {"processors": 6}, "estimates": "perturbed"},
    "tasks": {"cluster": {"machines": [{"count": 2, "cpu": 4}]}, "workload": BAGS},
    "pool": {"cluster": {"processors": 6}, "policy": {"order": "fcfs", "backfill": "easy"}},
    "kill": {"cluster": {"processors": 6}, "walltime": "kill", "estimates": "actual"},
    "failures": {"cluster": FAILING, "policy": {"order": "sjf"}},
    "users": {"cluster": USERS, "scheduling": {"every": "1m"}},
}
DAMAGES: tuple[tuple[str, str, Any], ...] = (
    # table, column, the value of its 41st row; without a column the row is left out
    *((name, "", None) for name in ("jobs", "tasks", "allocations", "timeline")),
    ("jobs", "user", 7), ("jobs", "submit_time_s", 3.0), ("jobs", "end_time_s", 9e6),
    ("jobs", "wait_time_s", 1.0), ("jobs", "run_time_s", 1.0), ("jobs", "ideal_time_s", 1.0),
    ("jobs", "estimate_s", 1.0), ("jobs", "lost_time_s", 1.0), ("jobs", "suspended_time_s", 1.0),
    ("jobs", "attempts", 2), ("jobs", "status", "killed"), ("jobs", "reason", "no reason"),
    ("jobs", "processors", 5.0), ("jobs", "job_id", 3), ("jobs", "requested_time_s", 9.0),
    ("tasks", "job_id", 3), ("tasks", "job_id", 3000), ("tasks", "instances", 9),
    ("tasks", "gang", False), ("tasks", "ready_time_s", 1.0), ("tasks", "start_time_s", None),
    ("tasks", "status", "running"), ("tasks", "trace_run_time_s", 1.0), ("tasks", "task_id", 1),
    ("allocations", "job_id", 3000), ("allocations", "machine_id", 9),
    ("allocations", "first_instance", 1), ("allocations", "count", 9),
    ("allocations", "attempt", 2), ("allocations", "start_time_s", 0.0),
    ("allocations", "end_time_s", None), ("allocations", "outcome", "lost"),
    ("timeline", "time_s", 4.0), ("timeline", "waiting", 99), ("timeline", "running", 99),
    ("timeline", "allocated_processors", 99.0), ("timeline", "capacity_processors", 99.0),
)  # fmt: skip


@pytest.fixture
def few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets every table count as large, and cuts it into very small parts."""
    with monkeypatch.context() as patch:
        for module in (tables, inputs):
            patch.setattr(module, "LARGE", 1)
        patch.setattr(tables, "ROWS_AT_ONCE", 25)
        patch.setattr(verify, "JOBS_AT_ONCE", 25)
        patch.setattr(capacity, "_AT_ONCE", 5)
        patch.setattr(pool, "_LISTED", 0)
        yield patch


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each run; the log is beside them."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "log.swf").write_text(SWF)
    (folder / "tasks.csv").write_text(TASKS)
    log = {"type": "swf", "path": "log.swf", "requested_time": "raw"}
    for name, keys in RUNS.items():
        workload = dict(keys.get("workload", log))
        workload["path"] = str(folder / workload["path"])
        simkit.simulate(keys | {"workload": workload}, output=folder / name)
    return {name: folder / name for name in RUNS}


def verdict(run: Path) -> dict[str, tuple[int, int, str]]:
    """Return rule → rows examined, violations, and why it was left out."""
    audit = verify_run(run, inputs=[run.parent])
    return {check.name: (check.examined, check.found, check.skipped) for check in audit.checks}


@pytest.mark.parametrize("name", RUNS)
def test_an_honest_run_has_the_verdict_of_a_small_one(
    runs: dict[str, Path], name: str, request: pytest.FixtureRequest
) -> None:
    small = verdict(runs[name])
    request.getfixturevalue("few_rows_are_many")
    assert verdict(runs[name]) == small
    assert not any(found for _, found, _ in small.values())


@contextmanager
def damaged(path: Path) -> Iterator[bytes]:
    """Return the bytes of a file, and put them back."""
    whole = path.read_bytes()
    try:
        yield whole
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize(("table", "column", "value"), DAMAGES)
def test_a_changed_or_missing_row_has_the_verdict_of_a_small_run(
    runs: dict[str, Path], table: str, column: str, value: Any, request: pytest.FixtureRequest
) -> None:
    path = runs["pool"] / f"{table}.parquet"
    with damaged(path):
        rows = pl.read_parquet(path)
        here = pl.int_range(pl.len()) == 40
        if column:
            values = rows[column].to_list()
            values[40] = value
            rows = rows.with_columns(pl.Series(column, values, dtype=rows.schema[column]))
        else:
            rows = rows.filter(~here)
        rows.write_parquet(path)
        small = verdict(runs["pool"])
        request.getfixturevalue("few_rows_are_many")
        assert verdict(runs["pool"]) == small
        assert {name for name, (_, found, _) in small.items() if found} - {"digest"}


def test_damage_that_is_met_late_is_told_in_words(
    runs: dict[str, Path], few_rows_are_many: pytest.MonkeyPatch
) -> None:
    path = runs["pool"] / "jobs.parquet"
    with damaged(path) as whole:
        middle = len(whole) // 4
        path.write_bytes(whole[:middle] + b"\xff" * 200 + whole[middle + 200 :])
        with pytest.raises(RunError, match=r"jobs\.parquet: cannot be read"):
            verify_run(runs["pool"])


MEASURE = """
import resource, sys
from simkit.verify import verify_run

assert verify_run(sys.argv[1]).ok
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_of_an_audit_grows_little_with_the_jobs(tmp_path: Path) -> None:
    """At most 330 bytes a job, as 2 GB for five million leave beside the interpreter."""
    peak = {}
    for jobs in (700_000, 1_400_000):
        workload = {"type": "poisson", "jobs": jobs, "processors": 64, "offered_load": 0.7,
                    "mean_run_time_s": 600, "sizes": [1, 8], "users": 50}  # fmt: skip
        folder = tmp_path / f"{jobs}"
        policy = {"order": "fcfs", "backfill": "easy"}
        scenario = {"workload": workload, "cluster": {"processors": 64}, "policy": policy}
        simkit.simulate(scenario, output=folder)
        command = [sys.executable, "-c", MEASURE, str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peak[jobs] = 1024 * int(done.stdout)
    assert peak[1_400_000] - peak[700_000] < 330 * 700_000
