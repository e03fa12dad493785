"""PPO over numbered slots: its agent decides as its network, loads are weighted, it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from trainings import deeprm_scenario, small_training

from simkit import load_scenario
from simkit.errors import ScenarioError
from simkit.learners.common.rollouts import roll_out
from simkit.learners.ppo import PPOTraining, begin
from simkit.scenario import Scenario
from simkit.training.evaluate import Candidate, evaluate

CROWDED = {"workload": {"type": "deeprm", "offered_load": 1.3, "steps": 15}}
"""So many jobs that it matters which one begins."""


def training(where: Scenario | None = None, **arguments: Any) -> PPOTraining:
    return small_training("ppo", where=where, **arguments)


def test_an_agent_that_places_ahead_runs_as_in_its_training(tmp_path):
    made = training(starts="ahead")
    made.step()
    made.write_agent(tmp_path / "agent", {"slowdown": 2.5})
    games = made.source.games(made.unseen)
    while len(games.active):
        mask = games.mask()
        assert (mask[:, -1] != mask[:, :-1].any(axis=1)).all()
        with torch.inference_mode():
            logits = made.network.actor(torch.from_numpy(games.observe())).numpy()
        games.step(np.where(mask, logits, -np.inf).argmax(axis=1))
    greedy = {"agent": str(tmp_path / "agent"), "args": {"choose": "greedy"}}
    found = evaluate(deeprm_scenario(), [Candidate("agent", greedy)], sets=3, workers=1)
    assert found.candidates[0].pooled_mean == pytest.approx(games.outcome()["slowdown"])


def test_a_load_counts_by_its_weight_in_the_gain():
    equal, weighted = training(loads=[0.3, 1.3]), training(loads=[0.3, 1.3], weights=[3, 1])
    parts = []
    for made in (equal, weighted):
        sets = made.source.draw(np.random.default_rng(0), 4)
        games = made.source.games(sets, made.chosen.rollouts)
        rollouts = roll_out(games, made.network, np.random.default_rng(0))
        parts.append(made._batch(rollouts, *made._advantages(rollouts)))
    ratio = (parts[1].advantage / parts[0].advantage).numpy()
    assert set(ratio[np.isfinite(ratio)].round(4)) == {0.5, 1.5}


def test_a_missing_argument_of_actions_is_told_by_the_learners_own_key():
    scenario = load_scenario("quickstart")
    with pytest.raises(ScenarioError, match="learn.arguments.step: is missing"):
        begin(scenario, {"actions": "classes"}, seed=0)
