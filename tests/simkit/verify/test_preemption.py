"""Preemption: honest runs pass; tasks that stop for nobody, wrongly, or out of order are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import simkit
from simkit.errors import ScenarioError
from simkit.verify import verify_run

LOAD = {"type": "lublin", "jobs": 500, "processors": 64, "offered_load": 1.1}


def scenario(mode: str | None, **policy: Any) -> dict[str, Any]:
    partitions = [
        {"name": "urgent", "priority": 10, "max_time": "30m", "max_processors": 16},
        {"name": "rest", "preempt": mode},
    ]
    cluster = {"processors": 64, "partitions": partitions}
    return {"workload": LOAD, "cluster": cluster, "policy": {"order": "fcfs"} | policy}


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    simkit.simulate(scenario(request.param, backfill="easy"), output=tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("mode", ["requeue", "cancel"])
def test_honest_runs_pass(mode: str, backfill: str, tmp_path: Path) -> None:
    before = simkit.simulate(scenario(None, backfill=backfill))
    run = simkit.simulate(scenario(mode, backfill=backfill), output=tmp_path / "run")
    audit = verify_run(tmp_path / "run")
    assert audit.found == {}
    (check,) = (check for check in audit.checks if check.name == "preemption")
    assert check.examined > 10
    waits = [dict(r.metrics_by("partition").select("partition", "wait_time_s").iter_rows())
             for r in (before, run)]  # fmt: skip
    assert waits[1]["urgent"] < 0.5 * waits[0]["urgent"]
    lost, killed = run.jobs["lost_time_s"].sum(), run.metrics["jobs"]["killed"]
    assert (lost > 0, killed > 0) == (mode == "requeue", mode == "cancel")
    assert run.metrics["unsuccessful_share"]["value"] > 0


def changed(folder: Path, key: str, value: object, row: int = 1) -> set[str]:
    info = json.loads((folder / "run.json").read_text())
    for form in (info, info["scenario"], info["portable_scenario"]):
        form["cluster"]["partitions"][row][key] = value
    (folder / "run.json").write_text(json.dumps(info))
    return {v.message for v in verify_run(folder).violations if v.check == "preemption"}


@pytest.mark.parametrize("run", ["requeue"], indirect=True)
@pytest.mark.parametrize("value", [None, "cancel"])
def test_who_stops_in_another_way_is_found(run: Path, value: str | None) -> None:
    assert changed(run, "preempt", value) == {"stopped in another way than its partition says"}


@pytest.mark.parametrize("run", ["requeue"], indirect=True)
def test_who_gives_way_to_no_higher_priority_is_found(run: Path) -> None:
    assert changed(run, "priority", 10) == {"stopped, but nothing of a higher priority starts"}


@pytest.mark.parametrize("run", ["requeue"], indirect=True)
def test_who_runs_on_in_the_place_of_another_is_found(run: Path) -> None:
    """The victim's number changes place with that of a younger one that ran on."""
    file = run / "allocations.parquet"
    rows = pl.read_parquet(file)
    jobs = pl.read_parquet(run / "jobs.parquet").filter(site_partition="rest")["job_id"]
    rest = rows.filter(pl.col("job_id").is_in(jobs.implode()))
    for victim in rest.filter(outcome="lost").iter_rows(named=True):
        older = rest.filter(
            pl.col("start_time_s") < victim["start_time_s"],
            pl.col("end_time_s") > victim["end_time_s"], pl.col("count") <= victim["count"],
        )  # fmt: skip
        if older.height:
            break
    mine = (pl.col("job_id") == victim["job_id"]) & (pl.col("outcome") == "lost")
    other = (pl.col("job_id") == older["job_id"][0]) & (
        pl.col("end_time_s") == older["end_time_s"][0]
    )
    end = pl.when(mine).then(older["end_time_s"][0]).when(other).then(victim["end_time_s"])
    outcome = pl.when(mine).then(pl.lit("finished")).when(other).then(pl.lit("lost"))
    rows.with_columns(
        end_time_s=end.otherwise("end_time_s"), outcome=outcome.otherwise("outcome")
    ).write_parquet(file)
    found = {v.message for v in verify_run(run).violations if v.check == "preemption"}
    assert any("gave way before it" in message for message in found)


@pytest.mark.parametrize(
    "policy", [{"order": "fcfs", "backfill": "conservative"}, {"fitness": "best-fit"}]
)
def test_a_policy_that_does_not_preempt_is_refused(policy: dict[str, Any]) -> None:
    with pytest.raises(
        ScenarioError, match=r"cluster\.partitions\.1\.preempt: \w+ preempts nothing"
    ):
        simkit.simulate(scenario("requeue") | {"policy": policy})


def test_a_partition_that_no_other_could_preempt_is_refused() -> None:
    wrong = scenario("cancel")
    wrong["cluster"]["partitions"][0]["priority"] = 0
    words = r"cluster\.partitions\.1\.preempt: no partition has a higher priority"
    with pytest.raises(ScenarioError, match=words):
        simkit.simulate(wrong)
