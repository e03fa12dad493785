"""`simkit evaluate --windows`: the parts of a trace as job sets, and what is told of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from simkit.errors import ScenarioError
from simkit.experiment.api import simulate
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.swf import SwfLog
from simkit.traces.task_table import TaskTable
from simkit.training.evaluate import evaluate, policy_candidate
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
def data(tmp_path):
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
def scenario(data):
    return load_scenario(data)


def sums(found):
    """Return (number, sum over its jobs) of each candidate's sets."""
    return {
        one.label: [(row["set"], row["sum"]) for row in found.rows if row["label"] == one.label]
        for one in found.candidates
    }


def test_each_window_has_its_jobs_and_its_value(scenario):
    found = evaluate(scenario, CANDIDATES, windows=range(4), metric="makespan_s", workers=1)
    assert sums(found) == {
        "fcfs": [(0, 6), (1, 6), (2, 6), (3, 5)],
        "ljf": [(0, 7), (1, 4), (2, 6), (3, 5)],
    }
    assert [row["submitted"] for row in found.rows] == [5, 5, 5, 1] * 2
    assert [row["workload.window.jobs"] for row in found.rows[:4]] == [
        "0..4", "5..9", "10..14", "15..19",
    ]  # fmt: skip


def test_wins_ties_losses_and_the_log_ratio_by_hand(scenario):
    found = evaluate(scenario, CANDIDATES, windows=range(4), metric="makespan_s", workers=1)
    fcfs, ljf = found.candidates
    assert found.reference == "ljf"  # 22 s in all, fcfs 23
    assert (fcfs.wins, fcfs.ties, fcfs.losses) == (1, 2, 1)
    assert fcfs.difference == 0.25
    assert fcfs.log_ratio == pytest.approx((math.log(6 / 7) + math.log(6 / 4)) / 4)
    assert fcfs.log_ratio_interval is not None
    assert fcfs.log_ratio_interval.low is None  # too few windows
    assert (ljf.log_ratio, ljf.log_ratio_interval) == (None, None)


def test_values_of_zero_have_no_log_ratio(scenario):
    found = evaluate(scenario, CANDIDATES, windows=range(4), metric="wait_time_s", workers=1)
    assert [one.log_ratio for one in found.candidates] == [None, None]  # the last job waits 0 s
    one = next(c for c in found.candidates if c.label != found.reference)
    assert one.difference != 0


def test_windows_are_counted_from_job_0_wherever_the_scenarios_window_is(data, scenario):
    data["workload"]["window"] = {"jobs": "5..9"}
    assert held_out(load_scenario(data), windows=[0, 3]) == held_out(scenario, windows=[0, 3])


def test_windows_lie_within_the_bounds_of_time(data):
    data["workload"]["window"] = {"start": "100s", "end": "300s", "jobs": 5}
    bounded = load_scenario(data)
    found = evaluate(bounded, CANDIDATES, windows=range(2), metric="makespan_s", workers=1)
    assert sums(found)["ljf"] == [(0, 4), (1, 6)]
    with pytest.raises(ScenarioError, match=r"no window 2; 10 jobs .* 2 windows of 5"):
        held_out(bounded, windows=[2])


def test_a_window_is_the_run_with_its_jobs_and_its_seed(scenario):
    (row,) = evaluate(scenario, CANDIDATES[:1], windows=[1], workers=1).rows
    assert (row["set"], row["seed"]) == (1, 1)
    run = simulate(scenario, overrides={"workload.window.jobs": "5..9"}, seed=1)
    assert row["sum"] == run.metrics["slowdown"]["mean"] * 5


@pytest.mark.parametrize("windows", [pytest.param(range(4), marks=pytest.mark.thorough), [3, 1]])
def test_workers_change_nothing(scenario, windows):
    alone, several = (
        evaluate(scenario, CANDIDATES, windows=windows, metric="makespan_s", workers=workers)
        for workers in (1, 2)
    )
    assert several == alone


def test_the_trace_is_read_once(scenario, monkeypatch):
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


def test_a_trace_of_several_tables_has_windows_too():
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
        *[(lambda s, text=text: parse_windows(text), f"^--windows {text}: ")
          for text in ("5", "a..b", "-1..3", "9..3")],
        (lambda s: held_out(s, windows=range(2, 6)), "no window 4; 16 jobs .* 4 windows of 5"),
        (lambda s: held_out(s, windows=range(10**17)), "no window 4;"),
        (lambda s: held_out(s, windows=[-1]), "no window -1;"),
        (lambda s: held_out(s, windows=[]), "^evaluate: windows"),
        (lambda s: held_out(s, windows=[1, 1]), "^evaluate: windows"),
        (lambda s: held_out(s, windows=[1], sets=1), "sets and windows"),
        (lambda s: evaluate(s, CANDIDATES, windows=[1], seeds=[1]), "seeds and windows"),
    ],
)  # fmt: skip
def test_windows_that_are_not_there_are_refused(scenario, call, text):
    with pytest.raises(ScenarioError, match=text):
        call(scenario)


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        ({"window": None}, "workload.window.jobs"),
        ({"window": {"start": "100s"}}, "workload.window.jobs"),
        ({"type": "lublin", "jobs": 40, "processors": 16, "window": {"jobs": 10}}, "type lublin"),
    ],
)
def test_workloads_without_windows_are_refused(data, workload, text):
    kept = {} if "type" in workload else data["workload"]
    with pytest.raises(ScenarioError, match=text):
        held_out(load_scenario(data | {"workload": kept | workload}), windows=[0])
