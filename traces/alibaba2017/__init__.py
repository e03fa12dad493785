"""Alibaba's cluster-trace-v2017: reads its batch jobs as a workload of bags of instances.

The trace holds 24 hours of a production cluster in which services (containers) and batch jobs
share the machines: Alibaba Cluster Trace Program, cluster-trace-v2017. A batch job has tasks, a
task has instances with equal requests; dependencies between tasks are not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl
from pydantic import Field

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError
from simkit.scenario.references import FileOrFolder
from simkit.scenario.workload import TraceFormat
from simkit.traces.alibaba2017 import tables as names
from simkit.traces.alibaba2017.batch import (
    Durations,
    InstanceRuns,
    Tasks,
    read_instance_times,
    read_tasks,
    task_index,
)
from simkit.traces.alibaba2017.machines import (
    Subject,
    machine_events,
    read_containers,
    read_machine_events,
    read_usage,
    usage_report,
)
from simkit.traces.alibaba2017.tables import (
    TABLES,
    RowRules,
    TableFile,
    find_tables,
    is_archive,
    names_a_table,
    tables_there,
)
from simkit.traces.rules import RULES, Tally, summary
from simkit.workload import RowReport, Trace, Workload
from simkit.workload.capacity import Containers, MachineEvents
from simkit.workload.dependencies import slices
from simkit.workload.recorded import Recorded
from simkit.workload.trace import offered_load, rows_facts, spread, workload_facts

__all__ = ["read_alibaba2017", "read_containers", "read_machine_events", "read_usage"]

RESOURCES: Final = ("cpu", "mem")
"""Cores, and memory as a share of the largest machine's."""


class Alibaba2017Trace(TraceFormat):
    """The batch jobs of Alibaba's cluster-trace-v2017."""

    of_tasks: ClassVar[bool] = True
    path: FileOrFolder
    """The folder of the tables, its archive, or batch_task alone; relative to the scenario file."""
    rules: RowRules = Field(default_factory=RowRules)
    """How to treat known problems, where not as by default: {running: keep}."""
    durations: Durations = Field("task", validate_default=True)
    """Run times where batch_instance is missing: task, share, or {type: share, share: 0.5}."""
    instances: bool = True
    """Whether instances have individual run times, if batch_instance exists."""

    meanings = RULES | names.RULES

    @classmethod
    def recognise(cls, path: Path, head: str) -> bool:
        """Return whether a folder or archive holds tables of the trace, or a file is named so."""
        if path.is_dir():
            return any(names_a_table(entry) for entry in path.iterdir())
        return path.name.partition(".")[0] in TABLES or is_archive(path)

    def read(self) -> Trace:
        """Read the batch jobs; see `read_alibaba2017`."""
        return self._scan()[0]

    def recorded(self) -> tuple[Trace, Recorded]:
        """Read the batch jobs, and when their instances started, if batch_instance tells."""
        trace, times = self._scan()
        load = trace.workload
        if times is None or not times.known.any():
            return trace, Recorded.without_starts(load)
        start = np.full(int(load.instances.sum()), np.nan)
        start[_positions(load, times)] = times.start_s
        begun = (np.cumsum(load.instances) - load.instances)[load.first_task[:-1]]
        first = np.fmin.reduceat(start, begun)
        return trace, replace(Recorded.started(load, first), instance_start_s=start)

    def _scan(self) -> tuple[Trace, InstanceRuns | None]:
        """Read the batch jobs; return them, and their instances if a table of these was read."""
        found = find_tables(Path(self.path), "batch_task")
        tally = Tally()
        tasks = read_tasks(found["batch_task"], self.rules, tally)
        _refuse_empty(found["batch_task"], tally, len(tasks.job))
        workload, order = _workload(tasks, self.durations)
        used, reports = [found["batch_task"]], {"batch_task": tally.report}
        times = None
        if self.instances and "batch_instance" in found:
            machines = _machines(found, used, reports)
            rows = Tally()
            index = task_index((tasks.job[order], tasks.task[order]), tasks.left_out)
            times = read_instance_times(
                found["batch_instance"], index, workload.instances, self.rules, machines, rows
            )
            workload = _with_instance_times(workload, times, rows)
            used.append(found["batch_instance"])
            reports["batch_instance"] = rows.report
        inputs = tuple(dict.fromkeys(table.path for table in used))
        return Trace(workload, tally.report, inputs, reports), times

    def facts(self) -> dict[str, Any]:
        """Return what `simkit trace info` shows; see `trace_facts`."""
        has_jobs = "batch_task" in tables_there(self.path)
        return trace_facts(self.path, self.read() if has_jobs else None)

    def reports(self) -> dict[str, RowReport]:
        """Return the report of the rows of each table that exists, by its name."""
        there = tables_there(self.path)
        reports = dict(self.read().tables) if "batch_task" in there else {}
        machines = containers = None
        if "server_event" in there:
            events = read_machine_events(self.path)
            reports["server_event"], machines = events.report, set(events.machine_id.tolist())
        if "container_event" in there:
            services = read_containers(self.path)
            reports["container_event"] = services.report
            containers = set(services.container_id.tolist())
        if "server_usage" in there:
            reports["server_usage"] = usage_report(self.path, "machines", machines)
        if "container_usage" in there:
            reports["container_usage"] = usage_report(self.path, "containers", containers)
        return reports


def read_alibaba2017(path: str | PathLike[str], **arguments: Any) -> Trace:
    """Read the batch jobs of cluster-trace-v2017.

    A job is submitted when its first task is created. Jobs are sorted by (that time, job id), the
    tasks of a job by (creation, task id), so the order of the rows has no influence. Tasks are
    bags. Requests are in cores (the trace has hundredths) and in memory relative to the largest
    machine. There are no requested times and no users.

    Run times come from `batch_instance` where the folder or archive has that table: each instance
    has its run time (last attempt that ended well, in order of start), the task has their mean.
    Instances that the table lacks take the mean of their task's others. Without the table, and
    for tasks without rows in it, `durations` gives the run times.

    Args:
        path: a folder with the tables (``batch_task.csv``, ``.csv.gz``, or an archive that holds
            them), a ``.tar.gz`` or ``.tgz`` archive, or the single table batch_task (then no
            other table is read).
        arguments: the other fields of `Alibaba2017Trace`: `rules` (see `RowRules`), `durations`
            (see `instances.Durations`), `instances`.

    Returns:
        The workload and the reports: `report` is batch_task's, `tables` has each table's.

    Raises TraceError, with file and line, for a missing table, a table of another trace, damaged
    files, unknown rules, and if no row becomes a task.
    """
    return Alibaba2017Trace.of(path=path, **arguments).read()


def _workload(tasks: Tasks, model: Durations) -> tuple[Workload, Ints]:
    """Return the workload, and the rows of `tasks` in its order."""
    order = np.lexsort((tasks.line, tasks.task, tasks.create_s, tasks.job))
    job, create = tasks.job[order], tasks.create_s[order]
    begins = np.flatnonzero(np.concatenate(([True], job[1:] != job[:-1])))
    ranked = np.lexsort((job[begins], create[begins]))
    first, rows = slices(np.append(begins, len(job)), ranked)
    order = order[rows]
    size = len(order)
    workload = Workload(
        resources=RESOURCES,
        job_id=job[begins][ranked],
        submit_time_s=create[begins][ranked],
        first_task=first,
        task_id=tasks.task[order],
        instances=tasks.instances[order],
        request=tasks.request[order],
        run_time_s=model.run_time_s(tasks.run_s, tasks.instances)[order],
        requested_time_s=np.broadcast_to(np.nan, (size,)),
        gang=np.broadcast_to(np.False_, (size,)),
    )
    return workload, order


def _with_instance_times(workload: Workload, times: InstanceRuns, rows: Tally) -> Workload:
    """Set every instance's run time; those without a row take their task's mean and are noted."""
    shown = times.known > 0
    if not shown.any():
        rows.report.notes[names.TASKS_WITHOUT_ROWS] = workload.tasks
        return workload
    owner = np.repeat(np.arange(workload.tasks), times.known)
    mean = workload.run_time_s.copy()
    mean[shown] = np.bincount(owner, times.run_s, workload.tasks)[shown] / times.known[shown]
    own = _positions(workload, times)
    run = np.repeat(mean, workload.instances)
    run[own] = times.run_s
    lacking = int((workload.instances - times.known)[shown].sum())
    for note, count in (
        (names.MISSING_INSTANCES, lacking),
        (names.TASKS_WITHOUT_ROWS, int(np.count_nonzero(~shown))),
    ):
        if count:
            rows.report.notes[note] = count
    return workload.with_columns(run_time_s=mean, instance_run_time_s=run)


def _positions(workload: Workload, times: InstanceRuns) -> Ints:
    """Return the positions of the shown instances among all: the first of their tasks."""
    planned = np.cumsum(workload.instances) - workload.instances
    begun = np.cumsum(times.known) - times.known
    shift = np.repeat(planned - begun, times.known)
    positions: Ints = np.arange(len(times.run_s)) + shift
    return positions


def _machines(
    found: Mapping[str, TableFile], used: list[TableFile], reports: dict[str, RowReport]
) -> Floats | None:
    """Return the ids of the machines; None if there is no table of them."""
    if "server_event" not in found:
        return None
    events = machine_events(found["server_event"], RESOURCES)
    used.append(found["server_event"])
    reports["server_event"] = events.report
    return events.machines().astype(np.float64)


def _refuse_empty(file: TableFile, tally: Tally, tasks: int) -> None:
    report = tally.report
    if report.read == 0:
        raise TraceError(f"{file}: no tasks: the table is empty; check it")
    if tasks == 0:
        raise TraceError(
            f"{file}: no tasks: all {report.read} rows are left out ({summary(report)}); "
            "`simkit trace check` explains these rules"
        )


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
