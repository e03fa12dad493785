"""Ready pools without an end: a game that is over begins another stream of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from simkit.agent.ready_pool import ReadyPool
from simkit.arrays import Bools, Ints
from simkit.learners.lockstep import NEVER
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.learners.lockstep.ready_pool.plan import Plan
from simkit.learners.lockstep.ready_pool.streams import JobStreams

__all__ = ["EndlessReadyGames"]


class EndlessReadyGames(ReadyGames):
    """N games that go on for ever; `active` is always 0 … N - 1.

    What a step says of a game that was over belongs to the one that has begun since, but for the
    hours that had passed by then.
    """

    begun: Bools
    """(N,) whether the last step ended with the beginning of another game."""

    def __init__(
        self, pool: ReadyPool, games: int, fresh: Callable[[int], JobStreams], *, hours: int,
        **rules: Any,
    ) -> None:  # fmt: skip
        """Begin N = `games` games.

        Args:
            pool: the dimensions.
            games: N.
            fresh: returns this many streams, always with the same number of hours.
            hours: of a game.
            rules: see `ReadyGames`.
        """
        self._fresh = fresh
        self.begun = np.zeros(games, np.bool_)
        super().__init__(pool, fresh(games), hours=hours, **rules)

    def _settle(self, waited: Ints) -> None:
        self.begun = np.zeros(len(self.active), np.bool_)
        super()._settle(waited)

    def _end(self, rows: Ints) -> None:
        streams = self._fresh(len(rows))
        self._widen(streams.enter.shape[1])
        streams = streams.widened(self.streams.enter.shape[1])
        for name in _COLUMNS:
            getattr(self.streams, name)[rows] = getattr(streams, name)
        self._enter[rows, :-1] = streams.enter
        self.start[rows] = self.rejected[rows] = self._job[:, rows] = -1
        self.end[rows] = NEVER
        for column in (self.hours, self._next, self._now, self._head, self._behind):
            column[rows] = 0
        self._reserved[:, rows] = 0
        ahead = np.arange(self.pool.horizon)[:, None]
        self._plan.begin(rows, self._powered_ahead(ahead, rows))
        self.begun[rows] = True
        self._arrive(rows)
        self._look(rows)

    def _widen(self, jobs: int) -> None:
        """Make room for streams of `jobs` jobs."""
        more = jobs - self.streams.enter.shape[1]
        if more <= 0:
            return
        self.streams = self.streams.widened(jobs)
        wider = ((0, 0), (0, more))
        self._enter = np.pad(self._enter, wider, constant_values=NEVER)
        self._queue = np.pad(self._queue, wider)
        self.start = np.pad(self.start, wider, constant_values=-1)
        self.end = np.pad(self.end, wider, constant_values=NEVER)
        self.rejected = np.pad(self.rejected, wider, constant_values=-1)

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as arrays; see `restore`."""
        streams = {name: getattr(self.streams, name) for name in _COLUMNS}
        mine = {f"{name}.": getattr(self, name) for name in _STATE}
        plan = {f"_plan.{name}": getattr(self._plan, name) for name in Plan.STATE}
        return streams | mine | plan

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        columns: dict[str, Any] = {name: np.array(state[name]) for name in _COLUMNS}
        self.streams = replace(self.streams, **columns)
        self._enter = np.pad(columns["enter"], ((0, 0), (0, 1)), constant_values=NEVER)
        for name in _STATE:
            setattr(self, name, np.array(state[f"{name}."]))
        for name in Plan.STATE:
            setattr(self._plan, name, np.array(state[f"_plan.{name}"]))
        self._look(self.active)


_COLUMNS = tuple(
    field.name
    for field in fields(JobStreams)
    if field.name not in ("capacity", "step_s", "energy")  # the same for all
)
_STATE = (
    "start", "end", "rejected", "decisions", "hours", "_next", "_now", "_job", "_queue", "_head",
    "_behind", "_reserved",
)  # fmt: skip
"""Arrays that change as games are played, but for those that `_look` finds."""
