"""The processors of a pool that are switched on: as many as the power carries."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from copy import copy

import numpy as np

from simkit.power.facts import Supply
from simkit.power.machine_model import PowerModel
from simkit.units import amount_on_grid
from simkit.workload.capacity import CapacityChange

POWER = "power"
"""The cause of capacity that goes and comes back with the power, in the records."""

_ROUNDING = 1e-9
"""Share of a unit by which power may be short of it: a quotient's last digits."""


class PoolUnits:
    """One machine that stands for many: its parts are switched on and off one by one.

    The first resource counts the units; of every other as large a share is there. What starts up
    draws booting power for the boot time, and then joins.
    """

    def __init__(self, model: PowerModel, capacity: Sequence[float], supply: Supply) -> None:
        """Begin with everything on; `capacity` is (R,) all that there is."""
        self._model = model
        self._capacity = tuple(float(amount) for amount in capacity)
        self._size = self._capacity[0]
        self._by_power = supply.limit == "power"
        self._peak_w = supply.peak_w or model.full_w
        self._off_w, self._span_w = model.off_w, model.full_w - model.off_w
        self.on = self._size
        """Units that are on, in units of the first resource."""
        self._booting: deque[tuple[float, float]] = deque()  # (when they are on, how many)
        self._there = self._capacity
        self._known: dict[float, tuple[float, ...]] = {}  # units → amounts

    @property
    def boots(self) -> bool:
        """Whether it takes time to come on."""
        return self._model.boot_s > 0

    @property
    def booting(self) -> float:
        """Units that boot, in units of the first resource."""
        return sum((units for _, units in self._booting), 0.0)

    @property
    def next_change(self) -> float:
        """Time in s at which the next units have booted; inf if none boot."""
        return self._booting[0][0] if self._booting else math.inf

    def most(self, available_w: float) -> float:
        """Return how many units a power in W carries."""
        share = available_w / self._peak_w if self._peak_w else math.inf
        if self._by_power:
            share = (available_w - self._off_w) / self._span_w if self._span_w > 0 else math.inf
        return _whole(self._size * min(max(share, 0.0), 1.0), self._size)

    def most_over_time(self, available_w: Sequence[float]) -> list[float]:
        """Return (n,) the same of (n,) powers."""
        watts = np.asarray(available_w, dtype=np.float64)
        if self._size % 1 or not self._peak_w or (self._by_power and not self._span_w > 0):
            return [self.most(power) for power in watts.tolist()]
        share = (watts - self._off_w) / self._span_w if self._by_power else watts / self._peak_w
        units = np.floor(self._size * np.clip(share, 0.0, 1.0) + _ROUNDING)
        counts: list[float] = units.tolist()
        return counts

    def amounts(self, units: float) -> tuple[float, ...]:
        """Return (R,) the capacity of so many units."""
        if units >= self._size:
            return self._capacity
        known = self._known.get(units)
        if known is None:
            share = units / self._size
            known = tuple([_whole(amount * share, amount) for amount in self._capacity])
            if not self._size % 1:
                self._known[units] = known
        return known

    def aim(self, available_w: float, now: float) -> list[CapacityChange]:
        """Switch units on or off as a power carries; return what changes now."""
        target = self.most(available_w)
        booting = self.booting
        if target > self.on + booting:
            if self._model.boot_s:
                self._booting.append((now + self._model.boot_s, target - self.on - booting))
            else:
                self.on = target
        while self._booting and target < self.on + booting:  # the youngest first
            due, units = self._booting.pop()
            dropped = min(units, self.on + booting - target)
            booting -= dropped
            if units > dropped:
                self._booting.append((due, units - dropped))
        self.on = min(self.on, target)
        return self._changes(now)

    def settle(self, now: float) -> list[CapacityChange]:
        """Add what has booted; return what changes now."""
        while self._booting and self._booting[0][0] <= now:
            self.on += self._booting.popleft()[1]
        return self._changes(now)

    def standing_w(self, held: Sequence[float]) -> float:
        """Return what the idle pool draws in W; `held` is (R,) what tasks hold.

        Units that still run tasks, though their power is gone, are on.
        """
        model = self._model
        busy = max(
            (amount / full for amount, full in zip(held, self._capacity, strict=True) if full),
            default=0.0,
        )
        on = min(max(self.on / self._size, busy), 1.0)
        booting = min(self.booting / self._size, 1.0 - on)
        off = 1.0 - on - booting
        return on * model.idle_w + booting * model.boot_power_w + off * model.off_w

    def _changes(self, now: float) -> list[CapacityChange]:
        amounts = self.amounts(self.on)
        if amounts == self._there:
            return []
        self._there = amounts
        return [CapacityChange(now, 0, "limit", POWER, amounts)]

    def copy(self) -> PoolUnits:
        """Return an independent copy, to look ahead with."""
        twin = copy(self)
        twin._booting = self._booting.copy()
        return twin


def _whole(amount: float, full: float) -> float:
    """Return an amount rounded down: to whole units where the full amount is whole."""
    if full % 1:
        return float(amount_on_grid(amount))
    return float(math.floor(amount + _ROUNDING))
