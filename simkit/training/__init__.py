"""The contract between `simkit train` and a learner: a training that can stop and go on.

A learner is a function `begin` (see `Learner`): an entry point of the group ``simkit.learners``,
or ``learn: {learner: my_learner.py:begin}``. It returns a `Training`. simkit runs its iterations,
plays the held-out job sets when it is time, and looks after the folder, the checkpoints, early
stopping and progress.

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
from collections.abc import Mapping
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
    """Iterations done."""
    iterations: int
    """Iterations in all."""
    extendable: bool = False
    """Whether a training may go on to more iterations later: no iteration depends on how many there
    will be, and `load` accepts a checkpoint that differs in that number only."""
    less_is_better: tuple[str, ...] = ()
    """Held-out numbers that `learn.criterion` may name, besides those whose names begin with
    ``slowdown``, ``turnaround`` or ``unfinished``. The least is the best."""

    @abstractmethod
    def step(self) -> Mapping[str, float]:
        """Do an iteration; return the numbers to log: ``return``, ``decisions``, …."""

    @abstractmethod
    def held_out(self) -> Mapping[str, float]:
        """Return how the agent does on held-out job sets: ``slowdown``, ``unfinished``, ….

        Empty if the learner judges nothing. simkit calls it before the first iteration, after every
        `learn.held_out_every` iterations, and after the last; it must not change the training.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write a checkpoint to an existing, empty folder."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Go on from a checkpoint that `save` wrote.

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

        Raises ScenarioError, all problems at once, for a scenario or arguments that it cannot learn
        with.
        """
