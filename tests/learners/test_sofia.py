"""The Sofia learner: its model, its bound on a step, its load, and that it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import SMALLEST, small_training

from simkit.agent.slotted import Slotted
from simkit.learners.lockstep import MeteredLockstep, load
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.sofia import begin, first_of_steps
from simkit.scenario.yaml_document import load_scenario

ROOT = Path(__file__).resolve().parents[2]
UPDATES = ("gradient", "natural", "proximal")
FORMS = SMALLEST["sofia"].forms


def small(seed: int = 0, **arguments: Any) -> Any:
    return small_training("sofia", seed, **arguments)


def test_the_ready_scenario_is_the_studys_model():
    training: Any = begin(load_scenario(ROOT / "scenarios" / "sofia.yaml"), {}, seed=0)
    assert training.model == Slotted(
        (50, 50), slots=10, horizon=60, max_length=45, backlog=None, backlog_shown=60
    )
    weights = training.network.parameters()
    assert sum(array.numel() for array in weights) == 27_851  # as in the study's program


def test_natural_steps_keep_their_bound():
    training = small(update="natural", kl=0.002)
    kls = [training.step()["kl"] for _ in range(10)]
    assert max(kls) <= 0.002
    assert np.mean(kls) > 0.0005  # and are not given up


def test_held_out_sets_are_the_same_for_all_and_not_trained_on():
    one: Any = small(seed=0)
    other: Any = small(seed=7, update="gradient")
    assert (one.unseen_sets.length == other.unseen_sets.length).all()
    drawn = [one.fixed_sets, *(one.draw_job_sets() for _ in range(20))]
    known = {row[row > 0].tobytes() for row in one.unseen_sets.length}
    assert not known & {row[row > 0].tobytes() for sets in drawn for row in sets.length}


def test_the_first_decision_of_each_step():
    rewards = np.array([[0.0, -1], [-2, 0], [0, -1], [-1, 0]])
    assert first_of_steps(rewards).tolist() == [[True, True], [False, True], [True, False], [False, True]]  # fmt: skip


def test_load_is_slots_plus_grid():
    model = Slotted((4,), slots=2, horizon=4, max_length=2, backlog=None)
    sets = JobSets(*(np.array(x) for x in ([[0, 0]], [[2, 2]], [[[4], [4]]])))
    game = MeteredLockstep(model, sets)
    game.meter(2)
    assert load(game.view(), model.capacity) == pytest.approx([1.0])  # two slots of two, grid empty
    for action in (0, 2, 1, 2, 2, 2):  # place; a step; place; steps to the end
        game.step(np.array([action]))
    # 1/2 of slots + 2/4 of the grid; then all is placed: 1 + 2 steps, 2, 1 of four
    loads = [0.5 + 0.5, 0.75, 0.5, 0.25]
    assert game.measured()["load"] == pytest.approx(np.mean(loads))
    assert game.measured()["last_load"] == pytest.approx(loads[1])
    assert game.measured()["last_reward"] == -1.0  # both jobs, two steps long, are in the system
    assert not len(game.active)
