"""DeepRM's training: the scale of its gradient, its job sets, what it refuses, and it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from trainings import deeprm_scenario, small_training

from simkit.learners.common.rollouts import roll_out
from simkit.learners.deeprm import DeepRMTraining
from simkit.learners.lockstep.job_sources import DeepRMJobs
from simkit.scenario import Scenario


def training(where: Scenario | None = None, **arguments: Any) -> DeepRMTraining:
    return small_training("deeprm", where=where, **arguments)


def test_the_gradient_has_the_scale_of_the_original():
    """The original: the mean over the decisions of ten job sets, summed over the tens."""
    made = training(job_sets=20, objective="completion", fresh=False)
    games = made._games(made.fixed_sets, 3)
    rollouts = roll_out(games, made.network, np.random.default_rng(0))
    advantage = np.ones(len(rollouts.actions))
    made._add_gradient(made._batch(rollouts, advantage, advantage))
    with torch.inference_mode():
        p = made.network(torch.from_numpy(rollouts.seen)).softmax(dim=1).numpy()
    taken = np.eye(11)[rollouts.actions] - p
    found = -made.network.last.bias.grad.numpy()
    assert found == pytest.approx(taken.sum(axis=0) / (len(taken) / 2), abs=1e-5)


@pytest.mark.parametrize("demands", ["original", "paper"])
def test_job_sets_have_the_offered_load_and_fit_the_model(demands):
    made = training(
        where=deeprm_scenario(workload={"type": "deeprm", "offered_load": 0.7, "demands": demands})
    )
    sets = made.source.draw(np.random.default_rng(0), 100)
    sets.check_fit(made.model)
    area = (sets.length[..., None] * sets.size).sum(axis=(0, 1)) / made.model.capacity
    assert area / (100 * 49) == pytest.approx([0.7, 0.7], rel=0.1)


def test_the_unseen_sets_are_the_originals():
    """Padded rows hold what tests/traces/models/test_deeprm.py compares with the original."""
    scenario = deeprm_scenario(workload={"type": "deeprm", "rate": 0.379})
    sets = DeepRMJobs(scenario, "the learner deeprm").held_out(5)
    for number in range(5):
        enter, length, size = scenario.workload.unseen_set(number)
        there = sets.there[number]
        assert sets.enter[number][there].tolist() == enter.tolist()
        assert sets.length[number][there].tolist() == length.tolist()
        assert sets.size[number][there].tolist() == size.tolist()
