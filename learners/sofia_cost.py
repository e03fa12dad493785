"""What an iteration of the Sofia learner costs, by its update, in processor time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any, Final

from simkit.scenario import Scenario

from .sofia import begin

WAYS: Final[dict[str, dict[str, Any]]] = {
    "gradient": {"update": "gradient"},
    "natural": {"update": "natural"},
    "natural, all decisions": {"update": "natural", "fisher_share": 1.0},
}
"""The plain gradient by Adam, the natural one over a tenth of the decisions, and over all."""


@dataclass(frozen=True)
class Cost:
    """Of one way to update, a mean over iterations."""

    seconds: float
    """Processor time of an iteration, playing included."""
    decisions: float
    """Decisions of an iteration: a policy that wastes time takes more of them."""

    @property
    def us_a_decision(self) -> float:
        """Processor time of an iteration by its decisions, in microseconds."""
        return 1e6 * self.seconds / self.decisions


def costs(
    scenario: Scenario, arguments: Mapping[str, Any], *, iterations: int, seed: int = 0
) -> dict[str, Cost]:
    """Train in all ways side by side; return what an iteration of each costs.

    They take turns, an iteration each, in one process, so that whatever else the machine does
    falls on all alike; a first iteration, which makes the caches warm, is not counted.

    Args:
        scenario: see `simkit.learners.sofia.begin`.
        arguments: of the learner; the way's own go before them.
        iterations: counted iterations of each way.
        seed: of all trainings.
    """
    trainings = {
        name: begin(scenario, {**arguments, **way}, seed=seed) for name, way in WAYS.items()
    }
    seconds, decisions = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0.0)
    for number in range(iterations + 1):
        for name, training in trainings.items():
            begun = process_time()
            logged = training.step()
            if number:
                seconds[name] += process_time() - begun
                decisions[name] += logged["decisions"]
    return {name: Cost(seconds[name] / iterations, decisions[name] / iterations) for name in WAYS}
