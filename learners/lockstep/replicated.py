"""Replicated state: arrays with an entry for each replica, which leave or begin afresh together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from simkit.arrays import Bools, Ints

__all__ = ["Replicated"]


class Replicated:
    """State of A replicas in arrays whose last axis they are, so that they are dense along it."""

    STATE: ClassVar[Mapping[str, float | None]] = {}
    """Name of each array → the number it begins with; None: nothing that is always the same."""

    def keep(self, kept: Bools) -> None:
        """Keep only the state of some replicas."""
        rows = np.flatnonzero(kept)
        for name in self.STATE:
            setattr(self, name, getattr(self, name).take(rows, axis=-1))

    def clear(self, rows: Ints) -> None:
        """Let some replicas begin afresh."""
        for name, number in self.STATE.items():
            if number is not None:
                getattr(self, name).T[rows] = number  # quicker than [..., rows]

    def state(self) -> dict[str, Any]:
        """Return the arrays by their names; see `restore`."""
        return {name: getattr(self, name) for name in self.STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        for name in self.STATE:
            setattr(self, name, np.array(state[name]))
