"""Records of a run, made from nothing but submit, run and start times of rigid jobs; commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command_line import Simkit

from simkit.records import JOBS, TASKS

Tables = dict[str, pl.DataFrame]


def tables_of(jobs: Mapping[str, Any] | pl.DataFrame, capacity: float) -> Tables:
    """Return jobs, tasks, allocations, timeline and events of rigid jobs on a pool.

    `jobs`: job_id, submit_time_s, run_time_s, processors, start_time_s (null: never started);
    optionally requested_time_s, user, status and reason.
    """
    table = pl.DataFrame(jobs)
    given = set(table.columns)
    unknown = {name: pl.lit(-1) for name in ("user", "group", "executable", "queue", "partition")}
    unknown |= {"requested_time_s": pl.col("run_time_s"), "reason": pl.lit("")}
    start = pl.col("start_time_s")
    unknown["status"] = (
        pl.when(start.is_null()).then(pl.lit("waiting")).otherwise(pl.lit("finished"))
    )
    table = table.with_columns(
        *(pl.col(n).cast(pl.Float64) for n in ("submit_time_s", "run_time_s", "processors")),
        start.cast(pl.Float64),
        *(value.alias(name) for name, value in unknown.items() if name not in given),
    )
    table = table.with_columns(
        end_time_s=pl.when(pl.col("status") != "running").then(start + pl.col("run_time_s")),
        trace_run_time_s=pl.col("run_time_s"),
    ).with_columns(
        wait_time_s=start - pl.col("submit_time_s"),
        turnaround_time_s=pl.col("end_time_s") - pl.col("submit_time_s"),
        run_time_s=pl.when(pl.col("end_time_s").is_not_null()).then(pl.col("run_time_s")),
        ideal_time_s=pl.lit(None, pl.Float64),
        requested_time_s=pl.col("requested_time_s").cast(pl.Float64),
        estimate_s=pl.col("requested_time_s").cast(pl.Float64),
        suspended_time_s=pl.lit(0.0),
        lost_time_s=pl.lit(0.0),
        attempts=start.is_not_null().cast(pl.Int64),
        task_id=pl.lit(0),
        ready_time_s=pl.col("submit_time_s"),
        gang=pl.lit(value=True),
        instances=pl.col("processors").cast(pl.Int64),
    )
    table = table.sort("end_time_s", "job_id", nulls_last=True)
    started = table.filter(start.is_not_null())
    allocations = started.select(
        "job_id",
        "task_id",
        pl.lit(0).alias("machine_id"),
        pl.lit(0).alias("first_instance"),
        pl.col("instances").alias("count"),
        pl.lit(1).alias("attempt"),
        "start_time_s",
        "end_time_s",
        pl.col("status").alias("outcome"),
    )
    return {
        "jobs": table.select(*JOBS, "processors"),
        "tasks": table.select(*TASKS, pl.lit(1.0).alias("processors")),
        "allocations": allocations,
        "timeline": _timeline(table, capacity),
        "events": pl.DataFrame(
            schema={
                "time_s": pl.Float64,
                "kind": pl.String,
                "job_id": table["job_id"].dtype,
                "task_id": pl.Int64,
                "machine_id": pl.Int64,
                "detail": pl.String,
            }
        ),
    }


def _timeline(table: pl.DataFrame, capacity: float) -> pl.DataFrame:
    """Return the state after each instant at which a job is submitted, starts or ends."""
    queued = table.filter(pl.col("status") != "rejected")
    changes = [
        queued.select(time_s="submit_time_s", waiting=1, running=0, area=0.0),
        queued.select(time_s="start_time_s", waiting=-1, running=1, area="processors"),
        queued.select(time_s="end_time_s", waiting=0, running=-1, area=-pl.col("processors")),
    ]
    steps = (
        pl.concat(changes)
        .drop_nulls("time_s")
        .group_by("time_s")
        .agg(pl.col("waiting", "running", "area").sum())
        .sort("time_s")
    )
    return steps.select(
        "time_s",
        pl.col("waiting").cum_sum().cast(pl.Int64),
        pl.lit(0, pl.Int64).alias("backlog"),
        pl.col("running").cum_sum().cast(pl.Int64),
        pl.col("area").cum_sum().alias("allocated_processors"),
        pl.lit(float(capacity)).alias("capacity_processors"),
    )


@pytest.fixture(scope="session")
def run_tables() -> Callable[..., Tables]:
    return tables_of


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a run folder and returns its path."""

    def write(
        name: str, jobs: Mapping[str, Any] | pl.DataFrame, capacity: float = 8, **info: Any
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for table, frame in tables_of(jobs, capacity).items():
            frame.write_parquet(folder / f"{table}.parquet")
        content = {
            "format": 1,
            "status": "complete",
            "error": None,
            "name": name,
            "scenario": {"name": name, "policy": {"order": "fcfs", "backfill": "easy"}},
            "inputs": [],
            "epoch_s": None,
            "time_zone": None,
            "cluster": {
                "resources": ["processors"],
                "machines": [
                    {"id": 0, "name": "pool", "capacity": {"processors": float(capacity)}}
                ],
                "partitions": [],
            },
            "seed": 0,
            "digest": f"of {name}",
            "jobs": len(pl.DataFrame(jobs)),
        }
        (folder / "run.json").write_text(json.dumps(content | info))
        (folder / "metrics.json").write_text("{}")
        return folder

    return write


@pytest.fixture(scope="session")
def random_jobs() -> Callable[..., dict[str, Any]]:
    """Return a function that makes jobs which start in order of submission, on endless machines."""

    def make(jobs: int, seed: int = 0, spread_s: float = 1e6) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        submit = np.sort(rng.integers(0, int(spread_s), jobs)).astype(float)
        return {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": submit,
            "run_time_s": rng.integers(0, 5000, jobs).astype(float),
            "processors": rng.integers(1, 9, jobs).astype(float),
            "start_time_s": submit + rng.integers(0, 9000, jobs),
            "user": rng.integers(-1, 12, jobs),
        }

    return make


@pytest.fixture
def simkit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Simkit:
    """Return a function that runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Simkit(capsys, monkeypatch)
