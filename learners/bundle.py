"""An agent's bundle: a folder with the weights and a description of what they fit.

    weights.safetensors   named arrays
    agent.json            architecture, observation schema with its hash, actions, slotted model,
                          training scenario, learner, arguments, seed, versions, last metrics

Reading one needs NumPy and safetensors, not torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simkit.errors import PluginError, RunError
from simkit.scenario.bundled import DESCRIPTION

Array = npt.NDArray[Any]

FORMAT: Final = 1
"""The version of bundles that this module writes and reads."""
WEIGHTS: Final = "weights.safetensors"
REQUIRED: Final = ("architecture", "observation", "actions")
"""Keys that every description has."""


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle."""

    folder: Path
    weights: Mapping[str, Array]
    """Name → array."""
    description: Mapping[str, Any]
    """The content of agent.json."""


def write_bundle(
    folder: Path, weights: Mapping[str, Array], description: Mapping[str, Any]
) -> None:
    """Write a bundle; the folder is made if it does not exist, and a bundle in it is replaced.

    Args:
        folder: of the bundle.
        weights: finite numbers by name, ``layers.0.weight`` (in, out), …, float32.
        description: plain values, with all keys of `REQUIRED`.

    Raises RunError if weights are not finite, a key is missing or the folder cannot be written.
    """
    problems = [f"{name} holds numbers that are not finite" for name, array in weights.items()
                if not np.isfinite(array).all()]  # fmt: skip
    problems += [f"the description lacks {key!r}" for key in REQUIRED if key not in description]
    if problems:
        raise RunError("\n".join(f"agent {folder}: {text}" for text in problems))
    library = safetensors()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        plain = {name: np.ascontiguousarray(weights[name]) for name in sorted(weights)}
        packed: bytes = library.save(plain)
        (folder / WEIGHTS).write_bytes(packed)
        stated = {"format": FORMAT, **description, "weights_sha256": sha256(packed).hexdigest()}
        text = json.dumps(stated, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"{folder}: the agent cannot be written: {error.strerror}") from error


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle; if the weights are not those that it describes, it is refused.

    Raises RunError with what is missing or damaged; PluginError if safetensors is not installed.
    """
    description = _read_description(folder / DESCRIPTION)
    library, path = safetensors(), folder / WEIGHTS
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read: {error.strerror}; train the agent again"
        ) from error
    if sha256(packed).hexdigest() != description.get("weights_sha256"):
        raise RunError(
            f"{path}: is not the file that {DESCRIPTION} describes (its sha256 differs); restore "
            "the bundle or train the agent again"
        )
    return Bundle(folder, library.load(packed), description)


def _read_description(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read: {error.strerror}; give the folder of an agent"
        ) from error
    except ValueError as error:
        raise RunError(f"{path}: is not JSON ({error}); train the agent again") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        shown = found.get("format") if isinstance(found, dict) else None
        raise RunError(
            f"{path}: is of format {shown}, this simkit reads format {FORMAT}; train the agent "
            "again, or use the simkit that wrote it"
        )
    if missing := [key for key in REQUIRED if key not in found]:
        raise RunError(f"{path}: {', '.join(missing)} is missing; train the agent again")
    if wrong := [key for key in REQUIRED if not isinstance(found[key], dict)]:
        raise RunError(
            f"{path}: {', '.join(wrong)} must be an object with keys, as simkit wrote it; restore "
            "the bundle or train the agent again"
        )
    return found


def safetensors() -> ModuleType:
    """Return safetensors for NumPy; raises PluginError, which says what to install."""
    try:
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise PluginError(
            "agents need safetensors, which is not installed; install simkit-cluster[learn]"
        ) from error
    return safetensors.numpy
