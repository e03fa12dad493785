"""Layouts: where the waiting jobs of many replicas are, in sight or behind what is seen.

Every layout has a few places in sight and one more row, for the void action, which never holds a
job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Ints
from simkit.learners.lockstep.plan import Small
from simkit.learners.lockstep.replicated import Replicated

__all__ = ["ClassSlots", "ReadyPlaces", "Slots"]


class Slots(Replicated):
    """Waiting jobs of A replicas in numbered slots; the last axis of all arrays.

    A job goes to the lowest free slot; if all slots are taken, behind the others to the backlog; if
    that is full, it is rejected. A slot that becomes free takes the head of the backlog at once, so
    a free slot means an empty backlog.
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
    STATE: ClassVar = {"job": -1, "length": 0, "size": 0, "backlog": 0, "waiting": 0, "_head": 0}

    def __init__(
        self, slots: int, limit: int | None, resources: int, replicas: int, jobs: int,
        small: npt.DTypeLike = np.int64,
    ) -> None:  # fmt: skip
        """Make empty slots.

        Args:
            slots: M.
            limit: jobs that may wait behind the slots; None: any number.
            resources: R.
            replicas: A.
            jobs: of a game, at most.
            small: the type of lengths and sizes.
        """
        self.count, self._limit = slots, limit
        self.job = np.full((slots + 1, replicas), -1)
        self.length = np.zeros((slots + 1, replicas), small)
        self.size = np.zeros((resources, slots + 1, replicas), small)
        self.backlog, self.waiting, self._head = np.zeros((3, replicas), np.int64)
        # The backlog of each game: written at the tail, read at the head.
        self._queue = np.zeros((replicas, jobs), np.int64)

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
        empty = self.job[:-1, rows] < 0
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
        some = rows[queued]
        self._queue[games[queued], self._head[some] + self.backlog[some]] = job[queued]
        self.backlog[some] += 1
        admitted: Bools = seen | queued
        self.waiting[rows[admitted]] += 1
        return admitted

    def head(self, rows: Ints, games: Ints) -> Ints:
        """Take (K,) the heads of some backlogs; -1: none."""
        some = self.backlog[rows] > 0
        head = np.full(len(rows), -1)
        head[some] = self._queue[games[some], self._head[rows[some]]]
        self._head[rows] += some
        self.backlog[rows] -= some
        return head

    def pop(self, rows: Ints, games: Ints, slots: Ints) -> Ints:
        """Take what follows in (K,) slots, whose job was placed; -1: none."""
        self.waiting[rows] -= 1
        return self.head(rows, games)

    def put(self, rows: Ints, slots: Ints, job: Ints, length: Ints, size: Ints) -> None:
        """Write (K,) jobs into slots; job -1 with length and size 0 empties one."""
        self.job[slots, rows] = job
        self.length[slots, rows] = length
        self.size[:, slots, rows] = size

    def shown(self, rows: Ints | slice = slice(None)) -> tuple[Small, Small]:
        """Return (M, A) lengths and (R, M, A) sizes of what is in the slots of some replicas."""
        return self.length[:-1, rows], self.size[:, :-1, rows]

    def widen(self, more: int) -> None:
        """Make room for more jobs of a game."""
        self._queue = np.pad(self._queue, ((0, 0), (0, more)))

    def state(self) -> dict[str, Any]:
        return {**super().state(), "_queue": self._queue}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._queue = np.array(state["_queue"])


class ClassSlots(Slots):
    """Waiting jobs of A replicas in one slot for each class; the last axis of all arrays.

    Jobs of a class keep the order of their arrival, and none is rejected.
    """

    behind: Ints
    """(M + 1, A) jobs that wait behind the one in each slot."""
    STATE: ClassVar = {**Slots.STATE, "behind": 0}

    def __init__(
        self, kind: Ints, games_a_set: int, slots: int, resources: int, replicas: int,
        small: npt.DTypeLike,
    ) -> None:  # fmt: skip
        """Make empty slots.

        Args:
            kind: (S, J) class of each job, from 0; -1 for padding.
            games_a_set: replica n plays job set n // games_a_set.
            slots: M, one for each class.
            resources: R.
            replicas: A.
            small: the type of lengths and sizes.
        """
        super().__init__(slots, None, resources, replicas, 0, small)
        self.behind = np.zeros((slots + 1, replicas), np.int64)
        self._kind, self._games_a_set = kind, games_a_set
        self._following = _following(kind)

    def admit(self, rows: Ints, games: Ints, job: Ints, length: Ints, size: Ints) -> Bools:
        slot = self._kind[games // self._games_a_set, job]
        empty = self.job[slot, rows] < 0
        self.put(rows[empty], slot[empty], job[empty], length[empty], size[:, empty])
        hidden = ~empty
        self.behind[slot[hidden], rows[hidden]] += 1
        self.backlog[rows[hidden]] += 1
        self.waiting[rows] += 1
        return np.ones(len(rows), np.bool_)

    def pop(self, rows: Ints, games: Ints, slots: Ints) -> Ints:
        """Take the next jobs of the classes in (K,) slots, whose job was placed; -1: none."""
        some = self.behind[slots, rows] > 0
        job = self.job[slots, rows]
        self.behind[slots, rows] -= some
        self.backlog[rows] -= some
        self.waiting[rows] -= 1
        return np.where(some, self._following[games // self._games_a_set, job], -1)


def _following(kind: Ints) -> Ints:
    """Return (S, J) the next job of each job's own class; -1: none."""
    following = np.full(kind.shape, -1)
    rows = np.arange(len(kind))
    latest = np.full((len(kind), int(kind.max(initial=0)) + 2), -1)  # the last column: padding
    for job in range(kind.shape[1] - 1, -1, -1):
        following[:, job] = latest[rows, kind[:, job]]
        latest[rows, kind[:, job]] = job
    return following


class ReadyPlaces(Slots):
    """Waiting jobs of A ready pools in order of submission: where one leaves, others move up.

    So the free places are the last ones; whoever frees them fills them from the backlog.
    """

    def leave(self, rows: Ints, place: Ints) -> None:
        """Take away the jobs in (K,) places of some pools."""
        places = np.arange(self.count)[:, None]
        self._move_up(rows, places + (places >= place))
        self.waiting[rows] -= 1

    def leave_all(self, rows: Ints, gone: Bools) -> None:
        """Take away the jobs in (P, K) places of some pools."""
        gone_or_free = gone | (self.job[:-1, rows] < 0)
        order = np.argsort(gone_or_free, axis=0, kind="stable")
        order[np.take_along_axis(gone, order, axis=0)] = self.count
        self._move_up(rows, order)
        self.waiting[rows] -= gone.sum(axis=0)

    def _move_up(self, rows: Ints, order: Ints) -> None:
        """Write the jobs of (P, K) other places, or none of the last row, into those of pools."""
        for column, chosen in ((self.job, order), (self.length, order), (self.size, order[None])):
            column[..., :-1, rows] = np.take_along_axis(column[..., rows], chosen, axis=-2)

    def first_free(self, rows: Ints) -> Ints:
        """Return (K,) the number of the first free place of some pools, P if there is none."""
        free: Ints = (self.job[:-1, rows] >= 0).sum(axis=0)
        return free
