"""The state of many replicas: the occupancy of their pools, their slots and their backlogs.

Time windows are found without a loop over replicas or steps: the steps ahead that have room for a
task are the bits of one number, and a run of them is found by shifting it over itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.agent.slotted import Slotted
from simkit.arrays import Bools, Floats, Ints

Small = npt.NDArray[Any]
"""Whole numbers of two bytes where the dimensions allow it: a quarter of the memory traffic."""


def small_type(model: Slotted) -> type[np.int16 | np.int64]:
    """Return the type that holds twice the amounts and steps of a model."""
    return np.int16 if max(*model.capacity, model.horizon) < 2**14 else np.int64


BITS = 64
"""Steps ahead that one number holds, a bit for each."""
_EXACT = 24
"""Bits that a float32 holds without rounding."""
_POWERS = 2 ** np.arange(_EXACT, dtype=np.float32)


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


class ReplicaGrid:
    """Units held in the steps ahead, for A replicas; the last axis of all arrays."""

    occupied: Small
    """(H, R, A) units held in each step ahead; the first is the one that begins now."""
    last_finish: Ints
    """(A,) step before which everything placed has ended."""

    def __init__(self, model: Slotted, replicas: int) -> None:
        self.dtype: npt.DTypeLike = small_type(model)
        small = self.dtype
        self.occupied = np.zeros((model.horizon, model.resources, replicas), small)
        self.last_finish = np.zeros(replicas, np.int64)
        # A ring over time: what leaves the system at step t is at t modulo the horizon.
        self._leaving = np.zeros((model.horizon, replicas))
        self._capacity = np.array(model.capacity, small)
        self._ahead = np.arange(model.horizon, dtype=small)[:, None]
        # A task of length n may start up to step latest_start(n), so none holds a step beyond the
        # one that a task of length 1 may start in.
        self._usable = model.latest_start(1) + 1

    def earliest(self, length: Small, size: Small, rows: Ints | slice = slice(None)) -> Ints:
        """Return (…, A) the first step ahead at which tasks fit; -1: none, or length 0.

        Args:
            length: (…, A) steps of each task, 0 for none.
            size: (R, …, A) units of each.
            rows: the replicas, if these are some of them.
        """
        free = self._room(size, rows)
        if len(free) <= BITS:
            return first_run(packed(free), length)
        return first_run_of_many(free.astype(self.dtype), length)

    def _room(self, size: Small, rows: Ints | slice) -> Bools:
        """Return (usable steps, …, A) whether a task could hold each single step."""
        grid = self.occupied[: self._usable, :, rows]
        between = (slice(None), *(None,) * (size.ndim - 2))
        free: Bools | None = None
        for resource, capacity in enumerate(self._capacity):
            fits = grid[:, resource][between] <= capacity - size[resource]
            free = fits if free is None else np.logical_and(free, fits, out=free)
        assert free is not None  # a model has a resource
        return free

    def hold(self, ahead: Ints, length: Small, size: Small) -> None:
        """Hold (R, A) units from (A,) steps ahead on for (A,) steps; length 0 holds nothing."""
        begin: Small = ahead.astype(self.dtype)
        inside = (self._ahead >= begin) & (self._ahead < begin + length)
        # one dtype throughout: mixed ones are slow
        self.occupied += inside.astype(self.dtype)[:, None] * size

    def leave_at(self, rows: Ints, finish: Ints, weight: Floats) -> None:
        """Record that jobs of these weights leave some replicas when step `finish` begins."""
        self._leaving[finish % len(self._leaving), rows] += weight
        self.last_finish[rows] = np.maximum(self.last_finish[rows], finish)

    def shift(self, moved: Bools) -> None:
        """Let a step pass in some replicas: what was one step ahead begins now."""
        grid, moves = self.occupied, moved.astype(self.dtype)
        change = grid[1:] - grid[:-1]  # arithmetic in one dtype is faster than a choice
        change *= moves
        grid[:-1] += change
        grid[-1] *= 1 - moves

    def leaving(self, rows: Ints, now: Ints) -> Floats:
        """Return the weight of the jobs that leave some replicas now, and reset it."""
        place = (now % len(self._leaving), rows)
        weight: Floats = self._leaving[place]
        self._leaving[place] = 0.0
        return weight

    def clear(self, rows: Ints) -> None:
        """Empty the pools of some replicas."""
        self.occupied[:, :, rows] = 0
        self._leaving[:, rows] = 0.0
        self.last_finish[rows] = 0

    def keep(self, kept: Bools) -> None:
        """Keep only the state of some replicas."""
        rows = np.flatnonzero(kept)
        for name in ("occupied", "last_finish", "_leaving"):
            setattr(self, name, getattr(self, name).take(rows, axis=-1))


class ReplicaSlots:
    """Waiting jobs of A replicas; the last axis of all arrays.

    A job goes to the lowest free slot; if all slots are taken, behind the others to the backlog; if
    that is full, it is rejected. A slot that becomes free takes the head of the backlog at once, so
    a free slot means an empty backlog. One more row, for the void action, never holds a job.
    """

    job: Ints
    """(M + 1, A) number of the job in each slot; -1: none."""
    length: Small
    """(M + 1, A) its steps; 0: the slot is empty."""
    size: Small
    """(R, M + 1, A) its units."""
    backlog: Ints
    """(A,) jobs behind the slots."""
    waiting: Ints
    """(A,) jobs in slots and behind them."""

    def __init__(self, model: Slotted, replicas: int, jobs: int) -> None:
        rows = model.slots + 1
        self._slots, self._limit = model.slots, model.backlog
        small = small_type(model)
        self.job = np.full((rows, replicas), -1)
        self.length = np.zeros((rows, replicas), small)
        self.size = np.zeros((model.resources, rows, replicas), small)
        self.backlog = np.zeros(replicas, np.int64)
        self.waiting = np.zeros(replicas, np.int64)
        # The backlog of each game: written at the tail, read at the head.
        self._queue = np.empty((replicas, jobs), np.int64)
        self._head = np.zeros(replicas, np.int64)

    def of(self, slots: Ints) -> tuple[Small, Small]:
        """Return (A,) lengths and (R, A) sizes of the jobs in one slot of each replica."""
        place = slots * len(slots) + np.arange(len(slots))
        flat = self.size.reshape(len(self.size), -1)
        # `take` leaves replicas dense in memory, as indexing with two arrays would not
        return self.length.ravel().take(place), flat.take(place, axis=1)

    def admit(self, rows: Ints, games: Ints, job: Ints, length: Ints, size: Ints) -> Bools:
        """Let one job arrive in some replicas; return (K,) whether each was admitted.

        Args:
            rows: (K,) columns of the arrays here.
            games: (K,) the replicas' own numbers, which never change.
            job: (K,) numbers of the jobs.
            length: (K,) their steps.
            size: (R, K) their units.
        """
        empty = self.job[: self._slots, rows] < 0
        seen: Bools = np.any(empty, axis=0)
        slot = empty.argmax(axis=0)
        if seen.all():  # mostly; this is quicker
            self.put(rows, slot, job, length, size)
            self.waiting[rows] += 1
            return seen
        self.put(rows[seen], slot[seen], job[seen], length[seen], size[:, seen])
        queued = ~seen
        if self._limit is not None:
            queued &= self.backlog[rows] < self._limit
        self._push(rows[queued], games[queued], job[queued])
        admitted: Bools = seen | queued
        self.waiting[rows[admitted]] += 1
        return admitted

    def _push(self, rows: Ints, games: Ints, job: Ints) -> None:
        self._queue[games, self._head[rows] + self.backlog[rows]] = job
        self.backlog[rows] += 1

    def pop(self, rows: Ints, games: Ints, slots: Ints) -> Ints:
        """Take what follows in (K,) slots, whose job was placed: heads of backlogs; -1: none."""
        some = self.backlog[rows] > 0
        head = np.full(len(rows), -1)
        head[some] = self._queue[games[some], self._head[rows[some]]]
        self._head[rows] += some
        self.backlog[rows] -= some
        self.waiting[rows] -= 1
        return head

    def put(self, rows: Ints, slots: Ints, job: Ints, length: Ints, size: Ints) -> None:
        """Write (K,) jobs into slots; job -1 with length and size 0 empties one."""
        self.job[slots, rows] = job
        self.length[slots, rows] = length
        self.size[:, slots, rows] = size

    def shown(self, rows: Ints | slice = slice(None)) -> tuple[Small, Small]:
        """Return (M, A) lengths and (R, M, A) sizes of what is in the slots of some replicas."""
        slots = self._slots
        return self.length[:slots, rows], self.size[:, :slots, rows]

    def clear(self, rows: Ints) -> None:
        """Empty the slots and backlogs of some replicas."""
        self.job[:, rows] = -1
        self.length[:, rows] = 0
        self.size[:, :, rows] = 0
        self.backlog[rows] = self.waiting[rows] = self._head[rows] = 0

    def keep(self, kept: Bools) -> None:
        """Keep only the state of some replicas."""
        rows = np.flatnonzero(kept)
        for name in ("job", "length", "size", "backlog", "waiting", "_head"):
            setattr(self, name, getattr(self, name).take(rows, axis=-1))
