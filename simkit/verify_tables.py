"""Input tables as the auditor reads them: found among the run's inputs, read by its own parser."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simkit.verify_inputs import find_input, sha256_of

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

LARGEST = 2.0**33
"""Times and amounts are below this."""
LARGEST_ID = 2.0**53
"""Ids of a trace are below this."""
_LAYOUTS = {
    "batch_task": ("create", "end", "job_id", "task_id", "instances", "status", "cpu", "mem"),
    "batch_instance": ("start", "end", "job_id", "task_id", "machine", "status", "seq", "total"),
    "server_event": ("time", "machine", "event", "detail", "cpu", "mem", "disk"),
    "container_event": ("time", "event", "container", "machine", "cpu", "mem", "disk"),
}
"""Table of Alibaba's cluster-trace-v2017 → its first columns; the files have no header."""
_WIDTHS = {"batch_task": 8, "batch_instance": 12, "server_event": 7, "container_event": 8}
"""Columns that a table has in all."""
_TEXT = ("status", "event", "detail")


class MissingInputError(ValueError):
    """An input file is missing or has changed; its message says so."""


def inputs_below(run: RunFolder, place: str) -> Iterator[Path]:
    """Yield the unchanged input files that lie at `place` or in that folder.

    Raises MissingInputError if one of them is missing or has changed.
    """
    for entry in run.manifest["inputs"]:
        recorded = Path(str(entry["path"]))
        if Path(place) not in (recorded, recorded.parent):
            continue
        path = find_input(run, str(entry["path"]))
        if path is None or sha256_of(path) != entry["sha256"]:
            raise MissingInputError(f"{recorded.name} is missing or has changed")
        yield path


def trace_table(run: RunFolder, place: str, table: str) -> pl.DataFrame | None:
    """Return a table of Alibaba's trace with the columns of its layout; None if it was not read.

    Args:
        run: the run.
        place: the folder, archive or single table that the scenario names.
        table: e.g. ``batch_task``; a single file is this table unless it has another's name.

    Raises ValueError for a table that cannot be read.
    """
    for path in inputs_below(run, place):
        name = path.name.removesuffix(".gz").removesuffix(".csv")
        if path.name.endswith((".tgz", ".tar.gz", ".tar")):
            content = _member(path, f"{table}.csv")
            if content is not None:
                return _parsed(content, table)
        elif name == table or (name not in _LAYOUTS and str(path) == place):
            return _parsed(path, table)
    return None


def _member(archive: Path, name: str) -> io.BytesIO | None:
    with tarfile.open(archive) as members:
        for member in members:
            if member.isfile() and member.name.rpartition("/")[2] == name:
                stream = members.extractfile(member)
                return io.BytesIO(stream.read()) if stream else None
    return None


def _parsed(source: Path | io.BytesIO, table: str) -> pl.DataFrame:
    import polars as pl

    names = _LAYOUTS[table]
    try:
        whole = [*names, *map(str, range(len(names), _WIDTHS[table]))]
        frame = pl.read_csv(
            source, has_header=False, schema=dict.fromkeys(whole, pl.String),
            columns=list(range(len(names))),
        )  # fmt: skip
    except pl.exceptions.NoDataError:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String)).with_columns(_numbers(names))
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{table}: {str(error).splitlines()[0]}") from None
    frame = frame.with_columns(pl.all().str.strip_chars(' \t\r"')).filter(
        ~pl.all_horizontal(pl.all().is_null() | (pl.all() == ""))
    )
    rows = frame.with_columns(_numbers(names))
    if frame.height and rows[names[0]][0] is None and frame[names[0]][0]:
        rows = rows.slice(1)  # a header
    return rows


def _numbers(names: Sequence[str]) -> list[pl.Expr]:
    import polars as pl

    return [pl.col(name).cast(pl.Float64, strict=False) for name in names if name not in _TEXT]


def times_on_grid(value: pl.Expr) -> pl.Expr:
    """Round times to multiples of 2**-20 s, as the run has them."""
    return (value * 2**20).round(mode="half_to_even") / 2**20


def requests_on_grid(value: pl.Expr) -> pl.Expr:
    """Round requests down to multiples of 2**-30; a millionth of a step is noise."""
    return (value * 2**30 + 1e-6).floor() / 2**30
