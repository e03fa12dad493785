"""The digest of a run: SHA-256 over the values of its tables, its metrics and its scenario.

Two runs of a scenario have the same digest, whatever the hash seed, the machine, the folder or the
size of the chunks in which the tables were written; wall time, memory and paths stay outside.

For each table, in the order of `TABLES`, and each of its columns, in order, the column's hash is
SHA-256 over its values in row order:

- Float64: 8 bytes, little-endian; null is the quiet NaN 0x7ff8000000000000;
- Int64: 8 bytes, little-endian; null is -2**63;
- Boolean: one byte, 0 or 1; null is 2;
- String: the UTF-8 bytes and one 0 byte; null is the bytes 0xff and 0.

The run's digest is SHA-256 over a line ``table.column:hash`` for each column, a line
``metrics:hash`` and a last line ``scenario:hash``: the SHA-256 of the metrics, without the user's
in the part ``custom``, and of the scenario's portable form, as JSON with sorted keys and no blanks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.results.metric import CUSTOM

TABLES: Final = ("jobs", "tasks", "allocations", "timeline", "events", "power", "energy")
"""The tables that the digest covers, in order; only runs with power have the last two."""


class RunDigest:
    """Hashes a run's tables chunk by chunk, without keeping a row."""

    def __init__(self) -> None:
        self._columns: dict[str, dict[str, Any]] = {table: {} for table in TABLES}

    def update(self, table: str, rows: pl.DataFrame) -> None:
        """Append rows to a table; every chunk of a table has the same columns."""
        hashes = self._columns[table]
        for column in rows.iter_columns():
            hashes.setdefault(column.name, sha256()).update(canonical_bytes(column))

    def finish(self, metrics: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
        """Return the run's digest, 64 hexadecimal digits; `scenario` is in its portable form."""
        total = sha256()
        for table, hashes in self._columns.items():
            for name, column in hashes.items():
                total.update(f"{table}.{name}:{column.hexdigest()}\n".encode())
        own = {name: metric for name, metric in metrics.items() if name != CUSTOM}
        for name, content in (("metrics", own), ("scenario", scenario)):
            text = json.dumps(content, sort_keys=True, separators=(",", ":"))
            total.update(f"{name}:{sha256(text.encode()).hexdigest()}\n".encode())
        return total.hexdigest()


def canonical_bytes(column: pl.Series) -> bytes:
    """Return a column's values in the encoding above.

    Raises TypeError unless the column is Float64, Int64, Boolean or String.
    """
    if column.dtype == pl.Float64:
        return column.fill_null(np.nan).to_numpy().astype("<f8", copy=False).tobytes()
    if column.dtype == pl.Int64:
        return column.fill_null(-(2**63)).to_numpy().astype("<i8", copy=False).tobytes()
    if column.dtype == pl.Boolean:
        return column.cast(pl.UInt8).fill_null(2).to_numpy().tobytes()
    if column.dtype == pl.String:
        if not len(column):
            return b""
        if column.null_count() == 0:
            joined: str = column.str.join("\0").item()
            return joined.encode() + b"\0"
        return b"".join(
            b"\xff\0" if text is None else text.encode() + b"\0" for text in column.to_list()
        )
    raise TypeError(f"column {column.name} is {column.dtype}; it must be a number, bool or text")
