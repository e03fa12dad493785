"""YAML with its line numbers: plain values, and the line of every key.

`yaml_document.Document.error_lines` puts these lines in front of the problems that pydantic finds.

It is read from the graph of nodes instead of the finished values: so duplicate keys are found,
dates stay text, and ``${VAR}`` is expanded before a plain scalar gets its type.
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
    """The line, if it is not that of the path."""


@dataclass
class Values:
    """The values of a YAML text or a Python mapping, before validation."""

    data: Any = None
    """Dicts, lists, text, numbers, booleans and None."""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """KeyPath → line of its key, from 1; empty if the values came from Python."""
    problems: list[Problem] = field(default_factory=list)
    """What is wrong with the text itself: duplicate keys, variables that are not set."""

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a path or of the nearest key above it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def report(self, path: KeyPath, text: str, line: int | None = None) -> None:
        """Add a problem."""
        self.problems.append(Problem(path, text, line))


def parse_yaml(text: bytes, label: str) -> Values:
    """Return the values of a YAML text.

    Raises ScenarioError, with `label` and the line, if it is empty, no text or no YAML.
    """
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        decoded = "\0"
    if "\0" in decoded:
        raise ScenarioError(f"{label}: is not text; a scenario is a YAML file in UTF-8")
    root = _compose(decoded, label)
    if root is None:
        raise ScenarioError(f"{label}: the file is empty; write at least `workload:`")
    return _Reader().read(root)


def from_python(data: Any) -> Values:
    """Return the values of a Python mapping: tuples as lists, paths and dates as text."""
    values = Values()
    values.data = _plain(data, (), values)
    return values


def parse_scalar(text: str) -> Any:
    """Return the value of a YAML text of one line, such as ``3``, ``[0, 1]`` or ``{order: sjf}``.

    Raises ScenarioError if it is no YAML.
    """
    node = _compose(text, repr(text))
    return None if node is None else _Reader(expand_variables=False).read(node).data


def _expand(text: str, report: Callable[[str], None]) -> str:
    """Replace each ``${NAME}`` by the environment's value; report the names that are not set."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            report(f"{match[0]} is not the name of an environment variable; write ${{NAME}}")
        elif name not in os.environ:
            report(f"the environment variable {name} is not set; export {name}=...")
        return os.environ.get(name, match[0])

    return _VARIABLE.sub(value, text)


def _compose(text: str, label: str) -> Node | None:
    """Return the graph of nodes; raises the parser's errors as ScenarioError."""
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ScenarioError(f"{label}{line}: {_parser_message(error)}") from error
    except YAMLError as error:
        raise ScenarioError(
            f"{label}: contains a control character; a scenario is a YAML file in UTF-8"
        ) from error
    except RecursionError as error:
        raise ScenarioError(f"{label}: is nested too deeply; a scenario is flatter") from error
    return node


def _parser_message(error: MarkedYAMLError) -> str:
    problem = error.problem or "cannot be parsed"
    if r"\t" in problem:
        return "a value or an indentation begins with a tab; use spaces"
    context = f" {error.context}" if error.context else ""
    return f"not valid YAML: {problem}{context}; correct this line or the one above"


class _Reader:
    """Walks the nodes once and collects values, lines and problems."""

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
            self._values.report(path, "an alias contains itself; write the value out")
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
                self._values.report(path, "a key is a list or a mapping; keys are words")
                continue
            name, line = str(key.value), key.start_mark.line + 1
            if name in found:
                first = self._values.lines[(*path, name)]
                twice = f"the key appears twice, first on line {first}; keep one"
                self._values.report((*path, name), twice, line)
                continue
            self._values.lines[(*path, name)] = line
            found[name] = self._value(value, (*path, name))
        return merged | found

    def _merge(self, node: Node, path: KeyPath) -> dict[str, Any]:
        """Return the mapping that ``<<`` merges; of a list the earlier ones win."""
        parts = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, MappingNode):
                lines = dict(self._values.lines)
                merged = self._mapping(part, path) | merged
                self._values.lines = self._values.lines | lines
            else:
                text = "<< merges mappings only; give it an alias of a mapping"
                self._values.report(path, text)
        return merged

    def _sequence(self, node: SequenceNode, path: KeyPath) -> list[Any]:
        for row, part in enumerate(node.value):
            self._values.lines[(*path, row)] = part.start_mark.line + 1
        return [self._value(part, (*path, row)) for row, part in enumerate(node.value)]

    def _scalar(self, node: Node, path: KeyPath) -> Any:
        tag, text = str(node.tag), str(node.value)
        if self._expand and "${" in text:
            text = _expand(text, lambda problem: self._values.report(path, problem))
            if not getattr(node, "style", None):  # the expanded text decides a plain scalar's type
                tag = str(self._yaml.resolver.resolve(ScalarNode, text, (True, False)))
        kind = tag.removeprefix(_TAG)
        if kind in ("str", "timestamp", "merge", "value"):
            return text
        if kind not in ("null", "bool", "int", "float"):
            self._values.report(path, f"the tag {tag} is not used in scenarios; leave it out")
            return text
        try:
            return self._yaml.constructor.construct_object(ScalarNode(f"{_TAG}{kind}", text))
        except ValueError:
            self._values.report(path, f"{text!r} is not a valid {kind}; put text in quotes")
            return text


def _plain(value: Any, path: KeyPath, values: Values) -> Any:
    """Return a Python value as YAML would have given it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part, (*path, str(key)), values) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, (*path, row), values) for row, part in enumerate(value)]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return _expand(value, lambda problem: values.report(path, problem))
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if getattr(value, "shape", None) == ():  # a NumPy scalar
        return value.item()
    return value
