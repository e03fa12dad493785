"""The state of the system as a policy sees it: tasks, machines, what runs, the site's power."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter
from typing import Any, Literal, Protocol, cast

from simkit.arrays import Floats
from simkit.policy.profile import Profile, make_profile
from simkit.policy.queue import TaskQueue
from simkit.policy.room import MachineRoom, PlacementRule, PoolRoom, Room
from simkit.policy.task import (
    Allocation,
    EndsByMachine,
    EndsOfMachine,
    ExpectedEnds,
    Placement,
    Reservation,
    Task,
)
from simkit.workload.cluster import (
    CapacityStep,
    Maintenance,
    Partition,
    cycle_s,
    step_order,
)

Foreseen = Literal["generation", "available", "price", "carbon"]
"""generation: of all sources, W. available: what machines may draw, W: sources, grid and battery
less critical load, over PUE, as if all machines were busy. price: per kWh. carbon: g/kWh."""


class PowerState(Protocol):
    """The site at a decision instant; read-only."""

    @property
    def generation_w(self) -> float:
        """What all sources give now."""

    @property
    def load_w(self) -> float:
        """What the site draws now, with critical load and PUE."""

    @property
    def machines_w(self) -> float:
        """What machines draw of it, without PUE and critical load."""

    @property
    def available_w(self) -> float:
        """What machines may draw now; infinite with an unlimited grid."""

    @property
    def price_per_kwh(self) -> float:
        """The grid's price now."""

    @property
    def carbon_gco2_per_kwh(self) -> float:
        """The grid's carbon intensity now."""

    @property
    def soc(self) -> float:
        """State of charge of the battery, 0..1; 0 without one."""

    @property
    def horizon_s(self) -> float:
        """How far the forecast reaches; 0 without one."""

    @property
    def step_s(self) -> float:
        """Length of a forecast's step."""

    def forecast(self, what: Foreseen, start_s: float | None = None) -> Floats:
        """Return (horizon / step,) the means expected of the steps from now on.

        With `start_s`, an instant up to now in s, the forecast is the one issued then, so that
        steps may lie on the clock. Asked again at the same instant it is the same. Raises
        PolicyError if the scenario has no forecast, or none of this, or for a start after now.
        """

    def power_of(self, task: Task) -> float:
        """Return what a task adds to the site's load when all its instances run, in W, with PUE."""

    def machine_power_of(self, task: Task) -> float:
        """Return what a task adds to `machines_w` when all its instances run, in W."""

    def machines_within(self, site_w: float) -> float:
        """Return what machines may draw so that the site draws `site_w` in all, in W; at least 0.

        It is what critical load, as it is now, and the PUE leave.
        """


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
        self.ends: ExpectedEnds | EndsByMachine | None = None
        """What ends when, kept up to date from when it is first asked for."""
        self.rejectable: Callable[[Task], bool] = lambda _task: False
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
        "_pools",
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
        self._pools: dict[int, State] = {}

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
        ends = self._outlook.ends
        if isinstance(ends, ExpectedEnds):
            return ends
        if ends is None:
            self._outlook.ends = ends = ExpectedEnds(self._running)
            return ends
        return ends.all()

    def _ends_of(self, machine: int) -> EndsOfMachine:
        """Return the same of one of several machines on which nothing runs that holds another."""
        outlook = self._outlook
        if not isinstance(outlook.ends, EndsByMachine):
            outlook.ends = EndsByMachine(self._running, outlook.ends)
        return outlook.ends.of(machine)

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
        """Return the free resources over future time, a fresh profile to plan in.

        Running tasks end as expected (overdue ones now); reservations and capacity steps are in.
        """
        reserved = self.reservations.values()
        profile = make_profile(self.room, self.now, self.expected_ends, self.steps, reserved)
        self._let_recur(profile, self.steps_through)
        return profile

    def _let_recur(
        self, profile: Profile, ahead: Callable[[float], Sequence[CapacityStep]]
    ) -> None:
        """Have a profile expect, of `ahead`, the maintenance that recurs without end."""
        if (outlook := self._outlook).recurring:
            known = outlook.known_until(self.now)
            profile.expect(ahead, known, outlook.cycle_s, outlook.all_begun)

    def pool(self, machine: int) -> State:
        """Return the state of one of several machines as that of a cluster of its own.

        Its tasks must run nowhere else. Its queue, its arrivals and its limits are still those of
        the whole system. `starts` and `releases` count what happens on this machine alone.
        """
        if (pool := self._pools.get(machine)) is None:
            pool = self._pools[machine] = cast("State", PoolState(self, machine))
        return pool


class PoolState:
    """See `State.pool`; what is not here is that of the whole system."""

    __slots__ = ("_ends", "_machine", "_room", "_whole", "info", "queue")

    def __init__(self, whole: State, machine: int) -> None:
        info, room = whole.info, whole.room
        assert isinstance(room, MachineRoom)
        self._whole, self._machine = whole, machine
        self._room, self._ends = room, whole._ends_of(machine)
        rows = slice(machine, machine + 1)
        self.info = replace(
            info, machine_names=info.machine_names[rows], capacity=info.capacity[rows]
        )
        self.queue = whole.queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    @property
    def now(self) -> float:
        return self._whole.now

    @property
    def constrained(self) -> bool:
        return self._whole.constrained

    @property
    def room(self) -> PoolRoom:
        return self._room.machine(self._machine)

    @property
    def starts(self) -> int:
        return self._ends.added

    @property
    def releases(self) -> int:
        return self._ends.removed + self._room.changes

    @property
    def ended(self) -> list[Allocation]:
        return self._mine(self._whole.ended)

    @property
    def running(self) -> list[Allocation]:
        return self._mine(self._whole.running)

    @property
    def suspended(self) -> list[Allocation]:
        return self._mine(self._whole.suspended)

    def _mine(self, allocations: Iterable[Allocation]) -> list[Allocation]:
        return [allocation for allocation in allocations if allocation.on[0][0] == self._machine]

    @property
    def reservations(self) -> dict[Task, Reservation]:
        of_all, machine = self._whole.reservations, self._machine
        return {task: place for task, place in of_all.items() if place.on[0][0] == machine}

    @property
    def expected_ends(self) -> ExpectedEnds:
        return self._ends

    @property
    def free(self) -> Floats:
        return _read_only(self._whole.room.free()[self._machine : self._machine + 1])

    @property
    def capacity(self) -> Floats:
        return _read_only(self._whole.room.capacity[self._machine : self._machine + 1])

    @property
    def steps(self) -> Sequence[CapacityStep]:
        return self._of_machine(self._whole.steps)

    def steps_through(self, until_s: float) -> Sequence[CapacityStep]:
        return self._of_machine(self._whole.steps_through(until_s))

    def _of_machine(self, steps: Iterable[CapacityStep]) -> Sequence[CapacityStep]:
        return [step for step in steps if step.machine == self._machine]

    def fit(self, task: Task, rule: PlacementRule | None = None) -> Placement | None:
        return self.room.fit(task, rule)

    def profile(self) -> Profile:
        reserved = self.reservations.values()
        profile = make_profile(self.room, self.now, self._ends, self.steps, reserved)
        self._whole._let_recur(profile, self.steps_through)
        return profile


def _read_only(amounts: Floats) -> Floats:
    view = amounts.view()
    view.flags.writeable = False
    return view
