"""Partitions of a scenario route jobs by time and size, into pools, and give them time limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.errors import ScenarioError
from simkit.verify import verify_run

LOAD = {"type": "lublin", "jobs": 2000, "processors": 128, "estimates": "modal"}


def scenario(*partitions: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {"workload": LOAD, "cluster": {"partitions": list(partitions)} | cluster}


def test_who_is_too_long_for_the_first_partition_runs_in_the_next(tmp_path: Path) -> None:
    short, rest = {"name": "short", "max_time": "1h"}, {"name": "rest"}
    alone = simkit.simulate(scenario(short, processors=128))
    assert 500 < alone.metrics["jobs"]["rejected"] < 1500
    both = simkit.simulate(scenario(short, rest, processors=128), output=tmp_path / "run")
    assert both.metrics["jobs"]["rejected"] == 0
    groups = dict(both.metrics_by("partition").select("partition", "jobs").iter_rows())
    assert groups["rest"] == alone.metrics["jobs"]["rejected"]
    assert groups["short"] == alone.metrics["jobs"]["finished"]
    in_short = both.jobs.filter(site_partition="short")["requested_time_s"]
    assert (
        in_short.max() <= 3600 < both.jobs.filter(site_partition="rest")["requested_time_s"].min()
    )
    assert verify_run(tmp_path / "run").ok


def test_partitions_with_pools_of_their_own(tmp_path: Path) -> None:
    pools = (
        {"name": "small", "processors": 32, "max_processors": 8},
        {"name": "large", "processors": 128},
    )
    run = simkit.simulate(scenario(*pools), output=tmp_path / "run")
    assert {m["name"]: m["capacity"]["processors"] for m in run.machines} == {
        "small": 32.0, "large": 128.0,
    }  # fmt: skip
    used = run.allocations.join(run.jobs.select("job_id", "site_partition"), on="job_id")
    assert set(used.select("machine_id", "site_partition").iter_rows()) == {
        (0, "small"), (1, "large"),
    }  # fmt: skip
    assert verify_run(tmp_path / "run").ok


def test_a_job_that_is_said_to_be_in_another_partition_is_found(tmp_path: Path) -> None:
    import polars as pl

    run = simkit.simulate(scenario({"name": "a", "max_time": "1h"}, {"name": "b"}, processors=128),
                     output=tmp_path / "run")  # fmt: skip
    file = tmp_path / "run" / "jobs.parquet"
    moved = pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("b")).otherwise("site_partition")
    run.scan("jobs").with_columns(site_partition=moved).collect().write_parquet(file)
    found = [v.message for v in verify_run(tmp_path / "run").violations if v.check == "partitions"]
    assert found == ["said to be in another partition than the first that admits it"]


@pytest.mark.parametrize(
    ("partitions", "cluster", "message"),
    [
        ([{"name": "a", "processors": 4}, {"name": "b"}], {},
         "cluster.partitions.1.processors: is missing; other partitions have a pool"),
        ([{"name": "a", "processors": 4}], {"processors": 8},
         "cluster.processors: does not go with partitions that have processors of their own"),
        ([{"name": "a", "processors": 4, "machines": ["a"]}], {},
         "cluster.partitions.0.machines: does not go with processors; the partition has a pool of"),
        ([{"name": "a", "processors": 4}],
         {"maintenance": [{"start": 0, "duration": "1h", "processors": 2}]},
         "cluster.maintenance.0.processors: the partitions have pools of their own; name them as"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_pools(
    partitions: list[dict[str, Any]], cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        simkit.simulate(scenario(*partitions, **cluster))
    assert message in str(error.value)


def test_maintenance_of_a_partitions_pool() -> None:
    window = {"start": 0, "duration": "1d", "machines": ["a"]}
    run = simkit.simulate(scenario({"name": "a", "processors": 128}, maintenance=[window]))
    assert run.jobs["start_time_s"].min() >= 86_400


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
