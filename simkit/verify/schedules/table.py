"""The table of another tool's schedule, read column by column."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.errors import RunError
from simkit.foreign import check_parquet, check_texts
from simkit.text import counted
from simkit.verify.numbers import Floats

NAMES: Final = {
    "job": ("job", "job_id", "id", "jobid", "job_number"),
    "submit": ("submit", "submit_time_s", "submit_time", "submission_time", "submitted"),
    "start": ("start", "start_time_s", "start_time", "starting_time", "started"),
    "end": ("end", "end_time_s", "end_time", "finish_time", "finish", "ended"),
    "processors": ("processors", "procs", "cpus", "cores", "nodes", "size",
                   "requested_number_of_resources", "allocated_processors"),
    "requested": ("requested", "requested_time_s", "requested_time", "walltime", "time_limit",
                  "estimate"),
}  # fmt: skip
"""What a column is about → what it may be called; capitals and spaces make no difference."""
_OPTIONAL: Final = ("requested",)
_LARGEST: Final = 1 << 30
"""Bytes of text that are read."""


@dataclass(frozen=True)
class Schedule:
    """The jobs of a schedule that started and ended, in order of submission; then of the table."""

    job: list[str]
    """(J,) as the table has it."""
    submit: Floats
    """(J,) seconds."""
    start: Floats
    end: Floats
    processors: Floats
    requested: Floats
    """(J,) seconds that the policy plans with: what was requested, or else the run time."""
    without_start: int
    """Rows without a start or an end, which are left out."""
    without_request: int
    """Jobs that have no requested time."""

    def row(self, place: int) -> dict[str, str | float]:
        """Return a job for a message."""
        return {
            "job": self.job[place], "submit": float(self.submit[place]),
            "start": float(self.start[place]), "end": float(self.end[place]),
            "processors": float(self.processors[place]),
        }  # fmt: skip


def read_schedule(path: Path) -> Schedule:
    """Read a table; raises RunError, with all that is wrong with its columns at once."""
    frame = _frame(path)
    if not frame.height:
        raise RunError(f"{path}: no rows below the header; a schedule has a row a job")
    found = _columns(path, frame.columns)
    numbers = {what: _seconds(path, frame[column], what) for what, column in found.items()
               if what != "job"}  # fmt: skip
    known = np.ones(frame.height, np.bool_)
    for what in ("submit", "processors"):
        if missing := np.flatnonzero(np.isnan(numbers[what])).tolist():
            raise RunError(
                f"{path}: {counted(len(missing), 'row')} without {found[what]} (row "
                f"{missing[0] + 1} of the data first); every job needs it"
            )
    for what in ("start", "end"):
        known &= ~np.isnan(numbers[what])
    asked = numbers.get("requested", np.full(frame.height, np.nan))
    run = numbers["end"] - numbers["start"]
    unknown = np.isnan(asked) | (asked <= 0)
    order = np.flatnonzero(known)
    order = order[np.argsort(numbers["submit"][order], kind="stable")]
    names = frame[found["job"]].cast(pl.String).fill_null("-")
    return Schedule(
        job=names.gather(order.tolist()).to_list(),
        submit=numbers["submit"][order],
        start=numbers["start"][order],
        end=numbers["end"][order],
        processors=numbers["processors"][order],
        requested=np.where(unknown, run, asked)[order],
        without_start=int((~known).sum()),
        without_request=int((unknown & known).sum()),
    )


def _frame(path: Path) -> pl.DataFrame:
    """Return the table as text, or with the types of a Parquet file."""
    try:
        if not path.is_file():
            raise RunError(f"{path}: there is no such file; check the path")
        if path.suffix == ".parquet":
            wanted = {name for names in NAMES.values() for name in names}
            columns = [c for c in pl.read_parquet_schema(path) if _plain(c) in wanted]
            check_parquet(path, len(columns))
            check_texts(path)
            return pl.read_parquet(path, columns=columns, glob=False)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            text = stream.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise RunError(f"{path}: more than {_LARGEST:,} bytes of text; write it as .parquet")
        head = text[: text.find(b"\n")]
        mark = max((b",", b";", b"\t", b"|"), key=head.count)
        return pl.read_csv(text, separator=mark.decode(), infer_schema=False)
    except (OSError, EOFError, ValueError, pl.exceptions.PolarsError) as error:
        first = str(error).splitlines()[0]
        raise RunError(f"{path}: cannot be read as a table with a header ({first})") from error


def _plain(name: str) -> str:
    return name.strip().strip('"#').strip().casefold().replace(" ", "_").replace("-", "_")


def _columns(path: Path, names: list[str]) -> dict[str, str]:
    """Return what is known → its column; raises RunError for what is missing or there twice."""
    found, problems = dict[str, str](), []
    plain = {_plain(name): name for name in names}
    for what, wanted in NAMES.items():
        there = [plain[name] for name in wanted if name in plain]
        if there:
            found[what] = there[0]
        elif what not in _OPTIONAL:
            problems.append(
                f"{path}: no column {what} (or {', '.join(wanted[1:])}); it has {', '.join(names)}"
            )
    if problems:
        raise RunError("\n".join(problems))
    return found


def _seconds(path: Path, column: pl.Series, what: str) -> Floats:
    """Return numbers, or dates as seconds; NaN where there is nothing, or a -1."""
    if column.dtype.is_numeric():
        values = column.cast(pl.Float64)
    elif column.dtype == pl.Datetime:
        values = column.dt.epoch("us").cast(pl.Float64) / 1e6
    else:
        words = column.cast(pl.String).str.strip_chars()
        words = words.set(words.is_in(["", "-", "nan", "NaN", "None", "null", "Unknown"]), None)
        values = words.cast(pl.Float64, strict=False)
        if what != "processors" and values.is_null().all():
            dates = words.str.to_datetime(strict=False, time_unit="us", time_zone="UTC")
            values = dates.dt.epoch("us").cast(pl.Float64) / 1e6
        wrong = (values.is_null() & words.is_not_null()).arg_true().to_list()
        if wrong:
            raise RunError(
                f"{path}: {column.name} of row {wrong[0] + 1} of the data is {words[wrong[0]]!r}; "
                f"{what} must be a number" + (" or a date" if what != "processors" else "")
            )
    found = values.fill_null(np.nan).to_numpy().astype(np.float64)
    if what in ("start", "end", "requested"):
        found = np.where(found < 0, np.nan, found)
    return found
