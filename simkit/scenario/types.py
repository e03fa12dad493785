"""Types of values in a scenario: durations, instants, numbers, ranges of jobs.

Each accepts what people write and has one normal form, which a scenario's JSON shows: ``3h`` is
10800.0, ``jobs: 100`` is ``0..99``, a date is in UTC.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo

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


class BrokenRulesError(ValueError):
    """Several rules of a section are broken, each at a key below it.

    Attributes:
        problems: (path below the section, what is wrong and what to do).
    """

    def __init__(self, problems: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
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
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above 0."""

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
DurationRange = Annotated[tuple[PositiveDuration, PositiveDuration], Strict(False), _Pair, _Ordered]
"""``[shortest, longest]``, durations above 0."""
PositiveRange = Annotated[tuple[Positive, Positive], Strict(False), _Pair, _Ordered]
"""``[least, most]``, finite numbers above 0."""
Quality = Annotated[float, Field(gt=0, le=1)]
"""A quality of service: above 0 and at most 1."""
QualityRange = Annotated[tuple[Quality, Quality], Strict(False), _Pair, _Ordered]
"""``[least, most]`` qualities of service."""


class JobRange(NamedTuple):
    """Jobs by their rank in order of submission, from 0, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        """Return ``0..9999``."""
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
