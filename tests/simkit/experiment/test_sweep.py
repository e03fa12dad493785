"""A sweep: every combination once, nothing twice, and one failure does not stop the others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import Result, Simkit

from simkit.errors import RunError, ScenarioError
from simkit.experiment.api import simulate
from simkit.experiment.sweep import plan_sweep, run_sweep
from simkit.experiment.workers import InProcess, PlannedRun, SweepOutcome
from simkit.policy import Place
from simkit.results.run_folder import open_run
from simkit.traces.swf import SwfLog

SWEEP = {
    "name": "small",
    "workload": {"type": "lublin", "jobs": 40, "processors": 16, "offered_load": 0.8},
    "sweep": {"policy.backfill": ["none", "easy"], "workload.load": [1.0, 1.5], "seed": [0, 1]},
}


def states(outcomes: Sequence[SweepOutcome]) -> list[str]:
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


def test_what_is_finished_is_skipped_what_is_not_is_run(tmp_path: Path) -> None:
    first = run_sweep(SWEEP, tmp_path, executor=InProcess())
    info = tmp_path / first[2].folder / "run.json"
    info.write_text(info.read_text().replace('"complete"', '"interrupted"'))
    again = run_sweep(SWEEP, tmp_path, executor=InProcess())
    assert states(again) == ["skipped"] * 2 + ["done"] + ["skipped"] * 5
    assert [o.digest for o in again] == [o.digest for o in first]
    assert [o.metrics for o in again] == [o.metrics for o in first]
    assert states(run_sweep(SWEEP, tmp_path, executor=InProcess(), force=True)) == ["done"] * 8


def test_a_run_of_a_changed_input_is_replaced_only_by_force(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    row = "1 0 -1 {run} 1 -1 -1 1 60 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    log.write_text("; MaxProcs: 4\n" + row.format(run=30))
    scenario = {"workload": {"type": "swf", "path": str(log)}, "sweep": {"seed": [0]}}
    assert states(run_sweep(scenario, tmp_path / "out", executor=InProcess())) == ["done"]
    assert states(run_sweep(scenario, tmp_path / "out", executor=InProcess())) == ["skipped"]
    log.write_text("; MaxProcs: 4\n" + row.format(run=40))
    with pytest.raises(RunError, match=r"with another content of \S+/log.swf; choose another"):
        run_sweep(scenario, tmp_path / "out", executor=InProcess())
    again = run_sweep(scenario, tmp_path / "out", executor=InProcess(), force=True)
    assert states(again) == ["done"]


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


@pytest.fixture
def sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Return `simkit sweep s.yaml` with one worker; s.yaml has 40 jobs and the `sweep` given."""
    monkeypatch.chdir(tmp_path)
    simkit = Simkit(capsys, monkeypatch, "sweep", "s.yaml", "-j", "1")

    def run(*words: object, sweep: str = "{seed: [0, 1]}") -> Result:
        workload = "workload: {type: lublin, jobs: 40, processors: 16}\n"
        Path("s.yaml").write_text(f"{workload}sweep: {sweep}\n")
        return simkit(*words)

    return run


def test_the_command(sweep: Callable[..., Result]) -> None:
    Path("mine.py").write_text(
        "class Mine:\n    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n        raise RuntimeError('no idea')\n        yield\n"
    )
    done = sweep(sweep="{policy: [{order: fcfs}, {path: mine.py:Mine}]}")
    assert done.code == 1
    assert "1 done, 1 failed" in done.out
    assert "RuntimeError: no idea" in done.err
    assert Path("runs/s-sweep/scenario=s/policy=fcfs/seed=0/run.json").exists()


def test_the_command_sweeps_settings_with_commas(sweep: Callable[..., Result]) -> None:
    done = sweep("--set", "policy.order=fcfs,sjf", "--json")
    runs = [run["assignment"] for run in json.loads(done.out)["runs"]]
    assert runs == [
        {"seed": seed, "policy.order": order} for seed in (0, 1) for order in ("fcfs", "sjf")
    ]
    refused = sweep("--seed", 1, "--set", "seed=0,1")
    assert (refused.code, refused.err) == (
        2, "seed is swept, but seed is also set; leave one of them out\n",
    )  # fmt: skip


def policy_class() -> type:
    """Return a policy that no other process can import."""

    class Local:
        def reset(self, info: Any, rng: Any) -> None:
            pass

        def schedule(self, state: Any) -> Iterator[Any]:
            for task in sorted(state.queue, key=lambda task: task.estimate_s):
                if on := state.fit(task):
                    yield Place(task, on)

    return Local


def test_a_log_is_read_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = SwfLog.read
    monkeypatch.setattr(SwfLog, "read", lambda self: reads.append(self.path) or read(self))
    scenario = {
        "name": "logs",
        "workload": {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 50}},
        "sweep": {"workload.load": [1.0, 1.5], "workload.keep_zero_run": [True, False]},
    }
    outcomes = run_sweep(scenario, tmp_path / "once", executor=InProcess())
    assert len(reads) == 2  # as many as ways to read it
    alone = [
        simulate(open_run(o.folder).info["scenario"], output=tmp_path / f"alone-{row}").digest
        for row, o in enumerate(outcomes)
    ]
    assert [o.digest for o in outcomes] == alone
    assert len(reads) == 6


def test_the_result_is_a_frame_with_a_row_per_run(tmp_path: Path) -> None:
    scenario = {
        **SWEEP,
        "sweep": {
            "policy.backfill": ["none", "easy"],
            "workload.target_load": [None, {"offered_load": 0.5, "processors": 16}],
        },
    }
    result = run_sweep(scenario, tmp_path, executor=InProcess())
    assert repr(result) == f"<sweep in {tmp_path}: 4 done>"
    frame = result.frame()
    assert frame.columns[:5] == [
        "policy", "policy.backfill", "workload.target_load", "state", "seconds",
    ]  # fmt: skip
    assert frame["policy"].to_list() == ["fcfs", "fcfs", "fcfs+easy", "fcfs+easy"]
    assert frame["workload.target_load"].to_list() == [
        None, '{"offered_load": 0.5, "processors": 16}',
    ] * 2  # fmt: skip
    assert frame["wait_time_s"].to_list() == [o.metrics["wait_time_s"]["mean"] for o in result]
    assert "wait_time_s.mean" not in frame.columns  # each number has one name
    assert not {name for name in frame.columns if name.endswith((".mean", ".value"))}
    assert frame["wait_time_s.p99"].to_list() == [o.metrics["wait_time_s"]["p99"] for o in result]
    assert [open_run(folder).digest for folder in frame["folder"]] == [o.digest for o in result]


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_a_policy_may_be_a_class(tmp_path: Path, workers: int) -> None:
    Local = policy_class()
    result = run_sweep(
        SWEEP,
        tmp_path,
        sweep={"policy": [Local, {"order": "sjf"}], "workload.load": [1.0]},
        workers=workers,
    )
    assert states(result) == ["done"] * 4, result.frame()["error"].to_list()
    alone = simulate({**SWEEP, "sweep": {}}, policy=Local, seed=1, output=tmp_path / "alone")
    frame = result.frame()
    assert frame["policy"].str.split(".").list.last().to_list() == ["Local", "sjf"] * 2
    assert frame["seed"].to_list() == [0, 0, 1, 1]
    assert result[2].digest == alone.digest


def test_runs_of_a_class_are_repeated_because_it_may_have_changed(tmp_path: Path) -> None:
    scenario = {**SWEEP, "sweep": {"seed": [0, 1]}}
    for _ in range(2):
        result = run_sweep(scenario, tmp_path, policy=policy_class(), executor=InProcess())
        assert states(result) == ["done"] * 2
    assert states(run_sweep(scenario, tmp_path, policy={"order": "sjf"}, workers=1)) == ["done"] * 2
    assert {o.state for o in run_sweep(scenario, tmp_path, policy={"order": "sjf"}, workers=1)} == {
        "skipped"
    }


class Counting:
    """Places the first tasks of the queue alone, as many as it is told."""

    def __init__(self, most: int = 100) -> None:
        self.most = most

    def reset(self, info: Any, rng: Any) -> None:
        pass

    def schedule(self, state: Any) -> Any:
        for task in list(state.queue)[: self.most]:
            if on := state.fit(task):
                yield Place(task, on)


def test_a_class_may_have_arguments_which_may_be_swept(tmp_path: Path) -> None:
    scenario = {**SWEEP, "sweep": {}}
    own = {**scenario, "policy": {"name": Counting, "args": {"most": 1}}}
    result = run_sweep(own, tmp_path / "a", sweep={"policy.args.most": [1, 50]}, workers=1)
    assert states(result) == ["done"] * 2, result.frame()["error"].to_list()
    assert [run["scenario"]["policy"]["args"] for run in map(info_of, result)] == [
        {"most": 1}, {"most": 50},
    ]  # fmt: skip
    alone = [simulate(scenario, policy=Counting(most)) for most in (1, 50)]
    waits = [run.jobs["wait_time_s"].sum() for run in alone]
    assert waits[0] > waits[1]
    assert [open_run(o.folder).jobs["wait_time_s"].sum() for o in result] == waits
    both = run_sweep(
        scenario, tmp_path / "b", workers=1,
        sweep={"policy": [{"name": Counting, "args": {"most": n}} for n in (1, 50)]},
    )  # fmt: skip
    assert [o.digest for o in both] == [o.digest for o in result]
    wrong = run_sweep(
        scenario, tmp_path / "c", policy={"name": Counting, "args": {"moist": 1}}, workers=1
    )
    assert "takes no argument 'moist'; did you mean 'most'" in wrong[0].error


def info_of(outcome: Any) -> dict[str, Any]:
    info: dict[str, Any] = open_run(outcome.folder).info
    return info


def test_a_policy_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="give the class Local"):
        run_sweep(SWEEP, tmp_path, policy=policy_class()())


def test_without_cloudpickle_the_message_says_how_to_send_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)

    Local = policy_class()
    with pytest.raises(ScenarioError, match="cannot be sent to other processes without cloudpi"):
        run_sweep(SWEEP, tmp_path, policy=Local, workers=2)


SCRIPT = """
import sys, simkit
GRID = {"name": "s", "workload": {"type": "lublin", "jobs": 40, "processors": 16}}

class Mine:
    def reset(self, info, rng): pass
    def schedule(self, state):
        for task in list(state.queue):
            if on := state.fit(task):
                yield simkit.Place(task, on)
"""


def script(folder: Path, ending: str) -> tuple[int, str, str]:
    (folder / "script.py").write_text(SCRIPT + ending)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


SWEEP_MINE = "simkit.run_sweep(GRID, 'out', sweep={'seed': [0, 1, 2]}, policy=Mine, workers=2)"


@pytest.mark.long
@pytest.mark.parametrize(
    "block",
    ["", pytest.param("sys.modules['cloudpickle'] = None; ", marks=pytest.mark.thorough)],
)
def test_a_script_sweeps_its_own_class(tmp_path: Path, block: str) -> None:
    ending = f"if __name__ == '__main__':\n    {block}print({SWEEP_MINE})\n"
    assert script(tmp_path, ending) == (0, "<sweep in out: 3 done>\n", "")


@pytest.mark.thorough
def test_a_script_without_a_main_guard_gets_one_sentence(tmp_path: Path) -> None:
    code, out, err = script(tmp_path, f"print({SWEEP_MINE})\n")
    assert (code, out) == (1, "")
    assert err.count("Traceback") == 1  # of the script, which does not catch simkit's error
    last = err.splitlines()[-1]
    assert last.startswith("simkit.errors.RunError: ")
    assert 'below `if __name__ == "__main__":`, or use one worker' in last
    assert "freeze_support" not in err


def test_runs_of_another_scenario_are_replaced_by_force_alone(tmp_path: Path) -> None:
    scenario = {**SWEEP, "sweep": {"seed": [0, 1]}}
    other = {"workload.load": 0.5}
    first = run_sweep(scenario, tmp_path, executor=InProcess())
    with pytest.raises(
        RunError, match=r"differs in workload.load \(.* there, 0.5 here\)"
    ) as caught:
        run_sweep(scenario, tmp_path, executor=InProcess(), overrides=other)
    assert len(str(caught.value).splitlines()) == 2
    assert [open_run(o.folder).digest for o in first] == [o.digest for o in first]
    forced = run_sweep(scenario, tmp_path, executor=InProcess(), overrides=other, force=True)
    assert states(forced) == ["done"] * 2


def test_many_folders_in_the_way_are_told_in_few_lines(tmp_path: Path) -> None:
    scenario = {**SWEEP, "sweep": {"seed": [0, 1, 2, 3, 4]}}
    for folder in plan_sweep(scenario, tmp_path).folders:
        folder.mkdir(parents=True)
        (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="no run; choose another") as caught:
        run_sweep(scenario, tmp_path, executor=InProcess())
    assert str(caught.value).splitlines()[-1] == "and 2 other folders"
