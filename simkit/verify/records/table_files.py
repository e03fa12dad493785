"""The tables of a run: small ones in memory; large ones stay on disk, and rules read parts of them.

A run of millions of jobs has gigabytes of rows. No rule needs more than some columns of all rows,
or all columns of some rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from simkit.errors import RunError

LARGE: Final = 600_000
"""Rows from which on a table stays on disk."""
ROWS_AT_ONCE: Final = 262_144
"""Rows of a large table that are read at a time."""


class TableFiles(Mapping[str, pl.DataFrame]):
    """Table name → its rows exactly as written; a large table is read again each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, pl.DataFrame] = {}
        self._heads: dict[str, pl.DataFrame] = {}
        self._rows: dict[str, int] = {}

    def add(self, name: str) -> pl.DataFrame:
        """Take in a table; return it, or of a large one the columns without a row.

        Raises OSError or PolarsError if it cannot be read.
        """
        if self._number(name) < LARGE:
            table = pl.read_parquet(self._path(name), hive_partitioning=False)
            self._kept[name], self._rows[name] = table, table.height
        else:
            table, self._rows[name] = self._scan(name).head(0).collect(), self._number(name)
        self._heads[name] = table.head(0)
        return self._heads[name]

    def with_rows(self, frames: Mapping[str, pl.DataFrame]) -> TableFiles:
        """Return these tables with other rows in some of them."""
        found = TableFiles(self._folder)
        found._kept = {**self._kept, **frames}
        found._heads = self._heads
        found._rows = self._rows | {name: frame.height for name, frame in frames.items()}
        return found

    def _number(self, name: str) -> int:
        """Return how many rows a file says it has; 0 if it cannot be read, as will be told then."""
        try:
            return int(self._scan(name).select(pl.len()).collect().item())
        except (OSError, pl.exceptions.PolarsError):
            return 0

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.parquet"

    def _scan(self, name: str) -> pl.LazyFrame:
        return pl.scan_parquet(self._path(name), hive_partitioning=False, glob=False)

    def _read(self, name: str, frame: pl.LazyFrame) -> pl.DataFrame:
        """Return rows of a large table; raises RunError if they are damaged."""
        try:
            return frame.collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise RunError(f"{self._path(name)}: cannot be read ({error}); run it again") from None

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name in self._kept or name not in self._heads:
            return self._kept[name]
        return self._read(name, self._scan(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._heads)

    def __len__(self) -> int:
        return len(self._heads)

    def head(self, name: str) -> pl.DataFrame:
        """Return a table without its rows."""
        return self._heads[name]

    def rows(self, name: str) -> int:
        """Return how many rows a table has."""
        return self._rows[name]

    def is_large(self, name: str) -> bool:
        """Return whether a table stays on disk."""
        return name not in self._kept

    def only(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Return some columns of all rows."""
        kept = self._kept.get(name)
        if kept is None:
            return self._read(name, self._scan(name).select(columns))
        return kept.select(columns)

    def slice(self, name: str, first: int, rows: int) -> pl.DataFrame:
        """Return some rows of all columns."""
        kept = self._kept.get(name)
        if kept is None:
            return self._read(name, self._scan(name).slice(first, rows))
        return kept.slice(first, rows)

    def slices(self, name: str) -> Iterator[pl.DataFrame]:
        """Yield all rows, some at a time; of an empty table once."""
        for first in range(0, max(self.rows(name), 1), ROWS_AT_ONCE):
            yield self.slice(name, first, ROWS_AT_ONCE)
