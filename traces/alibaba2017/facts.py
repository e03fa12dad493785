"""Facts about the tables of an Alibaba trace of 2017, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.traces.alibaba2017.files import tables_there
from simkit.traces.alibaba2017.layout import TABLES
from simkit.traces.alibaba2017.machines import read_containers, read_machine_events
from simkit.traces.alibaba2017.usage import Subject, read_usage
from simkit.workload import Trace
from simkit.workload.capacity import Containers, MachineEvents
from simkit.workload.trace import offered_load, rows_facts, spread, workload_facts

SIZES: Final = 5
"""Number of machine sizes that are listed, the most frequent first."""
_USAGE: Final[Mapping[str, tuple[Subject, tuple[str, ...]]]] = {
    "server_usage": ("machines", ("machine_id", "cpu_percent", "mem_percent")),
    "container_usage": ("containers", ("container_id", "cpu_percent", "mem_percent")),
}


def trace_facts(path: str | PathLike[str], trace: Trace | None) -> dict[str, Any]:
    """Return the facts about a trace, from those of its tables that exist.

    Args:
        path: as for `tables_there`.
        trace: its batch jobs; None if the table batch_task is not there.

    Returns plain numbers and text, ready for JSON: ``format``, ``tables`` (the counts of each
    table's rows, by rule), ``missing_tables``, ``unread_tables`` (instances without their tasks),
    then, for the tables that exist, the facts of `workload_facts`, ``machines``, ``containers``,
    ``offered_load`` (batch jobs against all machines) and ``usage``. Times are seconds from the
    trace's start, whose date is not published; cpu is in cores, mem relative to the largest
    machine's.

    Raises TraceError for what the readers of these tables refuse.
    """
    there = tables_there(path)
    facts: dict[str, Any] = {
        "format": "alibaba2017",
        "tables": {},
        "missing_tables": [table for table in TABLES if table not in there],
    }
    if "batch_instance" in there and "batch_task" not in there:
        facts["unread_tables"] = ["batch_instance"]
    capacity: dict[str, float] = {}
    if "server_event" in there:
        events = read_machine_events(path)
        facts["tables"]["server_event"] = rows_facts(events.report)
        facts["machines"] = machines_facts(events)
        capacity = facts["machines"]["capacity"]
    if trace is not None:
        facts |= _batch_facts(trace, facts["tables"])
        if capacity:
            facts["offered_load"] = offered_load(trace.workload, capacity)
    if "container_event" in there:
        facts["containers"] = _containers_facts(path, facts["tables"], capacity)
    usage = {table: _usage_facts(path, table) for table in _USAGE if table in there}
    return facts | ({"usage": usage} if usage else {})


def machines_facts(events: MachineEvents) -> dict[str, Any]:
    """Return number, capacity and sizes of the machines that were added, and their events."""
    added = events.kind == "add"
    machine, capacity = events.machine_id[added][::-1], events.capacity[added][::-1]
    _, last = np.unique(machine, return_index=True)  # of machines added again, the last size
    sizes, counts = np.unique(capacity[last], axis=0, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:SIZES]
    kinds, number = np.unique(events.kind.astype(str), return_counts=True)
    return {
        "count": len(last),
        "capacity": _named(events.resources, capacity[last].sum(axis=0)),
        "different_sizes": len(sizes),
        "sizes": [
            {"machines": int(counts[row]), **_named(events.resources, sizes[row])} for row in most
        ],
        "events": dict(zip(kinds.tolist(), number.tolist(), strict=True)),
    }


def _batch_facts(trace: Trace, tables: dict[str, Any]) -> dict[str, Any]:
    tables |= {table: rows_facts(report) for table, report in trace.tables.items()}
    load = trace.workload
    known = len(load.instance_run_time_s) > 0
    times = "of instances" if known else "from creation to end of the tasks, waits included"
    return {**workload_facts(load), "run_times": times}


def _containers_facts(
    path: str | PathLike[str], tables: dict[str, Any], capacity: Mapping[str, float]
) -> dict[str, Any]:
    """Return number and requests of containers, and the most that they hold at one instant."""
    found = read_containers(path)
    tables["container_event"] = rows_facts(found.report)
    facts: dict[str, Any] = {
        "count": len(found),
        "machines": len(np.unique(found.machine_id)),
        "before_the_trace": int((found.start_time_s <= 0).sum()),
        "removed": int(np.isfinite(found.end_time_s).sum()),
    }
    if len(found):
        for r, name in enumerate(found.resources):
            facts[f"{name}_per_container"] = spread(np.ascontiguousarray(found.request[:, r]))
    most = _named(found.resources, _most_at_once(found))
    facts["most_at_once"] = most
    shares = {name: most[name] / capacity[name] for name in most if capacity.get(name)}
    return facts | ({"share_of_machines": shares} if shares else {})


def _most_at_once(containers: Containers) -> Floats:
    """Return (R,) the most of each resource that containers hold at one instant."""
    time = np.concatenate((containers.end_time_s, containers.start_time_s))
    change = np.concatenate((-containers.request, containers.request))
    order = np.argsort(time, kind="stable")  # at one instant, ends first
    most: Floats = np.cumsum(change[order], axis=0).max(axis=0, initial=0.0)
    return most


def _usage_facts(path: str | PathLike[str], table: str) -> dict[str, Any]:
    """Return the number of measurements, their first and last time, and their means."""
    subject, (who, *percents) = _USAGE[table]
    time = pl.col("time_s")
    row = (
        read_usage(path, subject)
        .select(
            pl.len().alias("rows"),
            pl.col(who).n_unique().alias(subject),
            time.min().alias("first_s"),
            time.max().alias("last_s"),
            *(pl.col(name).mean().alias(f"mean_{name}") for name in percents),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    return dict(row)


def _named(names: tuple[str, ...], amounts: Floats) -> dict[str, float]:
    return dict(zip(names, amounts.tolist(), strict=True))
