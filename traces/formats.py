"""Which format a log is in, told by its first line."""

from __future__ import annotations

import re
import tarfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from simkit.errors import TraceError
from simkit.traces.alibaba2017 import read_alibaba2017, read_containers, read_machine_events
from simkit.traces.alibaba2017.facts import alibaba2017_facts, tables_there
from simkit.traces.alibaba2017.layout import NAMES_OF_2018, TABLES
from simkit.traces.alibaba2017.usage import usage_report
from simkit.traces.facts import rows_facts, workload_facts
from simkit.traces.files import text_blocks
from simkit.traces.jobs_table import NEEDED, is_parquet
from simkit.traces.task_table import CLOUDSIMPY, read_task_table
from simkit.workload import RowReport

_LOOK_BYTES: Final = 1 << 16
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan", re.IGNORECASE)
_BY_NAME: Final = ((".swf", "swf"), (".csv", "jobs"), (".parquet", "jobs"))


def recognise(path: str | PathLike[str]) -> str:
    """Return the format of a log, plain or gzipped: ``swf``, ``sacct`` or ``jobs``.

    Its first line that is not empty decides: a comment (``;``) or numbers between blanks are SWF,
    a ``|`` is sacct's, a header with a column of jobs' tables is one. Only where the line does
    not tell, the name does: ``.swf``, ``.csv``. An empty file counts as SWF.

    Raises TraceError if neither tells, or the file cannot be read.
    """
    path = Path(path)
    if is_parquet(path):
        return "jobs"
    number, line = _first_line(path)
    if (kind := _kind_of(line)) is not None:
        return kind
    name = path.name.lower().removesuffix(".gz")
    for ending, kind in _BY_NAME:
        if name.endswith(ending):
            return kind
    raise TraceError(
        f"{path}:{number}: the format is not recognised by this line, {line[:60]!r}; give a log in "
        "SWF (18 numbers a line, comments with ;), the output of sacct --parsable2 (a header with "
        f"JobID and |) or a table of jobs (CSV or Parquet with {', '.join(NEEDED)}), or name the "
        "format with --format swf, sacct or jobs"
    )


def _first_line(path: Path) -> tuple[int, str]:
    """Return the first line that is not empty, with its number; ``""`` if there is none."""
    for block in text_blocks(path, _LOOK_BYTES):
        for number, line in enumerate(block.text.split(b"\n"), block.first_line):
            if bare := line.strip():
                return number, bare.decode("utf-8", "replace")
    return 1, ""


def _kind_of(line: str) -> str | None:
    """Return the format that a first line belongs to, None if it may be any or none."""
    if not line or line.startswith(";"):
        return "swf"
    if "|" in line or line.lower() in ("jobid", "jobidraw"):
        return "sacct"
    if set(NEEDED) & {name.strip(' "') for name in line.split(",")}:
        return "jobs"
    fields = line.split()
    if len(fields) > 1 and _NUMBER.fullmatch(fields[0]):
        return "swf"
    return None


# MERGED What a trace of tasks on machines holds, and whether a place holds one at all.


CloudFormat = Literal["alibaba2017", "tasks"]
_LOOK_BYTES_of_info = 1 << 12


def cloud_format(path: str | PathLike[str]) -> CloudFormat | None:
    """Tell what trace of tasks a place holds; None if it is none, or cannot be read.

    ``alibaba2017``: a folder or tar archive with tables of that trace, or a table with its name;
    ``tasks``: a table, CSV or Parquet, that has the columns of `read_task_table`'s own map.
    """
    path = Path(path)
    if path.is_dir():
        return "alibaba2017" if any(_names_a_table(entry) for entry in path.iterdir()) else None
    if not path.is_file():
        return None
    if path.name.partition(".")[0] in TABLES or _is_archive(path):
        return "alibaba2017"
    return "tasks" if set(CLOUDSIMPY.values()) <= set(_columns(path)) else None


def cloud_facts(path: str | PathLike[str], kind: CloudFormat) -> dict[str, Any]:
    """Return what a trace of tasks holds, as plain numbers and text; see `alibaba2017_facts`.

    Raises TraceError, with file and line, for what the readers refuse.
    """
    if kind == "alibaba2017":
        return alibaba2017_facts(path)
    trace = read_task_table(path)
    tables = {Path(path).name: rows_facts(trace.report)}
    return {"format": "tasks", "tables": tables, **workload_facts(trace.workload)}


def cloud_reports(path: str | PathLike[str], kind: CloudFormat) -> dict[str, RowReport]:
    """Return what became of the rows of each table that is there, by the table's name.

    Raises TraceError, with file and line, for what the readers refuse.
    """
    if kind == "tasks":
        return {Path(path).name: read_task_table(path).report}
    there = tables_there(path)
    reports: dict[str, RowReport] = {}
    if "batch_task" in there:
        reports |= read_alibaba2017(path).tables
    machines = containers = None
    if "server_event" in there:
        events = read_machine_events(path)
        reports["server_event"], machines = events.report, set(events.machine_id.tolist())
    if "container_event" in there:
        services = read_containers(path)
        reports["container_event"] = services.report
        containers = set(services.container_id.tolist())
    if "server_usage" in there:
        reports["server_usage"] = usage_report(path, "machines", machines)
    if "container_usage" in there:
        reports["container_usage"] = usage_report(path, "containers", containers)
    return reports


def _names_a_table(path: Path) -> bool:
    """Tell whether a file has the name of a table, be it of another year, or is an archive."""
    known = path.name.partition(".")[0] in (*TABLES, *NAMES_OF_2018)
    return path.is_file() and (known or path.name.endswith((".tar", ".tar.gz", ".tgz")))


def _is_archive(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path)
    except (OSError, EOFError, zlib.error):
        return False  # whoever reads it says what is wrong


def _columns(path: Path) -> list[str]:
    """Return the names of a table's columns, as its first line or its schema has them."""
    try:
        if is_parquet(path):
            return list(pl.read_parquet_schema(path))
        for block in text_blocks(path, _LOOK_BYTES_of_info):
            line = block.text.partition(b"\n")[0].decode("utf-8", "replace")
            return [name.strip(' "\r') for name in line.split(",")]
    except (TraceError, OSError, pl.exceptions.PolarsError):
        pass  # whoever reads it says what is wrong
    return []
