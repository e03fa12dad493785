"""The cluster of a scenario: machines of the scenario or a trace, or the log's pool of processors.

Containers, over-commitment, failures, partitions and maintenance are laid over the machines.
"""

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
    ContainerTrace,
    Fault,
    MachineGroup,
    MachineTrace,
    MaintenanceSection,
    PartitionSection,
)
from simkit.text import counted
from simkit.units import amount_on_grid
from simkit.workload import Workload
from simkit.workload.capacity import CapacityChange, Containers, MachineEvents
from simkit.workload.cluster import Cluster, Failures, Maintenance, Partition

_Groups = Mapping[str, tuple[int, ...]]
"""Name of a group of machines → rows of its machines."""


def build_cluster(section: ClusterSection, workload: Workload) -> Cluster:
    """Return the cluster; by default a pool of the size in the log's header.

    Raises ScenarioError if the size is not known, the trace does not fit the section, or a
    maintenance window has no place in time.
    """
    if section.has_pools:
        cluster, groups = _pools(section.partitions)
    else:
        cluster, groups = _machines(section, workload)
    cluster = _overcommitted(cluster, section.overcommit)
    if section.containers is not None:
        first = float(workload.submit_time_s[0]) if len(workload) else 0.0
        cluster = _with_containers(cluster, section.containers, first)
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


def declared_resources(section: ClusterSection) -> tuple[str, ...]:
    """Return the resources that the scenario's groups of machines have; empty without groups."""
    return tuple(dict.fromkeys(name for group in section.machines or () for name in group.capacity))


def _pools(partitions: Sequence[PartitionSection]) -> tuple[Cluster, _Groups]:
    """Return a machine for each partition: a pool of its own, named like it."""
    names = tuple(partition.name for partition in partitions)
    sizes = np.array([[partition.processors] for partition in partitions], dtype=np.float64)
    return Cluster(("processors",), names, sizes), {n: (row,) for row, n in enumerate(names)}


def _machines(section: ClusterSection, workload: Workload) -> tuple[Cluster, _Groups]:
    if section.machines is not None:
        return _grouped(section.machines, workload)
    if section.trace is not None:
        return _traced_machines(section.trace, workload.resources), {}
    if section.processors is not None:
        return Cluster.pool({"processors": float(section.processors)}), {}
    missing = [name for name in workload.resources if name not in workload.capacity]
    if missing:
        largest = workload.job_request().max(axis=0, initial=0)
        sizes = dict(zip(workload.resources, largest.tolist(), strict=True))
        needs = ", ".join(f"{sizes[name]:g} {name}" for name in missing)
        raise ScenarioError(
            f"cluster: the trace does not give the size of the machine; the largest job asks for "
            f"{needs}; add `cluster: {{processors: N}}` or machines to the scenario"
        )
    return Cluster.pool({name: workload.capacity[name] for name in workload.resources}), {}


def _grouped(sections: tuple[MachineGroup, ...], workload: Workload) -> tuple[Cluster, _Groups]:
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


def _traced_machines(section: MachineTrace, wanted: Sequence[str]) -> Cluster:
    """Return the cluster of a trace's machines; `wanted` are the workload's resources.

    A machine added at the trace's zero or before is present from the start: zero stands for all
    times before the trace.
    """
    read = plugins.find("simkit.readers", f"machines.{section.type}")
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
    """Yield the changes of capacity that the trace's events cause, in their order."""
    faults: dict[str, Fault] = {"softerror": section.softerror, "harderror": section.harderror}
    present: set[int] = set()
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
            continue  # never added: nothing can run on it
        row = rows[machine]
        if kind == "add":
            if row in present or time_s > 0:
                yield CapacityChange(time_s, row, "join", "add", tuple(amounts))
            present.add(row)
        elif kind == "remove":
            yield CapacityChange(time_s, row, "leave", "remove", running=section.remove)
        else:
            fault = faults[kind]
            yield CapacityChange(time_s, row, "down", kind, (), fault.running, number)
            if fault.repair is not None:
                yield CapacityChange(time_s + fault.repair, row, "up", kind, fault=number)


def _overcommitted(cluster: Cluster, factors: Mapping[str, float]) -> Cluster:
    """Return the cluster with machines, also later ones, that offer more than they have."""
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


def _with_containers(cluster: Cluster, section: ContainerTrace, first_s: float) -> Cluster:
    """Return the cluster with containers, which occupy part of their machines.

    A container that the trace creates at its zero existed before, so it occupies its part from the
    first submission on, `first_s`.

    Raises ScenarioError for containers on unknown machines, unless the section says to skip them.
    """
    read = plugins.find("simkit.readers", f"containers.{section.type}")
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
            f"machines that are not in the trace, first {container} on {machine}; "
            "`unknown_machines: skip` leaves them out"
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
    """Return (C, R): the containers' requests for the cluster's resources."""
    columns = [
        containers.request[:, containers.resources.index(name)]
        if name in containers.resources
        else np.zeros(len(containers))
        for name in resources
    ]
    return np.column_stack(columns)


def _partitions(
    section: ClusterSection, groups: _Groups, workload: Workload
) -> tuple[Partition, ...]:
    """Return the partitions, with the trace's numbers for queues that are given by name.

    Raises ScenarioError for names that the trace does not have, all of them at once.
    """
    problems: list[str] = []

    def numbers(column: str, entries: Sequence[int | str], place: str) -> frozenset[int]:
        names = dict(enumerate(workload.labels.get(column, ())))
        names = names or dict(workload.header_names.get(column, {}))
        found: set[int] = set()
        for entry in entries:
            called = {number for number, name in names.items() if name == entry}
            if isinstance(entry, str) and not called:
                given = tuple(names.values())
                problems.append(f"{place}.{column}s: {_unknown(entry, column, given)}")
            found |= called if isinstance(entry, str) else {entry}
        return frozenset(found)

    partitions = []
    for row, part in enumerate(section.partitions):
        place = f"cluster.partitions.{row}"
        own = (part.name,) if part.processors is not None else part.machines
        machines = sorted(machine for name in own for machine in groups[name])
        partitions.append(
            Partition(
                name=part.name,
                machines=tuple(machines) if own else None,
                priority=part.priority,
                preempt=part.preempt,
                max_time_s=_or_infinite(part.max_time),
                max_demand=_or_infinite(part.max_processors),
                max_running_per_user=_or_infinite(part.max_running_per_user),
                max_waiting_per_user=_or_infinite(part.max_waiting_per_user),
                queues=numbers("queue", part.queues, place),
                partitions=numbers("partition", part.partitions, place),
            )
        )
    if problems:
        raise ScenarioError(problems)
    return tuple(partitions)


def limited_by_partitions(workload: Workload, cluster: Cluster) -> Workload:
    """Return the workload with the time limits that jobs take from their partition.

    That of the first partition that is open to the job's queue or partition in the trace; a request
    that was raised to the run time stays so. Without such a limit the request stays as it is.
    """
    if not len(workload.limit_of_partition):
        return workload
    origin = np.column_stack((workload.queue, workload.partition))
    kinds, kind = np.unique(origin, axis=0, return_inverse=True)
    limits = [
        next((part.max_time_s for part in cluster.partitions if part.takes(*numbers)), inf)
        for numbers in kinds.tolist()
    ]
    limit = np.array(limits)[kind.reshape(-1)]
    of_task = np.repeat(limit, np.diff(workload.first_task))
    taken = workload.limit_of_partition & np.isfinite(of_task)
    requested = workload.requested_time_s
    return workload.with_columns(
        requested_time_s=np.where(taken, np.fmax(of_task, requested), requested)
    )


def _or_infinite(limit: float | None) -> float:
    return inf if limit is None else float(limit)


def _unknown(name: str, column: str, names: Sequence[str]) -> str:
    if not names:
        return f"{name!r} is a name, but the trace only numbers its {column}s; give the number"
    return f"the trace has no {column} called {name!r}{did_you_mean(name, names)}"


def _windows(
    section: MaintenanceSection, cluster: Cluster, groups: _Groups, workload: Workload
) -> Iterator[Maintenance]:
    """Yield a window for each machine that it takes from."""
    start = _instant(section.start, workload)
    if section.duration is not None:
        end = start + section.duration
    else:
        end = _instant(section.end, workload)  # type: ignore[arg-type]
    if not end > start:
        raise ScenarioError(
            f"cluster.maintenance: ends {start - end:g} s before it starts; swap start and end"
        )
    for machine, amount in _taken(section, cluster, groups):
        yield Maintenance(start, end, machine, amount, section.running, section.every)


def _instant(when: float | datetime, workload: Workload) -> float:
    """Return seconds on the trace's clock."""
    if not isinstance(when, datetime):
        return float(when)
    if isnan(workload.epoch_s):
        raise ScenarioError(
            f"cluster.maintenance: {when.isoformat()} is a date, but the trace does not say when "
            "it began; give durations since its zero, such as 10d"
        )
    return when.timestamp() - workload.epoch_s


def _taken(
    section: MaintenanceSection, cluster: Cluster, groups: _Groups
) -> list[tuple[int, tuple[float, ...]]]:
    """Return (machine, amounts) that a window takes away."""
    if section.processors is not None:
        amounts = [section.processors * (r == "processors") for r in cluster.resources]
        return [(0, tuple(map(float, amounts)))]
    rows = range(len(cluster.machine_names))
    if section.machines is not None:
        rows = [row for name in section.machines for row in groups[name]]  # type: ignore[assignment]
    return [(row, tuple(cluster.capacity[row].tolist())) for row in rows]


def _failures(section: ClusterSection, groups: _Groups) -> Failures | None:
    chosen = section.failures
    if chosen is None:
        return None
    rows = None
    if chosen.machines is not None:
        rows = tuple(sorted(row for name in chosen.machines for row in groups[name]))
    return Failures(chosen.mtbf, chosen.mttr, rows, chosen.running)
