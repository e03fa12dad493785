"""Lock-step games as learners play them: a replay sees and earns the same, rewards add up."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.agent.observe_slots import SLOT_ENCODERS
from simkit.agent.slotted import Slotted
from simkit.learners.common.rollouts import roll_out
from simkit.learners.games.job_sets import NumberedSlots
from simkit.learners.lockstep import Lockstep, MeteredLockstep, load
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.slot_games import SlotGames, observer
from simkit.learners.networks.build import Network, build, seeded
from simkit.traces.models.deeprm import DeepRMModel

MODEL = Slotted()


def sets(count: int, rate: float = 0.3) -> JobSets:
    drawn = DeepRMModel.of(rate=rate, steps=20).draw_sets(np.random.default_rng(1), count)
    return JobSets(drawn.enter, drawn.length, drawn.size)


def policy(layout: NumberedSlots) -> Network:
    with seeded(np.random.default_rng(2)):
        return build(layout.scorer(6))


@pytest.mark.parametrize("mask", ["none", "possible"])
@pytest.mark.parametrize("observation", SLOT_ENCODERS)
def test_a_replay_gives_the_same_rewards_and_observations(observation, mask):
    layout, observe = NumberedSlots(MODEL, mask, observation), observer(observation, MODEL)
    games = layout.games(sets(4), 3, "slowdown", 10_000)
    game = games.lockstep
    kept = roll_out(games, policy(layout), np.random.default_rng(0))
    again = Lockstep(MODEL, sets(4), 3)
    for t in range(len(kept.rewards)):
        rows = kept.decision == t
        assert kept.episode[rows].tolist() == again.active.tolist()
        assert np.array_equal(kept.seen[rows], observe(again))
        assert np.array_equal(kept.allowed[rows], again.mask() | (mask == "none"))
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


def test_load_is_slots_plus_grid():
    model = Slotted((4,), slots=2, horizon=4, max_length=2, backlog=None)
    few = JobSets(*(np.array(x) for x in ([[0, 0]], [[2, 2]], [[[4], [4]]])))
    game = MeteredLockstep(model, few)
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
