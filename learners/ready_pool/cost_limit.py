"""The limit of a constrained training: a number of jobs, or a share of what another agent costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit.errors import RunError, ScenarioError
from simkit.learners.bundle import read_bundle
from simkit.scenario.bundled import agent_folder

__all__ = ["CostLimit", "mean_cost"]

_KEY: Final = "learn.arguments.cost_of"


class CostLimit:
    """The most jobs that may wait in the mean; a part of a checkpoint.

    Another agent's cost is looked up when the limit is first asked for. A training that resumes has
    its limit from the checkpoint, whatever has become of the other agent since.
    """

    def __init__(self, jobs: float | None, of: str | None = None, share: float | None = None):
        """State it.

        Args:
            jobs: the limit; None: there is none, or it is a share.
            of: the agent whose cost it is a share of; see `mean_cost`.
            share: of that cost.
        """
        self._jobs, self._of, self._share = jobs, of, share

    @property
    def is_set(self) -> bool:
        """Whether there is a limit."""
        return self._jobs is not None or self._of is not None

    @property
    def jobs(self) -> float:
        """The limit; infinite if there is none. Raises ScenarioError as `mean_cost` does."""
        if self._jobs is None and self._of is not None:
            self._jobs = float(self._share or 0.0) * mean_cost(self._of)
        return np.inf if self._jobs is None else self._jobs

    def state(self) -> dict[str, Any]:
        """Return what it is; None if there is none."""
        return {"jobs": self.jobs if self.is_set else None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self._jobs = None if state["jobs"] is None else float(state["jobs"])


def mean_cost(agent: str) -> float:
    """Return what an agent of cocorl costs without a limit: waiting jobs, in the mean.

    Its bundle says so: with drawn actions on held-out streams, at the end of its training.

    Args:
        agent: its folder, that of its training, or a bundled agent's name; relative to the working
            directory.

    Raises ScenarioError if it is missing, damaged, another learner's, was limited itself, or has
    no cost.
    """
    try:
        told = read_bundle(agent_folder(agent, Path.cwd())).description
    except (RunError, ValueError) as error:
        raise ScenarioError(f"{_KEY}: {error}") from None
    if told.get("learner") != "cocorl":
        raise ScenarioError(
            f"{_KEY}: {agent} is an agent of {told.get('learner')}, whose costs are others; give "
            "one that cocorl has trained without a limit"
        )
    end = told.get("curve_end", {})
    limit = end.get("cost_limit", end.get("held_out_cost_limit"))
    if limit is not None:
        raise ScenarioError(
            f"{_KEY}: {agent} was itself trained with a limit, of {limit:g} jobs; give an agent "
            "that was trained without one, or state cost_limit"
        )
    cost = end.get("held_out_cost_drawn")
    if cost is None:
        raise ScenarioError(
            f"{_KEY}: {agent} does not say what it costs, since its training was interrupted; "
            "let the training end, or state cost_limit"
        )
    return float(cost)
