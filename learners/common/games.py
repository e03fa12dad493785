"""Games: N episodes that are played together, and where they come from; NumPy alone.

A learner plays whatever it is given:

    slices = source.draw(rng, 12)             # 12 problems, such as windows of a log
    games = source.games(slices, replicas=4)  # each is played 4 times
    while len(games.active):
        rewards = games.step(choose(games.observe(), games.mask()))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape

__all__ = [
    "NOTHING_DONE", "EndlessGames", "EndlessSource", "Games", "Rule", "Source", "logged",
    "mean_of", "results_of",
]  # fmt: skip

NOTHING_DONE: Final[Mapping[str, float]] = MappingProxyType({"unfinished": 0.0, "decisions": 0.0})
"""The numbers of an iteration whose slices are empty: there is no return."""

LOGGED: Final = ("slowdown", "unfinished", "load", "last_load", "last_reward")
"""What is logged of an outcome."""


class Games(Protocol):
    """N episodes that are played together; A of them are still active."""

    @property
    def active(self) -> Ints:
        """(A,) numbers of the active episodes, ascending."""

    @property
    def steps(self) -> Ints:
        """(N,) time steps that have passed in each episode; the same time for the same step."""

    @property
    def cut(self) -> Bools:
        """(N,) whether each episode was cut off before its end; what would follow is unknown."""

    def waiting(self) -> Ints:
        """Return (A,) how many jobs wait."""

    def observe(self) -> npt.NDArray[Any]:
        """Return (A, K) observations, as the network reads them."""

    def mask(self) -> Bools:
        """Return (A, actions) which actions are allowed."""

    def step(self, actions: Ints, /) -> Floats:
        """Take (A,) actions; return (A,) rewards. Episodes that end leave `active`."""

    def outcome(self) -> Mapping[str, float]:
        """Return how the jobs of all episodes fared, every job counted."""


Rule = Callable[[Any], Ints]
"""Returns (A,) the action of each active game; a simple rule that plays games of its own kind."""


def logged(games: Games, mean_return: float, decisions: int) -> dict[str, float]:
    """Return what every learner logs of the games of an iteration, which are over.

    Returns:
        ``return``: mean return of an episode; ``slowdown``, ``unfinished``: over all jobs, where
        the games tell them; ``load``, ``last_load``, ``last_reward``: where they are measured, see
        `simkit.learners.lockstep.MeteredLockstep`; ``decisions``: of all episodes.
    """
    results = games.outcome()
    told = {name: results[name] for name in LOGGED if name in results}
    return {"return": mean_return, **told, "decisions": float(decisions)}


def mean_of(numbers: Iterable[float]) -> float:
    """Return the mean of what was measured; not a number if nothing was."""
    measured = list(numbers)
    return float(np.mean(measured)) if measured else float("nan")


def results_of(games: Games, criterion: str, mean_return: float) -> dict[str, float]:
    """Return how an agent did in games that are over.

    Returns:
        The games' outcome; ``return``: mean return of an episode; and, where that is the criterion,
        ``cost``: minus it.
    """
    cost = {"cost": -mean_return} if criterion == "cost" else {}
    return {**games.outcome(), "return": mean_return, **cost}


class EndlessGames(Protocol):
    """N games that are played together and go on for ever; one that is over begins anew."""

    @property
    def active(self) -> Ints:
        """(N,) numbers of the games: 0 … N - 1."""

    @property
    def begun(self) -> Bools:
        """(N,) whether the last step ended with another game, so that its outcome is unknown."""

    @property
    def passed(self) -> Ints:
        """(N,) time steps that the last step took."""

    @property
    def cost(self) -> Floats:
        """(N,) what the last step cost."""

    def observe(self) -> npt.NDArray[Any]:
        """Return (N, K) observations, as the network reads them."""

    def mask(self) -> Bools:
        """Return (N, actions) which actions are allowed."""

    def step(self, actions: Ints, /) -> Floats:
        """Take (N,) actions; return (N,) rewards."""

    def state(self) -> dict[str, Any]:
        """Return the state of all games, a part of a checkpoint."""

    def restore(self, state: Mapping[str, Any], /) -> None:
        """Restore what `state` returned."""


Slices = TypeVar("Slices")


class Source(Protocol[Slices]):
    """Where a learner's games come from: slices of one workload, drawn or held out."""

    @property
    def greedy(self) -> bool:
        """Whether its agents take their likeliest action when they are judged, or draw one."""

    @property
    def criterion(self) -> str:
        """The held-out metric by which agents are compared, or ``cost``, minus the mean return."""

    @property
    def in_steps(self) -> bool:
        """Whether a slice's rollouts are compared at the same time step, else at the same decision.

        Time that does not pass in steps is never quite the same.
        """

    @property
    def relative(self) -> bool:
        """Whether rewards count as shares of their slice's mean return; see `credit`."""

    @property
    def teachers(self) -> Mapping[str, Rule]:
        """Simple rules that can play its games, by name; a warm start imitates the best of them."""

    def scorer(self, hidden: int) -> PerceptronShape | SetScorerShape:
        """Return the shape of a network over the observations, with `hidden` units per layer."""

    def draw(self, rng: np.random.Generator, count: int) -> Slices:
        """Return fresh slices, never held-out ones."""

    def held_out(self, count: int) -> Slices:
        """Return slices to judge on, the same ones for every training."""

    def group_of(self, count: int) -> Ints:
        """Return (count,) the group of each drawn slice; returns vary alike within a group."""

    def games(self, slices: Slices, replicas: int = 1) -> Games:
        """Return new games; episode n plays slice n // `replicas`."""

    def describe(self, shape: PerceptronShape | SetScorerShape) -> dict[str, Any]:
        """Return what a bundle says of the agent."""


class EndlessSource(Source[Slices], Protocol[Slices]):
    """A source whose games may also go on for ever."""

    def endless(self, count: int, rng: np.random.Generator) -> EndlessGames:
        """Return `count` games on slices that `rng` draws."""
