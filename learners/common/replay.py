"""Replay memories: past transitions to learn from again, drawn uniformly or by their errors.

A transition is a row of named columns. A full memory forgets its oldest rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints

__all__ = ["Drawn", "NSteps", "PrioritisedReplay", "Replay"]

Row = Mapping[str, npt.ArrayLike]
Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Drawn:
    """B rows of a memory."""

    rows: Ints
    """(B,) where they are, for `PrioritisedReplay.correct`."""
    columns: Columns
    """Name → (B, …)"""
    weights: Floats
    """(B,) by which the error of each counts; 1 where all rows were as likely."""


class Replay:
    """Uniform replay memory.

    L.-J. Lin, "Self-improving reactive agents based on reinforcement learning, planning and
    teaching" (1992).
    """

    def __init__(self, size: int) -> None:
        """Begin with an empty memory of at most `size` rows; raises ValueError below 1."""
        _refuse_below_one("size", size)
        self.size, self._columns = size, Columns()
        self._written = 0

    def __len__(self) -> int:
        return min(self._written, self.size)

    def add(self, row: Row) -> int:
        """Remember a transition; return where.

        All rows have the columns of the first one, of its types: raises ValueError for others, such
        as -0.5 where the first row had the whole number 0.
        """
        if not self._columns:
            for name, value in row.items():
                array = np.asarray(value)
                self._columns[name] = np.zeros((self.size, *array.shape), array.dtype)
        if row.keys() != self._columns.keys():
            raise ValueError(f"the row has {sorted(row)}, the memory {sorted(self._columns)}")
        for name, value in row.items():
            kind, column = np.asarray(value).dtype, self._columns[name].dtype
            if not np.can_cast(kind, column, "same_kind"):
                raise ValueError(f"{name} is {kind}, the memory's is {column} as in its first row")
        place = self._written % self.size
        for name, value in row.items():
            self._columns[name][place] = value
        self._written += 1
        return place

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw rows with replacement; raises ValueError if there is none."""
        self._refuse_empty()
        rows = rng.integers(len(self), size=count)
        return Drawn(rows, self._at(rows), np.ones(count))

    def _refuse_empty(self) -> None:
        if not len(self):
            raise ValueError("the replay memory is empty; add a transition before you draw")

    def _at(self, rows: Ints) -> Columns:
        return {name: column[rows] for name, column in self._columns.items()}

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as arrays and plain values; see `restore`."""
        return {"written": self._written} | {n: c[: len(self)] for n, c in self._columns.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        self._written, self._columns = int(state["written"]), Columns()
        for name, column in state.items():
            if isinstance(column, np.ndarray):
                whole = np.zeros((self.size, *column.shape[1:]), column.dtype)
                whole[: len(column)] = column
                self._columns[name] = whole


class PrioritisedReplay(Replay):
    """Prioritised replay memory: rows with large errors are drawn more often but weigh less.

    T. Schaul, J. Quan, I. Antonoglou and D. Silver, "Prioritized experience replay" (2016),
    proportional variant: P(i) = p_i^α / Σ p^α, weight (n · P(i))^-β over the largest of the draw.
    A new row has the largest priority so far, so that it is seen soon.
    """

    def __init__(self, size: int, alpha: float = 0.6, beta: float = 0.4) -> None:
        """Begin empty.

        Args:
            size: the most rows.
            alpha: from 0, as likely as others, to 1, in proportion to the error.
            beta: from 0, no correction, to 1, the full one; it may be raised in the course.
        """
        super().__init__(size)
        self.alpha, self.beta = alpha, beta
        self._priority: Floats = np.zeros(size)
        self._largest = 1.0

    def add(self, row: Row) -> int:
        place = super().add(row)
        self._priority[place] = self._largest
        return place

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw rows with replacement, one from each of `count` equal parts of the probability."""
        self._refuse_empty()
        shares = self._priority[: len(self)] ** self.alpha
        below = shares.cumsum()
        at = (np.arange(count) + rng.random(count)) / count * below[-1]
        rows = np.minimum(np.searchsorted(below, at, side="right"), len(self) - 1)
        weights = (len(self) * shares[rows] / below[-1]) ** -self.beta
        return Drawn(rows, self._at(rows), weights / weights.max(initial=0.0))

    def correct(self, rows: Ints, errors: Floats) -> None:
        """Set the priorities of (B,) drawn rows by their (B,) errors; none falls to 0."""
        self._priority[rows] = np.abs(errors) + 1e-6
        self._largest = max(self._largest, float(self._priority[rows].max(initial=0.0)))

    def state(self) -> dict[str, Any]:
        return super().state() | {
            "largest": self._largest, "priority.": self._priority[: len(self)].copy(),
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        own = dict(state)
        self._largest, known = float(own.pop("largest")), own.pop("priority.")
        super().restore(own)
        self._priority[:] = 0.0
        self._priority[: len(known)] = known


class NSteps:
    """Turns single transitions into ones over n decisions: the sum of their discounted rewards.

    R. S. Sutton and A. G. Barto, "Reinforcement learning" (2018), section 7.1. One for each episode
    that is played at the same time.
    """

    def __init__(self, n: int, discount: float) -> None:
        """Begin; raises ValueError for an n below 1."""
        _refuse_below_one("n", n)
        self._n, self._discount = n, discount
        self._open: deque[dict[str, Any]] = deque()

    def add(
        self,
        seen: npt.ArrayLike,
        action: int,
        reward: float,
        after: npt.ArrayLike,
        *,
        over: bool,
        cut: bool = False,
    ) -> list[dict[str, Any]]:
        """Take a transition; return those over n decisions that are complete, oldest first.

        Each has ``seen``, ``action``, ``reward``, ``after`` and ``discount``, the factor of the
        value of what comes after. At the end of an episode all are complete: one that is over
        (terminated) has nothing to come, so that the factor is 0; one that is cut off (truncated)
        keeps it.
        """
        for earlier in self._open:
            earlier["reward"] += earlier["discount"] * reward
            earlier["discount"] *= self._discount
        first = {"seen": seen, "action": action, "reward": reward, "discount": self._discount}
        self._open.append(first)
        count = len(self._open) if over or cut else int(len(self._open) == self._n)
        complete = [self._open.popleft() for _ in range(count)]
        return [
            row | {"after": after, "discount": 0.0 if over else row["discount"]}
            for row in complete
        ]  # fmt: skip

    def cut(self, after: npt.ArrayLike) -> list[dict[str, Any]]:
        """Return the open transitions as complete ones, as what follows was not the agent's choice.

        A random action does not show what the agent's own would have brought (C. J. C. H.
        Watkins, "Learning from delayed rewards", 1989).

        Args:
            after: what is seen before that action.
        """
        rows = [row | {"after": after} for row in self._open]
        self._open.clear()
        return rows

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as arrays and plain values; see `restore`."""
        rows = enumerate(self._open)
        return {f"{place}.{name}": value for place, row in rows for name, value in row.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        rows: dict[int, dict[str, Any]] = {}
        for key, value in state.items():
            place, _, name = key.partition(".")
            rows.setdefault(int(place), {})[name] = value
        self._open = deque(rows[place] for place in sorted(rows))


def _refuse_below_one(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be at least 1")
