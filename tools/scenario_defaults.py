"""Writes the auditor's table of a scenario's keys and their defaults, from the scenario's models.

    python tools/scenario_defaults.py            # write simkit/verify/manifest/defaults.json
    python tools/scenario_defaults.py --check    # exit 1 if the file is not as the models are

The auditor shares no code with the models. It reads this file to judge the keys that a scenario's
portable form leaves out. A test runs the check.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from simkit.scenario import Scenario
from simkit.scenario.kinds import Family
from simkit.sections import Section

FILE = Path(__file__).resolve().parents[1] / "simkit" / "verify" / "manifest" / "defaults.json"


def defaults() -> dict[str, dict[str, dict[str, Any]]]:
    """Return section → key → facts, for the sections that a scenario may have.

    Facts of a key: its ``default``, unless it is required; the ``sections`` that its value may be,
    or that may be in it, where it is a list, or a mapping with keys that the user chooses
    (``each``). A section with a type stands as ``Section<type>``.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    _add(Scenario, "Scenario", found)
    return dict(sorted(found.items()))


def _add(model: type[Section], name: str, found: dict[str, dict[str, dict[str, Any]]]) -> None:
    if name in found:
        return
    keys = found[name] = {}
    for key, field in model.model_fields.items():
        facts = keys[key] = {}
        default = field.get_default(call_default_factory=True)
        if default is not PydanticUndefined:
            facts["default"] = to_jsonable_python(default)
        below = dict(_sections([field.annotation, *field.metadata]))
        if below:
            facts["sections"] = sorted(below)
            facts |= {"each": True} if _is_mapping(field) else {}
        for part, section in below.items():
            _add(section, part, found)


def _sections(parts: list[Any]) -> Iterator[tuple[str, type[Section]]]:
    """Yield the sections in a field's type, each with its name."""
    for part in parts:
        if isinstance(part, Family):
            yield from ((f"{kind.__name__}<{name}>", kind) for name, kind in part.classes().items())
        elif isinstance(part, type) and issubclass(part, Section):
            if not any(isinstance(other, Family) for other in parts):  # else the base of a family
                yield _named(part), part
        else:
            yield from _sections(list(get_args(part)))


def _named(model: type[Section]) -> str:
    """Return a section's name, with its type if that is a constant of the model."""
    kind = model.model_fields.get("type")
    if kind is None or get_origin(kind.annotation) is not Literal:
        return model.__name__
    return f"{model.__name__}<{get_args(kind.annotation)[0]}>"


def _is_mapping(field: FieldInfo) -> bool:
    def has(part: Any) -> bool:
        return get_origin(part) is dict or any(map(has, get_args(part)))

    return has(field.annotation)


def main() -> int:
    """Write the file, or only check it."""
    rows = (f"{json.dumps(name)}: {json.dumps(keys)}" for name, keys in defaults().items())
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    if "--check" in sys.argv[1:]:
        return int(not FILE.exists() or FILE.read_text("utf-8") != text)
    FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
