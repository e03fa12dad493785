"""A battery with meters, and the balance of a ledger: what the tests of energy compare with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simkit.arrays import ExactSum
from simkit.power.battery import Battery
from simkit.power.ledger import POWERS


class MeteredBattery(Battery):
    """A battery that adds up, in J, what goes in and out at its terminals and what is lost."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._charged, self._discharged, self._lost = ExactSum(), ExactSum(), ExactSum()

    @property
    def charged_j(self) -> float:
        return self._charged.value

    @property
    def discharged_j(self) -> float:
        return self._discharged.value

    @property
    def losses_j(self) -> float:
        return self._lost.value

    def run(self, power_w: float, until: float) -> None:
        span, before_j, facts = until - self.time_s, self.energy_j, self.facts
        super().run(power_w, until)
        efficiency = facts.charge_efficiency if power_w > 0 else 1 / facts.discharge_efficiency
        stored_j = power_w * efficiency * span
        (self._charged if power_w > 0 else self._discharged).add(abs(power_w * span))
        self._lost.add(power_w * span - stored_j)
        if facts.self_discharge_per_day:
            self._lost.add(stored_j - (self.energy_j - before_j))


def imbalance(totals: Mapping[str, float]) -> float:
    """Return the share of the energy by which a ledger's totals fail to balance."""
    energies = [totals[f"{name.removesuffix('_w')}_j"] for name in POWERS]
    flowing = max(math.fsum(energies[:4]), math.fsum(energies[4:]))
    miss = math.fsum([*energies[:4], *(-energy for energy in energies[4:])])
    return abs(miss) / flowing if flowing else 0.0
