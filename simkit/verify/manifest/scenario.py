"""The check of the scenario: it has its hash, and its two forms in run.json agree.

``scenario`` is the scenario after defaults, with the paths of this machine; ``scenario_sha256``
covers it. ``portable_scenario`` is what enters the run's digest: inputs by their SHA-256, and no
keys at their default. So every key of the portable form must be in the scenario, with the same
value or the path of that input, and every key that it leaves out must have its default. What the
defaults are is written in ``defaults.json``, beside this file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Any, Final

from simkit.verify.audit import Check
from simkit.verify.folder import RunFolder

_LEFT_OUT: Final = ("name", "limits")
"""Keys of the scenario that its portable form never has."""


def check_scenario(run: RunFolder) -> Check:
    """Check the scenario's hash, and its portable form key by key."""
    check = Check("scenario", "the scenario has its SHA-256, and its portable form agrees with it")
    scenario, portable = run.manifest["scenario"], run.manifest["portable_scenario"]
    check.examined = 1
    found = _hash_of(scenario)
    if found != run.manifest["scenario_sha256"]:
        row = {"recorded": run.manifest["scenario_sha256"], "recomputed": found}
        check.add("the scenario is not the one that its SHA-256 was taken of", row)
    inputs = {str(entry["path"]): str(entry["sha256"]) for entry in run.manifest["inputs"]}
    full = {key: value for key, value in scenario.items() if key not in _LEFT_OUT}
    metrics = dict(full.get("metrics", {}))
    named = {str(name).rpartition(":")[0] for name in metrics.pop("custom", ())}
    full["metrics"] = metrics  # without the user's, which change no result
    expected = _by_content(full, inputs, named)
    others = sorted(digest for path, digest in inputs.items() if path not in named)
    if portable.get("inputs", []) != others:
        row = {"found": portable.get("inputs"), "expected": others}
        check.add("the portable form does not list the inputs that the scenario does not name", row)
    form = {key: value for key, value in portable.items() if key != "inputs"}
    _compare(expected, form, "", ("Scenario",), check)
    return check


def _hash_of(scenario: Any) -> str:
    """Return the SHA-256 of canonical JSON: sorted keys, no blanks, UTF-8."""
    text = json.dumps(scenario, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _by_content(value: Any, inputs: Mapping[str, str], named: set[str]) -> Any:
    """Return a value with the contents of inputs for their paths; add their paths to `named`."""
    if isinstance(value, dict):
        return {key: _by_content(part, inputs, named) for key, part in value.items()}
    if isinstance(value, list):
        return [_by_content(part, inputs, named) for part in value]
    if not isinstance(value, str):
        return value
    if value in inputs:
        named.add(value)
        return f"sha256:{inputs[value]}"
    file, _, attribute = value.rpartition(":")
    if file in inputs:
        named.add(file)
        return f"sha256:{inputs[file]}:{attribute}"
    inside = sorted(path for path in inputs if PurePath(value) in PurePath(path).parents)
    named.update(inside)
    if not inside or not value:
        return value
    lines = [f"{PurePath(p).relative_to(value).as_posix()} {inputs[p]}\n" for p in inside]
    return "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()


def _compare(full: Any, portable: Any, place: str, sections: tuple[str, ...], check: Check) -> None:
    """Compare a part of the scenario with that of the portable form.

    Args:
        full: the part of the scenario, inputs by their content.
        portable: the same part of the portable form.
        place: its dotted key.
        sections: what it may be: names in `defaults.json`; ``*Name`` for a mapping whose values
            are such sections; none if it is a plain value.
        check: gets the violations.
    """
    if isinstance(full, list) and isinstance(portable, list) and len(full) == len(portable):
        for number, (one, other) in enumerate(zip(full, portable, strict=True)):
            _compare(one, other, f"{place}[{number}]", sections, check)
        return
    if not (isinstance(full, dict) and isinstance(portable, dict)):
        check.examined += 1
        if type(full) is not type(portable) or full != portable:
            row = {"key": place, "found": portable, "expected": full}
            check.add("the portable form has another value than the scenario", row)
        return
    of_each = tuple(name.removeprefix("*") for name in sections if name.startswith("*"))
    known = [] if of_each else _sections_of(full, sections)
    for key in portable.keys() - full.keys():
        row = {"key": _below(place, key), "found": portable[key]}
        check.add("the portable form has a key that the scenario does not have", row)
    for key, value in full.items():
        if key in portable:
            parts = of_each or _parts(known, key)
            _compare(value, portable[key], _below(place, key), parts, check)
        else:
            _check_left_out(value, _below(place, key), [part.get(key) for part in known], check)


def _check_left_out(
    value: Any, place: str, facts: list[dict[str, Any] | None], check: Check
) -> None:
    """Check that a key which the portable form leaves out has a default, and has it as value."""
    check.examined += 1
    if not facts:
        check.notes["keys of a plug-in, their defaults are not known"] = (
            check.notes.get("keys of a plug-in, their defaults are not known", 0) + 1
        )
        return
    defaults = [fact["default"] for fact in facts if fact is not None and "default" in fact]
    if value not in defaults:
        row = {"key": place, "found": value, "defaults": defaults}
        check.add("the portable form leaves out a key that is not at its default", row)


_Keys = dict[str, dict[str, Any]]
"""Key of a section → its facts; see `tools/scenario_defaults.py`."""


@cache
def _defaults() -> dict[str, _Keys]:
    """Return the sections of scenarios: name → keys."""
    file = resources.files("simkit.verify.manifest").joinpath("defaults.json")
    found: dict[str, _Keys] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _sections_of(value: Mapping[str, Any], names: tuple[str, ...]) -> list[_Keys]:
    """Return the sections, of those named, that a mapping can be: by its type, else by its keys."""
    kind = f"<{value.get('type')}>"
    typed = [name for name in names if name.endswith(kind)]
    untyped = [name for name in names if not name.endswith(">")]
    found = [_defaults()[name] for name in typed or untyped]
    return [keys for keys in found if value.keys() <= keys.keys()] or found


def _parts(sections: list[_Keys], key: str) -> tuple[str, ...]:
    """Return what the value of a key may be; with a star if its values may be that."""
    found: dict[str, None] = {}
    for facts in (section.get(key, {}) for section in sections):
        star = "*" if facts.get("each") else ""
        found |= dict.fromkeys(star + name for name in facts.get("sections", ()))
    return tuple(found)


def _below(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
