"""`simkit evaluate --windows`: the parts of a trace as job sets, and what is told of them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simkit.cli import main
from simkit.errors import ScenarioError
from simkit.experiment.api import simulate
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.swf import SwfLog
from simkit.traces.task_table import TaskTable
from simkit.training.evaluate import Evaluation, evaluate, policy_candidate
from simkit.training.held_out import held_out, parse_windows

# Run times of jobs for two machines, and the makespans of (fcfs, ljf).
TABLE = (
    (3, 2, 2, 3, 2),  # (6, 7)
    (1, 1, 1, 1, 4),  # (6, 4)
    (2, 2, 2, 2, 2),  # (6, 6)
    (5,),  # (5, 5): the last window is smaller
)
CANDIDATES = [policy_candidate("fcfs"), policy_candidate("ljf")]


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    """Return a scenario of sixteen jobs: the groups of `TABLE`, submitted every 100 s."""
    lines = ["job_id,task_id,submit_time,duration,instances_num,cpu,memory"]
    for number, run_times in enumerate(TABLE):
        lines += [f"{len(lines) + i},1,{100 * number},{run},1,1,0.1"
                  for i, run in enumerate(run_times)]  # fmt: skip
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "name": "table",
        "workload": {
            "type": "tasks",
            "path": str(tmp_path / "table.csv"),
            "window": {"jobs": "0..4"},
        },
        "cluster": {"machines": [{"count": 2, "cpu": 1, "mem": 1}]},
        "estimates": "actual",
    }


@pytest.fixture
def scenario(data: dict[str, Any]) -> Scenario:
    return load_scenario(data)


def sums(found: Evaluation) -> dict[str, list[tuple[int, float]]]:
    """Return (number, sum over its jobs) of each candidate's sets."""
    return {
        one.label: [(row["set"], row["sum"]) for row in found.rows if row["label"] == one.label]
        for one in found.candidates
    }


def test_each_window_has_its_jobs_and_its_value(scenario: Scenario) -> None:
    found = evaluate(scenario, CANDIDATES, windows=range(4), metric="makespan_s", workers=1)
    assert sums(found) == {
        "fcfs": [(0, 6), (1, 6), (2, 6), (3, 5)],
        "ljf": [(0, 7), (1, 4), (2, 6), (3, 5)],
    }
    assert [row["submitted"] for row in found.rows] == [5, 5, 5, 1] * 2
    assert [row["workload.window.jobs"] for row in found.rows[:4]] == [
        "0..4", "5..9", "10..14", "15..19",
    ]  # fmt: skip


def test_wins_ties_losses_and_the_log_ratio_by_hand(scenario: Scenario) -> None:
    found = evaluate(scenario, CANDIDATES, windows=range(4), metric="makespan_s", workers=1)
    fcfs, ljf = found.candidates
    assert found.reference == "ljf"  # 22 s in all, fcfs 23
    assert (fcfs.wins, fcfs.ties, fcfs.losses) == (1, 2, 1)
    assert fcfs.difference == 0.25
    assert fcfs.log_ratio == pytest.approx((math.log(6 / 7) + math.log(6 / 4)) / 4)
    assert fcfs.log_ratio_interval is not None
    assert fcfs.log_ratio_interval.low is None  # too few windows
    assert (ljf.log_ratio, ljf.log_ratio_interval) == (None, None)


def test_values_of_zero_have_no_log_ratio(scenario: Scenario) -> None:
    found = evaluate(scenario, CANDIDATES, windows=range(4), metric="wait_time_s", workers=1)
    assert [one.log_ratio for one in found.candidates] == [None, None]  # the last job waits 0 s
    one = next(c for c in found.candidates if c.label != found.reference)
    assert one.difference != 0


def test_windows_are_counted_from_job_0_wherever_the_scenarios_window_is(
    data: dict[str, Any], scenario: Scenario
) -> None:
    data["workload"]["window"] = {"jobs": "5..9"}
    assert held_out(load_scenario(data), windows=[0, 3]) == held_out(scenario, windows=[0, 3])


def test_windows_lie_within_the_bounds_of_time(data: dict[str, Any]) -> None:
    data["workload"]["window"] = {"start": "100s", "end": "300s", "jobs": 5}
    bounded = load_scenario(data)
    found = evaluate(bounded, CANDIDATES, windows=range(2), metric="makespan_s", workers=1)
    assert sums(found)["ljf"] == [(0, 4), (1, 6)]
    with pytest.raises(ScenarioError, match=r"no window 2; 10 jobs .* 2 windows of 5"):
        held_out(bounded, windows=[2])


def test_a_window_is_the_run_with_its_jobs_and_its_seed(scenario: Scenario) -> None:
    (row,) = evaluate(scenario, CANDIDATES[:1], windows=[1], workers=1).rows
    assert (row["set"], row["seed"]) == (1, 1)
    run = simulate(scenario, overrides={"workload.window.jobs": "5..9"}, seed=1)
    assert row["sum"] == run.metrics["slowdown"]["mean"] * 5


@pytest.mark.parametrize("windows", [range(4), [3, 1]])
def test_workers_change_nothing(scenario: Scenario, windows: Any) -> None:
    alone, several = (
        evaluate(scenario, CANDIDATES, windows=windows, metric="makespan_s", workers=workers)
        for workers in (1, 2)
    )
    assert several == alone


def test_the_trace_is_read_once(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    log = load_scenario(
        {"workload": {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 100}}}
    )
    for source, kind in ((scenario, TaskTable), (log, SwfLog)):
        reads: list[Path] = []
        read = kind.read
        monkeypatch.setattr(
            kind, "read", lambda self, read=read, reads=reads: reads.append(self.path) or read(self)
        )
        evaluate(source, CANDIDATES, windows=range(4), workers=1)
        assert len(reads) == 1


def test_a_trace_of_several_tables_has_windows_too() -> None:
    cloud = load_scenario(
        {
            "workload": {"type": "alibaba2017", "path": "sample:alibaba2017",
                         "window": {"jobs": 10}},
            "cluster": {"trace": {"path": "sample:alibaba2017"}},
        }
    )  # fmt: skip
    found = evaluate(cloud, CANDIDATES[:1], windows=[4, 5], metric="makespan_s", workers=1)
    assert [row["submitted"] for row in found.rows] == [10, 7]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda s: parse_windows("5"), "--windows 5: is not a range; .* 0..20"),
        (lambda s: parse_windows("a..b"), "--windows a..b: is not a range"),
        (lambda s: parse_windows("-1..3"), "is not a range"),
        (lambda s: parse_windows("9..3"), r"last window \(3\) comes before .* write 3..9"),
        (
            lambda s: held_out(s, windows=range(2, 6)),
            r"no window 4; 16 jobs of the trace make 4 windows of 5; choose from 0\.\.3",
        ),
        (lambda s: held_out(s, windows=range(10**17)), "no window 4;"),
        (lambda s: held_out(s, windows=[-1]), "no window -1;"),
        (lambda s: held_out(s, windows=[]), "must not be empty"),
        (lambda s: held_out(s, windows=[1, 1]), "must occur once"),
        (lambda s: held_out(s, windows=[1], sets=1), "sets and windows are both given"),
        (lambda s: evaluate(s, CANDIDATES, windows=[1], seeds=[1]), "seeds and windows are both"),
    ],
)
def test_windows_that_are_not_there_are_refused(
    scenario: Scenario, call: Callable[[Scenario], Any], text: str
) -> None:
    with pytest.raises(ScenarioError, match=text):
        call(scenario)


@pytest.mark.parametrize("window", [None, {"start": "100s"}])
def test_a_scenario_without_a_window_of_jobs_is_refused(
    data: dict[str, Any], window: dict[str, str] | None
) -> None:
    data["workload"]["window"] = window
    with pytest.raises(ScenarioError, match=r"workload.window.jobs is not set.*; add --set"):
        held_out(load_scenario(data), windows=[0])


def test_a_drawn_workload_is_refused() -> None:
    drawn = load_scenario(
        {"workload": {"type": "lublin", "jobs": 40, "processors": 16, "window": {"jobs": 10}}}
    )
    with pytest.raises(ScenarioError, match="type lublin is drawn .* give seeds instead"):
        held_out(drawn, windows=[0])


def test_the_command(
    data: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "table.json").write_text(json.dumps(data), encoding="utf-8")
    command = ["evaluate", str(tmp_path / "table.json"), "-p", "fcfs", "-p", "ljf", "-j", "1",
               "-m", "makespan_s", "--windows", "0..3"]  # fmt: skip
    told = []
    for extra in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["simkit", *command, *extra])
        with pytest.raises(SystemExit) as exit_:
            main()
        assert not exit_.value.code
        told.append(capsys.readouterr().out)
    assert "losses" in told[0]
    assert "4 with 16 jobs" in told[0]
    assert "ln(candidate / reference)" in told[0]
    fcfs = json.loads(told[1])["candidates"][0]
    assert {key: fcfs[key] for key in ("wins", "ties", "losses")} == {
        "wins": 1, "ties": 2, "losses": 1,
    }  # fmt: skip
