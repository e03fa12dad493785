"""How many iterations a training is to have: a training that went so far may go further."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
