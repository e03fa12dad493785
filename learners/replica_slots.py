"""The slots and the backlogs of many replicas: where admitted jobs wait.

A job goes to the lowest free slot, behind the others to the backlog if all slots are taken, and
nowhere if that is full. A slot that becomes free takes the head of the backlog at once, so a free
slot means an empty backlog.
"""

from __future__ import annotations

import numpy as np

from simkit.slotted import Ints, Slotted

from .job_sets import Bools
from .replica_grid import Small, small_type


class ReplicaSlots:
    """Waiting jobs of A replicas; the last axis of all arrays.

    There is a row more than slots, for the void action: it never holds a job.
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
        # Who came to the backlog, game by game: written at the tail, read at the head.
        self._queue = np.empty((replicas, jobs), np.int64)
        self._head = np.zeros(replicas, np.int64)

    def of(self, slots: Ints) -> tuple[Small, Small]:
        """Return (A,) lengths and (R, A) sizes of the jobs in one slot of each replica."""
        place = slots * len(slots) + np.arange(len(slots))
        flat = self.size.reshape(len(self.size), -1)
        # `take` leaves replicas dense in memory, as indexing with two arrays would not
        return self.length.ravel().take(place), flat.take(place, axis=1)

    def admit(self, rows: Ints, games: Ints, job: Ints, length: Ints, size: Ints) -> Bools:
        """Let one job arrive in some replicas; return which of them were admitted.

        Args:
            rows: (K,) columns of the arrays here.
            games: (K,) the replicas' own numbers, which never change.
            job: (K,) numbers of the jobs.
            length: (K,) their steps.
            size: (R, K) their units.
        """
        empty = self.job[: self._slots, rows] < 0
        seen: Bools = np.any(empty, axis=0)
        slot = empty.argmax(axis=0)[seen]
        self.put(rows[seen], slot, job[seen], length[seen], size[:, seen])
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

    def pop(self, rows: Ints, games: Ints) -> Ints:
        """Take the heads of the backlogs, because a waiting job was placed; -1: none."""
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

    def keep(self, kept: Bools) -> None:
        """Keep the state of some replicas alone."""
        rows = np.flatnonzero(kept)
        for name in ("job", "length", "size", "backlog", "waiting", "_head"):
            setattr(self, name, getattr(self, name).take(rows, axis=-1))
