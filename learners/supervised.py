"""Warm start: a network learns to do as shortest-job-first does, before it learns by itself.

It is told what is right in the states that it comes to itself: Ross, Gordon and Bagnell, "A
reduction of imitation learning and structured prediction to no-regret online learning" (2011).
From the states of shortest-job-first alone, as in DeepRM's program, it learns mostly to wait, and
where a slip of its own takes it, it goes on waiting: 95 % of its actions are right then, and jobs
are slowed down several times more than by chance.
"""

from __future__ import annotations

import numpy as np

from simkit.slotted import SlottedView

from .input_layers import Stored
from .lockstep import Lockstep
from .masks import Ints, masked_log_softmax, sample
from .optimisers import Adam
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


def shown(
    game: Lockstep, network: PolicyNetwork, rng: np.random.Generator
) -> tuple[Stored, Ints]:
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
    observations: Stored,
    actions: Ints,
    rng: np.random.Generator,
    *,
    epochs: int = 5,
    batch: int = 128,
    learning_rate: float = 0.003,
) -> float:
    """Make actions likelier that were shown, by Adam on the mean log-likelihood.

    Args:
        network: is changed.
        observations: (D, F) as its input layer keeps them.
        actions: (D,) what was done.
        rng: draws the order, anew for each epoch.
        epochs: how often all are gone through.
        batch: observations a step.
        learning_rate: of Adam.

    Returns:
        The share of the actions that are the network's likeliest ones now.
    """
    optimiser = Adam(learning_rate)
    for _ in range(epochs):
        order = rng.permutation(len(actions))
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            slope = -np.exp(masked_log_softmax(network.logits(observations[rows])))
            slope[np.arange(len(rows)), actions[rows]] += 1
            slope /= np.float32(len(rows))
            optimiser.ascend(network.weights, network.gradient(observations[rows], slope))
            network.refresh()
    return float((network.logits(observations).argmax(axis=1) == actions).mean())
