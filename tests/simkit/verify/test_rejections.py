"""Jobs that leave late, or that the policy rejects: good runs pass, and changed ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_records import Records

import simkit
from simkit.policy import Action, Place, Reject, State, SystemInfo


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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Records]:
    folder = tmp_path_factory.mktemp("runs")
    for late in ("stay", "leave"):
        simkit.simulate(scenario(late), policy=Whims(), output=folder / late)
    return {late: Records.read(folder / late) for late in ("stay", "leave")}


@pytest.mark.parametrize("late", ["stay", "leave"])
def test_a_run_with_rejections_passes(late: str, runs: dict[str, Records], tmp_path: Path) -> None:
    audit = runs[late].copy().audit(tmp_path / "run")
    assert audit.found == {}
    assert ("late-jobs" in audit.not_applicable) == (late == "stay")
    reasons = runs[late].tables["jobs"]["reason"].unique().to_list()
    assert "policy: a whim" in reasons
    assert any(reason.startswith("late: ") for reason in reasons) == (late == "leave")


IS_LATE = pl.col("detail").str.starts_with("late: ")
SUBMITTED = pl.when(IS_LATE).then("submit_time_s").otherwise("time_s").alias("time_s")
HIGH = pl.when(pl.col("status") == "finished").then(1.0).otherwise("qos").alias("qos")
REASON = pl.col("reason").str
CHANGES = {
    # what is changed: run, table, column; the rules that are violated
    "leaves too soon": ("leave", "events", SUBMITTED, {"timeline", "row-order"}),
    "starts late": ("leave", "jobs", HIGH, {"late-jobs"}),
    "another word for it": ("leave", "jobs", REASON.replace("^late: .*", "it was not wanted"),
                            {"rejections", "events"}),
    "leaves, though the late stay": ("stay", "jobs", REASON.replace("^policy: ", "late: "),
                                     {"late-jobs"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_rejection_is_found(name: str, runs: dict[str, Records], tmp_path: Path) -> None:
    late, table, change, rules = CHANGES[name]
    run = runs[late].copy()
    submits = run.tables["jobs"].select("job_id", "submit_time_s")
    rows, names = run.tables[table], run.tables[table].columns
    if table == "events":
        rows = rows.join(submits, on="job_id", how="left", maintain_order="left")
    run.tables[table] = rows.with_columns(change).select(names)
    assert rules <= set(run.audit(tmp_path / "run").found)
