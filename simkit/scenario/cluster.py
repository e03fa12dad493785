"""The scenario's `cluster`: machines or a pool of processors, maintenance, partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from simkit.errors import did_you_mean
from simkit.scenario.types import (
    BrokenRulesError,
    Count,
    Instant,
    Many,
    Positive,
    PositiveDuration,
    Section,
    check_order,
)
from simkit.scenario.workload import ContainerTrace, MachineTrace, RandomFailures

Place = tuple[str | int, ...]
Problem = tuple[Place, str]


def _number_or_name(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be a whole number or a name, not {value!r}")
    return value


NumberOrName = Annotated[int | str, BeforeValidator(_number_or_name)]
"""What a log calls a queue or partition."""


class MachineGroup(Section):
    """Machines of one sort; every key that is not listed here is a resource and its capacity."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Positive] = Field(init=False)

    name: str | None = None
    """Name of the group, for maintenance and partitions."""
    count: Count = 1
    """How many of them there are."""

    @property
    def capacity(self) -> dict[str, float]:
        """Capacity of one machine, by resource."""
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _has_resources(self) -> Self:
        if not self.capacity:
            raise ValueError("has no resource; add one, such as cpu: 64")
        for resource in self.capacity:
            if near := get_close_matches(resource, ("name", "count"), n=1, cutoff=0.75):
                raise ValueError(f"{resource!r} as a resource looks like a slip for {near[0]!r}")
        return self


class MaintenanceSection(Section):
    """A window in which capacity is away, once or again and again."""

    start: Instant
    """When it begins: a duration after the trace's zero, or a date."""
    end: Instant | None = None
    """When it ends, likewise; or give `duration`."""
    duration: PositiveDuration | None = None
    """How long it lasts; or give `end`."""
    every: PositiveDuration | None = None
    """It comes again after this time; null: it comes once."""
    processors: Count | None = None
    """How many processors of the pool are away; without this and `machines`: all."""
    machines: Many[str] | None = None
    """Names of the groups of machines that are away."""
    running: Literal["drain", "requeue", "suspend"] = "drain"
    """Running tasks in the way end in peace, start over later, or pause and go on."""

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
            raise ValueError("takes away processors and machines; leave one of the two out")
        if self.machines is not None and not self.machines:
            raise ValueError("machines is empty; name at least one group")
        check_order(self.start, self.end)
        length = self.length_s
        if self.every is not None and length is not None and self.every < length:
            raise ValueError(f"comes again every {self.every:g} s but lasts {length:g} s")
        return self


class PartitionSection(Section):
    """A queue or partition of the site: who gets in, what it may use, its limits."""

    name: str
    """Its name, unlike all others."""
    queues: Many[NumberOrName] = ()
    """The log's queues whose jobs come here: numbers (SWF field 15), or names if it has them."""
    partitions: Many[NumberOrName] = ()
    """Its partitions (SWF field 16) likewise. Either list lets a job in; without both, all come."""
    machines: Many[str] = ()
    """Names of the groups of machines it may use; empty: all."""
    max_time: PositiveDuration | None = None
    """The longest requested time; who asks for none may come. null: no limit."""
    max_processors: Count | None = None
    """The most processors a job may ask for; null: no limit."""
    priority: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """The tasks of a partition with a higher priority go first."""


class ClusterSection(Section):
    """The machines; by default a pool of the size that the log's header tells."""

    processors: Count | None = None
    """A pool: one machine with so many processors, without boundaries inside."""
    machines: Many[MachineGroup] | None = None
    """Groups of machines; or give `processors`."""
    trace: MachineTrace | None = None
    """Machines and their errors as a trace has them; or give `machines`."""
    overcommit: dict[str, Positive] = Field(default_factory=dict)
    """Resource → factor by which tasks may ask for more of it than machines have."""
    containers: ContainerTrace | None = None
    """Services of a trace that hold part of its machines."""
    failures: RandomFailures | None = None
    """Machines fail at random."""
    maintenance: Many[MaintenanceSection] = ()
    """Windows in which capacity is away."""
    partitions: Many[PartitionSection] = ()
    """Queues or partitions; empty: one, with everything."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = [k for k in ("processors", "machines", "trace") if getattr(self, k) is not None]
        if len(given) > 1:
            raise ValueError(f"has both {given[0]} and {given[1]}; leave one of the two out")
        if self.containers is not None and self.trace is None:
            raise ValueError("has containers, but no trace of the machines that they are on")
        if self.machines is not None and not self.machines:
            raise ValueError("machines is empty; add a group such as {count: 5, cpu: 64}")
        if problems := [*self._names(), *self._maintenance_amounts()]:
            raise BrokenRulesError(problems)
        return self

    def _names(self) -> Iterator[Problem]:
        """Names of groups and of partitions differ, and those that are used exist."""
        groups = [group.name for group in self.machines or () if group.name is not None]
        yield from _twice("machines", [group.name for group in self.machines or ()])
        yield from _twice("partitions", [partition.name for partition in self.partitions])
        for row, window in enumerate(self.maintenance):
            yield from _unknown(("maintenance", row, "machines"), window.machines or (), groups)
        if self.failures is not None:
            yield from _unknown(("failures", "machines"), self.failures.machines or (), groups)
        for row, partition in enumerate(self.partitions):
            yield from _unknown(("partitions", row, "machines"), partition.machines, groups)

    def _maintenance_amounts(self) -> Iterator[Problem]:
        """A pool loses processors, at most all of them; machines are lost by name."""
        for row, window in enumerate(self.maintenance):
            place, away = ("maintenance", row, "processors"), window.processors
            if away is not None and self.machines is not None:
                yield place, "the cluster has machines, not processors; name machines instead"
            elif away is not None and self.processors is not None and away > self.processors:
                yield place, f"must be at most the cluster's {self.processors}, not {away}"


def _twice(section: str, names: Sequence[str | None]) -> Iterator[Problem]:
    for row, name in enumerate(names):
        if name is not None and name in names[:row]:
            yield (section, row, "name"), f"{name!r} is there twice; names must differ"


def _unknown(place: Place, names: Sequence[str], groups: Sequence[str]) -> Iterator[Problem]:
    for row, name in enumerate(names):
        if name not in groups:
            hint = did_you_mean(name, set(groups)) or "; give the groups under machines names"
            yield (*place, row), f"no group of machines is called {name!r}{hint}"
