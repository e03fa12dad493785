"""How a table of sacct tells its fields apart: by a delimiter of any length, or by fixed widths.

``sacct --parsable2`` writes ``|``, ``--delimiter`` any other text; a spreadsheet saves commas,
semicolons or tabs, and quotes fields that hold one. Without --parsable columns have the widths of a
line of dashes, and a field that is too long is cut off, which a ``+`` at its end shows.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import Final

from simkit.errors import TraceError

SEPARATOR: Final = "\x1f"
"""Stands between the fields of a line that was taken apart; no text holds it."""
USUAL: Final = "|"
_BLANKS: Final = {"\t": "tab", " ": "blank"}
_QUOTED_IN: Final = (",", ";", "\t")
_GAP: Final = re.compile(r"(?<=\w)(\W+)(?=\w)")
_DASHES: Final = re.compile(r"\s*-+(?:\s+-+)+\s*")
REMEDY: Final = "print the table with --parsable2"


@dataclass(frozen=True)
class Layout:
    """How the lines of one table are taken apart."""

    delimiter: str = ""
    """Text between the fields; empty: columns of fixed width."""
    columns: tuple[slice, ...] = ()
    """Places of the columns of fixed width, in bytes."""
    guessed: bool = False
    """The delimiter is neither the usual nor given."""

    @property
    def words(self) -> str:
        """What this is called in a note."""
        if not self.delimiter:
            return "columns of fixed width: taken from the line of dashes"
        shown = _BLANKS.get(self.delimiter, repr(self.delimiter))
        return f"delimiter {shown}: taken from the header line"

    def fields(self, line: str, width: int | None = None) -> list[str]:
        """Return the fields of a line, quoted ones too if it has not as many as `width`.

        Raises ValueError, with what is wrong, for a line that does not keep to fixed widths.
        """
        if not self.delimiter:
            return self._cut(line)
        fields = line.split(self.delimiter)
        quoted = '"' in line and self.delimiter in _QUOTED_IN
        if quoted and (len(fields) != width or fields[0].startswith('"')):
            fields = next(csv.reader([line], delimiter=self.delimiter))
        return [field.strip() for field in fields]

    def _cut(self, line: str) -> list[str]:
        raw = line.encode()
        fields = [raw[place] for place in self.columns]
        between = [
            raw[a.stop : b.start] for a, b in zip(self.columns, self.columns[1:], strict=False)
        ]
        if any(gap.strip() for gap in (*between, raw[self.columns[-1].stop :])):
            raise ValueError(
                f"the fields do not keep to the widths of the line of dashes; {REMEDY}"
            )
        for field in fields:
            if field.endswith(b"+") and len(field.strip()) == len(field):
                shown = field.decode("utf-8", "replace")
                raise ValueError(
                    f"{shown!r} is cut off, as the + says; {REMEDY}, which cuts nothing"
                )
        return [field.decode("utf-8", "replace").strip() for field in fields]


def layout_of(header: str, below: str, given: str | None, place: str) -> Layout:
    """Return the layout of a table.

    Args:
        header: its first line.
        below: the line after it.
        given: the delimiter, if it is known.
        place: file and line, for messages.

    Raises TraceError if the header shows none.
    """
    if given is not None:
        return Layout(given)
    if _DASHES.fullmatch(below):
        return Layout(
            columns=tuple(slice(*m.span()) for m in re.finditer("-+", below)), guessed=True
        )
    gaps = {gap.strip(" ") or gap for gap in _GAP.findall(header.replace('"', ""))}
    if not gaps:
        return Layout(USUAL)
    delimiter = gaps.pop() if len(gaps) == 1 else ""
    if delimiter.strip(" ") or delimiter == " ":
        return Layout(delimiter, guessed=delimiter != USUAL)
    raise TraceError(
        f"{place}: no delimiter of fields can be told from this line; {REMEDY}, or name it in "
        "`delimiter`"
    )
