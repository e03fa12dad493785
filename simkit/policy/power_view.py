"""What a policy may know of the site's power: now, and within the forecast's horizon."""

from __future__ import annotations

from typing import Literal, Protocol

from simkit.arrays import Floats
from simkit.policy.task import Task

Foreseen = Literal["generation", "available", "price", "carbon"]
"""generation: of all sources, W. available: what machines may draw, W: sources, grid and battery
less critical load, over PUE, as if all machines were busy. price: per kWh. carbon: g/kWh."""


class PowerState(Protocol):
    """The site at a decision instant; read-only."""

    @property
    def generation_w(self) -> float:
        """What all sources give now."""

    @property
    def load_w(self) -> float:
        """What the site draws now, with critical load and PUE."""

    @property
    def machines_w(self) -> float:
        """What machines draw of it, without PUE and critical load."""

    @property
    def available_w(self) -> float:
        """What machines may draw now; infinite with an unlimited grid."""

    @property
    def price_per_kwh(self) -> float:
        """The grid's price now."""

    @property
    def carbon_gco2_per_kwh(self) -> float:
        """The grid's carbon intensity now."""

    @property
    def soc(self) -> float:
        """State of charge of the battery, 0..1; 0 without one."""

    @property
    def horizon_s(self) -> float:
        """How far the forecast reaches; 0 without one."""

    @property
    def step_s(self) -> float:
        """Length of a forecast's step."""

    def forecast(self, what: Foreseen, start_s: float | None = None) -> Floats:
        """Return (horizon / step,) the means expected of the steps from now on.

        With `start_s`, an instant up to now in s, the forecast is the one issued then, so that
        steps may lie on the clock. Asked again at the same instant it is the same. Raises
        PolicyError if the scenario has no forecast, or none of this, or for a start after now.
        """

    def power_of(self, task: Task) -> float:
        """Return what a task adds to the site's load when all its instances run, in W, with PUE."""

    def machine_power_of(self, task: Task) -> float:
        """Return what a task adds to `machines_w` when all its instances run, in W."""

    def machines_within(self, site_w: float) -> float:
        """Return what machines may draw so that the site draws `site_w` in all, in W; at least 0.

        It is what critical load, as it is now, and the PUE leave.
        """
