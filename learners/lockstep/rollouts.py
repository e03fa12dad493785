"""Rollouts: episodes played to their ends, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep import Lockstep
from simkit.learners.nn.input_layers import Stored
from simkit.learners.nn.perceptron import Array, masked_log_softmax, sample
from simkit.learners.nn.policy_network import PolicyNetwork
from simkit.learning.slotted import SlottedView

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
        game: newly made or reset; it has the results afterwards.
        network: the policy.
        rng: draws one number for each decision.
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
    """Return empty parts, for the case that all sets are empty."""
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
    """Return a function that plays a game with a network: actions drawn, or always the likeliest.

    The likeliest action may never place a job, so that the episode does not end: give such a game a
    limit, and count unfinished jobs.
    """

    def decide(view: SlottedView) -> Ints:
        allowed = game.mask() if mask else None
        log_probabilities = masked_log_softmax(network.logits(network.first.stored(view)), allowed)
        if choose == "greedy":
            likeliest: Ints = log_probabilities.argmax(axis=1)
            return likeliest
        return sample(log_probabilities, rng)

    return decide


NOTHING_DONE: Final[Mapping[str, float]] = MappingProxyType(
    {"return": 0.0, "unfinished": 0.0, "decisions": 0.0}
)
"""The numbers of an iteration whose job sets are empty."""


def outcome(game: Lockstep) -> dict[str, float]:
    """Return figures over all jobs of all episodes, whether or not they were admitted or ended.

    A job that did not end within its episode counts as unfinished, with its slowdown at the
    episode's end, at least 1.

    Returns:
        ``slowdown``: mean over all jobs; ``slowdown_of_sets``: mean over the episodes that have
        jobs of their mean slowdowns; ``turnaround_steps``: mean over all jobs, unfinished ones up
        to the episode's end; ``jobs``; ``unfinished``; ``decisions``: mean of an episode.
    """
    length, enter, there = _jobs(game)
    end = enter[:, :1] + game.steps[:, None]  # (N, 1) the step at which an episode is over
    done = (game.finish >= 0) & (game.finish <= end)
    until = np.where(done, game.finish, np.maximum(end, enter + length))
    slowdown = np.where(there, (until - enter) / np.maximum(length, 1), 0.0)
    jobs = there.sum(axis=1)
    some = jobs > 0
    return {
        "slowdown": _share(slowdown.sum(), jobs.sum()),
        "slowdown_of_sets": _share((slowdown.sum(axis=1)[some] / jobs[some]).sum(), some.sum()),
        "turnaround_steps": _share(np.where(there, until - enter, 0).sum(), jobs.sum()),
        "jobs": float(jobs.sum()),
        "unfinished": float((there & ~done).sum()),
        "decisions": float(game.decisions.mean()),
    }


def _jobs(game: Lockstep) -> tuple[Ints, Ints, Bools]:
    """Return (N, J) lengths and steps of arrival, and whether there is a job, by episode."""
    sets = np.arange(len(game.decisions)) // game.replicas
    return game.job_sets.length[sets], game.job_sets.enter[sets], game.job_sets.there[sets]


def _share(total: float, count: int) -> float:
    return float(total / count) if count else float("nan")
