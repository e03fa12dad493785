"""Objectives: gradients by hand, and where clipping stops them."""

from __future__ import annotations

import pytest
import torch

from simkit.learners.networks.distributions import clipped_gain, reinforce_gain


def slope(gain, log_p):
    (found,) = torch.autograd.grad(gain, log_p)
    return found.tolist()


def test_reinforce_pulls_by_the_advantage():
    log_p = torch.tensor([-1.0, -2.0], requires_grad=True)
    assert slope(reinforce_gain(log_p, torch.tensor([3.0, -1.0])), log_p) == [1.5, -0.5]


def test_at_the_old_policy_the_clipped_gain_pulls_as_reinforce_does():
    log_p = torch.tensor([-1.0, -2.0], requires_grad=True)
    gain = clipped_gain(log_p, log_p.detach(), torch.tensor([3.0, -1.0]), 0.2)
    assert slope(gain, log_p) == pytest.approx([1.5, -0.5])


@pytest.mark.parametrize(
    ("ratio", "advantage", "pulls"),
    [(1.3, 1.0, False), (1.3, -1.0, True), (0.7, -1.0, False), (0.7, 1.0, True), (1.1, 1.0, True)],
)
def test_nothing_pulls_further_than_the_clip(ratio, advantage, pulls):
    log_p = torch.tensor([0.0], requires_grad=True)
    before = -torch.tensor([ratio]).log()
    gain = clipped_gain(log_p, before, torch.tensor([advantage]), 0.2)
    (found,) = slope(gain, log_p)
    assert found == pytest.approx(ratio * advantage if pulls else 0.0)
