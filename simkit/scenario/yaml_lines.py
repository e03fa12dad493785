"""YAML with its line numbers: plain values, and the line of every key.

`yaml_document.Document.error_lines` puts these lines in front of the problems that pydantic finds.

It is read from the graph of nodes instead of the finished values: so duplicate keys are found, and
dates stay text.

A scenario may come from a stranger. The limits below are far above those of an honest scenario, and
keep a file of a few lines from taking minutes or gigabytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scanner import Scanner, ScannerError

from simkit.errors import ScenarioError
from simkit.sections import KeyPath, Problem

LARGEST_FILE: Final = 2_000_000
"""Most bytes of a scenario file; the parser takes about a minute for them."""
DEEPEST: Final = 50
"""Most levels of lists and mappings inside each other."""
MOST_COPIES: Final = 20_000
"""Most values that aliases add to those that are written out."""
LONGEST_NUMBER: Final = 100
"""Most characters of a number."""

_TAG = "tag:yaml.org,2002:"
_TOO_DEEP = f"is nested more than {DEEPEST} levels deep; a scenario is flatter"
_SECOND = (
    "a second YAML document begins here, and a scenario is one document; delete the line `---` or "
    "`...` between them, or put the second into a file of its own"
)


@dataclass
class Values:
    """The values of a YAML text or a Python mapping, before validation."""

    data: Any = None
    """Dicts, lists, text, numbers, booleans and None."""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    """KeyPath → line of its key, from 1; empty if the values came from Python."""
    problems: list[Problem] = field(default_factory=list)
    """What is wrong with the text itself: duplicate keys, tags, numbers without end."""

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

    Raises ScenarioError, with `label` and the line, if it is empty, no text or no YAML, or beyond a
    limit of size, nesting or copies by alias.
    """
    if len(text) > LARGEST_FILE:
        raise ScenarioError(
            f"{label}: has more than {LARGEST_FILE:,} bytes, too many for a scenario; put tables "
            "into files that it names"
        )
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        decoded = "\0"
    if "\0" in decoded:
        raise ScenarioError(f"{label}: is not text; a scenario is a YAML file in UTF-8")
    root = _compose(decoded, label)
    if root is None:
        raise ScenarioError(f"{label}: is empty; write at least `workload:`")
    return _Reader(label).read(root)


def from_python(data: Any) -> Values:
    """Return the values of a Python mapping: tuples as lists, paths and dates as text."""
    values = Values()
    values.data = _plain(data, (), values)
    return values


def parse_scalar(text: str, key: str = "") -> Any:
    """Return the value of a YAML text of one line, such as ``3``, ``[0, 1]`` or ``{order: sjf}``.

    Raises ScenarioError, with the `key`, if it is no YAML, or beyond a limit of `parse_yaml`.
    """
    label = repr(text) if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]!r}…"
    label = f"{key}: {label}" if key else label
    node = _compose(text, label)
    if node is None:
        return None
    values = _Reader(label).read(node)
    if values.problems:
        raise ScenarioError(f"{label}: {problem.text}" for problem in values.problems)
    return values.data


def _compose(text: str, label: str) -> Node | None:
    """Return the graph of nodes; raises the parser's errors as ScenarioError."""
    parser = YAML(typ="safe", pure=True)
    parser.Scanner = _Scanner
    try:
        node: Node | None = parser.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ScenarioError(f"{label}{line}: {_parser_message(error)}") from error
    except YAMLError as error:
        raise ScenarioError(
            f"{label}: contains a control character; a scenario is a YAML file in UTF-8"
        ) from error
    except RecursionError as error:
        raise ScenarioError(f"{label}: {_TOO_DEEP}") from error
    return node


class _Scanner(Scanner):
    """Refuses deep nesting at once: the scanner's time grows with its square."""

    def fetch_flow_collection_start(self, *token: Any, **more: Any) -> None:
        self._check(self.flow_context)
        super().fetch_flow_collection_start(*token, **more)

    def add_indent(self, column: int) -> Any:
        self._check(self.indents)
        return super().add_indent(column)

    def _check(self, above: list[Any]) -> None:
        if len(above) > DEEPEST:
            raise ScannerError(None, None, _TOO_DEEP, self.reader.get_mark())


def _parser_message(error: MarkedYAMLError) -> str:
    if error.problem == _TOO_DEEP:
        return _TOO_DEEP
    problem = error.problem or "cannot be parsed"
    if r"\t" in problem:
        return "a value or an indentation begins with a tab; use spaces"
    if "another document" in problem:
        return _SECOND
    context = f" {error.context}" if error.context else ""
    return f"not valid YAML: {problem}{context}; correct this line or the one above"


class _Reader:
    """Walks the nodes once and collects values, lines and problems."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._constructor = YAML(typ="safe", pure=True).constructor
        self._values = Values()
        self._above: list[int] = []
        self._seen: set[int] = set()
        self._copies = 0

    def read(self, root: Node) -> Values:
        self._values.lines[()] = root.start_mark.line + 1
        self._values.data = self._value(root, ())
        return self._values

    def _value(self, node: Node, path: KeyPath) -> Any:
        self._check_limits(node)
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

    def _check_limits(self, node: Node) -> None:
        """Raise ScenarioError if aliases make the values too many or too deep."""
        self._copies += id(node) in self._seen
        self._seen.add(id(node))
        line = node.start_mark.line + 1
        if self._copies > MOST_COPIES:
            raise ScenarioError(
                f"{self._label}:{line}: aliases copy more than {MOST_COPIES:,} values; write the "
                "values out"
            )
        if len(self._above) > DEEPEST:
            raise ScenarioError(f"{self._label}:{line}: {_TOO_DEEP}")

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
                lines, self._values.lines = self._values.lines, {}
                merged = self._mapping(part, path) | merged
                for key, line in self._values.lines.items():
                    lines.setdefault(key, line)
                self._values.lines = lines
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
        kind = tag.removeprefix(_TAG)
        if kind in ("str", "timestamp", "merge", "value"):
            return text
        if kind not in ("null", "bool", "int", "float"):
            self._values.report(path, f"the tag {tag} is not used in scenarios; leave it out")
            return text
        if kind in ("int", "float") and len(text) > LONGEST_NUMBER:
            limit = f"a number has at most {LONGEST_NUMBER}; write it shorter, or in quotes"
            self._values.report(path, f"{text[:10]}… has {len(text):,} characters, {limit}")
            return text
        try:
            return self._constructor.construct_object(ScalarNode(f"{_TAG}{kind}", text))
        except ValueError:
            self._values.report(path, f"{text!r} is not a valid {kind}; put text in quotes")
            return text


def _plain(value: Any, path: KeyPath, values: Values) -> Any:
    """Return a Python value as YAML would have given it."""
    if len(path) > DEEPEST:
        raise ScenarioError(f"{'.'.join(map(str, path[:3]))}…: {_TOO_DEEP}")
    if isinstance(value, Mapping):
        return {str(key): _plain(part, (*path, str(key)), values) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, (*path, row), values) for row, part in enumerate(value)]
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST_NUMBER:
        values.report(path, f"has more than {LONGEST_NUMBER} digits; use a smaller number")
        return None
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if getattr(value, "shape", None) == ():  # a NumPy scalar
        return value.item()
    return value
