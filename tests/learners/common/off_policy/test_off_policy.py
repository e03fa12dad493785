"""Actor and critics: goals by hand, an optimum that is known, and who teaches whom."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simkit.learners.common.off_policy.actor_and_critics import (
    ActorAndCritics,
    Transitions,
)
from simkit.learners.common.off_policy.policy_losses import (
    imitation_loss,
    is_better,
    soft_policy_loss,
)
from simkit.learners.networks.shapes import SetScorerShape

SET = SetScorerShape(
    type="set-scorer", context=1, items=2, features=2, hidden=32, others=1, activation="relu"
)


def networks(*, discount: float = 0.9) -> ActorAndCritics:
    torch.manual_seed(0)
    return ActorAndCritics(SET, 2, discount, popart=True)


def walk(rng: np.random.Generator, count: int) -> Transitions:
    """Two states, 0 and 1; action m < 2 leads to state m in m + 1 hours, the third stays, in 1.

    Being in state 1 pays 1 at every decision, so that it is best to go there and to stay.
    """
    state, actions = rng.integers(2, size=count), rng.integers(3, size=count)
    after = np.where(actions == 2, state, actions)
    passed = np.where(actions == 1, 2.0, 1.0)

    def seen(states: np.ndarray) -> torch.Tensor:
        items = np.tile([[1.0, 0.0, 1.0, 1.0]], (count, 1))
        return torch.from_numpy(np.column_stack((states, items)).astype(np.float32))

    allowed = torch.ones(count, 3, dtype=torch.bool)
    return Transitions(
        seen(state), allowed, torch.from_numpy(actions),
        torch.from_numpy((state == 1).astype(np.float32)),
        torch.from_numpy(passed.astype(np.float32)), torch.zeros(count, dtype=torch.bool),
        seen(after), allowed,
    )  # fmt: skip


def test_goals_by_hand():
    made = networks()
    batch = walk(np.random.default_rng(0), 6)
    over = torch.tensor([True, False] * 3)
    batch = Transitions(**{**vars(batch), "over": over})
    goals = made.goals(batch, usual=0.25, temperature=0.5)
    chances = made.log_probabilities(batch.after, batch.allowed_after).detach()
    values = torch.stack([critic(batch.after) for critic in made.slow.each]).amin(dim=0)
    for row in range(6):
        hours = int(batch.passed[row])
        wanted = float(batch.rewards[row]) - 0.25 * sum(0.9**h for h in range(hours))
        each = zip(chances[row], values[row], strict=True)
        later = sum(float(c.exp() * (v - 0.5 * c)) for c, v in each)
        wanted += 0.0 if over[row] else 0.9**hours * later
        assert float(goals[row]) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("soft", [False, True])
def test_it_learns_where_to_go_from_random_decisions(soft):
    """The values of both states are known: 1 / (1 - 0.9) in state 1, and 0.9² of it in state 0."""
    made, rng, temperature = networks(), np.random.default_rng(1), 0.1 * soft
    optimiser = torch.optim.Adam(made.learned(), 0.003)
    for _ in range(1000):
        batch = walk(rng, 64)
        chances = made.log_probabilities(batch.seen, batch.allowed)
        error = made.critics.error(batch.seen, batch.actions, made.goals(batch, 0.0, temperature))
        values = made.critics(batch.seen).detach()
        if soft:
            loss = soft_policy_loss(values, chances, temperature)
        else:
            weights = is_better(values, chances, batch.actions)
            loss = imitation_loss(chances, batch.actions, weights)
        optimiser.zero_grad()
        (error + loss).backward()
        optimiser.step()
        made.follow(0.05)
    batch = walk(rng, 64)
    chances = made.log_probabilities(batch.seen, batch.allowed).exp().detach()
    in_one = batch.seen[:, 0] == 1
    assert float(chances[~in_one, 1].min()) > 0.9  # go
    assert float(chances[in_one, 2].min()) > 0.9  # stay
    values = made.critics(batch.seen).detach()
    assert float(values[in_one, 2].mean()) == pytest.approx(10.0, rel=0.05)
    assert float(values[~in_one, 1].mean()) == pytest.approx(8.1, rel=0.05)


def test_slow_copies_follow_with_the_scale_of_the_values():
    made = networks()
    seen = torch.randn(4, SET.inputs)
    made.critics.error(seen, torch.zeros(4, dtype=torch.int64), torch.full((4,), 50.0))
    assert not torch.allclose(made.slow(seen), made.critics(seen))
    made.follow(1.0)
    torch.testing.assert_close(made.slow(seen), made.critics(seen))
    assert not any(each.requires_grad for each in made.slow.parameters())
    counted = [id(each) for each in made.learned()]
    assert len(counted) == len(set(counted))
