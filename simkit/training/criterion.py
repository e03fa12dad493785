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


# MERGED How many iterations a training is to have: a training that went so far may go further.


OF_LENGTH: Final = ("arguments", "iterations", "scenario")
"""Keys of training.json that tell the number of iterations, among other things."""


def resized(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training.json with the number of iterations that is wanted now.

    As it is, if it has that number, or came as far already, or if its end left a trace: the agent
    is looked at after the last iteration, and `keep: best` and `patience` go by all looks, also
    by one that is not due in a longer training.

    Args:
        found: a training.json.
        wanted: the keys `OF_LENGTH` of the training that it is to become.
    """
    learn, done = wanted["scenario"]["learn"], int(found["iteration"])
    goes_by_looks = learn["keep"] == "best" or learn["patience"] is not None
    has_ended = found["status"] == "complete"
    if found["iterations"] == wanted["iterations"] or done >= int(wanted["iterations"]):
        return dict(found)
    if has_ended and goes_by_looks and done % int(learn["held_out_every"]) != 0:
        return dict(found)
    resized = {**found, "iterations": wanted["iterations"], "status": "incomplete"}
    resized["arguments"] = _with_length(found["arguments"], wanted["arguments"])
    resized["scenario"] = {**found["scenario"], "learn": _learn(found, wanted)}
    resized.pop("stopped", None)
    return resized


def _learn(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of the one with the number of iterations of the other, wherever it is."""
    mine, theirs = found["scenario"]["learn"], wanted["scenario"]["learn"]
    arguments = _with_length(mine["arguments"], theirs["arguments"])
    return {**_with_length(mine, theirs), "arguments": arguments}


def _with_length(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    given = {"iterations": theirs["iterations"]} if "iterations" in theirs else {}
    return {**{key: value for key, value in mine.items() if key != "iterations"}, **given}
