"""The recurrent network: steps in a row as one by one, forgetting, a task that needs memory."""

from __future__ import annotations

import numpy as np
import torch

from simkit.learners.common.actor_critic.recurrent import Memory, Recurrent, RecurrentActor, look
from simkit.learners.common.inference import PlainRecurrent, plain_network
from simkit.learners.common.networks import ActorCritic, Perceptron
from simkit.learners.common.shapes import PerceptronShape, RecurrentShape
from simkit.learners.common.torch_training import weights_of


def shape(inputs: int, hidden: int, outputs: int) -> RecurrentShape:
    return RecurrentShape(
        type="recurrent", inputs=inputs, hidden=hidden, outputs=outputs, activation="tanh"
    )


def network(inputs: int = 3, hidden: int = 8, outputs: int = 4) -> Recurrent:
    torch.manual_seed(0)
    return Recurrent(shape(inputs, hidden, outputs))


def test_steps_in_a_row_are_as_steps_one_by_one():
    made, seen = network(), torch.randn(5, 6, 3)
    begins = torch.rand(5, 6) < 0.3
    whole, end = look(made, seen, torch.zeros(5, 2, 8), begins)
    memory = Memory(made, 5)
    for step in range(6):
        memory.forget(begins[:, step].numpy())
        said = memory.look(made, seen[:, step], np.arange(5))
        for one, all_of_it in zip(said, whole, strict=True):
            torch.testing.assert_close(one, all_of_it[:, step])
    torch.testing.assert_close(memory.carried, end)


def test_some_of_the_games_may_go_on_alone():
    made, seen = network(), torch.randn(4, 3)
    memory, alone = Memory(made, 4), Memory(made, 2)
    memory.look(made, seen, np.arange(4))
    alone.look(made, seen[[1, 3]], np.arange(2))
    first = memory.look(made, seen[[3, 1]], np.array([1, 3]))
    second = alone.look(made, seen[[3, 1]], np.arange(2))
    torch.testing.assert_close(first.logits, second.logits)


def test_a_network_without_memory_is_looked_at_alike():
    plain = PerceptronShape(type="perceptron", layers=(3, 5, 2), activation="tanh")
    made, seen = ActorCritic(Perceptron(plain), 4, values=2), torch.randn(5, 6, 3)
    memory = Memory(made, 5)
    said, carried = look(made, seen, memory.carried, torch.zeros(5, 6, dtype=torch.bool))
    assert carried is memory.carried
    assert carried.shape == (5, 2, 0)
    one = memory.look(made, seen[:, 2], np.arange(5))
    torch.testing.assert_close(one.logits, said.logits[:, 2])
    torch.testing.assert_close(one.values, said.values[:, 2])


def test_numpy_says_the_same_step_by_step():
    torch.manual_seed(1)
    actor = RecurrentActor(shape(3, 8, 4))
    torch.nn.init.normal_(actor.score.weight)
    plain = plain_network(actor.shape, weights_of(actor))
    assert isinstance(plain, PlainRecurrent)
    seen = torch.randn(2, 7, 3)
    begins = torch.zeros(2, 7, dtype=torch.bool)
    with torch.no_grad():
        logits, _, end = actor(seen, torch.zeros(2, 2, 8), begins)
    carried = np.stack([plain.blank()] * 2)
    for step in range(7):
        mine, carried = plain.remembering(seen[:, step].numpy(), carried)
        np.testing.assert_allclose(mine, logits[:, step].numpy(), atol=2e-6)
    np.testing.assert_allclose(carried, end.numpy(), atol=2e-6)
    assert np.abs(logits.numpy()).max() <= plain.largest(float(seen.abs().max()))


def test_it_learns_what_only_memory_can_tell():
    """The answer at the last of five steps is the sign that was shown at the first."""
    made = network(1, 16, 2)
    optimiser = torch.optim.Adam(made.parameters(), 0.01)
    begins, blank = torch.zeros(64, 5, dtype=torch.bool), torch.zeros(64, 2, 16)
    for _ in range(150):
        shown = torch.zeros(64, 5, 1)
        sign = torch.randint(2, (64,))
        shown[:, 0, 0] = 2.0 * sign - 1.0
        said, _ = look(made, shown, blank, begins)
        loss = torch.nn.functional.cross_entropy(said.logits[:, -1], sign)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.05
