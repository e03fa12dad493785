"""A recurrent network of a policy with critics of value and cost: a perceptron, then an LSTM.

`simkit.learners.common.inference` calculates the policy with NumPy, for agents where torch is
absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from simkit.arrays import Bools, Ints
from simkit.learners.common.networks import ActorCritic
from simkit.learners.common.rollouts import Batch
from simkit.learners.common.shapes import RecurrentShape

__all__ = ["Memory", "Recurrent", "RecurrentActor", "Said", "Sequences", "look"]


class Said(NamedTuple):
    """A network's outputs for (N, T) observations."""

    logits: Tensor
    """(N, T, A)"""
    values: Tensor
    """(N, T, 2) of the rewards and of the costs to come."""


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
        _almost_zero(self.score)

    def forward(
        self, seen: Tensor, carried: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return (N, T, A) logits, the LSTM's (N, T, hidden) outputs, and what is carried on.

        Arguments are those of `look`.
        """
        flow, parts = self.body(seen), []
        output, cell = (each.unsqueeze(0) for each in carried.unbind(dim=1))
        # Steps between which nobody begins anew are one call.
        anew = torch.nonzero(begins[:, 1:].any(dim=0)).flatten() + 1
        for first, last in pairwise([0, *anew.tolist(), seen.shape[1]]):
            kept = (~begins[:, first]).to(flow.dtype).unsqueeze(-1)
            part, (output, cell) = self.memory(flow[:, first:last], (output * kept, cell * kept))
            parts.append(part)
        remembered = torch.cat(parts, dim=1)
        return self.score(remembered), remembered, torch.cat((output, cell)).transpose(0, 1)


class Recurrent(nn.Module):
    """A recurrent policy, and critics that read its LSTM's outputs."""

    def __init__(self, shape: RecurrentShape) -> None:
        super().__init__()
        self.actor = RecurrentActor(shape)
        self.critics = nn.Linear(shape.hidden, 2)
        _almost_zero(self.critics)

    def forward(self, seen: Tensor, carried: Tensor, begins: Tensor) -> tuple[Said, Tensor]:
        logits, remembered, carried = self.actor(seen, carried, begins)
        return Said(logits, self.critics(remembered)), carried


def look(
    network: ActorCritic | Recurrent, seen: Tensor, carried: Tensor, begins: Tensor
) -> tuple[Said, Tensor]:
    """Look at T steps of N games in a row, with a network that may remember or not.

    Args:
        network: the policy with its critics.
        seen: (N, T, inputs)
        carried: (N, 2, hidden) what the games remember from before: output and cell.
        begins: (N, T) bool: a new game begins with this step, and nothing is remembered.

    Returns:
        its outputs, and what the games remember afterwards.
    """
    if isinstance(network, Recurrent):
        said: tuple[Said, Tensor] = network(seen, carried, begins)
        return said
    return Said(*network(seen)), carried


class Memory:
    """What N games remember from one iteration to the next; a part of a checkpoint.

    Attributes:
        carried: (N, 2, hidden); of a network that does not remember, hidden is 0.
    """

    def __init__(self, network: ActorCritic | Recurrent, games: int) -> None:
        """Begin with nothing."""
        hidden = network.actor.shape.hidden if isinstance(network, Recurrent) else 0
        self.carried = next(network.parameters()).detach().new_zeros(games, 2, hidden)

    @torch.no_grad()
    def look(self, network: ActorCritic | Recurrent, seen: Tensor, games: Ints) -> Said:
        """Look at a step of A games, and remember it.

        Args:
            network: the policy with its critics.
            seen: (A, inputs)
            games: (A,) which games they are.

        Returns:
            its outputs, (A, …).
        """
        goes_on = torch.zeros(len(games), 1, dtype=torch.bool, device=seen.device)
        carried = self.carried[games]
        said, self.carried[games] = look(network, seen.unsqueeze(1), carried, goes_on)
        return Said(*[each.squeeze(1) for each in said])

    def forget(self, games: Bools) -> None:
        """Forget what some games remember, (N,)."""
        self.carried[games] = 0.0

    def state(self) -> dict[str, Any]:
        """Return all that it knows."""
        return {"carried": self.carried.cpu().numpy().copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self.carried = torch.from_numpy(state["carried"].copy()).to(self.carried)


@dataclass(frozen=True)
class Sequences(Batch):
    """B sequences of T decisions in a row; the columns of `Batch` are (B, T, …)."""

    begins: Tensor
    """(B, T) a new game begins with this decision."""
    carried: Tensor
    """(B, 2, hidden) what was remembered before the first."""


def _almost_zero(head: nn.Linear) -> None:
    """Draw weights so small that the first policy is almost uniform."""
    nn.init.normal_(head.weight, 0.0, 0.01)
    nn.init.zeros_(head.bias)
