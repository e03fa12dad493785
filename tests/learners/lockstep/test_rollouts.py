"""Rollouts keep every decision, in order, with what was seen, drawn and earned."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.rollouts import chooser, play, roll_out
from simkit.learners.nn.input_layers import make_input_layer
from simkit.learners.nn.perceptron import small_weights
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learning.slotted import Slotted
from simkit.traces.models.deeprm import DeepRMModel

MODEL = Slotted()


def sets(count: int, rate: float = 0.3) -> JobSets:
    drawn = DeepRMModel.of(rate=rate, steps=20).draw_sets(np.random.default_rng(1), count)
    return JobSets(drawn.enter, drawn.length, drawn.size)


def network(observation: str = "deeprm-compact", deviation: float = 0.05) -> PolicyNetwork:
    first, _ = make_input_layer(observation, MODEL)
    sizes = [first.inputs, 6, MODEL.actions]
    return PolicyNetwork(first, small_weights(np.random.default_rng(2), sizes, deviation))


@pytest.mark.parametrize("mask", [False, True])
def test_what_is_kept_replays_to_the_same_rewards_and_observations(mask: bool) -> None:
    game, policy = Lockstep(MODEL, sets(4), 3), network()
    kept = roll_out(game, policy, np.random.default_rng(0), mask=mask)
    again = Lockstep(MODEL, sets(4), 3)
    for t in range(len(kept.rewards)):
        rows = kept.decision == t
        assert kept.episode[rows].tolist() == again.active.tolist()
        assert np.array_equal(kept.stored[rows], policy.first.stored(again.view()))
        if mask:
            assert np.array_equal(np.isfinite(kept.log_probabilities[rows]), again.mask())
        expected = np.zeros(12)
        expected[kept.episode[rows]] = again.step(kept.actions[rows])
        assert np.array_equal(kept.rewards[t], expected)
    assert len(again.active) == 0
    assert np.array_equal(np.bincount(kept.episode, minlength=12), again.decisions)
    assert np.array_equal(game.finish, again.finish)


def test_rewards_add_up_to_the_slowdowns() -> None:
    game = Lockstep(MODEL, sets(4), 3)
    kept = roll_out(game, network(), np.random.default_rng(0))
    job_sets, n = game.job_sets, np.arange(12) // 3
    slow = (game.finish - job_sets.enter[n]) / np.maximum(job_sets.length[n], 1)
    total = np.where(job_sets.there[n], slow, 0).sum(axis=1)
    assert kept.rewards.sum(axis=0) == pytest.approx(-total)


def test_playing_draws_as_rolling_out_does() -> None:
    policy = network("deeprm-image")
    one, other = Lockstep(MODEL, sets(4), 2), Lockstep(MODEL, sets(4), 2)
    kept = roll_out(one, policy, np.random.default_rng(7))
    total = play(other, chooser(policy, other, np.random.default_rng(7)))
    assert np.array_equal(one.start, other.start)
    assert total == pytest.approx(kept.rewards.sum(axis=0))


def test_a_policy_of_the_likeliest_action_draws_nothing() -> None:
    rng, policy = np.random.default_rng(0), network()
    before = rng.bit_generator.state
    game = Lockstep(MODEL, sets(2), 2, limit=60)
    play(game, chooser(policy, game, rng, choose="greedy"))
    assert rng.bit_generator.state == before
    assert np.array_equal(game.start[0], game.start[1])  # two games of a set go alike


def test_sets_without_jobs_have_no_decisions() -> None:
    empty = JobSets.empty(2, 1, 2)
    kept = roll_out(Lockstep(MODEL, empty, 3), network(), np.random.default_rng(0))
    assert (len(kept.actions), kept.rewards.shape) == (0, (0, 6))
