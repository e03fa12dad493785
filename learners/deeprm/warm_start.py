"""A warm start: a network learns to act as shortest-job-first does, before REINFORCE.

It learns what is right in the states that it reaches by its own actions: S. Ross, G. Gordon and
D. Bagnell, "A reduction of imitation learning and structured prediction to no-regret online
learning" (2011). From the states of shortest-job-first alone, as in DeepRM's program, it learns
mostly to wait, and after a wrong action it keeps waiting: 95 % of its actions are then right, and
jobs are slowed down several times more than by random actions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simkit.arrays import Ints
from simkit.learners.lockstep import Lockstep
from simkit.learners.nn.input_layers import Stored
from simkit.learners.nn.optimisers import Adam
from simkit.learners.nn.perceptron import Weights, masked_log_softmax, sample
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learning.slotted import SlottedView


def shortest_first(game: Lockstep, view: SlottedView) -> Ints:
    """Return (A,) the actions of shortest-job-first, which places only tasks that fit now.

    Of equally short tasks it takes the one in the lowest slot; if none fits, the void action.
    """
    endless = np.iinfo(np.int64).max
    length = np.where(game.fits_now(), view.length.astype(np.int64), endless)
    slot = length.argmin(axis=1)
    none = np.take_along_axis(length, slot[:, None], 1)[:, 0] == endless
    return np.where(none, game.model.slots, slot)


def labelled_decisions(
    game: Lockstep, network: PolicyNetwork, rng: np.random.Generator
) -> tuple[Stored, Ints]:
    """Play a game to its end with the network; label each decision with the right action.

    Returns:
        (D, F) observations as the network's input layer keeps them, and (D,) the actions that
        shortest-job-first would have taken.
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
    """Play games, and after each make the right actions likelier: Adam on the log-likelihood.

    Args:
        network: its weights are changed.
        games: fresh ones, of some hundred job sets each.
        rng: draws the actions, and the order of the decisions to learn from.
        batch: decisions a step.
        learning_rate: of Adam.

    Returns:
        The share of the last game's decisions at which the network's likeliest action was right,
        before it learned from them; nan without a game.
    """
    optimiser, right = Adam(learning_rate), float("nan")
    for game in games:
        observations, actions = labelled_decisions(game, network, rng)
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
