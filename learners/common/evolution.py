"""Evolution strategies: search for weights by their scores, without gradients.

    search = CMAEvolution(start, spread=0.5, seed=0)
    for _ in range(generations):
        search.tell([score(weights) for weights in search.ask()])
    best = search.mean

Higher scores are better. Score all candidates of a generation on the same instances of the workload
(common random numbers), so that luck does not decide between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.stats import rankdata

from simkit.arrays import Floats
from simkit.errors import PluginError
from simkit.learners.common.arguments import Positive
from simkit.sections import Count, Section

__all__ = ["AntitheticEvolution", "CMAEvolution", "Evolution", "SearchArguments"]


class SearchArguments(Section):
    """How weights are searched for; a part of the arguments of `evolution`."""

    scorer: Literal["network", "jobs", "pairs"] = "network"
    """What gets the weights: a network that plays any scenario; a scorer of the waiting jobs of one
    pool of processors; or one of pairs of a machine and a task, for bags of tasks."""
    iterations: Count = 60
    """Generations of the search."""
    job_sets: Count = 60
    """New slices per generation: job sets over all loads, windows of a log, or chunks of jobs. All
    candidates are scored on the same ones."""
    candidates: Annotated[int, Field(ge=4, multiple_of=2)] = 16
    """Candidates of a generation; each plays every slice once."""
    search: Literal["cma", "antithetic"] | None = None
    """CMA-ES, or a gradient that is estimated from pairs of opposite steps; null: CMA-ES for up to
    1000 weights."""
    spread: Positive | None = None
    """Initial standard deviation of the weights; null: 0.3, or 0.1 for pairs of opposite steps."""
    learning_rate: Positive = 0.05
    """With `search: antithetic`, the learning rate."""
    averaged: Count = 10
    """With CMA-ES, number of the last generations whose means are averaged for the agent."""


class Evolution(Protocol):
    """A search for the P weights with the highest score, generation by generation."""

    @property
    def mean(self) -> Floats:
        """(P,) the centre of the search: its result so far."""

    def ask(self) -> Floats:
        """Return (K, P) the candidates of a generation."""

    def tell(self, scores: npt.ArrayLike, /) -> None:
        """Take the scores, (K,), of the candidates that `ask` returned last."""

    def state(self) -> dict[str, Any]:
        """Return the state between two generations, as arrays and plain values."""

    def restore(self, state: Mapping[str, Any], /) -> None:
        """Restore what `state` returned."""


class AntitheticEvolution:
    """Follows the gradient of the scores, estimated from pairs of opposite steps.

    T. Salimans, J. Ho, X. Chen, S. Sidor and I. Sutskever, "Evolution strategies as a scalable
    alternative to reinforcement learning" (2017): the mean moves by rate / (K · spread) · Σ u · ε,
    where u are the candidates' ranks, from -1/2 to 1/2, and ε their standard normal steps.
    """

    def __init__(
        self, start: npt.ArrayLike, *, spread: float, rate: float, pairs: int,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        """Start the search at (P,) weights.

        Args:
            start: the initial mean.
            spread: standard deviation of a candidate's weights about the mean.
            rate: learning rate of the mean.
            pairs: K / 2.
            rng: draws the steps; `state` does not include it, so the caller must save it.
        """
        self._mean = np.array(start, np.float64)
        self._spread, self._rate, self._pairs, self._rng = spread, rate, pairs, rng
        self._steps: Floats = np.zeros((0, len(self._mean)))

    @property
    def mean(self) -> Floats:
        return self._mean.copy()

    def ask(self) -> Floats:
        half = self._rng.standard_normal((self._pairs, len(self._mean)))
        self._steps = np.concatenate((half, -half))
        return self._mean + self._spread * self._steps

    def tell(self, scores: npt.ArrayLike) -> None:
        ranks = rankdata(np.asarray(scores)) - 1  # equal scores share their mean rank
        weights = ranks / max(len(ranks) - 1, 1) - 0.5
        self._mean += self._rate / (len(ranks) * self._spread) * (weights @ self._steps)

    def state(self) -> dict[str, Any]:
        return {"mean": self._mean.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._mean = np.array(state["mean"], np.float64)


class CMAEvolution:
    """Adapts the covariance of its steps to the scores: CMA-ES, by the library cma.

    N. Hansen, "The CMA evolution strategy: a tutorial" (2016). Good for up to some hundred weights.
    The same seed and scores give the same candidates, so the scores so far are its state.
    """

    def __init__(
        self, start: npt.ArrayLike, *, spread: float, seed: int, candidates: int | None = None,
        averaged: int = 1,
    ) -> None:  # fmt: skip
        """Start the search at (P,) weights.

        Args:
            start: the initial mean.
            spread: initial standard deviation of a candidate's weights about the mean.
            seed: seed of all random numbers, from 0.
            candidates: K; None: 4 + 3 log P.
            averaged: number of the last generations whose means `mean` averages. If each generation
                is scored on other instances of the workload, the mean of a single one owes much to
                luck.
        """
        self._averaged = averaged
        self._start, self._spread, self._seed = np.array(start, np.float64), spread, seed
        self._options = {} if candidates is None else {"popsize": candidates}
        self._begin()

    def _begin(self) -> None:
        try:
            import cma
        except ModuleNotFoundError as error:
            raise PluginError(
                "CMA-ES needs cma, which is not installed; pip install 'simkit-cluster[learn]'"
            ) from error

        def randn(*size: int) -> Floats:  # not NumPy's global generator, which others use as well
            return rng.standard_normal(size)

        rng = np.random.default_rng(self._seed)
        options = {"seed": np.nan, "randn": randn, "verbose": -9, **self._options}
        self._search = cma.CMAEvolutionStrategy(self._start, self._spread, options)
        self._candidates: Sequence[Floats] = ()
        self._scores: list[list[float]] = []
        self._means: deque[Floats] = deque(maxlen=self._averaged)

    @property
    def mean(self) -> Floats:
        return np.mean(self._means, axis=0) if self._means else self._start.copy()

    def ask(self) -> Floats:
        self._candidates = self._search.ask()
        return np.array(self._candidates)

    def tell(self, scores: npt.ArrayLike) -> None:
        latest = np.asarray(scores, np.float64).tolist()
        self._scores.append(latest)
        self._search.tell(self._candidates, [-score for score in latest])
        self._means.append(np.array(self._search.mean))

    def state(self) -> dict[str, Any]:
        return {"told": np.array(self._scores)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._begin()
        for scores in state["told"]:
            self.ask()
            self.tell(scores)
