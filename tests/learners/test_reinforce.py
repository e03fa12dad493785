"""REINFORCE: the scale of its gradient, its bound on a step, what it learns from, its recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trainings import small_training

from simkit.agent.slotted import Slotted
from simkit.errors import ScenarioError
from simkit.learners.common.rollouts import roll_out
from simkit.learners.recipes import sofia
from simkit.learners.reinforce import ReinforceTraining
from simkit.scenario.yaml_document import load_scenario

ROOT = Path(__file__).resolve().parents[2]


def training(learner: str, seed: int = 0, **arguments: Any) -> ReinforceTraining:
    return small_training(learner, seed, **arguments)


def test_the_gradient_of_deeprm_has_the_scale_of_the_original():
    """The original: the mean over the decisions of ten job sets, summed over the tens."""
    made = training("deeprm", job_sets=20, objective="completion", fresh=False)
    rollouts = roll_out(made.source.games(made.fixed, 3), made.network, np.random.default_rng(0))
    with torch.inference_mode():
        p = made.network(torch.from_numpy(rollouts.seen)).softmax(dim=1).numpy()
    made._plain(made._batch(rollouts, np.ones(len(rollouts.actions))))
    taken = np.eye(11)[rollouts.actions] - p
    found = -made.network.last.bias.grad.numpy()
    assert found == pytest.approx(taken.sum(axis=0) / (len(taken) / 2), abs=1e-5)


def test_the_ready_scenario_is_the_sofia_studys_model():
    made: Any = sofia(load_scenario(ROOT / "scenarios" / "sofia.yaml"), {}, seed=0)
    assert made.source.layout.model == Slotted(
        (50, 50), slots=10, horizon=60, max_length=45, backlog=None, backlog_shown=60
    )
    weights = made.network.parameters()
    assert sum(array.numel() for array in weights) == 27_851  # as in the study's program


def test_natural_steps_keep_their_bound():
    made = training("sofia", update="natural", kl=0.002)
    kls = [made.step()["kl"] for _ in range(10)]
    assert max(kls) <= 0.002
    assert np.mean(kls) > 0.0005  # and are not given up


def test_held_out_sets_are_the_same_for_all_and_not_trained_on():
    one = training("sofia")
    other = training("sofia", seed=7, update="gradient")
    assert (one.unseen.length == other.unseen.length).all()
    rng = one.generators["job_sets"]
    drawn = [one.fixed, *(one.source.draw(rng, 2) for _ in range(20))]
    known = {row[row > 0].tobytes() for row in one.unseen.length}
    assert not known & {row[row > 0].tobytes() for sets in drawn for row in sets.length}


def test_credit_goes_to_choices_or_to_the_first_decision_of_each_step():
    rows = {}
    for credit in ("all", "choices", "first"):
        made = training("sofia", mask="possible", credit=credit)
        games = made.source.games(made.fixed, 2)
        rollouts = roll_out(games, made.network, np.random.default_rng(0))
        rows[credit] = np.arange(len(rollouts.actions))[made._learned(rollouts)]
    choices = rollouts.allowed[rows["choices"]].sum(axis=1)
    assert choices.min() > 1
    assert len(rows["choices"]) < len(rows["all"]) == len(rollouts.actions)
    times = {(n, t) for n, t in zip(rollouts.episode, rollouts.step, strict=True)}
    first = list(zip(rollouts.episode[rows["first"]], rollouts.step[rows["first"]], strict=True))
    assert set(first) == times
    assert len(first) == len(times)


def test_discounted_returns_are_not_compared_with_means_that_are_not():
    with pytest.raises(ScenarioError, match="means from a time step on are not discounted"):
        small_training("reinforce", baseline="step", discount=0.5)
