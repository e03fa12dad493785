"""Forms of times: checks a `time_format` when a scenario is read, and makes a pattern of it.

A form has the directives of `datetime.strptime`, each once. A second part after a dash or a slash
is the end of an interval, whose begin counts. Times that are numbers have a unit instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from simkit.errors import did_you_mean

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
_WORDS: Final = (("yyyy", "%Y"), ("YYYY", "%Y"), ("yy", "%y"), ("YY", "%y"), ("MM", "%m"),
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
    for word, directive in _WORDS:
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
