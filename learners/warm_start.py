"""A warm start: a network learns to imitate shortest-job-first, before REINFORCE.

It learns the right actions in the states that its own actions lead to: S. Ross, G. Gordon and
D. Bagnell, "A reduction of imitation learning and structured prediction to no-regret online
learning" (2011). From the states of shortest-job-first alone, as in DeepRM's program, it would
mostly learn to wait, and keep waiting after a wrong action: 95 % of its actions are then right, but
jobs are slowed down several times more than by random actions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from simkit.arrays import Ints
from simkit.learners.common.distributions import log_probability, masked_log_softmax, sample
from simkit.learners.common.networks import Network
from simkit.learners.lockstep.slot_games import SlotGames

__all__ = ["imitate", "labelled_decisions", "shortest_first"]


def shortest_first(games: SlotGames) -> Ints:
    """Return (A,) actions of shortest-job-first, which only places tasks that fit now.

    Among equally short tasks it takes that in the lowest slot; if none fits, the void action.
    """
    unfit, lockstep = np.iinfo(np.int64).max, games.lockstep
    length = np.where(lockstep.fits_now(), lockstep.view().length.astype(np.int64), unfit)
    slot = length.argmin(axis=1)
    none_fits = np.take_along_axis(length, slot[:, None], 1)[:, 0] == unfit
    return np.where(none_fits, lockstep.model.slots, slot)


def labelled_decisions(
    games: SlotGames, network: Network, rng: np.random.Generator, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Play games to their ends with the network; label each decision with the right action.

    Returns:
        (D, F) observations, and (D,) actions of shortest-job-first.
    """
    observations, actions = [], []
    with torch.inference_mode():
        while len(games.active):
            observations.append(games.observe())
            actions.append(shortest_first(games))
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
    """Train a network to imitate shortest-job-first: maximise the right actions' log-likelihood.

    Args:
        network: trained in place, after each round.
        rounds: new games, with some hundred job sets each.
        rng: draws the actions, and the order of the decisions to learn from.
        batch: decisions per step of Adam.
        learning_rate: learning rate of Adam.
        device: device of the network.

    Returns:
        The share of the last round's decisions at which the network's likeliest action was right,
        before it learned from them; nan without a round.
    """
    optimiser, right = torch.optim.Adam(network.parameters(), learning_rate), float("nan")
    for games in rounds:
        if not len(games.active):
            continue  # no job set has a job
        seen, wanted = labelled_decisions(games, network, rng, device)
        with torch.inference_mode():
            right = float((network(seen).argmax(dim=1) == wanted).double().mean())
        order = torch.from_numpy(rng.permutation(len(wanted)))
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            log_probs = masked_log_softmax(network(seen[rows]))
            optimiser.zero_grad()
            (-log_probability(log_probs, wanted[rows]).mean()).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return right
