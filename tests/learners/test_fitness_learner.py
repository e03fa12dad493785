"""The learner fitness: repeatable, resumable, honest about its arguments, and it learns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cma")
pytest.importorskip("numba")
pytest.importorskip("safetensors")

from pair_chunks import short_and_long_jobs

import simkit
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.fitness import FitnessTraining, _mean_cost, _ratios, begin
from simkit.learners.pairs.agent import PairAgent
from simkit.learners.pairs.chunk import Chunk
from simkit.learners.pairs.model import play
from simkit.learners.pairs.scorer import RULES
from simkit.scenario import Scenario
from simkit.traces.task_table import read_task_table

SMALL = {"iterations": 4, "candidates": 4, "jobs": 5, "chunks": 3, "units": 2}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of 60 jobs, each of three tasks, that keep three machines busy."""
    rng = np.random.default_rng(0)
    lines = ["job_id,task_id,submit_time,duration,instances_num,cpu,memory"]
    for task in range(180):
        job = task // 3
        run, count = rng.choice([3.0, 8.5, 40.0]), rng.integers(1, 20)
        cpu, mem = rng.choice([0.5, 1.0, 2.0]), rng.choice([0.05, 0.2])
        lines.append(f"{job},{task},{7 * job},{run},{count},{cpu},{mem}")
    path = tmp_path_factory.mktemp("fitness") / "jobs.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


def scenario(table: Path, **changes: Any) -> Scenario:
    plain: dict[str, Any] = {
        "workload": {"type": "tasks", "path": str(table), "submit": "last"},
        "cluster": {"machines": [{"count": 3, "cpu": 8, "mem": 1}]},
        "estimates": "actual",
    }
    return Scenario.model_validate({**plain, **changes})


def training(table: Path, seed: int = 0, **arguments: Any) -> FitnessTraining:
    made = begin(scenario(table), {**SMALL, **arguments}, seed=seed)
    assert isinstance(made, FitnessTraining)
    return made


@pytest.mark.parametrize("units", [0, 2])
def test_resumed_is_as_not_interrupted(units: int, table: Path, tmp_path: Path) -> None:
    whole = training(table, units=units)
    expected = [dict(whole.step()) for _ in range(4)]
    first = training(table, units=units)
    found = [dict(first.step()) for _ in range(2)]
    first.save(tmp_path)
    second = training(table, units=units)
    second.load(tmp_path)
    assert second.iteration == 2
    found += [dict(second.step()) for _ in range(2)]
    assert found == expected
    assert second.scorer.flat.tobytes() == whole.scorer.flat.tobytes()
    assert second.held_out() == whole.held_out()


def test_the_seed_decides(table: Path) -> None:
    one, same, other = training(table, 1), training(table, 1), training(table, 2)
    for each in (one, same, other):
        each.step()
    assert one.scorer.flat.tobytes() == same.scorer.flat.tobytes()
    assert one.scorer.flat.tobytes() != other.scorer.flat.tobytes()


def test_other_trainings_are_not_resumed(table: Path, tmp_path: Path) -> None:
    training(table).save(tmp_path)
    training(table, iterations=9).load(tmp_path)
    with pytest.raises(RunError, match="arguments.instances_at_a_time"):
        training(table, instances_at_a_time=1).load(tmp_path)


@pytest.mark.parametrize("start", ["balance", "longest"])
def test_it_begins_at_the_rule(start: str, table: Path) -> None:
    made = training(table, start=start)
    assert made.held_out()["cost_ratio"] == 1.0
    chunk = made.source.trained[0]
    assert play(chunk, made.scorer).placed == play(chunk, RULES[start]).placed


@pytest.mark.parametrize("seed", range(3))
def test_it_learns_from_the_longest_first(seed: int, tmp_path: Path) -> None:
    """The shortest first halves the mean turnaround; of ten blind searches one comes upon it."""
    made = training(
        short_and_long_jobs(tmp_path / "jobs.csv", 96), seed, start="longest", iterations=10,
        objective="turnaround", candidates=16, jobs=16, spread=0.3, units=0, averaged=5,
        vary_requests=0.0, vary_run_times=0.0,
    )  # fmt: skip
    assert made.held_out()["cost_ratio"] == 1.0
    for _ in range(10):
        made.step()
    assert made.held_out()["cost_ratio"] < 0.75


def test_the_agent_does_what_was_trained(table: Path, tmp_path: Path) -> None:
    made = training(table)
    made.step()
    made.write_agent(tmp_path / "agent", {"iteration": 1})
    agent = load_agent(tmp_path / "agent")
    assert isinstance(agent, PairAgent)
    assert agent.scorer.flat.tobytes() == made.scorer.flat.tobytes()
    policy = {"agent": str(tmp_path / "agent"), "compat": "cloudsimpy"}
    run = simkit.simulate(scenario(table, policy=policy, scheduling={"every": "1s"}))
    workload = read_task_table(table, submit="last").workload
    whole = play(Chunk.of(workload, np.array([[8.0, 1.0]] * 3)), made.scorer)
    assert run.metrics["cloudsimpy_makespan"]["value"] == whole.makespan


def test_a_makespan_without_an_end_is_bad_but_a_number() -> None:
    rule = np.array([10.0, np.inf, np.inf, 8.0])
    spans = np.array([[5.0, np.inf, 3.0, np.inf], [1000.0, np.inf, np.inf, 8.0]])
    assert _ratios(spans, rule).tolist() == [[0.5, 1.0, 0.1, 10.0], [10.0, 1.0, 1.0, 1.0]]
    assert _mean_cost(spans) == {"unfinished": 4}
    assert _mean_cost(spans[:, :1]) == {"unfinished": 0, "cost": 502.5}


def test_what_it_does_not_know_is_refused(table: Path) -> None:
    with pytest.raises(ScenarioError) as problems:
        begin(scenario(table), {"candidates": 1, "rate": 2}, seed=0, device="cuda")
    text = str(problems.value)
    assert "learn.arguments.candidates: " in text
    assert "learn.arguments.rate: " in text
    assert "device: is cuda" in text
    pool = {"workload": {"type": "lublin", "jobs": 20, "processors": 8},
            "cluster": {"processors": 8}}  # fmt: skip
    with pytest.raises(ScenarioError, match="a task is a gang of several instances"):
        begin(Scenario.model_validate(pool), SMALL, seed=0)
    with pytest.raises(ScenarioError, match="scheduling: step must be left out"):
        begin(scenario(table, scheduling={"step": "1s"}), SMALL, seed=0)
    wrong = scenario(table, cluster={"machines": [{"cpu": 8, "mem": 1, "gpu": 1}]})
    with pytest.raises(ScenarioError, match="name the same ones in the same order"):
        begin(wrong, SMALL, seed=0)


def test_without_numba_it_says_what_to_install(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "simkit.learners.pairs.kernel", raising=False)
    monkeypatch.delitem(sys.modules, "simkit.learners.pairs.pair_kernel", raising=False)
    with pytest.raises(PluginError, match=r"needs numba.*pip install 'simkit-cluster\[learn\]'"):
        begin(scenario(table), SMALL, seed=0)
