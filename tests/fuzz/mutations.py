"""Damaged scenario files: a good scenario with a few random changes to its tree or to its text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from ruamel.yaml import YAML

Place = tuple[Any, Any]
"""A mapping or list of the tree, and a key or index in it."""

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e308, -1e308, 1e-308, float("nan"), float("inf"),
    2**31, 2**63, 2**64, 10**30, "", " ", "a", "none", "null", "1h", "-1h", "1e9d", "0s", "1h30",
    "7", "0..9", "9..0", "2004-05-31T12:00:00+02:00", "2004-05-31", "Europe/Berlin", "Mars/Base",
    "${HOME}", "${NO_SUCH_VARIABLE}", "${", "~", "/", ".", "..", "sample:quickstart", "sample:no",
    "os:system", "no_such_file.py:Policy", "fcfs", "easy", "\u202e\x07", "\x1b[31m", "ключ", "💥",
    "a" * 300, "a/" * 3000, "!!python/object:os.system", [], {}, [[]], [1], ["a", 1], {"type": "x"},
    {"type": "constant", "value": 1}, {"a": {"b": {"c": 1}}}, [0, 0], [5, 1], [1, 1],
)  # fmt: skip
"""What may take the place of a value."""
KEYS: tuple[Any, ...] = (
    "type", "name", "path", "args", "seed", "processors", "machines", "every", "step", "x", "", 0,
    1.5, True, None, "typ", "Type", "sweep", "power", "value", "policy", "learn", "processes",
)  # fmt: skip


def damaged(rng: np.random.Generator, tree: dict[str, Any]) -> str:
    """Return the YAML text of a scenario after one to three random changes."""
    tree = _copy(tree)
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        _change(rng, tree)
    text = _text(tree)
    return _scratched(rng, text) if rng.random() < 0.3 else text


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def _places(value: Any) -> Iterator[Place]:
    """Yield every place of the tree."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def _change(rng: np.random.Generator, tree: dict[str, Any]) -> None:
    places = list(_places(tree))
    if not places:
        return
    holder, key = places[int(rng.integers(len(places)))]
    kind = rng.choice(["replace", "delete", "rename", "add", "move", "nudge"])
    if kind == "delete":
        del holder[key]
    elif kind == "rename" and isinstance(holder, dict):
        holder[KEYS[int(rng.integers(len(KEYS)))]] = holder.pop(key)
    elif kind == "add" and isinstance(holder, dict):
        holder[KEYS[int(rng.integers(len(KEYS)))]] = _scalar(rng)
    elif kind == "move":
        other, place = places[int(rng.integers(len(places)))]
        holder[key] = _copy(other[place])
    elif kind == "nudge" and isinstance(holder[key], (int, float)):
        holder[key] = holder[key] * float(rng.choice([-1, 0, 0.1, 10, 1000, 1e9]))
    else:
        holder[key] = _scalar(rng)


def _scalar(rng: np.random.Generator) -> Any:
    return _copy(SCALARS[int(rng.integers(len(SCALARS)))])


def _text(tree: dict[str, Any]) -> str:
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump(tree, stream)
    return stream.getvalue()


def _scratched(rng: np.random.Generator, text: str) -> str:
    """Return the text with characters lost, added or doubled, as editors and accidents do."""
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(text) + 1))
        kind = rng.choice(["cut", "insert", "double", "truncate"], p=[0.4, 0.4, 0.15, 0.05])
        if kind == "cut":
            text = text[:at] + text[at + int(rng.integers(1, 4)) :]
        elif kind == "insert":
            text = text[:at] + str(rng.choice(["\t", ":", "- ", "{", "]", "'", "&a ", "*a", "\0",
                                               "#", "\n", "---\n", "%", "\ufeff", "<<: "])) + text[at:]  # fmt: skip
        elif kind == "double":
            text = text[:at] + text[max(0, at - 30) : at] + text[at:]
        else:
            text = text[:at]
    return text
