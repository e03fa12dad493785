"""The scenario's `cluster`: machines or a pool of processors, maintenance, partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from simkit.errors import did_you_mean
from simkit.scenario.references import FileOrFolder
from simkit.sections import (
    BrokenRulesError,
    Count,
    Instant,
    ItemCount,
    KeyPath,
    Many,
    Positive,
    PositiveDuration,
    Section,
    check_order,
)
from simkit.workload.workload import taken_names

_Problem = tuple[KeyPath, str]


def _number_or_name(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be a whole number or a name, not {value!r}")
    return value


NumberOrName = Annotated[int | str, BeforeValidator(_number_or_name)]
"""What a log calls a queue or partition."""


Running = Literal["drain", "requeue", "suspend"]
"""What happens to running tasks: they end, start over elsewhere, or pause and go on."""


class Fault(Section):
    """What an error of a machine does."""

    running: Running = "drain"
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
    remove: Running = "drain"
    """What happens to tasks on a machine that leaves."""


class ContainerTrace(Section):
    """Services that hold part of the machines, as a trace has them."""

    type: Literal["alibaba2017"] = "alibaba2017"
    """The kind of trace: container_event of Alibaba's cluster-trace-v2017."""
    path: FileOrFolder
    """The table, or the folder or archive that holds it; relative to the scenario file."""
    running: Running = "drain"
    """Batch tasks in the way of a new container end first, start over elsewhere, or pause."""
    unknown_machines: Literal["refuse", "skip"] = "refuse"
    """Containers on machines that the cluster does not have: an error, or left out."""


class RandomFailures(Section):
    """Machines fail at random and are repaired; both times are exponentially distributed."""

    mtbf: PositiveDuration
    """Mean time between failures of one machine."""
    mttr: PositiveDuration
    """Mean time to repair."""
    running: Running = "requeue"
    """Running tasks start over elsewhere, pause, or (drain) end first."""
    machines: Many[str] | None = None
    """Names of the groups of machines that fail; null: all."""


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
    running: Literal["drain", "requeue", "suspend"] = "drain"
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
    def has_pools(self) -> bool:
        """Whether partitions have pools of their own."""
        return any(partition.processors is not None for partition in self.partitions)

    def _pools(self) -> Iterator[_Problem]:
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

    def _names(self) -> Iterator[_Problem]:
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

    def _preemption(self) -> Iterator[_Problem]:
        """Yield partitions that no other may preempt, although they let themselves be."""
        highest = max((partition.priority for partition in self.partitions), default=0.0)
        for row, partition in enumerate(self.partitions):
            if partition.preempt is not None and partition.priority == highest:
                place = ("partitions", row, "preempt")
                yield place, "no partition has a higher priority; give one a higher `priority`"

    def _maintenance_amounts(self) -> Iterator[_Problem]:
        """Yield windows that take processors from machines, or more than the pool has."""
        for row, window in enumerate(self.maintenance):
            place, away = ("maintenance", row, "processors"), window.processors
            if away is not None and self.machines is not None:
                yield place, "the cluster has machines, not processors; name machines instead"
            elif away is not None and self.has_pools:
                yield place, "the partitions have pools of their own; name them as machines instead"
            elif away is not None and self.processors is not None and away > self.processors:
                yield place, f"must be at most the cluster's {self.processors}, not {away}"


def _twice(section: str, names: Sequence[str | None]) -> Iterator[_Problem]:
    for row, name in enumerate(names):
        if name is not None and name in names[:row]:
            yield (section, row, "name"), f"{name!r} appears twice; names must differ"


def _unknown(place: KeyPath, names: Sequence[str], groups: Sequence[str]) -> Iterator[_Problem]:
    for row, name in enumerate(names):
        if name not in groups:
            hint = did_you_mean(name, set(groups)) or "; give the groups under machines names"
            yield (*place, row), f"no group of machines is called {name!r}{hint}"
