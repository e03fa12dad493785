"""A table of rigid jobs as CSV or Parquet: the columns are fed as they are, no rule is applied."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Floats
from simkit.errors import TraceError, did_you_mean
from simkit.scenario.references import File
from simkit.scenario.workload import TraceFormat
from simkit.text import counted
from simkit.traces.files import is_parquet, text_blocks
from simkit.workload import JOB_COLUMNS, RowReport, Trace, Workload

NEEDED: Final = ("job_id", "submit_time_s", "run_time_s", "processors")
OPTIONAL: Final = ("requested_time_s", "qos", "value", "deadline_s", *JOB_COLUMNS)
UNKNOWN: Final = {"requested_time_s": np.nan, "qos": np.nan, "value": np.nan, "deadline_s": np.inf}
"""What stands for an empty cell; -1 in other columns. A QoS or value must not be empty."""

Column = npt.NDArray[Any]


class JobsTable(TraceFormat):
    """A table of jobs in simkit's own column names."""

    path: File
    """A .csv, .csv.gz or .parquet file; relative to the scenario file."""

    suffixes = (".csv", ".parquet")

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether the file has a column that only tables of jobs have."""
        return bool({"submit_time_s", "run_time_s", "processors"} & set(column_names(path, head)))

    def read(self) -> Trace:
        """Read the table; see `read_jobs_table`."""
        path = Path(self.path)
        parquet = is_parquet(path)
        frame = _parquet(path) if parquet else _csv(path)
        if frame.height == 0:
            raise TraceError(f"{path}: no jobs: the table has no rows; check it")

        def place(row: int) -> str:
            return f"{path}: row {row + 1}" if parquet else f"{path}:{row + 2}"

        workload = Workload.from_jobs(_checked(frame, place))
        report = RowReport(read=len(workload), accepted=len(workload))
        return Trace(workload, report, (path,))


def read_jobs_table(path: str | PathLike[str]) -> Trace:
    """Read a table of rigid jobs: CSV, gzipped CSV or Parquet, told by content, not by name.

    Columns: ``job_id`` (whole numbers or text), ``submit_time_s`` (seconds from the trace's zero),
    ``run_time_s`` (at least 0), ``processors`` (whole, at least 1); optionally
    ``requested_time_s`` (empty where unknown), ``qos`` (quality of service, above 0 and at most
    1), ``value`` (what the job is worth if it finishes, at least 0), ``deadline_s`` (seconds from
    the trace's zero, empty where there is none) and the numbers ``user``, ``group``,
    ``executable``, ``queue``, ``partition``. Other columns are ignored. Rows may be in any order.

    Returns:
        The workload, sorted by (submit time, job id); every row is accepted.

    Raises TraceError, with the row, for missing columns and values that are no numbers.
    """
    return JobsTable.of(path=path).read()


def column_names(path: Path, head: str) -> list[str]:
    """Return the columns of a table: those of a Parquet file, else of the first line."""
    if not is_parquet(path):
        return [name.strip(' "') for name in head.split(",")]
    with suppress(pl.exceptions.PolarsError, OSError):  # the reader says what is wrong
        return list(pl.read_parquet_schema(path))
    return []


def _parquet(path: Path) -> pl.DataFrame:
    try:
        names = list(pl.read_parquet_schema(path))
        return pl.read_parquet(path, columns=_chosen(names, path))
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(
            f"{path}: damaged Parquet file ({reason}); write or fetch it again"
        ) from None


def _csv(path: Path) -> pl.DataFrame:
    """Read the chosen columns block by block, numbers as numbers."""
    frames: list[pl.DataFrame] = []
    names: list[str] = []
    for block in text_blocks(path):
        text, line = block.text, block.first_line
        if not names:
            header, _, text = text.partition(b"\n")
            names = [name.strip(' "\r') for name in header.decode("utf-8", "replace").split(",")]
            chosen = _chosen(names, path)
            line += 1
        if text.strip():
            frames.append(_csv_block(text, names, chosen, line, path))
    if not frames:
        return pl.DataFrame()
    ids = [frame["job_id"] for frame in frames]
    if len({column.dtype for column in ids}) > 1:  # numbers in one block, text in another
        frames = [frame.with_columns(pl.col("job_id").cast(pl.String)) for frame in frames]
    return pl.concat(frames)


def _csv_block(
    text: bytes, names: list[str], chosen: list[str], line: int, path: Path
) -> pl.DataFrame:
    """Parse rows; the first that has a value which is no number is named by its line."""
    try:
        frame = pl.read_csv(
            text,
            has_header=False,
            schema=dict.fromkeys(names, pl.String),
            columns=sorted(names.index(name) for name in chosen),
        )
    except pl.exceptions.PolarsError:
        raise _misshapen(text, len(names), line, path) from None
    columns = []
    for name in chosen:
        words = frame[name].str.strip_chars()
        if name == "job_id":
            numbers = words.cast(pl.Int64, strict=False)
            columns.append(words if numbers.null_count() else numbers)
            continue
        numbers = words.cast(pl.Float64, strict=False)
        if (broken := numbers.is_null() & words.is_not_null() & (words != "")).any():
            row = int(broken.arg_true()[0])
            raise TraceError(
                f"{path}:{line + row}: {name} is {words[row]!r}, not a number; write numbers"
            )
        columns.append(numbers)
    return pl.DataFrame(columns)


def _misshapen(text: bytes, width: int, line: int, path: Path) -> TraceError:
    for number, row in enumerate(text.splitlines(), line):
        if (fields := row.count(b",") + 1) != width:
            return TraceError(
                f"{path}:{number}: {counted(fields, 'field')}, the header has {width}; give every "
                "line one field a column"
            )
    return TraceError(
        f"{path}:{line}: not a table of {counted(width, 'column')} from here on; check it"
    )


def _chosen(names: list[str], path: Path) -> list[str]:
    """Return the columns to read; raise TraceError if a needed one is missing."""
    for name in NEEDED:
        if name not in names:
            raise TraceError(
                f"{path}:1: no column {name}{did_you_mean(name, names)}; a table of jobs needs "
                f"{', '.join(NEEDED)}"
            )
    return [name for name in (*NEEDED, *OPTIONAL) if name in names]


def _checked(frame: pl.DataFrame, place: Callable[[int], str]) -> dict[str, Column]:
    """Return the columns as arrays; the first value that breaks a rule is named by its place."""
    columns: dict[str, Column] = {}
    for name in frame.columns:
        values = frame[name]
        if name in NEEDED and values.null_count():
            row = int(values.is_null().arg_true()[0])
            raise TraceError(f"{place(row)}: {name} is empty; every job needs one")
        if name == "job_id":
            whole = values.dtype.is_integer()
            columns[name] = values.cast(pl.Int64 if whole else pl.String).to_numpy()
            continue
        if not (values.dtype.is_numeric() or values.dtype == pl.Null):
            raise TraceError(f"{place(0)}: {name} is of type {values.dtype}; it must be a number")
        unknown = UNKNOWN.get(name, -1)
        numbers = values.cast(pl.Float64).fill_null(unknown).to_numpy()
        rule, kept = _rule(name, numbers)
        if not kept.all():
            row = int(np.flatnonzero(~kept)[0])
            raise TraceError(f"{place(row)}: {name} is {numbers[row]:g}, it must be {rule}")
        columns[name] = numbers
    return columns


def _rule(name: str, values: Floats) -> tuple[str, Bools]:
    """Return what must hold of a column, in words and row by row."""
    if name == "submit_time_s":
        return "finite", np.isfinite(values)
    if name == "run_time_s":
        return "finite and at least 0", np.isfinite(values) & (values >= 0)
    if name == "requested_time_s":
        return "finite and at least 0, or empty", ~((values < 0) | np.isinf(values))
    if name == "qos":
        return "above 0 and at most 1", (values > 0) & (values <= 1)
    if name == "value":
        return "finite and at least 0", np.isfinite(values) & (values >= 0)
    if name == "deadline_s":
        return "a time, or empty", ~(np.isnan(values) | (values == -np.inf))
    least = 1 if name == "processors" else -1
    return f"whole and at least {least}", (values >= least) & (values == np.floor(values))
