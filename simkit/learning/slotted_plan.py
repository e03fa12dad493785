"""The plan of a slotted model: the time grid with all that runs or is reserved in a simulation.

It is kept from decision to decision. As long as the world does what the plan says, only the rows
move and what is placed is added; where anything differs (a task ended early or overran, was killed
or suspended, a reservation failed, capacity changed, somebody else placed a task), the plan is made
anew from what runs and is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import NamedTuple

import numpy as np

from simkit.arrays import Ints
from simkit.learning.slotted import SlottedUnits
from simkit.policy import State
from simkit.policy.task import Task

# MERGED A time grid: what of a pool is held in each of the steps ahead, in whole units.
# MERGED
# MERGED Picture squared paper: a row is a step, the first begins now, and a task is a rectangle as long as
# MERGED it runs and as wide as what it asks for. As time goes on the paper is pulled up by a row.
# MERGED
# MERGED The whole paper is one long integer, a field of some bits for each step and resource: one shift
# MERGED pulls it up, and one addition tries a rectangle at all steps at once, because a field that would
# MERGED hold too much carries into its highest bit, which is free otherwise. Searching so takes a
# MERGED microsecond, a tenth of what it takes cell by cell.


_FIELDS = (np.dtype("<u1"), np.dtype("<u2"), np.dtype("<u4"), np.dtype("<u8"))
_KNOWN_SIZES = 4096  # sizes whose pattern is remembered


class TimeGrid:
    """Units held over the steps ahead, and the earliest steps at which more would fit."""

    __slots__ = ("_bits", "_bytes", "_cells", "_field", "_held", "_highest", "_highest_bits",
                 "_highest_of_row", "_limits", "_occupied", "_patterns",
                 "_row", "_rows", "_shifts", "_shown", "capacity", "horizon")  # fmt: skip

    def __init__(self, capacity: Sequence[int], horizon: int, occupied: Ints | None = None) -> None:
        """Begin with nothing held: (R,) units in all, and a number of steps, H.

        `occupied` is the (H, R) array to show it in, of zeros.
        """
        self.capacity = tuple(capacity)
        """(R,) units in all."""
        self.horizon = horizon
        most = max(self.capacity)
        self._field = next(kind for kind in _FIELDS if most < 1 << 8 * kind.itemsize - 1)
        self._bits = width = 8 * self._field.itemsize  # of a field
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
        self._bytes = horizon * row // 8  # of all fields
        self._patterns: dict[tuple[int, ...], int] = {}

    def _pack(self, amounts: Sequence[int]) -> int:
        """Return (R,) numbers as the fields of a step."""
        return sum([n << shift for n, shift in zip(amounts, self._shifts, strict=True)])

    @property
    def occupied(self) -> Ints:
        """(H, R) units held in each step; the grid's own array, for reading."""
        self.show()
        return self._occupied

    def show(self) -> None:
        """Bring the array `occupied` up to date."""
        held = self._held
        if held != self._shown:
            self._shown = held
            cells = np.frombuffer(held.to_bytes(self._bytes, "little"), self._field)
            self._cells[:] = cells

    def clear(self) -> None:
        """Hold nothing."""
        self._held = 0

    def advance(self, steps: int) -> None:
        """Let time go on: the first rows leave, and as many empty ones come at the end."""
        self._held >>= self._row * min(steps, self.horizon)

    def take(self, start: int, length: int, size: tuple[int, ...]) -> None:
        """Hold (R,) units from a step on, at most all there are.

        What lies behind the last row is left out.
        """
        length = min(length, self.horizon - start)
        if length <= 0:
            return
        steps = self._rows[length] << start * self._row
        if self._too_much(size) & steps * self._highest_of_row:
            self._take_what_is_left(start, length, size)
        else:
            self._held += steps * self._pack(size)

    def _take_what_is_left(self, start: int, length: int, size: Sequence[int]) -> None:
        one = (1 << self._bits) - 1
        for step in range(start, start + length):
            for amount, most, shift in zip(size, self.capacity, self._shifts, strict=True):
                place = step * self._row + shift
                held = self._held >> place & one
                self._held += min(amount, most - held) << place

    def _too_much(self, size: tuple[int, ...]) -> int:
        """Return a grid with the highest bit set in every field that has no room for (R,) units."""
        return self._held + (self._patterns.get(size) or self._pattern(size)) & self._highest

    def _pattern(self, size: tuple[int, ...]) -> int:
        """Return what `_too_much` adds to the grid, and remember it; never 0."""
        if len(self._patterns) >= _KNOWN_SIZES:
            self._patterns.clear()
        # more than there is does not fit anywhere, and one unit more is enough to show it
        asked = [min(n, most + 1) for n, most in zip(size, self.capacity, strict=True)]
        pattern = self._limits + self._rows[-1] * self._pack(asked)
        self._patterns[size] = pattern
        return pattern

    def free_now(self) -> tuple[int, ...]:
        """Return (R,): units that are free in the step that begins now."""
        held, one = self._held, (1 << self._bits) - 1
        pairs = zip(self.capacity, self._shifts, strict=True)
        return tuple([units - (held >> shift & one) for units, shift in pairs])

    def earliest(self, length: int, size: tuple[int, ...], latest: int) -> int:
        """Return the first step at which a rectangle fits beside all that is held; −1: none.

        Args:
            length: steps, at least 1.
            size: (R,) units, as a tuple.
            latest: the last step at which it may begin; `latest` + `length` is at most H.
        """
        return self.starts(length, size, latest)[0]

    def starts(self, length: int, size: tuple[int, ...], latest: int) -> tuple[int, int]:
        """Return the first start, as `earliest` does, and for how many more steps it is known.

        While nothing but time goes on, after k ≤ n more steps the first start is as many steps
        nearer, at least 0; or there is still none.
        """
        if latest < 0:
            return -1, self.horizon
        pattern = self._patterns.get(size) or self._pattern(size)
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


class Piece(NamedTuple):
    """A task as a rectangle of steps and units, as it stands in a slot or is placed."""

    task: Task
    length: int
    """Steps."""
    size: tuple[int, ...]
    """(R,) units."""


class SlottedPlan:
    """What is held in the steps ahead.

    A task that runs past its estimate is expected to end a step on, at every decision. What begins
    or ends amid a step holds that whole step. Capacity that is away counts as held: what is away
    now for good, and changes that are known ahead from their step on.
    """

    def __init__(self, units: SlottedUnits, occupied: Ints | None = None) -> None:
        """Make the plan in an array (H, R), if one is given."""
        self.units = units
        self.grid = TimeGrid(units.model.capacity, units.model.horizon, occupied)
        """What is held; right after `follow`."""
        self.reset()

    def reset(self) -> None:
        """Begin a run; the first `follow` makes the plan."""
        self.grid.clear()
        self.tick = 1
        """Its clock: one more at every step; a number of its own, not that of the simulation."""
        self._now = -inf
        self._starts = self._releases = 0  # the state's counters, as far as they are in the plan
        self._ends: dict[Task, int] = {}  # the tick by which what runs or is reserved ends
        self._ending: dict[int, int] = {}  # how many do so at a tick
        self._reserved: dict[Task, int] = {}  # the tick at which reservations begin
        self._soonest: float = inf  # the first of these
        self._moves = False  # whether rows may be pulled up; else each step has a plan of its own

    def follow(self, state: State, placed: Sequence[Piece] = ()) -> bool:
        """Take in what has happened since the last call, and what has left its slot just now.

        Returns whether the plan was kept: the rows were pulled up to the present `tick`, and what
        was placed was added; nothing else has changed.
        """
        now, tick = state.now, self.tick
        passed = now != self._now
        if not (passed or placed) and self._is_up_to_date(state):
            return True
        if (  # an idle step, the usual case: nothing was to happen in it, and nothing has
            now == self._now + self.units.step_s
            and not placed
            and self._moves
            and tick + 1 not in self._ending
            and tick + 1 < self._soonest
            and self._is_up_to_date(state)
        ):
            self.grid.advance(1)
            self.tick, self._now = tick + 1, now
            return True
        if self._catch_up(state, placed, passed) and self._is_up_to_date(state):
            return True
        self._make(state)
        return False

    def end_of(self, task: Task) -> int:
        """Return the tick by which a task ends that runs or is reserved."""
        return self._ends[task]

    def _is_up_to_date(self, state: State) -> bool:
        if state.releases != self._releases or state.starts != self._starts:
            return False
        mine, theirs = self._reserved, state.reservations
        return not (mine or theirs) or mine.keys() == theirs.keys()

    def _catch_up(self, state: State, placed: Sequence[Piece], passed: bool) -> bool:
        """Keep up with a world that goes as planned; return False as soon as it does not."""
        ending = 0
        began: Sequence[Task] = ()
        if passed:
            steps = (state.now - self._now) / self.units.step_s
            if placed or not self._moves or steps != int(steps):
                return False  # what was placed at an earlier instant began one knows not when
            ending = self._advance(int(steps))
            if self._soonest <= self.tick:
                began = self._fall_due()
            self._now = state.now
        if (ending or state.releases != self._releases) and not self._end(state, ending):
            return False
        for piece in placed:
            start = self._start_of(piece, state)
            if start is None:
                return False
            if not start:
                began = [*began, piece.task]
            self._add(piece, start)
        return (not began and state.starts == self._starts) or self._begin(state, began)

    def _advance(self, steps: int) -> int:
        """Pull the rows up; return how many tasks should end by then."""
        self.grid.advance(steps)
        first, self.tick = self.tick + 1, self.tick + steps
        if steps == 1:
            return self._ending.pop(first, 0)
        last = min(self.tick, first + self.units.model.horizon)
        return sum([self._ending.pop(tick, 0) for tick in range(first, last + 1)])

    def _fall_due(self) -> list[Task]:
        """Return the tasks whose reservations begin by now; they are reserved no longer."""
        due = [task for task, tick in self._reserved.items() if tick <= self.tick]
        for task in due:
            del self._reserved[task]
        self._soonest = min(self._reserved.values(), default=inf)
        return due

    def _reserve(self, task: Task, tick: int) -> None:
        self._reserved[task] = tick
        self._soonest = min(self._soonest, tick)

    def _end(self, state: State, ending: int) -> bool:
        """Let go what has ended; return whether it is what should have, and no more."""
        released, self._releases = state.releases - self._releases, state.releases
        if released != ending or released > len(state.ended):
            return False
        ends, tick = self._ends, self.tick
        for allocation in state.ended[-released:]:
            if ends.pop(allocation.task, None) != tick:
                return False
        return True

    def _begin(self, state: State, began: Sequence[Task]) -> bool:
        """Return whether what has begun is what should have, and no more."""
        started, self._starts = state.starts - self._starts, state.starts
        if started != len(began):
            return False
        newest = state.running.newest()
        if started == 1:
            return next(newest).task is began[0]
        return {allocation.task for allocation in islice(newest, started)} == set(began)

    def _start_of(self, piece: Piece, state: State) -> int | None:
        """Return how many steps ahead a task begins; None if the plan cannot be kept with it."""
        place, start = state.reservations.get(piece.task), 0
        if place is not None:
            ahead = (place.start_s - state.now) / self.units.step_s
            start = int(ahead)
            if start != ahead:
                return None
            self._reserve(piece.task, self.tick + start)
        return start if start + piece.length <= self.units.model.horizon else None

    def _add(self, piece: Piece, start: int) -> None:
        self.grid.take(start, piece.length, piece.size)
        end = self.tick + start + piece.length
        self._ends[piece.task] = end
        self._ending[end] = self._ending.get(end, 0) + 1

    def _make(self, state: State) -> None:
        """Make the plan anew."""
        units, horizon = self.units, self.units.model.horizon
        self.grid.clear()
        self._ends.clear()
        self._ending.clear()
        self._now, self._starts, self._releases = state.now, state.starts, state.releases
        self._moves = not self._take_lost_capacity(state)
        for allocation in state.running:
            length = max(units.steps(allocation.expected_end_s - state.now), 1)
            self._moves &= length <= horizon
            self._add(Piece(allocation.task, length, units.units(allocation.held)), 0)
        self._reserved, self._soonest = {}, inf
        for task, place in state.reservations.items():
            ahead = max(place.start_s - state.now, 0.0)
            start = int(ahead // units.step_s)
            length = max(units.steps(ahead + task.estimate_s), start + 1) - start
            self._moves &= start + length <= horizon
            self._add(Piece(task, length, units.size(task)), start)
            self._reserve(task, self.tick + units.steps(ahead))

    def _take_lost_capacity(self, state: State) -> bool:
        """Hold what the pool lacks, now and from known steps on; return whether it lacks any."""
        units, model = self.units, self.units.model
        nominal = [c * u for c, u in zip(model.capacity, units.unit, strict=True)]
        has = state.room.capacity[0].tolist()
        foreseen = [step for step in state.steps if step.time_s > state.now]
        if not foreseen and all(h >= n for h, n in zip(has, nominal, strict=True)):
            return state.power is not None  # which may foresee something else at the next decision
        starts = [0, *(int((step.time_s - state.now) // units.step_s) for step in foreseen)]
        changes = [[0.0] * model.resources, *(step.change for step in foreseen)]
        ends = [*starts[1:], model.horizon]
        for start, end, change in zip(starts, ends, changes, strict=True):
            has = [h + c for h, c in zip(has, change, strict=True)]
            lost = [max(n - h, 0.0) for n, h in zip(nominal, has, strict=True)]
            if start < min(end, model.horizon):
                self.grid.take(start, min(end, model.horizon) - start, units.units(lost))
        return True
