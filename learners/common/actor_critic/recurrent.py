"""A recurrent policy with critics of value and cost: a perceptron, then an LSTM.

`simkit.learners.common.inference` computes the policy with NumPy, for agents without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from simkit.arrays import Bools, Ints
from simkit.learners.common.networks import ActorCritic, almost_zero
from simkit.learners.common.rollouts import Batch
from simkit.learners.common.shapes import RecurrentShape

__all__ = ["Memory", "Outputs", "Recurrent", "RecurrentActor", "Sequences", "look"]


class Outputs(NamedTuple):
    """A network's outputs for (N, T) observations."""

    logits: Tensor
    """(N, T, A)"""
    values: Tensor
    """(N, T, 2) expected future rewards, and costs."""


class RecurrentActor(nn.Module):
    """Two layers with tanh, an LSTM (S. Hochreiter and J. Schmidhuber, 1997), and logits."""

    def __init__(self, shape: RecurrentShape) -> None:
        super().__init__()
        self.shape, hidden = shape, shape.hidden
        self.body = nn.Sequential(
            nn.Linear(shape.inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )
        self.memory = nn.LSTM(hidden, hidden, batch_first=True)
        self.score = nn.Linear(hidden, shape.outputs)
        almost_zero(self.score)

    def forward(
        self, seen: Tensor, carried: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return (N, T, A) logits, the LSTM's (N, T, hidden) outputs, and its final state.

        For the arguments see `look`.
        """
        flow, parts = self.body(seen), []
        output, cell = (each.unsqueeze(0) for each in carried.unbind(dim=1))
        # one call for all steps up to the next one with which a game begins
        resets = torch.nonzero(begins[:, 1:].any(dim=0)).flatten() + 1
        for first, end in pairwise([0, *resets.tolist(), seen.shape[1]]):
            kept = (~begins[:, first]).to(flow.dtype).unsqueeze(-1)
            part, (output, cell) = self.memory(flow[:, first:end], (output * kept, cell * kept))
            parts.append(part)
        remembered = torch.cat(parts, dim=1)
        return self.score(remembered), remembered, torch.cat((output, cell)).transpose(0, 1)


class Recurrent(nn.Module):
    """A recurrent policy, and critics that read its LSTM's outputs."""

    def __init__(self, shape: RecurrentShape) -> None:
        super().__init__()
        self.actor = RecurrentActor(shape)
        self.critics = nn.Linear(shape.hidden, 2)
        almost_zero(self.critics)

    def forward(self, seen: Tensor, carried: Tensor, begins: Tensor) -> tuple[Outputs, Tensor]:
        logits, remembered, carried = self.actor(seen, carried, begins)
        return Outputs(logits, self.critics(remembered)), carried


def look(
    network: ActorCritic | Recurrent, seen: Tensor, carried: Tensor, begins: Tensor
) -> tuple[Outputs, Tensor]:
    """Evaluate a network, recurrent or not, on T consecutive steps of N games.

    Args:
        network: the policy with its critics.
        seen: (N, T, inputs) observations.
        carried: (N, 2, hidden) the LSTM's state before the first step: output and cell.
        begins: (N, T) bool: whether a new game begins with the step, with a blank state.

    Returns:
        The network's outputs, and the LSTM's state after the last step.
    """
    if isinstance(network, Recurrent):
        outputs: tuple[Outputs, Tensor] = network(seen, carried, begins)
        return outputs
    return Outputs(*network(seen)), carried


class Memory:
    """The LSTM's state in N games, from one iteration to the next; a part of a checkpoint.

    Attributes:
        carried: (N, 2, hidden); hidden is 0 for a network without an LSTM.
    """

    def __init__(self, network: ActorCritic | Recurrent, games: int) -> None:
        """Begin with blank states."""
        hidden = network.actor.shape.hidden if isinstance(network, Recurrent) else 0
        self.carried = next(network.parameters()).detach().new_zeros(games, 2, hidden)

    @torch.no_grad()
    def look(self, network: ActorCritic | Recurrent, seen: Tensor, games: Ints) -> Outputs:
        """Evaluate a network on one step of A games, and keep their new states.

        Args:
            network: the policy with its critics.
            seen: (A, inputs) observations.
            games: (A,) numbers of the games.

        Returns:
            The network's outputs, (A, …).
        """
        begins = torch.zeros(len(games), 1, dtype=torch.bool, device=seen.device)
        carried = self.carried[games]
        outputs, self.carried[games] = look(network, seen.unsqueeze(1), carried, begins)
        return Outputs(*[each.squeeze(1) for each in outputs])

    def forget(self, games: Bools) -> None:
        """Reset the states of the games marked in (N,)."""
        self.carried[games] = 0.0

    def state(self) -> dict[str, Any]:
        """Return the states of all games."""
        return {"carried": self.carried.cpu().numpy().copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.carried = torch.from_numpy(state["carried"].copy()).to(self.carried)


@dataclass(frozen=True)
class Sequences(Batch):
    """B sequences of T consecutive decisions; the columns of `Batch` are (B, T, …)."""

    begins: Tensor
    """(B, T) whether a new game begins with the decision."""
    carried: Tensor
    """(B, 2, hidden) the LSTM's state before the first decision."""
