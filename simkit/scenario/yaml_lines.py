"""YAML that remembers its lines: plain values, and for each dotted path the line it stands on.

Read from the node graph instead of the finished values, so that duplicate keys are seen, dates
stay text and ``${VAR}`` is expanded before a plain scalar gets its type.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from simkit.errors import ScenarioError

KeyPath = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class Problem(NamedTuple):
    """Something wrong at a path."""

    path: KeyPath
    text: str
    """What is wrong, the value, and what to do."""
    line: int | None = None
    """The line, where it is not the one on which the path stands."""


@dataclass
class Values:
    """What a YAML text or a Python mapping says, before anyone judges it."""

    data: Any = None
    """Dicts, lists, text, numbers, booleans and None."""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """KeyPath → line of its key, from 1; empty if the values came from Python."""
    problems: list[Problem] = field(default_factory=list)
    """What is wrong in itself: duplicate keys, variables that are not set."""

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a path or of the nearest key above it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def parse_yaml(text: bytes, label: str) -> Values:
    """Return the values of a YAML text.

    Raises ScenarioError, with `label` and the line, if it is not text or not YAML, or empty.
    """
    root = _compose(_decode(text, label), label)
    if root is None:
        raise ScenarioError(f"{label}: the file is empty; write at least `workload:`")
    return _Reader().read(root)


def from_python(data: Any) -> Values:
    """Return the values of a Python mapping: tuples as lists, paths and dates as text."""
    values = Values()
    values.data = _plain(data, (), values.problems)
    return values


def parse_scalar(text: str) -> Any:
    """Return the value of a YAML text of one line, such as ``3``, ``[0, 1]`` or ``{order: sjf}``.

    Raises ScenarioError if it is not YAML.
    """
    node = _compose(text, repr(text))
    return None if node is None else _Reader(expand_variables=False).read(node).data


def expand(text: str, report: Callable[[str], None]) -> str:
    """Replace each ``${NAME}`` by the environment's value; report the names that are not set."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            report(f"{match[0]} names no environment variable; write ${{NAME}}")
        elif name not in os.environ:
            report(f"the environment variable {name} is not set; export {name}=...")
        return os.environ.get(name, match[0])

    return _VARIABLE.sub(value, text)


def _decode(text: bytes, label: str) -> str:
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        decoded = "\0"
    if "\0" in decoded:
        raise ScenarioError(f"{label}: this is no text; a scenario is a YAML file in UTF-8")
    return decoded


def _compose(text: str, label: str) -> Node | None:
    """Parse to the graph of nodes; turn the parser's complaints into a ScenarioError."""
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ScenarioError(f"{label}{line}: {_complaint(error)}") from error
    except YAMLError as error:
        raise ScenarioError(
            f"{label}: holds a control character; a scenario is a YAML file in UTF-8"
        ) from error
    except RecursionError as error:
        raise ScenarioError(f"{label}: is nested too deeply; a scenario is flatter") from error
    return node


def _complaint(error: MarkedYAMLError) -> str:
    problem = error.problem or "cannot be parsed"
    if r"\t" in problem:
        return "a tab begins a value or an indentation; use spaces"
    context = f" {error.context}" if error.context else ""
    return f"not valid YAML: {problem}{context}; mend the text here or just above"


class _Reader:
    """Walks the nodes once, collecting values, lines and problems."""

    def __init__(self, *, expand_variables: bool = True) -> None:
        self._yaml = YAML(typ="safe", pure=True)
        self._expand = expand_variables
        self._values = Values()
        self._above: list[int] = []

    def read(self, root: Node) -> Values:
        self._values.lines[()] = root.start_mark.line + 1
        self._values.data = self._value(root, ())
        return self._values

    def _value(self, node: Node, path: KeyPath) -> Any:
        if id(node) in self._above:
            self._report(path, "an alias holds itself; write the value out")
            return None
        self._above.append(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return self._sequence(node, path)
            return self._scalar(node, path)
        finally:
            self._above.pop()

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged = self._merge(value, path) | merged
                continue
            if not isinstance(key, ScalarNode):
                self._report(path, "a key is a list or a mapping; keys are words")
                continue
            name, line = str(key.value), key.start_mark.line + 1
            if name in found:
                first = self._values.lines[(*path, name)]
                twice = f"the key is there twice, first on line {first}; keep one"
                self._report((*path, name), twice, line)
                continue
            self._values.lines[(*path, name)] = line
            found[name] = self._value(value, (*path, name))
        return merged | found

    def _merge(self, node: Node, path: KeyPath) -> dict[str, Any]:
        """Return the mapping (or the earlier ones of a list first) that ``<<`` brings in."""
        parts = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, MappingNode):
                lines = dict(self._values.lines)
                merged = self._mapping(part, path) | merged
                self._values.lines = self._values.lines | lines
            else:
                self._report(path, "<< merges mappings only; give it an alias of a mapping")
        return merged

    def _sequence(self, node: SequenceNode, path: KeyPath) -> list[Any]:
        for row, part in enumerate(node.value):
            self._values.lines[(*path, row)] = part.start_mark.line + 1
        return [self._value(part, (*path, row)) for row, part in enumerate(node.value)]

    def _scalar(self, node: Node, path: KeyPath) -> Any:
        tag, text = str(node.tag), str(node.value)
        if self._expand and "${" in text:
            text = expand(text, lambda problem: self._report(path, problem))
            if not getattr(
                node, "style", None
            ):  # a plain scalar gets its type from what it expands to
                tag = str(self._yaml.resolver.resolve(ScalarNode, text, (True, False)))
        kind = tag.removeprefix(_TAG)
        if kind in ("str", "timestamp", "merge", "value"):
            return text
        if kind not in ("null", "bool", "int", "float"):
            self._report(path, f"the tag {tag} has no place in a scenario; leave it out")
            return text
        try:
            return self._yaml.constructor.construct_object(ScalarNode(f"{_TAG}{kind}", text))
        except ValueError:
            self._report(path, f"{text!r} is no {kind}; put text in quotes")
            return text

    def _report(self, path: KeyPath, problem: str, line: int | None = None) -> None:
        self._values.problems.append(Problem(path, problem, line))


def _plain(value: Any, path: KeyPath, problems: list[Problem]) -> Any:
    """Return a Python value as YAML would have given it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part, (*path, str(key)), problems) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, (*path, row), problems) for row, part in enumerate(value)]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return expand(value, lambda problem: problems.append(Problem(path, problem)))
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if getattr(value, "shape", None) == ():  # a NumPy scalar
        return value.item()
    return value
