"""Kinds of sections: a class for each `type`, which simkit or any installed package adds.

A kind is a class: its fields are the keys that a scenario gives, the text under a field is its
documentation. An entry point ``NAME = module:Class`` in the group of its family makes it
``{type: NAME, …}``; no other list names it. Workloads and signals are such families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import GetCoreSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import core_schema

from simkit import plugins
from simkit.errors import PluginError, TraceError, did_you_mean
from simkit.sections import BrokenRulesError, Section, problems_of, shown


class Kind(Section):
    """A section whose key `type` names its class."""

    in_python: ClassVar[str] = ""
    """Module that does in Python what the keys of the class that sets this do in a scenario."""

    type: str
    """Which kind it is."""

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """Return the section with these arguments, as a scenario's author would write them.

        Raises TraceError, for all of them at once, if one is unknown, missing or out of its range,
        and for the keys that only a scenario applies.
        """
        base = next(part for part in cls.__mro__ if "in_python" in vars(part))
        applied = base.model_fields.keys() - {"type"} if issubclass(base, Kind) else set()
        problems = [
            f"{name}: is applied by a scenario; from Python use {cls.in_python}"
            for name in applied & arguments.keys()
        ]
        try:
            made = cls.model_validate({"type": ""} | arguments)
        except ValidationError as error:
            problems += [
                f"{'.'.join(map(str, problem.path))}: {problem.text}".removeprefix(": ")
                for problem in problems_of(error, cls)
            ]
        if problems:
            raise TraceError("\n".join(problems))
        return made


K = TypeVar("K", bound=Kind)


@dataclass(frozen=True)
class Family(Generic[K]):
    """The installed kinds of a group; marks the field whose section's class `type` names."""

    base: type[K]
    group: str
    """Group of their entry points."""
    noun: str
    """What one of them is, for messages."""

    def names(self) -> list[str]:
        """Return what `type` may be, without an import of any of it."""
        return [name for name in plugins.names(self.group) if "." not in name]

    def classes(self) -> dict[str, type[K]]:
        """Return type → class of all kinds; readers that are functions are not among them."""
        found = {name: plugins.find(self.group, name) for name in self.names()}
        return {name: kind for name, kind in found.items() if self.has(kind)}

    def has(self, found: Any) -> bool:
        """Return whether a plug-in is a class of the family."""
        return isinstance(found, type) and issubclass(found, self.base)

    def find(self, name: str) -> type[K]:
        """Return the class that a `type` stands for.

        Raises PluginError, with the nearest name, if there is none.
        """
        names = self.names()
        if names and name not in names:
            raise PluginError(f"unknown value {name!r}{did_you_mean(name, names)}")
        kind: type[K] = plugins.find(self.group, name)
        if not self.has(kind):
            raise PluginError(
                f"{name!r} is a function, not a kind of {self.noun}; write "
                f"{{type: plugin, reader: {name}, args: …}}"
            )
        return kind

    def call(self, name: str, arguments: Mapping[str, Any], what: str) -> Any:
        """Return what the plug-in `name`, a function or a kind, makes of the arguments.

        `what` begins messages.
        """
        reader: Any = plugins.find(self.group, name)
        return plugins.instantiate(what, reader.of if self.has(reader) else reader, arguments)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Judge the section by its own class; only this class is imported."""
        return core_schema.with_info_before_validator_function(self._validated, handler(source))

    def _validated(self, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            return value  # a section that is made already, or pydantic says what it must be
        known = ", ".join(self.names())
        if "type" not in value:
            raise BrokenRulesError([(("type",), f"is missing; add one of: {known}")])
        name = value["type"]
        if not isinstance(name, str):
            text = f"must be one of {known}, not {shown(name)}"
            raise BrokenRulesError([(("type",), text)])
        try:
            kind = self.find(name)
        except PluginError as error:
            raise BrokenRulesError([(("type",), str(error))]) from error
        try:
            return kind.model_validate(value, context=info.context)
        except ValidationError as error:
            unknown = any(part["type"] == "extra_forbidden" for part in error.errors())
            others = (
                {tag: model for tag, model in self.classes().items() if tag != name}
                if unknown
                else {}
            )
            problems = problems_of(error, kind, tag=name, others=others)
            raise BrokenRulesError((problem.path, problem.text) for problem in problems) from error
