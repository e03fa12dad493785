"""The limit of a constrained training: a number, or a share of what another agent costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit.errors import RunError, ScenarioError
from simkit.learners.common.bundle import read_bundle
from simkit.learners.lockstep.ready_pool.accounts import Cost
from simkit.scenario.bundled import agent_folder

__all__ = ["CostLimit", "mean_cost"]

_KEY: Final = "learn.arguments.cost_of"


class CostLimit:
    """The most that an hour may cost in the mean; a part of a checkpoint.

    Another agent's cost is looked up when the limit is first asked for. A training that resumes has
    its limit from the checkpoint, whatever has become of the other agent since.
    """

    def __init__(
        self, cost: Cost, most: float | None, of: str | None = None, share: float | None = None
    ) -> None:
        """State it.

        Args:
            cost: what is limited.
            most: the limit; None: there is none, or it is a share.
            of: the agent whose cost it is a share of; see `mean_cost`.
            share: of that cost.
        """
        self._cost, self._most, self._of, self._share = cost, most, of, share

    @property
    def is_set(self) -> bool:
        """Whether there is a limit."""
        return self._most is not None or self._of is not None

    @property
    def most(self) -> float:
        """The limit; infinite if there is none. Raises ScenarioError as `mean_cost` does."""
        if self._most is None and self._of is not None:
            self._most = float(self._share or 0.0) * mean_cost(self._of, self._cost)
        return np.inf if self._most is None else self._most

    def state(self) -> dict[str, Any]:
        """Return what it is; None if there is none."""
        return {"most": self.most if self.is_set else None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self._most = None if state["most"] is None else float(state["most"])


def mean_cost(agent: str, cost: Cost) -> float:
    """Return what an hour costs in the mean with an agent of cocorl that has no limit.

    Its bundle says so: with drawn actions on held-out streams, at the end of its training.

    Args:
        agent: its folder, that of its training, or a bundled agent's name; relative to the working
            directory.
        cost: what is counted.

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
    counted = told.get("arguments", {}).get("cost", "waiting")
    if counted != cost:
        raise ScenarioError(
            f"{_KEY}: {agent} was trained with cost: {counted}, not {cost}; give one of the same "
            "cost, or state cost_limit"
        )
    end = told.get("curve_end", {})
    limit = end.get("cost_limit", end.get("held_out_cost_limit"))
    if limit is not None:
        raise ScenarioError(
            f"{_KEY}: {agent} was itself trained with a limit, of {limit:g}; give an agent "
            "that was trained without one, or state cost_limit"
        )
    found = end.get("held_out_cost_drawn")
    if found is None:
        raise ScenarioError(
            f"{_KEY}: {agent} does not say what it costs, since its training was interrupted; "
            "let the training end, or state cost_limit"
        )
    return float(found)
