"""Columns of a table by name: ids as text or whole numbers, all others as scaled numbers."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

_IDS = ("job_id", "task_id")
OF_JOBS = ("user", "group", "executable", "queue", "partition")
"""Numbers or names of a job."""
_TEXT = (*_IDS, "parents", *OF_JOBS)


def read_table(path: Path, *, skip: bool) -> pl.DataFrame:
    """Return a table, CSV or Parquet; lines of another width than the header may be skipped."""
    with path.open("rb") as file:
        parquet = file.read(4) == b"PAR1"
    try:
        if parquet:
            table = pl.read_parquet(path)
        else:
            table = _whole_rows(path) if skip else pl.read_csv(path, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    return table.rename(lambda name: name.strip(' "'))


def columns_of(
    table: pl.DataFrame, columns: Mapping[str, str], factors: Mapping[str, float], *, skip: bool
) -> pl.DataFrame:
    """Return a table's columns under our names: ids and names as text, others as scaled numbers.

    With `skip`, rows with a number that is none are left out.
    """
    if missing := [name for name in columns.values() if name not in table.columns]:
        raise ValueError(f"no column {', '.join(missing)}")
    chosen, readable = [], [pl.lit(value=True)]
    for ours, theirs in columns.items():
        text = pl.col(theirs).cast(pl.String).str.strip_chars(" \t\r").replace("", None)
        if ours == "requested_time_s":
            none = text.str.to_lowercase().is_in(["unlimited", "infinite", "infinity"])
            text = pl.when(none).then(pl.lit("inf")).otherwise(text)
        number = text.cast(pl.Float64, strict=False) * factors.get(ours, 1.0)
        chosen.append((text if ours in _TEXT else number).alias(ours))
        if skip and ours not in _TEXT:
            readable.append(text.is_null() | number.is_not_null())
    return table.filter(pl.all_horizontal(readable)).select(chosen)


def with_requests(
    table: pl.DataFrame, resources: Sequence[str], *, barriers: bool = False
) -> pl.DataFrame:
    """Read an empty cell among resources as 0; all of a row that asks for nothing as empty.

    With `barriers`, a row of zeros stays.
    """
    asks = pl.any_horizontal(
        pl.col(name).is_not_null() if barriers else pl.col(name).fill_null(0.0) != 0
        for name in resources
    )
    return table.with_columns(pl.when(asks).then(pl.col(name).fill_null(0.0)) for name in resources)


def _whole_rows(path: Path) -> pl.DataFrame:
    """Read the lines of a CSV table, plain or gzipped, that have as many fields as its header."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as file:
        text = file.read().decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    rows = [next(csv.reader([line])) for line in lines if line and line.count('"') % 2 == 0]
    names, *rows = rows or [[]]
    kept = [row for row in rows if len(row) == len(names)]
    return pl.DataFrame(kept, schema=dict.fromkeys(names, pl.String), orient="row")


def with_numbered_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ids as whole numbers, unless one is none."""
    for name in _IDS:
        if name in rows.columns and rows[name].cast(pl.Int64, strict=False).null_count() == 0:
            rows = rows.with_columns(pl.col(name).cast(pl.Int64))
    return rows


def retries_of(rows: pl.DataFrame) -> pl.Expr:
    """Return how often tasks may start over, null where the table does not say."""
    if "retries" not in rows.columns:
        return pl.lit(None, pl.Int64).alias("retries")
    return pl.when(pl.col("retries") >= 0).then("retries").cast(pl.Int64).alias("retries")
