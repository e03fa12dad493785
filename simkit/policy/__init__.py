"""The policy API: what a policy sees and what it may do; policies/ has the policies themselves.

A policy is called at every decision instant with a `State`. It is a generator: time stands still
until it returns, each action is applied at once, and the state shows the effect.

    class ShortestFirst:
        def reset(self, info, rng):
            pass

        def schedule(self, state):
            for task in sorted(state.queue, key=lambda task: task.estimate_s):
                if on := state.fit(task):
                    yield Place(task, on)

It reads `state.now`, `state.queue` (the waiting tasks), `state.fit(task)`, `state.free`,
`state.running`, `state.profile()` (free resources over future time), `state.power` and more; see
`State` and `Task`. It yields the actions below. An illegal action raises PolicyError, which names
policy, task, machine, requested and free amounts; it is never skipped.

Most policies need less than a whole class. The bases are in separate modules:

- `simkit.policy.ordered`: an order, composed with a backfilling and a placement rule.
- `simkit.policy.lane`: orders, and the waiting tasks in such an order.
- `simkit.policy.fitness`: what scores highest is placed next.
- `simkit.policy.greedy`: places until nothing fits; the base of `fitness`.
- `simkit.policy.declared`: what a policy says that it reads and brings.
- `simkit.policy.estimates`: where a task's `estimate_s` comes from.
- `simkit.policy.what_if`: what would happen under another policy.

The names in `__all__` and in these seven modules are public. The other modules hold their
implementation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from simkit.policy.declared import PolicyMetric
from simkit.policy.profile import Profile
from simkit.policy.queue import QueueColumns, TaskQueue
from simkit.policy.room import PlacementRule, Room
from simkit.policy.state import Allocations, PowerState, State, SystemInfo
from simkit.policy.task import Allocation, Placement, Release, Reservation, Task
from simkit.workload.cluster import CapacityStep, Partition

__all__ = [
    "Action", "Allocation", "Allocations", "Cancel", "CapacityStep", "Kill", "Partition", "Place",
    "Placement", "PlacementRule", "Policy", "PolicyMetric", "PowerState", "Profile",
    "QueueColumns", "Reject",
    "Release", "Reservation", "Resume", "Room", "State", "Suspend", "SwitchOff", "SwitchOn",
    "SystemInfo", "Task", "TaskQueue", "WakeAt",
]  # fmt: skip


class Place(NamedTuple):
    """Start instances of a waiting task now or, with `start`, reserve their place for later.

    The placement is checked as a whole: a gang starts on several machines or not at all.
    """

    task: Task
    on: Placement
    start: float | None = None


class Cancel(NamedTuple):
    """Cancel a reservation; the task returns to its place in the queue."""

    task: Task


class WakeAt(NamedTuple):
    """Ask for a decision at that time, whether or not anything changes."""

    time_s: float


class Suspend(NamedTuple):
    """Stop an allocation and free what it holds.

    With `keep_work` it waits in `state.suspended` for a `Resume`. Without, its work is lost and
    its instances go back to the queue to start from the beginning.
    """

    allocation: Allocation
    keep_work: bool = True


class Resume(NamedTuple):
    """Continue a suspended allocation, on its old machines or on others."""

    allocation: Allocation
    on: Placement | None = None


class Kill(NamedTuple):
    """End a task for good, whether it is waiting, reserved, suspended or running."""

    task: Task
    reason: str = "killed by the policy"


class Reject(NamedTuple):
    """Turn a waiting task's job away: it is never run, and counts as rejected, not as killed.

    The whole job goes, so nothing of it may have started or be reserved.
    """

    task: Task
    reason: str = "it is not worth running"


class SwitchOff(NamedTuple):
    """Turn an empty machine off; it offers nothing until it is switched on and has booted."""

    machine: int


class SwitchOn(NamedTuple):
    """Turn on a machine that was switched off; it offers its capacity once it has booted."""

    machine: int


Action = Place | Cancel | WakeAt | Suspend | Resume | Kill | Reject | SwitchOff | SwitchOn


@runtime_checkable
class Policy(Protocol):
    """Decides what starts, where and when.

    It may declare what it reads and brings; see `simkit.policy.declared`.
    """

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Forget everything; a run begins. `rng` is the policy's own random stream."""

    def schedule(self, state: State) -> Iterable[Action]:
        """Yield actions; each is applied before the next is asked for.

        An illegal action raises PolicyError in the run.
        """
