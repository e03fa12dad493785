"""The keys that every reader of a table has: form of the times, marks, lines above the names."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema, model_validator

from simkit.scenario.signals import Zone
from simkit.sections import Count, Many, Section
from simkit.traces.tables.layout import Dialect
from simkit.traces.tables.time_format import UNITS, check_time_format

_WORDS: Final = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


def _separator(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f'must be one character, such as ";" or "\\t", not {value!r}')
    mark = _WORDS.get(value.strip().lower(), value)
    if len(mark) != 1 or mark.isalnum() or mark in "\"'\n\r#.-:":
        raise ValueError(
            f'{value!r} does not separate fields; give one character, such as ";", or '
            f"{', '.join(_WORDS)}"
        )
    return mark


def _marks(value: object) -> object:
    values = value if isinstance(value, (list, tuple)) else [value]
    plain = (int, float, str)
    if not all(isinstance(mark, plain) and not isinstance(mark, bool) for mark in values):
        raise ValueError(f"must be a list of marks, such as [-999, x], not {value!r}")
    return [mark if isinstance(mark, str) else f"{mark:.15g}" for mark in values]


_MARKS_SCHEMA: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"anyOf": [{"type": "string"}, {"type": "number"}]},
}

TimeFormat = Annotated[str, AfterValidator(check_time_format)]
"""Directives such as ``%d.%m.%Y %H:%M``, or the unit of numbers (see `time_format`)."""


class TableKeys(Section):
    """Keys of every reader of a table of text. null: what the file itself makes clear."""

    time_format: TimeFormat | None = None
    """Form of the times: directives of strptime such as "%d.%m.%Y %H:%M", or seconds, minutes,
    hours, days, milliseconds, microseconds, nanoseconds for numbers from `zero` (1970 if it is
    null); null: ISO 8601, or Unix times of the years 1990 to 2100."""
    zone: Zone | None = None
    """Zone of the clock that wrote the times; null only if every time includes its zone."""
    zero: str | None = None
    """Date of number 0 where times are numbers that count from there; null: they are dates."""
    separator: Annotated[str, BeforeValidator(_separator)] | None = None
    """What stands between two fields: one character, or tab; null: found among , ; tab and |."""
    decimal: Literal[".", ","] | None = None
    """Decimal sign; the other one, and spaces, may group thousands. null: found."""
    header_line: Count | None = None
    """Number of the line with the column names, from 1; null: the first that has those wanted."""
    missing: Annotated[Many[str], BeforeValidator(_marks), WithJsonSchema(_MARKS_SCHEMA)] = ()
    """More marks that stand for no value, such as [-999, x], besides the usual ones: nothing, -,
    --, n/e, N/A, NA, NaN, null, none and others."""

    @property
    def dialect(self) -> Dialect:
        """How the table is written, apart from its times."""
        return Dialect(self.separator, self.header_line, self.decimal, self.missing)

    @model_validator(mode="after")
    def _one_form_of_times(self) -> Self:
        if self.zero is not None and self.time_format not in (None, *UNITS):
            raise ValueError(
                "zero is for times that are numbers, time_format for dates; give one of the two, "
                f"or the unit of the numbers as time_format: {', '.join(UNITS)}"
            )
        return self
