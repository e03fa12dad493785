"""The cluster of a scenario: its machines or the log's pool, its partitions and maintenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf, isnan

import numpy as np

from simkit.cluster import Cluster, Failures, Maintenance
from simkit.errors import ScenarioError
from simkit.machine_source import traced_machines, with_containers
from simkit.partition_numbers import partition_numbers
from simkit.policy import Partition
from simkit.scenario_cluster import Cluster as ClusterSection
from simkit.scenario_cluster import MachineGroup, PartitionSection
from simkit.scenario_cluster import Maintenance as MaintenanceSection
from simkit.units import amount_on_grid
from simkit.workload import Workload

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
