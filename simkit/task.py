"""Tasks as policies see them, and the allocations they hold while they run."""

from __future__ import annotations

from math import nan
from typing import Final

Placement = tuple[tuple[int, int], ...]
"""Where instances go: pairs of (machine, number of instances)."""

Instances = tuple[int, int, int]
"""Consecutive instances of a task: (first, count, attempt; 0: not begun)."""


class Task:
    """A task in the system: what a policy may know of it. Its true run time is not here.

    Tasks are made when their job arrives. `index` is the task's rank in order of submission, ties
    by job id, and settles every tie between tasks.
    """

    __slots__ = (
        "_attempt",
        "_executed_s",
        "_first_start_s",
        "_killed",
        "_lost_s",
        "_open",
        "_suspended_s",
        "_unplaced",
        "_waiting",
        "demand",
        "estimate_s",
        "gang",
        "group",
        "index",
        "instances",
        "job_index",
        "machines",
        "partition",
        "priority",
        "queue",
        "remaining",
        "request",
        "requested_time_s",
        "submit_time_s",
        "user",
    )

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
        self.demand: Final = tuple([amount * instances for amount in request])
        """What all its instances ask of each resource."""
        self.estimate_s: Final = estimate_s
        """The scenario's estimate of the run time of an instance."""
        self.requested_time_s: Final = requested_time_s
        """The user's own estimate; NaN if there is none."""
        self.user: Final = user
        self.group: Final = group
        self.queue: Final = queue
        """The trace's queue number (SWF field 15)."""
        self.partition: Final = partition
        """Row of the task's partition in the cluster."""
        self.priority: Final = priority
        """The partition's priority; larger goes first."""
        self.machines: Final = machines
        """The machines it may run on; None: all."""
        self.remaining = instances
        """Instances that have not been placed."""
        # What only the engine needs:
        self._waiting = False
        self._open = instances  # instances that have not ended
        self._unplaced: list[Instances] | None = None  # of a bag; None: all of them
        self._attempt = 0  # attempts begun
        self._killed = 0  # number of the reason, if it was
        self._first_start_s = nan
        self._executed_s = 0.0  # of the attempt that ended last
        self._lost_s = 0.0
        self._suspended_s = 0.0

    @property
    def waiting(self) -> bool:
        """Whether it is in the queue, to be placed by the policy."""
        return self._waiting

    def __repr__(self) -> str:
        return f"<Task {self.index}: {self.instances} x {self.request}, {self.estimate_s:g} s>"


class Allocation:
    """Resources that instances of a task hold together from one start to one end."""

    __slots__ = ("_instances", "count", "expected_end_s", "held", "on", "rank", "start_time_s",
                 "task")  # fmt: skip

    def __init__(
        self,
        rank: int,
        task: Task,
        on: Placement,
        count: int,
        start_s: float,
        end_s: float,
        instances: tuple[Instances, ...],
    ) -> None:
        self.rank: Final = rank
        """How many allocations were made before this one: settles ties."""
        self.task: Final = task
        self.on: Final = on
        self.count: Final = count
        self.held: Final = (
            task.demand if count == task.instances else tuple([r * count for r in task.request])
        )
        """Amount of each resource it holds, over all its machines."""
        self.start_time_s: Final = start_s
        self.expected_end_s: Final = end_s
        """Start + estimate (less what was done before a suspension); it may overrun."""
        self._instances: Final = instances

    def __repr__(self) -> str:
        return f"<Allocation {self.rank} of {self.task!r} on {self.on}>"
