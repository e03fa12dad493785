"""What power costs in each slot of a forecast, and the green power that is left of each.

A slot is a step of the forecast. Slots lie on the run's clock: they are counted from its zero, or
from the first job if that comes earlier. So plans made at different decisions agree on them. Of
the present one, only the rest counts.
"""

from __future__ import annotations

from collections.abc import Container
from math import floor
from typing import Literal

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import PolicyError
from simkit.policy import State
from simkit.policy.power_view import PowerState
from simkit.policy.task import Allocation, Task
from simkit.power.site import Site, unmet_needs
from simkit.units import ENDLESS_S

Wanted = Literal["generation", "price", "carbon"]
"""generation: green power, then cheap brown power; price: the least cost; carbon: the least
carbon."""

_SAME = 1e-9  # costs that differ by less than this share are equal: the earlier one is taken


class SlotCosts:
    """Green power that is left in each slot of the forecast, and what a kWh of brown power costs.

    What the site draws without tasks, and what those that run draw until they are expected to
    end, is taken off the green power, which costs nothing. Beyond the forecast nothing is green,
    and brown power costs the mean of the forecast.

    Args:
        state: the system now.
        power: the site's power.
        signal: what brown power costs: its price, at least a little and, if it is not foreseen,
            the same in every slot (`generation`); its price, which may be negative (`price`); or
            its carbon (`carbon`).
        idle: running allocations whose power does not count: their future is to be planned.

    Raises PolicyError if the forecast does not cover the generation or the signal.
    """

    def __init__(
        self,
        state: State,
        power: PowerState,
        signal: Wanted = "generation",
        idle: Container[Allocation] = (),
    ) -> None:
        self._power = power
        self._now = state.now
        zero = min(0.0, state.info.first_submit_s)
        step = power.step_s or 1.0  # without a forecast, the next line says what is missing
        start = zero + floor((state.now - zero) / step) * step
        green = power.forecast("generation", start)
        steps = power.step_s * np.arange(len(green) + 1)
        self.edges: Floats = start + np.minimum(steps, power.horizon_s)
        """(K + 1,) where the slots begin and the last one ends, in s; the first begins now."""
        self.edges[0] = state.now
        self._widths: Floats = np.diff(self.edges)  # (K,)
        self._rates = self._expected(signal, start, len(green))  # (K + 1,)
        tasks_w = sum(power.power_of(a.task) * a.count / a.task.instances for a in state.running)
        self._green_w: Floats = green.copy()  # (K,)
        self._green_w -= max(power.load_w - tasks_w, 0.0)
        for allocation in state.running:
            if allocation not in idle:
                watts = self.watts_of(allocation.task, allocation.count)
                self.take_power(watts, state.now, max(allocation.expected_end_s, state.now))

    def _expected(self, signal: Wanted, start: float, slots: int) -> Floats:
        """Return (K + 1,): what a kWh of brown power costs in each slot, and beyond the last."""
        if signal != "generation":
            rates = self._power.forecast(signal, start)
            return np.append(rates, rates.mean())
        try:
            prices = self._power.forecast("price", start)
        except PolicyError:  # it is not foreseen: then every slot costs the same
            prices = np.full(slots, self._power.price_per_kwh)
        # Brown power that costs nothing must not be as good as green: it costs a little.
        prices = np.maximum(prices, 1e-6)
        return np.append(prices, prices.mean())

    def watts_of(self, task: Task, count: int) -> float:
        """Return what so many instances of a task add to the site's load, in W."""
        return self._power.power_of(task) * count / task.instances

    def by_cost(self, task: Task, last_s: float) -> list[float]:
        """Return the starts to choose from, the cheapest first and the earlier of equal ones.

        They are now, the beginning of each slot, and the last instant to be in time.
        """
        starts = self.edges[:-1][self.edges[:-1] <= last_s]
        if self._now < last_s < self.edges[-1]:
            starts = np.union1d(starts, [last_s])
        if not len(starts):
            return []
        duration_s = min(task.estimate_s, ENDLESS_S)
        ranks = _ranks(self._cost(self._power.power_of(task), starts, duration_s))
        chosen: list[float] = starts[np.lexsort((starts, ranks))].tolist()
        return chosen

    def cheapest_slots(self, watts: float) -> Ints:
        """Return (K,): the slots, the cheapest for a load first and the earlier of equal ones."""
        return np.argsort(_ranks(self._per_second(watts)[:-1]), kind="stable")

    def _per_second(self, watts: float) -> Floats:
        """Return (K + 1,): what a load's brown power costs, in W·rate, and beyond the last slot."""
        brown = np.clip(watts - np.maximum(self._green_w, 0.0), 0.0, None)
        per_second: Floats = np.append(brown, watts) * self._rates
        return per_second

    def _cost(self, watts: float, starts: Floats, duration_s: float) -> Floats:
        """Return (n,): what a task's brown energy costs from each start, in W·s·rate."""
        per_second = self._per_second(watts)
        total = np.concatenate(([0.0], np.cumsum(per_second[:-1] * self._widths)))  # at the edges
        return self._integral(starts + duration_s, total, per_second[-1]) - self._integral(
            starts, total, per_second[-1]
        )

    def _integral(self, times: Floats, total: Floats, beyond: float) -> Floats:
        inside = np.interp(times, self.edges, total)
        integral: Floats = inside + np.maximum(times - self.edges[-1], 0.0) * beyond
        return integral

    def take_power(self, watts: float, start: float, end: float) -> None:
        """Take green power of a load in ``[start, end)``."""
        overlap = np.minimum(end, self.edges[1:]) - np.maximum(start, self.edges[:-1])
        self._green_w -= watts * np.clip(overlap, 0.0, None) / self._widths


def slot_problems(site: Site | None, signal: Wanted) -> list[str]:
    """Return what a site lacks for plans by a signal; empty: nothing."""
    name = "policy.backfill: green-slot"
    if signal == "generation":
        return unmet_needs(site, name, forecast=["generation"])
    return unmet_needs(site, name, grid=[signal], forecast=["generation", signal])


def planned_for(signal: Wanted, start_s: float) -> str:
    """Return what a task waits for that is planned for a time in s."""
    power = "cleaner" if signal == "carbon" else "cheaper"
    return f"it is planned for {power} power, at {start_s:g} s"


def _ranks(costs: Floats) -> Floats:
    """Return costs on a grid relative to the largest, so that rounding does not settle ties."""
    scale = float(np.abs(costs).max()) * _SAME
    return np.round(costs / scale) if scale > 0 else np.zeros(len(costs))
