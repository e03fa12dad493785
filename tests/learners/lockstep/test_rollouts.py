"""Rollouts keep every decision in order; returns, baselines and outcomes are calculated from them."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.rollouts import (
    chooser,
    outcome,
    play,
    roll_out,
)
from simkit.learners.nn.input_layers import make_input_layer
from simkit.learners.nn.perceptron import small_weights
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learning.slotted import Slotted
from simkit.traces.models.deeprm import DeepRMModel

MODEL = Slotted()
SMALL = Slotted(slots=2, backlog=0)


def sets(count: int, rate: float = 0.3) -> JobSets:
    drawn = DeepRMModel.of(rate=rate, steps=20).draw_sets(np.random.default_rng(1), count)
    return JobSets(drawn.enter, drawn.length, drawn.size)


def network(observation: str = "deeprm-compact", deviation: float = 0.05) -> PolicyNetwork:
    first, _ = make_input_layer(observation, MODEL)
    sizes = [first.inputs, 6, MODEL.actions]
    return PolicyNetwork(first, small_weights(np.random.default_rng(2), sizes, deviation))


@pytest.mark.parametrize("mask", [False, True])
def test_a_replay_gives_the_same_rewards_and_observations(mask: bool) -> None:
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


def test_a_greedy_policy_draws_nothing() -> None:
    rng, policy = np.random.default_rng(0), network()
    before = rng.bit_generator.state
    game = Lockstep(MODEL, sets(2), 2, limit=60)
    play(game, chooser(policy, game, rng, choose="greedy"))
    assert rng.bit_generator.state == before
    assert np.array_equal(game.start[0], game.start[1])  # two games of a set are equal


def test_sets_without_jobs_have_no_decisions() -> None:
    empty = JobSets.empty(2, 1, 2)
    kept = roll_out(Lockstep(MODEL, empty, 3), network(), np.random.default_rng(0))
    assert (len(kept.actions), kept.rewards.shape) == (0, (0, 6))


def one_set(*jobs: tuple[int, int]) -> JobSets:
    """Return a set of jobs (enter, length) that each take the whole pool."""
    enter, length = np.array([jobs]).transpose(2, 0, 1)
    return JobSets(enter, length, np.full((1, len(jobs), 2), 10))


def test_jobs_that_ended_count_with_their_slowdown() -> None:
    game = Lockstep(SMALL, one_set((3, 2), (3, 4)))
    for action in (0, 1, *[SMALL.slots] * 6):  # one after the other, from step 3 on
        game.step([action])
    found = outcome(game)
    assert found["slowdown"] == (2 / 2 + 6 / 4) / 2
    assert found["turnaround_steps"] == (2 + 6) / 2
    assert (found["jobs"], found["unfinished"], found["decisions"]) == (2, 0, 8)


def test_an_unfinished_job_counts_up_to_the_end_of_its_episode() -> None:
    game = Lockstep(SMALL, one_set((0, 2), (0, 4)), limit=10)
    for action in (0, *[SMALL.slots] * 9):  # the second job is never placed; 9 steps pass
        game.step([action])
    found = outcome(game)
    assert found["unfinished"] == 1
    assert found["slowdown"] == (2 / 2 + 9 / 4) / 2


def test_a_job_that_would_end_after_the_limit_is_unfinished() -> None:
    game = Lockstep(SMALL, one_set((0, 5)), limit=2)
    for action in (0, SMALL.slots):
        game.step([action])
    assert outcome(game)["unfinished"] == 1
    assert outcome(game)["slowdown"] == 1  # no slowdown can be less


def test_a_rejected_job_is_unfinished() -> None:
    """Two slots and no backlog: the third job that comes at once finds no place."""
    game = Lockstep(SMALL, one_set((0, 1), (0, 1), (0, 1)))
    for action in (0, 1, SMALL.slots, SMALL.slots):
        game.step([action])
    found = outcome(game)
    assert (found["unfinished"], found["slowdown"]) == (1, pytest.approx((1 + 2 + 2) / 3))


def test_the_mean_of_sets_leaves_out_those_without_jobs() -> None:
    sets = JobSets(
        np.array([[0, 0], [0, 0], [0, 0]]),
        np.array([[1, 1], [0, 0], [1, 0]]),
        np.full((3, 2, 2), 10),
    )
    game = Lockstep(SMALL, sets)
    game.step([0, 0])
    game.step([1, SMALL.slots])
    while len(game.active):
        game.step([SMALL.slots])
    found = outcome(game)
    assert found["slowdown"] == pytest.approx((1 + 2 + 1) / 3)
    assert found["slowdown_of_sets"] == pytest.approx((1.5 + 1) / 2)
