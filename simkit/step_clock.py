"""The clock of slotted time: a decision at every step, whether or not something has changed."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from simkit.processes import Environment, Occurrence, Rank

_RANK = int(Rank.WAKE)
PATIENCE = 2000
"""Steps without a start after which a run in which nothing runs and nobody comes is over."""


class StepClock:
    """Ticks at every multiple of a step; a `Background`, so that it keeps no finished run alive.

    While tasks wait it goes on ticking even if nothing runs: a policy that withheld them may start
    them yet. One that never does is let go after `PATIENCE` steps.
    """

    def __init__(
        self,
        env: Environment,
        step_s: float,
        begin_s: float,
        tick: Callable[[], None],
        starts: Callable[[], int],
        anyone_waits: Callable[[], bool],
    ) -> None:
        self.pending = 1
        self._queue, self._numbers = env._queue, env._eid
        self._tick, self._starts, self._anyone_waits = tick, starts, anyone_waits
        self._step, self._due = step_s, -(-begin_s // step_s) * step_s
        self._last_starts = self._idle_steps = 0
        self._alarm = Occurrence.__new__(Occurrence)  # one event, wound again at every step
        self._callbacks: list[Callable[[Any], None]] = [self._ring]
        self._wind()

    def worth_waiting(self) -> bool:
        """See `Background.worth_waiting`."""
        started, self._last_starts = self._starts() - self._last_starts, self._starts()
        self._idle_steps = 0 if started else self._idle_steps + 1
        return self._idle_steps <= PATIENCE and self._anyone_waits()

    def _ring(self, _event: Any) -> None:
        self._due += self._step
        self._wind()
        self._tick()

    def _wind(self) -> None:
        self._alarm.callbacks = self._callbacks
        heappush(self._queue, (self._due, _RANK, next(self._numbers), self._alarm))  # type: ignore[misc]
