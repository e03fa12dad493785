"""What is free in the hours ahead of lock-step games: units that have power, and that no job holds.

Arrays have the game as their last axis.
"""

from __future__ import annotations

import numpy as np

from simkit.arrays import Bools, Ints
from simkit.learners.lockstep.replicas import BITS, first_run, first_run_of_many, packed

__all__ = ["Plan"]


class Plan:
    """The plans of A games, H hours ahead, for R resources."""

    STATE = ("free", "powered")
    """Names of the arrays."""

    def __init__(self, powered: Ints) -> None:
        """Begin with (R, H, A) units that have power, and that nobody holds."""
        self.free = powered.copy()
        """(R, H, A) units that are free; the first hour is the one that is about to pass."""
        self.powered = powered[0].copy()
        """(H, A) units of the first resource that have power."""
        self._ahead = np.arange(len(self.powered))[:, None]

    def begin(self, rows: Ints, powered: Ints) -> None:
        """Begin some plans afresh, with (R, H, K) units."""
        self.free[:, :, rows], self.powered[:, rows] = powered, powered[0]

    def advance(self, rows: Ints, last: Ints) -> None:
        """Let an hour pass in some games; (R, K) units have power in the one that is last then."""
        self.free[:, :-1, rows] = self.free[:, 1:, rows]
        self.free[:, -1, rows] = last
        self.powered[:-1, rows] = self.powered[1:, rows]
        self.powered[-1, rows] = last[0]

    def hold(self, rows: Ints, begin: Ints, length: Ints, size: Ints) -> None:
        """Hold (R, K) units for (K,) hours, the first of them `begin` hours ahead."""
        inside = (self._ahead >= begin) & (self._ahead < begin + length)
        self.free[:, :, rows] -= inside * size[:, None]

    def earliest(self, rows: Ints, length: Ints, size: Ints) -> Ints:
        """Return (P, K) the first hour ahead at which each of P jobs fits; -1: none.

        Args:
            rows: K games.
            length: (P, K) hours of each job; 0: there is none.
            size: (R, P, K) units that it asks for.
        """
        free = self.free[:, :, rows]
        room: Bools = free[0, :, None] >= size[0]  # (H, P, K)
        for of_resource, asked in zip(free[1:], size[1:], strict=True):
            room &= of_resource[:, None] >= asked
        if len(room) <= BITS:
            return first_run(packed(room), length)
        return first_run_of_many(room.astype(np.int64), length)

    def keep(self, kept: Bools) -> None:
        """Keep only the plans of some games."""
        for name in self.STATE:
            setattr(self, name, getattr(self, name)[..., kept])
