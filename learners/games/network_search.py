"""A network whose weights are searched for: it is worth the returns of the games that it plays.

A return is compared with that of the untrained network, which takes the first action that is
allowed, on the same slice of the workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.common.evolution import SearchArguments
from simkit.learners.common.games import Games, Source, logged, results_of
from simkit.learners.games.choice import GamesArguments, games_of
from simkit.learners.networks.inference import (
    PlainNetwork,
    plain_network,
    split_weights,
    weight_sizes,
)
from simkit.learners.networks.shapes import (
    PerceptronShape,
    SetScorerShape,
    TablePerceptronShape,
    Width,
)
from simkit.scenario import Scenario

__all__ = ["USUAL", "Genes", "NetworkProblem", "gains", "play"]

USUAL: Final = {"job_sets": 8, "held_out_sets": 20, "max_decisions": 5_000}
"""Defaults for simulations, which take longer than job sets in lock-step."""

Weights = dict[str, npt.NDArray[np.float32]]
Generators = Mapping[str, np.random.Generator]


class NetworkArguments(SearchArguments, GamesArguments):
    """The keys of `learn.arguments` with `scorer: network`."""

    hidden: Width = 4
    """Units of each layer."""


class NetworkProblem:
    """The weights of a network, and the games that it plays; a `Problem`."""

    arguments: ClassVar = NetworkArguments
    device: ClassVar = None
    streams: ClassVar = ("job_sets", "actions")

    @staticmethod
    def source_of(scenario: Scenario, chosen: NetworkArguments) -> Source[Any]:
        """Return the games; raises ScenarioError for those that a small network cannot play."""
        source = games_of(scenario, chosen, "evolution", chosen.job_sets)
        if isinstance(source.scorer(chosen.hidden), TablePerceptronShape):
            raise ScenarioError(
                "learn.arguments.observation: is deeprm-image, whose pixels need more weights than "
                "can be searched; take deeprm-compact"
            )
        return source

    def __init__(
        self, source: Source[Any], arguments: NetworkArguments, rng: np.random.Generator
    ) -> None:
        self.source, self.chosen = source, arguments
        self.unseen = source.held_out(arguments.held_out_sets)
        self.genes = Genes(source.scorer(arguments.hidden), rng)

    @property
    def start(self) -> Floats:
        return self.genes.start

    @property
    def criterion(self) -> str:
        return self.source.criterion

    @property
    def held_out_metrics(self) -> tuple[str, ...]:
        return tuple(getattr(self.source, "held_out_metrics", ()))

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        return getattr(self.source, "metrics_of_runs", {})

    def draw(self, generators: Generators) -> Games | None:
        """Return the games of all candidates and of the untrained network."""
        slices = self.source.draw(generators["job_sets"], self.chosen.job_sets)
        games = self.source.games(slices, 1 + self.chosen.candidates)
        return games if len(games.active) else None

    def score(
        self, candidates: Floats, drawn: Games, generators: Generators
    ) -> tuple[Floats, Mapping[str, float]]:
        """Return (K,) mean gains over slices, see `gains`, and numbers to log.

        ``return``: mean return of an episode; ``gain``, ``gain_best``: mean and best score;
        ``decisions``: of all candidates; ``slowdown``, ``unfinished``: over all jobs.
        """
        networks = [self.genes.network(one) for one in (self.start, *candidates)]
        rng = None if self.source.greedy else generators["actions"]
        played = play(drawn, networks, rng)
        scores = gains(played.returns[:, 1:], played.returns[:, :1]).mean(axis=0)
        return scores, {
            **logged(drawn, float(played.returns[:, 1:].mean()), played.decisions),
            "gain": float(scores.mean()),
            "gain_best": float(scores.max()),
        }

    def judge(self, weights: Floats, rng: np.random.Generator) -> Mapping[str, float]:
        """Return how the network does in the held-out games; see `results_of`."""
        games = self.source.games(self.unseen)
        played = play(games, [self.genes.network(weights)], None if self.source.greedy else rng)
        return results_of(games, self.criterion, float(played.returns.mean()))

    def agent(self, weights: Floats) -> tuple[Weights, Mapping[str, Any]]:
        return self.genes.weights(weights), self.source.describe(self.genes.shape)


class Genes:
    """The weights of a network that are searched, as one list; the others stay as they are.

    Of a scorer of a set these are a layer of units for an item and its context, and a score of
    each unit; its further layers hand the units on. Of a perceptron they are all weights. At first,
    all scores are 0, so that the first allowed action is taken.
    """

    def __init__(self, shape: PerceptronShape | SetScorerShape, rng: np.random.Generator) -> None:
        """Draw the weights of the first layers with `rng`."""
        self.shape = shape
        self._fixed = {name: np.zeros(size) for name, size in weight_sizes(shape).items()}
        drawn = [name for name in self._fixed if name.endswith("weight")]
        if isinstance(shape, SetScorerShape):
            self._names = ["item.weight", "item.bias", "context.weight", "score.weight"]
            same = np.eye(shape.hidden)
            self._fixed["beside.weight"] = same
            if shape.others:  # they know the mean item, and the context
                self._names += ["other_score.weight", "other_score.bias"]
                self._fixed["other.weight"] = np.concatenate((same, same), axis=1)
            drawn = ["item.weight", "context.weight"]
        else:
            self._names, drawn = list(self._fixed), drawn[:-1]
        first = dict(self._fixed)
        for name in drawn:
            inputs = first[name].shape[0 if isinstance(shape, PerceptronShape) else 1]
            first[name] = rng.normal(0.0, inputs**-0.5, first[name].shape)
        self.start: Floats = np.concatenate([first[name].ravel() for name in self._names])
        """(P,) the weights that are searched, of the untrained agent."""

    def weights(self, genes: Floats) -> Weights:
        """Return the network's weights by name, given the (P,) weights that are searched."""
        searched = split_weights(genes, {name: self._fixed[name].shape for name in self._names})
        everything = {**self._fixed, **searched}  # in the order of the fixed ones
        return {name: array.astype(np.float32) for name, array in everything.items()}

    def network(self, genes: Floats) -> PlainNetwork:
        """Return the network with these weights."""
        return plain_network(self.shape, self.weights(genes))


class Played:
    """How K networks fared on S slices."""

    def __init__(self, slices: int, networks: int) -> None:
        self.returns: Floats = np.zeros((slices, networks))
        """(S, K)"""
        self.decisions = 0
        """Of all networks."""


def play(games: Games, networks: Sequence[PlainNetwork], rng: np.random.Generator | None) -> Played:
    """Play all episodes to their ends.

    Args:
        games: S · K episodes; episode n plays slice n // K.
        networks: K; network n % K plays episode n.
        rng: draws actions, alike for all networks; None: the likeliest actions are taken.
    """
    count = len(networks)
    played = Played(len(games.steps) // count, count)
    returns = played.returns.reshape(-1)  # (N,), a view
    while len(active := games.active):
        allowed = games.mask()
        logits = _logits(networks, active % count, games.observe(), allowed).astype(np.float64)
        if rng is not None:  # the largest of logits with Gumbel noise is a draw of their softmax
            noise = rng.gumbel(size=(len(played.returns), logits.shape[1]))
            logits += noise[active // count]
        returns[active] += games.step(np.where(allowed, logits, -np.inf).argmax(axis=1))
        played.decisions += len(active)
    return played


def _logits(
    networks: Sequence[PlainNetwork], own: Ints, seen: npt.NDArray[Any], allowed: Bools
) -> npt.NDArray[np.float32]:
    """Return (A, actions) logits, each row by its `own` network; 0 where there is no choice."""
    logits = np.zeros(allowed.shape, np.float32)
    choice = allowed.sum(axis=1) > 1
    for number, network in enumerate(networks):
        rows = np.flatnonzero((own == number) & choice)
        if len(rows):
            logits[rows] = network.logits(seen[rows])
    return logits


def gains(returns: Floats, before: Floats) -> Floats:
    """Return the differences of returns, as shares of the larger magnitude of the two.

    A slice in which all waits are long counts no more than one in which they are short. Half the
    cost is a gain of 0.5, twice the cost one of -0.5.

    Args:
        returns: (S, K) of any sign.
        before: (S, 1) to compare with.
    """
    unit = np.maximum(np.abs(returns), np.abs(before))
    result: Floats = (returns - before) / np.where(unit > 0, unit, 1.0)
    return result
