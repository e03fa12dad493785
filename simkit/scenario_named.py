"""Mappings of names to sections, such as ``power.sources``: each problem is told at its own path.

The names are the user's, so no model has them as fields; each section is judged by itself, and its
problems are led back to its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, BeforeValidator, ValidationError, ValidationInfo, create_model

from simkit.scenario_problems import problems_of
from simkit.scenario_types import BrokenRulesError, Section
from simkit.yaml_source import KeyPath


def named(kind: Any) -> BeforeValidator:
    """Return the mark of a field ``dict[str, kind]`` whose keys are names that the user gives.

    Args:
        kind: a section, or a union of sections told apart by their keys.
    """
    one: type[BaseModel] = create_model("One", __base__=Section, it=(kind, ...))

    def check(value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            return value  # pydantic says what it must be
        found: dict[str, Any] = {}
        problems: list[tuple[KeyPath, str]] = []
        for name, part in value.items():
            if not _is_name(name):
                problems.append(((str(name),), "must be named with letters, digits, '_' and '-'"))
                continue
            try:
                found[name] = one.model_validate({"it": part}, context=info.context).it  # type: ignore[attr-defined]
            except ValidationError as error:
                problems += [((name, *p.path[1:]), p.text) for p in problems_of(error, one)]
        if problems:
            raise BrokenRulesError(problems)
        return found

    return BeforeValidator(check)


def _is_name(name: object) -> bool:
    """Tell whether a name can stand in a dotted path and a column's name."""
    return isinstance(name, str) and name.replace("_", "a").replace("-", "a").isalnum()
