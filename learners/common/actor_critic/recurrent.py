"""A recurrent network of a policy with critics of value and cost: a perceptron, then an LSTM."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Carried", "Recurrent", "Said"]

Carried = tuple[Tensor, Tensor]
"""(1, N, hidden) what an LSTM remembers: its output and its cell."""


class Said(NamedTuple):
    """What the network says of (T, N) observations."""

    logits: Tensor
    """(T, N, A)"""
    value: Tensor
    """(T, N) of the rewards to come."""
    cost: Tensor
    """(T, N) of the costs to come."""


class Recurrent(nn.Module):
    """Two layers with tanh, an LSTM (S. Hochreiter and J. Schmidhuber, 1997), and three heads."""

    def __init__(self, inputs: int, hidden: int, actions: int) -> None:
        super().__init__()
        self._hidden = hidden
        self.body = nn.Sequential(
            nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )
        self.memory = nn.LSTM(hidden, hidden)
        self.actor = nn.Linear(hidden, actions)
        self.critics = nn.Linear(hidden, 2)
        for head in (self.actor, self.critics):
            nn.init.normal_(head.weight, 0.0, 0.01)
            nn.init.zeros_(head.bias)

    def blank(self, games: int) -> Carried:
        """Return what N = `games` games remember as they begin."""
        zeros = next(self.parameters()).new_zeros(1, games, self._hidden)
        return zeros, zeros

    def forward(self, seen: Tensor, carried: Carried, begins: Tensor) -> tuple[Said, Carried]:
        """Look at T steps of N games in a row.

        Args:
            seen: (T, N, inputs)
            carried: what the games remember from before.
            begins: (T, N) bool: a new episode begins with this step, and nothing is remembered.

        Returns:
            what it says, and what the games remember afterwards.
        """
        flow, parts = self.body(seen), []
        # Steps between which nobody begins anew are one call.
        starts = [0, *(torch.nonzero(begins[1:].any(dim=1)).flatten() + 1).tolist(), len(seen)]
        for first, last in pairwise(starts):
            kept = (~begins[first]).to(flow.dtype).unsqueeze(-1)
            carried = carried[0] * kept, carried[1] * kept
            part, carried = self.memory(flow[first:last], carried)
            parts.append(part)
        remembered = torch.cat(parts)
        value, cost = self.critics(remembered).unbind(dim=-1)
        return Said(self.actor(remembered), value, cost), carried
