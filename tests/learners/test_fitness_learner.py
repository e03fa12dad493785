"""The learner fitness: it begins at a rule, learns, and its agent does what was trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("cma")
pytest.importorskip("numba")
pytest.importorskip("safetensors")

from pair_chunks import short_and_long_jobs
from trainings import bags_scenario, small_training

import simkit
from simkit.learners.agent import load_agent
from simkit.learners.evolution import EvolutionTraining
from simkit.learners.scorers.agent import PairAgent
from simkit.learners.scorers.pair_model import Chunk, play
from simkit.learners.scorers.pair_scorer import RULES, PairScorer
from simkit.learners.scorers.search import mean_cost, ratios
from simkit.scenario import Scenario
from simkit.traces.task_table import read_task_table


def training(where: Scenario | None = None, seed: int = 0, **arguments: Any) -> EvolutionTraining:
    return small_training("fitness", seed, where, **arguments)


def scorer_of(made: EvolutionTraining) -> PairScorer:
    return made.problem.scorer(made.search.mean)


@pytest.mark.parametrize("start", ["balance", "longest"])
def test_it_begins_at_the_rule(start):
    made = training(start=start)
    assert made.held_out()["cost_ratio"] == 1.0
    chunk = made.problem.source.trained[0]
    assert play(chunk, scorer_of(made)).placed == play(chunk, RULES[start]).placed


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_it_learns_from_the_longest_first(seed, tmp_path):
    """The shortest first halves the mean turnaround; of ten blind searches one comes upon it."""
    made = training(
        bags_scenario(short_and_long_jobs(tmp_path / "jobs.csv", 96)), seed, start="longest", iterations=10,
        objective="turnaround", candidates=16, jobs=16, spread=0.3, hidden=0, averaged=5,
        vary_requests=0.0, vary_run_times=0.0,
    )  # fmt: skip
    assert made.held_out()["cost_ratio"] == 1.0
    for _ in range(10):
        made.step()
    assert made.held_out()["cost_ratio"] < 0.75


def test_the_agent_does_what_was_trained(tmp_path):
    made = training()
    made.step()
    made.write_agent(tmp_path / "agent", {"iteration": 1})
    agent = load_agent(tmp_path / "agent")
    assert isinstance(agent, PairAgent)
    assert agent.scorer.flat.tobytes() == scorer_of(made).flat.tobytes()
    policy = {"agent": str(tmp_path / "agent"), "compat": "cloudsimpy"}
    where = bags_scenario(policy=policy, scheduling={"every": "1s"})
    run = simkit.simulate(where)
    workload = read_task_table(where.workload.path, submit="last").workload
    whole = play(Chunk.of(workload, np.array([[8.0, 1.0]] * 3)), scorer_of(made))
    assert run.metrics["cloudsimpy_makespan"]["value"] == whole.makespan


def test_a_makespan_without_an_end_is_bad_but_a_number():
    rule = np.array([10.0, np.inf, np.inf, 8.0])
    spans = np.array([[5.0, np.inf, 3.0, np.inf], [1000.0, np.inf, np.inf, 8.0]])
    assert ratios(spans, rule).tolist() == [[0.5, 1.0, 0.1, 10.0], [10.0, 1.0, 1.0, 1.0]]
    assert mean_cost(spans) == {"unfinished": 4}
    assert mean_cost(spans[:, :1]) == {"unfinished": 0, "cost": 502.5}
