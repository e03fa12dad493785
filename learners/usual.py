"""The usual learner of a scenario: the recipe of its workload's paper, or PPO."""

from __future__ import annotations

from typing import Final

from simkit.scenario import Scenario

RECIPES: Final = {"deeprm": "deeprm", "sofia": "sofia"}
"""Type of the workload → learner, on a pool in steps. PPO does best on the others."""


def usual_learner(scenario: Scenario) -> str:
    """Return the name of the learner where a scenario names none; the tool ``learn.usual``."""
    if scenario.scheduling.step is None:
        return "ppo"
    return RECIPES.get(scenario.workload.type, "ppo")
