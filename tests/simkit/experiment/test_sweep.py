"""A sweep: every combination once, nothing twice, and one failure does not stop the others."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simkit.cli import main
from simkit.errors import ScenarioError
from simkit.experiment.sweep import InProcess, PlannedRun, SweepOutcome, plan_sweep, run_sweep
from simkit.results.run_folder import open_run

SWEEP = {
    "name": "small",
    "workload": {"type": "lublin", "jobs": 40, "processors": 16, "offered_load": 0.8},
    "sweep": {"policy.backfill": ["none", "easy"], "workload.load": [1.0, 1.5], "seed": [0, 1]},
}


def states(outcomes: list[SweepOutcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_each_combination_has_its_folder(tmp_path: Path) -> None:
    plan = plan_sweep(SWEEP, tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in plan.folders] == [
        f"scenario=small/policy={policy}/workload.load={load}/seed={seed}"
        for policy in ("fcfs", "fcfs+easy")
        for load in (1.0, 1.5)
        for seed in (0, 1)
    ]


def test_one_call_reads_all_runs(tmp_path: Path) -> None:
    outcomes = run_sweep(SWEEP, tmp_path, executor=InProcess())
    assert states(outcomes) == ["done"] * 8
    jobs = pl.scan_parquet(tmp_path / "**/jobs.parquet", hive_partitioning=True)
    counts = jobs.group_by("policy", "workload.load", "seed").len().collect()
    assert counts.height == 8
    assert set(counts["len"]) == {40}


def test_runs_of_one_seed_have_the_same_workload(tmp_path: Path) -> None:
    run_sweep(SWEEP, tmp_path, overrides={"workload.load": 1.0}, executor=InProcess())
    submits = {
        (policy, seed): open_run(
            tmp_path / "scenario=small" / f"policy={policy}" / f"seed={seed}"
        ).jobs["submit_time_s"].to_list()
        for policy in ("fcfs", "fcfs+easy")
        for seed in (0, 1)
    }  # fmt: skip
    assert submits["fcfs", 0] == submits["fcfs+easy", 0] != submits["fcfs", 1]


def test_what_is_finished_is_skipped_what_is_not_is_run(tmp_path: Path) -> None:
    first = run_sweep(SWEEP, tmp_path, executor=InProcess())
    info = tmp_path / first[2].folder / "run.json"
    info.write_text(info.read_text().replace('"complete"', '"interrupted"'))
    again = run_sweep(SWEEP, tmp_path, executor=InProcess())
    assert states(again) == ["skipped"] * 2 + ["done"] + ["skipped"] * 5
    assert [o.digest for o in again] == [o.digest for o in first]
    assert [o.metrics for o in again] == [o.metrics for o in first]
    assert states(run_sweep(SWEEP, tmp_path, executor=InProcess(), force=True)) == ["done"] * 8


def test_a_changed_input_is_run_again(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    row = "1 0 -1 {run} 1 -1 -1 1 60 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    log.write_text("; MaxProcs: 4\n" + row.format(run=30))
    scenario = {"workload": {"type": "swf", "path": str(log)}, "sweep": {"seed": [0]}}
    assert states(run_sweep(scenario, tmp_path / "out", executor=InProcess())) == ["done"]
    assert states(run_sweep(scenario, tmp_path / "out", executor=InProcess())) == ["skipped"]
    log.write_text("; MaxProcs: 4\n" + row.format(run=40))
    assert states(run_sweep(scenario, tmp_path / "out", executor=InProcess())) == ["done"]


def test_a_failure_is_an_outcome_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n        raise RuntimeError('no idea')\n        yield\n"
    )
    scenario = {
        **SWEEP,
        "sweep": {"policy": [{"path": f"{tmp_path}/mine.py:Mine"}, {"order": "fcfs"}]},
    }
    failed, done = run_sweep(scenario, tmp_path / "out", executor=InProcess())
    assert (failed.state, done.state) == ("failed", "done")
    assert "RuntimeError: no idea" in failed.error


def test_a_wrong_combination_is_told_before_anything_runs(tmp_path: Path) -> None:
    scenario = {**SWEEP, "sweep": {"policy.backfill": ["easy", "eazy"]}}
    with pytest.raises(ScenarioError, match="did you mean 'easy'"):
        run_sweep(scenario, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_executor_can_take_the_place_of_local_processes(tmp_path: Path) -> None:
    class Elsewhere:
        """Ends the runs in reverse; what travels is plain JSON."""

        def run(
            self, task: Callable[[PlannedRun], SweepOutcome], runs: Sequence[PlannedRun]
        ) -> Iterator[tuple[int, SweepOutcome]]:
            for row, run in reversed(list(enumerate(runs))):
                plain: Any = json.loads(json.dumps(run))
                yield row, task(tuple(plain))

    outcomes = run_sweep(SWEEP, tmp_path, executor=Elsewhere())
    assert [o.assignment["seed"] for o in outcomes] == [0, 1] * 4
    assert states(outcomes) == ["done"] * 8


def test_local_processes_give_the_same_digests(tmp_path: Path) -> None:
    scenario = {**SWEEP, "sweep": {"policy.backfill": ["none", "easy"]}}
    here = run_sweep(scenario, tmp_path / "here", executor=InProcess())
    there = run_sweep(scenario, tmp_path / "there", workers=2)
    assert [o.digest for o in here] == [o.digest for o in there]
    assert states(there) == ["done"] * 2


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n        raise RuntimeError('no idea')\n        yield\n"
    )
    (tmp_path / "s.yaml").write_text(
        "workload: {type: lublin, jobs: 40, processors: 16}\n"
        "sweep: {policy: [{order: fcfs}, {path: mine.py:Mine}]}\n"
    )
    monkeypatch.setattr(sys, "argv", ["simkit", "sweep", "s.yaml", "-j", "1"])
    with pytest.raises(SystemExit) as exit_:
        main()
    out, err = capsys.readouterr()
    assert exit_.value.code == 1
    assert "1 done, 1 failed" in out
    assert "RuntimeError: no idea" in err
    assert Path("runs/s-sweep/scenario=s/policy=fcfs/seed=0/run.json").exists()


def test_the_command_shows_the_metrics_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(
        "workload: {type: lublin, jobs: 40, processors: 16}\nsweep: {seed: [0, 1]}\n"
    )
    monkeypatch.setattr(
        sys,
        "argv",
        ["simkit", "sweep", "s.yaml", "-j", "1", "--metrics", "wait_time_s.p99,jobs.killed"],
    )
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code in (0, None)
    header = capsys.readouterr().out.splitlines()[0]
    assert header.split() == ["Run", "seed", "wait_time_s.p99", "jobs.killed", "seconds"]
