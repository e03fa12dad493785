"""Critics: the least value, what they learn from, the value of a policy, and PopArt."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from simkit.learners.common.off_policy.critics import (
    Critic,
    Critics,
    PopArt,
    expected_value,
)
from simkit.learners.networks.build import build
from simkit.learners.networks.distributions import masked_log_softmax
from simkit.learners.networks.shapes import PerceptronShape


def critic(inputs: int, hidden: int, actions: int, *, popart: bool = False) -> Critic:
    layers = inputs, hidden, actions
    shape = PerceptronShape(type="perceptron", layers=layers, activation="relu")
    return Critic(build(shape), popart=popart)


@pytest.mark.parametrize("popart", [False, True])
def test_the_least_value_is_of_all_critics(popart):
    torch.manual_seed(0)
    critics = Critics(3, lambda: critic(4, 8, 2, popart=popart))
    flow = torch.randn(5, 4)
    each = torch.stack([one(flow) for one in critics.each])
    torch.testing.assert_close(critics(flow), each.min(dim=0).values)


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
    values = critics(flow).detach()
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


# --- PopArt: values stay while the statistics move, and targets of any size are learned


class Scaled(nn.Module):
    """A linear layer whose outputs are scaled."""

    def __init__(self, inputs: int, outputs: int, step: float = 1e-4) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self.popart = PopArt([self.layer], step)

    def forward(self, flow: Tensor) -> Tensor:
        return self.popart.values(self.layer(flow))


def test_several_last_layers_keep_their_values():
    torch.manual_seed(0)
    layers, flow = [nn.Linear(3, 2), nn.Linear(3, 1)], torch.randn(6, 3)
    popart = PopArt(layers, step=0.3)
    popart.update(torch.tensor([1.0, 2.0]))
    for targets in (torch.tensor([500.0, -100.0]), torch.randn(20)):
        before = [popart.values(layer(flow)) for layer in layers]
        popart.update(targets)
        for layer, was in zip(layers, before, strict=True):
            torch.testing.assert_close(popart.values(layer(flow)), was, rtol=1e-4, atol=1e-4)


def test_targets_become_of_mean_0_and_deviation_1():
    torch.manual_seed(0)
    popart, targets = PopArt([nn.Linear(2, 1)]), 40.0 + 9.0 * torch.randn(500, 64)
    for batch in targets:
        popart.update(batch)
    scaled = popart.normalise(targets)
    assert float(scaled.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(scaled.std()) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e5])
def test_a_loss_is_as_large_whatever_the_size_of_the_targets(size):
    """So one learning rate suits all of them; a linear layer would need another for each."""
    torch.manual_seed(1)
    flow, head = torch.randn(256, 3), Scaled(3, 1)
    targets = size * (flow @ torch.tensor([1.0, -2.0, 0.5]) + 3.0)
    optimiser = torch.optim.Adam(head.parameters(), 0.02)
    for _ in range(600):
        head.popart.update(targets)
        error = head.layer(flow).squeeze(-1) - head.popart.normalise(targets)
        optimiser.zero_grad()
        error.square().mean().backward()
        optimiser.step()
    largest = (head(flow).squeeze(-1) - targets).abs().max().detach()
    assert float(largest) < 0.05 * size


def test_a_copy_corrects_its_own_layers():
    head = Scaled(2, 1, step=0.5)
    head.popart.update(torch.tensor([1.0, 2.0]))
    other, flow = copy.deepcopy(head), torch.randn(4, 2)
    before = head(flow), other(flow)
    other.popart.update(torch.tensor([70.0, 90.0]))
    torch.testing.assert_close(head(flow), before[0])
    torch.testing.assert_close(other(flow), before[1], rtol=1e-4, atol=1e-4)
