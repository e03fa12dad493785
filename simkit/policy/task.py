"""Tasks as policies see them, the allocations they hold, and when these are expected to end."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import floor, inf
from operator import itemgetter
from typing import Final, NamedTuple, overload

from simkit.units import ENDLESS_S, TIME_GRID

Placement = tuple[tuple[int, int], ...]
"""Where instances go: pairs of (machine, number of instances)."""


def instances_on(on: Placement) -> int:
    """Return how many instances a placement has."""
    return sum([count for _, count in on])


def at_most(on: Placement, instances: int) -> Placement:
    """Return a placement cut down to this many instances."""
    kept: list[tuple[int, int]] = []
    for machine, count in on:
        if instances:
            kept.append((machine, min(count, instances)))
            instances -= kept[-1][1]
    return tuple(kept)


Instances = tuple[int, int, int]
"""Consecutive instances of a task: (first, count, attempt; 0: not begun)."""


class Task:
    """A task in the system: what a policy may know of it. Its true run time is not here.

    Tasks are made when their job arrives. `index` is the task's rank in order of submission, ties
    by job id, and settles every tie between tasks. The engine changes `waiting`, `remaining` and,
    with a predictor that learns, `estimate_s`; policies only read.
    """

    waiting = False
    """Whether it is in the queue, to be placed by the policy."""

    request_as_read: tuple[float, ...] | None = None
    """`request` in the trace's own digits, before it was rounded down; None: it was not."""

    # What only jobs with a value have; set after construction, where the workload has them.
    qos = 1.0
    """Quality of service that its user asks for, in (0, 1]; see `simkit.scenario.value`."""
    has_qos = False
    """Whether its user asks for a quality of service; else `qos` is 1 and says nothing."""
    value_per_s = 0.0
    """Worth of a second of its run time; 0 where the job's worth does not depend on it."""
    fixed_value = 0.0
    """Worth that does not depend on its run time."""
    deadline_s = inf
    """When its job should have ended, in seconds on the trace's clock; inf: whenever."""
    cluster_share = 0.0
    """The largest share of one of the cluster's resources that it asks for; 0: not known."""

    def __init__(
        self,
        index: int,
        job_index: int,
        submit_time_s: float,
        request: tuple[float, ...],
        instances: int = 1,
        gang: bool = True,
        estimate_s: float = 0.0,
        requested_time_s: float = float("nan"),
        user: int = -1,
        group: int = -1,
        queue: int = -1,
        partition: int = 0,
        priority: float = 0.0,
        machines: tuple[int, ...] | None = None,
        demand: tuple[float, ...] | None = None,
    ) -> None:
        self.index: Final = index
        self.job_index: Final = job_index
        """Row of the task's job in the workload."""
        self.submit_time_s: Final = submit_time_s
        self.request: Final = request
        """What one instance asks of each resource."""
        self.instances: Final = instances
        self.gang: Final = gang
        """All instances start together (True) or one by one as they fit (False)."""
        self.demand: Final = demand or tuple([amount * instances for amount in request])
        """What all its instances ask of each resource."""
        self.least: Final = self.demand if gang else request
        """What must be free for anything of it to start: all of a gang, one instance of a bag."""
        self.estimate_s = estimate_s
        """The scenario's estimate of the run time of an instance; infinite without a limit."""
        self.requested_time_s: Final = requested_time_s
        """The run time that the user requested; NaN if it is unknown, infinite if there is no
        limit."""
        self.user: Final = user
        self.group: Final = group
        self.queue: Final = queue
        """The trace's queue number (SWF field 15)."""
        self.partition = partition
        """Row of the task's partition in the cluster."""
        self.priority = priority
        """The partition's priority; larger goes first."""
        self.machines = machines
        """The machines it may run on; None: all."""
        self.remaining = instances
        """Instances that have not been placed."""

    @property
    def value(self) -> float:
        """The value of finishing it, by its estimate; 0 for jobs without value."""
        return self.fixed_value + self.value_per_s * min(self.estimate_s, ENDLESS_S)

    @property
    def due_s(self) -> float:
        """When its quality of service is violated, by its estimate."""
        return self.submit_time_s + self.estimate_s / self.qos

    @property
    def latest_start_s(self) -> float:
        """When it must start to end in time, by its estimate, rounded down to the grid of time.

        In time: by its deadline, and before its quality of service is violated; inf without both.
        """
        due = min(self.deadline_s, self.due_s) if self.has_qos else self.deadline_s
        if due == inf:
            return due
        return floor((due - min(self.estimate_s, ENDLESS_S)) / TIME_GRID) * TIME_GRID

    @property
    def value_density(self) -> float:
        """Value over what it holds and for how long: that of a second of the whole cluster.

        What it holds is its `cluster_share`, so that resources in different units can be
        compared; where that is not known, the sum of its amounts.
        """
        held = (self.cluster_share or sum(self.demand)) * min(self.estimate_s, ENDLESS_S)
        return self.value / held if held else inf

    def __repr__(self) -> str:
        return f"<Task {self.index}: {self.instances} x {self.request}, {self.estimate_s:g} s>"


class Allocation:
    """Resources that instances of a task hold together from one start to one end."""

    left_s: float
    """While it is suspended: how long it would still run by its estimate, in s; not set before."""

    __slots__ = (
        "count",
        "expected_end_s",
        "held",
        "left_s",
        "on",
        "rank",
        "start_time_s",
        "task",
    )

    def __init__(
        self,
        rank: int,
        task: Task,
        on: Placement,
        count: int,
        start_s: float,
        end_s: float,
    ) -> None:
        self.rank: Final = rank
        """How many allocations were made before this one: settles ties."""
        self.task: Final = task
        self.on: Final = on
        self.count: Final = count
        self.held: Final = (
            task.request if count == 1
            else task.demand if count == task.instances
            else tuple([amount * count for amount in task.request])
        )  # fmt: skip
        """Amount of each resource it holds, over all its machines."""
        self.start_time_s: Final = start_s
        self.expected_end_s = end_s
        """Start + estimate (less what was done before a suspension); it may overrun. A correction
        moves it. Infinite if the estimate is."""

    def __repr__(self) -> str:
        return f"<Allocation {self.rank} of {self.task!r} on {self.on}>"


class Reservation(NamedTuple):
    """A place that is kept for all remaining instances of a task."""

    task: Task
    on: Placement
    start_s: float


Release = tuple[float, int, Allocation]
"""(expected end, rank, allocation): sorts by time, then by age."""

_BLOCK = 64  # releases in a block, at most twice as many
_FULL = 2 * _BLOCK
_LAST = itemgetter(-1)


class ExpectedEnds(Sequence[Release]):
    """The releases (expected end, rank, allocation), soonest first.

    A short list is just that. A long one stands in blocks, each with the sum of the first resource
    that it frees, so that a search for the time at which much is free passes over whole blocks.
    """

    __slots__ = ("_blocks", "_freed", "_short")

    def __init__(self, allocations: Iterable[Allocation] = ()) -> None:
        ordered = sorted([(a.expected_end_s, a.rank, a) for a in allocations])
        self._short: list[Release] | None = ordered
        self._blocks, self._freed = [ordered], [0.0]
        if len(ordered) > _FULL:
            self._divide()

    def _divide(self) -> None:
        """Put a list that is no longer short into blocks."""
        ordered = self._blocks[0]
        starts = range(0, len(ordered), _BLOCK)
        self._blocks = [ordered[start : start + _BLOCK] for start in starts]
        self._freed = [_sum(block) for block in self._blocks]
        self._short = None

    def add(self, allocation: Allocation) -> None:
        """Add an allocation by its expected end."""
        release = allocation.expected_end_s, allocation.rank, allocation
        if (short := self._short) is not None:
            insort(short, release)
            if len(short) > _FULL:
                self._divide()
            return
        blocks = self._blocks
        row = min(bisect_left(blocks, release, key=_LAST), len(blocks) - 1)
        block = blocks[row]
        insort(block, release)
        self._freed[row] += allocation.held[0]
        if len(block) > _FULL:
            blocks[row : row + 1] = block[:_BLOCK], block[_BLOCK:]
            self._freed[row : row + 1] = [_sum(half) for half in blocks[row : row + 2]]

    def remove(self, allocation: Allocation) -> None:
        """Remove an allocation; its expected end must be what it was when it was added."""
        place = allocation.expected_end_s, allocation.rank
        if (short := self._short) is not None:
            del short[bisect_left(short, place)]
            return
        blocks = self._blocks
        row = bisect_left(blocks, place, key=_LAST)
        block = blocks[row]
        del block[bisect_left(block, place)]
        self._freed[row] -= allocation.held[0]
        if not block:
            del blocks[row], self._freed[row]
            if len(blocks) == 1:
                self._short = blocks[0]

    def when_freed(self, amount: float, now: float) -> tuple[float, float]:
        """Return when so much more of the first resource is free, and how much more it is then.

        Not before now; infinity, and all that is held, if it is never that much. All that ends by
        that time counts.
        """
        freed, releases = self._passed_over(amount)
        time = inf
        for end, _, allocation in releases:
            freed += allocation.held[0]
            if freed >= amount:
                time = end if end > now else now
                break
        for end, _, allocation in releases:
            if end > time:
                break
            freed += allocation.held[0]
        return time, freed

    def _passed_over(self, amount: float) -> tuple[float, Iterator[Release]]:
        """Return what the first blocks free that free less than an amount, and what is behind."""
        if self._short is not None:
            return 0.0, iter(self._short)
        freed, passed = 0.0, 0
        for more in self._freed:
            if freed + more >= amount:
                break
            freed += more
            passed += 1
        return freed, chain.from_iterable(self._blocks[passed:])

    def has(self, time: float) -> bool:
        """Return whether anything is expected to end at exactly that time."""
        blocks = self._blocks
        row = 0 if self._short is not None else bisect_left(blocks, (time, 0), key=_LAST)
        block = blocks[row] if row < len(blocks) else []
        position = bisect_left(block, (time, 0))
        return position < len(block) and block[position][0] == time

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __iter__(self) -> Iterator[Release]:
        return chain.from_iterable(self._blocks)

    @overload
    def __getitem__(self, position: int) -> Release: ...

    @overload
    def __getitem__(self, position: slice) -> list[Release]: ...

    def __getitem__(self, position: int | slice) -> Release | list[Release]:
        if position == 0:
            return self._blocks[0][0]
        return list(self)[position]


def _sum(block: Sequence[Release]) -> float:
    return sum([allocation.held[0] for _, _, allocation in block])


class EndsOfMachine(ExpectedEnds):
    """The releases of one machine, and how often anything started or came free on it."""

    __slots__ = ("added", "removed")

    def __init__(self, allocations: Iterable[Allocation] = ()) -> None:
        super().__init__(allocations)
        self.added = self.removed = 0
        """Allocations that were added and removed since the first count."""

    def add(self, allocation: Allocation) -> None:
        self.added += 1
        super().add(allocation)

    def remove(self, allocation: Allocation) -> None:
        self.removed += 1
        super().remove(allocation)


class EndsByMachine:
    """The releases of some machines, each by itself, and of all together where that is asked for.

    Args:
        running: all that runs, as it changes; looked at when more is asked for.
        together: the releases of all machines, if they are known already.
    """

    __slots__ = ("_all", "_of", "_running")

    def __init__(self, running: Iterable[Allocation], together: ExpectedEnds | None = None) -> None:
        self._running, self._all = running, together
        self._of: dict[int, EndsOfMachine] = {}

    def of(self, machine: int) -> EndsOfMachine:
        """Return the releases of a machine on which nothing runs that also holds another."""
        if (ends := self._of.get(machine)) is None:
            mine = [allocation for allocation in self._running if allocation.on[0][0] == machine]
            ends = self._of[machine] = EndsOfMachine(mine)
        return ends

    def all(self) -> ExpectedEnds:
        """Return the releases of all machines."""
        if self._all is None:
            self._all = ExpectedEnds(self._running)
        return self._all

    def add(self, allocation: Allocation) -> None:
        """Add an allocation by its expected end."""
        if (ends := self._of.get(allocation.on[0][0])) is not None:
            ends.add(allocation)
        if self._all is not None:
            self._all.add(allocation)

    def remove(self, allocation: Allocation) -> None:
        """Remove an allocation; its expected end must be what it was when it was added."""
        if (ends := self._of.get(allocation.on[0][0])) is not None:
            ends.remove(allocation)
        if self._all is not None:
            self._all.remove(allocation)
