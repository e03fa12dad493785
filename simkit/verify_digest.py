"""The auditor's own digest of a run: SHA-256 over the canonical values of its tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify_audit import Check

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

DIGESTED_TABLES = ("jobs", "tasks", "allocations", "timeline", "events", "power", "energy")


def check_digest(run: RunFolder) -> Check:
    """The tables and metrics are those whose digest was recorded."""
    check = Check("digest", "the tables' digest is the recorded one", len(run.tables))
    recorded = run.manifest.get("digest")
    if recorded is None and not run.complete:
        return check.skip("the run is not complete and has no digest")
    try:
        found = digest_of(run.tables, run.metrics)
    except ValueError as error:
        check.add("a column cannot be digested", {"problem": str(error)})
        return check
    if found != recorded:
        row = {"recorded": recorded, "recomputed": found}
        check.add("the recomputed digest is another", row)
    return check


def digest_of(tables: Mapping[str, pl.DataFrame], metrics: Any) -> str:
    r"""Return the run's digest as 64 hexadecimal digits.

    For each table in (jobs, tasks, allocations, timeline, events, power, energy) that is present
    and for each of its columns in file order, the column's digest is SHA-256 over its values in
    row order:

    - Float64: 8 bytes, little-endian; null is the quiet NaN 0x7ff8000000000000;
    - Int64: 8 bytes, little-endian; null is -2**63;
    - Boolean: one byte, 0 or 1; null is 2;
    - String: the UTF-8 bytes followed by one 0 byte; null is the byte 0xff followed by 0.

    The run's digest is SHA-256 over the lines ``f"{table}.{column}:{hexdigest}\n"`` in that order,
    followed by the line ``"metrics:" + hexdigest + "\n"``, the SHA-256 of the metrics as canonical
    JSON (``sort_keys=True, separators=(",", ":")``, in UTF-8).

    Args:
        tables: table name → frame; tables of other names are left out.
        metrics: the parsed contents of metrics.json.

    Raises ValueError for a column of another type, naming it.
    """
    total = hashlib.sha256()
    for table in DIGESTED_TABLES:
        for column in tables[table].iter_columns() if table in tables else ():
            try:
                values = canonical_bytes(column)
            except ValueError as error:
                raise ValueError(f"{table}.{error}") from None
            line = f"{table}.{column.name}:{hashlib.sha256(values).hexdigest()}\n"
            total.update(line.encode())
    text = json.dumps(metrics, sort_keys=True, separators=(",", ":"))
    total.update(f"metrics:{hashlib.sha256(text.encode()).hexdigest()}\n".encode())
    return total.hexdigest()


def canonical_bytes(column: pl.Series) -> bytes:
    """Return a column's values as `digest_of` describes them.

    Raises ValueError for a column that is none of Float64, Int64, Boolean and String.
    """
    import polars as pl

    if column.dtype == pl.Float64:
        return column.fill_null(np.nan).to_numpy().astype("<f8").tobytes()
    if column.dtype == pl.Int64:
        return column.fill_null(-(2**63)).to_numpy().astype("<i8").tobytes()
    if column.dtype == pl.Boolean:
        return column.cast(pl.UInt8).fill_null(2).to_numpy().tobytes()
    if column.dtype == pl.String:
        return b"".join(
            b"\xff\0" if text is None else text.encode() + b"\0" for text in column.to_list()
        )
    raise ValueError(f"{column.name} has type {column.dtype}, not Float64, Int64, Boolean, String")
