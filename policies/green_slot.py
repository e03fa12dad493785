"""GreenSlot: tasks wait for green power, then for cheap brown power, as far as deadlines allow.

After I. Goiri, K. Le, M. E. Haque, R. Beauchea, T. D. Nguyen, J. Guitart, J. Torres and
R. Bianchini, "GreenSlot: scheduling energy consumption in green datacenters" (SC 2011). As there,
time is cut into slots, those of the forecast here; waiting tasks are taken by least slack (with
the order `least-slack`); each is put where the brown energy that it takes costs least, the green
energy of tasks before it counted as gone; a task that cannot be in time starts as early as
possible; and all that has not started is planned again at every decision. There is no penalty for
lateness to weigh against cost: being in time comes first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.policies.power_profile import next_start, site_power
from simkit.policies.value_orders import duration_s, last_start_s
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.ordered import ChangingOrder, Order, OrderedPolicy, resumptions
from simkit.policy.power_view import PowerState
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule
from simkit.policy.task import Placement, Task, instances_on
from simkit.power.site import Site
from simkit.power.site_checks import unmet_needs

MAX_DELAY = "24h"
_SAME = 1e-9  # costs that differ by less than this share are equal: the earlier start is taken


class GreenSlot:
    """The rule `green-slot`: as it decides about the head too, `compose` makes the policy.

    Args:
        max_delay: how long tasks may wait that have neither a deadline nor a quality of service
            below 1; a duration or seconds.

    Raises ScenarioError unless the delay is above 0.
    """

    def __init__(self, max_delay: str | float = MAX_DELAY) -> None:
        self.max_delay = max_delay
        self.max_delay_s = duration_s("backfill green-slot: max_delay", max_delay)

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> GreenSlotPolicy:
        """Return the policy of this rule with an order and a placement rule."""
        return GreenSlotPolicy(order, self.max_delay_s, placement)


class GreenSlotPolicy(OrderedPolicy):
    """Puts each task where it costs least and is in time; see the module's text.

    Args:
        order: which task is planned first; GreenSlot's own is `least-slack`.
        max_delay: see `GreenSlot`.
        placement: which machine first; None: the first that fits.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        max_delay: str | float = MAX_DELAY,
        placement: PlacementRule | None = None,
    ) -> None:
        super().__init__(order, None, placement)
        self.max_delay_s = GreenSlot(max_delay).max_delay_s

    def check_site(self, site: Site | None) -> list[str]:
        """Say what the site lacks; see `simkit.power.site_checks.SiteChecker`."""
        return unmet_needs(site, "policy.backfill: green-slot", forecast=["generation"])

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._planned_s: dict[Task, float] = {}

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`.

        Raises PolicyError if the scenario has no power section or no forecast.
        """
        power = site_power(state, "backfill green-slot")
        for lane in self._lanes:
            lane.update(state)
        if state.suspended:
            yield from resumptions(state, self.placement)
        self._planned_s.clear()
        if not state.queue:
            return
        profile, slots = state.profile(), SlotCosts(state, power)
        for _ in self._rounds(state):
            yield from self._plan(state, profile, slots)
        yield from self._wake_at(state, next_start(state, self._planned_s.values()))

    def _plan(self, state: State, profile: Profile, slots: SlotCosts) -> Iterator[Place]:
        """Plan what waits and has no plan yet, in order; start what is planned for now."""
        for lane in self._lanes:
            for entry in tuple(lane.entries):
                task = entry[3]
                if not task.waiting or task in self._planned_s:
                    continue
                found = self._best(state, task, profile, slots, lane.rule)
                while found is not None and found[0] <= state.now:
                    yield Place(task, found[1])
                    slots.take(task, *found, profile)
                    # A bag: on with what is left of it.
                    found = self._best(state, task, profile, slots, lane.rule)
                if not task.waiting:
                    lane.drop(task)
                elif found is not None:
                    self._planned_s[task] = found[0]
                    slots.take(task, *found, profile)

    def _best(
        self,
        state: State,
        task: Task,
        profile: Profile,
        slots: SlotCosts,
        rule: PlacementRule | None,
    ) -> tuple[float, Placement] | None:
        """Return the cheapest start in time, and where; else the earliest of all."""
        if not task.waiting:
            return None
        last = last_start_s(task, self.max_delay_s)
        for start in slots.by_cost(task, last):
            if start <= state.now and state.fit(task, rule) is None:
                continue
            if (on := profile.fit(task, start, rule)) is not None:
                return start, on
        return profile.earliest(task, rule)

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        if (start := self._planned_s.get(task)) is not None:
            return f"it is planned for cheaper power, at {start:g} s"
        return super().why(state, task)


class SlotCosts:
    """Green power that is left in each slot of the forecast, and the price of brown power.

    What the site draws without tasks, and what those that run draw until they are expected to
    end, is taken off the green power. Beyond the forecast nothing is green, and the price is the
    mean of the forecast's.
    """

    def __init__(self, state: State, power: PowerState) -> None:
        self._power = power
        self._now, self._step_s = state.now, power.step_s
        green = power.forecast("generation")
        steps = np.arange(len(green) + 1, dtype=np.float64)
        self._edges: Floats = state.now + power.step_s * steps  # (K + 1,)
        self._prices = self._expected_prices(len(green))
        tasks_w = sum(power.power_of(a.task) * a.count / a.task.instances for a in state.running)
        self._green_w: Floats = green.copy()  # (K,)
        self._green_w -= max(power.load_w - tasks_w, 0.0)
        for allocation in state.running:
            share = allocation.count / allocation.task.instances
            watts = power.power_of(allocation.task) * share
            self._take(watts, state.now, max(allocation.expected_end_s, state.now))

    def _expected_prices(self, slots: int) -> Floats:
        """Return (K + 1,): the price per kWh in each slot, and beyond the last."""
        try:
            prices = self._power.forecast("price")
        except PolicyError:  # it is not foreseen: then every slot costs the same
            prices = np.full(slots, self._power.price_per_kwh)
        # Brown power that costs nothing must not be as good as green: it costs a little.
        prices = np.maximum(prices, 1e-6)
        return np.append(prices, prices.mean())

    def by_cost(self, task: Task, last_s: float) -> list[float]:
        """Return the starts to choose from, the cheapest first and the earlier of equal ones.

        They are now, the beginning of each slot, and the last instant to be in time.
        """
        starts = self._edges[:-1][self._edges[:-1] <= last_s]
        if self._now < last_s < self._edges[-1]:
            starts = np.union1d(starts, [last_s])
        if not len(starts):
            return []
        cost = self._cost(self._power.power_of(task), starts, task.estimate_s)
        # On a grid relative to the dearest, so that rounding does not settle ties.
        scale = float(cost.max()) * _SAME
        rank = np.round(cost / scale) if scale > 0 else np.zeros(len(cost))
        chosen: list[float] = starts[np.lexsort((starts, rank))].tolist()
        return chosen

    def _cost(self, watts: float, starts: Floats, duration_s: float) -> Floats:
        """Return (n,): what a task's brown energy costs from each start, in W·s·price."""
        brown = np.clip(watts - np.maximum(self._green_w, 0.0), 0.0, None)
        per_second = np.append(brown, watts) * self._prices  # (K + 1,)
        total = np.concatenate(([0.0], np.cumsum(per_second[:-1] * self._step_s)))  # at the edges
        return self._integral(starts + duration_s, total, per_second[-1]) - self._integral(
            starts, total, per_second[-1]
        )

    def _integral(self, times: Floats, total: Floats, beyond: float) -> Floats:
        inside = np.interp(times, self._edges, total)
        integral: Floats = inside + np.maximum(times - self._edges[-1], 0.0) * beyond
        return integral

    def take(self, task: Task, start: float, on: Placement, profile: Profile) -> None:
        """Take room and green power of a task that starts, or is planned to."""
        profile.hold(task, on, start)
        watts = self._power.power_of(task) * instances_on(on) / task.instances
        self._take(watts, start, start + task.estimate_s)

    def _take(self, watts: float, start: float, end: float) -> None:
        overlap = np.minimum(end, self._edges[1:]) - np.maximum(start, self._edges[:-1])
        self._green_w -= watts * np.clip(overlap, 0.0, None) / self._step_s
