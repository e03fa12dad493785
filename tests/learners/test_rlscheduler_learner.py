"""The learner rlscheduler: its windows and logs, what it refuses, and that it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import pool_scenario, small_training

import simkit
from simkit.errors import ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.evolution import EvolutionTraining
from simkit.learners.scorers.agent import JobAgent
from simkit.learners.scorers.job_model import Rule, simulate
from simkit.learners.scorers.sources import WindowSource
from simkit.scenario import Scenario


def training(where: Scenario | None = None, **arguments: Any) -> EvolutionTraining:
    return small_training("rlscheduler", where=where, **arguments)


@pytest.mark.parametrize(
    "backfill",
    ["easy", *(pytest.param(name, marks=pytest.mark.thorough)
               for name in ("rlscheduler", "rlscheduler-none"))],
)  # fmt: skip
def test_the_agent_does_what_was_trained(backfill, tmp_path):
    made = training(hidden=2, backfill=backfill)
    made.step()
    made.write_agent(tmp_path / "agent", {"iteration": 1})
    agent = load_agent(tmp_path / "agent", pool_scenario())
    assert isinstance(agent, JobAgent)
    assert agent.scorer.flat.tobytes() == made.problem.scorer(made.search.mean).flat.tobytes()
    run = simkit.simulate(pool_scenario(policy={"agent": str(tmp_path / "agent")}))
    (jobs,) = made.problem.source.logs
    starts = simulate(jobs, made.problem.scorer(made.search.mean), visible=128, backfill=backfill)
    assert sorted(run.jobs["start_time_s"].to_list()) == sorted(starts.tolist())


def test_the_rule_beside_it_is_of_the_same_semantics():
    made = training(backfill="rlscheduler-none")
    window = made.problem.unseen[0]
    starts = simulate(window, Rule.saf_p(window), backfill="rlscheduler-none")
    assert made.problem.source.slowdown(window) == window.bounded_slowdown(starts)


def further_log(tmp_path: Path) -> dict[str, Any]:
    rows = [
        f"{i + 1} {10 * i} -1 {20 + i % 50} 4 -1 -1 4 {60 + i % 7} -1 1 1 1 1 1 1 -1 -1"
        for i in range(400)
    ]
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n", "utf-8")
    return {"path": str(path), "processors": 8, "first": 50, "last": 349}


def test_several_logs(tmp_path):
    further = further_log(tmp_path)
    made = training(logs=[further], held_out=0)
    assert [(len(log), log.size) for log in made.problem.source.logs] == [(600, 32), (300, 8)]
    assert made.held_out() == {}
    sizes = [window.size for window in made.problem.source.draw(np.random.default_rng(0), 4)]
    assert sizes == [32, 8, 32, 8]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"first": 350}, "first"),  # after the last
        ({"last": 400}, "last"),  # beyond the log
        ({"first": 400, "last": None}, "first"),
        ({"processors": 3}, "processors"),  # a job asks for 4
        ({"last": 99}, "logs.1"),  # shorter than a window
    ],
)
def test_further_logs_are_named(changes, key, tmp_path):
    further = further_log(tmp_path)
    with pytest.raises(ScenarioError, match=rf"^learn.arguments.logs.1(\.{key})?: ") as caught:
        training(logs=[further, {**further, **changes}])
    assert len(caught.value.problems) == 1


def test_a_damaged_log_is_named(tmp_path):
    further = further_log(tmp_path)
    Path(further["path"]).write_text("1 2 x\n", "utf-8")
    with pytest.raises(ScenarioError, match=r"^learn.arguments.logs.0: .*log.swf"):
        training(logs=[further])


def test_what_is_held_out_is_not_drawn():
    source = training().problem.source
    cut = source.logs[0].submit_s[480]
    drawn = source.draw(np.random.default_rng(0), 50)
    assert max(window.submit_s[-1] for window in drawn) < cut
    assert min(window.submit_s[0] for window in source.held_out(3)) >= cut


def test_windows_in_which_few_wait_are_passed_over():
    jobs = training().problem.source.logs[0]
    source = WindowSource([jobs], (50, 50), 0.2, lambda window: float(window.submit_s[0]), 1e5)
    assert all(w.submit_s[0] >= 1e5 for w in source.draw(np.random.default_rng(0), 20))
