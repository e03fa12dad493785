"""Sections: what a scenario, and each of its parts, is made of; and messages for what is wrong.

A section is a strict pydantic model. Where nothing else is known of a thing than what its author
writes, the section is the thing's facts in Python too (`Facts`): a battery, an admission rule.
The types of values accept what people write and have one normal form, which a scenario's JSON
shows: ``3h`` is 10800.0, ``jobs: 100`` is ``0..99``, a date is in UTC.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property, partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    Strict,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails

from simkit.dates import parse_zone
from simkit.errors import ScenarioError, TraceError, did_you_mean
from simkit.text import attribute_docstrings
from simkit.units import LARGEST_AMOUNT, LATEST_S, LONGEST_S, parse_duration

DURATION_PATTERN = r"^\s*[-+]?[0-9.][0-9.a-z\s]*$"


def shown(value: Any) -> str:
    """Return a value as a scenario shows it, shortened: ``'abc'``, ``true``, ``null``, ``{…}``."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class Section(BaseModel):
    """A section of the scenario: unknown keys are errors, and nothing changes once it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
    by_name: ClassVar[bool] = False
    """Whether a name alone stands for the section with this `type`."""
    listed: ClassVar[str] = ""
    """Key of the list that may stand in the place of the section; empty: none may."""


def schema_of_both(
    cls: type[BaseModel], short: dict[str, Any], schema: CoreSchema, handler: GetJsonSchemaHandler
) -> dict[str, Any]:
    """Return the JSON schema of a section that may be written in a short form, too."""
    long = handler.resolve_ref_schema(handler(schema))
    return {"title": cls.__name__, "description": cls.__doc__, "anyOf": [short, long]}


class Facts(Section):
    """A section that is also made in Python, from keyword arguments of the same names.

    Raises ScenarioError, for all arguments at once, if one is unknown, missing or out of its range.
    """

    noun: ClassVar[str]
    """What it describes; begins messages."""

    if not TYPE_CHECKING:  # else its arguments would be unknown to type checkers

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**{name: _of_python(value) for name, value in values.items()})
            except ValidationError as error:
                places = (
                    (".".join(map(str, (self.noun, *problem.path))), problem.text)
                    for problem in problems_of(error, type(self))
                )
                raise ScenarioError(f"{place}: {text}" for place, text in places) from error

        __init__.__pydantic_base_init__ = True  # pydantic's own way to a model that it validates


def _of_python(value: Any) -> Any:
    """Return the number of a NumPy scalar, anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () else value


Mark = TypeVar("Mark")


def mark_of(field: FieldInfo, kind: type[Mark]) -> Mark | None:
    """Return the mark of that kind, such as a `Unit`, in a field's type; None without one."""
    parts = [field.annotation, *field.metadata]
    while parts:
        part = parts.pop()
        if isinstance(part, kind):
            return part
        parts += get_args(part)
    return None


def _section_name(name: str) -> str:
    if not name.replace("_", "a").replace("-", "a").isalnum():
        raise ValueError("must be named with letters, digits, '_' and '-'")
    return name


SectionName = Annotated[str, AfterValidator(_section_name)]
"""The key of a section that the user names: it can stand in a dotted path and a column's name."""


KeyPath = tuple[str | int, ...]
"""Keys and rows of lists, from the scenario down to a value."""
KeyProblem = tuple[KeyPath, str]
"""A path below a section, and what is wrong there."""


class Problem(NamedTuple):
    """Something wrong at a path."""

    path: KeyPath
    text: str
    """What is wrong, the value, and what to do."""
    line: int | None = None
    """The line, if it is not that of the path."""
    cause: KeyPath = ()
    """The path of the override that it comes from, if that is not at or above the path."""


class BrokenRulesError(ValueError):
    """Several rules of a section are broken, each at a key below it.

    Attributes:
        problems: (path below the section, what is wrong and what to do).
    """

    def __init__(self, problems: Iterable[KeyProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(text for _, text in self.problems))


class _TooLongError(ValueError):
    """A duration is beyond the clock of the simulation."""


def _duration(value: object, longest_s: float = LONGEST_S) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"must be a duration, not {value!r}; write seconds, or 15s, 30m, 3h, 7d")
    try:
        seconds = parse_duration(value)
    except OverflowError:
        seconds = math.inf
    if abs(seconds) > longest_s:
        power, years = math.log2(longest_s), longest_s / (365.25 * 86_400)
        raise _TooLongError(
            f"{value!r} is too long; a duration is at most 2**{power:.0f} s ({years:.0f} years)"
        )
    return seconds


class Unit(NamedTuple):
    """Marks a field with its unit, for the comments of `simkit show`."""

    symbol: str


_DURATION_SCHEMA = {
    "anyOf": [{"type": "number"}, {"type": "string", "pattern": DURATION_PATTERN}],
    "examples": [90, "15s", "30m", "3h", "7d", "1d12h"],
}

Duration = Annotated[float, BeforeValidator(_duration), WithJsonSchema(_DURATION_SCHEMA), Unit("s")]
"""Seconds, of any sign; bounds are put on the field."""
TimeSpent = Annotated[Duration, Field(ge=0)]
"""Seconds, at least 0."""
ClockTime = Annotated[
    float,
    BeforeValidator(partial(_duration, longest_s=LATEST_S)),
    WithJsonSchema(_DURATION_SCHEMA),
    Unit("s"),
    Field(gt=0),
]
"""Seconds above 0, up to the whole clock of a simulation."""


def _instant(value: object) -> float | datetime:
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str) and re.match(r"\s*\d{4}-\d", value):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{value!r} is not a date; write it as 2004-05-31T12:00:00+02:00"
            ) from None
    else:
        seconds = _since_zero(value)
        if seconds < 0:
            raise ValueError(f"must be at least 0, not {value!r}")
        return seconds
    if moment.tzinfo is None:
        raise ValueError(f"{value!s} has no time zone; write {moment.isoformat()}+00:00 for UTC")
    return moment.astimezone(UTC)


def _since_zero(value: object) -> float:
    try:
        return _duration(value)
    except _TooLongError:
        raise
    except ValueError:
        raise ValueError(
            f"{value!r} is neither a duration (10d, 3h) nor a date (2004-05-31T12:00:00+02:00)"
        ) from None


def _write_instant(value: float | datetime) -> float | str:
    return value.isoformat() if isinstance(value, datetime) else value


_INSTANT_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": DURATION_PATTERN},
        {"type": "string", "format": "date-time"},
    ],
    "examples": ["10d", "2004-05-31T12:00:00+02:00"],
}

Instant = Annotated[
    float | datetime,
    PlainValidator(_instant),
    PlainSerializer(_write_instant),
    WithJsonSchema(_INSTANT_SCHEMA),
    Unit("s"),
]
"""Seconds after the zero that the field names, or a date (in UTC)."""


def _zone(name: str) -> str:
    try:
        parse_zone(name)
    except TraceError as error:
        raise ValueError(str(error)) from error
    return name


Zone = Annotated[str, AfterValidator(_zone)]
"""``UTC``, ``UTC-06:00`` or a name such as ``America/Chicago``."""


def check_order(start: float | datetime | None, end: float | datetime | None) -> None:
    """Raise ValueError if `end` is not after `start`; a date and a duration cannot be compared."""
    if start is None or end is None or isinstance(start, datetime) != isinstance(end, datetime):
        return
    if not end > start:  # type: ignore[operator]
        raise ValueError(
            f"the end ({_write_instant(end)}) must come after the start ({_write_instant(start)})"
        )


Count = Annotated[int, Field(ge=1, le=LARGEST_AMOUNT)]
"""A whole number, at least 1, that floating-point numbers hold exactly."""
ItemCount = Annotated[int, Field(ge=1, le=100_000_000)]
"""A number of things that are kept in memory, such as jobs or machines."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A finite number."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above 0."""
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number, at least 0."""
Share = Annotated[float, Field(ge=0, le=1)]
"""From 0 to 1."""

Item = TypeVar("Item")
Many = Annotated[tuple[Item, ...], Strict(False)]
"""A list in YAML, a tuple here."""


def _pair(value: object) -> object:
    if isinstance(value, (list, tuple)) and len(value) != 2:
        raise ValueError(f"must be a list of two, [least, most], not {list(value)!r}")
    return value


def _ordered(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    if pair[0] > pair[1]:
        raise ValueError(f"the least ({pair[0]:g}) is above the most ({pair[1]:g}); swap them")
    return pair


_Ordered = AfterValidator(_ordered)
_Pair = BeforeValidator(_pair)
CountRange = Annotated[tuple[Count, Count], Strict(False), _Pair, _Ordered]
"""``[least, most]``, whole numbers from 1 on."""
PositiveDuration = Annotated[Duration, Field(gt=0)]
"""Seconds above 0."""
InfiniteIsNone = BeforeValidator(lambda value: None if value == math.inf else value)
"""Marks a field in which None stands for no limit: an infinite number, too."""

DurationRange = Annotated[tuple[PositiveDuration, PositiveDuration], Strict(False), _Pair, _Ordered]
"""``[shortest, longest]``, durations above 0."""
PositiveRange = Annotated[tuple[Positive, Positive], Strict(False), _Pair, _Ordered]
"""``[least, most]``, finite numbers above 0."""
Quality = Annotated[float, Field(gt=0, le=1)]
"""A quality of service: above 0 and at most 1."""
QualityRange = Annotated[tuple[Quality, Quality], Strict(False), _Pair, _Ordered]
"""``[least, most]`` qualities of service."""


def or_infinite(limit: float | None) -> float:
    """Return a limit as a number: None stands for none, infinity."""
    return math.inf if limit is None else float(limit)


class JobRange(NamedTuple):
    """Jobs by their rank in order of submission, from 0, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


def _job_range(value: object) -> JobRange:
    if isinstance(value, JobRange):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"must be at least 1 job, not {value}")
        return JobRange(0, value - 1)
    match = (
        re.fullmatch(r"\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*", value)
        if isinstance(value, str)
        else None
    )
    if not match:
        raise ValueError(f'must be a number of jobs or "first..last", not {value!r}')
    jobs = JobRange(int(match[1]), int(match[2]))
    if jobs.first > jobs.last:
        raise ValueError(f"the last job ({jobs.last}) comes before the first ({jobs.first})")
    return jobs


Jobs = Annotated[
    JobRange,
    PlainValidator(_job_range),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\s*\d+\s*\.\.\s*\d+\s*$"},
            ],
            "examples": [10000, "0..9999"],
        }
    ),
]
"""``10000`` for the first ten thousand, or ``"5000..9999"``."""


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
        others: tag → model of these; a message names their keys as such.
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

    @property
    def has_short_form(self) -> bool:
        """Whether a name alone may stand at `path`, in the place of a section."""
        return any(getattr(model, "by_name", False) for model in self.inner.values())

    @property
    def listed(self) -> tuple[str, ...]:
        """Key below `path` that a list in the place of the section stands for; empty: none."""
        keys = {getattr(model, "listed", "") for model in self.inner.values()}
        return tuple(key for key in keys if key)


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
        if location.key == "type" and (text := misspelt_type(value)):
            return text
        about = attribute_docstrings(location.models.get(location.tag, object)).get(location.key)
        return f"is missing; add it{f': {about}' if about else ''}"
    if kind == "extra_forbidden":
        return _unknown_key(location)
    if kind == "union_tag_not_found":
        if text := misspelt_type(value):
            return text
        return f"is missing; add one of: {', '.join(location.inner)}"
    if kind == "union_tag_invalid":
        return _not_one_of([*location.inner], details["ctx"]["tag"])
    if kind == "literal_error":
        return _not_one_of(_literals(location.field and location.field.annotation), value)
    if kind in _BOUNDS:
        name, relation = _BOUNDS[kind]
        return _NOT(f"{relation} {details['ctx'][name]:g}", shown(value))
    if kind in _KINDS:
        short = "a list or " if location.listed else ""
        short = "a name or " if location.has_short_form else short
        wanted = short + _KINDS[kind]
        return _NOT(wanted, shown(value)) + _remedy(kind, value)
    return f"{details['msg']}, not {shown(value)}"


def _remedy(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, (int, float)):
        return "; put it in quotes"
    if kind in ("tuple_type", "list_type") and value is not None and not isinstance(value, dict):
        return f"; write [{value}]"
    return ""


def misspelt_type(section: object) -> str:
    """Return what to say about a section without `type` that has it misspelt; empty otherwise."""
    for key in section if isinstance(section, Mapping) else ():
        small = str(key).casefold()
        if sorted(small) == sorted("type") or get_close_matches(small, ["type"], cutoff=0.8):
            return f"is missing; write type instead of {shown(key)}"
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
