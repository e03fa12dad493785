"""Messages for pydantic's errors: the path in the scenario, what is wrong, the remedy.

`yaml_document.Document.error_lines` adds the file and the line, which `yaml_lines` knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from simkit.errors import did_you_mean
from simkit.scenario.references import PluginChoice
from simkit.scenario.types import BrokenRulesError, shown
from simkit.scenario.yaml_lines import KeyPath, Problem
from simkit.text import attribute_docstrings

MOST: Final = 100
"""Most problems that are reported at once."""
_NOT = "must be {}, not {}".format
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "finite_number": "a finite number",
    "invalid-json-value": "text, a number, true, false, null, a list or a mapping",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def problems_of(
    error: ValidationError,
    model: type[BaseModel],
    *,
    tag: str = "",
    others: Mapping[str, type[BaseModel]] | None = None,
) -> list[Problem]:
    """Return the problems of a failed validation of `model`, `MOST` at most, in pydantic's order.

    Args:
        error: the failure.
        model: the model.
        tag: what the scenario's `type` calls it, if `others` could have been chosen.
        others: tag → model of these; a key of theirs is told as such.
    """
    return [
        problem
        for details in error.errors(include_url=False)[:MOST]
        for problem in _problems(details, Location(model, details["loc"], tag, others or {}))
    ]


class Location:
    """The place of an error, found by walking pydantic's loc down the models.

    Attributes:
        path: keys and list rows as the file has them: loc without the tags of unions.
        field: the field at `path`; None if there is none.
        models: tag → model in which the last key stands; several if no tag chose one.
        tag: the tag that chose it, otherwise empty.
        others: tag → the models that were not chosen.
        inner: tag → model that stands at `path` itself; empty if there is none.
    """

    def __init__(
        self,
        model: type[BaseModel],
        loc: tuple[int | str, ...],
        tag: str = "",
        others: Mapping[str, type[BaseModel]] | None = None,
    ) -> None:
        self.path: KeyPath = ()
        self.field: FieldInfo | None = None
        self.models: dict[str, type[BaseModel]] = {}
        self.others = dict(others or {})
        self.inner = {tag: model}
        chosen = bool(others)
        for step in loc:
            if len(self.inner) > 1 and step in self.inner:
                self.others = {tag: m for tag, m in self.inner.items() if tag != step}
                self.inner, chosen = {str(step): self.inner[str(step)]}, True
            else:
                self.others, chosen = self.others if chosen else {}, False
                self._enter(step)
        self.key = str(self.path[-1]) if self.path else ""
        self.tag = next(iter(self.models), "")

    def _enter(self, step: int | str) -> None:
        """Go down by one key; a row of a list or a mapping has the models of the whole."""
        if step == "[key]":  # pydantic's mark of a mapping's key that is wrong itself
            return
        is_mapping = self.field is not None and get_origin(self.field.annotation) is dict
        if is_mapping and isinstance(step, str):
            self.path, self.field = (*self.path, step), None
            return
        self.path = (*self.path, step)
        if isinstance(step, int):
            return
        self.models = self.inner
        fields = [m.model_fields[step] for m in self.inner.values() if step in m.model_fields]
        self.field = fields[0] if fields else None
        del self.inner

    @cached_property
    def inner(self) -> dict[str, type[BaseModel]]:  # on demand: some models are plug-ins
        """Tag → model of those that stand at `path` itself."""
        return _models_in(self.field) if self.field else {}


def _models_in(field: FieldInfo) -> dict[str, type[BaseModel]]:
    """Return tag → model of the models in a field's type; the tags are pydantic's loc."""
    return dict(_models_among((field.annotation, *field.metadata), ""))


def _models_among(parts: tuple[Any, ...], tag: str) -> Iterator[tuple[str, type[BaseModel]]]:
    family = next((part for part in parts if hasattr(part, "classes")), None)
    if family is not None:  # it stands next to the base class of its models
        yield from family.classes().items()
        return
    tags = [part.tag for part in parts if isinstance(part, Tag)]
    tag = tags[0] if tags else tag
    for part in parts:
        if isinstance(part, type) and issubclass(part, BaseModel):
            field = part.model_fields.get("type")
            literal = get_args(field.annotation) if field else ()
            yield (str(literal[0]) if literal else tag or part.__name__), part
        else:
            yield from _models_among(get_args(part), tag)


def _problems(details: ErrorDetails, location: Location) -> Iterator[Problem]:
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, BrokenRulesError):
        for below, text in cause.problems:
            yield Problem((*location.path, *below), text)
    elif isinstance(cause, ValueError):
        yield Problem(location.path, str(cause))
    elif details["type"].startswith("union_tag"):
        yield Problem((*location.path, "type"), _text(details, location))
    else:
        yield Problem(location.path, _text(details, location))


def _text(details: ErrorDetails, location: Location) -> str:
    kind, value = details["type"], details["input"]
    if kind == "missing":
        about = attribute_docstrings(location.models.get(location.tag, object)).get(location.key)
        return f"is missing; add it{f': {about}' if about else ''}"
    if kind == "extra_forbidden":
        return _unknown_key(location)
    if kind == "union_tag_not_found":
        return f"is missing; add one of: {', '.join(location.inner)}"
    if kind == "union_tag_invalid":
        return _not_one_of([*location.inner], details["ctx"]["tag"])
    if kind == "literal_error":
        return _not_one_of(_literals(location.field and location.field.annotation), value)
    if kind in _BOUNDS:
        name, relation = _BOUNDS[kind]
        return _NOT(f"{relation} {details['ctx'][name]:g}", shown(value))
    if kind in _KINDS:
        has_name = any(issubclass(model, PluginChoice) for model in location.inner.values())
        wanted = ("a name or " if has_name else "") + _KINDS[kind]
        return _NOT(wanted, shown(value)) + _remedy(kind, value)
    return f"{details['msg']}, not {shown(value)}"


def _remedy(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, (int, float)):
        return "; put it in quotes"
    if kind in ("tuple_type", "list_type") and value is not None and not isinstance(value, dict):
        return f"; write [{value}]"
    return ""


def _unknown_key(location: Location) -> str:
    owners = [tag for tag, model in location.others.items() if location.key in model.model_fields]
    if owners:
        return f"does not go with {location.tag}; it is a key of {', '.join(owners)}"
    known = {name for model in location.models.values() for name in model.model_fields}
    return f"unknown key{did_you_mean(location.key, known)}"


def _not_one_of(choices: list[str], value: Any) -> str:
    if isinstance(value, str):
        return f"unknown value {value!r}{did_you_mean(value, choices)}"
    return _NOT(f"one of {', '.join(choices)}", shown(value))


def _literals(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _literals(part)]
