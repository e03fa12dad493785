"""The auditor and releases: what a run says of them is compared with the input, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from run_records import Records

import simkit
from simkit.verify import verify_run
from simkit.verify.audit import Audit

TABLE = """job_id,submit_time_s,run_time_s,processors,release_time_s,preceding_job,think_time_s
1,0,100,4,,,
2,0,50,4,,1,30
3,5,50,4,,2,0
4,5,10,1,300,1;2,
5,5,10,1,300,x,3
6,5,10,1,3,7,3
7,8,10,1,9,6,
8,8,10,1,,8,
9,9,10,99,,,
10,9,10,1,,9,4
"""
SWF = """; MaxProcs: 8
1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1
2 0 -1 50 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 1 30
3 5 -1 50 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 2 0
4 5 -1 0 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 2 0
5 6 -1 9 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 4 7
6 7 -1 9 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 7 7
7 8 -1 9 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 6 -1
"""


def run_of(folder: Path, text: str = TABLE, **changes: Any) -> Path:
    """Run a table or log on eight processors; `changes`: further keys of the workload."""
    kind = "swf" if text.startswith(";") else "jobs"
    path = folder / f"input.{kind}"
    path.write_text(text)
    workload = {"type": kind, "path": str(path)} | changes
    simkit.simulate({"workload": workload, "cluster": {"processors": 8}}, output=folder / "run")
    return folder / "run"


def audit(folder: Path) -> Audit:
    return verify_run(folder, inputs=[folder.parent])


def forged(folder: Path, change: pl.Expr | None = None, **keys: Any) -> set[str]:
    """Change a column of the jobs or keys of the workload; return what is said of releases."""
    run = Records.read(folder)
    for form in ("scenario", "portable_scenario"):
        run.info[form]["workload"] |= keys
    if change is not None:
        run.tables["jobs"] = run.tables["jobs"].with_columns(change)
    found = run.audit(folder.parent / "forged").violations
    return {violation.message for violation in found if violation.check == "releases"}


@pytest.mark.parametrize("text", [TABLE, SWF])
@pytest.mark.parametrize(
    "changes",
    [{}, {"dependencies": "recorded"}, {"dependencies": "ignore"}, {"window": {"jobs": "1..5"}},
     {"load": 2.0}, {"window": {"start": "5s"}}],
    ids=str,
)  # fmt: skip
def test_honest_runs_keep_the_rule(text, changes, tmp_path):
    found = audit(run_of(tmp_path, text, **changes))
    assert not found.found, found.violations
    rule = next(check for check in found.checks if check.name == "releases")
    assert not rule.skipped or "no job has to wait" in rule.skipped


def test_a_run_that_ignored_what_its_scenario_says_is_found(tmp_path):
    found = forged(run_of(tmp_path, dependencies="ignore"), dependencies="simulated")
    assert found == {"must wait for its release, and the run has none"}


def test_a_run_that_took_the_recorded_times_for_simulated_ones_is_found(tmp_path):
    found = forged(run_of(tmp_path, dependencies="recorded"), dependencies="simulated")
    assert found == {"release_time_s is not when it could run for the first time"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.col("start_time_s") - 1, "starts before its release"),
        (pl.lit(None, pl.Float64).alias("release_time_s"), "starts before its release"),
        (pl.lit(-1.0).alias("release_time_s"), "released before its submission"),
        (pl.col("submit_time_s").alias("release_time_s"),
         "release_time_s is not when it could run for the first time"),
    ],
    ids=["early start", "no release", "release before submission", "release at submission"],
)  # fmt: skip
def test_other_releases_are_found(change, message, tmp_path):
    assert message in forged(run_of(tmp_path), change)


def test_what_cannot_be_read_again_is_not_audited(tmp_path):
    sacct = tmp_path / "sacct.txt"
    sacct.write_text(
        "JobID|State|Submit|Eligible|Start|End|Elapsed|AllocCPUS\n"
        "1|COMPLETED|2024-05-14T08:00:00|2024-05-14T10:00:00|2024-05-14T10:00:00|"
        "2024-05-14T11:00:00|01:00:00|4\n"
    )
    workload = {"type": "sacct", "path": str(sacct)}
    scenario = {"workload": workload, "cluster": {"processors": 8}}
    simkit.simulate(scenario, output=tmp_path / "run")
    rule = next(c for c in audit(tmp_path / "run").checks if c.name == "releases")
    assert rule.applies
    assert "'sacct' are not read again" in rule.skipped
    early = forged(tmp_path / "run", pl.col("start_time_s") - 1)
    assert "starts before its release" in early
