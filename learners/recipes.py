"""Recipes: the algorithm of a paper is one of ours with the arguments that the paper chose.

Where a scenario names no learner, it is the recipe of its workload's paper, or PPO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simkit.errors import ScenarioError
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
    workload: str | None = None
    """The type of the workload that it is for; None: any."""

    def __call__(
        self, scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
    ) -> Training:
        """Return a new training.

        Raises ScenarioError for another workload, and what the algorithm's `begin` raises.
        """
        if self.workload not in (None, scenario.workload.type):
            raise ScenarioError(
                f"workload.type: the learner {self.name} takes {self.workload}, not "
                f"{scenario.workload.type}; take its algorithm, {self.algorithm}"
            )
        begin = find("simkit.learners", self.algorithm)
        given = {**self.defaults, **arguments}
        training: Training = begin(scenario, given, seed=seed, device=device, learner=self.name)
        return training


deeprm = Recipe("deeprm", "reinforce", {
    "iterations": 1000, "rollouts": 20, "observation": "deeprm-image", "mask": "none",
    "max_decisions": 2000, "hidden": 20, "initial_weights": "small", "baseline": "decision",
    "credit": "all", "normalise": False, "update": "gradient", "optimiser": "rmsprop",
    "learning_rate": 0.001, "sets_per_mean": 10,
}, workload="deeprm")  # fmt: skip
"""H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (2016)."""
sofia = Recipe("sofia", "reinforce", {
    "iterations": 1000, "job_sets": 5, "rollouts": 20, "observation": "sofia-shares",
    "mask": "none", "max_decisions": 4000, "held_out_sets": 20, "last_step": 150, "hidden": 20,
    "initial_weights": "glorot", "baseline": "decision", "credit": "all", "kl": 0.01,
    "damping": 0.01, "fisher_share": 0.1, "measured": "sample", "learning_rate": 0.001,
}, workload="sofia")  # fmt: skip
"""Sofia, "Resource management with deep reinforcement learning" (2021), on whose batches the
natural gradient converges with a bound on its steps."""
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
"""After F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data
center" (ICBDC 2019); see `simkit.learners.scorers.search`."""
rlscheduler = Recipe("rlscheduler", "evolution", {"scorer": "jobs"})
"""After D. Zhang et al., "RLScheduler: an automated HPC batch job scheduler using reinforcement
learning" (SC 2020); see `simkit.learners.scorers.search`."""

USUAL: Final = {recipe.workload: recipe.name for recipe in (deeprm, sofia)}
"""Type of the workload → learner, on a pool in steps. PPO does best on the others."""


def usual_learner(scenario: Scenario) -> str:
    """Return the name of the learner where a scenario names none; the tool ``learn.usual``."""
    if scenario.scheduling.step is None:
        return "ppo"
    return USUAL.get(scenario.workload.type, "ppo")
