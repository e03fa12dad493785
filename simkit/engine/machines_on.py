"""Which machines, or processors of a pool, are on: as many as the power carries.

`PoolUnits` switches the parts of one machine that stands for many, `MachineUnits` machines, less
those that a policy turned off. A machine that must go off takes no new tasks, draws power while
its tasks drain, and then shuts down. One that comes back boots first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.units import amount_on_grid
from simkit.workload.capacity import SWITCHED_OFF, CapacityChange

if TYPE_CHECKING:
    from simkit.power.facts import Supply
    from simkit.power.machine_model import PowerModel

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
        self._off_w, self._span_w = model.switching.off_w, model.full_w - model.switching.off_w
        self.on = self._size
        """Units that are on, in units of the first resource."""
        self._booting: deque[tuple[float, float]] = deque()  # (when they are on, how many)
        self._there = self._capacity
        self._known: dict[float, tuple[float, ...]] = {}  # units → amounts

    @property
    def boots(self) -> bool:
        """Whether it takes time to come on."""
        return self._model.switching.boot > 0

    @property
    def booting(self) -> float:
        """Units that boot, in units of the first resource."""
        return sum([units for _, units in self._booting], 0.0) if self._booting else 0.0

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
        """Return (R,) the capacity of `units`."""
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
            if self._model.switching.boot:
                self._booting.append((now + self._model.switching.boot, target - self.on - booting))
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
        model, on = self._model, self.on / self._size
        for amount, full in zip(held, self._capacity, strict=True):
            if full and amount / full > on:
                on = amount / full
        on = min(on, 1.0)
        booting = min(self.booting / self._size, 1.0 - on)
        off = 1.0 - on - booting
        return on * model.idle_w + booting * model.boot_power_w + off * model.switching.off_w

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


class Switch(Enum):
    """The state of a machine's switch."""

    OFF = "off"
    BOOTING = "booting"
    ON = "on"
    SHUTTING_DOWN = "shutting down"


class MachinePower:
    """The switch of one machine, a plain object; call `settle` at `next_change`.

    off ──switch_on──▶ booting ──boot──▶ on ──switch_off──▶ shutting down ──shutdown──▶ off
    """

    __slots__ = ("model", "name", "next_change", "switch")

    def __init__(self, model: PowerModel, name: str, switch: Switch = Switch.ON) -> None:
        self.model = model
        self.name = name
        self.switch = switch
        self.next_change = math.inf
        """Time in s at which booting or shutting down is done; inf otherwise."""

    def switch_on(self, time_s: float) -> float:
        """Begin to boot; return the time in s at which it is on.

        Raises PolicyError unless it is off.
        """
        return self._begin(Switch.OFF, Switch.BOOTING, time_s, self.model.switching.boot)

    def switch_off(self, time_s: float) -> float:
        """Begin to shut down; return the time in s at which it is off.

        Raises PolicyError unless it is on.
        """
        return self._begin(Switch.ON, Switch.SHUTTING_DOWN, time_s, self.model.switching.shutdown)

    def settle(self, time_s: float) -> bool:
        """Be on or off if that time has come; return whether something changed."""
        if time_s < self.next_change:
            return False
        self.switch = Switch.ON if self.switch is Switch.BOOTING else Switch.OFF
        self.next_change = math.inf
        return True

    def standing_w(self) -> float:
        """Return the power in W not attributed to any job."""
        if self.switch is Switch.OFF:
            return self.model.switching.off_w
        return self.model.boot_power_w if self.switch is Switch.BOOTING else self.model.idle_w

    def _begin(self, needed: Switch, then: Switch, time_s: float, length_s: float) -> float:
        if self.switch is not needed:
            raise PolicyError(
                f"machine {self.name!r} is {self.switch.value} at {time_s:.9g} s; "
                f"it must be {needed.value} to be switched"
            )
        self.switch, self.next_change = then, time_s + length_s
        self.settle(time_s)
        return time_s + length_s


class MachineUnits:
    """The switches of machines, and which of them should be on."""

    def __init__(
        self,
        models: Sequence[PowerModel],
        names: Sequence[str],
        capacity: Floats,
        supply: Supply,
    ) -> None:
        """Begin with everything on; `capacity` is (M, R)."""
        self.switches = [
            MachinePower(model, name) for model, name in zip(models, names, strict=True)
        ]
        self._wanted = [True] * len(models)  # on, or on the way there
        self._turned_off = [False] * len(models)  # by the policy
        self._supply = supply
        self._off_w = math.fsum(model.switching.off_w for model in models)
        self._full_w = math.fsum(model.full_w for model in models)
        if supply.limit == "resources":
            first = capacity[:, 0]
            self._weight: list[float] = (first / first.sum()).tolist()
        else:
            self._weight = [model.full_w - model.switching.off_w for model in models]
        self._least = min(self._weight)
        self._used = math.fsum(self._weight)
        self._draining: set[int] = set()
        self._under_way: set[int] = set()  # booting or shutting down
        self._touched: set[int] = set()  # switches that may draw something else now

    @property
    def next_change(self) -> float:
        """Time in s at which the next machine has booted or shut down; inf if none does."""
        return min((self.switches[row].next_change for row in self._under_way), default=math.inf)

    @property
    def weights(self) -> Sequence[float]:
        """(M,): what of the budget each machine takes when it is on."""
        return self._weight

    def budget(self, available_w: float) -> float:
        """Return what the machines that are on may weigh together, given a power in W."""
        if self._supply.limit == "none":
            return math.inf
        if self._supply.limit == "resources":
            peak_w = self._supply.peak_w or self._full_w
            return available_w / peak_w + _ROUNDING if peak_w else math.inf
        return (available_w - self._off_w) * (1.0 + _ROUNDING)

    def is_wanted(self, machine: int) -> bool:
        """Return whether a machine is on, or on the way there."""
        return self._wanted[machine]

    def aim(
        self,
        available_w: float,
        now: float,
        idle: Iterable[int],
        victims: Iterable[int],
        useless: Collection[int] = (),
    ) -> list[CapacityChange]:
        """Switch machines on or off as a power carries; return what changes now.

        Args:
            available_w: what machines may draw.
            now: in s.
            idle: rows of machines without tasks, in the order in which they should go.
            victims: rows of the others, likewise; asked for only when needed.
            useless: rows of machines that would offer nothing: they go before all others, also
                to make room for one that would.
        """
        budget = self.budget(available_w)
        changes = []
        if useless and (self._used > budget or self._some_stay_off(useless)):
            changes += [self._send_off(row, now) for row in useless if self._wanted[row]]
        if self._used > budget:
            for rows in (idle, victims):
                for row in rows:
                    if self._used <= budget:
                        break
                    if self._wanted[row]:
                        changes.append(self._send_off(row, now))
        if self._used + self._least <= budget:
            for row, wanted in enumerate(self._wanted):
                if wanted or self._turned_off[row] or self._used + self._weight[row] > budget:
                    continue
                if row not in useless:
                    changes += self._call_back(row, now)
        return changes

    def dismiss(self, machine: int, now: float) -> list[CapacityChange]:
        """Switch off a machine that is not in the cluster; return what changes now."""
        return [self._send_off(machine, now)] if self._wanted[machine] else []

    def _some_stay_off(self, useless: Collection[int]) -> bool:
        """Return whether a useful machine is off for lack of power."""
        return any(
            not wanted and not self._turned_off[row] and row not in useless
            for row, wanted in enumerate(self._wanted)
        )

    def may_return(self, machine: int) -> bool:
        """Return whether a machine is switched on automatically when there is power for it."""
        return not self._turned_off[machine]

    def joins_at(self, machine: int, now: float) -> float:
        """Return when a machine that is wanted offers what it has, in s: now, or when booted."""
        switch = self.switches[machine]
        if switch.switch is Switch.ON:
            return now
        if switch.switch is Switch.BOOTING:
            return switch.next_change
        then = switch.next_change if switch.switch is Switch.SHUTTING_DOWN else now
        return then + switch.model.switching.boot

    def switch_off(self, machine: int, now: float) -> list[CapacityChange]:
        """Turn a machine off, as the policy asks; return what changes now."""
        self._turned_off[machine] = True
        return [self._send_off(machine, now)] if self._wanted[machine] else []

    def switch_on(self, machine: int, now: float, available_w: float) -> list[CapacityChange]:
        """Turn a machine on again, as the policy asks; return what changes now.

        Raises PolicyError if the power does not carry it.
        """
        if self._wanted[machine]:
            self._turned_off[machine] = False
            return []
        if self._used + self._weight[machine] > self.budget(available_w):
            raise PolicyError(
                f"machine {self.switches[machine].name!r} cannot be switched on at {now:.9g} s: "
                f"the {available_w:g} W that machines may draw are taken; wait for more power"
            )
        self._turned_off[machine] = False
        return self._call_back(machine, now)

    def settle(self, now: float, held: Floats) -> list[CapacityChange]:
        """Add machines that have booted, and shut down drained ones that are empty.

        Args:
            now: in s.
            held: (M, R) what tasks hold.
        """
        changes = []
        for row in sorted(self._draining):
            if not held[row].any():
                self._draining.discard(row)
                if self.switches[row].switch is Switch.ON:
                    self.switches[row].switch_off(now)
                    self._note(row)
        for row in sorted(self._under_way):
            switch = self.switches[row]
            if switch.settle(now) or switch.next_change == math.inf:
                self._under_way.discard(row)
                self._touched.add(row)
                if switch.switch is Switch.ON:
                    changes.append(self._joins(row, now))
                elif self._wanted[row]:  # it was called back while it shut down
                    changes += self._boot(row, now)
        return changes

    @property
    def unsettled(self) -> bool:
        """Whether anything drains, boots or shuts down."""
        return bool(self._draining or self._under_way)

    def take_touched(self) -> list[int]:
        """Return the machines whose own power may have changed since this was last asked."""
        touched = sorted(self._touched)
        self._touched.clear()
        return touched

    def _send_off(self, row: int, now: float) -> CapacityChange:
        self._wanted[row] = False
        self._used -= self._weight[row]
        self._draining.add(row)
        return CapacityChange(now, row, "down", POWER, fault=SWITCHED_OFF)

    def _call_back(self, row: int, now: float) -> list[CapacityChange]:
        self._wanted[row] = True
        self._used += self._weight[row]
        if row in self._draining:  # it has not gone yet
            self._draining.discard(row)
            if self.switches[row].switch is Switch.ON:
                return [self._joins(row, now)]
        if self.switches[row].switch is Switch.OFF:
            return self._boot(row, now)
        return []

    def _boot(self, row: int, now: float) -> list[CapacityChange]:
        self.switches[row].switch_on(now)
        self._note(row)
        return [self._joins(row, now)] if self.switches[row].switch is Switch.ON else []

    def _joins(self, row: int, now: float) -> CapacityChange:
        if not self._wanted[row]:
            self._draining.add(row)  # it was sent off while it booted: shut down at once
            return CapacityChange(now, row, "down", POWER, fault=SWITCHED_OFF)
        return CapacityChange(now, row, "up", POWER, fault=SWITCHED_OFF)

    def _note(self, row: int) -> None:
        self._touched.add(row)
        if self.switches[row].next_change < math.inf:
            self._under_way.add(row)
