"""What a prompt shows as text and a notebook as HTML.

Names may come from strangers' files: all text is escaped. There are no colours, so that a dark
notebook stays dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from simkit.text import printable

_RIGHT: Final = ' style="text-align: right"'
_LEFT: Final = ' style="text-align: left"'


class Shown:
    """A result that is there to be read: text at a prompt and in ``print``, HTML in a notebook."""

    def __init__(self, text: str, html: str) -> None:
        self._text = text
        self._html = html

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


def safe(text: object) -> str:
    """Return text that is shown as it is: no mark-up, no control characters."""
    from html import escape  # a large table, which most commands do not need

    return escape(printable(str(text)))


def heading(name: object, *facts: object) -> str:
    """Return a name in bold and short facts after it, as HTML."""
    return f"<div><b>{safe(name)}</b> {safe(' · '.join(map(str, facts)))}</div>"


def table(
    heads: Sequence[object], rows: Iterable[Sequence[object]], *, names: int = 1, text: int = 0
) -> str:
    """Return a table as HTML.

    Args:
        heads: a head per column.
        rows: a cell per column.
        names: columns from the left that name a row.
        text: columns from the right that hold text. Those between are numbers.
    """
    last = len(heads) - text
    sides = [_LEFT if n < names or n >= last else "" for n in range(len(heads))]

    def line(tag: str, cells: Sequence[object]) -> str:
        made = (f"<{tag}{s}>{safe(c)}</{tag}>" for s, c in zip(sides, cells, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table{_RIGHT}><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>"


def facts(rows: Mapping[str, object]) -> str:
    """Return names and what they are, a line each, as HTML; what is empty is left out."""
    body = "".join(
        f"<tr><th{_LEFT}>{safe(name)}</th><td{_LEFT}>{safe(value)}</td></tr>"
        for name, value in rows.items()
        if value not in ("", None)
    )
    return f"<table><tbody>{body}</tbody></table>"


def notes(lines: Iterable[object]) -> str:
    """Return small lines below a table, as HTML."""
    return "".join(f"<div><small>{safe(line)}</small></div>" for line in lines)


def folded(title: object, html: str) -> str:
    """Return HTML that opens on a click."""
    return f"<details><summary>{safe(title)}</summary>{html}</details>"


def text_or(show: Callable[[Any], str], value: Any, plain: str) -> str:
    """Return how a value is shown, or a plain text if it has not what simkit gives such values."""
    try:
        return show(value)
    except (LookupError, TypeError, ValueError, AttributeError):
        return plain
