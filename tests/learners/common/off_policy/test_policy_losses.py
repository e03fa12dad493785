"""Losses of actors: their minima where theory has them, and their gradients."""

from __future__ import annotations

import pytest
import torch

from simkit.learners.common.off_policy.policy_losses import (
    imitation_loss,
    is_better,
    soft_policy_loss,
    temperature_loss,
)
from simkit.learners.networks.distributions import entropy, masked_log_softmax

VALUES = torch.tensor([[1.0, 2.0, 4.0]])


def trained(loss_of, steps: int = 400) -> torch.Tensor:
    """Return the probabilities of a softmax whose logits were trained by a loss."""
    logits = torch.zeros(1, 3, requires_grad=True)
    optimiser = torch.optim.Adam([logits], 0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        loss_of(masked_log_softmax(logits)).backward()
        optimiser.step()
    return torch.softmax(logits.detach(), dim=-1)[0]


def test_a_clone_has_the_frequencies_of_what_it_imitates():
    actions = torch.tensor([0, 0, 1, 2, 2, 2, 2, 2])
    found = trained(lambda chances: imitation_loss(chances.expand(8, 3), actions, torch.ones(8)))
    assert found.tolist() == pytest.approx([2 / 8, 1 / 8, 5 / 8], abs=1e-3)


def test_only_actions_that_beat_the_policy_are_imitated():
    chances = torch.full((3, 3), 1 / 3).log()
    weights = is_better(VALUES.expand(3, 3), chances, torch.tensor([0, 1, 2]))
    assert weights.tolist() == [0.0, 0.0, 1.0]  # the policy's mean is 7 / 3


def test_weighted_regression_tilts_the_data_by_the_exponential():
    """Its minimum is the data's distribution times the weights, normalised."""
    actions = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    behaviour = torch.tensor([0.5, 0.25, 0.25])
    weights = (VALUES[0] / 2.0).exp()
    found = trained(lambda c: imitation_loss(c.expand(8, 3), actions, weights[actions]))
    expected = behaviour * weights / (behaviour * weights).sum()
    assert found.tolist() == pytest.approx(expected.tolist(), abs=2e-3)


def test_soft_policies_are_the_softmax_of_values_over_the_temperature():
    found = trained(lambda chances: soft_policy_loss(VALUES, chances, 2.0))
    assert found.tolist() == pytest.approx(
        torch.softmax(VALUES / 2.0, dim=-1)[0].tolist(), abs=2e-3
    )


def test_actors_pass_no_gradient_on_to_critics():
    values = VALUES.clone().requires_grad_()
    chances = masked_log_softmax(torch.zeros(1, 3, requires_grad=True))
    weights = is_better(values, chances, torch.tensor([2]))
    loss = soft_policy_loss(values, chances, 0.1) + imitation_loss(
        chances, torch.tensor([2]), weights
    )
    loss.backward()
    assert values.grad is None


def test_the_temperature_settles_where_the_entropy_is_wanted():
    """Policy and temperature are trained in turn, as a soft actor-critic does."""
    logits = torch.zeros(1, 3, requires_grad=True)
    log_temperature = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.SGD([logits, log_temperature], 0.3)
    for _ in range(1000):
        chances = masked_log_softmax(logits)
        loss = soft_policy_loss(VALUES, chances, log_temperature.exp().detach())
        loss = loss + temperature_loss(log_temperature, chances, 0.6)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(entropy(masked_log_softmax(logits.detach()))) == pytest.approx(0.6, abs=0.02)
