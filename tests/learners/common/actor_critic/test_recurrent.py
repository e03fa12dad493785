"""The recurrent network: steps in a row as one by one, forgetting, and a task that needs memory."""

from __future__ import annotations

import torch

from simkit.learners.common.actor_critic.recurrent import Recurrent


def test_steps_in_a_row_are_as_steps_one_by_one():
    torch.manual_seed(0)
    network, seen = Recurrent(3, 8, 4), torch.randn(6, 5, 3)
    begins = torch.rand(6, 5) < 0.3
    whole, end = network(seen, network.blank(5), begins)
    carried = network.blank(5)
    for step in range(6):
        said, carried = network(seen[step : step + 1], carried, begins[step : step + 1])
        for one, all_of_it in zip(said, whole, strict=True):
            torch.testing.assert_close(one[0], all_of_it[step])
    for mine, other in zip(carried, end, strict=True):
        torch.testing.assert_close(mine, other)


def test_a_new_episode_remembers_nothing():
    torch.manual_seed(0)
    network, seen = Recurrent(3, 8, 4), torch.randn(4, 2, 3)
    begins = torch.zeros(4, 2, dtype=torch.bool)
    begins[2, 0] = True
    said, _ = network(seen, network.blank(2), begins)
    fresh, _ = network(seen[2:], network.blank(2), torch.zeros(2, 2, dtype=torch.bool))
    torch.testing.assert_close(said.logits[2:, 0], fresh.logits[:, 0])
    assert not torch.allclose(said.logits[2:, 1], fresh.logits[:, 1])


def test_it_learns_what_only_memory_can_tell():
    """The answer at the last of five steps is the sign that was shown at the first."""
    torch.manual_seed(0)
    network = Recurrent(1, 16, 2)
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    begins = torch.zeros(5, 64, dtype=torch.bool)
    for _ in range(150):
        shown = torch.zeros(5, 64, 1)
        sign = torch.randint(2, (64,))
        shown[0, :, 0] = 2.0 * sign - 1.0
        said, _ = network(shown, network.blank(64), begins)
        loss = torch.nn.functional.cross_entropy(said.logits[-1], sign)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.05
