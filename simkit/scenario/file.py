"""The scenario file: reads a scenario from YAML, and tells every problem with its line.

    s.yaml:3: workload.proccessors: unknown key; did you mean 'processors'?
    s.yaml:9: policy.backfill: 'eazy' is not known as a backfilling rule; did you mean 'easy'?

Relative paths in a scenario start from its folder, ``${NAME}`` in a text is the environment
variable, and overrides are laid over the file by dotted path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, WithJsonSchema

from simkit import plugins
from simkit.errors import PluginError, ScenarioError
from simkit.scenario import SWEEP_REFUSAL, Scenario
from simkit.scenario.bundled import SAMPLE, agent_names
from simkit.scenario.error_messages import Location, problems_of, shown
from simkit.scenario.references import AGENT_FORMAT, Context, PluginChoice, PluginName, check_file
from simkit.scenario.types import mark_of
from simkit.scenario.yaml_lines import (
    KeyPath,
    Problem,
    Values,
    from_python,
    parse_scalar,
    parse_yaml,
)

# MERGED Dotted paths: ``policy.order`` names a value inside a scenario's mappings and lists.


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
    return any(issubclass(model, PluginChoice) for model in Location(Scenario, path).inner.values())


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
    place = Location(Scenario, path)
    named = bool(place.field and mark_of(place.field, PluginName)) or _has_short_form(path)
    file, colon, attribute = value.rpartition(":")
    if named and file.endswith(".py"):
        return f"{folder / Path(file).expanduser()}{colon}{attribute}"
    if _has_format(place, "path") and not value.startswith(SAMPLE):
        return str(folder / Path(value).expanduser())
    if _has_format(place, AGENT_FORMAT) and value not in agent_names():
        return str(folder / Path(value).expanduser())
    return value


def _has_format(place: Location, name: str) -> bool:
    marks = place.field.metadata if place.field else ()
    schemas = (mark.json_schema for mark in marks if isinstance(mark, WithJsonSchema))
    return any(schema and schema.get("format") == name for schema in schemas)


Source = str | os.PathLike[str] | Mapping[str, Any]


def load_scenario(
    source: Source, *, overrides: Mapping[str, object] | None = None, single: bool = False
) -> Scenario:
    """Read and check a scenario.

    Args:
        source: path of a YAML file, or a mapping of the same form (its relative paths start from
            the working directory).
        overrides: dotted path → value, laid over the source: ``{"policy.order": "sjf"}``.
        single: refuse a scenario with a `sweep`, which stands for several runs.

    Returns:
        The scenario after defaults, its paths absolute. The plug-ins it names are known, but not
        imported yet; `check_names` does that. A sweep's values are judged by
        `simkit.scenario.sweep.expand_sweep`.

    Raises ScenarioError with all problems, each with file, line and dotted path.
    """
    document = Document.read(source, overrides)
    scenario = document.scenario()
    if single and scenario.sweep:
        raise ScenarioError(document.locate([Problem(("sweep",), SWEEP_REFUSAL)]))
    return scenario


def check_names(scenario: Scenario) -> list[str]:
    """Import every plug-in that the scenario names; return ``dotted.path: problem`` lines."""
    problems = []
    for path, plugin, name in _named(scenario, ()):
        try:
            plugins.find(plugin.group, name, kind=plugin.kind)
        except PluginError as error:
            problems.append(f"{dotted(path)}: {error}")
    return problems


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Return dotted path → value of texts like ``policy.order=sjf``; the values are YAML.

    Raises ScenarioError for a text without a path or an equals sign, or whose value is no YAML.
    """
    overrides = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not all(path.strip().split(".")):
            raise ScenarioError(f"{text!r} sets nothing; write a dotted key and a value: seed=3")
        overrides[path.strip()] = parse_scalar(value)
    return overrides


@dataclass
class Document:
    """A scenario as written, with what is needed to judge it and to say where it is wrong."""

    label: str
    """The file as the user named it; empty for a mapping."""
    base: Path
    """Folder that relative paths start from."""
    values: Values
    """What the source says."""
    overrides: dict[KeyPath, Any] = field(default_factory=dict)
    """Path → value laid over it."""
    check_name: Callable[[str, str, str | None], None] = field(default_factory=plugins.name_checker)

    @classmethod
    def read(cls, source: Source, overrides: Mapping[str, object] | None = None) -> Document:
        """Read a file or a mapping; raises ScenarioError if there is nothing to judge."""
        laid_over = from_python(dict(overrides or {}))
        if isinstance(source, Mapping):
            document = cls("", Path.cwd(), from_python(source))
        else:
            path = Path(source).expanduser()
            document = cls(str(source), path.parent.absolute(), _read_file(path, str(source)))
        document.overrides = {split(path): value for path, value in laid_over.data.items()}
        document.values.problems += [
            Problem((*split(str(path[0])), *path[1:]), text) for path, text, _ in laid_over.problems
        ]
        return document

    def scenario(self) -> Scenario:
        """Return the scenario with overrides and defaults, or raise ScenarioError."""
        problems = list(self.values.problems)
        data = self.laid_over({}, problems)
        scenario, found = self.validate(data)
        told = {problem.path for problem in problems if problem.line is None}
        problems += [problem for problem in found if problem.path not in told]
        if scenario is None or problems:
            raise ScenarioError(self.locate(problems))
        return scenario

    def laid_over(self, assignment: Mapping[KeyPath, Any], problems: list[Problem]) -> Any:
        """Return the data with an assignment, then the overrides, put in; reports what fails."""
        data = deepcopy(self.values.data)
        if not isinstance(data, dict):
            return data
        for path, value in [*assignment.items(), *self.overrides.items()]:
            try:
                set_value(data, path, deepcopy(value))
            except ValueError as error:
                problems.append(Problem(path, str(error)))
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(self.label).stem).strip("-.")
        return data if "name" in data or not stem else {"name": stem} | data

    def validate(self, data: Any) -> tuple[Scenario | None, list[Problem]]:
        """Return the scenario, or what is wrong with the data."""
        context = Context(self.base, self.check_name)
        try:
            return Scenario.model_validate(data, context=context), []
        except ValidationError as error:
            found = problems_of(error, Scenario)
            return None, [p._replace(path=cut_at_scalar(p.path, data)) for p in found]

    def locate(self, problems: Iterable[Problem]) -> list[str]:
        """Return one line a problem, in order of the file's lines; the overrides' come last."""
        places = [(self._line(problem), problem) for problem in problems]
        places.sort(key=lambda place: (place[0] is None, place[0] or 0))
        return list(dict.fromkeys(self._sentence(line, problem) for line, problem in places))

    def _line(self, problem: Problem) -> int | None:
        if self._is_overridden(problem.path):
            return None
        return problem.line or self.values.line(problem.path)

    def _is_overridden(self, path: KeyPath) -> bool:
        """Tell whether an override is at or above the path, or alone brought in what holds it."""
        absent = self._highest_absent(path)
        return any(
            starts_with(path, laid) or (absent and starts_with(laid, absent))
            for laid in self.overrides
        )

    def _highest_absent(self, path: KeyPath) -> KeyPath:
        """Return the first key on the way down to the path that the file does not have, else ()."""
        ways = (path[:depth] for depth in range(1, len(path) + 1))
        return next((way for way in ways if way not in self.values.lines), ())

    def _sentence(self, line: int | None, problem: Problem) -> str:
        if self._is_overridden(problem.path):
            parts = ["override"]
        else:
            parts = [f"{self.label}:{line}"] if self.label else []
        parts += [dotted(problem.path)] if problem.path else []
        return ": ".join([*parts, problem.text])


def _read_file(path: Path, label: str) -> Values:
    try:
        check_file(path.absolute())
        return parse_yaml(path.read_bytes(), label)
    except ValueError as error:
        raise ScenarioError(f"{label}: {error}") from error
    except OSError as error:
        raise ScenarioError(f"{label}: cannot be read: {error.strerror}") from error


def _named(model: BaseModel, path: KeyPath) -> Iterator[tuple[KeyPath, PluginName, str]]:
    """Yield (path, its mark, name) of every plug-in name in a model."""
    for key, info in type(model).model_fields.items():
        value = getattr(model, key)
        plugin = mark_of(info, PluginName)
        if isinstance(value, BaseModel):
            yield from _named(value, (*path, key))
        elif plugin and isinstance(value, str):
            yield (*path, key), plugin, value
