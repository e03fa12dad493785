"""Lock-step games as learners play them: a replay sees and earns the same, rewards add up."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.agent.slotted import Slotted
from simkit.learners.common.networks import Perceptron, seeded
from simkit.learners.common.rollouts import roll_out
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.slot_games import ObservedGames, SlotGames
from simkit.learners.lockstep.slot_inputs import SlotInput, slot_input
from simkit.traces.models.deeprm import DeepRMModel

MODEL = Slotted()


def sets(count: int, rate: float = 0.3) -> JobSets:
    drawn = DeepRMModel.of(rate=rate, steps=20).draw_sets(np.random.default_rng(1), count)
    return JobSets(drawn.enter, drawn.length, drawn.size)


def policy(read: SlotInput) -> Perceptron:
    with seeded(np.random.default_rng(2)):
        return read.perceptron(6, MODEL.actions)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("observation", ["deeprm-image", "deeprm-compact", "sofia-shares"])
def test_a_replay_gives_the_same_rewards_and_observations(observation, mask):
    game, read = Lockstep(MODEL, sets(4), 3), slot_input(observation, MODEL)
    games = ObservedGames(game, read.observe, masked=mask)
    kept = roll_out(games, policy(read), np.random.default_rng(0))
    again = Lockstep(MODEL, sets(4), 3)
    for t in range(len(kept.rewards)):
        rows = kept.decision == t
        assert kept.episode[rows].tolist() == again.active.tolist()
        assert np.array_equal(kept.seen[rows], read.observe(again.view()))
        assert np.array_equal(kept.allowed[rows], again.mask() | (not mask))
        expected = np.zeros(12)
        expected[kept.episode[rows]] = again.step(kept.actions[rows])
        assert np.array_equal(kept.rewards[t], expected)
    assert len(again.active) == 0
    assert np.array_equal(np.bincount(kept.episode, minlength=12), again.decisions)
    assert np.array_equal(game.finish, again.finish)


def test_as_a_set_only_what_fits_now_may_be_placed():
    games = SlotGames(Lockstep(MODEL, sets(4), 3))
    while len(games.active):
        assert games.mask()[:, -1].all()
        assert np.array_equal(games.mask()[:, :-1], games.lockstep.earliest() == 0)
        assert games.observe().shape[0] == len(games.active)
        games.step(games.mask().argmax(axis=1))
