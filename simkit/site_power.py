"""The site as policies see it at a decision: what `power_state.PowerState` promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simkit.power_state import Foreseen
from simkit.task import Task

if TYPE_CHECKING:
    from simkit.power_supply import PowerSupply

Floats = npt.NDArray[np.float64]


class SitePower:
    """The site as policies see it; has the properties of `power_state.PowerState`."""

    def __init__(self, supply: PowerSupply) -> None:
        self._supply = supply
        self._energy = supply.energy

    @property
    def generation_w(self) -> float:
        """See `PowerState.generation_w`."""
        return self._energy.generation_w

    @property
    def load_w(self) -> float:
        """See `PowerState.load_w`."""
        return self._supply.present_load_w()

    @property
    def available_w(self) -> float:
        """See `PowerState.available_w`."""
        return self._energy.available_w()

    @property
    def price_per_kwh(self) -> float:
        """See `PowerState.price_per_kwh`."""
        return self._energy.offer.price_per_kwh

    @property
    def carbon_gco2_per_kwh(self) -> float:
        """See `PowerState.carbon_gco2_per_kwh`."""
        return self._energy.offer.carbon_gco2_per_kwh

    @property
    def soc(self) -> float:
        """See `PowerState.soc`."""
        return 0.0 if self._energy.battery is None else self._energy.battery.soc

    @property
    def horizon_s(self) -> float:
        """See `PowerState.horizon_s`."""
        return self._supply.outlook.horizon_s

    @property
    def step_s(self) -> float:
        """See `PowerState.step_s`."""
        return self._supply.outlook.step_s

    def forecast(self, what: Foreseen) -> Floats:
        """See `PowerState.forecast`."""
        return self._supply.outlook.forecast(what, self._energy.time_s)

    def power_of(self, task: Task) -> float:
        """See `PowerState.power_of`."""
        return self._supply.watts_of(task)
