"""The slotted model, as DeepRM's: time in steps, amounts in units, and the plan of what is held.

An agent sees one pool of machines: some waiting tasks in numbered slots, and the pool's occupancy
over the steps ahead. The same arrays describe one simulation (`SlottedTracker`) or many replicas
that advance together, with a leading axis.

Picture the plan as squared paper: a row is a step, the first begins now, and a task is a rectangle
as long as its run time and as wide as its request. As time goes on the paper moves up by a row. The
whole paper is one long integer, with a field of some bits for each step and resource. One shift
moves it up, and one addition tries a rectangle at all steps at once, because a field that would
hold too much carries into its highest bit, which is otherwise free. Such a search takes about a
microsecond, a tenth of the time of a search cell by cell.

The plan is kept from decision to decision. As long as the simulation goes as planned, rows move up
and placed tasks are added. If anything differs (a task ended early or overran, was killed or
suspended, a reservation failed, capacity changed, someone else placed a task), the plan is rebuilt
from what runs and is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, floor, inf
from typing import NamedTuple

import numpy as np

from simkit.arrays import Ints
from simkit.errors import ScenarioError
from simkit.policy import State, SystemInfo
from simkit.policy.task import Task
from simkit.units import ENDLESS_S, time_on_grid


@dataclass(frozen=True)
class Slotted:
    """The dimensions of a slotted model; DeepRM's by default."""

    capacity: tuple[int, ...] = (10, 10)
    """(R,) units of each resource."""
    slots: int = 10
    """M: waiting tasks that are visible."""
    horizon: int = 20
    """H: steps ahead that are planned."""
    max_length: int = 15
    """Steps of the longest task: the scale of lengths."""
    backlog: int | None = 60
    """Tasks that may wait for a slot; further tasks are rejected; None: no limit."""
    backlog_shown: int = 60
    """Tasks behind the slots that an observation can count."""
    memory: int = 10
    """The steps since the last arrival are counted up to this number."""
    step_s: float = 1.0
    """Seconds of a step."""
    unit: tuple[float, ...] = ()
    """(R,) amount of each resource in a unit; empty: 1 of each."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for dimensions that are not positive."""
        wrong = [
            f"{name} is {getattr(self, name)}; it must be at least 1"
            for name in ("slots", "horizon", "max_length", "backlog_shown", "memory")
            if getattr(self, name) < 1
        ]
        if not self.capacity or min(self.capacity) < 1:
            wrong.append(
                f"capacity is {self.capacity}; it must be at least 1 unit of each resource"
            )
        if self.backlog is not None and self.backlog < 0:
            wrong.append(f"backlog is {self.backlog}; it must be at least 0")
        if not self.step_s > 0:
            wrong.append(f"step_s is {self.step_s:g}; it must be positive")
        if wrong:
            raise ScenarioError([f"slotted model: {text}" for text in wrong])

    @property
    def resources(self) -> int:
        """R: the number of resources."""
        return len(self.capacity)

    @property
    def actions(self) -> int:
        """M + 1: one for each slot, and the void action, which lets time go on."""
        return self.slots + 1

    @property
    def backlog_columns(self) -> int:
        """Columns of H cells that show the backlog."""
        return -(-self.backlog_shown // self.horizon)

    def latest_start(self, length: int) -> int:
        """Return the last step ahead at which a task of this length may begin.

        One step less than would fit in the horizon, as in the original code of DeepRM.
        """
        return self.horizon - length - 1


@dataclass(frozen=True)
class SlottedView:
    """What an agent sees at a decision; every array may have leading axes, e.g. replicas."""

    occupied: Ints
    """(…, H, R) units held in each of the steps ahead; the first is the one that begins now."""
    length: Ints
    """(…, M) steps that the task in each slot takes; 0: the slot is empty."""
    size: Ints
    """(…, M, R) units that it requests."""
    backlog: Ints
    """(…) tasks behind the slots."""
    since_arrival: Ints
    """(…) steps since a job last arrived, at most `Slotted.memory`, which it is at the start."""
    packed: Ints | None = None
    """(…, K) all of these in one array, if they are parts of one: the steps ahead, then the length
    and size of each slot, the backlog, and the steps since an arrival."""


def packed_view(model: Slotted) -> SlottedView:
    """Return a view of zeros without leading axes, its arrays parts of `SlottedView.packed`."""
    steps, slots, count = model.horizon, model.slots, model.resources
    cells = steps * count
    packed = np.zeros(cells + slots * (1 + count) + 2, np.int64)
    shapes = packed[cells:-2].reshape(slots, 1 + count)
    return SlottedView(
        occupied=packed[:cells].reshape(steps, count),
        length=shapes[:, 0],
        size=shapes[:, 1:],
        backlog=packed[-2:-1].reshape(()),
        since_arrival=packed[-1:].reshape(()),
        packed=packed,
    )


_NOISE = 1e-6  # of a step or a unit: rounding errors of a quotient


def whole_units(amounts: Sequence[float], unit: Sequence[float]) -> tuple[int, ...]:
    """Return (R,) the whole units that (R,) amounts hold, rounded down."""
    return tuple([floor(a / u + _NOISE) for a, u in zip(amounts, unit, strict=True)])


class SlottedUnits:
    """Turns the engine's seconds and amounts into steps and units.

    Both are rounded up, so that a task that fits in steps and units fits in seconds and amounts.
    """

    def __init__(self, model: Slotted) -> None:
        self.model = model
        self.step_s = float(time_on_grid(model.step_s))
        """Seconds of a step, on the grid of times."""
        self.unit = model.unit or (1.0,) * model.resources
        """(R,) amount of each resource in a unit."""

    def steps(self, seconds: float) -> int:
        """Return the steps that a time takes, rounded up; very many if it is endless."""
        return ceil(min(seconds, ENDLESS_S) / self.step_s - _NOISE)

    def steps_passed(self, seconds: float) -> int:
        """Return the whole steps that have passed in a time."""
        return floor(seconds / self.step_s + _NOISE)

    def units(self, amounts: Sequence[float]) -> tuple[int, ...]:
        """Return (R,): the units that hold (R,) amounts, rounded up."""
        return tuple([ceil(a / u - _NOISE) for a, u in zip(amounts, self.unit, strict=True)])

    def length(self, task: Task) -> int:
        """Return the steps of a task's estimated run time, at least 1."""
        return max(self.steps(task.estimate_s), 1)

    def size(self, task: Task) -> tuple[int, ...]:
        """Return (R,): the units of all instances of a task that are not placed yet."""
        if task.remaining == task.instances:
            return self.units(task.demand)
        return self.units([amount * task.remaining for amount in task.request])

    def check(self, info: SystemInfo) -> None:
        """Raise ScenarioError if a cluster is not the model's pool."""
        model, problems = self.model, []
        machines = len(info.machine_names)
        if machines != 1:
            problems.append(
                f"the cluster has {machines} machines; a slotted model needs one, a pool: "
                "cluster: {machines: [{count: 1, …}]}"
            )
        if len(info.resources) != model.resources:
            problems.append(
                f"the cluster has the resources {', '.join(info.resources)}, but the model's "
                f"capacity {model.capacity} has {model.resources}; give one number for each"
            )
        elif machines == 1:
            has = whole_units(info.capacity[0].tolist(), self.unit)
            problems += [
                f"the cluster has {got} units of {name}, but the model's capacity is {want}; make "
                "them equal, or set the model's unit"
                for name, got, want in zip(info.resources, has, model.capacity, strict=True)
                if got != want
            ]
        if problems:
            raise ScenarioError([f"slotted model: {text}" for text in problems])


_FIELDS = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<u8"))
_KNOWN_SIZES = 4096  # sizes whose pattern is remembered


class TimeGrid:
    """Units held over the steps ahead, and the earliest steps at which more would fit."""

    __slots__ = ("_bits", "_bytes", "_cells", "_fields", "_held", "_highest", "_highest_bits",
                 "_highest_of_row", "_limits", "_occupied", "_patterns",
                 "_row", "_rows", "_shifts", "_shown", "capacity", "horizon")  # fmt: skip

    def __init__(self, capacity: Sequence[int], horizon: int, occupied: Ints | None = None) -> None:
        """Begin with nothing held.

        Args:
            capacity: (R,) units in all.
            horizon: H, the number of steps.
            occupied: (H, R) zeros, the array for `occupied`; None makes one.
        """
        self.capacity = tuple(capacity)
        """(R,) units in all."""
        self.horizon = horizon
        most = max(self.capacity)
        field = next(kind for kind in _FIELDS if most < 1 << 8 * kind.itemsize - 1)
        self._bits = width = 8 * field.itemsize  # of a field
        self._row = row = width * len(self.capacity)  # bits of a step
        # n ones, a step apart: times a step's fields, these in the first n steps
        self._rows = [sum(1 << step * row for step in range(n)) for n in range(horizon + 1)]
        self._shifts = range(0, row, width)  # of the resources in a step
        self._highest_bits = [shift + width - 1 for shift in self._shifts]
        every = self._rows[horizon]
        high = 1 << width - 1
        self._highest_of_row = self._pack([high] * len(self.capacity))
        self._highest = every * self._highest_of_row
        # added to what is held, it reaches a field's highest bit if that is more than there is
        self._limits = every * self._pack([high - 1 - units for units in self.capacity])
        self._held = self._shown = 0
        shape = horizon, len(self.capacity)
        self._occupied: Ints = np.zeros(shape, np.int64) if occupied is None else occupied
        self._cells = self._occupied.reshape(-1)  # the same
        self._fields = np.zeros(len(self._cells), field)
        self._bytes = self._fields.view(np.uint8).data  # the same, for a number's bytes
        self._patterns: dict[tuple[int, ...], tuple[int, int]] = {}

    def _pack(self, amounts: Sequence[int]) -> int:
        """Return (R,) numbers as the fields of a step."""
        return sum([n << shift for n, shift in zip(amounts, self._shifts, strict=True)])

    @property
    def occupied(self) -> Ints:
        """(H, R) units held in each step; the grid's own array, for reading."""
        self.show()
        return self._occupied

    def show(self) -> None:
        """Update the array `occupied`."""
        held = self._held
        if held != self._shown:
            self._shown = held
            self._bytes[:] = held.to_bytes(len(self._bytes), "little")
            self._cells[:] = self._fields

    def clear(self) -> None:
        """Hold nothing."""
        self._held = 0

    def advance(self, steps: int) -> None:
        """Let time go on: the first rows leave, and as many empty rows are added at the end."""
        self._held >>= self._row * steps

    def take(self, start: int, length: int, size: tuple[int, ...]) -> None:
        """Hold (R,) units from a step on, at most the capacity; ignore steps past the horizon."""
        length = min(length, self.horizon - start)
        if length <= 0:
            return
        pattern, fields = self._patterns.get(size) or self._pattern(size)
        steps = self._rows[length] << start * self._row
        if self._held + pattern & steps * self._highest_of_row:
            self._take_what_is_left(start, length, size)
        else:
            self._held += steps * fields

    def _take_what_is_left(self, start: int, length: int, size: Sequence[int]) -> None:
        one = (1 << self._bits) - 1
        for step in range(start, start + length):
            for amount, most, shift in zip(size, self.capacity, self._shifts, strict=True):
                place = step * self._row + shift
                held = self._held >> place & one
                self._held += min(amount, most - held) << place

    def _pattern(self, size: tuple[int, ...]) -> tuple[int, int]:
        """Return (pattern, fields) of (R,) units, and remember them.

        Pattern + what is held has the highest bit set in every field without room for the units;
        the fields are those of a step that holds them.
        """
        if len(self._patterns) >= _KNOWN_SIZES:
            self._patterns.clear()
        # capacity + 1 stands for everything above it, which does not fit anywhere
        asked = [min(n, most + 1) for n, most in zip(size, self.capacity, strict=True)]
        fields = self._pack(asked)
        pattern = self._patterns[size] = self._limits + self._rows[-1] * fields, fields
        return pattern

    def free_now(self) -> tuple[int, ...]:
        """Return (R,): units that are free in the step that begins now."""
        held, one = self._held, (1 << self._bits) - 1
        pairs = zip(self.capacity, self._shifts, strict=True)
        return tuple([units - (held >> shift & one) for units, shift in pairs])

    def earliest(self, length: int, size: tuple[int, ...], latest: int) -> int:
        """Return the first step at which a task fits next to all that is held; −1: none.

        Args:
            length: steps, at least 1.
            size: (R,) units, as a tuple.
            latest: the last step at which it may begin; `latest` + `length` is at most H.
        """
        return self.starts(length, size, latest)[0]

    def starts(self, length: int, size: tuple[int, ...], latest: int) -> tuple[int, int]:
        """Return the first start, as `earliest` does, and for how many more steps, n, it is known.

        While only time goes on, after k ≤ n more steps the first start is k steps nearer, but at
        least 0; or there is still none.
        """
        if latest < 0:
            return -1, self.horizon
        pattern, _ = self._patterns.get(size) or self._pattern(size)
        full = self._held + pattern & self._highest
        if not full:
            return 0, latest
        row, every, blocked = self._row, self._rows[-1], 0
        for shift in self._highest_bits:
            blocked |= full >> shift
        blocked &= every
        free, run = blocked ^ every, 1  # a bit for every step
        while free and 2 * run <= length:  # first steps of `run` free ones → of twice as many
            free &= free >> run * row
            run *= 2
        free &= free >> (length - run) * row
        free &= self._rows[latest + 1]
        if not free:  # nor before the last that is in the way now has gone by
            in_the_way = blocked & self._rows[latest + length]
            return -1, (in_the_way.bit_length() - 1) // row - latest
        first = (free & -free).bit_length() - 1
        gap = ~(free >> first) & every
        first //= row
        return first, first - 1 + ((gap & -gap).bit_length() - 1) // row


class SlottedTask(NamedTuple):
    """A task in steps and units, as it is in a slot or is placed."""

    task: Task
    length: int
    """Steps."""
    size: tuple[int, ...]
    """(R,) units."""


class SlottedPlan:
    """What is held in the steps ahead.

    A task that runs past its estimate is expected to end a step later, at every decision. A task
    that begins or ends within a step holds the whole step. Missing capacity counts as held: what is
    missing now for all steps, and known changes from their step on.
    """

    def __init__(self, units: SlottedUnits, occupied: Ints | None = None) -> None:
        """Make an empty plan; `occupied` is an (H, R) array to show it in."""
        self.units = units
        self.grid = TimeGrid(units.model.capacity, units.model.horizon, occupied)
        """What is held; right after `follow`."""
        self.reset()

    def reset(self) -> None:
        """Begin a run; the first `follow` makes the plan."""
        self.grid.clear()
        self.tick = 1
        """The plan's clock, which counts its steps."""
        self._now = -inf
        self._starts = self._releases = 0  # the state's counters, as far as they are in the plan
        self._ending: dict[int, set[Task]] = {}  # what runs or is reserved, by the tick of its end
        self._beginning: dict[int, set[Task]] = {}  # what is reserved, by the tick of its begin
        self._reserved: set[Task] = set()  # the same
        self._moves = False  # whether rows may be pulled up; else each step has a separate plan

    def follow(
        self, state: State, placed: Sequence[SlottedTask] = ()
    ) -> Sequence[tuple[int, int]] | None:
        """Follow what has happened since the last call; `placed` are tasks that just left slots.

        Returns the ticks (begin, end) of each of them: the plan was kept, its rows were moved up to
        the present `tick`, these were added, and nothing else has changed. None: it was made anew.
        """
        if not placed and self._is_up_to_date(state):  # the usual case: nothing has happened
            if state.now == self._now:
                return ()
            if (
                state.now == self._now + self.units.step_s
                and self._moves
                and self.tick + 1 not in self._ending
                and self.tick + 1 not in self._beginning
            ):
                self.grid.advance(1)
                self.tick, self._now = self.tick + 1, state.now
                return ()
        spans = self._catch_up(state, placed)
        if spans is None:
            self._make(state)
        return spans

    def _is_up_to_date(self, state: State) -> bool:
        if state.releases != self._releases or state.starts != self._starts:
            return False
        return self._reserved == state.reservations.keys()

    def _catch_up(
        self, state: State, placed: Sequence[SlottedTask]
    ) -> Sequence[tuple[int, int]] | None:
        """Update the plan if all went as planned; else return None."""
        ended: set[Task] = set()
        began: set[Task] = set()
        if state.now != self._now:
            steps = (state.now - self._now) / self.units.step_s
            if placed or not self._moves or steps != int(steps):
                return None  # tasks placed at an earlier instant began at an unknown time
            self._now = state.now
            self.grid.advance(int(steps))
            for _ in range(min(int(steps), self.units.model.horizon + 1)):
                self.tick += 1
                ended |= self._ending.pop(self.tick, ended)
                began |= self._beginning.pop(self.tick, began)
            self._reserved -= began
        spans = []
        for piece in placed:
            start = self._start_of(piece, state)
            spans.append(self._add(piece, start))
            if not start:
                began.add(piece.task)
            if start + piece.length > self.units.model.horizon:
                return None
        return spans if self._went_so(state, ended, began) else None

    def _went_so(self, state: State, ended: set[Task], began: set[Task]) -> bool:
        """Return whether exactly these tasks have ended and begun, and all reservations stand."""
        self._releases += len(ended)
        self._starts += len(began)
        newest = islice(state.running.newest(), len(began))
        return (
            self._is_up_to_date(state)
            and (not ended or {each.task for each in state.ended[-len(ended) :]} == ended)
            and (not began or {each.task for each in newest} == began)
        )

    def _start_of(self, piece: SlottedTask, state: State) -> int:
        """Return how many steps ahead a placed task begins; beyond the horizon if between steps."""
        place = state.reservations.get(piece.task)
        if place is None:
            return 0
        ahead = (place.start_s - state.now) / self.units.step_s
        start = int(ahead) if ahead == int(ahead) else self.units.model.horizon
        self._reserve(piece.task, self.tick + start)
        return start

    def _reserve(self, task: Task, tick: int) -> None:
        self._reserved.add(task)
        self._beginning.setdefault(tick, set()).add(task)

    def _add(self, piece: SlottedTask, start: int) -> tuple[int, int]:
        """Take the place of a task that begins some steps ahead; return its begin and end."""
        self.grid.take(start, piece.length, piece.size)
        begin = self.tick + start
        self._ending.setdefault(begin + piece.length, set()).add(piece.task)
        return begin, begin + piece.length

    def _make(self, state: State) -> None:
        """Rebuild the plan from what runs and is reserved."""
        units, horizon = self.units, self.units.model.horizon
        self.grid.clear()
        for each in (self._ending, self._beginning, self._reserved):
            each.clear()
        self._now, self._starts, self._releases = state.now, state.starts, state.releases
        self._moves = not self._take_lost_capacity(state)
        for allocation in state.running:
            length = max(units.steps(allocation.expected_end_s - state.now), 1)
            self._moves &= length <= horizon
            self._add(SlottedTask(allocation.task, length, units.units(allocation.held)), 0)
        for task, place in state.reservations.items():
            ahead = max(place.start_s - state.now, 0.0)
            start = int(ahead // units.step_s)
            length = max(units.steps(ahead + task.estimate_s), start + 1) - start
            self._moves &= start + length <= horizon
            self._add(SlottedTask(task, length, units.size(task)), start)
            self._reserve(task, self.tick + units.steps(ahead))

    def _take_lost_capacity(self, state: State) -> bool:
        """Hold the capacity that is or will be missing; return whether the plan depends on it."""
        units, model = self.units, self.units.model
        nominal = [c * u for c, u in zip(model.capacity, units.unit, strict=True)]
        has = state.room.capacity[0].tolist()
        known = state.steps_through(state.now + model.horizon * units.step_s)
        foreseen = [step for step in known if step.time_s > state.now]
        if not foreseen and all(h >= n for h, n in zip(has, nominal, strict=True)):
            return state.power is not None  # its forecast may change until the next decision
        starts = [0, *(int((step.time_s - state.now) // units.step_s) for step in foreseen)]
        changes = [[0.0] * model.resources, *(step.change for step in foreseen)]
        ends = [*starts[1:], model.horizon]
        for start, end, change in zip(starts, ends, changes, strict=True):
            has = [h + c for h, c in zip(has, change, strict=True)]
            lost = [max(n - h, 0.0) for n, h in zip(nominal, has, strict=True)]
            if start < min(end, model.horizon):
                self.grid.take(start, min(end, model.horizon) - start, units.units(lost))
        return True
