"""PopArt: values stay as they are while the statistics move, and targets of any size are learned."""

from __future__ import annotations

import pytest
import torch

from simkit.learners.common.actor_critic.popart import PopArt


def test_an_update_changes_no_value():
    torch.manual_seed(0)
    head, flow = PopArt(3, 4, step=0.1), torch.randn(6, 3)
    head.update(torch.tensor([1.0, 2.0]))  # the first sets the scale
    for targets in (torch.tensor([5.0, 7.0]), torch.tensor([-300.0, 900.0]), torch.randn(20)):
        before = head(flow)
        head.update(targets)
        torch.testing.assert_close(head(flow), before, rtol=1e-4, atol=1e-4)


def test_targets_become_of_mean_0_and_deviation_1():
    torch.manual_seed(0)
    head, targets = PopArt(2, 1), 40.0 + 9.0 * torch.randn(500, 64)
    for batch in targets:
        head.update(batch)
    scaled = head.normalise(targets)
    assert float(scaled.mean()) == pytest.approx(0.0, abs=0.02)
    assert float(scaled.std()) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e5])
def test_a_loss_is_as_large_whatever_the_size_of_the_targets(size):
    """So one learning rate suits all of them; a linear layer would need another for each."""
    torch.manual_seed(1)
    flow, head = torch.randn(256, 3), PopArt(3, 1)
    targets = size * (flow @ torch.tensor([1.0, -2.0, 0.5]) + 3.0)
    optimiser = torch.optim.Adam(head.parameters(), 0.02)
    for _ in range(600):
        head.update(targets)
        loss = (head.normalised(flow).squeeze(-1) - head.normalise(targets)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    error = (head(flow).squeeze(-1) - targets).abs().max().detach()
    assert float(error) < 0.05 * size


def test_statistics_are_part_of_the_weights():
    head, other = PopArt(2, 2), PopArt(2, 2)
    head.update(torch.tensor([10.0, 30.0]))
    other.load_state_dict(head.state_dict())
    flow = torch.randn(4, 2)
    torch.testing.assert_close(other(flow), head(flow))
