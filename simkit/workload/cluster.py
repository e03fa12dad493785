"""A cluster: its machines, partitions, and the capacity changes known ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import cycle, islice
from math import inf, lcm
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.sections import Facts, PositiveDuration
from simkit.units import LARGEST_AMOUNT, TIME_GRID, amount_on_grid, time_on_grid
from simkit.workload.capacity import CapacityChange, ChangeKind, WhenTaken
from simkit.workload.trace import RowReport
from simkit.workload.workload import Workload

MAINTENANCE: Final = "maintenance"
"""The cause of changes that belong to a maintenance window, in the records."""


Preempt = Literal["requeue", "cancel", "suspend"]
"""How a running task is preempted: it starts over, is killed, or pauses and goes on."""


@dataclass(frozen=True)
class Partition:
    """A queue or partition of the site: which machines it may use, and its limits."""

    name: str
    machines: tuple[int, ...] | None = None
    """Rows of machines; None: all."""
    priority: float = 0.0
    """Larger goes first."""
    preempt: Preempt | None = None
    """What happens to its running tasks if a task of a higher priority needs their place: they go
    back to the queue and start over, are killed, or pause and go on where they ran as soon as their
    place is free. None: they run on."""
    max_time_s: float = float("inf")
    """Longest requested time."""
    max_demand: float = float("inf")
    """Most of the first resource that a job may ask for."""
    max_running_per_user: float = inf
    """Most jobs of a user that run at a time."""
    max_waiting_per_user: float = inf
    """Most jobs of a user that wait for their start."""
    queues: frozenset[int] = frozenset()
    """Trace queue numbers (SWF field 15) that lead here."""
    partitions: frozenset[int] = frozenset()
    """Trace partition numbers (SWF field 16) that lead here."""

    def takes(self, queue: int, partition: int) -> bool:
        """Return whether it is open to jobs of the trace's queue and partition of these numbers."""
        named = self.queues or self.partitions
        return not named or queue in self.queues or partition in self.partitions


class CapacityStep(NamedTuple):
    """A change of capacity that is known ahead, such as the start of a maintenance window."""

    time_s: float
    machine: int
    change: tuple[float, ...]
    """(R,) added to the machine's capacity; negative takes away."""


class Failures(Facts):
    """Machines fail at random and are repaired; both times (s) are exponentially distributed."""

    noun = "failures"

    mtbf: PositiveDuration
    """Mean time from the repair of a machine to its next failure."""
    mttr: PositiveDuration
    """Mean time from a failure to the repair."""
    running: WhenTaken = "requeue"
    """Running tasks start over elsewhere, pause, or (drain) end first."""


_KINDS: Final[tuple[ChangeKind, ChangeKind]] = ("take", "give")


@dataclass(frozen=True)
class Maintenance:
    """A window in which part of a machine's capacity is away."""

    start_s: float
    end_s: float
    machine: int
    amount: tuple[float, ...]
    """(R,) taken away."""
    running: WhenTaken = "drain"
    every_s: float | None = None
    """Period in which it recurs, without end; None: once."""

    def steps(self, after_s: float = -inf, until_s: float = inf) -> Iterator[CapacityStep]:
        """Yield the steps down and up in ``(after_s, until_s]``, in order of time.

        Those of a window that recurs have no end unless `until_s` is finite.
        """
        down = tuple([-amount for amount in self.amount])
        start, end = time_on_grid([self.start_s, self.end_s]).tolist()
        every = None if self.every_s is None else float(time_on_grid(self.every_s))
        number = 0 if every is None or after_s < end else int((after_s - end) // every)
        while True:
            shift = number * every if every else 0.0
            if after_s < start + shift <= until_s:
                yield CapacityStep(start + shift, self.machine, down)
            if after_s < end + shift <= until_s:
                yield CapacityStep(end + shift, self.machine, self.amount)
            number += 1
            if every is None or start + shift > until_s:
                return

    def changes(self) -> Iterator[CapacityChange]:
        """Yield what is taken and what is given back, without end if it recurs."""
        for step, kind in zip(self.steps(), cycle(_KINDS)):
            yield CapacityChange(
                step.time_s, self.machine, kind, MAINTENANCE, self.amount, self.running
            )


@dataclass(frozen=True)
class Cluster:
    """The machines of a site."""

    resources: tuple[str, ...]
    machine_names: tuple[str, ...]
    capacity: Floats
    """(M, R)"""
    partitions: tuple[Partition, ...] = (Partition("all"),)
    maintenance: tuple[Maintenance, ...] = ()
    changes: tuple[CapacityChange, ...] = ()
    """Changes that policies do not know ahead: machines that join, leave and fail, containers."""
    absent: tuple[int, ...] = ()
    """Rows of the machines that are not there at the start: they join later."""
    failures: Failures | None = None
    failing: tuple[int, ...] | None = None
    """Rows of the machines that fail; None: all."""
    inputs: tuple[Path, ...] = ()
    """Files that the cluster was read from."""
    reports: Mapping[str, RowReport] = field(default_factory=dict)
    """How the rows of its tables were read."""
    _fit_counts: dict[tuple[object, ...], int] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _kinds: dict[tuple[int, ...] | None, tuple[Floats, Ints]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Put capacities on their grid and check them.

        Raises ScenarioError for machines without capacity and for maintenance that ends before it
        starts or takes more than a machine has, be it in several windows at once.
        """
        if problems := self._too_large():
            raise ScenarioError(problems)
        object.__setattr__(self, "capacity", amount_on_grid(self.capacity))
        if self.capacity.shape != (len(self.machine_names), len(self.resources)):
            problems.append(f"cluster: capacities have shape {self.capacity.shape}")
        elif not len(self.capacity) or not (self.capacity >= 0).all():
            problems.append("cluster: needs at least one machine, and capacities of at least 0")
        else:
            for window in self.maintenance:
                problems += self._window_problems(window)
            if any(not 0 <= c.machine < len(self.machine_names) for c in self.changes):
                problems.append("cluster: a capacity change is of a machine that does not exist")
        if problems or (problems := self._overlap_problems()):
            raise ScenarioError(problems)

    def _too_large(self) -> list[str]:
        """Return the resources of which the machines have more than can be added up exactly."""
        with np.errstate(over="ignore"):  # an endless sum is too large, too
            totals = np.asarray(self.capacity, dtype=np.float64).sum(axis=0).tolist()
        return [
            f"cluster: the machines have {total:g} {name} in all; the most is 2**53, about 9e15; "
            "use a larger unit"
            for name, total in zip(self.resources, totals, strict=False)
            if not total <= LARGEST_AMOUNT
        ]

    def _window_problems(self, window: Maintenance) -> list[str]:
        """Return what is wrong with a single window."""
        machines, amount = len(self.machine_names), np.array(window.amount)
        if not 0 <= window.machine < machines:
            return [
                f"maintenance: there is no machine {window.machine}, they are 0..{machines - 1}"
            ]
        name, capacity = self.machine_names[window.machine], self.capacity[window.machine]
        has = tuple(capacity.tolist())
        span = f"maintenance: from {window.start_s:g} s to {window.end_s:g} s"
        if amount.shape != capacity.shape:
            return [f"{span}: takes {window.amount}; give an amount for all resources"]
        problems = []
        if not -np.inf < window.start_s < window.end_s < np.inf:
            problems.append(f"{span}: must end after it starts, both at finite times")
        if window.every_s is not None and not window.end_s - window.start_s <= window.every_s < inf:
            problems.append(
                f"{span}: recurs every {window.every_s:g} s, which is less than it lasts"
            )
        if not (amount >= 0).all():
            problems.append(f"{span}: takes {window.amount}; amounts must be at least 0")
        if (amount > capacity).any():
            problems.append(f"{span}: takes {window.amount} from machine {name!r}, which has {has}")
        return problems

    def _overlap_problems(self) -> list[str]:
        """Return where windows take more of a machine together than it has; the first of each.

        Of windows that recur, only the first steps are looked at: where later ones overlap, the
        machine has nothing left.
        """
        windows: dict[int, list[Maintenance]] = {}
        for window in self.maintenance:
            windows.setdefault(window.machine, []).append(window)
        problems = []
        for machine, several in windows.items():
            if len(several) == 1:
                continue
            left = self.capacity[machine].copy()
            steps = merge(*(window.steps() for window in several), key=step_order)
            once = all(window.every_s is None for window in several)
            for time, _, change in islice(steps, None if once else _STEPS_CHECKED):
                left += change
                if (left < 0).any():
                    problems.append(
                        f"maintenance: windows that overlap at {time:g} s together take more from "
                        f"machine {self.machine_names[machine]!r} than it has, "
                        f"{tuple(self.capacity[machine].tolist())}; shorten one or join them"
                    )
                    break
        return problems

    @classmethod
    def pool(cls, amounts: Mapping[str, float], **facts: object) -> Cluster:
        """Return a cluster of one machine with these amounts: a pool without boundaries."""
        capacity = np.array([list(amounts.values())], dtype=np.float64)
        return cls(tuple(amounts), ("pool",), capacity, **facts)  # type: ignore[arg-type]

    @property
    def recurring(self) -> tuple[Maintenance, ...]:
        """The maintenance windows that recur without end."""
        return tuple([window for window in self.maintenance if window.every_s is not None])

    def known_changes(self) -> Iterator[CapacityChange]:
        """Yield maintenance and `changes` in order of time; at one instant, additions first.

        They have no end if a window recurs.
        """
        windows = [window.changes() for window in self.maintenance]
        others = sorted(self.changes, key=_change_order)
        return merge(*windows, others, key=_change_order)

    def last_single_change_s(self) -> float:
        """Return when the last change of `known_changes` is that does not recur; -inf: never."""
        ends = [float(time_on_grid(w.end_s)) for w in self.maintenance if w.every_s is None]
        return max([-inf, *ends, *(change.time_s for change in self.changes)])

    def known_steps(self) -> list[CapacityStep]:
        """Return the steps of single maintenance windows, which policies may plan with, in order.

        Those of windows that recur come from `recurring`, as far as they are needed.
        """
        singles = [window.steps() for window in self.maintenance if window.every_s is None]
        return list(merge(*singles, key=step_order))

    def most_instances(self, request: tuple[float, ...], machines: tuple[int, ...] | None) -> float:
        """Return how many instances of a request the empty machines ever have room for at once."""
        key = (request, machines)
        if key not in self._fit_counts:
            rows, alike = self._largest_kinds(machines)
            counts = np.full(len(rows), np.inf)
            for r, amount in enumerate(request):
                if amount > 0:
                    counts = np.minimum(counts, rows[:, r] // amount)
            total = (counts * alike).sum()
            self._fit_counts[key] = int(total) if np.isfinite(total) else 2**62
        return self._fit_counts[key]

    def with_limits(self, workload: Workload) -> Workload:
        """Return a workload with the time limits that jobs take from their partition.

        It is the limit of the first partition that is open to the job's queue or partition in the
        trace; a request that was raised to the run time stays so, and so does one without a limit.
        """
        if not len(workload.limit_of_partition):
            return workload
        origin = np.column_stack((workload.queue, workload.partition))
        kinds, kind = np.unique(origin, axis=0, return_inverse=True)
        limits = [
            next((part.max_time_s for part in self.partitions if part.takes(*numbers)), inf)
            for numbers in kinds.tolist()
        ]
        limit = np.array(limits)[kind.reshape(-1)]
        of_task = np.repeat(limit, np.diff(workload.first_task))
        taken = workload.limit_of_partition & np.isfinite(of_task)
        requested = workload.requested_time_s
        return workload.with_columns(
            requested_time_s=np.where(taken, np.fmax(of_task, requested), requested)
        )

    def _largest_kinds(self, machines: tuple[int, ...] | None) -> tuple[Floats, Ints]:
        """Return (K, R), the most that machines ever bring, and (K,) how many bring that."""
        if machines not in self._kinds:
            largest = self.most_ever()
            rows = largest if machines is None else largest[list(machines)]
            kinds, alike = np.unique(rows, axis=0, return_counts=True)
            self._kinds[machines] = kinds, alike
        return self._kinds[machines]

    def most_ever(self) -> Floats:
        """Return (M, R): the most that each machine ever brings."""
        largest = self.capacity.copy()
        for change in self.changes:
            if change.kind == "join" and change.amount:
                largest[change.machine] = np.maximum(largest[change.machine], change.amount)
        return largest


def cycle_s(windows: Sequence[Maintenance]) -> float:
    """Return a time in s after which windows that recur repeat as a whole.

    That is the least common multiple of their periods, cut at a thousand times the longest.
    """
    periods = [round(window.every_s / TIME_GRID) for window in windows if window.every_s]
    return min(lcm(*periods), _LONGEST_CYCLE * max(periods, default=0)) * TIME_GRID


def _change_order(change: CapacityChange) -> tuple[float, bool]:
    return change.time_s, change.takes_away


def step_order(step: CapacityStep) -> tuple[float, bool]:
    """Return the key by which steps are sorted: by time; at one instant, additions first."""
    return step.time_s, min(step.change) < 0


_STEPS_CHECKED = 2_000
"""Steps of a machine's recurring maintenance that are checked before a run."""
_LONGEST_CYCLE = 1000
"""Maximum number of longest periods in a cycle of recurring windows."""


MEMORY = "mem"


def fill_whole_memory(workload: Workload, cluster: Cluster) -> Workload:
    """Return the workload with an amount for each request of all memory of a machine.

    The amount is the memory of the machine on which one instance fits. Where such machines differ,
    it is that of the smallest: there the instance leaves nothing, on a larger one it leaves the
    rest. Only machines count that the partitions which take the job may use. Where an instance fits
    on none, the largest memory of all is asked for, and the job is rejected as any such job is.

    Args:
        workload: may have `Workload.whole_memory`; without it, it comes back as it is.
        cluster: has the resource mem, or the simulation refuses the jobs.
    """
    if not len(workload.whole_memory):
        return workload
    none = np.empty(0, np.bool_)
    if MEMORY not in cluster.resources or not workload.whole_memory.any():
        return workload.with_columns(whole_memory=none)
    request = np.array(workload.request)
    column = workload.resources.index(MEMORY)
    for tasks, machines in _groups(workload, cluster):
        request[tasks, column] = _memory_of_machines(workload, tasks, machines, cluster)
    return workload.with_columns(request=request, whole_memory=none)


def _groups(workload: Workload, cluster: Cluster) -> Iterator[tuple[Ints, Bools]]:
    """Yield tasks that take all memory, and (M,) the machines that their jobs' partitions have."""
    tasks = np.flatnonzero(workload.whole_memory)
    job = np.searchsorted(workload.first_task, tasks, side="right") - 1
    origin = np.column_stack((workload.queue[job], workload.partition[job]))
    kinds, kind = np.unique(origin, axis=0, return_inverse=True)
    for row, (queue, partition) in enumerate(kinds.tolist()):
        machines = np.zeros(len(cluster.capacity), dtype=np.bool_)
        for part in cluster.partitions:
            if part.takes(queue, partition):
                machines[slice(None) if part.machines is None else list(part.machines)] = True
        yield tasks[kind.reshape(-1) == row], machines


def _memory_of_machines(
    workload: Workload, tasks: Ints, machines: Bools, cluster: Cluster
) -> Floats:
    """Return (n,) the memory of the smallest of some machines that holds an instance of each."""
    memory = cluster.capacity[:, cluster.resources.index(MEMORY)]
    order = [
        cluster.resources.index(name) for name in workload.resources if name in cluster.resources
    ]
    columns = [i for i, name in enumerate(workload.resources) if name in cluster.resources]
    kinds, kind = np.unique(workload.request[tasks][:, columns], axis=0, return_inverse=True)
    amounts = []
    for asked in kinds:
        holds = (cluster.capacity[:, order] >= asked).all(axis=1) & machines & (memory > 0)
        amounts.append(memory[holds].min() if holds.any() else memory.max(initial=0.0))
    found: Floats = np.array(amounts)[kind.reshape(-1)]
    return found
