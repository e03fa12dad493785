"""The cluster of a scenario: its machines or the log's pool, its partitions and maintenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf, isnan
from typing import Any

import numpy as np

from simkit import plugins
from simkit.errors import ScenarioError, did_you_mean
from simkit.scenario.cluster import (
    ClusterSection,
    MachineGroup,
    MaintenanceSection,
    PartitionSection,
)
from simkit.scenario.workload import ContainerTrace, Fault, MachineTrace
from simkit.text import counted
from simkit.units import amount_on_grid
from simkit.workload import Workload
from simkit.workload.capacity import CapacityChange, Containers, MachineEvents
from simkit.workload.cluster import Cluster, Failures, Maintenance, Partition

# MERGED The machines of a trace, with what happens to them, as a cluster.


_READERS = "simkit.readers"


def traced_machines(section: MachineTrace, wanted: Sequence[str]) -> Cluster:
    """Return the cluster of a trace's machines; `wanted` are the workload's resources.

    A machine added at the trace's zero or before is there from the start: zero stands for all that
    was before the trace.
    """
    read = plugins.find(_READERS, f"machines.{section.type}")
    events: MachineEvents = read(section.path)
    ids = events.machines()
    if not len(ids):
        raise ScenarioError(f"cluster.trace: {section.path} adds no machine")
    rows = {machine: row for row, machine in enumerate(ids.tolist())}
    resources = tuple(
        dict.fromkeys([name for name in wanted if name in events.resources] + [*events.resources])
    )
    columns = [events.resources.index(name) for name in resources]
    capacity = np.zeros((len(ids), len(resources)))
    joins: dict[int, float] = {}
    for time_s, machine, kind, amounts in zip(
        events.time_s.tolist(),
        events.machine_id.tolist(),
        events.kind.tolist(),
        events.capacity[:, columns],
        strict=True,
    ):
        if kind == "add" and rows[machine] not in joins:
            joins[rows[machine]] = time_s
            capacity[rows[machine]] = amounts
    return Cluster(
        resources,
        tuple(str(machine) for machine in ids.tolist()),
        capacity,
        absent=tuple(sorted(row for row, time_s in joins.items() if time_s > 0)),
        changes=tuple(_changes(section, events, rows, columns)),
        inputs=events.inputs,
        reports={"machines": events.report},
    )


def _changes(
    section: MachineTrace, events: MachineEvents, rows: dict[Any, int], columns: Sequence[int]
) -> Iterator[CapacityChange]:
    """Yield what the trace's events do, in their order."""
    faults: dict[str, Fault] = {"softerror": section.softerror, "harderror": section.harderror}
    there: set[int] = set()
    for number, (time_s, machine, kind, amounts) in enumerate(
        zip(
            events.time_s.tolist(),
            events.machine_id.tolist(),
            events.kind.tolist(),
            events.capacity[:, columns].tolist(),
            strict=True,
        )
    ):
        if machine not in rows:
            continue  # it is never added: nothing can run on it
        row = rows[machine]
        if kind == "add":
            if row in there or time_s > 0:
                yield CapacityChange(time_s, row, "join", "add", tuple(amounts))
            there.add(row)
        elif kind == "remove":
            yield CapacityChange(time_s, row, "leave", "remove", running=section.remove)
        else:
            fault = faults[kind]
            yield CapacityChange(time_s, row, "down", kind, (), fault.running, number)
            if fault.repair is not None:
                yield CapacityChange(time_s + fault.repair, row, "up", kind, fault=number)


def with_containers(cluster: Cluster, section: ContainerTrace, first_s: float) -> Cluster:
    """Return the cluster with containers on it, which take part of their machines.

    One that the trace creates at its zero was there before, so it holds its part from the first
    submission on, `first_s`.

    Raises ScenarioError for containers on unknown machines, unless the section says to skip them.
    """
    read = plugins.find(_READERS, f"containers.{section.type}")
    containers: Containers = read(section.path)
    rows = {name: row for row, name in enumerate(cluster.machine_names)}
    machines = [str(machine) for machine in containers.machine_id.tolist()]
    unknown = [
        (container, machine)
        for container, machine in zip(containers.container_id.tolist(), machines, strict=True)
        if machine not in rows
    ]
    if unknown and section.unknown_machines == "refuse":
        container, machine = unknown[0]
        raise ScenarioError(
            f"cluster.containers: {counted(len(unknown), 'container')} of {len(machines)} on "
            f"machines that the trace of machines does not have, the first is {container} on "
            f"{machine}; `unknown_machines: skip` leaves them out"
        )
    changes = list(cluster.changes)
    requests = _in_order(containers, cluster.resources)
    for machine, start, end, amounts in zip(
        machines,
        containers.start_time_s.tolist(),
        containers.end_time_s.tolist(),
        requests.tolist(),
        strict=True,
    ):
        if machine not in rows:
            continue
        begin = start if start > 0 else min(0.0, first_s)
        taken = tuple(amounts)
        changes.append(
            CapacityChange(begin, rows[machine], "take", "container", taken, section.running)
        )
        if end < inf:
            changes.append(CapacityChange(end, rows[machine], "give", "container", taken))
    reports = {**cluster.reports, "containers": containers.report}
    inputs = (*cluster.inputs, *containers.inputs)
    return replace(cluster, changes=tuple(changes), inputs=inputs, reports=reports)


def _in_order(containers: Containers, resources: Sequence[str]) -> Any:
    """Return (C, R): what containers hold of the cluster's resources."""
    columns = [
        containers.request[:, containers.resources.index(name)]
        if name in containers.resources
        else np.zeros(len(containers))
        for name in resources
    ]
    return np.column_stack(columns)


# MERGED The trace's queues and partitions that a scenario means: by number, or by the trace's names.


def partition_numbers(
    places: Sequence[tuple[str, str, Sequence[int | str]]], workload: Workload
) -> list[frozenset[int]]:
    """Return the numbers of queues or partitions for lists that hold numbers and names.

    A name stands for the number that the trace gives it (`Workload.labels`); a number is taken as
    it is.

    Args:
        places: for each list its dotted place in the scenario, the column that it is about
            (``queue`` or ``partition``), and what it holds.
        workload: the trace's jobs.

    Raises ScenarioError for names that the trace does not have, all of them at once.
    """
    problems: list[str] = []
    found = []
    for place, column, entries in places:
        names = workload.labels.get(column, ())
        numbers = {name: number for number, name in enumerate(names)}
        for entry in entries:
            if isinstance(entry, str) and entry not in numbers:
                problems.append(f"{place}: {_unknown(entry, column, names)}")
        found.append(frozenset(numbers.get(e, -1) if isinstance(e, str) else e for e in entries))
    if problems:
        raise ScenarioError(problems)
    return found


def _unknown(name: str, column: str, names: Sequence[str]) -> str:
    if not names:
        return f"{name!r} is a name, but the trace only numbers its {column}s; give the number"
    return f"the trace has no {column} called {name!r}{did_you_mean(name, names)}"


Groups = Mapping[str, tuple[int, ...]]
"""Name of a group of machines → rows of its machines."""

MOST_WINDOWS = 100_000
"""Most maintenance windows of a run: more are a slip in `every`."""


def build_cluster(section: ClusterSection, workload: Workload) -> Cluster:
    """Return the cluster; by default a pool as large as the log's header says.

    Raises ScenarioError if nothing tells how large the machine is, or a window has no place in
    time.
    """
    cluster, groups = _machines(section, workload)
    cluster = _overcommitted(cluster, section.overcommit)
    if section.containers is not None:
        first = float(workload.submit_time_s[0]) if len(workload) else 0.0
        cluster = with_containers(cluster, section.containers, first)
    windows = tuple(
        window
        for part in section.maintenance
        for window in _windows(part, cluster, groups, workload)
    )
    return replace(
        cluster,
        partitions=_partitions(section, groups, workload) or cluster.partitions,
        maintenance=windows,
        failures=_failures(section, groups),
    )


def _failures(section: ClusterSection, groups: Groups) -> Failures | None:
    chosen = section.failures
    if chosen is None:
        return None
    rows = None
    if chosen.machines is not None:
        rows = tuple(sorted(row for name in chosen.machines for row in groups[name]))
    return Failures(chosen.mtbf, chosen.mttr, rows, chosen.running)


def _overcommitted(cluster: Cluster, factors: Mapping[str, float]) -> Cluster:
    """Let machines, those that join later too, offer more than they have."""
    if not factors:
        return cluster
    if unknown := [name for name in factors if name not in cluster.resources]:
        raise ScenarioError(
            f"cluster.overcommit: the machines have no {', '.join(unknown)}, only "
            f"{', '.join(cluster.resources)}"
        )
    scale = np.array([factors.get(name, 1.0) for name in cluster.resources])
    changes = tuple(
        replace(change, amount=tuple(amount_on_grid(np.array(change.amount) * scale).tolist()))
        if change.amount
        else change
        for change in cluster.changes
    )
    return replace(cluster, capacity=cluster.capacity * scale, changes=changes)


def _machines(section: ClusterSection, workload: Workload) -> tuple[Cluster, Groups]:
    if section.machines is not None:
        return _grouped(section.machines, workload)
    if section.trace is not None:
        return traced_machines(section.trace, workload.resources), {}
    if section.processors is not None:
        return Cluster.pool({"processors": float(section.processors)}), {}
    missing = [name for name in workload.resources if name not in workload.capacity]
    if missing:
        largest = workload.job_request().max(axis=0, initial=0)
        sizes = dict(zip(workload.resources, largest.tolist(), strict=True))
        needs = ", ".join(f"{sizes[name]:g} {name}" for name in missing)
        raise ScenarioError(
            f"cluster: the trace does not say how large the machine is; the largest job asks for "
            f"{needs}; add `cluster: {{processors: N}}` or machines to the scenario"
        )
    return Cluster.pool({name: workload.capacity[name] for name in workload.resources}), {}


def _grouped(sections: tuple[MachineGroup, ...], workload: Workload) -> tuple[Cluster, Groups]:
    """Return machines row by row; the workload's resources come first, in its order."""
    named = {resource: None for group in sections for resource in group.capacity}
    resources = tuple(
        dict.fromkeys([name for name in workload.resources if name in named] + list(named))
    )
    names: list[str] = []
    rows: list[list[float]] = []
    groups: dict[str, tuple[int, ...]] = {}
    for group in sections:
        first = len(names)
        names += _names(group, first)
        rows += [[group.capacity.get(name, 0.0) for name in resources]] * group.count
        if group.name is not None:
            groups[group.name] = tuple(range(first, len(names)))
    return Cluster(resources, tuple(names), np.array(rows, dtype=np.float64)), groups


def _names(group: MachineGroup, first: int) -> list[str]:
    if group.name is None:
        return [f"machine-{row}" for row in range(first, first + group.count)]
    if group.count == 1:
        return [group.name]
    return [f"{group.name}-{number}" for number in range(group.count)]


def _partitions(
    section: ClusterSection, groups: Groups, workload: Workload
) -> tuple[Partition, ...]:
    """Return the partitions with the trace's numbers for the queues that lead there."""
    places: list[tuple[str, str, Sequence[int | str]]] = []
    for row, part in enumerate(section.partitions):
        place = f"cluster.partitions.{row}"
        places.append((f"{place}.queues", "queue", part.queues))
        places.append((f"{place}.partitions", "partition", part.partitions))
    numbers = partition_numbers(places, workload)
    return tuple(
        _partition(part, groups, queues, partitions)
        for part, queues, partitions in zip(
            section.partitions, numbers[::2], numbers[1::2], strict=True
        )
    )


def _partition(
    section: PartitionSection, groups: Groups, queues: frozenset[int], partitions: frozenset[int]
) -> Partition:
    rows = sorted(row for name in section.machines for row in groups[name])
    return Partition(
        name=section.name,
        machines=tuple(rows) if section.machines else None,
        priority=section.priority,
        max_time_s=inf if section.max_time is None else section.max_time,
        max_demand=inf if section.max_processors is None else float(section.max_processors),
        queues=queues,
        partitions=partitions,
    )


# --- maintenance -----------------------------------------------------------------------------


def _windows(
    section: MaintenanceSection, cluster: Cluster, groups: Groups, workload: Workload
) -> Iterator[Maintenance]:
    """Yield a window and its repetitions, once a machine that it takes from."""
    start = _instant(section.start, workload)
    if section.duration is not None:
        end = start + section.duration
    else:
        end = _instant(section.end, workload)  # type: ignore[arg-type]
    if not end > start:
        raise ScenarioError(
            f"cluster.maintenance: ends {start - end:g} s before it starts; swap start and end"
        )
    taken = _taken(section, cluster, groups)
    for shift in _repetitions(section, start, end, cluster, workload):
        for machine, amount in taken:
            yield Maintenance(start + shift, end + shift, machine, amount, section.running)


def _instant(when: float | datetime, workload: Workload) -> float:
    """Return seconds on the trace's clock."""
    if not isinstance(when, datetime):
        return float(when)
    if isnan(workload.epoch_s):
        raise ScenarioError(
            f"cluster.maintenance: {when.isoformat()} is a date, but the trace does not tell when "
            "it began; give durations since its zero, such as 10d"
        )
    return when.timestamp() - workload.epoch_s


def _taken(
    section: MaintenanceSection, cluster: Cluster, groups: Groups
) -> list[tuple[int, tuple[float, ...]]]:
    """Return (machine, amounts) that a window takes away."""
    if section.processors is not None:
        amounts = [section.processors * (r == "processors") for r in cluster.resources]
        return [(0, tuple(map(float, amounts)))]
    rows = range(len(cluster.machine_names))
    if section.machines is not None:
        rows = [row for name in section.machines for row in groups[name]]  # type: ignore[assignment]
    return [(row, tuple(cluster.capacity[row].tolist())) for row in rows]


def _repetitions(
    section: MaintenanceSection, start: float, end: float, cluster: Cluster, workload: Workload
) -> list[float]:
    """Return the shifts in s of a window that comes again and again, 0 first.

    They go on for as long as any run of the workload can be expected to last: to the last submit,
    and from there four times the time that all its work takes in turn on the whole cluster between
    windows that take all of it, and ten times the longest job. `simkit run` warns of a run that
    lasts longer.
    """
    if section.every is None or not len(workload):
        return [0.0]
    share = 0.0
    for r, name in enumerate(workload.resources):
        if name in cluster.resources:
            column = cluster.resources.index(name)
            total = float(cluster.capacity[:, column].sum())
            work = float((workload.request[:, r] * workload.instances * workload.run_time_s).sum())
            share = max(share, work / total if total else 0.0)
    between = max(1.0 - (end - start) / section.every, 0.05)
    longest = float(workload.longest_run_time_s().max())
    horizon = float(workload.submit_time_s[-1]) + (4 * share + 10 * longest) / between
    count = max(int((horizon - start) // section.every) + 1, 1)
    if count > MOST_WINDOWS:
        raise ScenarioError(
            f"cluster.maintenance: every {section.every:g} s stands for {count} windows; at most "
            f"{MOST_WINDOWS}: make it longer"
        )
    return [number * section.every for number in range(count)]
