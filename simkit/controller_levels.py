"""The levels of a controller: states of charge at which it is asked again, and when that is.

A level that the battery is charged or discharged to is met at the instant at which it is reached.
One that it merely leaks past, as after charging up to it, is looked at some time later: the
controller would top the battery up and be asked again at once, without end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from simkit.battery import Battery
from simkit.errors import PolicyError

_REST_S: Final = 60.0
"""What leaks past a level is looked at so long after the last level at the earliest."""
_MOST_IN_A_ROW: Final = 100
"""More levels, each within a rest of the last, while nothing else changes, are one and the same
that is passed to and fro."""


class ControllerLevels:
    """Knows when the next level is met, and refuses a controller that lets time never go on."""

    def __init__(self, levels: Sequence[float]) -> None:
        """Watch over these states of charge, 0..1."""
        self._levels = tuple(levels)
        self._last_s = -math.inf
        self._in_a_row = 0
        self.next_s = math.inf
        """When the next one is met, in s; inf if full or empty comes before it, or none does."""

    def await_next(self, battery: Battery, battery_w: float, bound_s: float) -> float:
        """Return when a battery with this power has to be looked at, in s.

        Args:
            battery: as it stands.
            battery_w: held from now on, above 0 charges.
            bound_s: when it will be full or empty.
        """
        self.next_s = math.inf
        level_s = battery.next_event(battery_w, self._levels) if self._levels else math.inf
        if level_s < bound_s:
            if battery.leak_prevails(battery_w):
                level_s = max(level_s, self._last_s + _REST_S)
            self.next_s = level_s
        return min(bound_s, level_s)

    def pass_by(self, now: float) -> None:
        """Take note of the time in s.

        Raises PolicyError if the controller drives the battery to and fro across a level.
        """
        if now < self.next_s:
            return
        self._in_a_row = self._in_a_row + 1 if now - self._last_s < _REST_S else 0
        self._last_s, self.next_s = now, math.inf
        if self._in_a_row > _MOST_IN_A_ROW:
            raise PolicyError(
                f"controller at {now:.9g} s: the battery has passed its levels "
                f"({', '.join(f'{level:g}' for level in self._levels)}) more than "
                f"{_MOST_IN_A_ROW} times, each within {_REST_S:g} s of the last, while nothing "
                "else changed; leave a band between the level up to which it charges and that down "
                "to which it discharges"
            )

    def start_over(self) -> None:
        """Something else has changed: levels met from now on are not those of before."""
        self._in_a_row = 0
