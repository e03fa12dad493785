"""Rollouts keep every decision in order, and batches go through all of it."""

from __future__ import annotations

import numpy as np
import torch

from simkit.learners.common.rollouts import Batch, minibatches, roll_out
from simkit.learners.networks.build import ActorCritic, build, seeded
from simkit.learners.networks.shapes import PerceptronShape

SHAPE = PerceptronShape(type="perceptron", layers=(2, 8, 3), activation="relu")


class Countdown:
    """Episode n lasts n decisions, and sees its number and how often it was asked; 1 is masked."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = np.array(lengths)
        self.steps = np.zeros(len(lengths), np.int64)
        self.taken: list[list[int]] = []

    @property
    def active(self):
        return np.flatnonzero(self.steps < self.lengths)

    def observe(self):
        return np.stack((self.active, self.steps[self.active]), axis=1).astype(np.float32)

    def mask(self):
        return np.tile([True, False, True], (len(self.active), 1))

    def step(self, actions):
        active = self.active
        self.taken.append(actions.tolist())
        self.steps[active] += 1
        return -1.0 - active


def network() -> ActorCritic:
    with seeded(np.random.default_rng(0)):
        return ActorCritic(build(SHAPE), hidden=4)


def test_rows_stand_in_order_of_decision_then_episode():
    games = Countdown(1, 3, 2)
    kept = roll_out(games, network(), np.random.default_rng(0))
    assert kept.episode.tolist() == [0, 1, 2, 1, 2, 1]
    assert kept.decision.tolist() == [0, 0, 0, 1, 1, 2]
    assert kept.step.tolist() == kept.decision.tolist()  # here, each decision takes a step
    assert kept.seen.tolist() == [[0, 0], [1, 0], [2, 0], [1, 1], [2, 1], [1, 2]]
    assert kept.rewards.tolist() == [[-1, -2, -3], [0, -2, -3], [0, -2, 0]]
    assert [*kept.actions.tolist()] == [a for actions in games.taken for a in actions]
    assert not (kept.actions == 1).any()


def test_what_is_kept_is_what_the_network_says():
    policy = network()
    kept = roll_out(Countdown(4, 5), policy, np.random.default_rng(0))
    with torch.no_grad():
        logits, values = policy(torch.from_numpy(kept.seen))
    logits[:, 1] = -torch.inf
    said = torch.log_softmax(logits, dim=1).numpy()[np.arange(9), kept.actions]
    assert np.allclose(kept.log_probability, said, atol=1e-6)
    assert np.allclose(kept.value, values.numpy(), atol=1e-6)


def test_a_grid_has_zeros_after_an_episodes_end_and_gives_the_rows_back():
    kept = roll_out(Countdown(1, 3), network(), np.random.default_rng(0))
    grid = kept.grid(np.arange(1, 5))
    assert grid.tolist() == [[1, 2], [0, 3], [0, 4]]
    assert kept.rows(grid).tolist() == [1, 2, 3, 4]


def test_games_that_are_over_have_no_decisions():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    kept = roll_out(Countdown(0, 0), network(), rng)
    assert (kept.rewards.shape, kept.seen.shape, kept.allowed.shape) == ((0, 2), (0, 2), (0, 3))
    assert len(kept.actions) == 0
    assert kept.grid(kept.actions).shape == (0, 2)
    assert rng.bit_generator.state == before


def batch(count: int) -> Batch:
    rows = torch.arange(count)
    return Batch(rows, rows, rows, rows, rows, rows + 100)


def test_minibatches_go_through_everything_once_an_epoch_in_another_order():
    parts = list(minibatches(batch(10), 4, 2, np.random.default_rng(0)))
    assert [len(part) for part in parts] == [4, 4, 2, 4, 4, 2]
    epochs = [
        torch.cat([part.actions for part in some]).tolist() for some in (parts[:3], parts[3:])
    ]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]
    assert all((part.returns == part.actions + 100).all() for part in parts)
