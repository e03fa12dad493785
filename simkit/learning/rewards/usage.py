"""Rewards for what is used: machines, and the energy of the site."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from simkit.errors import ScenarioError
from simkit.learning.rewards.base import AccruingReward, positive
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation
from simkit.power.ledger import Flows, site_rates
from simkit.workload import Workload


class UtilisationReward(AccruingReward):
    """The integral of the share of capacity in use, a mean over the resources.

    The sum over a run is that of (end - start) * mean over resources of (held / capacity) over all
    allocations, finished or not. Capacity is that of all machines at the start, so that a failure
    does not make the remaining machines worth more.

    Args:
        time_unit_s: what time is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        capacity = info.capacity.sum(axis=0)
        there = capacity > 0
        shares = np.zeros(len(capacity))
        shares[there] = 1.0 / (capacity[there] * max(there.sum(), 1) * self.time_unit_s)
        self._shares: list[float] = shares.tolist()  # (R,) reward per unit held and second

    def started(self, time_s: float, allocation: Allocation) -> None:
        self._advance(time_s)
        self._rate.add(self._share(allocation))

    def released(self, time_s: float, allocation: Allocation) -> None:
        self._advance(time_s)
        self._rate.add(-self._share(allocation))

    def _share(self, allocation: Allocation) -> float:
        return sum([a * s for a, s in zip(allocation.held, self._shares, strict=True)])


class EnergyReward(AccruingReward):
    """Minus an amount that flows with the site's energy, as the ledger counts it."""

    name: str

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        if not info.powered:
            raise ScenarioError(
                f"reward {self.name!r}: the scenario knows no energy; add a section `power`, or "
                "reward something else"
            )
        self._per_s = 0.0

    @abstractmethod
    def of_rates(self, cost_per_s: float, carbon_g_per_s: float) -> float:
        """Return the amount per second."""

    def _reward_per_s(self) -> float:
        return -self._per_s

    def flowing(self, time_s: float, flows: Flows) -> None:
        self._advance(time_s)
        rates = site_rates(dict(zip(Flows._fields, np.array(flows), strict=True)))
        self._per_s = self.of_rates(float(rates["cost_per_s"]), float(rates["carbon_g_per_s"]))


class EnergyCostReward(EnergyReward):
    """Minus the cost of the site's energy, in the currency of the prices.

    The integral of import * price + used generation * its price - export * its price, that of the
    metric `energy_cost`.
    """

    name = "energy-cost"

    def of_rates(self, cost_per_s: float, carbon_g_per_s: float) -> float:
        return cost_per_s


class CarbonReward(EnergyReward):
    """Minus the carbon of the site's energy, in kg of CO₂ equivalent.

    The integral of import * the grid's carbon intensity + used generation * its own, that of the
    metric `carbon_kg`.
    """

    name = "carbon"

    def of_rates(self, cost_per_s: float, carbon_g_per_s: float) -> float:
        return carbon_g_per_s / 1000.0
