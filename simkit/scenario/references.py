"""References in a scenario: files that must exist, plug-ins that must be known, kinds by `type`.

They are checked against a `Context`. Without one (a scenario from another machine's JSON), names
and paths stay as they are.

A kind is a class for each `type`, which simkit or any installed package adds: its fields are the
keys that a scenario gives, the text under a field is its documentation. An entry point ``NAME =
module:Class`` in the group of its family makes it ``{type: NAME, …}``; no other list names it.
Workloads and signals are such families.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from simkit import plugins
from simkit.errors import PluginError, TraceError, did_you_mean
from simkit.files import SpecialFileError, refuse_special
from simkit.plugins import code_refusal, split_reference
from simkit.scenario.bundled import SAMPLE, agent_folder, sample_path
from simkit.sections import (
    BrokenRulesError,
    Section,
    misspelt_type,
    problems_of,
    schema_of_both,
    shown,
)


class Context(NamedTuple):
    """What references are checked against: pydantic's `context` of the validation."""

    base: Path
    """Folder that relative paths start from; the files must exist."""
    check_name: Callable[[str, str, str | None], None] | None = None
    """Raises PluginError for an unknown (group, name, kind); None checks no names."""
    allow_code: bool = True
    """Whether the scenario may name code: ``file.py:attribute`` or ``package.module:attribute``."""


PATHS_ALONE = "environment variables are expanded in paths alone"
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def expand_variables(path: str) -> str:
    """Return a path with each ``${NAME}`` replaced by the environment's value.

    Only paths are expanded: a scenario from a stranger cannot put the environment into its results.

    Raises ValueError for a variable that is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(
                f"{match[0]} is not the name of an environment variable; write ${{NAME}}"
            )
        if name not in os.environ:
            raise ValueError(f"the environment variable {name} is not set; {_remedy(name)}")
        return os.environ[name]

    return _VARIABLE.sub(value, path)


def _remedy(variable: str) -> str:
    """Return how to set a variable, and how to get the logs that the bundled scenarios need."""
    if variable != "SIMKIT_DATA":
        return f"export {variable}=..."
    return (
        "export SIMKIT_DATA=FOLDER, the folder of the data, whose logs are in FOLDER/swf; "
        "`simkit trace fetch NAME --output FOLDER/swf` downloads a public log"
    )


def _file(value: str, info: ValidationInfo) -> str:
    if not isinstance(info.context, Context):
        return value
    if value.startswith(SAMPLE):
        return str(sample_path(value.removeprefix(SAMPLE)))
    return _checked(value, info.context.base, folder_too=False)


def _file_or_folder(value: str, info: ValidationInfo) -> str:
    if not isinstance(info.context, Context) or value.startswith(SAMPLE):
        return _file(value, info)
    return _checked(value, info.context.base, folder_too=True)


def _checked(value: str, base: Path, *, folder_too: bool) -> str:
    """Return the absolute path of an existing file, or of a folder if that is accepted."""
    expanded = expand_variables(value)
    try:
        path = base / Path(expanded).expanduser()
        if folder_too and path.is_dir():
            return str(path.resolve())
        path = path.parent.resolve() / path.name  # the file itself may be a link: it keeps its name
    except OSError as error:
        raise ValueError(f"{shown(value)} cannot be a path: {error.strerror}") from error
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"{shown(value)} cannot be a path: {error}") from error
    check_file(path)
    return str(path)


def check_file(path: Path) -> None:
    """Raise ValueError unless the absolute `path` is a file; names a similar file next to it."""
    try:
        problem = _file_problem(path)
    except OSError as error:
        problem = f"{shown(str(path))} cannot be reached: {error.strerror}"
    if problem:
        raise ValueError(problem)


def _file_problem(path: Path) -> str:
    if path.is_file():
        return ""
    if path.is_dir():
        return f"{path} is a folder; name a file in it"
    try:
        refuse_special(path)
    except SpecialFileError as error:
        return f"{path} {error}"
    folder = next(parent for parent in path.parents if parent.is_dir())
    missing = path.relative_to(folder).parts
    if len(missing) > 1:
        return f"there is no file {path}; the folder {folder} has no {missing[0]!r}"
    near = did_you_mean(path.name, [entry.name for entry in folder.iterdir()])
    return f"there is no file {path}{near if 'did you mean' in near else ''}"


def _text(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


File = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_file),
    WithJsonSchema({"type": "string", "format": "path"}),
]
"""An existing file; a relative path starts from the scenario's folder.

``${NAME}`` in it is an environment variable, and ``sample:NAME`` is a bundled log."""
FileOrFolder = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_file_or_folder),
    WithJsonSchema({"type": "string", "format": "path"}),
]
"""An existing file or folder, found in the same way."""


def _agent(value: str, info: ValidationInfo) -> str:
    if not isinstance(info.context, Context):
        return value
    try:
        return str(agent_folder(expand_variables(value), info.context.base))
    except OSError as error:
        raise ValueError(f"{shown(value)} cannot be a path: {error.strerror}") from error


AGENT_FORMAT = "agent"
"""Format of the text that names an agent, in a scenario's JSON Schema."""
AgentFolder = Annotated[
    str, AfterValidator(_agent), WithJsonSchema({"type": "string", "format": AGENT_FORMAT})
]
"""The folder of an agent, relative to the scenario's, or the name of a bundled agent."""


@dataclass(frozen=True)
class PluginName:
    """Marks a text as the name of a plug-in of a group (and kind), and checks it."""

    group: str
    kind: str | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Check the name after pydantic has checked that it is text."""
        return core_schema.with_info_after_validator_function(self.check, handler(source))

    def check(self, name: str, info: ValidationInfo) -> str:
        """Return the name, with an absolute path in ``file.py:attribute``.

        Raises ValueError if no plug-in has the name, or there is no such file.
        """
        try:
            if not isinstance(info.context, Context):  # of a stored run: nothing is looked up
                if ":" in name:
                    split_reference(name)
                return name
            name = expand_variables(name)
            if ":" in name and not info.context.allow_code:
                raise ValueError(code_refusal(name))
            place = split_reference(name)[0] if ":" in name else ""
            if place.endswith(".py"):
                return _file(place, info) + name.removeprefix(place)
            if info.context.check_name:
                info.context.check_name(self.group, name, self.kind)
        except PluginError as error:
            raise ValueError(str(error)) from error
        return name


ReaderName = Annotated[str, PluginName("simkit.readers")]


def _no_variables(value: Any) -> Any:
    """Refuse ``${NAME}``, which stands for a variable in paths: here it would stay as it is."""
    if isinstance(value, str) and _VARIABLE.search(value):
        raise ValueError(f"{shown(value)}: {PATHS_ALONE}; write the value, or give it with --set")
    if isinstance(value, (list, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            _no_variables(part)
    return value


def _finite(value: Any) -> Any:
    for number in _numbers(value):
        if not math.isfinite(number):
            raise ValueError(f"holds {number}; use finite numbers")
    return value


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from _numbers(part)


FiniteJson = Annotated[JsonValue, AfterValidator(_finite)]
"""Text, a number, true or false, null, or lists and mappings of them."""
Arguments = Annotated[dict[str, JsonValue], AfterValidator(_finite), AfterValidator(_no_variables)]
"""Keyword arguments for a plug-in, which checks them itself."""


class PluginChoice(Section):
    """A plug-in by name, with arguments: ``easy`` or ``{type: perturbed, factor: 5}``."""

    model_config = ConfigDict(extra="allow")
    by_name: ClassVar[bool] = True
    __pydantic_extra__: dict[str, Annotated[FiniteJson, AfterValidator(_no_variables)]] = Field(
        init=False
    )

    type: str
    """Name of an entry point, ``package.module:attribute`` or ``file.py:attribute``."""

    @property
    def args(self) -> dict[str, JsonValue]:
        """The keys other than `type`: keyword arguments for the plug-in."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"type": value} if isinstance(value, str) else value

    @model_serializer(mode="plain")
    def _shortest_form(self) -> str | dict[str, Any]:
        return {"type": self.type, **self.args} if self.args else self.type

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return schema_of_both(cls, {"type": "string"}, schema, handler)


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


ON_DEMAND: Final = "on_demand"
"""Marks the core schema of an `OnDemand` section, in pydantic's metadata."""


@dataclass(frozen=True)
class OnDemand:
    """Marks a section that most scenarios leave out: its class is imported once one has it.

    The field's type is Any: pydantic judges, writes and describes the section by the class that
    `load` returns.
    """

    load: Callable[[], type[Section]]
    """Imports the class of the section."""

    def classes(self) -> dict[str, type[Section]]:
        """Return name → class of the only class that may stand here, as a `Family` does."""
        model = self.load()
        return {model.__name__: model}

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Judge the section by its class, which is imported then."""
        return core_schema.with_info_before_validator_function(
            self._validated, handler(source), metadata={ON_DEMAND: True}
        )

    def _validated(self, value: object, info: ValidationInfo) -> object:
        return self.load().model_validate(value, context=info.context)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the section by its class."""
        return handler(TypeAdapter(self.load()).core_schema)


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
            text = misspelt_type(value) or f"is missing; add one of: {known}"
            raise BrokenRulesError([(("type",), text)])
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
