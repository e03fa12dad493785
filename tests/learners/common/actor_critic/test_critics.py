"""Critics: whom to believe, what they learn from, and the value of a policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simkit.learners.common.actor_critic.critics import Critic, Critics, expected_value
from simkit.learners.common.distributions import masked_log_softmax
from simkit.learners.common.networks import build
from simkit.learners.common.shapes import PerceptronShape


def critic(inputs: int, hidden: int, actions: int, *, popart: bool = False) -> Critic:
    layers = inputs, hidden, actions
    shape = PerceptronShape(type="perceptron", layers=layers, activation="relu")
    return Critic(build(shape), popart=popart)


@pytest.mark.parametrize("popart", [False, True])
def test_the_least_and_the_mean_are_of_all_critics(popart):
    torch.manual_seed(0)
    critics = Critics(3, lambda: critic(4, 8, 2, popart=popart))
    flow = torch.randn(5, 4)
    each = torch.stack([one(flow) for one in critics.each])
    torch.testing.assert_close(critics(flow), each.min(dim=0).values)
    torch.testing.assert_close(critics(flow, "mean"), each.mean(dim=0))


@pytest.mark.parametrize("popart", [False, True])
def test_critics_learn_the_values_of_the_actions_taken(popart):
    torch.manual_seed(0)
    critics = Critics(2, lambda: critic(3, 32, 2, popart=popart))
    optimiser = torch.optim.Adam(critics.parameters(), 0.03)
    flow = torch.randn(512, 3)
    actions = torch.randint(2, (512,))
    targets = 20.0 * (actions == 1) + 5.0 * flow[:, 0]
    for _ in range(200):
        optimiser.zero_grad()
        critics.error(flow, actions, targets).backward()
        optimiser.step()
    values = critics(flow, "mean").detach()
    assert float((values[:, 1] - values[:, 0]).mean()) == pytest.approx(20.0, abs=1.5)


def test_the_expected_value_is_that_of_draws():
    rng = np.random.default_rng(0)
    logits, values = torch.tensor([[0.3, -1.0, 2.0]]), torch.tensor([[5.0, 1.0, -2.0]])
    allowed = torch.tensor([[True, True, False]])
    chances = masked_log_softmax(logits, allowed)
    shares = chances.exp()[0].double().numpy()
    drawn = rng.choice(3, size=100_000, p=shares / shares.sum())
    plain = float(expected_value(values, chances))
    assert plain == pytest.approx(float(values[0, drawn].mean()), abs=0.02)
    soft = float(expected_value(values, chances, 0.5))
    assert soft == pytest.approx(plain - 0.5 * float(chances[0, drawn].mean()), abs=0.02)
