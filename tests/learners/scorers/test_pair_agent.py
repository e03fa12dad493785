"""Agents of machine–task pairs: bundles, both ways to choose, own rules and CloudSimPy's."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")

from simkit import simulate
from simkit.errors import RunError, ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.common.bundle import hash_bundle, write_bundle
from simkit.learners.scorers.agent import PairAgent, describe_pairs
from simkit.learners.scorers.pair_model import Chunk, play
from simkit.learners.scorers.pair_scorer import RULES, PairScorer
from simkit.learners.scorers.policies import ScorerFitness, compiled_scores
from simkit.policy.pairs import MachineTaskPairs, TaskColumns
from simkit.policy.task import Task
from simkit.traces.task_table import read_task_table

ROWS = [
    # job, submit, run, instances, cpu, mem
    (1, 0, 7.5, 9, 1.0, 0.10),
    (1, 0, 1.0, 5, 0.5, 0.30),
    (2, 3, 20.0, 4, 2.0, 0.05),
    (3, 3, 4.25, 12, 1.5, 0.20),
    (4, 9, 2.0, 7, 3.0, 0.15),
]


def drawn(features: str, seed: int) -> PairScorer:
    """Return a scorer with weights that are drawn."""
    blank = PairScorer.of_paper() if features == "paper" else PairScorer.by_terms({}, hidden=(4,))
    return blank.with_flat(np.random.default_rng(seed).normal(0.0, 0.5, len(blank.flat)))


def bundle(folder: Path, scorer: PairScorer) -> Path:
    """Write an agent."""
    weights = {name: array.astype(np.float32) for name, array in scorer.weights.items()}
    write_bundle(folder, weights, describe_pairs(scorer, ("cpu", "mem")))
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    header = "job_id,task_id,submit_time,duration,instances_num,cpu,memory"
    lines = [
        f"{job},{task},{submit},{run},{count},{cpu},{mem}"
        for task, (job, submit, run, count, cpu, mem) in enumerate(ROWS)
    ]
    (tmp_path / "jobs.csv").write_text("\n".join([header, *lines, ""]))
    return tmp_path / "jobs.csv"


def scenario(table: Path, policy: dict[str, Any], machines: int = 3) -> dict[str, Any]:
    made: dict[str, Any] = {
        "workload": {"type": "tasks", "path": str(table), "submit": "last"},
        "cluster": {"machines": [{"count": machines, "cpu": 4, "mem": 1}]},
        "policy": policy,
        "estimates": "actual",
    }
    return {**made, "scheduling": {"every": "1s"}} if "compat" in policy else made


def chunk(table: Path, machines: int = 3) -> Chunk:
    workload = read_task_table(table, submit="last").workload
    return Chunk.of(workload, np.array([[4.0, 1.0]] * machines))


def placements(run: Any) -> list[tuple[float, int, int]]:
    """Return (start, task, machine) of every instance."""
    rows = run.allocations.select("start_time_s", "task_id", "machine_id", "count").rows()
    return sorted((start, task, machine) for start, task, machine, n in rows for _ in range(n))


@pytest.mark.parametrize("features", [pytest.param("paper", marks=pytest.mark.thorough), "terms"])
def test_the_fast_model_and_the_agent_place_alike(features, table, tmp_path):
    pytest.importorskip("numba")
    scorer = drawn(features, 3)
    agent = str(bundle(tmp_path / "agent", scorer))
    found = simulate(scenario(table, {"agent": agent, "compat": "cloudsimpy"}))
    expected = play(chunk(table), scorer)
    assert placements(found) == sorted(
        (tick, task, machine) for tick, task, machine, n in expected.placed for _ in range(n)
    )
    assert found.metrics["cloudsimpy_makespan"]["value"] == expected.makespan


@pytest.mark.parametrize("hidden", [(), (4,), (5, 3)])
@pytest.mark.parametrize("plain", [True, False])
def test_compiled_scores_are_those_of_numpy(hidden, plain):
    pytest.importorskip("numba")
    rng = np.random.default_rng(len(hidden))
    blank = PairScorer.by_terms({}, hidden)
    scorer = blank.with_flat(rng.normal(size=len(blank.flat)))
    if not plain:
        scorer = replace(scorer, shift=rng.normal(size=16), scale=rng.uniform(0.5, 2.0, 16))
    tasks = [
        Task(t, t, 0.0, (float(rng.choice([0.5, 2.0])), 0.1), int(rng.integers(1, 90)), False, run)
        for t, run in enumerate(rng.choice([0.5, 1.0, 7.5, 900.0], 40).tolist())
    ]
    task, machine = rng.integers(0, 40, 300), rng.integers(0, 3, 300)
    capacity = np.array([[4.0, 1.0], [8.0, 1.0], [4.0, 0.0]])
    free = capacity[machine] * rng.choice([0.25, 0.5, 1.0], (300, 1))
    pairs = MachineTaskPairs(TaskColumns(tasks, 2), task, machine, free, capacity[machine])
    fitness = ScorerFitness(scorer)
    for work in ([30.0, 90.0], [0.0, 0.0], [0.25, 0.0]):
        fitness.weigh(np.array(work), 900.0, np.array([16.0, 2.0]))
        by_numpy = fitness.scores(pairs)
        compiled = compiled_scores(scorer)
        assert compiled is not None
        found = compiled.scores(pairs, np.array(work), 900.0, np.array([16.0, 2.0]))
        # NumPy's logarithm may differ from the C library's in the last bit.
        assert found == pytest.approx(by_numpy, rel=1e-13, abs=1e-13)


def busy(table: Path, agent: Path, machines: int, seed: int) -> dict[str, Any]:
    """Return a scenario of many bags on machines that fail; few are admitted at a time."""
    rng = np.random.default_rng(seed)
    lines = ["job_id,task_id,submit_time,duration,instances_num,cpu,memory"]
    for job in range(30):
        for task in range(int(rng.integers(1, 4))):
            run_s, count = rng.choice([1.0, 4.5, 30.0]), rng.integers(1, 3 * machines)
            cpu, mem = rng.choice([0.5, 1.0, 2.0]), rng.choice([0.05, 0.2, 0.5])
            lines.append(f"{job},{task},{job // 4},{run_s},{count},{cpu},{mem}")
    table.write_text("\n".join([*lines, ""]))
    made = scenario(table, {"agent": str(agent)}, machines)
    made["admission"] = {"slots": 6, "refill": "at_once" if seed % 2 else "next_decision"}
    made["cluster"]["failures"] = {"mtbf": "200s", "mttr": "10s", "running": "requeue"}
    return {**made, "seed": seed}


@pytest.mark.parametrize("hidden", [pytest.param((), marks=pytest.mark.thorough), (4,)])
@pytest.mark.parametrize("machines", [3, pytest.param(70, marks=pytest.mark.thorough)])
def test_a_long_run_with_compiled_scores_is_the_same(
    hidden, machines, table, tmp_path,
    monkeypatch):  # fmt: skip
    pytest.importorskip("numba")
    blank = PairScorer.by_terms({}, hidden)
    scorer = blank.with_flat(np.random.default_rng(1).normal(0.0, 0.5, len(blank.flat)))
    agent, planned = bundle(tmp_path / "agent", scorer), []
    place_all = ScorerFitness.place_all

    def counted(self: ScorerFitness, *arguments: Any) -> Any:
        found = place_all(self, *arguments)
        planned.append(found is not None)
        return found

    for seed in (1, 2):
        run = busy(table, agent, machines, seed)
        monkeypatch.setattr("simkit.learners.scorers.policies._MANY", 2**60)
        slow = simulate(run)
        monkeypatch.setattr("simkit.learners.scorers.policies._MANY", 0)
        monkeypatch.setattr(ScorerFitness, "place_all", counted)
        fast = simulate(run)
        assert slow.metrics["instance_wait_time_s"]["max"] > 0
        assert fast.digest == slow.digest
    assert any(planned) == (not hidden)


@pytest.mark.thorough
def test_a_compiled_agent_can_be_copied(table, tmp_path, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr("simkit.learners.scorers.policies._MANY", 0)
    folder = bundle(tmp_path / "agent", RULES["balance"])
    agent = load_agent(folder)
    run = scenario(table, {"agent": str(folder)})
    first = simulate(run, policy=agent)
    assert agent._policy.fitness._compiled is not None
    for copied in (deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert simulate(run, policy=copied).digest == first.digest


class Forgetful:
    """Asks an agent at some decisions only."""

    def __init__(self, agent: PairAgent) -> None:
        self.agent = agent

    def reset(self, info: Any, rng: np.random.Generator) -> None:
        self.rng = rng
        self.agent.reset(info, rng)

    def schedule(self, state: Any) -> Any:
        return self.agent.schedule(state) if self.rng.random() < 0.7 else ()


@pytest.mark.thorough
def test_decisions_that_an_agent_was_not_asked_about(table, tmp_path, monkeypatch):
    pytest.importorskip("numba")
    folder = bundle(tmp_path / "agent", RULES["balance"])
    digests = set()
    for many in (0, 2**60):
        monkeypatch.setattr("simkit.learners.scorers.policies._MANY", many)
        run = busy(table, folder, 3, 4)
        agent = load_agent(folder)
        assert isinstance(agent, PairAgent)
        digests.add(simulate(run, policy=Forgetful(agent)).digest)
    assert len(digests) == 1


def test_what_does_not_fit_is_refused(table, tmp_path):
    folder = bundle(tmp_path / "agent", drawn("paper", 0))
    with pytest.raises(ScenarioError, match="does not take patience, but choose and compat"):
        load_agent(folder, patience=3)
    other = scenario(table, {"agent": str(folder)})
    other["cluster"] = {"machines": [{"cpu": 4, "mem": 1, "gpu": 1}]}
    with pytest.raises(ScenarioError, match="in its training they were cpu, mem"):
        simulate(other)
    with pytest.raises(ScenarioError, match="does not take compat, but choose and patience"):
        simulate(scenario(table, {"agent": "deeprm-70", "compat": "cloudsimpy"}))
    apart = scenario(table, {"agent": str(folder), "args": {"choose": "sample"}})
    groups = [{"name": name, "cpu": 4, "mem": 1} for name in "ab"]
    apart["cluster"] = {"machines": groups, "partitions": [{"name": "p", "machines": ["a"]}]}
    with pytest.raises(ScenarioError, match="a partition has only some"):
        simulate(apart)
    path = folder / "agent.json"
    stated = json.loads(path.read_text())
    stated["architecture"]["layers"] = [6, 3, 1]
    path.write_text(json.dumps(stated))
    hash_bundle(folder)
    with pytest.raises(RunError, match=r"the weights are not .* but should be"):
        load_agent(folder)
