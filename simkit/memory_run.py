"""A run whose records stay in memory: what the Python API gives where no folder is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.digest import TABLES, RunDigest
from simkit.errors import RunError
from simkit.run_folder import Run

if TYPE_CHECKING:
    import polars as pl


class MemoryRun(Run):
    """A run that is in no folder; its tables are those of `Run`."""

    def __init__(self, info: dict[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
        super().__init__(Path("in-memory"), info)
        self._tables = tables

    def __repr__(self) -> str:
        return f"MemoryRun({self.name!r}, {self.info.get('jobs', '?')} jobs)"

    def scan(self, table: str) -> pl.LazyFrame:
        """Return a table as a lazy frame; raises RunError if there is no such table."""
        if table not in self._tables:
            raise RunError(f"there is no table {table!r}; the tables are {', '.join(self._tables)}")
        return self._tables[table].lazy()


class MemoryStore:
    """Takes the records of a run and keeps them; has the methods of a `RunWriter`."""

    def __init__(self, info: Mapping[str, Any], *, digested: bool = True) -> None:
        """Begin with no rows; `digested` is what `complete` needs."""
        self.wall_time_s = 0.0
        self._is_digested = digested
        self._info = dict(info)
        self._digest = RunDigest()
        self._chunks: dict[str, list[pl.DataFrame]] = {table: [] for table in TABLES}
        self._tables: dict[str, pl.DataFrame] = {}

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table."""
        if self._is_digested:
            self._digest.update(table, rows)
        self._chunks[table].append(rows)

    def close_tables(self) -> None:
        """Make one frame of each table."""
        import polars as pl

        self._tables |= {name: pl.concat(rows) for name, rows in self._chunks.items() if rows}
        self._chunks = {table: [] for table in TABLES}

    def results(self) -> Run:
        """Return the run as it stands, to be measured."""
        return MemoryRun(self._info, self._tables)

    def complete(self, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> Run:
        """Return the finished run."""
        digest = self._digest.finish(metrics)
        run = MemoryRun(
            {**self._info, **info, "status": "complete", "digest": digest}, self._tables
        )
        run.__dict__["metrics"] = dict(metrics)  # in place of what would be read from a file
        return run

    def abandon(self, _status: str, _error: str, _info: Mapping[str, Any]) -> None:
        """Forget everything: what failed leaves nothing behind."""
        self._chunks.clear()
