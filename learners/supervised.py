"""Warm start: a network learns to do as shortest-job-first does, before it learns by itself.

It is told what is right in the states that it comes to itself: Ross, Gordon and Bagnell, "A
reduction of imitation learning and structured prediction to no-regret online learning" (2011).
From the states of shortest-job-first alone, as in DeepRM's program, it learns mostly to wait, and
where a slip of its own takes it, it goes on waiting: 95 % of its actions are right then, and jobs
are slowed down several times more than by chance.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simkit.slotted import SlottedView

from .input_layers import Stored
from .lockstep import Lockstep
from .masks import Ints, masked_log_softmax, sample
from .optimisers import Adam
from .perceptron import Weights
from .policy_network import PolicyNetwork


def shortest_first(game: Lockstep, view: SlottedView) -> Ints:
    """Return (A,) the actions of shortest-job-first, which starts only what fits from now on.

    Of equally short tasks it takes that in the lowest slot; where none fits, the void action.
    """
    endless = np.iinfo(np.int64).max
    length = np.where(game.fits_now(), view.length.astype(np.int64), endless)
    slot = length.argmin(axis=1)
    none = np.take_along_axis(length, slot[:, None], 1)[:, 0] == endless
    return np.where(none, game.model.slots, slot)


def shown(game: Lockstep, network: PolicyNetwork, rng: np.random.Generator) -> tuple[Stored, Ints]:
    """Play a game to its end with the network, and ask what shortest-job-first would have done.

    Returns:
        (D, F) observations as the network's input layer keeps them, and (D,) the actions that are
        right there.
    """
    observations, actions = [], []
    while len(game.active):
        view = game.view()
        observations.append(network.first.stored(view))
        actions.append(shortest_first(game, view))
        game.step(sample(masked_log_softmax(network.logits(observations[-1])), rng))
    return np.concatenate(observations), np.concatenate(actions)


def imitate(
    network: PolicyNetwork,
    games: Iterable[Lockstep],
    rng: np.random.Generator,
    *,
    batch: int = 256,
    learning_rate: float = 0.003,
) -> float:
    """Play games, and after each make likelier what was right in it: Adam on the log-likelihood.

    Args:
        network: is changed.
        games: fresh ones, of some hundred job sets each.
        rng: draws the actions, and the order in which decisions are learned from.
        batch: decisions a step.
        learning_rate: of Adam.

    Returns:
        The share of right decisions among the network's likeliest ones, in the last game, before
        it learned from that; nan without a game.
    """
    optimiser, right = Adam(learning_rate), float("nan")
    for game in games:
        observations, actions = shown(game, network, rng)
        right = float((network.logits(observations).argmax(axis=1) == actions).mean())
        order = rng.permutation(len(actions))
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            optimiser.ascend(network.weights, _slope(network, observations[rows], actions[rows]))
            network.refresh()
    return right


def _slope(network: PolicyNetwork, observations: Stored, actions: Ints) -> Weights:
    """Return the gradient of the mean log-likelihood of actions."""
    slope = -np.exp(masked_log_softmax(network.logits(observations)))
    slope[np.arange(len(actions)), actions] += 1
    return network.gradient(observations, slope / np.float32(len(actions)))
