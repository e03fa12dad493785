"""DeepRM's training: the scale of its gradient, its job sets, what it refuses, and it learns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trainings import SMALLEST, deeprm_scenario, small_training, weights

from simkit.errors import ScenarioError
from simkit.learners.common.rollouts import roll_out
from simkit.learners.deeprm import DeepRMTraining
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.job_sources import DeepRMJobs
from simkit.scenario import Scenario
from simkit.training.train import train

SMALL = SMALLEST["deeprm"].arguments


def training(where: Scenario | None = None, **arguments: Any) -> DeepRMTraining:
    return small_training("deeprm", where=where, **arguments)


def test_the_gradient_has_the_scale_of_the_original() -> None:
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


REFUSED = [
    # the agent would be judged on what it learned from
    ({"workload": {"type": "deeprm", "rate": 0.3, "original_set": 3}}, {}, "workload.original_set"),
    # what changes jobs after they are drawn does not reach the lock-step environment
    ({"workload": {"type": "deeprm", "rate": 0.3, "load": 2.0}}, {}, "workload.load"),
    ({"workload": {"type": "poisson", "jobs": 5, "processors": 4, "rate_per_s": 1.0, "mean_run_time_s": 5}}, {}, "workload.type"),
    ({"admission": {}}, {}, "admission"),
    ({"estimates": "user-mean"}, {}, "estimates"),
    ({"cluster": {"machines": [{"count": 2, "cpu": 10, "mem": 10}]}}, {}, "cluster.machines"),
    ({"scheduling": {"step": "2s"}}, {}, "scheduling.step"),
    # more than a job a step
    ({"workload": {"type": "deeprm", "offered_load": 2.0}}, {}, "workload"),
    ({}, {"horizon": 15}, "learn.arguments.horizon"),
    # every advantage would be 0
    ({}, {"rollouts": 1}, "learn.arguments.rollouts"),
    # an agent would be judged, or learn, on nothing
    ({"workload": {"type": "deeprm", "rate": 0.0001}}, {}, "learn.arguments.held_out_sets"),
    ({"workload": {"type": "deeprm", "rate": 0.001}}, {"held_out_sets": 300, "job_sets": 1, "fresh": False}, "learn.arguments.job_sets"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "arguments", "place"), REFUSED)
def test_what_cannot_be_learned_is_refused(
    changes: dict[str, Any], arguments: dict[str, Any], place: str
) -> None:
    with pytest.raises(ScenarioError, match=f"^{place}"):
        training(where=deeprm_scenario(**changes), **arguments)


@pytest.mark.parametrize("demands", ["original", "paper"])
def test_job_sets_have_the_offered_load_and_fit_the_model(demands: str) -> None:
    made = training(
        where=deeprm_scenario(workload={"type": "deeprm", "offered_load": 0.7, "demands": demands})
    )
    sets = made.source.draw(np.random.default_rng(0), 100)
    sets.check_fit(made.model)
    area = (sets.length[..., None] * sets.size).sum(axis=(0, 1)) / made.model.capacity
    assert area / (100 * 49) == pytest.approx([0.7, 0.7], rel=0.1)


def test_the_unseen_sets_are_the_originals() -> None:
    """Padded rows hold what tests/traces/models/test_deeprm.py compares with the original."""
    scenario = deeprm_scenario(workload={"type": "deeprm", "rate": 0.379})
    sets = DeepRMJobs(scenario, "the learner deeprm").held_out(5)
    for number in range(5):
        enter, length, size = scenario.workload.unseen_set(number)
        there = sets.there[number]
        assert sets.enter[number][there].tolist() == enter.tolist()
        assert sets.length[number][there].tolist() == length.tolist()
        assert sets.size[number][there].tolist() == size.tolist()


@pytest.mark.thorough
def test_it_learns() -> None:
    """Thirty short iterations take the agent well away from where it began."""
    made = training(
        job_sets=10, rollouts=10, iterations=40, held_out_sets=20, hidden=20,
        observation="deeprm-compact", optimiser="adam", learning_rate=0.02,
    )  # fmt: skip
    before = made.held_out()["slowdown"]
    for _ in range(40):
        made.step()
    after = made.held_out()
    assert after["unfinished"] == 0
    assert after["slowdown"] < 0.75 * before


@pytest.mark.parametrize("arguments", [{}, *SMALLEST["deeprm"].forms])
def test_an_iteration_without_a_job_changes_nothing(
    arguments: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = training(**arguments)
    made.step()  # after it, Adam moves weights even where the gradient is 0
    before = weights(made)
    monkeypatch.setattr(made, "draw_job_sets", lambda: JobSets.empty(4, 3, 2))
    assert made.step() == {"return": 0.0, "unfinished": 0.0, "decisions": 0.0}
    assert (made.iteration, weights(made)) == (2, before)


def test_more_iterations_later_are_as_all_at_once(tmp_path: Path) -> None:
    plain = deeprm_scenario().model_dump(mode="json")
    arguments = {k: v for k, v in SMALL.items() if k != "iterations"}

    def trained(iterations: int, folder: str) -> Mapping[str, bytes]:
        learn = {"learner": "deeprm", "iterations": iterations, "arguments": arguments}
        done = train(Scenario.model_validate({**plain, "learn": learn}), tmp_path / folder)
        return {file.name: file.read_bytes() for file in done.agent.iterdir()}

    trained(4, "t")
    assert trained(6, "t") == trained(6, "whole")
