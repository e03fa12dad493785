"""Checkpoints: all that a training needs to go on as if it had never been interrupted.

checkpoint.json             the iteration, whose training it is, numbers, generators' states
checkpoint.safetensors      arrays
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit.errors import RunError
from simkit.files import read_json, refuse_special
from simkit.learners.bundle import safetensors

FACTS: Final = "checkpoint.json"
ARRAYS: Final = "checkpoint.safetensors"
Parts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training between two iterations."""

    iteration: int
    """Iterations done."""
    parts: Parts
    """State of each part, such as ``weights``: arrays and plain values by name."""
    generators: Mapping[str, Mapping[str, Any]]
    """State of each random bit generator, by name."""

    def write(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Write the checkpoint to an existing folder.

        `identity` holds plain values that tell the training from others. Raises RunError if the
        folder cannot be written.
        """
        arrays, values = _apart(self.parts)
        facts = {
            "iteration": self.iteration, "identity": identity, "values": values,
            "generators": self.generators,
        }  # fmt: skip
        packed: bytes = safetensors().save(arrays)
        try:
            (folder / ARRAYS).write_bytes(packed)
            (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise RunError(f"{folder}: cannot write a checkpoint: {error.strerror}") from error

    @classmethod
    def read(cls, folder: Path, identity: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint that `write` wrote.

        Raises RunError if it is missing or damaged, or if it belongs to a training that differs in
        more than its number of iterations.
        """
        library = safetensors()
        from safetensors import SafetensorError

        try:
            facts = read_json(folder / FACTS)
            refuse_special(folder / ARRAYS)
            arrays = library.load((folder / ARRAYS).read_bytes())
            theirs, iteration = dict(facts["identity"]), int(facts["iteration"])
            values, generators = facts["values"], facts["generators"]
        except OSError as error:
            text = f"{folder}: cannot read a checkpoint: {error.strerror}; start the training over"
            raise RunError(text) from error
        except (
            ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
            SafetensorError,
        ) as error:  # fmt: skip
            text = f"{folder}: holds a damaged checkpoint ({error}); start the training over"
            raise RunError(text) from error
        ours = json.loads(json.dumps(identity))
        if problems := _differences(_of_any_length(ours), _of_any_length(theirs)):
            raise RunError("\n".join(f"{folder}: {text}" for text in problems))
        parts: dict[str, dict[str, Any]] = {name: dict(values[name]) for name in values}
        for name, array in arrays.items():
            part, _, own = name.partition("/")
            parts[part][own] = array
        return cls(iteration, parts, generators)


def _apart(parts: Parts) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return arrays as ``part/name``, and the plain values of each part."""
    arrays, values = {}, {}
    for part, state in parts.items():
        values[part] = {n: v for n, v in state.items() if not isinstance(v, np.ndarray)}
        for name in state.keys() - values[part].keys():
            arrays[f"{part}/{name}"] = np.ascontiguousarray(state[name])
    return arrays, values


def _of_any_length(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an identity without the number of iterations.

    A learner whose checkpoints depend on it, as by a schedule over the training, is not extendable:
    its folder is refused before its checkpoint is read.
    """
    arguments = identity.get("arguments")
    if not isinstance(arguments, dict):
        return dict(identity)
    return {**identity, "arguments": {k: v for k, v in arguments.items() if k != "iterations"}}


def _differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return where two trees of plain values differ, a line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            text
            for key in [*ours, *(key for key in theirs if key not in ours)]
            for text in _differences(ours.get(key), theirs.get(key), f"{path}.{key}".strip("."))
        ]
    if ours == theirs:
        return []
    return [
        f"belongs to another training: {path} is {theirs!r} there, {ours!r} here; make them equal, "
        "or begin in another folder"
    ]
