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


STREAMS = {"hours": 2000, "held_out_sets": 32}
"""Streams of jobs for games of a ready pool without an end."""
OFF_POLICY = {
    **STREAMS, "games": 64, "hidden": 64, "popart": True, "follow": 0.005, "replay": 50_000,
    "updates": 200, "learning_rate": 0.001,
}  # fmt: skip
"""Off-policy learning from such games."""

rare = Recipe("rare", "actor-critic", {**OFF_POLICY, "critics": 1, "actor": "regression"})
"""Chapter 5, algorithm 6, of the dissertation "RARE" (University of Virginia, 2023)."""
cocorl = Recipe("cocorl", "ppo", {
    **STREAMS, "games": 128, "iterations": 150, "learning_rate": 0.002, "falls": True,
    "entropy": 0.02, "batch": 1024,
})  # fmt: skip
"""Chapter 6 of the same dissertation."""
offline = Recipe("offline", "actor-critic", {**OFF_POLICY, "entropy": 0.5, "entropy_falls": 0.5})
"""Launchpad, chapter 7 of the same dissertation."""
fitness = Recipe("fitness", "evolution", {"scorer": "pairs"})
rlscheduler = Recipe("rlscheduler", "evolution", {"scorer": "jobs"})
