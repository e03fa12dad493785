"""Replay memories: past transitions, drawn uniformly or by their errors.

A transition is a row of named columns. A full memory drops its oldest rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints

__all__ = ["Columns", "Drawn", "NSteps", "PrioritisedReplay", "Replay", "Trajectories"]

Row = Mapping[str, npt.ArrayLike]
Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Drawn:
    """B rows drawn from a memory."""

    rows: Ints
    """(B,) row numbers, for `PrioritisedReplay.correct`."""
    columns: Columns
    """Name → (B, …)"""
    weights: Floats
    """(B,) weight of each row's error; 1 if rows are drawn uniformly."""


class Replay:
    """Uniform replay memory.

    L.-J. Lin, "Self-improving reactive agents based on reinforcement learning, planning and
    teaching" (1992).
    """

    def __init__(self, size: int) -> None:
        """Create an empty memory for `size` rows; raises ValueError below 1."""
        _refuse_below_one("size", size)
        self.size, self._columns = size, Columns()
        self._written = 0

    def __len__(self) -> int:
        return min(self._written, self.size)

    def add(self, row: Row) -> None:
        """Store one transition; see `extend`."""
        self.extend({name: np.asarray(value)[None] for name, value in row.items()})

    def extend(self, columns: Columns) -> Ints:
        """Store (B, …) transitions in their order, the last of them if they are too many.

        All must have the columns and types of the first ones: raises ValueError for others, such as
        -0.5 where the first row had the whole number 0. Returns the row numbers.
        """
        for name, column in columns.items() if not self._columns else ():
            self._columns[name] = np.zeros((self.size, *column.shape[1:]), column.dtype)
        if columns.keys() != self._columns.keys():
            raise ValueError(
                f"the rows have {sorted(columns)}, but the memory {sorted(self._columns)}"
            )
        count = len(next(iter(columns.values())))
        first = max(count - self.size, 0)
        places = (self._written + np.arange(first, count)) % self.size
        for name, column in columns.items():
            kind = self._columns[name].dtype
            if not np.can_cast(column.dtype, kind, "same_kind"):
                raise ValueError(f"{name} is {column.dtype}, but {kind} in the memory's first row")
            self._columns[name][places] = column[first:]
        self._written += count
        return places

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw rows with replacement; raises ValueError if there is none."""
        self._refuse_empty()
        rows = rng.integers(len(self), size=count)
        return Drawn(rows, self._take(rows), np.ones(count))

    def _refuse_empty(self) -> None:
        if not len(self):
            raise ValueError("the replay memory is empty; add a transition before you draw")

    def _take(self, rows: Ints) -> Columns:
        return {name: column[rows] for name, column in self._columns.items()}

    def state(self) -> dict[str, Any]:
        """Return the whole state, as arrays and plain values."""
        return {"written": self._written} | {n: c[: len(self)] for n, c in self._columns.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._written, self._columns = int(state["written"]), Columns()
        for name, column in state.items():
            if isinstance(column, np.ndarray):
                whole = np.zeros((self.size, *column.shape[1:]), column.dtype)
                whole[: len(column)] = column
                self._columns[name] = whole


class PrioritisedReplay(Replay):
    """Prioritised replay memory: rows with large errors are drawn more often, but weigh less.

    T. Schaul, J. Quan, I. Antonoglou and D. Silver, "Prioritized experience replay" (2016),
    proportional variant: P(i) = p_i^α / Σ p^α, weight (n · P(i))^-β over the largest of the draw.
    A new row gets the largest priority so far, so that it is drawn soon.
    """

    def __init__(self, size: int, alpha: float = 0.6, beta: float = 0.4) -> None:
        """Create an empty memory.

        Args:
            size: largest number of rows.
            alpha: from 0, drawn uniformly, to 1, drawn in proportion to the error.
            beta: from 0, no correction, to 1, full correction; it may be raised during training.
        """
        super().__init__(size)
        self.alpha, self.beta = alpha, beta
        self._priority: Floats = np.zeros(size)
        self._largest = 1.0

    def extend(self, columns: Columns) -> Ints:
        places = super().extend(columns)
        self._priority[places] = self._largest
        return places

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw rows with replacement, one from each of `count` equal parts of the probability."""
        self._refuse_empty()
        shares = self._priority[: len(self)] ** self.alpha
        cumulative = shares.cumsum()
        draws = (np.arange(count) + rng.random(count)) / count * cumulative[-1]
        rows = np.minimum(np.searchsorted(cumulative, draws, side="right"), len(self) - 1)
        weights = (len(self) * shares[rows] / cumulative[-1]) ** -self.beta
        return Drawn(rows, self._take(rows), weights / weights.max(initial=0.0))

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


class Trajectories(Replay):
    """A memory of N games in order: the next row of a game shows the outcome of a decision.

    It stores every observation once, while a memory of transitions stores it twice. Each row has
    one decision of every game, whose columns are:

    - ``seen``: (N, K) observations; ``allowed``: (N, A) which actions were allowed,
    - ``actions``: (N,) actions taken; -1 for none, after the end of an episode,
    - ``rewards``, ``passed``: (N,) and the time until the next decision,
    - ``over``: (N,) whether the decision ended its episode,
    - ``known``: (N,) whether the game's next row shows the decision's outcome.
    """

    def __init__(self, rows: int) -> None:
        """Create an empty memory; raises ValueError below 2 rows: a decision needs the next one."""
        if rows < 2:
            raise ValueError(f"rows is {rows}; it must be at least 2")
        super().__init__(rows)

    @classmethod
    def of(cls, columns: Columns) -> Self:
        """Return a full memory of (D, …) consecutive decisions of one game."""
        memory = cls(max(len(columns["actions"]), 2))
        memory.extend({name: column[:, None] for name, column in columns.items()})
        return memory

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw decisions whose outcome is known, with replacement; raises ValueError if none is.

        Two more columns, ``after`` and ``allowed_after``, are those of the next decision; where an
        episode is over, all actions are allowed.
        """
        row, game = self._drawn(count, rng)
        columns = {name: column[row, game] for name, column in self._columns.items()}
        then = (row + 1) % self.size
        columns["after"] = self._columns["seen"][then, game]
        columns["allowed_after"] = self._columns["allowed"][then, game] | columns["over"][:, None]
        return Drawn(row, columns, np.ones(count))

    def _drawn(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return the rows and the games, (B,) each, of drawn decisions with a known outcome."""
        held, known = len(self), self._columns.get("known")
        first = self._written - held  # the newest row has no next one
        ages = (first + np.arange(held - 1)) % self.size
        if known is None or not known[ages].any():
            raise ValueError("the memory holds no decision whose outcome is known")
        row, game = np.zeros((2, count), np.int64)
        missing = np.arange(count)
        while len(missing):
            row[missing] = (first + rng.integers(held - 1, size=len(missing))) % self.size
            game[missing] = rng.integers(known.shape[1], size=len(missing))
            missing = missing[~known[row[missing], game[missing]]]
        return row, game


class NSteps:
    """Turns single transitions of an episode into n-step transitions, with discounted rewards.

    R. S. Sutton and A. G. Barto, "Reinforcement learning" (2018), section 7.1.
    """

    def __init__(self, n: int, discount: float) -> None:
        """Begin an episode; raises ValueError for an n below 1."""
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
    ) -> list[dict[str, Any]]:
        """Add a transition; return the n-step transitions that are now complete, oldest first.

        Each has ``seen``, ``action``, ``reward``, ``after`` and ``discount``, the factor of the
        value of ``after``. The end of an episode completes all of them; nothing follows, and the
        factor is 0.
        """
        for earlier in self._open:
            earlier["reward"] += earlier["discount"] * reward
            earlier["discount"] *= self._discount
        first = {"seen": seen, "action": action, "reward": reward, "discount": self._discount}
        self._open.append(first)
        count = len(self._open) if over else int(len(self._open) == self._n)
        complete = [self._open.popleft() for _ in range(count)]
        return [
            row | {"after": after, "discount": 0.0 if over else row["discount"]}
            for row in complete
        ]  # fmt: skip

    def cut(self, after: npt.ArrayLike) -> list[dict[str, Any]]:
        """Return the open transitions as complete ones: a random action follows, or the limit.

        What follows does not tell what the agent's own action would have earned (C. J. C. H.
        Watkins, "Learning from delayed rewards", 1989).

        Args:
            after: observation before the random action or at the limit.
        """
        rows = [row | {"after": after} for row in self._open]
        self._open.clear()
        return rows


def _refuse_below_one(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be at least 1")
