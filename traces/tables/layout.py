"""How a table of text is written: the line of names, separators, forms of times, and their keys.

A form of times has the directives of `datetime.strptime`, each once. A second part after a dash or
a slash is the end of an interval, whose begin counts. Times that are numbers have a unit instead.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema, model_validator

from simkit.errors import TraceError, did_you_mean
from simkit.sections import Count, Many, Section, Zone
from simkit.text import counted
from simkit.traces.files import text_blocks

UNITS: Final = {
    "seconds": (1.0, 1.0),
    "minutes": (60.0, 1.0),
    "hours": (3600.0, 1.0),
    "days": (86_400.0, 1.0),
    "milliseconds": (1.0, 1e3),
    "microseconds": (1.0, 1e6),
    "nanoseconds": (1.0, 1e9),
}
"""Unit of numbers → (factor, divisor) that make seconds of them."""
_SHORT: Final = {
    "s": "seconds", "unix": "seconds", "epoch": "seconds", "ms": "milliseconds",
    "us": "microseconds", "µs": "microseconds", "ns": "nanoseconds", "h": "hours",
    "unix-ms": "milliseconds", "unix_ms": "milliseconds", "min": "minutes", "d": "days",
}  # fmt: skip

MONTHS: Final = {
    name: number
    for number, long in enumerate(
        ("january", "february", "march", "april", "may", "june", "july", "august", "september",
         "october", "november", "december"), 1
    )
    for name in (long, long[:3])
} | {"sept": 9}  # fmt: skip
"""English names of months, long and short, in lower case."""

_NUMBER: Final = r"\d{1,2}"
DIRECTIVES: Final = {
    "Y": r"\d{4}", "y": r"\d{2}", "m": _NUMBER, "d": _NUMBER, "j": r"\d{1,3}",
    "b": r"\p{L}+\.?", "H": _NUMBER, "I": _NUMBER, "M": _NUMBER, "S": _NUMBER, "f": r"\d{1,9}",
    "p": r"(?i:[ap]\.?m\.?)", "z": r"Z|UTC|GMT|[+-]\d{2}:?\d{2}", "a": r"\p{L}+\.?",
}  # fmt: skip
"""Directive → what it matches; B is b and A is a."""
_SAME: Final = {"B": "b", "h": "b", "A": "a", "e": "d"}
_LONGER: Final = {
    "T": "%H:%M:%S", "R": "%H:%M", "F": "%Y-%m-%d", "D": "%m/%d/%y", "r": "%I:%M:%S %p",
    "s": "time_format: seconds", "Z": "the zone as key `zone`, and its letters as text",
    "k": "%H", "l": "%I", "P": "%p", "L": "%f", "N": "%f", "i": "%M",
}  # fmt: skip
"""What other tools know → what to write."""
_SPELT: Final = (("yyyy", "%Y"), ("YYYY", "%Y"), ("yy", "%y"), ("YY", "%y"), ("MM", "%m"),
                 ("dd", "%d"), ("DD", "%d"), ("HH", "%H"), ("hh", "%I"), ("mm", "%M"),
                 ("ss", "%S"), ("SSS", "%f"))  # fmt: skip
_BETWEEN: Final = re.compile(r"\s*(?:-|–|—|/|\bto\b|\buntil\b|\bbis\b)\s*")
END: Final = r"(?:(?:\s+(?:-|–|—|to|until|bis)\s+|\s*/\s*)[\dP].*)?"
"""Pattern of the end of an interval, if a cell holds one."""


class _Piece(NamedTuple):
    """A directive, or the text between two."""

    directive: str
    text: str


def check_time_format(form: str) -> str:
    """Return a form as it is.

    Raises ValueError, with the remedy, if it has unknown directives, repeats one, or does not name
    a day.
    """
    if form not in UNITS:
        pattern_of(form)
    return form


def pattern_of(form: str) -> str:
    r"""Return a regular expression of polars, whose groups have the names of the directives.

    Raises ValueError as `check_time_format`.
    """
    begin, end = _parts(list(_pieces(form)))
    names = [piece.directive for piece in begin if piece.directive]
    _check_names(form, names)
    tail = "".join(_expression(piece, named=False) for piece in end) if end else END
    return f"^{''.join(_expression(piece) for piece in begin)}{tail}$"


def _pieces(form: str) -> Iterator[_Piece]:
    """Yield directives and the texts between them."""
    if "%" not in form:
        raise ValueError(_no_directive(form))
    text, rest = "", form
    while rest:
        before, sign, after = rest.partition("%")
        text += before
        letter, rest = after[:1], after[1:]
        if sign and not letter:
            raise ValueError(f"{form!r} ends in a single %; write its directive, or %% for a %")
        if letter == "%":
            text += "%"
        elif sign:
            if text:
                yield _Piece("", text)
            text = ""
            yield _Piece(_known(letter, form), "")
    if text:
        yield _Piece("", text)


def _known(letter: str, form: str) -> str:
    name = _SAME.get(letter, letter)
    if name in DIRECTIVES:
        return name
    if letter in _LONGER:
        raise ValueError(f"{form!r} has %{letter}, which is not read; write {_LONGER[letter]}")
    known = ", ".join(f"%{name}" for name in ("Y", "y", "m", "b", "d", "j", "H", "I", "p", "M",
                                              "S", "f", "z", "a"))  # fmt: skip
    raise ValueError(f"{form!r} has %{letter}, which is no directive; known: {known}")


def _no_directive(form: str) -> str:
    """Return what to write instead of a form without %."""
    if meant := _SHORT.get(form.strip().lower()):
        return f"{form!r} is no form of times; did you mean {meant!r}?"
    if re.fullmatch(r"\s*iso[ _-]?8601\s*", form, re.IGNORECASE):
        return f"{form!r}: ISO 8601 is what is read without a time_format; leave it out"
    changed = form
    hour = re.search("[Hh]", form)
    if hour:  # minutes are often written as months are
        changed = form[: hour.start()] + form[hour.start() :].replace("MM", "mm")
    for word, directive in _SPELT:
        changed = changed.replace(word, directive)
    if "%" in changed:
        return f"{form!r} has no directive; did you mean {changed!r}?"
    near = did_you_mean(form, UNITS)
    return (
        f"{form!r} has no directive{near if 'did you mean' in near else ''}; write a form such as "
        f'"%d.%m.%Y %H:%M", or the unit of numbers: {", ".join(UNITS)}'
    )


def _parts(pieces: list[_Piece]) -> tuple[list[_Piece], list[_Piece]]:
    """Return the pieces of the begin, and those from the mark between begin and end on."""
    seen: set[str] = set()
    for place, piece in enumerate(pieces):
        if piece.directive in seen:
            if _BETWEEN.fullmatch(pieces[place - 1].text):
                return pieces[: place - 1], pieces[place - 1 :]
            break
        if piece.directive:
            seen.add(piece.directive)
    return pieces, []


def _check_names(form: str, names: list[str]) -> None:
    """Raise ValueError unless each directive is there once, and they name a day."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(
            f"{form!r} repeats %{twice}; name each part of a time once, or give begin and end of "
            'an interval: "%d.%m.%Y %H:%M - %d.%m.%Y %H:%M"'
        )
    has = set(names).__contains__
    if has("I") and not has("p"):
        raise ValueError(f"{form!r} has %I, a clock of 12 hours, but no %p; add %p, or write %H")
    if has("p") and not has("I"):
        raise ValueError(f"{form!r} has %p, but not %I, a clock of 12 hours; write %I for %H")
    for choices, what in ((("Y", "y"), "year"), (("m", "b", "j"), "month"), (("d", "j"), "day")):
        if not any(map(has, choices)):
            raise ValueError(
                f"{form!r} names no {what}, so it names no instant; add "
                f"{' or '.join(f'%{choice}' for choice in choices)}"
            )
        if (both := [name for name in choices if has(name)])[1:]:
            raise ValueError(
                f"{form!r} names the {what} twice, by %{both[0]} and %{both[1]}; leave one out"
            )


def _expression(piece: _Piece, *, named: bool = True) -> str:
    if piece.directive:
        name = f"?<{piece.directive}>" if named else "?:"
        return f"({name}{DIRECTIVES[piece.directive]})"
    return "".join(r"\s+" if part.isspace() else re.escape(part)
                   for part in re.split(r"(\s+)", piece.text) if part)  # fmt: skip


SUGGESTED: Final = (
    "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S", "%d-%m-%Y %H:%M", "%d-%m-%Y %H:%M:%S", "%m-%d-%Y %H:%M", "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M %p",
    "%d.%m.%y %H:%M", "%m/%d/%y %H:%M", "%d/%m/%y %H:%M", "%Y%m%d%H%M", "%Y%m%d %H%M",
    "%Y%m%d:%H%M", "%Y%m%d %H:%M", "%Y%m%d%H", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y",
    "%b %d, %Y %H:%M", "%d %b %Y %H:%M", "%b %d %Y %H:%M:%S", "%d-%b-%Y %H:%M",
    "%d-%b-%y %H:%M", "%d/%b/%Y %H:%M", "%b %d, %Y %I:%M %p", "%a, %d %b %Y %H:%M:%S %z",
    "%d/%b/%Y:%H:%M:%S %z", "%d.%m.%Y %H:%M:%S %z", "%d/%m/%Y %H:%M %z",
)  # fmt: skip
"""Forms that a message proposes where they read the times."""


SEPARATORS: Final = (",", ";", "\t", "|")
"""What is looked for between fields."""
_HEAD_BYTES: Final = 1 << 18
"""How much of a file is searched for the column names."""
MOST_COLUMNS: Final = 10_000
"""A table of more columns is refused: it takes seconds a row, and no log needs it."""
_NAMES: Final = {"\t": "tab", " ": "space"}


@dataclass(frozen=True)
class Dialect:
    """How a table is written: keys of `TableKeys`; None is found."""

    separator: str | None = None
    """What stands between two fields."""
    header_line: int | None = None
    """The line of the column names, from 1."""
    decimal: str | None = None
    """Decimal sign."""
    missing: tuple[str, ...] = ()
    """Marks of no value besides the usual ones."""


@dataclass(frozen=True)
class Layout:
    """Where a table's columns are."""

    path: Path
    names: tuple[str, ...]
    """The columns, without spaces and quotes around them."""
    separator: str
    header_line: int
    """The line with their names, from 1."""
    above: tuple[int, ...]
    """Lines above it that are not empty, if it was found."""
    found: bool
    """Whether the separator was found, not declared."""

    @property
    def said(self) -> tuple[str, ...]:
        """What was found and is not what most tables have."""
        if not self.found or self.separator == ",":
            return ()
        return (f"fields separated by {separator_name(self.separator)}",)


def separator_name(separator: str) -> str:
    """Return ``tab``, or the mark in quotes."""
    return _NAMES.get(separator, f"'{separator}'")


def find_layout(path: Path, wanted: Sequence[Collection[str]], dialect: Dialect) -> Layout:
    """Find the line with the column names and the separator.

    Args:
        path: the file.
        wanted: sets of columns; the line must have all of one set.
        dialect: what is declared.

    Returns:
        The layout; if no line has all of a set, of the line that comes closest, for a message.

    Raises TraceError if the file is empty, cannot be read, is shorter than `header_line`, or has
    more than `MOST_COLUMNS`.
    """
    lines = head(path)
    if not any(map(str.strip, lines)):
        raise TraceError(f"{path}: the file is empty; check it")
    if dialect.header_line is not None and dialect.header_line > len(lines):
        raise TraceError(
            f"{path}: {counted(len(lines), 'line')} at its beginning, so header_line: "
            f"{dialect.header_line} does not exist; check which line has the column names"
        )
    places = range(len(lines)) if dialect.header_line is None else [dialect.header_line - 1]
    separators = SEPARATORS if dialect.separator is None else (dialect.separator,)
    best, place, separator, names = 0, -1, "", [""]
    for at, mark, line in _candidates(lines, places, separators):
        found = split(line, mark)
        if (score := _score(found, wanted)) > best:
            best, place, separator, names = score, at, mark, found
        if best >= _WHOLE:
            break
    if place < 0:
        place, separator = _likely(lines, places, separators)
        names = split(lines[place], separator)
    refuse_wide(names, place + 1, path)
    found_above = lines[:place] if dialect.header_line is None else []
    above = tuple(n for n, line in enumerate(found_above, 1) if line.strip())
    return Layout(path, tuple(names), separator, place + 1, above, dialect.separator is None)


def refuse_wide(names: Sequence[str], line: int, path: Path) -> None:
    """Raise TraceError if a line names more columns than a table may have."""
    if len(names) > MOST_COLUMNS:
        raise TraceError(
            f"{path}:{line}: {len(names):,} columns, but at most {MOST_COLUMNS:,} are read; keep "
            "those that are needed"
        )


def _candidates(
    lines: Sequence[str], places: Sequence[int], separators: Sequence[str]
) -> Iterator[tuple[int, str, str]]:
    """Yield (line from 0, separator, text); a line of names may be a comment."""
    for at in places:
        texts = [lines[at], lines[at].lstrip("# ")] if lines[at].startswith("#") else [lines[at]]
        for text in texts:
            yield from ((at, mark, text) for mark in separators if mark in text)


def head(path: Path) -> list[str]:
    """Return the first lines of a file, without line ends."""
    first = next(iter(text_blocks(path, _HEAD_BYTES)), None)
    if first is None:
        return []
    if b"\r" in first.text and first.text.count(b"\n") == 1:
        raise TraceError(
            f"{path}: its lines end in CR alone, as on old Macintoshes; save it with the line ends "
            "of Unix or Windows"
        )
    return [line.removesuffix("\r") for line in decoded(first.text)[0].split("\n")[:-1]]


def decoded(text: bytes) -> tuple[str, bool]:
    """Return text in UTF-8, or else in Windows-1252, and whether it was the latter."""
    try:
        return text.decode(), False
    except UnicodeDecodeError:
        return text.decode("cp1252", "replace"), True


def split(line: str, separator: str) -> list[str]:
    """Return the fields of a line with column names, without spaces, quotes, or a # before all."""
    fields: list[str] = []
    with suppress(csv.Error):  # a quote that does not end
        fields = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    return [field.strip(' "\t\ufeff') for field in fields] or [""]


_WHOLE: Final = 1000
"""Score of a line that has all columns of a set."""


def _score(names: Sequence[str], wanted: Sequence[Collection[str]]) -> int:
    """Return how well a line does as that of the column names; 0: not at all."""
    known = set(names)
    if len(names) < 2:
        return 0
    best = max(len(known.intersection(columns)) for columns in wanted)
    return _WHOLE if any(known.issuperset(columns) for columns in wanted) else best


def _likely(
    lines: Sequence[str], places: Sequence[int], separators: Sequence[str]
) -> tuple[int, str]:
    """Return the line that looks most like one of names: the first of the most frequent width."""
    counts = Counter(
        (mark, lines[at].count(mark))
        for at in places
        for mark in separators
        if mark in lines[at] and not lines[at].startswith("#")
    )
    if not counts:
        return next((at for at in places if lines[at].strip()), places[0]), separators[0]
    (mark, number), _ = max(counts.items(), key=lambda item: (item[1], item[0][1]))
    return next(at for at in places if lines[at].count(mark) == number), mark


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
