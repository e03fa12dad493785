"""Overrides: values laid over a scenario by dotted path, ``policy.order=sjf``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic import WithJsonSchema

from simkit.errors import ScenarioError
from simkit.scenario import Scenario
from simkit.scenario.bundled import SAMPLE, agent_names
from simkit.scenario.policy import section_of
from simkit.scenario.references import (
    AGENT_FORMAT,
    PluginName,
    expand_variables,
)
from simkit.scenario.yaml_lines import parse_scalar
from simkit.sections import KeyPath, Location, mark_of, shown

_TOKENS: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|.""", re.DOTALL)
"""A quoted text, or any one character."""


def parse_sweep(texts: Iterable[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Split texts like ``seed=0,1,2``, which sweep a key, from those that set one value.

    Commas separate values, but not inside quotes, ``[]`` or ``{}``: ``seed=[1,2]`` is one value.

    Returns the texts with one value, and dotted path → values.

    Raises ScenarioError as `parse_overrides` does, and for an empty value between commas.
    """
    single: list[str] = []
    swept: dict[str, list[Any]] = {}
    for text in texts:
        path, _, value = text.partition("=")
        parts = _split_values(value)
        if len(parts) < 2:
            single.append(text)
        elif not all(map(str.strip, parts)):
            raise ScenarioError(
                f"{text!r} has an empty value; write values with commas in between, seed=0,1, or "
                "quote a text that has commas"
            )
        else:
            for part in parts:
                ((key, parsed),) = parse_overrides([f"{path}={part}"]).items()
                swept.setdefault(key, []).append(parsed)
    return single, swept


def _split_values(text: str) -> list[str]:
    parts, depth = [""], 0
    for token in _TOKENS.findall(text):
        depth += (token in "[{") - (token in "]}")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Return dotted path → value of texts like ``policy.order=sjf``; the values are YAML.

    Raises ScenarioError for a text without a path or an equals sign, or whose value is not YAML.
    """
    overrides = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not all(path.strip().split(".")):
            raise ScenarioError(f"{text!r} sets nothing; write a dotted key and a value: seed=3")
        text_alone = value.startswith("%")  # YAML keeps it for itself, forms of times begin so
        overrides[path.strip()] = value if text_alone else parse_scalar(value, path.strip())
    return overrides


def anchor_paths(overrides: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the overrides with relative paths among their values starting from `folder`.

    A path is what the scenario has as one: a file (``workload.path``), or the file of
    ``my_policy.py:MyPolicy``. Arguments of plug-ins stay as they are.
    """
    return {key: _anchored(split_key(key), value, folder) for key, value in overrides.items()}


def anchor_swept(sweep: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return dotted key → values with relative paths among the values starting from `folder`."""
    return {
        key: [anchor_paths({key: value}, folder)[key] for value in values]
        if isinstance(values, list | tuple)
        else values
        for key, values in sweep.items()
    }


def _anchored(path: KeyPath, value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {key: _anchored((*path, str(key)), v, folder) for key, v in value.items()}
    if isinstance(value, list | tuple):
        rows = (*path, *Location(Scenario, path).listed)
        return [_anchored((*rows, row), one, folder) for row, one in enumerate(value)]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        return value
    if path == ("policy",):
        with suppress(ValueError):  # the validation says what is wrong with it
            return _anchored(path, section_of(value), folder)
        return value
    location = Location(Scenario, path)
    field = location.field
    try:
        known = expand_variables(value)
    except ValueError:
        return value  # the validation says what is wrong with it
    is_plugin = bool(field and mark_of(field, PluginName)) or location.has_short_form
    file, colon, attribute = known.rpartition(":")
    if is_plugin and file.endswith(".py"):
        return f"{folder / Path(file).expanduser()}{colon}{attribute}"
    mark = mark_of(field, WithJsonSchema) if field else None  # also of a field that may be null
    formats = [(mark.json_schema or {}).get("format")] if mark else []
    is_file = "path" in formats and not value.startswith(SAMPLE)
    if is_file or (AGENT_FORMAT in formats and value not in agent_names()):
        return str(folder / Path(known).expanduser())
    return value


def dotted(path: KeyPath) -> str:
    """Return ``cluster.machines.0.count`` of a path."""
    return ".".join(map(str, path))


def split_key(text: str) -> KeyPath:
    """Return the path of a dotted text; numbers are rows of lists."""
    parts = text.split(".")
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else part for part in parts)


def starts_with(path: KeyPath, head: KeyPath) -> bool:
    """Return whether `path` is `head` or lies below it."""
    return path[: len(head)] == head


def cut_at_scalar(path: KeyPath, data: Any) -> KeyPath:
    """Return the path up to the first value that holds no keys: a section in its short form."""
    path = without_listed(path, data)
    for depth, step in enumerate(path):
        if isinstance(data, dict):
            data = data.get(step, {})
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return path[:depth]
    return path


def without_listed(path: KeyPath, data: Any) -> KeyPath:
    """Return the path without the key that a list in the place of a section stands for."""
    for depth, step in enumerate(path):
        if isinstance(data, list) and step in Location(Scenario, path[:depth]).listed:
            return path[:depth] + path[depth + 1 :]
        data = data.get(step) if isinstance(data, dict) else None
    return path


def set_value(data: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Put `value` at `path`, in place; absent sections are made and short forms written out.

    Raises ValueError if the path leads through a value that holds no keys, or past a list's end.
    """
    inside: Any = data
    for depth, step in enumerate(path):
        above = path[:depth]
        if isinstance(inside, list):
            if not isinstance(step, int) or step >= len(inside):
                raise ValueError(f"{dotted(above)} has no row {step}; it has {len(inside)}, from 0")
        elif isinstance(inside, dict):
            step = str(step)
        else:
            raise ValueError(f"{dotted(above)} is {shown(inside)}, which holds no keys")
        if depth == len(path) - 1:
            inside[step] = value
            return
        below = inside.get(step) if isinstance(inside, dict) else inside[step]
        if below is None:
            below = {}
        elif isinstance(below, str) and path[: depth + 1] == ("policy",):
            below = section_of(below)
        elif isinstance(below, str) and Location(Scenario, path[: depth + 1]).has_short_form:
            below = {"type": below}
        inside[step] = below
        inside = below
