"""The tables server_usage and container_usage: what machines and containers used, for analysis."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from simkit.errors import TraceError, did_you_mean

from .alibaba2017_files import find_tables
from .alibaba2017_scan import scan_table

if TYPE_CHECKING:
    import polars as pl

Subject = Literal["machines", "containers", "instances"]
_TABLES: Final = {
    "machines": "server_usage",
    "containers": "container_usage",
    "instances": "batch_instance",
}


def read_usage(path: str | PathLike[str], of: Subject = "machines") -> pl.LazyFrame:
    """Return measurements of usage as a lazy frame, as they are in the trace: no rule is applied.

    Machines: ``time_s``, ``machine_id``, ``cpu_percent``, ``mem_percent``, ``disk_percent``
    (0 … 100 of the machine's), ``load1``, ``load5``, ``load15``. Containers: ``container_id``
    instead of the machine, percentages of what the container requested, besides ``cpi_mean``,
    ``mpki_mean``, ``cpi_max``, ``mpki_max``. Instances: all columns of batch_instance, such as
    ``cpu_max``, ``cpu_mean`` (cores), ``mem_max`` and ``mem_mean`` (relative to the largest
    machine). Times are seconds on the trace's clock, ids Int64, empty fields null; a measurement
    is a mean over 300 s. The trace's description gives more.

    The file is read when the frame is collected, and only the rows and columns that are asked
    for; collect with ``engine="streaming"`` to keep memory small.

    Args:
        path: a folder, an archive, or the single table; see `read_alibaba2017`.
        of: whose usage.

    Raises TraceError if there is no such table; on collecting, for a damaged one, with the line.
    """
    if of not in _TABLES:
        raise TraceError(f"usage of {of!r} is not in the trace{did_you_mean(str(of), _TABLES)}")
    table = _TABLES[of]
    return scan_table(find_tables(Path(path), table)[table], table)
