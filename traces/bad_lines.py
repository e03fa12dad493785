"""Malformed lines of a log: all of them in one error, or left out and counted under a rule.

A line is malformed if it does not have the format's fields, or a value that cannot be read. What a
readable value means is another matter: the rules of each format judge it.
"""

from __future__ import annotations

from bisect import insort
from pathlib import Path
from typing import Final, Literal

import numpy as np

from simkit.arrays import Bools, Ints
from simkit.errors import TraceError
from simkit.scenario.workload import TraceFormat
from simkit.text import counted
from simkit.traces.rules import MALFORMED, Tally

SHOWN: Final = 20
"""How many problems an error names."""

OnError = Literal["refuse", "skip"]


class LineFormat(TraceFormat):
    """A format of lines, or of rows, some of which may be malformed."""

    on_error: OnError = "refuse"
    """Malformed lines: refuse the file, with all of them in one error; or skip and count them."""


class BadLines:
    """Collects the malformed lines of a file.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path, on_error: OnError = "refuse", *, rows: bool = False) -> None:
        """Begin with none; `rows` says that the file has numbered rows, as Parquet, not lines."""
        self.path = path
        self._skip, self._rows = on_error == "skip", rows
        self._lines: set[int] = set()
        self._problems: list[tuple[int, str]] = []
        self._hints: list[str] = []

    def add(self, line: int, problem: str) -> None:
        """Add what is wrong with a line; a line may have several problems."""
        self._lines.add(line)
        insort(self._problems, (line, problem))
        del self._problems[SHOWN:]

    def hint_swapped(self, column: str, other: str) -> None:
        """Add two columns that look swapped, which an error then says."""
        self.hint(
            f"the columns {column} and {other} look swapped: the values of each would do for the "
            "other"
        )

    def hint(self, text: str) -> None:
        """Add what may explain the problems, which an error then says."""
        if text not in self._hints:
            self._hints.append(text)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._lines)

    def place(self, line: int) -> str:
        """Return the file and the line, or the row, for messages."""
        return f"{self.path}: row {line}" if self._rows else f"{self.path}:{line}"

    def good(self, lines: Ints) -> Bools:
        """Return (n,) which of these lines have no problem."""
        return ~np.isin(lines, np.fromiter(self._lines, np.int64, len(self._lines)))

    def settle(self, tally: Tally) -> None:
        """Count the lines as left out.

        Raises TraceError, with the first problems in the order of lines, unless they are skipped.
        """
        if not self._lines:
            return
        if self._skip:
            tally.read(len(self._lines))
            tally.drop(MALFORMED, np.array(sorted(self._lines)))
            tally.show(MALFORMED, self._problems[0][1].partition("; ")[0])
            return
        found = [f"{self.place(line)}: {problem}" for line, problem in self._problems]
        noun = "row" if self._rows else "line"
        if more := len(self._lines - {line for line, _ in self._problems}):
            found.append(f"… and {counted(more, f'more malformed {noun}')}")
        hints = [f"{self.path}: {text}" for text in self._hints]
        raise TraceError("\n".join([*found, *hints, self._remedy(noun)]))

    def _remedy(self, noun: str) -> str:
        many = len(self._lines) > 1
        return (
            f"{self.path}: {counted(len(self._lines), f'malformed {noun}')}; correct "
            f"{'them' if many else 'it'}, or leave {'them' if many else 'it'} out with "
            "on_error: skip, which counts such rows"
        )
