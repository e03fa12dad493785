"""Dotted paths: ``policy.order`` names a value inside a scenario's mappings and lists."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import WithJsonSchema

from simkit.agent_library import agent_names
from simkit.scenario import Scenario
from simkit.scenario_library import SAMPLE
from simkit.scenario_names import AGENT_FORMAT, Choice, Plugin
from simkit.scenario_problems import Place, shown
from simkit.scenario_types import mark_of
from simkit.yaml_source import KeyPath


def dotted(path: KeyPath) -> str:
    """Return ``cluster.machines.0.count`` of a path."""
    return ".".join(map(str, path))


def split(text: str) -> KeyPath:
    """Return the path of a dotted text; numbers are rows of lists."""
    return tuple(int(part) if part.isdecimal() else part for part in text.split("."))


def starts_with(path: KeyPath, head: KeyPath) -> bool:
    """Tell whether `path` is `head` or lies below it."""
    return path[: len(head)] == head


def cut_at_scalar(path: KeyPath, data: Any) -> KeyPath:
    """Return the path up to the first value that holds no keys: its short form says it all."""
    for depth, step in enumerate(path):
        if isinstance(data, dict):
            data = data.get(step, {})
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return path[:depth]
    return path


def set_value(data: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Put `value` at `path`, in place; absent sections are made and short forms written out.

    Raises ValueError if the path leads through a value that holds no keys, or past a list's end.
    """
    inside: Any = data
    for depth, step in enumerate(path):
        above, last = path[:depth], depth == len(path) - 1
        if isinstance(inside, list):
            if not isinstance(step, int) or step >= len(inside):
                raise ValueError(f"{dotted(above)} has no row {step}; it has {len(inside)}, from 0")
        elif isinstance(inside, dict):
            step = str(step)
        else:
            raise ValueError(f"{dotted(above)} is {shown(inside)}, which holds no keys")
        if last:
            inside[step] = value
        else:
            inside = _enter(inside, step, path[: depth + 1])


def _enter(inside: Any, step: int | str, path: KeyPath) -> Any:
    """Return what is at `step`, made able to hold keys where a scenario allows it."""
    below = inside.get(step) if isinstance(inside, dict) else inside[step]
    if below is None:
        below = {}
    elif isinstance(below, str) and _has_short_form(path):
        below = {"type": below}
    inside[step] = below
    return below


def _has_short_form(path: KeyPath) -> bool:
    return any(issubclass(model, Choice) for model in Place(Scenario, path).inner.values())


def from_folder(overrides: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return dotted key → value with the relative paths among the values starting from `folder`.

    A path is what the scenario has as one: a file (``workload.path``), or the file of
    ``my_policy.py:MyPolicy``. Arguments of plug-ins stay as they are.
    """
    return {key: _from_folder(split(key), value, folder) for key, value in overrides.items()}


def _from_folder(path: KeyPath, value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {key: _from_folder((*path, str(key)), v, folder) for key, v in value.items()}
    if not isinstance(value, str):
        return value
    place = Place(Scenario, path)
    named = bool(place.field and mark_of(place.field, Plugin)) or _has_short_form(path)
    file, colon, attribute = value.rpartition(":")
    if named and file.endswith(".py"):
        return f"{folder / Path(file).expanduser()}{colon}{attribute}"
    if _has_format(place, "path") and not value.startswith(SAMPLE):
        return str(folder / Path(value).expanduser())
    if _has_format(place, AGENT_FORMAT) and value not in agent_names():
        return str(folder / Path(value).expanduser())
    return value


def _has_format(place: Place, name: str) -> bool:
    marks = place.field.metadata if place.field else ()
    schemas = (mark.json_schema for mark in marks if isinstance(mark, WithJsonSchema))
    return any(schema and schema.get("format") == name for schema in schemas)
