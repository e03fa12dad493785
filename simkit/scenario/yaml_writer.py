"""A scenario after defaults as YAML, with units next to the numbers: what `simkit show` prints."""

from __future__ import annotations

from io import StringIO
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from simkit.scenario import Scenario
from simkit.scenario.types import Unit, mark_of
from simkit.units import format_duration

_LONG_S = 60.0
"""Longer durations are also written as days and hours."""


def scenario_to_yaml(scenario: Scenario) -> str:
    """Return YAML that `load_scenario` reads back to an equal scenario."""
    data = _section(scenario, scenario.model_dump(mode="json"))
    if not scenario.sweep:
        del data["sweep"]
    yaml, text = YAML(), StringIO()
    yaml.width = 4096  # no folding of long paths
    yaml.representer.add_representer(type(None), _represent_null)
    yaml.dump(data, text)
    return text.getvalue()


def _section(model: BaseModel, data: dict[str, Any]) -> CommentedMap:
    """Return the dumped data of a model as a mapping with comments."""
    section = CommentedMap()
    for key, value in data.items():
        section[key] = _value(getattr(model, key), value)
        info = type(model).model_fields.get(key)
        unit = mark_of(info, Unit) if info else None
        if unit and isinstance(value, float):
            long = f" = {format_duration(value)}" if abs(value) >= _LONG_S else ""
            section.yaml_add_eol_comment(f"{unit.symbol}{long}", key)
    return section


def _value(value: Any, data: Any) -> Any:
    if isinstance(value, BaseModel) and isinstance(data, dict):
        return _section(value, data)
    if isinstance(data, list) and any(isinstance(part, BaseModel) for part in value):
        return [_value(part, row) for part, row in zip(value, data, strict=True)]
    return data


def _represent_null(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")
