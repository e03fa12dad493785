"""Fills the holes of a page: Markdown written by hand, whose numbers follow from results.

``{{number: QUESTION : FORMAT}}``
    The answer to a question, see `Results.ask`, or one of the study's own numbers by its name. The
    format is that of Python for a number, by default ``.2f``; further words: ``±`` adds the
    interval, ``low`` and ``high`` give a bound alone, ``seeds`` lists the training seeds.
``{{table: NAME}}``
    One of the study's tables.
``{{claims: HEAD | HEAD | …}}``
    The claims, their columns under these heads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from simkit.analysis.intervals import Estimate
from simkit.errors import RunError, did_you_mean
from simkit.learners.studies.results import Results

__all__ = ["CONFIRMED", "NOT_CONFIRMED", "NOT_TESTED", "SMALLER", "Claim", "Contents", "answer",
           "fill", "grid", "holes", "markdown_table", "told"]  # fmt: skip

Rows = Sequence[Sequence[str]]
"""A table as text: the head, then the rows."""
CONFIRMED: Final = "confirmed"
SMALLER: Final = "not confirmed: smaller"
"""There is an effect in the claimed direction, but not of the claimed size."""
NOT_CONFIRMED: Final = "not confirmed"
NOT_TESTED: Final = "not tested"
_HOLE: Final = re.compile(r"\{\{(number|table|claims): *(.*?) *\}\}")
_RULE: Final = re.compile(r"(.*) (>=|<=|>|<) (\S+)")


@dataclass(frozen=True)
class Claim:
    """A published claim, and what was measured."""

    figure: str
    """Figure or section of the paper."""
    published: str
    """Its number or words."""
    measured: str = ""
    """What we found, with holes for the numbers."""
    rule: str | Callable[[Results], str] = ""
    """``QUESTION >= NUMBER``: confirmed if the value is as claimed and the interval excludes no
    effect; or a function that returns the verdict; empty for a claim that is not tested."""
    more: tuple[str, ...] = ()
    """Further cells, with holes."""

    def verdict(self, results: Results) -> str:
        """Return whether the claim is confirmed."""
        if callable(self.rule):
            return self.rule(results)
        if not self.rule:
            return NOT_TESTED
        parts = _RULE.fullmatch(self.rule)
        if parts is None:
            raise RunError(f"claim {self.figure}: {self.rule!r} is not QUESTION >= NUMBER")
        found, least = results.ask(parts[1]), float(parts[3])
        no_effect = 1.0 if "over=" in parts[1] and "percent" not in parts[1] else 0.0
        return judged(found, parts[2], least, no_effect)


def judged(found: Estimate, sign: str, least: float, no_effect: float = 0.0) -> str:
    """Return the verdict on an estimate that is claimed to be above or below a number.

    Args:
        found: what was measured.
        sign: ``>=``, ``>``, ``<=`` or ``<``.
        least: the number claimed.
        no_effect: the value of no effect, 0 for a difference and 1 for a ratio.
    """
    if sign.startswith("<"):
        mirrored = Estimate(-found.value, _minus(found.high), _minus(found.low))
        return judged(mirrored, sign.replace("<", ">"), -least, -no_effect)
    if not found.surely(no_effect):
        return NOT_CONFIRMED
    reached = found.value > least if sign == ">" else found.value >= least
    return CONFIRMED if reached else SMALLER


def _minus(bound: float | None) -> float | None:
    return None if bound is None else -bound


@dataclass(frozen=True)
class Contents:
    """What a page's holes may name."""

    results: Results
    numbers: Mapping[str, Callable[[Results], Any]]
    tables: Mapping[str, Callable[[Results], Rows]]
    claims: Sequence[Claim] = ()
    small: bool = False
    """Whether a small version may lack what a hole names: it then gets a dash."""


def holes(text: str) -> str:
    """Return a text whose every ``[QUESTION : FORMAT]`` is a hole for a number."""
    return re.sub(r"\[(.*?)\]", r"{{number: \1}}", text)


def fill(text: str, contents: Contents) -> str:
    """Return a page with its holes filled; raises RunError for one that names nothing."""

    def filled(hole: re.Match[str]) -> str:
        kind, inside = hole[1], hole[2]
        if kind == "number":
            return _or_dash(contents, lambda: _number(inside, contents))
        if kind == "table":
            return markdown_table(_known(contents.tables, inside, "table")(contents.results))
        return markdown_table(_claim_rows([each.strip() for each in inside.split("|")], contents))

    return _HOLE.sub(filled, text)


def _or_dash(contents: Contents, found: Callable[[], str]) -> str:
    try:
        return found()
    except RunError:
        if contents.small:
            return "–"
        raise


def _claim_rows(head: Sequence[str], contents: Contents) -> Rows:
    """Return the claims under a head with as many columns as they have; the verdict comes last."""
    rows = [head]
    for claim in contents.claims:
        cells = [claim.figure, claim.published, claim.measured, *claim.more]
        cells = cells[: len(head) - 1] + [""] * (len(head) - 1 - len(cells))
        verdict = _or_dash(contents, partial(claim.verdict, contents.results))
        rows.append([*(fill(cell, contents) for cell in cells), verdict])
    return rows


def _number(inside: str, contents: Contents) -> str:
    name, _, spec = (part.strip() for part in inside.partition(" : "))
    if name in contents.numbers:
        return answer(contents.numbers[name](contents.results), spec)
    return told(contents.results, inside)


def answer(found: Any, spec: str = "") -> str:
    """Return an answer as text, see the format of a hole."""
    words = spec.split()
    number = next(
        (word for word in words if word not in _WORDS),
        "" if isinstance(found, (str, int)) else ".2f",
    )
    if not isinstance(found, Estimate):
        return format(found, number)
    if "seeds" in words:
        return ", ".join(format(each, number) for each in found.by_seed) or "–"
    for word in ("low", "high"):
        if word in words:
            bound = getattr(found, word)
            return "–" if bound is None else format(bound, number)
    return format(found if "±" in words else Estimate(found.value), number)


_WORDS: Final = ("±", "low", "high", "seeds")


def _known(known: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in known:
        raise RunError(f"the page names a {what} {name!r}{did_you_mean(name, known)}")
    return known[name]


def told(results: Results, asked: str) -> str:
    """Return the answer to ``QUESTION : FORMAT`` as text."""
    question, _, spec = (part.strip() for part in asked.partition(" : "))
    return answer(results.ask(question), spec)


def grid(
    results: Results,
    arms: Sequence[str],
    columns: Mapping[str, str | Callable[[str], str]],
    *,
    labels: Mapping[str, str] | None = None,
    corner: str = "",
) -> Rows:
    """Return a table with a row for each arm and a question for each column.

    Args:
        results: what is asked.
        arms: the rows.
        columns: head → ``QUESTION : FORMAT``, with ``{}`` for the arm, or a function of the arm.
        labels: arm → its label, if it is another.
        corner: the first head.
    """
    rows: list[Sequence[str]] = [[corner, *columns]]
    for arm in arms:
        cells = [(labels or {}).get(arm, arm)]
        for asked in columns.values():
            if callable(asked):
                cells.append(asked(arm))
                continue
            asked = asked.replace("{}", arm)
            itself = re.search(r"(?:less|over|gap)=" + re.escape(arm) + r"(?: [|:]|$)", asked)
            cells.append("" if itself else told(results, asked))
        rows.append(cells)
    return rows


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
