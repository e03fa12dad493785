"""Power over future time, to plan in: what machines may still draw, and what it costs.

`SlotCosts` has what power costs in each slot of a forecast, and the green power that is left of
each. A slot is a step of the forecast. Slots lie on the run's clock: they are counted from its
zero, or from the first job if that comes earlier. So plans made at different decisions agree on
them. Of the present one, only the rest counts.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import pairwise
from math import ceil, floor, inf
from typing import Literal

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import PolicyError
from simkit.policy import State
from simkit.policy.profile import PoolProfile, Profile
from simkit.policy.room import PlacementRule
from simkit.policy.state import PowerState
from simkit.policy.task import Allocation, Placement, Task
from simkit.power.site import Site, unmet_needs
from simkit.units import ENDLESS_S, TIME_GRID

_ALL: Placement = ((0, 1),)
_GRID_W = 2.0**-10
_MOST_W = 2.0**40
_MOMENT_S = 1.0


def site_power(state: State, policy: str) -> PowerState:
    """Return the site's power.

    Raises PolicyError if the scenario has none.
    """
    if state.power is None:
        raise PolicyError(
            f"{policy}: it decides by the site's power, but the scenario has none; "
            "add a section power:, or take another policy"
        )
    return state.power


class PowerProfile:
    """Watts of machines below a cap, from now on: what runs gives its own back when it ends.

    All powers are those of machines, without PUE and critical load. They lie on a grid of about a
    milliwatt. The power of a task is rounded down when it takes it and up when it gives it back,
    so that what fits exactly fits in spite of rounding.

    Args:
        state: the system now.
        power: the site's power.
        cap_w: what machines may draw, in W; where that is foreseen to change, in the first step.
        later_w: (K,) the same in each step of the forecast; None: it stays as it is.
    """

    def __init__(
        self, state: State, power: PowerState, cap_w: float, later_w: Floats | None = None
    ) -> None:
        self._power = power
        self._watts: dict[Task, float] = {}
        now, soon = state.now, state.now + TIME_GRID
        changes = []
        for end, _, allocation in state.expected_ends:
            back = self.watts_of(allocation.task, allocation.count)
            changes.append((max(end, soon), (_on_grid(ceil(back / _GRID_W) * _GRID_W),)))
        caps = [cap_w] if later_w is None else [cap_w, *later_w.tolist()[1:]]  # the first is now
        for k, (before, cap) in enumerate(pairwise(caps), 1):
            changes.append((now + k * power.step_s, (_on_grid(cap - before),)))
        self._below = PoolProfile(now, [_on_grid(cap_w - power.machines_w)], changes)

    def watts_of(self, task: Task, count: int | None = None) -> float:
        """Return what `count` instances of a task add to the machines' power, in W; None: all."""
        if task not in self._watts:
            self._watts[task] = self._power.machine_power_of(task)
        watts = self._watts[task]
        return watts if count is None else watts * (count / task.instances)

    def take(self, task: Task, count: int, start: float, left_s: float | None = None) -> None:
        """Take the power of `count` instances of a task from a time on, until they end.

        They run for `left_s`; None: for the task's estimate.
        """
        watts = _rounded_down(self.watts_of(task, count))
        left_s = task.estimate_s if left_s is None else left_s
        self._below.take(_ALL, (watts,), start, start + left_s)

    def most(self, task: Task, start: float) -> int:
        """Return how many waiting instances have power through ``[start, start + estimate)``."""
        each = self.watts_of(task) / task.instances
        if each <= 0:
            return task.remaining
        found = self._below.fit(_need(task, each, task.remaining, gang=False), start)
        count = 0 if found is None else found[0][1]
        return count if not task.gang or count >= task.instances else 0

    def earliest(self, task: Task, after: float) -> float | None:
        """Return the first time from which a task has power: all of a gang, one of a bag."""
        count = task.instances if task.gang else 1
        watts = self.watts_of(task, count)
        found = self._below.earliest(_need(task, watts, 1, gang=True), None, after)
        return None if found is None else found[0]


def earliest_with_power(
    profile: Profile, watts: PowerProfile, task: Task, rule: PlacementRule | None
) -> tuple[float, Placement] | None:
    """Return the first instant from which a task has both room and power, and where; or None."""
    after: float | None = None
    while True:
        found = profile.earliest(task, rule, after)
        if found is None:
            return None
        start = watts.earliest(task, found[0])
        if start is None:
            return None
        if start == found[0]:
            return start, found[1]
        after = start


def _need(task: Task, watts: float, instances: int, *, gang: bool) -> Task:
    """Return a stand-in that asks for power where tasks ask for resources."""
    return Task(
        task.index, task.job_index, task.submit_time_s, (_rounded_down(watts),), instances, gang,
        estimate_s=task.estimate_s,
    )  # fmt: skip


def _on_grid(watts: float) -> float:
    """Return watts on the grid. No power is more than `_MOST_W`: sums with infinity are NaN."""
    return round(min(watts, _MOST_W) / _GRID_W) * _GRID_W


def _rounded_down(watts: float) -> float:
    return floor(min(watts, _MOST_W) / _GRID_W) * _GRID_W


def next_start(state: State, starts: Iterable[float]) -> float:
    """Return the first of some planned starts that is worth a wake-up, in s; inf: none.

    While a task runs past its estimate, it is expected to end any moment. What is planned for
    that moment starts when it does end, which causes a decision anyway; to ask again a tick
    later, and again, would not make it earlier.
    """
    ends = state.expected_ends
    overdue = bool(ends) and ends[0][0] <= state.now
    least = state.now + (_MOMENT_S if overdue else 0.0)
    return min([start for start in starts if start > least], default=inf)


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
        """Return what `count` instances of a task add to the site's load, in W."""
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
