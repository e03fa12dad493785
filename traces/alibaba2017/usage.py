"""The tables server_usage and container_usage: what machines and containers used, for analysis."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import Final, Literal

import polars as pl

from simkit.errors import TraceError, did_you_mean
from simkit.traces.alibaba2017 import rules as names
from simkit.traces.alibaba2017.files import find_tables, scan_table
from simkit.traces.alibaba2017.layout import HOLDS, unread
from simkit.workload import RowReport

Subject = Literal["machines", "containers", "instances"]

_TABLES: Final = {
    "machines": "server_usage",
    "containers": "container_usage",
    "instances": "batch_instance",
}
_SHARES: Final = ("cpu_percent", "mem_percent", "disk_percent")


def read_usage(path: str | PathLike[str], of: Subject = "machines") -> pl.LazyFrame:
    """Return measurements of usage as a lazy frame, as in the trace: no rule is applied.

    Machines: ``time_s``, ``machine_id``, ``cpu_percent``, ``mem_percent``, ``disk_percent``
    (0 … 100 of the machine's), ``load1``, ``load5``, ``load15``. Containers: ``container_id``
    instead of the machine, percentages of what the container requested, besides ``cpi_mean``,
    ``mpki_mean``, ``cpi_max``, ``mpki_max``. Instances: all columns of batch_instance, such as
    ``cpu_max``, ``cpu_mean`` (cores), ``mem_max`` and ``mem_mean`` (relative to the largest
    machine). Times are seconds on the trace's clock, ids Int64, empty fields null; a measurement
    is a mean over 300 s. The trace's description has the details.

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


def usage_report(
    path: str | PathLike[str],
    of: Literal["machines", "containers"],
    known: Collection[int] | None = None,
) -> RowReport:
    """Count the oddities of a table of usage, each row under one rule; no row is left out.

    Args:
        path: see `read_usage`.
        of: whose usage.
        known: ids of the machines or containers that the trace's events have; None: not checked.

    Raises TraceError as `read_usage` does.
    """
    rows = read_usage(path, of)
    who = pl.col("machine_id" if of == "machines" else "container_id")
    shares = [pl.col(name) for name in _SHARES]
    outside = pl.any_horizontal((share < 0) | (share > 100) for share in shares)
    rules = {
        names.NO_USER_OF: who.is_null(),
        names.NO_TIME: pl.col("time_s").is_null(),
        names.SHARE_OUTSIDE: outside.fill_null(value=False),
        names.NO_SHARE: pl.any_horizontal(share.is_null() for share in shares),
    }
    if known is not None:
        rules[names.WITHOUT_EVENT] = ~who.is_in(list(known))
    rule = pl.lit(None, dtype=pl.String)
    for name, met in reversed(rules.items()):
        rule = pl.when(met).then(pl.lit(name)).otherwise(rule)
    counts = rows.select(rule.alias("rule")).group_by("rule").len().collect(engine="streaming")
    found = dict(counts.rows())
    count, shown = sum(found.values()), {n: found[n] for n in rules if n in found}
    columns = unread(_TABLES[of], ("time_s", "machine_id", "container_id", *_SHARES))
    unused = {name: HOLDS[name] for name in columns}
    return RowReport(read=count, accepted=count, notes=shown, unread=unused)
