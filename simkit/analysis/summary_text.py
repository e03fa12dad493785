"""A summary as text: cells for a terminal, Markdown, LaTeX and HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape


@dataclass(frozen=True)
class Cell:
    """A metric of a group of runs."""

    mean: float | None
    """None if it is undefined in one of the runs."""
    low: float | None = None
    high: float | None = None
    """Bounds of the interval over seeds; None if there is none."""
    best: bool = False
    as_good: bool = False
    """Not surely worse than the best: the interval of their difference, paired by seed, holds 0."""

    def in_percent(self) -> Cell:
        """Return a share in per cent."""
        mean, low, high = (None if n is None else 100 * n for n in (self.mean, self.low, self.high))
        return replace(self, mean=mean, low=low, high=high)


@dataclass(frozen=True)
class Table:
    """A summary, ready to be written."""

    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Cell, ...]], ...]
    """Texts from the left, of which the last is a count; and metrics."""
    notes: tuple[str, ...]

    @property
    def names(self) -> int:
        """Columns from the left that name a row."""
        return len(self.rows[0][0]) - 1

    def cells(self, marked: Callable[[str, Cell], str], sign: str = "±") -> list[list[str]]:
        """Return the text of each row; `marked` gives a metric the mark of the best."""
        return [
            [*texts, *(marked(_text(cell, sign), cell) for cell in cells)]
            for texts, cells in self.rows
        ]

    def bold_notes(self) -> list[str]:
        """Return the notes where the best is bold."""
        return [note.replace("* best", "bold: best") for note in self.notes]


def with_star(text: str, cell: Cell) -> str:
    """Return a cell with ``*`` if it is the best, ``~`` if it is as good."""
    return f"{text} {'*' if cell.best else '~' if cell.as_good else ' '}"


def markdown(table: Table) -> str:
    """Return a Markdown table and the notes below it."""

    def marked(text: str, cell: Cell) -> str:
        return f"**{text}**" if cell.best else f"{text} ~" if cell.as_good else text

    lines = [_row(table.heads)]
    lines.append(_row(["---"] * table.names + ["---:"] * (len(table.heads) - table.names)))
    lines += [_row(row) for row in table.cells(marked)]
    return "\n".join(lines) + "".join(f"\n\n{note}." for note in table.bold_notes()) + "\n"


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def latex(table: Table) -> str:
    """Return a ``tabular`` for the package booktabs; the notes are comments above it."""

    def marked(text: str, cell: Cell) -> str:
        if cell.best:
            return rf"\textbf{{{text}}}"
        return rf"{text}$^{{\sim}}$" if cell.as_good else text

    names = table.names
    rows = [[*map(_escaped, row[:names]), *row[names:]] for row in table.cells(marked, r"$\pm$")]
    lines = [f"% {note}" for note in table.bold_notes()]
    lines += [
        rf"\begin{{tabular}}{{{'l' * names}{'r' * (len(table.heads) - names)}}}",
        r"\toprule",
        " & ".join(map(_escaped, table.heads)) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return text with what LaTeX would obey escaped."""
    names = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(r"[\\~^&%$#_{}]", lambda found: names.get(found[0], "\\" + found[0]), text)


def html(table: Table) -> str:
    """Return a table for a notebook."""

    def marked(text: str, cell: Cell) -> str:
        return f"<b>{text}</b>" if cell.best else f"{text} ~" if cell.as_good else text

    names = table.names
    head = "".join(f"<th>{escape(text)}</th>" for text in table.heads)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(text)}</td>" for text in row[:names])
        + "".join(f'<td style="text-align: right">{text}</td>' for text in row[names:])
        + "</tr>"
        for row in table.cells(marked)
    )
    notes = "".join(f"<br>{escape(note)}." for note in table.bold_notes())
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{notes}</small>"
    )


def _text(cell: Cell, sign: str) -> str:
    """Return ``mean ± half`` with the same decimals, ``mean`` without an interval, or ``-``."""
    if cell.mean is None:
        return "-"
    places = _places(cell.mean)
    mean = f"{cell.mean:,.{places}f}"
    if cell.high is None:
        return mean
    half = cell.high - cell.mean
    return f"{mean} {sign} {half:,.{places}f}"


def _places(number: float) -> int:
    """Return the decimals that show four digits; none of a whole number below ten thousand."""
    if number == 0 or (number.is_integer() and abs(number) < 10_000):
        return 0
    return max(0, 3 - math.floor(math.log10(abs(number))))
