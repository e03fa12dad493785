"""A machine's switch: off, booting, on or shutting down, and what each of them draws.

    off ──switch_on──▶ booting ──boot_s──▶ on ──switch_off──▶ shutting down ──shutdown_s──▶ off

A plain object that takes times; whoever holds it calls `settle` at `next_change`.
"""

from __future__ import annotations

import math
from enum import Enum

from simkit.errors import PolicyError
from simkit.power_model import PowerModel


class Switch(Enum):
    """Where a machine stands."""

    OFF = "off"
    BOOTING = "booting"
    ON = "on"
    SHUTTING_DOWN = "shutting down"


class MachinePower:
    """The switch of one machine."""

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
        return self._begin(Switch.OFF, Switch.BOOTING, time_s, self.model.boot_s)

    def switch_off(self, time_s: float) -> float:
        """Begin to shut down; return the time in s at which it is off.

        Raises PolicyError unless it is on.
        """
        return self._begin(Switch.ON, Switch.SHUTTING_DOWN, time_s, self.model.shutdown_s)

    def settle(self, time_s: float) -> bool:
        """Be on or off if that time has come; return whether something changed."""
        if time_s < self.next_change:
            return False
        self.switch = Switch.ON if self.switch is Switch.BOOTING else Switch.OFF
        self.next_change = math.inf
        return True

    def standing_w(self) -> float:
        """Return the power in W that is nobody's: all of it but what jobs add."""
        if self.switch is Switch.OFF:
            return self.model.off_w
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
