"""A time grid: the units of a pool that are held in each of the steps ahead.

Picture squared paper: a row is a step, the first begins now, and a task is a rectangle as long as
its run time and as wide as its request. As time goes on the paper moves up by a row.

The whole paper is one long integer, with a field of some bits for each step and resource. One shift
moves it up, and one addition tries a rectangle at all steps at once, because a field that would
hold too much carries into its highest bit, which is otherwise free. Such a search takes about a
microsecond, a tenth of the time of a search cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.arrays import Ints

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
