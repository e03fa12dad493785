"""The shape of run.json: which keys it must have, and of what type each is.

A missing or mistyped key is an error of the folder, named with its place: no rule can be checked
without it. Wrong values of the right type are left to the checks.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

from simkit.errors import RunError
from simkit.text import printable


class _Each:
    """A mapping with any keys, whose values all have one shape."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


_STATUSES: Final = ("complete", "incomplete", "interrupted", "failed", "stopped")
_NUMBER: Final = (int, float)
_COUNTS: Final = _Each(int)
_ROWS: Final = {
    "read": int, "accepted": int, "repaired": _COUNTS, "dropped": _COUNTS, "notes": _COUNTS,
}  # fmt: skip
_SHAPE: Final[dict[str, Any]] = {
    "format": int,
    "status": str,
    "name": str,
    "scenario": dict,
    "scenario_sha256": str,
    "portable_scenario": dict,
    "inputs": [{"path": str, "sha256": str, "bytes": int}],
    "trace": _ROWS,
    "tables": _Each(_ROWS),
    "epoch_s": (*_NUMBER, None),
    "time_zone": (str, None),
    "cluster": {
        "resources": [str],
        "machines": [{"id": int, "name": str, "capacity": _Each(_NUMBER)}],
        "partitions": [dict],
    },
    "seed": int,
    "jobs": int,
}
"""Key → its shape: a type, several types, a mapping with these keys, or a list of one shape."""
_TYPES: Final = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false",
    dict: "an object", list: "a list", None: "null", type(None): "null",
}  # fmt: skip


def check_shape(path: Path, manifest: dict[str, Any]) -> None:
    """Raise RunError, with the key, if run.json lacks a key or one has another type."""
    shape = dict(_SHAPE)
    if manifest.get("status") == "complete":
        shape["digest"] = str
    if missing := [key for key in shape if key not in manifest]:
        raise RunError(f"{path}: no key {', '.join(missing)}; the file is damaged, run it again")
    if problem := _problem(manifest, shape, ""):
        raise RunError(f"{path}: {printable(problem)}; the file is damaged, run it again")
    if (status := manifest["status"]) not in _STATUSES:
        raise RunError(f"{path}: status is {status!r}, it must be one of {', '.join(_STATUSES)}")
    if not manifest["cluster"]["resources"]:
        raise RunError(f"{path}: cluster.resources is empty, it must name a resource")


def _problem(value: Any, shape: Any, place: str) -> str:
    """Return what is wrong with a value at a place; empty if it has the shape."""
    if isinstance(shape, (type, tuple)):
        types = shape if isinstance(shape, tuple) else (shape,)
        return "" if any(_is(value, kind) for kind in types) else _unlike(value, types, place)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _unlike(value, (list,), place)
        parts = [(item, shape[0], f"{place}[{n}]") for n, item in enumerate(value)]
    elif not isinstance(value, dict):
        return _unlike(value, (dict,), place)
    elif isinstance(shape, _Each):
        parts = [(item, shape.shape, f"{place}.{key}") for key, item in value.items()]
    else:
        if missing := [key for key in shape if key not in value]:
            return f"{place} has no key {', '.join(missing)}"
        parts = [(value[k], part, f"{place}.{k}".lstrip(".")) for k, part in shape.items()]
    return next((text for part in parts if (text := _problem(*part))), "")


def _is(value: Any, kind: type | None) -> bool:
    """Return whether a value of JSON has a type; true and false are no numbers, nor is NaN."""
    if kind is None:
        return value is None
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, kind) and not (isinstance(value, float) and not math.isfinite(value))


def _unlike(value: Any, types: tuple[type | None, ...], place: str) -> str:
    expected = " or ".join(dict.fromkeys(_TYPES[kind] for kind in types))
    text = repr(value)
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return f"{place} is {short}, expected {expected}"
