"""A memory of games in order: the next row of a game shows the outcome of a decision.

It stores every observation once, while a memory of transitions (`simkit.learners.common.replay`)
stores it twice. A full memory drops its oldest rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Floats, Ints

__all__ = ["Rows", "Trajectories", "Transitions", "joined"]


@dataclass(frozen=True)
class Rows:
    """One decision in each of N games, or N consecutive decisions of one game."""

    seen: Numbers
    """(N, K) observations."""
    allowed: Bools
    """(N, A) which actions were allowed."""
    actions: Ints
    """(N,) actions taken; -1 for none, after the end of an episode."""
    rewards: Floats
    """(N,)"""
    passed: Floats
    """(N,) time until the next decision."""
    over: Bools
    """(N,) whether the decision ended its episode."""
    known: Bools
    """(N,) whether the game's next row shows the decision's outcome."""


@dataclass(frozen=True)
class Transitions:
    """B decisions and their outcomes."""

    seen: Tensor
    """(B, K) observations."""
    allowed: Tensor
    """(B, A) bool: which actions were allowed."""
    actions: Tensor
    """(B,) int64: actions taken."""
    rewards: Tensor
    """(B,)"""
    passed: Tensor
    """(B,) time until the next decision."""
    over: Tensor
    """(B,) bool: whether the decision ended its episode."""
    after: Tensor
    """(B, K) observations at the next decision."""
    allowed_after: Tensor
    """(B, A) bool: which actions the next decision allowed; all if the episode is over."""

    def to(self, device: str) -> Transitions:
        """Return the tensors on a device."""
        return Transitions(*[column.to(device) for column in vars(self).values()])


def joined(parts: Sequence[Transitions]) -> Transitions:
    """Return the concatenated decisions of several draws."""
    rows = [vars(part).values() for part in parts]
    return Transitions(*[torch.cat(columns) for columns in zip(*rows, strict=True)])


class Trajectories:
    """A ring buffer of T rows for N games."""

    def __init__(self, rows: int, games: int) -> None:
        """Create an empty memory; raises ValueError below 2 rows: a decision needs the next one."""
        if rows < 2:
            raise ValueError(f"rows is {rows}; it must be at least 2")
        self._rows, self._games, self._written = rows, games, 0
        self._columns: dict[str, np.ndarray[Any, Any]] = {}

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Return a full memory of consecutive decisions of one game."""
        memory = cls(max(len(rows.actions), 2), 1)
        memory._columns = {name: column[:, None] for name, column in vars(rows).items()}
        memory._written = len(rows.actions)
        return memory

    def __len__(self) -> int:
        """Return the number of decisions, not counting the last of each game."""
        return max(min(self._written, self._rows) - 1, 0) * self._games

    def add(self, rows: Rows) -> None:
        """Add one decision of each game."""
        if not self._columns:
            self._columns = {
                name: np.zeros((self._rows, *column.shape), column.dtype)
                for name, column in vars(rows).items()
            }
        for name, column in vars(rows).items():
            self._columns[name][self._written % self._rows] = column
        self._written += 1

    def draw(self, count: int, rng: np.random.Generator) -> Transitions:
        """Draw decisions whose outcome is known, with replacement.

        Raises ValueError if there is none.
        """
        row, game = self._drawn(count, rng)
        next_row = (row + 1) % self._rows
        now = {name: column[row, game] for name, column in self._columns.items()}
        after, allowed_after = (self._columns[n][next_row, game] for n in ("seen", "allowed"))
        return Transitions(
            seen=torch.from_numpy(now["seen"]),
            allowed=torch.from_numpy(now["allowed"]),
            actions=torch.from_numpy(now["actions"]),
            rewards=torch.from_numpy(now["rewards"].astype(np.float32)),
            passed=torch.from_numpy(now["passed"].astype(np.float32)),
            over=torch.from_numpy(now["over"]),
            after=torch.from_numpy(after),
            allowed_after=torch.from_numpy(allowed_after | now["over"][:, None]),
        )

    def _drawn(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return the rows and the games, (B,) each, of drawn decisions with a known outcome."""
        held, known = min(self._written, self._rows), self._columns.get("known")
        first = self._written - held  # the newest row has no next one
        ages = (first + np.arange(held - 1)) % self._rows
        if known is None or held < 2 or not known[ages].any():
            raise ValueError("the memory holds no decision whose outcome is known")
        row, game = np.zeros((2, count), np.int64)
        missing = np.arange(count)
        while len(missing):
            row[missing] = (first + rng.integers(held - 1, size=len(missing))) % self._rows
            game[missing] = rng.integers(self._games, size=len(missing))
            missing = missing[~known[row[missing], game[missing]]]
        return row, game

    def state(self) -> dict[str, Any]:
        """Return the whole state, as arrays and plain values."""
        held = min(self._written, self._rows)
        return {"written": self._written} | {n: c[:held] for n, c in self._columns.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._written, self._columns = int(state["written"]), {}
        for name, column in state.items():
            if name != "written":
                whole = np.zeros((self._rows, *column.shape[1:]), column.dtype)
                whole[: len(column)] = column
                self._columns[name] = whole
