"""Recipes: the algorithm of a paper is one of ours with the arguments that the paper chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simkit.plugins import find
from simkit.scenario import Scenario
from simkit.training import Training


@dataclass(frozen=True)
class Recipe:
    """An algorithm with defaults of its own; an entry point of ``simkit.learners``.

    The algorithm's `begin` takes the recipe's name as the keyword `learner`: trainings, their
    random numbers and messages are under that name.
    """

    name: str
    algorithm: str
    """Name of the algorithm: another entry point of ``simkit.learners``."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that differ from the algorithm's defaults."""

    def __call__(
        self, scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
    ) -> Training:
        """Return a new training; raises what the algorithm's `begin` raises."""
        begin = find("simkit.learners", self.algorithm)
        given = {**self.defaults, **arguments}
        training: Training = begin(scenario, given, seed=seed, device=device, learner=self.name)
        return training


fitness = Recipe("fitness", "evolution", {"scorer": "pairs"})
rlscheduler = Recipe("rlscheduler", "evolution", {"scorer": "jobs"})
