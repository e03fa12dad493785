"""What a trace of tasks on machines holds, and whether a place holds one at all."""

from __future__ import annotations

import tarfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from simkit.errors import TraceError
from simkit.workload import RowReport

from .alibaba2017 import read_alibaba2017, read_containers, read_machine_events
from .alibaba2017_info import alibaba2017_facts, tables_there
from .alibaba2017_layout import NAMES_OF_2018, TABLES
from .alibaba2017_usage import usage_report
from .files import text_blocks
from .jobs_table import is_parquet
from .task_table import CLOUDSIMPY, read_task_table
from .workload_facts import rows_facts, workload_facts

CloudFormat = Literal["alibaba2017", "tasks"]
_LOOK_BYTES = 1 << 12


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
    import polars as pl

    try:
        if is_parquet(path):
            return list(pl.read_parquet_schema(path))
        for block in text_blocks(path, _LOOK_BYTES):
            line = block.text.partition(b"\n")[0].decode("utf-8", "replace")
            return [name.strip(' "\r') for name in line.split(",")]
    except (TraceError, OSError, pl.exceptions.PolarsError):
        pass  # whoever reads it says what is wrong
    return []
