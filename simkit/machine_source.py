"""The machines of a trace, with what happens to them, as a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from simkit import plugins
from simkit.cluster import Cluster
from simkit.containers import Containers
from simkit.errors import ScenarioError
from simkit.machine_capacity import CapacityChange
from simkit.machine_events import MachineEvents
from simkit.scenario_cloud import ContainerTrace, Fault, MachineTrace
from simkit.words import counted

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
