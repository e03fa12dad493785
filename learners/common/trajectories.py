"""A memory of games in their order: what a decision led to is the next row of its game.

So every observation is kept once, where a memory of transitions (`simkit.learners.common.replay`)
keeps two. A full memory forgets its oldest rows.
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
    """A decision of each of N games; or N decisions of one game, in their order."""

    seen: Numbers
    """(N, K)"""
    allowed: Bools
    """(N, A) actions that could be taken."""
    actions: Ints
    """(N,) that were taken; -1 where there was none, after the end of an episode."""
    rewards: Floats
    """(N,)"""
    passed: Floats
    """(N,) time until the next decision."""
    over: Bools
    """(N,) decisions after which nothing comes."""
    known: Bools
    """(N,) decisions whose outcome the game's next row shows."""


@dataclass(frozen=True)
class Transitions:
    """B decisions, and what they led to."""

    seen: Tensor
    """(B, K)"""
    allowed: Tensor
    """(B, A) bool"""
    actions: Tensor
    """(B,) int64"""
    rewards: Tensor
    """(B,)"""
    passed: Tensor
    """(B,) time until the next decision."""
    over: Tensor
    """(B,) bool: nothing comes."""
    after: Tensor
    """(B, K)"""
    allowed_after: Tensor
    """(B, A) bool; all where nothing comes."""

    def to(self, device: str) -> Transitions:
        """Return them on a device."""
        return Transitions(*[column.to(device) for column in vars(self).values()])


def joined(parts: Sequence[Transitions]) -> Transitions:
    """Return the decisions of several draws as one."""
    rows = [vars(part).values() for part in parts]
    return Transitions(*[torch.cat(columns) for columns in zip(*rows, strict=True)])


class Trajectories:
    """A ring of T rows of N games."""

    def __init__(self, rows: int, games: int) -> None:
        """Begin empty; raises ValueError below 2 rows, as a decision needs the next one."""
        if rows < 2:
            raise ValueError(f"rows is {rows}; it must be at least 2")
        self._rows, self._games, self._written = rows, games, 0
        self._columns: dict[str, np.ndarray[Any, Any]] = {}

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Return a memory of decisions of one game in their order, which is full."""
        made = cls(max(len(rows.actions), 2), 1)
        made._columns = {name: column[:, None] for name, column in vars(rows).items()}
        made._written = len(rows.actions)
        return made

    def __len__(self) -> int:
        """Return how many decisions it holds, but for the last of each game."""
        return max(min(self._written, self._rows) - 1, 0) * self._games

    def add(self, rows: Rows) -> None:
        """Take a decision of each game."""
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
        at, game = self._usable(count, rng)
        after = (at + 1) % self._rows
        now = {name: column[at, game] for name, column in self._columns.items()}
        seen, allowed = (self._columns[name][after, game] for name in ("seen", "allowed"))
        return Transitions(
            seen=torch.from_numpy(now["seen"]),
            allowed=torch.from_numpy(now["allowed"]),
            actions=torch.from_numpy(now["actions"]),
            rewards=torch.from_numpy(now["rewards"].astype(np.float32)),
            passed=torch.from_numpy(now["passed"].astype(np.float32)),
            over=torch.from_numpy(now["over"]),
            after=torch.from_numpy(seen),
            allowed_after=torch.from_numpy(allowed | now["over"][:, None]),
        )

    def _usable(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return (B,) rows and games that were drawn."""
        held, known = min(self._written, self._rows), self._columns.get("known")
        first = self._written - held  # the newest row has no next one
        ages = (first + np.arange(held - 1)) % self._rows
        if known is None or held < 2 or not known[ages].any():
            raise ValueError("the memory holds no decision whose outcome is known")
        at, game = np.zeros((2, count), np.int64)
        missing = np.arange(count)
        while len(missing):
            at[missing] = (first + rng.integers(held - 1, size=len(missing))) % self._rows
            game[missing] = rng.integers(self._games, size=len(missing))
            missing = missing[~known[at[missing], game[missing]]]
        return at, game

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as arrays and plain values; see `restore`."""
        held = min(self._written, self._rows)
        return {"written": self._written} | {n: c[:held] for n, c in self._columns.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self._written, self._columns = int(state["written"]), {}
        for name, column in state.items():
            if name != "written":
                whole = np.zeros((self._rows, *column.shape[1:]), column.dtype)
                whole[: len(column)] = column
                self._columns[name] = whole
