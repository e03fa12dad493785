"""The scenario's `cluster`: machines or a pool of processors, maintenance, partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from math import inf, isnan
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from simkit import plugins
from simkit.errors import ScenarioError, did_you_mean
from simkit.scenario.references import FileOrFolder
from simkit.sections import (
    BrokenRulesError,
    Count,
    Instant,
    ItemCount,
    KeyPath,
    KeyProblem,
    Many,
    Positive,
    PositiveDuration,
    Section,
    check_order,
    or_infinite,
)
from simkit.text import counted
from simkit.units import amount_on_grid
from simkit.workload import Workload
from simkit.workload.capacity import CapacityChange, Containers, MachineEvents, WhenTaken
from simkit.workload.cluster import Cluster, Failures, Maintenance, Partition
from simkit.workload.workload import taken_names

Groups = Mapping[str, tuple[int, ...]]
"""Name of a group of machines → rows of its machines."""


def _number_or_name(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be a whole number or a name, not {value!r}")
    return value


NumberOrName = Annotated[int | str, BeforeValidator(_number_or_name)]
"""What a log calls a queue or partition."""


class Fault(Section):
    """What an error of a machine does."""

    running: WhenTaken = "drain"
    """Running tasks end first, start over on other machines, or pause and go on."""
    repair: PositiveDuration | None = 3600.0
    """The machine takes tasks again after this time; null: never."""


class MachineTrace(Section):
    """Machines and their errors as a trace has them."""

    type: Literal["alibaba2017"] = "alibaba2017"
    """The kind of trace: server_event of Alibaba's cluster-trace-v2017."""
    path: FileOrFolder
    """The table, or the folder or archive that holds it; relative to the scenario file."""
    softerror: Fault = Field(default_factory=Fault)
    """Errors of software; the trace records when they begin, but not when they end."""
    harderror: Fault = Field(default_factory=lambda: Fault(running="requeue", repair=86400.0))
    """Errors of hardware; the trace records when they begin, but not when they end."""
    remove: WhenTaken = "drain"
    """What happens to tasks on a machine that leaves."""

    def build(self, wanted: Sequence[str]) -> Cluster:
        """Return the cluster of a trace's machines; `wanted` are the workload's resources.

        A machine added at the trace's zero or before is present from the start: zero stands for all
        times before the trace.
        """
        read = plugins.find("simkit.readers", f"machines.{self.type}")
        events: MachineEvents = read(self.path)
        ids = events.machines()
        if not len(ids):
            raise ScenarioError(f"cluster.trace: {self.path} adds no machine")
        rows = {machine: row for row, machine in enumerate(ids.tolist())}
        resources = tuple(
            dict.fromkeys(
                [name for name in wanted if name in events.resources] + [*events.resources]
            )
        )
        columns = [events.resources.index(name) for name in resources]
        capacity = np.zeros((len(ids), len(resources)))
        joins: dict[int, float] = {}
        for time_s, machine, kind, amounts in events.rows(columns):
            if kind == "add" and rows[machine] not in joins:
                joins[rows[machine]] = time_s
                capacity[rows[machine]] = amounts
        return Cluster(
            resources,
            tuple(str(machine) for machine in ids.tolist()),
            capacity,
            absent=tuple(sorted(row for row, time_s in joins.items() if time_s > 0)),
            changes=tuple(self._changes(events, rows, columns)),
            inputs=events.inputs,
            reports={"machines": events.report},
        )

    def _changes(
        self, events: MachineEvents, rows: dict[Any, int], columns: Sequence[int]
    ) -> Iterator[CapacityChange]:
        """Yield the changes of capacity that the trace's events cause, in their order."""
        faults: dict[str, Fault] = {"softerror": self.softerror, "harderror": self.harderror}
        present: set[int] = set()
        for number, (time_s, machine, kind, amounts) in enumerate(events.rows(columns)):
            if machine not in rows:
                continue  # never added: nothing can run on it
            row = rows[machine]
            if kind == "add":
                if row in present or time_s > 0:
                    yield CapacityChange(time_s, row, "join", "add", tuple(amounts))
                present.add(row)
            elif kind == "remove":
                yield CapacityChange(time_s, row, "leave", "remove", running=self.remove)
            else:
                fault = faults[kind]
                yield CapacityChange(time_s, row, "down", kind, (), fault.running, number)
                if fault.repair is not None:
                    yield CapacityChange(time_s + fault.repair, row, "up", kind, fault=number)


class ContainerTrace(Section):
    """Services that hold part of the machines, as a trace has them."""

    type: Literal["alibaba2017"] = "alibaba2017"
    """The kind of trace: container_event of Alibaba's cluster-trace-v2017."""
    path: FileOrFolder
    """The table, or the folder or archive that holds it; relative to the scenario file."""
    running: WhenTaken = "drain"
    """Batch tasks in the way of a new container end first, start over elsewhere, or pause."""
    unknown_machines: Literal["refuse", "skip"] = "refuse"
    """Containers on machines that the cluster does not have: an error, or left out."""

    def added_to(self, cluster: Cluster, first_s: float) -> Cluster:
        """Return a cluster with these containers, which occupy part of their machines.

        A container that the trace creates at its zero existed before, so it occupies its part from
        the first submission on, `first_s`.

        Raises ScenarioError for containers on unknown machines, unless they are skipped.
        """
        read = plugins.find("simkit.readers", f"containers.{self.type}")
        containers: Containers = read(self.path)
        rows = {name: row for row, name in enumerate(cluster.machine_names)}
        machines = [str(machine) for machine in containers.machine_id.tolist()]
        unknown = [
            (container, machine)
            for container, machine in zip(containers.container_id.tolist(), machines, strict=True)
            if machine not in rows
        ]
        if unknown and self.unknown_machines == "refuse":
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
                CapacityChange(begin, rows[machine], "take", "container", taken, self.running)
            )
            if end < inf:
                changes.append(CapacityChange(end, rows[machine], "give", "container", taken))
        reports = {**cluster.reports, "containers": containers.report}
        inputs = (*cluster.inputs, *containers.inputs)
        return replace(cluster, changes=tuple(changes), inputs=inputs, reports=reports)


class RandomFailures(Failures):
    """Machines fail at random and are repaired; both times are exponentially distributed."""

    machines: Many[str] | None = None
    """Names of the groups of machines that fail; null: all."""

    def rows(self, groups: Groups) -> tuple[int, ...] | None:
        """Return the rows of the machines that fail; None: all."""
        if self.machines is None:
            return None
        return tuple(sorted(row for name in self.machines for row in groups[name]))


class MachineGroup(Section):
    """Equal machines; every key that is not listed here is a resource and its capacity."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Positive] = Field(init=False)

    name: str | None = None
    """Name of the group, for maintenance and partitions."""
    count: ItemCount = 1
    """Number of machines."""

    @property
    def capacity(self) -> dict[str, float]:
        """Capacity of one machine, by resource."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _has_resources(self) -> Self:
        if not self.capacity:
            raise ValueError("has no resource; add one, such as cpu: 64")
        if taken := taken_names(self.capacity):
            raise ValueError("; ".join(taken))
        for resource in self.capacity:
            if near := get_close_matches(resource, ("name", "count"), n=1, cutoff=0.75):
                raise ValueError(f"the resource {resource!r} looks like a typo of {near[0]!r}")
        return self


class MaintenanceSection(Section):
    """A window in which capacity is away, once or repeatedly."""

    start: Instant
    """Its start: a duration after the trace's zero, or a date."""
    end: Instant | None = None
    """Its end, in the same form; or give `duration`."""
    duration: PositiveDuration | None = None
    """How long it lasts; or give `end`."""
    every: PositiveDuration | None = None
    """Period in which it recurs, without end; null: once."""
    processors: Count | None = None
    """Processors of the pool that are away; without this and `machines`: all."""
    machines: Many[str] | None = None
    """Names of the groups of machines that are away."""
    running: WhenTaken = "drain"
    """Running tasks on this capacity run to their end, start over later, or pause and resume."""

    @property
    def length_s(self) -> float | None:
        """Seconds from start to end; None if one is a date and the other is not."""
        if self.duration is not None:
            return self.duration
        if isinstance(self.start, datetime) and isinstance(self.end, datetime):
            return (self.end - self.start).total_seconds()
        if isinstance(self.start, float) and isinstance(self.end, float):
            return self.end - self.start
        return None

    @model_validator(mode="after")
    def _is_one_window(self) -> Self:
        if (self.end is None) == (self.duration is None):
            raise ValueError("needs either an end or a duration; give one of the two")
        if self.processors is not None and self.machines is not None:
            raise ValueError("takes processors and machines away; leave one of the two out")
        if self.machines is not None and not self.machines:
            raise ValueError("machines is empty; name at least one group")
        check_order(self.start, self.end)
        length = self.length_s
        if self.every is not None and length is not None and self.every < length:
            raise ValueError(f"repeats every {self.every:g} s but lasts {length:g} s")
        return self

    def build(self, cluster: Cluster, groups: Groups, workload: Workload) -> Iterator[Maintenance]:
        """Yield a window for each machine that it takes from."""
        start = _instant(self.start, workload)
        end = start + (self.duration or 0.0) if self.end is None else _instant(self.end, workload)
        if not end > start:
            raise ScenarioError(
                f"cluster.maintenance: ends {start - end:g} s before it starts; swap start and end"
            )
        for machine, amount in self._taken(cluster, groups):
            yield Maintenance(start, end, machine, amount, self.running, self.every)

    def _taken(self, cluster: Cluster, groups: Groups) -> list[tuple[int, tuple[float, ...]]]:
        """Return (machine, amounts) that a window takes away."""
        if self.processors is not None:
            amounts = [self.processors * (r == "processors") for r in cluster.resources]
            return [(0, tuple(map(float, amounts)))]
        rows = range(len(cluster.machine_names))
        if self.machines is not None:
            rows = [row for name in self.machines for row in groups[name]]  # type: ignore[assignment]
        return [(row, tuple(cluster.capacity[row].tolist())) for row in rows]


class PartitionSection(Section):
    """A queue or partition of the site: its jobs, its machines, its limits."""

    name: str
    """A unique name."""
    queues: Many[NumberOrName] = ()
    """The log's queues whose jobs come here: numbers (SWF field 15), or names if it has them, also
    those in an SWF header. `simkit trace info` shows them."""
    partitions: Many[NumberOrName] = ()
    """The log's partitions (SWF field 16). Either list admits a job; without both, all jobs do."""
    processors: Count | None = None
    """A pool of its own with this many processors. Then all partitions have one, and the cluster
    has no `processors` or `machines`; maintenance and failures name the partitions as machines."""
    machines: Many[str] = ()
    """Names of the groups of machines it may use; empty: all."""
    max_time: PositiveDuration | None = None
    """The longest requested time; jobs without one are admitted. null: no limit."""
    max_processors: Count | None = None
    """The most processors a job may ask for; null: no limit."""
    max_running_per_user: Count | None = None
    """The most jobs of one user that run here at a time; others are held back. null: no limit."""
    max_waiting_per_user: Count | None = None
    """The most jobs of one user that wait here for their start; others are not admitted. null: no
    limit."""
    priority: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """Tasks of partitions with a higher priority come first."""
    preempt: Literal["requeue", "cancel", "suspend"] | None = None
    """Running tasks give way to the queue's head if that is of a higher priority: they start over,
    are killed, or pause and go on where they ran. null: they run on."""

    def build(
        self, groups: Groups, workload: Workload, place: str, problems: list[str]
    ) -> Partition:
        """Return the partition, with the trace's numbers for queues that are given by name.

        Names that the trace does not have are added to the problems, with the dotted `place`.
        """
        own = (self.name,) if self.processors is not None else self.machines
        machines = sorted(machine for name in own for machine in groups[name])
        numbers: dict[str, frozenset[int]] = {}
        for column, entries in (("queue", self.queues), ("partition", self.partitions)):
            numbers[f"{column}s"], unknown = _numbers(workload, column, entries)
            problems += [f"{place}.{column}s: {text}" for text in unknown]
        return Partition(
            name=self.name,
            machines=tuple(machines) if own else None,
            priority=self.priority,
            preempt=self.preempt,
            max_time_s=or_infinite(self.max_time),
            max_demand=or_infinite(self.max_processors),
            max_running_per_user=or_infinite(self.max_running_per_user),
            max_waiting_per_user=or_infinite(self.max_waiting_per_user),
            queues=numbers["queues"],
            partitions=numbers["partitions"],
        )


class ClusterSection(Section):
    """The machines; by default a pool of the size in the log's header."""

    processors: Count | None = None
    """A pool: one machine with this many processors, without boundaries inside."""
    machines: Many[MachineGroup] | None = None
    """Groups of machines; or give `processors`."""
    trace: MachineTrace | None = None
    """Machines and their errors from a trace; or give `machines`."""
    overcommit: dict[str, Positive] = Field(default_factory=dict)
    """Resource → factor on the capacity that machines offer of it."""
    containers: ContainerTrace | None = None
    """Services of a trace that occupy part of its machines."""
    failures: RandomFailures | None = None
    """Machines fail at random."""
    maintenance: Many[MaintenanceSection] = ()
    """Windows in which capacity is away."""
    partitions: Many[PartitionSection] = ()
    """Queues or partitions; empty: one with all machines and jobs."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = [k for k in ("processors", "machines", "trace") if getattr(self, k) is not None]
        if len(given) > 1:
            raise ValueError(f"has both {given[0]} and {given[1]}; leave one of the two out")
        if self.containers is not None and self.trace is None:
            raise ValueError("has containers, but no trace of the machines they run on")
        if self.machines is not None and not self.machines:
            raise ValueError("machines is empty; add a group such as {count: 5, cpu: 64}")
        if problems := [
            *self._pools(),
            *self._names(),
            *self._maintenance_amounts(),
            *self._preemption(),
        ]:
            raise BrokenRulesError(problems)
        return self

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources of the groups of machines; empty without groups."""
        return tuple(
            dict.fromkeys(name for group in self.machines or () for name in group.capacity)
        )

    def build(self, workload: Workload) -> Cluster:
        """Return the cluster; by default a pool of the size in the log's header.

        Containers, over-commitment, failures, partitions and maintenance are laid over the
        machines.

        Raises ScenarioError if the size is not known, the trace does not fit the section, or a
        maintenance window has no place in time.
        """
        if self.has_pools:
            cluster, groups = _pools(self.partitions)
        else:
            cluster, groups = self._machines(workload)
        cluster = _overcommitted(cluster, self.overcommit)
        if self.containers is not None:
            first = float(workload.submit_time_s[0]) if len(workload) else 0.0
            cluster = self.containers.added_to(cluster, first)
        maintenance = [
            window
            for section in self.maintenance
            for window in section.build(cluster, groups, workload)
        ]
        problems: list[str] = []
        partitions = [
            section.build(groups, workload, f"cluster.partitions.{row}", problems)
            for row, section in enumerate(self.partitions)
        ]
        if problems:
            raise ScenarioError(problems)
        return replace(
            cluster,
            partitions=tuple(partitions) or cluster.partitions,
            maintenance=tuple(maintenance),
            failures=self.failures,
            failing=None if self.failures is None else self.failures.rows(groups),
        )

    def _machines(self, workload: Workload) -> tuple[Cluster, Groups]:
        if self.machines is not None:
            return _grouped(self.machines, workload)
        if self.trace is not None:
            return self.trace.build(workload.resources), {}
        if self.processors is not None:
            return Cluster.pool({"processors": float(self.processors)}), {}
        missing = [name for name in workload.resources if name not in workload.capacity]
        if missing:
            largest = workload.job_request().max(axis=0, initial=0)
            sizes = dict(zip(workload.resources, largest.tolist(), strict=True))
            needs = ", ".join(f"{sizes[name]:g} {name}" for name in missing)
            raise ScenarioError(
                "cluster: the trace does not give the size of the machine; the largest job asks "
                f"for {needs}; add `cluster: {{processors: N}}` or machines to the scenario"
            )
        return Cluster.pool({name: workload.capacity[name] for name in workload.resources}), {}

    @property
    def has_pools(self) -> bool:
        """Whether partitions have pools of their own."""
        return any(partition.processors is not None for partition in self.partitions)

    def _pools(self) -> Iterator[KeyProblem]:
        """Yield what does not go with partitions that have pools of their own."""
        if not self.has_pools:
            return
        for key in ("processors", "machines", "trace"):
            if getattr(self, key) is not None:
                yield (key,), "does not go with partitions that have processors of their own"
        for row, partition in enumerate(self.partitions):
            if partition.processors is None:
                yield ("partitions", row, "processors"), "is missing; other partitions have a pool"
            if partition.machines:
                place = ("partitions", row, "machines")
                yield place, "does not go with processors; the partition has a pool of its own"

    def _names(self) -> Iterator[KeyProblem]:
        """Yield repeated names of groups and partitions, and names of unknown groups."""
        groups = [group.name for group in self.machines or () if group.name is not None]
        if self.has_pools:
            groups = [partition.name for partition in self.partitions]
        yield from _twice("machines", [group.name for group in self.machines or ()])
        yield from _twice("partitions", [partition.name for partition in self.partitions])
        for row, window in enumerate(self.maintenance):
            yield from _unknown(("maintenance", row, "machines"), window.machines or (), groups)
        if self.failures is not None:
            yield from _unknown(("failures", "machines"), self.failures.machines or (), groups)
        for row, partition in enumerate(self.partitions):
            yield from _unknown(("partitions", row, "machines"), partition.machines, groups)

    def _preemption(self) -> Iterator[KeyProblem]:
        """Yield partitions that no other may preempt, although they let themselves be."""
        highest = max((partition.priority for partition in self.partitions), default=0.0)
        for row, partition in enumerate(self.partitions):
            if partition.preempt is not None and partition.priority == highest:
                place = ("partitions", row, "preempt")
                yield place, "no partition has a higher priority; give one a higher `priority`"

    def _maintenance_amounts(self) -> Iterator[KeyProblem]:
        """Yield windows that take processors from machines, or more than the pool has."""
        for row, window in enumerate(self.maintenance):
            place, away = ("maintenance", row, "processors"), window.processors
            if away is not None and self.machines is not None:
                yield place, "the cluster has machines, not processors; name machines instead"
            elif away is not None and self.has_pools:
                yield place, "the partitions have pools of their own; name them as machines instead"
            elif away is not None and self.processors is not None and away > self.processors:
                yield place, f"must be at most the cluster's {self.processors}, not {away}"


def _twice(section: str, names: Sequence[str | None]) -> Iterator[KeyProblem]:
    for row, name in enumerate(names):
        if name is not None and name in names[:row]:
            yield (section, row, "name"), f"{name!r} appears twice; names must differ"


def _unknown(place: KeyPath, names: Sequence[str], groups: Sequence[str]) -> Iterator[KeyProblem]:
    for row, name in enumerate(names):
        if name not in groups:
            hint = did_you_mean(name, set(groups)) or "; give the groups under machines names"
            yield (*place, row), f"no group of machines is called {name!r}{hint}"


# --- the machines and what is laid over them ------------------------------------------------------


def _pools(partitions: Sequence[PartitionSection]) -> tuple[Cluster, Groups]:
    """Return a machine for each partition: a pool of its own, named like it."""
    names = tuple(partition.name for partition in partitions)
    sizes = np.array([[partition.processors] for partition in partitions], dtype=np.float64)
    return Cluster(("processors",), names, sizes), {n: (row,) for row, n in enumerate(names)}


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


def _in_order(containers: Containers, resources: Sequence[str]) -> Any:
    """Return (C, R): the containers' requests for the cluster's resources."""
    columns = [
        containers.request[:, containers.resources.index(name)]
        if name in containers.resources
        else np.zeros(len(containers))
        for name in resources
    ]
    return np.column_stack(columns)


def _numbers(
    workload: Workload, column: str, entries: Sequence[int | str]
) -> tuple[frozenset[int], list[str]]:
    """Return the trace's numbers for queues or partitions, and what is wrong with names."""
    names = dict(enumerate(workload.labels.get(column, ())))
    names = names or dict(workload.header_names.get(column, {}))
    found: set[int] = set()
    unknown = []
    for entry in entries:
        if not isinstance(entry, str):
            found.add(entry)
        elif called := {number for number, name in names.items() if name == entry}:
            found |= called
        else:
            unknown.append(_unknown_name(entry, column, tuple(names.values())))
    return frozenset(found), unknown


def _unknown_name(name: str, column: str, names: Sequence[str]) -> str:
    if not names:
        return f"{name!r} is a name, but the trace only numbers its {column}s; give the number"
    return f"the trace has no {column} called {name!r}{did_you_mean(name, names)}"


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
