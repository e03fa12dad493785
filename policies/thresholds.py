"""Waiting for clean or cheap power: tasks start while a signal is low, or when they must.

Temporal shifting of flexible work: P. Wiesner, I. Behnke, D. Scheinert, K. Gontarska and
L. Thamsen, "Let's wait awhile: how temporal workload shifting can reduce carbon emissions in the
cloud" (2021).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf, isfinite
from typing import Literal

import numpy as np

from simkit.errors import ScenarioError
from simkit.policies.orderings import duration_s, last_start_s
from simkit.policies.power_profile import site_power
from simkit.policy import Action, Place, State, SystemInfo, WakeAt
from simkit.policy.claims import Claims
from simkit.policy.declared import Signals, declared_signals
from simkit.policy.lane import ChangingOrder, Order
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.room import PlacementRule
from simkit.policy.state import PowerState
from simkit.policy.task import Task
from simkit.power.site import Site, unmet_needs

_UNITS = {"carbon": "g/kWh", "price": "the price of a kWh"}


class LowSignal:
    """When a signal counts as low; the rule behind `carbon-threshold` and `price-threshold`.

    Args:
        signal: which one.
        at_most: it is low at or below this number.
        percentile: it is low at or below this percentile, in [0, 100], of what the forecast
            expects of it. One of the two is given.
        max_delay: how long tasks may wait that have neither a deadline nor a quality of service
            below 1; a duration or seconds.

    Raises ScenarioError for invalid arguments, or if both or neither of the first two are given.
    """

    def __init__(
        self,
        signal: Literal["carbon", "price"],
        at_most: float | None = None,
        percentile: float | None = None,
        max_delay: str | float = "24h",
    ) -> None:
        rule = f"backfill {signal}-threshold"
        problems = []
        if (at_most is None) == (percentile is None):
            problems.append(
                f"{rule}: give at_most ({_UNITS[signal]}) or percentile (of the forecast), "
                f"{'not both' if at_most is not None else 'one of the two'}"
            )
        if at_most is not None and not (isinstance(at_most, (int, float)) and isfinite(at_most)):
            problems.append(f"{rule}: at_most is {at_most!r}; it must be a finite number")
        if percentile is not None and not (
            isinstance(percentile, (int, float)) and 0 <= percentile <= 100
        ):
            problems.append(f"{rule}: percentile is {percentile!r}; it must be in 0..100")
        if problems:
            raise ScenarioError(problems)
        self.signal: Literal["carbon", "price"] = signal
        self.at_most = at_most
        self.percentile = percentile
        self.max_delay = max_delay
        self.max_delay_s = duration_s(f"{rule}: max_delay", max_delay)

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> ThresholdPolicy:
        """Return the policy of this rule with an order and a placement rule."""
        return ThresholdPolicy(order, self, placement)

    def check_site(self, site: Site | None) -> list[str]:
        """Say why the signal cannot be waited for at a site; empty: it can."""
        foreseen = (self.signal,) if self.percentile is not None else ()
        name = f"policy.backfill: {self.signal}-threshold"
        return unmet_needs(site, name, grid=(self.signal,), forecast=foreseen)

    def is_low(self, power: PowerState) -> bool:
        """Return whether the signal is low now."""
        now = power.carbon_gco2_per_kwh if self.signal == "carbon" else power.price_per_kwh
        return now <= self.threshold(power)

    def threshold(self, power: PowerState) -> float:
        """Return what the signal must not exceed now.

        Raises PolicyError if it is a percentile and the scenario has no forecast of the signal.
        """
        if self.at_most is not None:
            return self.at_most
        assert self.percentile is not None
        return float(np.percentile(power.forecast(self.signal), self.percentile))

    def next_low_s(self, power: PowerState, now: float) -> float:
        """Return when the signal is foreseen to be low next, in s; inf: not foreseen."""
        if power.horizon_s <= 0:
            return inf
        low = np.flatnonzero(power.forecast(self.signal)[1:] <= self.threshold(power))
        return now + power.step_s * (1.0 + float(low[0])) if len(low) else inf


carbon_threshold = partial(LowSignal, "carbon")
"""The rule that lets tasks wait for a low carbon intensity of the grid, in g/kWh."""

price_threshold = partial(LowSignal, "price")
"""The rule that lets tasks wait for a low price of the grid, per kWh."""


class ThresholdPolicy(OrderedPolicy):
    """Starts tasks while a signal is low, and each at the latest when its slack is used up.

    A task may start while the signal is low, or once it must so as to be in time by its deadline,
    or else by its quality of service; tasks with neither wait at most for the rule's `max_delay`.
    Those that may are tried in order; the first that does not fit gets its earliest place in the
    availability profile, and those behind it start if they fit next to it. Suspended allocations
    are resumed first, whatever the signal, and keep their places (`simkit.policy.claims`).

    Args:
        order: which task comes first.
        low: when the signal is low.
        placement: which machine first; None: the first that fits.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        low: LowSignal,
        placement: PlacementRule | None = None,
    ) -> None:
        super().__init__(order, None, placement)
        self.low = low

    @property
    def signals(self) -> Signals | None:
        return declared_signals(self.order, reads={self.low.signal})

    def check_site(self, site: Site | None) -> list[str]:
        """Say what the site lacks; see `simkit.power.site.SiteChecker`."""
        return self.low.check_site(site)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._number = count()
        self._must: list[tuple[float, int, Task]] = []  # a heap: when each must start
        self._late: list[Task] = []  # that must have started

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`.

        Raises PolicyError if the scenario has no power section, or no forecast that is needed.
        """
        power = site_power(state, f"backfill {self.low.signal}-threshold")
        for lane in self._lanes:
            lane.update(state)
        if state.suspended:
            yield from resumptions(state, self.placement)
        self._note(state, 0)
        if not state.queue:
            return
        low = self.low.is_low(power)
        for first in self._rounds(state):
            if first:
                self._note(state, first)
            yield from self._start_tasks(state, low)
        yield from self._wake(state, power, low)

    def _note(self, state: State, first: int) -> None:
        """Note when tasks that arrived must start, and those that must start by now."""
        must = self._must
        for task in state.arrived[first:]:
            heappush(must, (self._must_start_s(task), next(self._number), task))
        while must and (must[0][0] <= state.now or not must[0][2].waiting):
            self._late.append(heappop(must)[2])
        self._late = [task for task in self._late if task.waiting]

    def _start_tasks(self, state: State, low: bool) -> Iterator[Place]:
        profile = None
        for lane in self._lanes:
            headless = True  # nothing has been found yet that does not fit
            claims = Claims(state, lane.rule, lane.partitions) if state.suspended else None
            for entry in tuple(lane.entries) if low else lane.in_order(self._late):
                task = entry[3]
                if not task.waiting or not (headless or state.fit(task, lane.rule)):
                    continue
                profile = profile or state.profile()
                if claims is not None:
                    claims.hold(profile, task.priority)
                on = profile.fit(task, state.now, lane.rule)
                if on is not None and state.fit(task, lane.rule):
                    yield Place(task, on)
                    profile.hold(task, on, state.now)
                    if not task.waiting:
                        lane.drop(task)
                        continue
                if headless and (found := profile.earliest(task, lane.rule)):
                    start, on = found
                    profile.hold(task, on, start)
                headless = False

    def _must_start_s(self, task: Task) -> float:
        return last_start_s(task, self.low.max_delay_s)

    def _wake(self, state: State, power: PowerState, low: bool) -> Iterator[WakeAt]:
        """Ask for a decision when a task must start, or when the signal is foreseen to be low."""
        if low or not state.queue:
            return
        soonest = self.low.next_low_s(power, state.now)
        if self._must:
            soonest = min(soonest, self._must[0][0])
        yield from self._wake_at(state, soonest)

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        must = self._must_start_s(task)
        if state.power is not None and must > state.now and not self.low.is_low(state.power):
            return f"it waits for a lower {self.low.signal}, until {must:g} s at the latest"
        return super().why(state, task)
