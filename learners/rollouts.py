"""Rollouts: many episodes played to their ends with one policy, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from simkit.slotted import SlottedView

from .input_layers import Stored
from .lockstep import Lockstep
from .masks import Array, Ints, masked_log_softmax, sample
from .policy_network import PolicyNetwork

Floats = npt.NDArray[np.float64]
Choose = Callable[[SlottedView], Ints]
"""Returns an action for each active replica, (A,), from what it sees."""


@dataclass(frozen=True)
class Rollouts:
    """D decisions in N episodes, the longest of T decisions; in order of decision, then episode."""

    stored: Stored
    """(D, F) observations, as the network's input layer keeps them."""
    log_probabilities: Array
    """(D, actions) of the policy that played; -inf for actions that were masked."""
    actions: Ints
    """(D,) what was drawn."""
    decision: Ints
    """(D,) the decision's number within its episode, from 0."""
    episode: Ints
    """(D,) the episode."""
    rewards: Floats
    """(T, N) reward of each decision; 0 after an episode's end."""


def roll_out(
    game: Lockstep, network: PolicyNetwork, rng: np.random.Generator, *, mask: bool = False
) -> Rollouts:
    """Play the active episodes of a game to their ends, actions drawn from the policy.

    Args:
        game: as it was made or reset; it has the results afterwards.
        network: the policy.
        rng: one number of it for each decision.
        mask: whether actions that would do nothing are ruled out, the void action aside.
    """
    kept: list[tuple[Stored, Array, Ints, Ints]] = []
    rewards: list[Floats] = []
    games = len(game.decisions)
    while len(active := game.active):
        stored = network.first.stored(game.view())
        allowed = game.mask() if mask else None
        log_probabilities = masked_log_softmax(network.logits(stored), allowed)
        actions = sample(log_probabilities, rng)
        kept.append((stored, log_probabilities, actions, active))
        rewards.append(np.zeros(games))
        rewards[-1][active] = game.step(actions)
    if not kept:
        kept.append(_nothing(game, network))
    stored, log_probabilities, actions, episode = (
        np.concatenate(parts) for parts in zip(*kept, strict=True)
    )
    decision = np.repeat(np.arange(len(kept)), [len(part[2]) for part in kept])
    return Rollouts(
        stored, log_probabilities, actions, decision, episode,
        np.array(rewards).reshape(-1, games),
    )  # fmt: skip


def _nothing(game: Lockstep, network: PolicyNetwork) -> tuple[Stored, Array, Ints, Ints]:
    """Return the parts of a decision of no episode: all sets were empty."""
    stored = network.first.stored(game.view())
    return stored, network.logits(stored), game.active, game.active


def play(game: Lockstep, choose: Choose) -> Floats:
    """Play the active episodes to their ends and keep nothing; return (N,) sums of rewards."""
    total = np.zeros(len(game.decisions))
    while len(active := game.active):
        total[active] += game.step(choose(game.view()))
    return total


def chooser(
    network: PolicyNetwork,
    game: Lockstep,
    rng: np.random.Generator,
    *,
    mask: bool = False,
    choose: Literal["sample", "greedy"] = "sample",
) -> Choose:
    """Return what plays a game with a network: actions drawn, or always the likeliest.

    The likeliest action may leave a job where it is for ever, so that the episode does not end:
    give such a game a limit, and count what is unfinished.
    """

    def decide(view: SlottedView) -> Ints:
        allowed = game.mask() if mask else None
        log_probabilities = masked_log_softmax(network.logits(network.first.stored(view)), allowed)
        if choose == "greedy":
            likeliest: Ints = log_probabilities.argmax(axis=1)
            return likeliest
        return sample(log_probabilities, rng)

    return decide
