"""The limit of a constrained training: a number, or a share of another agent's cost."""

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
    """The upper limit of the mean cost per hour; a part of a checkpoint.

    Another agent's cost is looked up when the limit is first used. A training that resumes takes
    the limit from its checkpoint, whatever has become of the other agent since.
    """

    def __init__(
        self, cost: Cost, most: float | None, of: str | None = None, share: float | None = None
    ) -> None:
        """Store the limit.

        Args:
            cost: the cost that is limited.
            most: the limit; None: there is none, or it is a share.
            of: the agent whose cost it is a share of; see `mean_cost`.
            share: the share of that cost.
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
        """Return the limit; None if there is none."""
        return {"most": self.most if self.is_set else None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._most = None if state["most"] is None else float(state["most"])


def mean_cost(agent: str, cost: Cost) -> float:
    """Return the mean cost per hour of an agent that was trained without a limit.

    The agent's bundle states it: measured on held-out streams at the end of the training, with
    actions drawn at random.

    Args:
        agent: folder of the agent or of its training, relative to the working directory, or the
            name of a bundled agent.
        cost: the kind of cost.

    Raises ScenarioError if the agent is missing or damaged, was trained with a limit, or has
    another cost or none.
    """
    try:
        description = read_bundle(agent_folder(agent, Path.cwd())).description
    except (RunError, ValueError) as error:
        raise ScenarioError(f"{_KEY}: {error}") from None
    counted = description.get("arguments", {}).get("cost", "waiting")
    if counted != cost:
        raise ScenarioError(
            f"{_KEY}: {agent} was trained with cost: {counted}, not {cost}; give one of the same "
            "cost, or state cost_limit"
        )
    end = description.get("curve_end", {})
    limit = end.get("cost_limit", end.get("held_out_cost_limit"))
    if limit is not None:
        raise ScenarioError(
            f"{_KEY}: {agent} was itself trained with a limit, of {limit:g}; give an agent "
            "that was trained without one, or state cost_limit"
        )
    measured = end.get("held_out_cost_drawn")
    if measured is None:
        raise ScenarioError(
            f"{_KEY}: {agent} has no cost, as its training was interrupted or had no ready pool; "
            "let the training end, give another agent, or state cost_limit"
        )
    return float(measured)
