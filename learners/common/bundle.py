"""An agent's bundle: a folder with the weights and a description of the agent.

    weights.safetensors   named arrays
    agent.json            architecture, observation schema with its hash, actions, slotted model,
                          training scenario, learner, arguments, seed, versions, last metrics,
                          the SHA-256 of the weights and of each of its entries

Reading one needs NumPy and safetensors, but not torch. The hashes reveal what was changed or
damaged after the agent was written. They are no signature: whoever changes a bundle on purpose can
compute them again.
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
from simkit.files import SpecialFileError, parse_json, refuse_special
from simkit.learners.common.inference import LARGEST_FLOW, PlainNetwork, plain_network
from simkit.learners.common.shapes import Shape
from simkit.scenario.bundled import DESCRIPTION

Array = npt.NDArray[Any]

FORMAT: Final = 1
"""The version of the format that this module writes and reads."""
WEIGHTS: Final = "weights.safetensors"
REQUIRED: Final = ("architecture", "observation", "actions")
"""Keys that every description has."""
HASHES: Final = "sha256"
"""The key of the hashes: dotted entry → SHA-256 of its value as canonical JSON."""
LARGEST: Final = {DESCRIPTION: 10**7, WEIGHTS: 10**9}
"""Largest allowed size of each file in bytes; agents that simkit trains stay below a hundredth."""


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle."""

    folder: Path
    weights: Mapping[str, Array]
    """Array by name."""
    description: Mapping[str, Any]
    """The content of agent.json."""


def write_bundle(
    folder: Path, weights: Mapping[str, Array], description: Mapping[str, Any]
) -> None:
    """Write a bundle; a missing folder is created, and a bundle in it is replaced.

    Args:
        folder: the bundle's folder.
        weights: finite float32 arrays by name: ``layers.0.weight`` (in, out), ….
        description: plain values, with all keys of `REQUIRED`.

    Raises RunError if weights are not finite, a key is missing or the folder cannot be written.
    """
    problems = _wrong_weights(weights)
    problems += [f"the description lacks {key!r}" for key in REQUIRED if key not in description]
    if problems:
        raise RunError("\n".join(f"agent {folder}: {text}" for text in problems))
    library = safetensors()
    plain = {name: np.ascontiguousarray(weights[name]) for name in sorted(weights)}
    packed: bytes = library.save(plain)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / WEIGHTS).write_bytes(packed)
    except OSError as error:
        raise RunError(f"{folder}: the agent cannot be written: {error.strerror}") from error
    stated = {"format": FORMAT, **description, "weights_sha256": sha256(packed).hexdigest()}
    _write_description(folder / DESCRIPTION, stated)


def hash_bundle(folder: Path) -> None:
    """Recompute the hashes in an agent.json, after you have checked every entry of it.

    Raises RunError if the file is missing or does not describe an agent.
    """
    _write_description(folder / DESCRIPTION, _read_description(folder / DESCRIPTION))


def _write_description(path: Path, stated: Mapping[str, Any]) -> None:
    entries = {name: value for name, value in stated.items() if name != HASHES}
    text = json.dumps(
        entries | {HASHES: _hashes(entries)}, indent=1, ensure_ascii=False, allow_nan=False
    )
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path}: the agent cannot be written: {error.strerror}") from error


def _hashes(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each entry, and of each entry of a mapping: ``actions.mask``."""
    values: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(entries)).items():
        if isinstance(value, dict) and value:
            values |= {f"{name}.{below}": part for below, part in value.items()}
        else:
            values[name] = value
    return {
        name: sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        for name, value in values.items()
    }


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle, and check that it is complete and as it was written.

    Raises RunError that names what is missing, changed or damaged; PluginError if safetensors is
    not installed.
    """
    where = folder / DESCRIPTION
    description = _read_description(where)
    if changed := _changed(description):
        raise RunError("\n".join(f"{where}: {text}" for text in changed))
    library, path = safetensors(), folder / WEIGHTS
    packed = _read(path, "train the agent again")
    if sha256(packed).hexdigest() != description.get("weights_sha256"):
        raise RunError(
            f"{path}: is not the file that {DESCRIPTION} describes (its sha256 differs); restore "
            "the bundle or train the agent again"
        )
    try:
        weights = library.load(packed)
    except Exception as error:  # SafetensorError, types that NumPy lacks, lack of memory
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RunError(
            f"{path}: is not a file of weights ({reason}); restore the bundle or train the agent "
            "again"
        ) from error
    if problems := _wrong_weights(weights):
        raise RunError("\n".join(f"{path}: {text}; train the agent again" for text in problems))
    return Bundle(folder, weights, description)


def _wrong_weights(weights: Mapping[str, Array]) -> list[str]:
    """Return which weights are not float32 or not finite, a line each."""
    problems = []
    for name, array in weights.items():
        if array.dtype != np.float32:
            problems.append(f"{name} holds {array.dtype}; weights are float32")
        elif not np.isfinite(array).all():
            problems.append(f"{name} holds numbers that are not finite")
    return problems


def _changed(description: Mapping[str, Any]) -> list[str]:
    """Return which entries were changed since the agent was written, a line each."""
    stated = description.get(HASHES)
    if not isinstance(stated, Mapping):
        return [
            f"has no hashes of its entries (key {HASHES}); train the agent again, or, if you trust "
            "every entry, add them: `from simkit.learners.common.bundle import hash_bundle; "
            "hash_bundle(Path(…))`"
        ]
    actual = _hashes({name: value for name, value in description.items() if name != HASHES})
    remedy = "restore the bundle or train the agent again"
    return [
        f"{name} {_change(name in stated, name in actual)} after the agent was written; {remedy}"
        for name in [*stated, *(name for name in actual if name not in stated)]
        if stated.get(name) != actual.get(name)
    ]


def _change(before: bool, now: bool) -> str:
    return "was changed" if before and now else "was added" if now else "was removed"


def _read(path: Path, remedy: str) -> bytes:
    """Return the content of a regular file within its size limit, or raise RunError."""
    try:
        refuse_special(path)
        size, most = path.stat().st_size, LARGEST[path.name]
        if size > most:
            raise RunError(
                f"{path}: has {size:,} bytes, but an agent's has at most {most:,}; {remedy}"
            )
        return path.read_bytes()
    except SpecialFileError as error:
        raise RunError(f"{path}: {error}") from error
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}; {remedy}") from error
    except MemoryError as error:
        raise RunError(f"{path}: does not fit into memory; {remedy}") from error


def _read_description(path: Path) -> dict[str, Any]:
    text = _read(path, "give the folder of an agent")
    try:
        found = parse_json(text)
    except ValueError as error:
        raise RunError(
            f"{path}: is not the JSON of an agent ({error}); restore the bundle or train the agent "
            "again"
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        shown = found.get("format") if isinstance(found, dict) else None
        raise RunError(
            f"{path}: is of format {shown}, but this simkit reads format {FORMAT}; train the agent "
            "again, or use the simkit that wrote it"
        )
    if dotted := [key for key in found if "." in key]:
        raise RunError(
            f"{path}: {', '.join(dotted)} has a dot, which stands between a key and the key below "
            "it; restore the bundle or train the agent again"
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
    """Return safetensors' module for NumPy; raises PluginError if it is not installed."""
    try:
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise PluginError(
            "agents need safetensors, which is not installed; pip install 'simkit-cluster[agents]'"
        ) from error
    return safetensors.numpy


def network_of(
    bundle: Bundle, shape: Shape, inputs: int, actions: int, largest: float = 1.0
) -> PlainNetwork:
    """Return a bundle's network.

    Args:
        bundle: the bundle with the weights.
        shape: the architecture.
        inputs: how many numbers an observation has.
        actions: number of actions.
        largest: largest magnitude of a number in an observation.

    Raises RunError unless architecture, weights, observation and actions fit together.
    """
    where = bundle.folder / DESCRIPTION
    if (shape.inputs, shape.outputs) != (inputs, actions):
        raise RunError(
            f"{where}: the architecture has {shape.inputs} inputs and {shape.outputs} outputs, but "
            f"the observation has {inputs} numbers and there are {actions} actions; train it again"
        )
    try:
        network = plain_network(shape, bundle.weights)
    except RunError as error:
        raise RunError(f"{where}: {error}; train it again") from error
    if not network.largest(largest) <= LARGEST_FLOW:
        raise RunError(
            f"{bundle.folder / WEIGHTS}: the weights are so large that scores could exceed "
            f"{LARGEST_FLOW:g}; restore the bundle or train the agent again"
        )
    return network
