"""A warm start: a network first learns to do what the best of some simple rules would do.

It learns the right actions in the states that its own actions lead to: S. Ross, G. Gordon and
D. Bagnell, "A reduction of imitation learning and structured prediction to no-regret online
learning" (2011). From the states of the rule alone it would not know what to do after a wrong
action of its own. A training that begins at a rule has its quality from the start, and spends its
games on what can be better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final

import numpy as np
import torch

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.learners.common.games import Games, Rule, Source
from simkit.learners.common.rollouts import Batch, minibatches
from simkit.learners.networks.build import Network
from simkit.learners.networks.distributions import log_probability, masked_log_softmax, sample
from simkit.learners.networks.optimisers import take_step

__all__ = [
    "best_rule", "imitate", "imitate_best", "labelled_decisions", "refuse_without_teachers",
]  # fmt: skip

SETS: Final = 3
"""Rules are compared, and rounds are played, on this many times the slices of an iteration."""
PASSES: Final = 2
"""Passes over the decisions of a round."""
BATCH: Final = 256
"""Decisions per step of Adam."""
LEARNING_RATE: Final = 0.002
"""Learning rate of Adam."""


def refuse_without_teachers(source: Source[Any], rounds: int) -> None:
    """Raise ScenarioError if a warm start is asked for, but no rule can play the games."""
    if rounds and not source.teachers:
        raise ScenarioError(
            f"learn.arguments.warm_start: is {rounds}, but there is no simple rule to imitate in "
            "these games; leave it out"
        )


def imitate_best(
    network: Network, source: Source[Any], rng: np.random.Generator, rounds: int, job_sets: int,
    device: str = "cpu",
) -> Mapping[str, float]:  # fmt: skip
    """Train a network in place to do what the best of the source's rules would do, if it has any.

    Args:
        network: the agent's.
        source: of the games.
        rng: draws slices, actions, and the order of the decisions to learn from.
        rounds: of games; 0: nothing is done.
        job_sets: slices of an iteration of the training.
        device: of the network.

    Returns:
        See `imitate`; empty if nothing was done.
    """
    if not rounds or not source.teachers:
        return {}
    count = SETS * job_sets
    rule = source.teachers[best_rule(source, source.draw(rng, count))]
    played = (source.games(source.draw(rng, count)) for _ in range(rounds))
    return imitate(network, played, rule, rng, device)


def best_rule(source: Source[Any], slices: Any) -> str:
    """Return the name of the source's rule with the highest returns on some slices.

    A slice's returns count as shares of the largest of them, so that all slices count alike.
    """
    if len(source.teachers) == 1:
        return next(iter(source.teachers))
    returns = {name: _returns(source.games(slices), rule) for name, rule in source.teachers.items()}
    table = np.array(list(returns.values()))  # (rules, slices)
    unit = np.abs(table).max(axis=0)
    scores = (table / np.where(unit > 0, unit, 1.0)).mean(axis=1)
    return list(returns)[int(scores.argmax())]


def _returns(games: Games, rule: Rule) -> Floats:
    """Return (N,) returns of a rule."""
    returns = np.zeros(len(games.steps))
    while len(active := games.active):
        returns[active] += games.step(rule(games))
    return returns


def imitate(
    network: Network, rounds: Iterable[Games], rule: Rule, rng: np.random.Generator,
    device: str = "cpu",
) -> Mapping[str, float]:  # fmt: skip
    """Train a network in place to do what a rule would do.

    The rule plays the first round, and the network the others.

    Args:
        network: the agent's.
        rounds: new games; the network learns after each of these.
        rule: that it learns.
        rng: draws actions, and the order of the decisions to learn from.
        device: of the network.

    Returns:
        ``imitated``: the share of the last round's decisions at which the likeliest action was the
        rule's, before the network learned from them.
    """
    optimiser, right = torch.optim.Adam(network.parameters(), LEARNING_RATE), 0.0
    for number, games in enumerate(rounds):
        played = labelled_decisions(games, rule, network if number else None, rng, device)
        if not len(played):
            continue
        with torch.inference_mode():
            likeliest = masked_log_softmax(network(played.seen), played.allowed).argmax(dim=1)
            right = float((likeliest == played.actions).double().mean())
        for part in minibatches(played, BATCH, PASSES, rng):
            log_probs = masked_log_softmax(network(part.seen), part.allowed)
            take_step(optimiser, -log_probability(log_probs, part.actions).mean(), inf)
    return {"imitated": right}


def labelled_decisions(
    games: Games, rule: Rule, network: Network | None, rng: np.random.Generator, device: str = "cpu"
) -> Batch:
    """Play games to their ends by a network, or by the rule; return the rule's choices.

    Decisions that leave no choice are left out.
    """
    rows: list[tuple[np.ndarray[Any, Any], ...]] = []
    with torch.inference_mode():
        while len(games.active):
            seen, allowed, wanted = games.observe(), games.mask(), rule(games)
            taken = wanted
            if network is not None:
                logits = network(torch.from_numpy(seen).to(device))
                log_probs = masked_log_softmax(logits, torch.from_numpy(allowed).to(device))
                taken = sample(log_probs, rng)
            choice = allowed.sum(axis=1) > 1
            rows.append((seen[choice], allowed[choice], wanted[choice]))
            games.step(taken)
    columns = [torch.from_numpy(np.concatenate(column)) for column in zip(*rows, strict=True)]
    nothing = torch.zeros(len(columns[0]))
    return Batch(*[column.to(device) for column in (*columns, nothing, nothing, nothing)])
