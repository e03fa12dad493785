"""A plan: the units of a pool that are free in the steps ahead, in many replicas at once.

Time windows are found without a loop over replicas or steps: the steps ahead that have room for a
task are the bits of one number, and a run of them is found by shifting it over itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep.replicated import Replicated

__all__ = ["Plan", "Small", "small_type"]

Small = npt.NDArray[Any]
"""Whole numbers of two bytes where the dimensions allow it: a quarter of the memory traffic."""
_LARGE: Final = 2**14
"""Two numbers below it add up to one of two bytes."""


def small_type(capacity: Sequence[int], horizon: int) -> type[np.int16 | np.int64]:
    """Return the type that holds twice the amounts and steps of a pool."""
    return np.int16 if max(*capacity, horizon) < _LARGE else np.int64


BITS: Final = 64
"""Steps ahead that one number holds, a bit for each."""
_EXACT: Final = 24
"""Bits that a float32 holds without rounding."""
_POWERS: Final = 2 ** np.arange(_EXACT, dtype=np.float32)


def packed(free: Bools) -> npt.NDArray[np.uint64 | np.uint32]:
    """Return (…, A) numbers whose bit t is set where step t of (T, …, A) is free, T <= BITS.

    A sum of powers of two, as a product of matrices, which takes a tenth of the time of
    `np.packbits` along the first axis.
    """
    steps, shape = len(free), free.shape[1:]
    flat = free.reshape(steps, -1).astype(np.float32)
    low = _POWERS[: min(steps, _EXACT)] @ flat[:_EXACT]
    if steps <= _EXACT:
        return low.astype(np.uint32).reshape(shape)
    bits = low.astype(np.uint64)
    for begin in range(_EXACT, steps, _EXACT):
        part = flat[begin : begin + _EXACT]
        bits |= (_POWERS[: len(part)] @ part).astype(np.uint64) << np.uint64(begin)
    return bits.reshape(shape)


def first_run(bits: npt.NDArray[Any], length: Small) -> Ints:
    """Return (…, A) the place of the first `length` bits in a row that are set; -1: none.

    A bit and its neighbour make a run of two, two such runs one of four, and so on: with each
    doubling a bit that stays set begins a longer run.
    """
    left = length.astype(bits.dtype)
    for _ in range((int(length.max(initial=1)) - 1).bit_length()):
        shift = left >> 1
        bits = bits & (bits >> shift)
        left -= shift
    place = np.bitwise_count((bits & -bits) - 1)  # of the lowest bit that is set
    return np.where((bits > 0) & (length > 0), place, np.int8(-1))


def first_run_of_many(free: Small, length: Small) -> Ints:
    """Return (…, A) the first of `length` steps in a row that are free in (T, …, A); -1: none."""
    run = np.zeros_like(length)  # steps in a row that are free, up to this one
    longest = np.zeros_like(length)
    last = np.zeros_like(length)  # where a run first is as long as the task
    for step in free:
        run += 1
        run *= step
        np.maximum(longest, run, out=longest)
        last += (longest < length).view(np.int8)
    fits = (longest >= length) & (length > 0)
    return np.where(fits, last + 1 - length, -1)


class Plan(Replicated):
    """The plans of A replicas, H steps ahead, for R resources.

    Lengths and sizes may be of any type; those of the plan's own take the least time.
    """

    free: Small
    """(H, R, A) units that are free in each step ahead; the first is the one that begins now."""
    STATE: ClassVar = {"free": None, "_due": 0.0}

    def __init__(
        self, capacity: Sequence[int], horizon: int, replicas: int, usable: int | None = None
    ) -> None:
        """Begin with (R,) units that are free in all steps.

        Args:
            capacity: (R,) at most this many units will ever be there.
            horizon: H.
            replicas: A.
            usable: tasks hold units in the first steps alone, in this many; None: in all.
        """
        self.dtype: npt.DTypeLike = small_type(capacity, horizon)
        self.units: Small = np.array(capacity, self.dtype)[:, None]
        """(R, 1)"""
        self.free = np.empty((horizon, len(capacity), replicas), self.dtype)
        self.free[:] = self.units
        self._due = np.zeros((horizon, replicas))  # a ring: of step t at t modulo the horizon
        self._ahead = np.arange(horizon, dtype=self.dtype)[:, None]
        self._usable = usable or horizon

    def begin(self, rows: Ints, units: Ints | Small) -> None:
        """Begin some plans afresh, with (H, R, K) units that are free."""
        self.clear(rows)
        self.free[..., rows] = units

    def _small(self, numbers: Small) -> Small:
        """Return numbers in the plan's own type; those that are too large for any plan stay so."""
        if numbers.dtype == self.dtype:
            return numbers
        return np.minimum(numbers, _LARGE).astype(self.dtype)

    def earliest(self, length: Small, size: Small, rows: Ints | slice = slice(None)) -> Ints:
        """Return (…, A) the first step ahead at which tasks fit; -1: none, or length 0.

        Args:
            length: (…, A) steps of each task, 0 for none.
            size: (R, …, A) units of each.
            rows: the replicas, if these are some of them.
        """
        room = self._room(self._small(size), rows)
        if len(room) <= BITS:
            return first_run(packed(room), length)
        return first_run_of_many(room.astype(length.dtype), length)

    def _room(self, size: Small, rows: Ints | slice) -> Bools:
        """Return (usable steps, …, A) whether a task could hold each single step."""
        free = self.free[: self._usable, :, rows]
        between = (slice(None), *(None,) * (size.ndim - 2))
        room: Bools = free[:, 0][between] >= size[0]
        for resource in range(1, len(size)):
            np.logical_and(room, free[:, resource][between] >= size[resource], out=room)
        return room

    def hold(self, ahead: Ints, length: Small, size: Small) -> None:
        """Hold (R, A) units from (A,) steps ahead on for (A,) steps; length 0 holds nothing."""
        begin, end = ahead.astype(self.dtype), self._small(length)
        inside = (self._ahead >= begin) & (self._ahead < begin + end)
        # one dtype throughout: mixed ones are slow
        self.free -= inside.astype(self.dtype)[:, None] * self._small(size)

    def shift(self, moved: Bools, last: Ints | Small) -> None:
        """Let a step pass in some replicas; the last one then has (R, A) free units."""
        free, moves = self.free, moved.astype(self.dtype)
        change = free[1:] - free[:-1]  # arithmetic in one dtype is faster than a choice
        change *= moves
        free[:-1] += change
        free[-1] += (self._small(last) - free[-1]) * moves

    def note(self, rows: Ints, step: Ints, weight: Floats | float) -> None:
        """Note weights in some replicas that are due in steps of theirs, less than H ahead."""
        self._due[step % len(self._due), rows] += weight

    def due(self, rows: Ints, now: Ints) -> Floats:
        """Return the weight that is due now in some replicas, and forget it."""
        place = (now % len(self._due), rows)
        weight: Floats = self._due[place]
        self._due[place] = 0.0
        return weight
