"""Running and suspended jobs of lock-step games.

Without such agents nothing needs to know what runs: `Plan` knows what is held. Arrays have the game
as their last axis.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Bools, Ints

__all__ = ["Suspension"]

_LATER = 1 << 32
"""Allocations of a game are fewer than this."""


class Suspension:
    """The allocations of A games; an agent may suspend the S that began last."""

    STATE = ("job", "begin", "end", "rank", "made", "stopped", "left")
    """Names of the arrays."""

    def __init__(self, games: int, choices: int) -> None:
        """Begin without any; with S = `choices` of 0, everything is without effect."""
        self.choices = choices
        places = max(8, choices) if choices else 0
        self.job = np.full((places, games), -1)
        """(L, A) which job each place holds, running or reserved; -1: none."""
        self.begin, self.end, self.rank = np.zeros((3, places, games), np.int64)
        """(L, A) when it begins, when it ends, and the order in which they began."""
        self.made = np.zeros(games, np.int64)
        """(A,) allocations so far."""
        self.stopped = np.full((places, games), -1)
        """(L, A) suspended jobs, in the order in which they were suspended; -1: none."""
        self.left = np.zeros((places, games), np.int64)
        """(L, A) hours that each of them still takes."""

    def add(self, rows: Ints, job: Ints, begin: Ints, end: Ints) -> None:
        """Take in (K,) allocations, one of each of some games."""
        if not self.choices:
            return
        place = self._place_in("job", rows)
        self.job[place, rows], self.begin[place, rows], self.end[place, rows] = job, begin, end
        # of those that begin at the same time, reservations come first, in their order
        self.rank[place, rows] = begin * _LATER + self.made[rows]
        self.made[rows] += 1

    def _place_in(self, name: str, rows: Ints) -> Ints:
        """Return (K,) the first free place of some games; where there is none, all get more."""
        jobs = getattr(self, name)
        if (jobs[:, rows] >= 0).all(axis=0).any():
            wider = ("stopped", "left") if name == "stopped" else ("job", "begin", "end", "rank")
            for other in wider:
                more = np.full(jobs.shape, -1 if other == name else 0)
                setattr(self, other, np.concatenate((getattr(self, other), more)))
        free: Ints = (getattr(self, name)[:, rows] < 0).argmax(axis=0)
        return free

    def drop_ended(self, rows: Ints, now: Ints) -> None:
        """Forget what has ended by (K,) now."""
        if self.choices:
            self.job[:, rows] = np.where(self.end[:, rows] > now, self.job[:, rows], -1)

    def youngest(self, rows: Ints, now: Ints) -> Ints:
        """Return (S, K) the places of what runs at (K,) now and began last; -1: no more run."""
        if not self.choices:
            return np.zeros((0, len(rows)), np.int64)
        runs = (self.job[:, rows] >= 0) & (self.begin[:, rows] <= now)
        rank = np.where(runs, self.rank[:, rows], -1)
        order = np.argsort(-rank, axis=0)[: self.choices]
        return np.where(np.take_along_axis(rank, order, axis=0) >= 0, order, -1)

    def suspend(self, rows: Ints, place: Ints, now: Ints) -> tuple[Ints, Ints]:
        """Suspend what (K,) places hold; return (K,) the jobs, and hours that they still take."""
        job, left = self.job[place, rows], self.end[place, rows] - now
        self.job[place, rows] = -1
        last = self._place_in("stopped", rows)
        self.stopped[last, rows], self.left[last, rows] = job, left
        return job, left

    def count(self, rows: Ints | slice) -> Ints:
        """Return (K,) how many are suspended."""
        count: Ints = (self.stopped[:, rows] >= 0).sum(axis=0)
        return count

    def resume(self, rows: Ints, place: int) -> None:
        """Take out of the suspended ones those in a place; see `close_ranks`."""
        self.stopped[place, rows] = -1

    def close_ranks(self, rows: Ints) -> None:
        """Leave no gap between the suspended ones."""
        order = np.argsort(self.stopped[:, rows] < 0, axis=0, kind="stable")
        for name in ("stopped", "left"):
            column = getattr(self, name)
            column[:, rows] = np.take_along_axis(column[:, rows], order, axis=0)

    def any(self, rows: Ints) -> Bools:
        """Return (K,) whether anything runs, is reserved or is suspended."""
        jobs: Ints = np.concatenate((self.job[:, rows], self.stopped[:, rows]))
        return np.asarray((jobs >= 0).any(axis=0), np.bool_)

    def clear(self, rows: Ints) -> None:
        """Forget everything of some games."""
        self.job[:, rows] = self.stopped[:, rows] = -1
        self.made[rows] = 0

    def keep(self, kept: Bools) -> None:
        """Keep only some games."""
        for name in self.STATE:
            setattr(self, name, getattr(self, name)[..., kept])
