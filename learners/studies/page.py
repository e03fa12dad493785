"""Fills the holes of a page: Markdown written by hand, whose numbers follow from results.

``{{number: QUESTION : FORMAT}}``
    The answer to a question, see `Results.ask`. The format is that of Python for a number, by
    default ``.2f``; further words: ``±`` adds the interval, ``low`` and ``high`` give a bound
    alone, ``seeds`` lists the training seeds, ``ends`` gives the least and the most of them, ``?``
    gives a dash for what was not measured. Of a text, the format is a beginning that is left out.
``{{verdict: QUESTION >= NUMBER}}``
    Whether a claim is confirmed: the value is as claimed, and the interval excludes no effect.
``{{rows: ARM = LABEL; ARM; …}}``
    The next line is a row of a table: it is repeated for each arm, with ``[arm]`` and ``[label]``
    in it replaced. ``{{rows: arms | METRIC | CASE}}`` has all arms, ``ranked`` the lowest mean
    first; ``{{rows: cases | [x] %}}`` has the numbers in names of cases, for ``[x]`` in the row;
    ``{{rows: trainings | METRIC | ARM | CASE}}`` has all of an arm together, and each, with the
    option that ``[by]`` adds to a question.
``{{table: NAME}}``
    A table that is not written row by row.

A study's own functions of results are called by their names, with spaces for underscores, and with
the words that follow: ``{{rows: scorers | HPC2N}}``, ``{{number: long jobs | jobs : .1%}}``; so is
a name of `Results.best`: ``{{number: best rule | HPC2N}}`` is the arm that it stands for.
A verdict may be one that returns whether a claim is confirmed; rows may be one that returns arms,
arm → label, or for each row what replaces the words in brackets.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from types import MappingProxyType
from typing import Any, Final

from simkit.analysis.intervals import Estimate
from simkit.errors import RunError
from simkit.learners.studies.results import Results

__all__ = ["CONFIRMED", "NOT_CONFIRMED", "SIGNS", "SMALLER", "Contents", "Rows", "answer", "fill",
           "judged", "markdown_table", "parsed", "told", "verdict"]  # fmt: skip

Rows = Sequence[Sequence[str]]
"""A table as text: the head, then the rows."""
CONFIRMED: Final = "confirmed"
SMALLER: Final = "not confirmed: smaller"
"""There is an effect in the claimed direction, but not of the claimed size."""
NOT_CONFIRMED: Final = "not confirmed"
SIGNS: Final = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_HOLE: Final = re.compile(r"\{\{(number|verdict|table): *(.*?) *\}\}")
_ROW: Final = re.compile(r"^\{\{rows: *(.*?) *\}\}\n(.*)$", re.MULTILINE)
_RULE: Final = re.compile(r"(.*) (>=|<=|>|<) (\S+)")


def judged(found: Estimate, sign: str, least: float, no_effect: float = 0.0) -> str:
    """Return the verdict on an estimate that is claimed to be ``>=``, ``>``, … a number.

    The value of no effect is 0 for a difference, and 1 for a ratio.
    """
    sure = found.surely if sign.startswith(">") else found.surely_below
    if not sure(no_effect):
        return NOT_CONFIRMED
    return CONFIRMED if SIGNS[sign](found.value, least) else SMALLER


@dataclass(frozen=True)
class Contents:
    """What a page's holes may name."""

    results: Results
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """The study's own: called with results, and with what follows the name in a hole."""
    small: bool = False
    """Whether a small version may lack what a hole names: it then gets a dash."""


def fill(text: str, contents: Contents) -> str:
    """Return a page with its holes filled; raises RunError for one that names nothing."""

    def filled(hole: re.Match[str]) -> str:
        kind, (asked, _, spec) = hole[1], (part.strip() for part in hole[2].partition(" : "))
        if kind == "table" and (rows := _called(asked, contents)) is not None:
            return markdown_table(rows)
        try:
            return _filled(kind, asked, spec, contents)
        except RunError:
            if contents.small or "?" in spec:
                return "–"
            raise

    return _HOLE.sub(filled, _ROW.sub(lambda hole: _repeated(hole[1], hole[2], contents), text))


def _filled(kind: str, asked: str, spec: str, contents: Contents) -> str:
    found = _called(asked, contents)
    if kind == "number":
        return told(contents.results, f"{asked} : {spec}") if found is None else answer(found, spec)
    if found is None:
        return verdict(contents.results, asked)
    return found if isinstance(found, str) else CONFIRMED if found else NOT_CONFIRMED


def _repeated(asked: str, row: str, contents: Contents) -> str:
    """Return a row of a table for each arm; of dashes, where a small version has none."""
    try:
        found = _called(asked, contents, _LISTS)
    except RunError:
        if contents.small:
            return re.sub(r"\[[\w ]+\]", "–", row)
        raise
    if found is None:
        found = {
            arm: label for arm, _, label in (o.strip().partition(" = ") for o in asked.split(";"))
        }
    if isinstance(found, Mapping):
        found = [{"arm": arm, "label": label or arm} for arm, label in found.items()]
    words = [{"arm": one, "label": one} if isinstance(one, str) else one for one in found]
    return "\n".join(
        re.sub(r"\[([\w ]+)\]", lambda name: each.get(name[1], name[0]), row)  # noqa: B023
        for each in words
    )


_LISTS: Final[Mapping[str, Callable[..., Any]]] = {
    "arms": Results.arms,
    "ranked": Results.ranked,
    "trainings": lambda results, *arm: [
        {"label": "all", "by": ""},
        *({"label": str(seed), "by": f" | seed={seed}"} for seed in results.seeds(*arm)),
    ],
    "cases": lambda results, cases: [{"x": number} for number in results.numbers(cases)],
}


def _called(
    asked: str, contents: Contents, further: Mapping[str, Callable[..., Any]] = MappingProxyType({})
) -> Any:
    """Return what a study's function returns; None if it has none of this name."""
    name, *arguments = (part.strip() for part in asked.split("|"))
    if name in contents.results.best:
        return contents.results.named(name, *arguments)
    function = {**further, **contents.functions}.get(name)
    return None if function is None else function(contents.results, *arguments)


def parsed(rule: str) -> tuple[str, str, float]:
    """Return the parts of ``QUESTION >= NUMBER``; else RunError."""
    parts = _RULE.fullmatch(rule)
    if parts is None:
        raise RunError(f"{rule!r} is not QUESTION >= NUMBER")
    return parts[1], parts[2], float(parts[3])


def verdict(results: Results, rule: str) -> str:
    """Return whether ``QUESTION >= NUMBER`` is confirmed."""
    question, sign, least = parsed(rule)
    no_effect = 1.0 if "over=" in question and "percent" not in question else 0.0
    return judged(results.ask(question), sign, least, no_effect)


def answer(found: Any, spec: str = "") -> str:
    """Return an answer as text, see the format of a hole.

    A mean is infinite if something never ended: the text is then how many trainings that holds for.
    """
    if isinstance(found, str):
        return found.removeprefix(spec).strip()
    words = spec.split()
    usual = "" if isinstance(found, int) else ".2f"
    number = next((word for word in words if word not in _WORDS), usual)
    if not isinstance(found, Estimate):
        return format(found, number)
    each = found.by_seed or (found.value,)
    endless = sum(not isfinite(value) for value in each)
    if endless and found.value == inf:
        return "never done" if endless == len(each) else f"{endless} of {len(each)} never done"
    if "ends" in words:
        return "–".join(dict.fromkeys(format(end(each), number) for end in (min, max)))
    if "seeds" in words:
        return ", ".join(format(each, number) for each in found.by_seed) or "–"
    for word in ("low", "high"):
        if word in words:
            bound = getattr(found, word)
            return "–" if bound is None else format(bound, number)
    return format(found if "±" in words else Estimate(found.value), number)


_WORDS: Final = ("±", "low", "high", "seeds", "ends", "?")


def told(results: Results, asked: str) -> str:
    """Return the answer to ``QUESTION : FORMAT`` as text; empty for an arm beside itself."""
    question, _, spec = (part.strip() for part in asked.partition(" : "))
    if "=" in question and (parts := results.question(question)).arm == parts.against:
        return ""
    return answer(results.ask(question), spec)


def markdown_table(rows: Rows) -> str:
    """Return a Markdown table whose first row is its head; columns of numbers align right."""
    head, *body = rows
    numeric = [
        bool(body) and all(_NUMERIC.match(row[column]) for row in body)
        for column in range(len(head))
    ]
    ruler = ["---:" if each else "---" for each in numeric]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *body))


_NUMERIC: Final = re.compile(r"[-+–]?[\d.,]*( %)?( \(.*\))?(, [\d.,]+)*$|–$")
