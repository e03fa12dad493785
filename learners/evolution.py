"""Evolution: searches for the weights of a small scorer by the returns of whole episodes.

N. Hansen, "The CMA evolution strategy: a tutorial" (2016); for many weights, T. Salimans, J. Ho,
X. Chen, S. Sidor and I. Sutskever, "Evolution strategies as a scalable alternative to reinforcement
learning" (2017). A return is compared with that of the untrained agent, which takes the first
action that is allowed, on the same slice of the workload. All candidates of a generation play the
same slices, with the same draws, so that luck does not decide between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.common.arguments import Positive, attempt, read_arguments
from simkit.learners.common.bundle import safetensors
from simkit.learners.common.evolution import AntitheticEvolution, CMAEvolution, Evolution
from simkit.learners.common.games import NOTHING_DONE, Games, Source, results_of
from simkit.learners.common.inference import PlainNetwork, plain_network, weight_sizes
from simkit.learners.common.shapes import (
    PerceptronShape,
    SetScorerShape,
    TablePerceptronShape,
    Width,
)
from simkit.learners.common.training import SeededTraining, Stateful
from simkit.learners.games.choice import GamesArguments, games_of, usual_numbers
from simkit.scenario import Scenario
from simkit.sections import Count
from simkit.training import Training

MOST_WEIGHTS: Final = 1000
"""CMA-ES keeps a covariance of all weights, which takes too long for more."""
USUAL: Final = {"job_sets": 12, "held_out_sets": 40, "max_decisions": 5_000}
"""Defaults for simulations, which take longer than job sets in lock-step."""

Weights = dict[str, npt.NDArray[np.float32]]


class EvolutionArguments(GamesArguments):
    """The keys of `learn.arguments`."""

    iterations: Count = 60
    """Generations of the search."""
    job_sets: Count = 60
    """New slices per generation, over all loads: job sets, or windows of a log."""
    candidates: Annotated[int, Field(ge=4, multiple_of=2)] = 16
    """Candidates of a generation; each plays every slice once."""
    hidden: Width = 4
    """Units of each layer."""
    search: Literal["cma", "antithetic"] | None = None
    """CMA-ES, or a gradient that is estimated from pairs of opposite steps; null: CMA-ES for up to
    1000 weights."""
    spread: Positive | None = None
    """Initial standard deviation of the weights; null: 0.3, or 0.1 for pairs of opposite steps."""
    learning_rate: Positive = 0.05
    """With `search: antithetic`, the learning rate."""
    averaged: Count = 10
    """With CMA-ES, number of the last generations whose means are averaged for the agent."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that no agent can play, arguments out
    of range, or a device other than the CPU; PluginError without safetensors or cma.
    """
    safetensors()
    problems: list[str] = []
    if device != "cpu":
        problems.append(f"device: is {device}; this learner runs on the cpu")
    given = {**usual_numbers(scenario, USUAL, arguments), **arguments}
    chosen = (
        attempt(lambda: read_arguments(EvolutionArguments, given), problems) or EvolutionArguments()
    )
    source = attempt(lambda: games_of(scenario, chosen, "evolution", chosen.job_sets), problems)
    if problems or source is None:
        raise ScenarioError(problems)
    return EvolutionTraining(scenario, source, chosen, seed)


class EvolutionTraining(SeededTraining):
    """A training by an evolution strategy."""

    learner = "evolution"
    extendable = True

    def __init__(
        self, scenario: Scenario, source: Source[Any], arguments: EvolutionArguments, seed: int
    ) -> None:
        super().__init__(scenario, arguments, seed, ("job_sets", "actions", "steps"))
        self.chosen = arguments
        # Environment
        self.source = source
        self.unseen = source.held_out(arguments.held_out_sets)
        self.criterion = source.criterion
        # Agent
        shape = source.scorer(arguments.hidden)
        if isinstance(shape, TablePerceptronShape):
            raise ScenarioError(
                "learn.arguments.observation: is deeprm-image, whose pixels need more weights than "
                "can be searched; take deeprm-compact"
            )
        self.genes = Genes(shape, self.stream("weights"))
        self.search = self._search()

    def _search(self) -> Evolution:
        chosen, start = self.chosen, self.genes.start
        kind = chosen.search or ("cma" if len(start) <= MOST_WEIGHTS else "antithetic")
        if kind == "cma":
            return CMAEvolution(
                start, spread=chosen.spread or 0.3, seed=self.seed, candidates=chosen.candidates,
                averaged=chosen.averaged,
            )  # fmt: skip
        return AntitheticEvolution(
            start, spread=chosen.spread or 0.1, rate=chosen.learning_rate,
            pairs=chosen.candidates // 2, rng=self.generators["steps"],
        )  # fmt: skip

    def parts(self) -> Mapping[str, Stateful]:
        return {"search": self.search}

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``return``: mean return of an episode; ``gain``: mean over slices and candidates of how much
        better they are than the untrained agent, see `gains`; ``gain_best``: that of the best
        candidate; ``decisions``: of all candidates; ``slowdown``, ``unfinished``: over all jobs.
        If no slice has a job, nothing is learned, and only `NOTHING_DONE` is returned.
        """
        chosen = self.chosen
        slices = self.source.draw(self.generators["job_sets"], chosen.job_sets)
        # Rollout: the untrained agent and all candidates play the same slices
        games = self.source.games(slices, 1 + chosen.candidates)
        if not len(games.active):
            return NOTHING_DONE
        candidates = self.search.ask()
        networks = [self.genes.network(one) for one in (self.genes.start, *candidates)]
        played = play(games, networks, self._draws())
        # Update
        scores = gains(played.returns[:, 1:], played.returns[:, :1]).mean(axis=0)
        self.search.tell(scores)
        # Logging
        results = games.outcome()
        return {
            "return": float(played.returns[:, 1:].mean()),
            "gain": float(scores.mean()),
            "gain_best": float(scores.max()),
            **{name: results[name] for name in ("slowdown", "unfinished") if name in results},
            "decisions": float(played.decisions),
        }

    def _draws(self) -> np.random.Generator | None:
        """Return the generator of actions; None: the likeliest are taken, as by the agent."""
        return None if self.source.greedy else self.generators["actions"]

    def held_out(self) -> Mapping[str, float]:
        """Evaluate the agent on the held-out slices; see `outcome`.

        Agents that draw their actions do so with the same draws in every evaluation. See
        `results_of`.
        """
        games = self.source.games(self.unseen)
        rng = None if self.source.greedy else self.stream("held_out")
        mean = float(play(games, [self.genes.network(self.search.mean)], rng).returns.mean())
        return results_of(games, self.criterion, mean)

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        weights, description = (
            self.genes.weights(self.search.mean),
            self.source.describe(self.genes.shape),
        )
        self.write_weights(folder, weights, description, curve_end)


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
        sizes = [self._fixed[name].size for name in self._names]
        parts = np.split(genes, np.cumsum(sizes)[:-1])
        found = dict(zip(self._names, parts, strict=True))
        return {
            name: found.get(name, fixed).reshape(fixed.shape).astype(np.float32)
            for name, fixed in self._fixed.items()
        }

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
