"""Rows of numbers that are kept as columns while rows come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.arrays import Floats

_LEAST = 64  # rows that a table has space for at least


class ColumnTable:
    """A list of rows of C numbers, kept as C arrays.

    There is free space on both sides, so that it is cheap to remove the first row and to add
    behind the last one. In between, the shorter side is moved.
    """

    __slots__ = ("_start", "_table", "size")

    def __init__(self, columns: int) -> None:
        self._table: Floats = np.empty((columns, _LEAST))
        self._start = 0
        self.size = 0
        """Number of rows."""

    def view(self) -> Floats:
        """Return (C, n) the columns; it is valid until the table changes."""
        return self._table[:, self._start : self._start + self.size]

    def extend(self, rows: Sequence[Sequence[float]]) -> None:
        """Add rows at the end."""
        if not rows:
            return
        self._make_space(len(rows))
        end = self._start + self.size
        self._table[:, end : end + len(rows)] = np.array(rows, np.float64).T
        self.size += len(rows)

    def insert(self, position: int, row: Sequence[float]) -> None:
        """Insert a row before the one at a position."""
        table, size = self._table, self.size
        if self._start and 2 * position < size:  # move the shorter side
            self._start -= 1
            start = self._start
            table[:, start : start + position] = table[:, start + 1 : start + 1 + position]
        else:
            self._make_space(1)
            table, start = self._table, self._start
            behind = start + position
            table[:, behind + 1 : start + size + 1] = table[:, behind : start + size]
        table[:, start + position] = row
        self.size += 1

    def remove(self, position: int) -> None:
        """Remove the row at a position."""
        if position == 0:  # the usual case: the head leaves
            self._start += 1
            self.size -= 1
            return
        table, start, end = self._table, self._start, self._start + self.size
        column = start + position
        if 2 * position <= self.size:
            table[:, start + 1 : column + 1] = table[:, start:column]
            self._start += 1
        else:
            table[:, column : end - 1] = table[:, column + 1 : end]
        self.size -= 1

    def set(self, column: int, position: int, number: float) -> None:
        """Change one number."""
        self._table[column, self._start + position] = number

    def _make_space(self, rows: int) -> None:
        """Have space for so many more rows at the end."""
        if self._start + self.size + rows <= self._table.shape[1]:
            return
        width = max(_LEAST, 2 * (self.size + rows))
        table = np.empty((len(self._table), width))
        table[:, : self.size] = self.view()
        self._table, self._start = table, 0
