"""The tables of a run: their columns, the rows that rules need of them, and the digest.

Small tables are in memory. Large ones, of gigabytes in a run of millions of jobs, stay on disk: no
rule needs more than some columns of all rows, or all columns of some rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit import records
from simkit.errors import RunError
from simkit.files import check_parquet, check_texts

CUSTOM: Final = "custom"
"""The part of metrics.json that holds the user's own metrics."""
LARGE: Final = 600_000
"""Rows from which on a table stays on disk."""
ROWS_AT_ONCE: Final = 262_144
"""Rows of a large table that are read at a time."""
COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "jobs": records.JOBS,
    "tasks": records.TASKS,
    "allocations": records.ALLOCATIONS,
    "timeline": records.TIMELINE,
    "events": records.EVENTS,
    "power": records.POWER,
    "energy": records.ENERGY,
}
"""Table → the columns that it begins with, each with its type and meaning."""
OF_POWER: Final = ("power", "energy")
"""Tables of runs with power alone."""
FURTHER: Final = (
    *records.JOBS_WITH_VALUE, *records.JOBS_RELEASED, *records.JOBS_CORRECTED, *records.JOBS_ROUTED,
)  # fmt: skip
"""Columns that jobs may have after these, in order; then one a resource."""


def types_of(column: str, about: str) -> tuple[str, ...]:
    """Return the types that a column may have, by its record; none if any will do."""
    if column in ("job_id", "task_id"):
        return ("Int64", "String")
    kinds = about.partition(";")[0]
    return tuple(kind for kind in ("Int64", "Float64", "Boolean", "String") if kind in kinds)


class TableFiles(Mapping[str, pl.DataFrame]):
    """Table name → its rows exactly as written; a large table is read again each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, pl.DataFrame] = {}
        self._heads: dict[str, pl.DataFrame] = {}
        self._rows: dict[str, int] = {}

    def add(self, name: str) -> pl.DataFrame:
        """Take in a table; return it, or of a large one the columns without a row.

        Raises OSError, ValueError or PolarsError if it cannot be read.
        """
        path = self._path(name)
        check_parquet(path)
        check_texts(path)
        self._rows[name] = int(self._scan(name).select(pl.len()).collect().item())
        if self._rows[name] < LARGE:
            table = self._kept[name] = pl.read_parquet(path, hive_partitioning=False)
        else:
            table = self._scan(name).head(0).collect()
        self._heads[name] = table.head(0)
        return self._heads[name]

    def with_rows(self, frames: Mapping[str, pl.DataFrame]) -> TableFiles:
        """Return these tables with other rows in some of them."""
        found = TableFiles(self._folder)
        found._kept = {**self._kept, **frames}
        found._heads = self._heads
        found._rows = self._rows | {name: frame.height for name, frame in frames.items()}
        return found

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


def digest_of(tables: Mapping[str, pl.DataFrame], metrics: Any, scenario: Any) -> str:
    r"""Return the run's digest as 64 hexadecimal digits.

    For each table in (jobs, tasks, allocations, timeline, events, power, energy) that is present
    and for each of its columns in file order, the column's digest is SHA-256 over its values in
    row order:

    - Float64: 8 bytes, little-endian; null is the quiet NaN 0x7ff8000000000000;
    - Int64: 8 bytes, little-endian; null is -2**63;
    - Boolean: one byte, 0 or 1; null is 2;
    - String: the UTF-8 bytes followed by one 0 byte; null is the byte 0xff followed by 0.

    The run's digest is SHA-256 over the lines ``f"{table}.{column}:{hexdigest}\n"`` in that order,
    followed by the lines ``"metrics:" + hexdigest + "\n"`` and ``"scenario:" + hexdigest + "\n"``,
    the SHA-256 of the metrics and of the portable scenario as canonical JSON (``sort_keys=True,
    separators=(",", ":")``, in UTF-8).

    Args:
        tables: table name → frame; other tables are left out.
        metrics: the parsed contents of metrics.json; its part `CUSTOM` is left out.
        scenario: the portable form of the scenario.

    Raises ValueError for a column of another type.
    """
    total = hashlib.sha256()
    for table in (name for name in COLUMNS if name in tables):
        hashes: dict[str, Any] = {}
        for rows in tables.slices(table) if isinstance(tables, TableFiles) else [tables[table]]:
            for column in rows.iter_columns():
                try:
                    values = _canonical_bytes(column)
                except ValueError as error:
                    raise ValueError(f"{table}.{error}") from None
                hashes.setdefault(column.name, hashlib.sha256()).update(values)
        for name, of_column in hashes.items():
            total.update(f"{table}.{name}:{of_column.hexdigest()}\n".encode())
    own = {name: metric for name, metric in metrics.items() if name != CUSTOM}
    for name, content in (("metrics", own), ("scenario", scenario)):
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        total.update(f"{name}:{hashlib.sha256(text.encode()).hexdigest()}\n".encode())
    return total.hexdigest()


def _canonical_bytes(column: pl.Series) -> bytes:
    """Return a column's values as `digest_of` describes them."""
    if column.dtype == pl.Float64:
        return column.fill_null(np.nan).to_numpy().astype("<f8").tobytes()
    if column.dtype == pl.Int64:
        return column.fill_null(-(2**63)).to_numpy().astype("<i8").tobytes()
    if column.dtype == pl.Boolean:
        return column.cast(pl.UInt8).fill_null(2).to_numpy().tobytes()
    if column.dtype == pl.String:
        if len(column) and not column.null_count():
            return str(column.str.join("\0").item()).encode() + b"\0"
        return b"".join(
            b"\xff\0" if text is None else text.encode() + b"\0" for text in column.to_list()
        )
    raise ValueError(f"{column.name} has type {column.dtype}, not Float64, Int64, Boolean, String")
