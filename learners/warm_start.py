"""A warm start: a network learns to act as shortest-job-first does, before REINFORCE.

It learns what is right in the states that it reaches by its own actions: S. Ross, G. Gordon and
D. Bagnell, "A reduction of imitation learning and structured prediction to no-regret online
learning" (2011). From the states of shortest-job-first alone, as in DeepRM's program, it learns
mostly to wait, and after a wrong action it keeps waiting: 95 % of its actions are then right, and
jobs are slowed down several times more than by random actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simkit.agent.slotted import SlottedView
from simkit.arrays import Ints
from simkit.learners.common.distributions import log_probability, masked_log_softmax, sample
from simkit.learners.common.networks import Network
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.slot_games import SlotGames

__all__ = ["WarmStart", "imitate", "labelled_decisions", "shortest_first"]


@dataclass
class WarmStart:
    """Whether a training has had its warm start; a part of its checkpoint."""

    done: bool

    def state(self) -> dict[str, Any]:
        return {"done": self.done}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.done = bool(state["done"])


def shortest_first(game: Lockstep, view: SlottedView) -> Ints:
    """Return (A,) the actions of shortest-job-first, which places only tasks that fit now.

    Among equally short tasks it takes the one in the lowest slot; if none fits, the void action.
    """
    endless = np.iinfo(np.int64).max
    length = np.where(game.fits_now(), view.length.astype(np.int64), endless)
    slot = length.argmin(axis=1)
    none = np.take_along_axis(length, slot[:, None], 1)[:, 0] == endless
    return np.where(none, game.model.slots, slot)


def labelled_decisions(
    games: SlotGames, network: Network, rng: np.random.Generator, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Play games to their ends with the network; label each decision with the right action.

    Returns:
        (D, F) observations, and (D,) the actions that shortest-job-first would have taken.
    """
    observations, actions = [], []
    with torch.inference_mode():
        while len(games.active):
            observations.append(games.observe())
            actions.append(shortest_first(games.lockstep, games.lockstep.view()))
            seen = torch.from_numpy(observations[-1]).to(device)
            games.step(sample(masked_log_softmax(network(seen)), rng))
    columns = np.concatenate(observations), np.concatenate(actions)
    return torch.from_numpy(columns[0]).to(device), torch.from_numpy(columns[1]).to(device)


def imitate(
    network: Network,
    rounds: Iterable[SlotGames],
    rng: np.random.Generator,
    *,
    batch: int = 256,
    learning_rate: float = 0.003,
    device: str = "cpu",
) -> float:
    """Play games, and after each round make the right actions likelier: Adam on the log-likelihood.

    Args:
        network: its weights are changed.
        rounds: fresh games, of some hundred job sets each.
        rng: draws the actions, and the order of the decisions to learn from.
        batch: decisions a step.
        learning_rate: of Adam.
        device: that the network is on.

    Returns:
        The share of the last round's decisions at which the network's likeliest action was right,
        before it learned from them; nan without a round.
    """
    optimiser, right = torch.optim.Adam(network.parameters(), learning_rate), float("nan")
    for games in rounds:
        seen, wanted = labelled_decisions(games, network, rng, device)
        with torch.inference_mode():
            right = float((network(seen).argmax(dim=1) == wanted).double().mean())
        order = torch.from_numpy(rng.permutation(len(wanted)))
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            chances = masked_log_softmax(network(seen[rows]))
            optimiser.zero_grad()
            (-log_probability(chances, wanted[rows]).mean()).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return right
