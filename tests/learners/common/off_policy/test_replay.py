"""Replay memories: what they hold, how often it is drawn, and transitions over n decisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simkit.learners.common.off_policy.action_values import follow, target_of
from simkit.learners.common.off_policy.actor_and_critics import Transitions
from simkit.learners.common.off_policy.replay import (
    Columns,
    NSteps,
    PrioritisedReplay,
    Replay,
    Trajectories,
)
from simkit.learners.networks.build import build
from simkit.learners.networks.optimisers import linear
from simkit.learners.networks.shapes import PerceptronShape


def filled(memory: Replay, rows: int) -> Replay:
    for n in range(rows):
        memory.add({"seen": [n, 2.0 * n], "action": n})
    return memory


def test_a_full_memory_forgets_its_oldest_rows():
    memory = filled(Replay(4), 6)
    drawn = memory.draw(200, np.random.default_rng(0))
    assert set(drawn.columns["action"].tolist()) == {2, 3, 4, 5}
    assert (drawn.columns["seen"][:, 1] == 2 * drawn.columns["action"]).all()
    assert (drawn.weights == 1).all()


@pytest.mark.parametrize("kind", [Replay, PrioritisedReplay])
def test_many_rows_at_once_are_as_one_after_another(kind):
    one, many = filled(kind(4), 7), kind(4)
    for first, last in ((0, 2), (2, 7)):  # the second part alone is more than the memory holds
        rows = np.arange(first, last)
        many.extend({"seen": np.stack((rows, 2.0 * rows), axis=1), "action": rows})
    for name, column in one.state().items():
        assert np.array_equal(many.state()[name], column), name


def test_an_empty_memory_has_nothing_to_draw():
    for memory in (Replay(3), PrioritisedReplay(3)):
        with pytest.raises(ValueError, match="empty"):
            memory.draw(1, np.random.default_rng(0))


def test_rows_of_other_columns_are_refused():
    with pytest.raises(ValueError, match=r"the rows have \['action'\]"):
        filled(Replay(3), 1).add({"action": 1})


def test_rows_are_drawn_by_their_errors_and_count_for_less():
    memory = filled(PrioritisedReplay(3, alpha=1.0, beta=1.0), 3)
    memory.correct(np.arange(3), np.array([1.0, -3.0, 0.0]))
    drawn = memory.draw(40_000, np.random.default_rng(0))
    shares = np.bincount(drawn.rows, minlength=3) / 40_000
    assert shares == pytest.approx([0.25, 0.75, 0], abs=1e-4)
    # (n P)^-1 over the largest of them: the mean over the draws of anything is then that over rows
    assert drawn.weights[drawn.rows == 1] == pytest.approx(1 / 3, abs=1e-5)
    assert drawn.weights[drawn.rows == 0] == pytest.approx(1.0)


def test_without_alpha_priorities_do_not_matter():
    memory = filled(PrioritisedReplay(3, alpha=0.0), 3)
    memory.correct(np.arange(3), np.array([1.0, 30.0, 0.0]))
    drawn = memory.draw(3_000, np.random.default_rng(0))
    assert np.bincount(drawn.rows).tolist() == [1_000] * 3
    assert (drawn.weights == 1).all()


@pytest.mark.parametrize("kind", [Replay, PrioritisedReplay])
def test_what_was_saved_goes_on_as_if_nothing_had_happened(kind):
    one, other = filled(kind(4), 6), kind(4)
    other.restore(one.state())
    filled(one, 1)
    filled(other, 1)
    ours, theirs = (memory.draw(9, np.random.default_rng(3)) for memory in (one, other))
    assert ours.rows.tolist() == theirs.rows.tolist()
    assert ours.columns["seen"].tolist() == theirs.columns["seen"].tolist()


def test_over_n_decisions_by_hand():
    steps = NSteps(2, 0.5)
    assert steps.add(0, 7, 1.0, 1, over=False) == []
    assert steps.add(1, 8, 2.0, 2, over=False) == [
        {"seen": 0, "action": 7, "reward": 2.0, "discount": 0.25, "after": 2}
    ]
    assert steps.add(2, 9, 4.0, 3, over=True) == [
        {"seen": 1, "action": 8, "reward": 4.0, "discount": 0.0, "after": 3},
        {"seen": 2, "action": 9, "reward": 4.0, "discount": 0.0, "after": 3},
    ]
    assert steps.add(5, 1, 1.0, 6, over=False) == []  # the next episode


def test_what_a_column_cannot_hold_is_refused():
    memory = Replay(3)
    memory.add({"reward": 0})
    with pytest.raises(ValueError, match="reward is float64, but int64"):
        memory.add({"reward": -0.5})
    assert len(memory) == 1


@pytest.mark.parametrize("make", [lambda: Replay(0), lambda: NSteps(0, 0.9)])
def test_numbers_below_one_are_refused(make):
    with pytest.raises(ValueError, match="is 0; it must be at least 1"):
        make()


def test_a_target_follows_and_learns_nothing_by_itself():
    network = build(PerceptronShape(type="perceptron", layers=(2, 3, 1), activation="relu"))
    target = target_of(network)
    seen = torch.ones(1, 2)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 1
    follow(target, network, 0.25)
    assert not target(seen).requires_grad
    behind = [n - t for n, t in zip(network.parameters(), target.parameters(), strict=True)]
    assert all(torch.allclose(each, torch.full_like(each, 0.75)) for each in behind)
    follow(target, network)
    assert torch.equal(target(seen), network(seen))


@pytest.mark.parametrize(("done", "expected"), [(-1, 4), (0, 4), (0.25, 3.5), (1, 2), (7, 2)])
def test_a_straight_line(done, expected):
    assert linear(4, 2, done) == expected


def test_a_random_action_ends_what_is_summed_up_before_it():
    steps = NSteps(3, 0.5)
    assert steps.add([0], 1, 1.0, [1], over=False) == []
    assert steps.add([1], 2, 4.0, [2], over=False) == []
    first, second = steps.cut([2])
    assert (first["seen"], first["reward"], first["after"], first["discount"]) == (
        [0],
        3.0,
        [2],
        0.25,
    )
    assert (second["seen"], second["reward"], second["after"]) == ([1], 4.0, [2])
    assert steps.cut([2]) == []
    assert steps.add([2], 3, 8.0, [3], over=True)[0]["reward"] == 8.0


# --- games in their order


def rows(step: int, games: int, known: bool = True) -> Columns:
    """Every number says where it is from: 100 · step + game."""
    here = 100.0 * step + np.arange(games)
    return {
        "seen": np.repeat(here[:, None], 2, axis=1).astype(np.float32),
        "allowed": np.ones((games, 3), np.bool_),
        "actions": np.arange(games) % 3,
        "rewards": here,
        "passed": np.ones(games),
        "over": np.zeros(games, np.bool_),
        "known": np.full(games, known),
    }


def draw(memory: Trajectories, count: int, seed: int) -> Transitions:
    return Transitions.of([memory.draw(count, np.random.default_rng(seed)).columns])


def test_what_came_is_the_next_row_of_the_same_game():
    memory = Trajectories(rows=4)
    for step in range(11):
        memory.add(rows(step, 5))
    assert len(memory) == 4
    drawn = draw(memory, 500, 0)
    torch.testing.assert_close(drawn.after[:, 0], drawn.seen[:, 0] + 100.0)
    torch.testing.assert_close(drawn.rewards, drawn.seen[:, 0])
    # the last 4 steps are remembered, and the last of all has no next one
    steps = torch.div(drawn.seen[:, 0], 100, rounding_mode="floor").unique()
    assert steps.tolist() == [7, 8, 9]


def test_every_decision_is_as_likely():
    memory = Trajectories(rows=5)
    for step in range(5):
        memory.add(rows(step, 3))
    drawn = draw(memory, 12_000, 1)
    _, counts = drawn.seen[:, 0].unique(return_counts=True)
    assert len(counts) == 12
    assert counts.min() > 850
    assert counts.max() < 1150


def test_decisions_before_another_game_are_never_drawn():
    memory = Trajectories(rows=6)
    for step in range(6):
        memory.add(rows(step, 2, known=step != 2))
    drawn = draw(memory, 400, 2)
    assert 200.0 not in drawn.seen[:, 0]
    assert 201.0 not in drawn.seen[:, 0]


def test_one_game_as_a_whole():
    """Of recorded episodes the last row has no action, and is not drawn but as what came."""
    whole = [rows(step, 1) for step in range(6)]
    told = {name: np.concatenate([each[name] for each in whole]) for name in whole[0]}
    told["known"][:] = [True, True, False, True, True, False]
    told["over"][4] = True
    told["allowed"][5] = False
    memory = Trajectories.of(told)
    drawn = draw(memory, 300, 3)
    assert drawn.seen[:, 0].unique().tolist() == [0, 100, 300, 400]
    assert drawn.over[drawn.seen[:, 0] == 400].all()
    assert drawn.allowed_after.all()  # where nothing comes a row must allow something


def test_nothing_known_is_refused():
    memory = Trajectories(rows=3)
    with pytest.raises(ValueError, match="no decision whose outcome is known"):
        memory.draw(1, np.random.default_rng())
    memory.add(rows(0, 1))
    with pytest.raises(ValueError, match="no decision"):
        memory.draw(1, np.random.default_rng())
    memory.add(rows(1, 1, known=False))
    assert len(draw(memory, 2, 0).actions) == 2
    with pytest.raises(ValueError, match="rows is 1"):
        Trajectories(rows=1)


def test_parts_are_joined_in_order():
    memory = Trajectories(rows=4)
    for step in range(4):
        memory.add(rows(step, 3))
    rng = np.random.default_rng(5)
    parts = [memory.draw(count, rng).columns for count in (3, 2)]
    both = Transitions.of(parts)
    assert len(both.actions) == 5
    assert (both.seen[3:].numpy() == parts[1]["seen"]).all()
