"""The memory of games in their order: what a decision led to, what is forgotten, and resuming."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simkit.learners.common.trajectories import Rows, Trajectories, joined


def rows(step: int, games: int, known: bool = True) -> Rows:
    """Every number says where it is from: 100 · step + game."""
    here = 100.0 * step + np.arange(games)
    return Rows(
        seen=np.repeat(here[:, None], 2, axis=1).astype(np.float32),
        allowed=np.ones((games, 3), np.bool_),
        actions=np.arange(games) % 3,
        rewards=here,
        passed=np.ones(games),
        over=np.zeros(games, np.bool_),
        known=np.full(games, known),
    )


def test_what_came_is_the_next_row_of_the_same_game():
    memory = Trajectories(rows=4, games=5)
    for step in range(11):
        memory.add(rows(step, 5))
    assert len(memory) == 15
    drawn = memory.draw(500, np.random.default_rng(0))
    torch.testing.assert_close(drawn.after[:, 0], drawn.seen[:, 0] + 100.0)
    torch.testing.assert_close(drawn.rewards, drawn.seen[:, 0])
    # the last 4 steps are remembered, and the last of all has no next one
    steps = torch.div(drawn.seen[:, 0], 100, rounding_mode="floor").unique()
    assert steps.tolist() == [7, 8, 9]


def test_every_decision_is_as_likely():
    memory = Trajectories(rows=5, games=3)
    for step in range(5):
        memory.add(rows(step, 3))
    drawn = memory.draw(12_000, np.random.default_rng(1))
    _, counts = drawn.seen[:, 0].unique(return_counts=True)
    assert len(counts) == 12
    assert counts.min() > 850
    assert counts.max() < 1150


def test_decisions_before_another_game_are_never_drawn():
    memory = Trajectories(rows=6, games=2)
    for step in range(6):
        memory.add(rows(step, 2, known=step != 2))
    drawn = memory.draw(400, np.random.default_rng(2))
    assert 200.0 not in drawn.seen[:, 0]
    assert 201.0 not in drawn.seen[:, 0]


def test_one_game_as_a_whole():
    """Of recorded episodes the last row has no action, and is not drawn but as what came."""
    whole = [vars(rows(step, 1)) for step in range(6)]
    told = Rows(**{name: np.concatenate([each[name] for each in whole]) for name in whole[0]})
    told.known[:] = [True, True, False, True, True, False]
    told.over[4] = True
    told.allowed[5] = False
    memory = Trajectories.of(told)
    drawn = memory.draw(300, np.random.default_rng(3))
    assert drawn.seen[:, 0].unique().tolist() == [0, 100, 300, 400]
    assert drawn.over[drawn.seen[:, 0] == 400].all()
    assert drawn.allowed_after.all()  # where nothing comes a row must allow something


def test_nothing_known_is_refused():
    memory = Trajectories(rows=3, games=1)
    with pytest.raises(ValueError, match="no decision whose outcome is known"):
        memory.draw(1, np.random.default_rng())
    memory.add(rows(0, 1))
    with pytest.raises(ValueError, match="no decision"):
        memory.draw(1, np.random.default_rng())
    memory.add(rows(1, 1, known=False))
    assert len(memory.draw(2, np.random.default_rng()).actions) == 2
    with pytest.raises(ValueError, match="rows is 1"):
        Trajectories(rows=1, games=1)


def test_parts_are_joined_in_order():
    memory = Trajectories(rows=4, games=3)
    for step in range(4):
        memory.add(rows(step, 3))
    rng = np.random.default_rng(5)
    parts = [memory.draw(count, rng) for count in (3, 2)]
    both = joined(parts)
    assert len(both.actions) == 5
    torch.testing.assert_close(both.seen[3:], parts[1].seen)
