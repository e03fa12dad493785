"""Jobs that leave late, or that the policy rejects: good runs pass, and changed ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import simkit
from simkit.policy import Action, Place, Reject, State, SystemInfo
from simkit.verify import verify_run


class Whims:
    """Starts, reserves, rejects and leaves waiting at random."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self._rng = rng

    def schedule(self, state: State) -> Iterator[Action]:
        for task in state.queue:
            whim = self._rng.random()
            if whim < 0.1:
                yield Reject(task, "a whim")
            elif whim < 0.8 and (on := state.fit(task)):
                yield Place(task, on)


def scenario(late: str) -> dict[str, Any]:
    workload: dict[str, Any] = {"type": "rare", "jobs": 120, "offered_load": 1.2}
    return {
        "name": "whims", "seed": 4, "workload": workload, "value": {}, "estimates": "actual",
        "cluster": {"machines": [{"count": 1, "processors": 10, "gpu": 10}]},
        "scheduling": {"step": "1h"},
        "admission": {"slots": 5, "backlog": 20, "late": late},
    }  # fmt: skip


def run_of(late: str, folder: Path) -> Path:
    simkit.simulate(scenario(late), policy=Whims(), output=folder)
    return folder


@pytest.mark.parametrize("late", ["stay", "leave"])
def test_a_run_with_rejections_passes(late: str, tmp_path: Path) -> None:
    audit = verify_run(run_of(late, tmp_path / "run"))
    assert audit.found == {}
    assert ("late-jobs" in audit.not_applicable) == (late == "stay")
    reasons = pl.read_parquet(tmp_path / "run" / "jobs.parquet")["reason"].unique().to_list()
    assert "policy: a whim" in reasons
    assert any(reason.startswith("late: ") for reason in reasons) == (late == "leave")


def changed(folder: Path, table: str, change: pl.Expr) -> set[str]:
    """Change a column of a table; return the rules that are violated then, but for the digest."""
    path = folder / f"{table}.parquet"
    pl.read_parquet(path).with_columns(change).write_parquet(path)
    return set(verify_run(folder).found) - {"digest"}


def test_who_leaves_too_soon_is_found(tmp_path: Path) -> None:
    folder, late = run_of("leave", tmp_path / "run"), pl.col("detail").str.starts_with("late: ")
    jobs = pl.read_parquet(folder / "jobs.parquet").select("job_id", "submit_time_s")
    events = pl.read_parquet(folder / "events.parquet").join(jobs, on="job_id", how="left")
    events = events.with_columns(
        pl.when(late).then("submit_time_s").otherwise("time_s").alias("time_s")
    )
    path = folder / "events.parquet"
    events.drop("submit_time_s").write_parquet(path)
    assert {"timeline", "row-order"} <= set(verify_run(folder).found)


def test_a_late_start_is_found(tmp_path: Path) -> None:
    folder = run_of("leave", tmp_path / "run")
    high = pl.when(pl.col("status") == "finished").then(1.0).otherwise("qos").alias("qos")
    assert "late-jobs" in changed(folder, "jobs", high)


def test_another_word_for_a_rejection_is_found(tmp_path: Path) -> None:
    folder = run_of("leave", tmp_path / "run")
    other = pl.col("reason").str.replace("^late: .*", "it was not wanted")
    assert {"rejections", "events"} <= changed(folder, "jobs", other)


def test_late_jobs_that_stay_may_not_leave(tmp_path: Path) -> None:
    folder = run_of("stay", tmp_path / "run")
    other = pl.col("reason").str.replace("^policy: ", "late: ")
    assert "late-jobs" in changed(folder, "jobs", other)
