"""Evolution: searches for the weights of a scorer by how whole schedules turn out.

N. Hansen, "The CMA evolution strategy: a tutorial" (2016); for many weights, T. Salimans, J. Ho,
X. Chen, S. Sidor and I. Sutskever, "Evolution strategies as a scalable alternative to reinforcement
learning" (2017). All candidates of a generation are scored on the same slices of the workload, with
the same draws, so that luck does not decide between them. What gets the weights, and what they are
worth, is a `Problem`: a network that plays any scenario, a scorer of the jobs of a pool, or one of
pairs of a machine and a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, stream
from simkit.learners.common.arguments import prepared
from simkit.learners.common.evolution import (
    AntitheticEvolution,
    CMAEvolution,
    Evolution,
    SearchArguments,
)
from simkit.learners.common.games import NOTHING_DONE
from simkit.learners.common.training import SeededTraining, Stateful
from simkit.learners.games.choice import usual_numbers
from simkit.learners.games.network_search import USUAL, NetworkProblem
from simkit.learners.scorers.search import JobProblem, PairProblem
from simkit.scenario import Scenario
from simkit.training import Training

MOST_WEIGHTS: Final = 1000
"""CMA-ES keeps a covariance of all weights, which takes too long for more."""

Drawn = TypeVar("Drawn")
Weights = Mapping[str, npt.NDArray[np.float32]]


class Problem(Protocol[Drawn]):
    """P weights to find, and what they are worth on slices of a workload."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the generators of random numbers with which it draws."""

    @property
    def start(self) -> Floats:
        """(P,) the weights at which the search begins."""

    @property
    def criterion(self) -> str:
        """The held-out metric by which agents are compared."""

    @property
    def held_out_metrics(self) -> tuple[str, ...]:
        """Names of the held-out metrics."""

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        """See `SeededTraining.metrics_of_runs`."""

    def draw(self, generators: Mapping[str, np.random.Generator], /) -> Drawn | None:
        """Return fresh slices, never held-out ones; None if there is nothing to do in them."""

    def score(
        self, candidates: Floats, drawn: Drawn, generators: Mapping[str, np.random.Generator], /
    ) -> tuple[Floats, Mapping[str, float]]:
        """Return (K,) scores of (K, P) candidates, higher is better, and numbers to log."""

    def judge(self, weights: Floats, rng: np.random.Generator, /) -> Mapping[str, float]:
        """Return the metrics of (P,) weights on the held-out slices, empty if there are none.

        `rng` draws actions, the same in every evaluation.
        """

    def agent(self, weights: Floats, /) -> tuple[Weights, Mapping[str, Any]]:
        """Return the arrays and the description of the agent with (P,) weights, for a bundle."""


PROBLEMS: Final[Mapping[str, Any]] = {
    "network": NetworkProblem, "jobs": JobProblem, "pairs": PairProblem,
}  # fmt: skip
"""`scorer` → its problem: a class with a model of its `arguments`, and what it learns from, as
`source_of` returns it for a scenario and arguments; made from these and a generator, which draws
the first weights."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu",
    learner: str = "evolution",
) -> Training:  # fmt: skip
    """Return a new training; an entry point of ``simkit.learners``.

    `learner` is the name of a recipe, see `simkit.learners.recipes`.

    Raises ScenarioError, all problems at once, for a scenario that does not suit the scorer,
    arguments out of range, or a device that is missing or not for this scorer (only jobs are played
    on a GPU); PluginError without safetensors, cma or, for jobs and pairs, numba.
    """
    kind = PROBLEMS.get(str(arguments.get("scorer")), NetworkProblem)
    usual = usual_numbers(scenario, USUAL, arguments) if kind is NetworkProblem else {}
    chosen, source = prepared(
        kind.arguments, {**usual, **arguments},
        lambda chosen: kind.source_of(scenario, chosen), device, kind.device,
    )  # fmt: skip
    problem = kind(source, chosen, stream(seed, f"{learner}.weights"))
    if device == "cuda":
        problem.play_on_gpu()
    return EvolutionTraining(scenario, problem, chosen, seed, learner)


class EvolutionTraining(SeededTraining):
    """A training by an evolution strategy."""

    learner = "evolution"
    extendable = True
    chosen: SearchArguments

    def __init__(
        self, scenario: Scenario, problem: Problem[Any], chosen: SearchArguments, seed: int,
        learner: str,
    ) -> None:  # fmt: skip
        # Environment
        super().__init__(scenario, chosen, seed, (*problem.streams, "steps"), learner)
        self.problem, self.criterion = problem, problem.criterion
        # Agent
        self.search = self._search()

    @property
    def held_out_metrics(self) -> tuple[str, ...]:
        return self.problem.held_out_metrics

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        return self.problem.metrics_of_runs

    def _search(self) -> Evolution:
        chosen, start = self.chosen, self.problem.start
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
        """Return numbers to log: ``return`` and those of the problem's `score`.

        If no slice has a job, nothing is learned, and only `NOTHING_DONE` is returned.
        """
        # Rollout: every candidate plays the same slices
        drawn = self.problem.draw(self.generators)
        if drawn is None:
            return NOTHING_DONE
        candidates = self.search.ask()
        scores, logged = self.problem.score(candidates, drawn, self.generators)
        # Update
        self.search.tell(scores)
        # Logging
        return {"return": float(scores.mean()), **logged}

    def held_out(self) -> Mapping[str, float]:
        return self.problem.judge(self.search.mean, self.stream("held_out"))

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        weights, description = self.problem.agent(self.search.mean)
        self.write_weights(folder, weights, description, curve_end)
