"""The criterion of a training: the held-out number by which its agents are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from simkit.errors import ScenarioError, did_you_mean

LESS_IS_BETTER: Final = ("slowdown", "turnaround", "unfinished")
"""What the names of numbers begin with of which less is better, whoever the learner is."""


def check_criterion(criterion: str, training: Any) -> None:
    """Raise ScenarioError for a number that is not known to be the better, the less it is.

    Args:
        criterion: `learn.criterion`.
        training: a `Training`; ``less_is_better`` names further numbers, where it has that.
    """
    own = tuple(getattr(training, "less_is_better", ()))
    if criterion.startswith(LESS_IS_BETTER) or criterion in own:
        return
    raise ScenarioError(
        f"learn.criterion: {criterion!r} is no number of which less is better, so that the least "
        f"would be kept as the best{did_you_mean(criterion, (*LESS_IS_BETTER, *own))}"
    )


def check_look(criterion: str, found: Mapping[str, float], *, learner: str) -> None:
    """Raise ScenarioError if a look at held-out job sets does not tell the criterion.

    Args:
        criterion: `learn.criterion`.
        found: the held-out numbers; without any, the learner judges nothing, which is allowed.
        learner: its name.
    """
    if found and criterion not in found:
        raise ScenarioError(
            f"learn.criterion: {criterion!r} is not among the held-out numbers of "
            f"{learner}{did_you_mean(criterion, found)}"
        )
    if found and not isfinite(found[criterion]):
        raise ScenarioError(
            f"learn.criterion: the held-out {criterion} is {found[criterion]}, as it is without a "
            "job or with weights that grew beyond all bounds; see that the held-out job sets hold "
            "jobs, or lower the learning rate"
        )
