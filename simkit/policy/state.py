"""The state of the system as a policy sees it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import Any

from simkit.arrays import Floats
from simkit.policy.expected_ends import ExpectedEnds
from simkit.policy.power_view import PowerState
from simkit.policy.profile import Profile, make_profile
from simkit.policy.queue import TaskQueue
from simkit.policy.room import PlacementRule, Room
from simkit.policy.task import Allocation, Placement, Reservation, Task
from simkit.workload.cluster import (
    CapacityStep,
    Maintenance,
    Partition,
    cycle_s,
    step_order,
)


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
    powered: bool = False
    """Whether the scenario has a section `power`."""

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


_TIME = attrgetter("time_s")


def _never(_task: Task) -> bool:
    return False


class Outlook:
    """What the engine expects of the future; a policy sees it through its `State`."""

    __slots__ = (
        "_ahead_s", "_made", "all_begun", "cycle_s", "ends", "foresee", "known_steps", "recurring",
        "rejectable",
    )  # fmt: skip

    def __init__(
        self, known_steps: Iterable[CapacityStep] = (), recurring: Sequence[Maintenance] = ()
    ) -> None:
        self.known_steps = list(known_steps)
        """Changes of capacity that are known ahead (single maintenance windows), soonest first."""
        self.recurring = recurring
        """Maintenance windows that recur without end."""
        self.cycle_s = cycle_s(recurring)
        """Time in s in which these windows repeat as a whole."""
        self.all_begun = max([window.start_s for window in recurring], default=-inf)
        """When all of them have begun for the first time, in s."""
        self._made: tuple[float, float, list[CapacityStep]] = (inf, inf, [])
        self._ahead_s = 2 * max([window.every_s or 0.0 for window in recurring], default=inf)
        self.ends: ExpectedEnds | None = None
        """`State.expected_ends`, kept up to date from when they are first asked for."""
        self.rejectable: Callable[[Task], bool] = _never
        """Tells which tasks' jobs may be rejected."""
        self.foresee: Callable[..., list[CapacityStep]] | None = None
        """Adds the steps that a forecast of power leads to; None without a forecast."""

    @property
    def any(self) -> bool:
        """Whether any change of capacity is known ahead."""
        return bool(self.known_steps or self.recurring or self.foresee)

    def known_until(self, now: float) -> float:
        """Return how far ahead, in s, windows that recur are shown: for two periods of each."""
        return now + self._ahead_s

    def steps(self, now: float, until_s: float) -> Sequence[CapacityStep]:
        """Return what is known ahead and foreseen, with windows that recur through a time."""
        known = self.known_steps
        if self.recurring:
            recur = self._steps_that_recur(now, until_s)
            known = sorted([*known, *recur], key=step_order) if known else recur
        if self.foresee is None:
            return known
        steps = self.foresee(known) if known else self.foresee()
        if self.recurring and steps and (last := steps[-1].time_s) > until_s:
            return self.steps(now, last)  # a forecast may see further than that
        return steps

    def _steps_that_recur(self, now: float, until_s: float) -> list[CapacityStep]:
        """Return them in order; a plan asks for the same time again and again."""
        since, until, steps = self._made
        if until != until_s or now < since:
            made = (step for window in self.recurring for step in window.steps(now, until_s))
            steps = sorted(made, key=step_order)
            self._made = (now, until_s, steps)
        return steps[bisect_right(steps, now, key=_TIME) :]


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
        """Rises whenever resources came free, capacities changed or an expected end was corrected:
        anything may fit."""
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
    def expected_ends(self) -> ExpectedEnds:
        """(expected end, rank, allocation) of all that runs, soonest first."""
        outlook = self._outlook
        if outlook.ends is None:
            outlook.ends = ExpectedEnds(self._running)
        return outlook.ends

    @property
    def steps(self) -> Sequence[CapacityStep]:
        """Changes of capacity that are known ahead or foreseen, soonest first.

        Of maintenance that recurs without end, those of the next two periods.
        """
        return self.steps_through(self._outlook.known_until(self.now))

    def steps_through(self, until_s: float) -> Sequence[CapacityStep]:
        """Return the same, with maintenance that recurs shown as far as a time in s."""
        return self._outlook.steps(self.now, until_s)

    def fit(self, task: Task, rule: PlacementRule | None = None) -> Placement | None:
        """Return machines on which the task fits now, or None; `rule` says which come first.

        Looks at what is free at this instant alone; `profile` also sees reservations and
        capacity steps.
        """
        return self.room.fit(task, rule)

    def rejectable(self, task: Task) -> bool:
        """Return whether a task's job may be rejected: it waits, and nothing of it has begun."""
        return self._outlook.rejectable(task)

    def profile(self) -> Profile:
        """Return the free resources over future time, a fresh copy to plan in.

        Running tasks end as expected (overdue ones now); reservations and capacity steps are in.
        """
        reserved, outlook = self.reservations.values(), self._outlook
        profile = make_profile(self.room, self.now, self.expected_ends, self.steps, reserved)
        if outlook.recurring:
            profile.expect(
                self.steps_through, outlook.known_until(self.now), outlook.cycle_s,
                outlook.all_begun,
            )  # fmt: skip
        return profile


def _read_only(amounts: Floats) -> Floats:
    view = amounts.view()
    view.flags.writeable = False
    return view
