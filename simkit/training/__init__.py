"""The contracts of `simkit train` and `reproduce`: trainings that stop and resume, reproductions.

A learner is a function `begin` (see `Learner`): an entry point of the group ``simkit.learners``,
or ``learn: {learner: my_learner.py:begin}``. It returns a `Training`. simkit runs its iterations,
evaluates the agent on held-out job sets, and manages the folder, the checkpoints, early stopping
and progress. A reproduction is a function of a `Workplace`: an entry point of the group
``simkit.reproductions``.

    class Walk(Training):
        def __init__(self, seed, iterations):
            self.iteration, self.iterations = 0, iterations
            self.rng, self.at = numpy.random.default_rng(seed), 10.0

        def step(self):
            self.iteration += 1
            self.at += self.rng.normal()
            return {"return": -self.at}

        ...

    def begin(scenario, arguments, *, seed, device):
        return Walk(seed, arguments.get("iterations", 100))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from simkit.scenario import Scenario

__all__ = ["Learner", "Training"]


class Training(ABC):
    """A training under way.

    The same scenario, arguments and seed give the same numbers and weights, whether or not the
    training was interrupted: a checkpoint holds everything that an iteration depends on, including
    the states of random generators.
    """

    iteration: int
    """Iterations completed."""
    iterations: int
    """Iterations in all."""
    extendable: bool = False
    """Whether a training can be extended later: no iteration depends on the total, and `load`
    accepts a checkpoint that differs only in that number."""
    criterion: str = "slowdown"
    """The held-out metric by which agents are compared unless `learn.criterion` names another."""
    less_is_better: tuple[str, ...] = ()
    """Held-out metrics that `learn.criterion` may name, besides those whose names begin with
    ``slowdown``, ``bounded_slowdown``, ``turnaround``, ``wait``, ``cost`` or ``unfinished``. The
    lowest value is the best."""

    @property
    def held_out_metrics(self) -> tuple[str, ...]:
        """The names that `held_out` returns, if they are known before; else empty.

        Another `learn.criterion` is then refused before anything is played.
        """
        return ()

    @abstractmethod
    def step(self) -> Mapping[str, float]:
        """Run one iteration; return the metrics to log: ``return``, ``decisions``, …."""

    @abstractmethod
    def held_out(self) -> Mapping[str, float]:
        """Evaluate the agent on held-out job sets; return the metrics: ``slowdown``, ….

        Empty if the learner has no held-out job sets. simkit calls it before the first iteration,
        after every `learn.held_out_every` iterations, and after the last; it must not change the
        training.
        """

    def warnings(self) -> Sequence[str]:
        """Return what must be known of the agent as it is now, a sentence each.

        simkit asks at the end of a training and gives each as a `SimkitWarning`: for example, that
        nothing was learned, and what to change.
        """
        return ()

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write a checkpoint to an existing, empty folder."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Resume from a checkpoint that `save` wrote.

        Raises RunError if it belongs to another training.
        """

    @abstractmethod
    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        """Write the agent as it is now: a bundle that a scenario can name.

        `curve_end` is the last row of the metrics, without times.
        """


class Learner(Protocol):
    """Begins trainings."""

    def __call__(
        self, scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str
    ) -> Training:
        """Return a training that has done nothing yet.

        Args:
            scenario: the scenario to train on.
            arguments: `learn.arguments`, with `learn.iterations` as ``iterations`` if it is given.
            seed: the scenario's; every random number follows from it.
            device: ``cpu`` or ``cuda``.

        Raises ScenarioError, with all problems at once, if it cannot train with the scenario or the
        arguments.
        """


@dataclass(frozen=True)
class Workplace:
    """Where a reproduction works, and at which size."""

    pages: Path
    """Receives NAME.md, its pictures and its tables."""
    work: Path
    """Keeps trainings and results; complete ones are not made again."""
    quick: bool
    """A small version that takes minutes: the same steps, fewer iterations, sets and seeds."""
    workers: int
    """The most processes."""
    say: Callable[[str], None]
    """Shows the user a line of progress."""


class Reproduction(Protocol):
    """An entry point of ``simkit.reproductions``."""

    def __call__(self, place: Workplace) -> Path:
        """Do the missing work; return the page."""
