"""The contract between `simkit train` and a learner: a training that can stop and go on.

A learner is an entry point of the group ``simkit.learners``: a function

    begin(scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str) -> Training

that raises ScenarioError, all problems at once, for a scenario or arguments it cannot learn with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from simkit.scenario import Scenario


class Training(Protocol):
    """A training under way.

    The same scenario, arguments and seed give the same numbers and weights, whether or not it was
    interrupted: everything that an iteration depends on is in a checkpoint, its generators too.

    Two attributes may be there beside those below. ``extendable``, True: no iteration depends on
    how many there are to be, and `load` takes a checkpoint of a training that differs in that
    alone, so that one may go on to more. ``less_is_better``: names of held-out numbers, beside
    those of slowdown, turnaround and unfinished jobs, that may be the criterion.
    """

    iteration: int
    """Iterations done."""
    iterations: int
    """Iterations in all."""

    def step(self) -> Mapping[str, float]:
        """Do an iteration; return what is to be logged of it: ``return``, ``decisions``, …."""

    def held_out(self) -> Mapping[str, float]:
        """Return how the agent does on held-out job sets: ``slowdown``, ``unfinished``, …."""

    def save(self, folder: Path) -> None:
        """Write all that is needed to go on to an existing, empty folder."""

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote.

        Raises RunError if it belongs to another training.
        """

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        """Write the agent as it is now, a bundle that a scenario can name."""


class Learner(Protocol):
    """Begins trainings; what an entry point of ``simkit.learners`` is."""

    def __call__(
        self, scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str
    ) -> Training:
        """Return a training that has done nothing yet."""
