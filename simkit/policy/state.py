"""The state of the system as a policy sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from simkit.arrays import Floats
from simkit.policy.power_view import PowerState
from simkit.policy.profile import Profile, make_profile
from simkit.policy.queue import TaskQueue
from simkit.policy.room import PlacementRule, Release, Room
from simkit.policy.task import Allocation, Placement, Reservation, Task
from simkit.workload.cluster import CapacityStep, Partition


@dataclass(frozen=True)
class SystemInfo:
    """What does not change in a run."""

    resources: tuple[str, ...]
    machine_names: tuple[str, ...]
    capacity: Floats
    """(M, R) at the start."""
    partitions: tuple[Partition, ...]
    epoch_s: float = float("nan")
    """Unix time of the trace's zero; NaN if unknown."""
    first_submit_s: float = 0.0
    """When the first job is submitted."""

    def __post_init__(self) -> None:
        """Make the capacities read-only."""
        self.capacity.flags.writeable = False


class Allocations(Collection[Allocation]):
    """Allocations, oldest first; one may loop over them while actions take some away."""

    __slots__ = ("_of",)

    def __init__(self, allocations: dict[Allocation, Any]) -> None:
        self._of = allocations

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, allocation: object) -> bool:
        return allocation in self._of

    def __iter__(self) -> Iterator[Allocation]:
        return (allocation for allocation in tuple(self._of) if allocation in self._of)

    def __reversed__(self) -> Iterator[Allocation]:
        return (allocation for allocation in tuple(self._of)[::-1] if allocation in self._of)

    def newest(self) -> Iterator[Allocation]:
        """Return the youngest first, without a copy: take no action while looping."""
        return reversed(self._of)


class Outlook:
    """What the engine expects of the future; a policy sees it through its `State`."""

    __slots__ = ("ends", "foresee", "known_steps")

    def __init__(self) -> None:
        self.known_steps: list[CapacityStep] = []
        """Changes of capacity that are known ahead (maintenance), soonest first."""
        self.ends: list[Release] | None = None
        """`State.expected_ends`, kept up to date from when they are first asked for."""
        self.foresee: Callable[..., list[CapacityStep]] | None = None
        """Adds the steps that a forecast of power leads to; None without a forecast."""


class State:
    """The system at a decision instant; read-only for policies."""

    __slots__ = (
        "_backlog",
        "_outlook",
        "_running",
        "arrived",
        "constrained",
        "ended",
        "info",
        "now",
        "power",
        "queue",
        "refills",
        "releases",
        "reservations",
        "room",
        "running",
        "starts",
        "submitted",
        "suspended",
    )

    def __init__(
        self,
        info: SystemInfo,
        room: Room,
        queue: TaskQueue,
        running: dict[Allocation, Any] | None = None,
        suspended: dict[Allocation, Any] | None = None,
        backlog: Sized = (),
        outlook: Outlook | None = None,
    ) -> None:
        """Show the engine's own allocations, backlog and outlook, as they change."""
        self.info = info
        """Facts of the system that do not change; `reset` gets them too."""
        self.now = 0.0
        """Seconds on the trace's clock."""
        self.queue = queue
        """Waiting tasks, in order of submission."""
        self.arrived: list[Task] = []
        """Tasks that entered the queue since the last decision began, also those that came back."""
        self.ended: list[Allocation] = []
        """Allocations that ended since the last decision began, also those that were stopped."""
        self.reservations: dict[Task, Reservation] = {}
        """Tasks that wait for their reserved start."""
        self.releases = 0
        """Rises whenever resources came free or capacities changed: anything may fit."""
        self.starts = 0
        """Rises whenever something starts."""
        self.submitted = 0
        """Jobs that have been submitted so far, including rejected ones."""
        self.constrained = False
        """Whether what fits now may still collide later: with a reservation or a capacity step."""
        self.refills = False
        """Whether a task that starts may let another into the queue at once."""
        self.room = room
        """Free amounts on each machine now."""
        self.power: PowerState | None = None
        """The site's power; None where the scenario has none."""
        self._running = running if running is not None else {}
        self.running = Allocations(self._running)
        """Allocations that hold resources, oldest first."""
        self.suspended = Allocations(suspended if suspended is not None else {})
        """Suspended allocations, oldest first; each waits for a `Resume`."""
        self._backlog = backlog
        self._outlook = outlook or Outlook()

    @property
    def backlog(self) -> int:
        """How many tasks admission holds back; a policy does not see which."""
        return len(self._backlog)

    @property
    def free(self) -> Floats:
        """(M, R) free amounts now; read-only."""
        return _read_only(self.room.free())

    @property
    def capacity(self) -> Floats:
        """(M, R) capacities now; read-only."""
        return _read_only(self.room.capacity)

    @property
    def expected_ends(self) -> Sequence[Release]:
        """(expected end, rank, allocation) of all that runs, soonest first."""
        outlook = self._outlook
        if outlook.ends is None:
            outlook.ends = sorted((a.expected_end_s, a.rank, a) for a in self._running)
        return outlook.ends

    @property
    def steps(self) -> Sequence[CapacityStep]:
        """Changes of capacity that are known ahead or foreseen, soonest first."""
        known, foresee = self._outlook.known_steps, self._outlook.foresee
        if foresee is None:
            return known
        return foresee(known) if known else foresee()

    def fit(self, task: Task, rule: PlacementRule | None = None) -> Placement | None:
        """Return machines on which the task fits now, or None; `rule` says which come first.

        Looks at what is free at this instant alone; `profile` also sees reservations and
        capacity steps.
        """
        return self.room.fit(task, rule)

    def profile(self) -> Profile:
        """Return the free resources over future time, a fresh copy to plan in.

        Running tasks end as expected (overdue ones now); reservations and capacity steps are in.
        """
        reserved = self.reservations.values()
        return make_profile(self.room, self.now, self.expected_ends, self.steps, reserved)


def _read_only(amounts: Floats) -> Floats:
    view = amounts.view()
    view.flags.writeable = False
    return view
