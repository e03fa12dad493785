"""An encoder turns states into arrays of numbers; its schema says what each number means.

A schema has a field for each kind of number, with place, range and unit. An agent is saved with the
schema of what it was trained on. Two schemas with the same hash describe the same numbers in the
same places. Scaling and checks that encoders share are here as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from math import inf
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import RunError, ScenarioError
from simkit.policy import State, SystemInfo


@dataclass(frozen=True)
class Field:
    """Numbers of one kind that stand together in an observation."""

    name: str
    """Distinct within its schema."""
    shape: tuple[int, ...]
    """(rows, columns) in an image; in a vector any shape, flattened in C order."""
    low: float
    """The least that a number of the field can be."""
    high: float
    """The most that a number of the field can be."""
    unit: str
    """``1`` for shares and scaled counts."""
    text: str
    """What it means."""

    def __post_init__(self) -> None:
        """Turn NumPy's numbers into plain ones, so that equal fields are written alike."""
        object.__setattr__(self, "shape", tuple(int(length) for length in self.shape))
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class ObservationSchema:
    """The fields of an observation, one after another, and the numbers they were scaled by."""

    name: str
    """The encoder's name."""
    fields: tuple[Field, ...]
    """In order: side by side in an image, one after another in a vector."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the encoder: numbers, text, and lists and mappings of them."""
    rows: int | None = None
    """Rows of an image; None: a vector."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for fields that do not fit together, all at once.

        Parameters are converted as by JSON, so that a schema that is read back equals this one.
        """
        object.__setattr__(self, "parameters", json.loads(json.dumps(dict(self.parameters))))
        wrong = [f"{name!r} occurs twice" for name in _repeated(f.name for f in self.fields)]
        for part in self.fields:
            if self.rows is not None and (len(part.shape) != 2 or part.shape[0] != self.rows):
                wrong.append(f"{part.name} has shape {part.shape}, the image has {self.rows} rows")
            if not part.low <= part.high:
                wrong.append(f"{part.name} lies between {part.low:g} and {part.high:g}")
        if not self.fields:
            wrong.append("there is none; an observation has at least one")
        if wrong:
            raise ScenarioError([f"fields of observation {self.name}: {text}" for text in wrong])

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns) of an image, (K,) of a vector."""
        if self.rows is None:
            return (sum(part.size for part in self.fields),)
        return (self.rows, sum(part.shape[1] for part in self.fields))

    @property
    def size(self) -> int:
        """How many numbers an observation holds."""
        return math.prod(self.shape)

    @property
    def sha256(self) -> str:
        """The hash of everything that matters to an agent: all but the prose."""
        described = self._described(prose=False)
        text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return sha256(text.encode()).hexdigest()

    def places(self) -> Iterator[tuple[Field, int, int]]:
        """Yield each field with its begin and its end (exclusive).

        These are positions in the vector, or columns of the image.
        """
        begin = 0
        for part in self.fields:
            end = begin + (part.size if self.rows is None else part.shape[1])
            yield part, begin, end
            begin = end

    def differences(self, other: ObservationSchema) -> list[str]:
        """Return how another schema differs, a line each, naming the field.

        ``field backlog: shape is (1,) here, (2,) there``; *here* is this schema.
        """
        here, there = self._described(prose=False), other._described(prose=False)
        found = [
            f"{key}: {here[key]!r} here, {there[key]!r} there"
            for key in ("name", "rows")
            if here[key] != there[key]
        ]
        found += differing_entries("parameter", here["parameters"], there["parameters"])
        mine = {part.name: part for part in self.fields}
        theirs = {part.name: part for part in other.fields}
        for name in [*mine, *(name for name in theirs if name not in mine)]:
            if name not in theirs or name not in mine:
                found.append(f"field {name}: only {'here' if name in mine else 'there'}")
                continue
            a, b = mine[name], theirs[name]
            found += [
                f"field {name}: {key} is {getattr(a, key)} here, {getattr(b, key)} there"
                for key in ("shape", "low", "high", "unit")
                if getattr(a, key) != getattr(b, key)
            ]
        if not found and list(mine) != list(theirs):
            found.append(f"order of fields: {', '.join(mine)} here, {', '.join(theirs)} there")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back, with the hash."""
        return self._described(prose=True) | {"sha256": self.sha256}

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> ObservationSchema:
        """Return the schema that `as_json` described.

        Raises RunError if a key is missing, or if the hash is not that of the fields.
        """
        try:
            parts = tuple(
                Field(**{f.name: part[f.name] for f in fields(Field)})
                for part in described["fields"]
            )
            schema = cls(described["name"], parts, described["parameters"], described["rows"])
            stated = described["sha256"]
        except (KeyError, TypeError, ValueError, ScenarioError) as error:
            wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise RunError(f"observation schema: {wrong}; it must be as simkit wrote it") from error
        if stated != schema.sha256:
            raise RunError(
                f"observation schema {schema.name}: sha256 is {stated}, that of its fields is "
                f"{schema.sha256}; it was changed after it was written, restore the file"
            )
        return schema

    def table(self) -> str:
        """Return a Markdown table: index, field, shape, range, unit, meaning."""
        head = "index" if self.rows is None else "columns"
        lines = [
            f"| {head} | field | shape | range | unit | meaning |",
            "|---|---|---|---|---|---|",
        ]
        for part, begin, end in self.places():
            place = f"{begin}" if end == begin + 1 else f"{begin}–{end - 1}"
            shape = " × ".join(map(str, part.shape))
            bounds = f"{part.low:g} … {part.high:g}"
            lines.append(
                f"| {place} | `{part.name}` | {shape} | {bounds} | {part.unit} | {part.text} |"
            )
        return "\n".join(lines)

    def _described(self, *, prose: bool) -> dict[str, Any]:
        names = [f.name for f in fields(Field) if prose or f.name != "text"]
        return {
            "name": self.name,
            "rows": self.rows,
            "parameters": dict(self.parameters),
            "fields": [
                {name: getattr(part, name) for name in names} | {"shape": list(part.shape)}
                for part in self.fields
            ],
        }


def differing_entries(what: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return which entries of two mappings differ, a line each; `absent` if one is missing."""
    names = [*here, *(name for name in there if name not in here)]
    return [
        f"{what} {name}: {here.get(name, 'absent')} here, {there.get(name, 'absent')} there"
        for name in names
        if here.get(name, "absent") != there.get(name, "absent")
    ]


def _repeated(names: Iterator[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


Numbers = npt.NDArray[np.float32]


class Encoder(Protocol):
    """Turns states into arrays of one shape."""

    schema: ObservationSchema
    """What the numbers mean; known before a run begins, and the same in every run."""

    def reset(self, info: SystemInfo) -> None:
        """Begin a run on a system with the same resources.

        Raises ScenarioError if the observations would not be those of the schema.
        """

    def encode(self, state: State) -> Numbers:
        """Return a fresh array of `schema.shape`, every number in its field's range."""


def squashed(number: float, scale: float) -> float:
    """Return number / (number + scale): 0 up to 0, 1/2 at the scale, 1 if it is infinite."""
    if number == inf:
        return 1.0
    return number / (number + scale) if number > 0 else 0.0


def squashed_column(numbers: Floats, scale: float) -> Floats:
    """Return `squashed` of an array."""
    above = np.maximum(numbers, 0.0)
    with np.errstate(invalid="ignore"):
        column: Floats = above / (above + scale)
    column[above == inf] = 1.0
    return column


def reciprocal(capacity: Floats) -> Floats:
    """Return 1 / capacity, which turns amounts into shares; 0 where there is no capacity."""
    parts: Floats = np.divide(1.0, capacity, out=np.zeros(capacity.shape), where=capacity > 0)
    return parts


def check_numbers(name: str, whole: Mapping[str, int], scales: Mapping[str, float]) -> None:
    """Raise ScenarioError, all problems at once, for wrong arguments of an encoder.

    Args:
        name: the encoder's name.
        whole: argument → a count, at least 1.
        scales: argument → a time or scale, finite and above 0.
    """
    problems = [
        f"observation {name!r}: {argument} is {value!r}; it must be a whole number, at least 1"
        for argument, value in whole.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < 1
    ]
    problems += [
        f"observation {name!r}: {argument} is {value!r}; it must be a finite number above 0"
        for argument, value in scales.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf
    ]
    if problems:
        raise ScenarioError(problems)


def check_resources(name: str, trained: tuple[str, ...], info: SystemInfo) -> None:
    """Raise ScenarioError if a system's resources are not those of an encoder."""
    if info.resources != trained:
        raise ScenarioError(
            f"observation {name!r} shows the resources {', '.join(trained)}, the cluster has "
            f"{', '.join(info.resources)}; make the encoder for this cluster"
        )
