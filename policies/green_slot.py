"""GreenSlot: tasks wait for green, cheap or clean power, as far as deadlines allow.

After I. Goiri, K. Le, M. E. Haque, R. Beauchea, T. D. Nguyen, J. Guitart, J. Torres and
R. Bianchini, "GreenSlot: scheduling energy consumption in green datacenters" (SC 2011). As there,
time is cut into slots, those of the forecast here; waiting tasks are taken by least slack (with
the order `least-slack`); each is put where the brown energy that it takes costs least, the green
energy of tasks before it counted as gone; a task that cannot be in time starts as early as
possible; and all that has not started is planned again at every decision. What is suspended and
cannot go on yet keeps its place and its green power (`simkit.policy.claims`). There is no penalty
for lateness to weigh against cost: being in time comes first.

With the signal `carbon` and a site without sources, it is the scheduling of P. Wiesner, I. Behnke,
D. Scheinert, K. Gontarska and L. Thamsen, "Let's wait awhile: how temporal workload shifting can
reduce carbon emissions in the cloud" (Middleware 2021): a task starts where the mean carbon
intensity over its run time is least. Their interruption is in `simkit.policies.green_parts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

import numpy as np

from simkit.errors import ScenarioError, did_you_mean
from simkit.policies.green_parts import GreenPartsPolicy
from simkit.policies.power_profile import next_start, site_power
from simkit.policies.slot_costs import SlotCosts, Wanted, planned_for, slot_problems
from simkit.policies.value_orders import LeastSlack, duration_s, last_start_s
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.lane import ChangingOrder, Lane, Order
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.power_view import Signals, declared_signals
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule
from simkit.policy.task import Allocation, Placement, Task, instances_on
from simkit.power.site import Site

MAX_DELAY = "24h"
_RULE = "backfill green-slot"


class GreenSlot:
    """The rule `green-slot`: as it decides about the head too, `compose` makes the policy.

    Args:
        max_delay: how long tasks may wait that have neither a deadline nor a quality of service
            below 1; a duration or seconds.
        signal: what brown power costs, and so which slot is best; see `SlotCosts`.
        interrupt: tasks may pause: each runs in the best slots before its deadline, whether or not
            they are adjacent, and order must be `least-slack`; see `simkit.policies.green_parts`.

    Raises ScenarioError with everything that is wrong with the arguments.
    """

    def __init__(
        self,
        max_delay: str | float = MAX_DELAY,
        signal: Wanted = "generation",
        *,
        interrupt: bool = False,
    ) -> None:
        problems: list[str] = []
        try:
            self.max_delay_s = duration_s("green-slot: max_delay", max_delay)
        except ScenarioError as error:
            problems += error.problems
        if signal not in (known := get_args(Wanted)):
            hint = did_you_mean(signal, known) if isinstance(signal, str) else ""
            problems.append(
                f"green-slot: signal is {signal!r}; it must be one of {', '.join(known)}"
            )
            problems[-1] += hint if "did you mean" in hint else ""
        if not isinstance(interrupt, bool):
            problems.append(f"green-slot: interrupt is {interrupt!r}; it must be true or false")
        if problems:
            raise ScenarioError(problems)
        self.max_delay = max_delay
        self.signal: Wanted = signal
        self.interrupt = interrupt

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> OrderedPolicy:
        """Return the policy of this rule with an order and a placement rule.

        Raises ScenarioError if tasks may pause and the order is not `least-slack`.
        """
        if not self.interrupt:
            return GreenSlotPolicy(order, self.max_delay_s, placement, self.signal)
        if not isinstance(order, LeastSlack):
            raise ScenarioError(
                f"{_RULE}: interrupt plans what has begun and what waits together, by least slack; "
                "write order: least-slack, or leave interrupt out"
            )
        return GreenPartsPolicy(order, self.max_delay_s, placement, self.signal)


class GreenSlotPolicy(OrderedPolicy):
    """Puts each task where it costs least and is in time; see the module's text.

    Args:
        order: which task is planned first; GreenSlot's own is `least-slack`.
        max_delay: see `GreenSlot`.
        placement: which machine first; None: the first that fits.
        signal: see `GreenSlot`.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        max_delay: str | float = MAX_DELAY,
        placement: PlacementRule | None = None,
        signal: Wanted = "generation",
    ) -> None:
        super().__init__(order, None, placement)
        rule = GreenSlot(max_delay, signal)
        self.max_delay_s, self.signal = rule.max_delay_s, rule.signal

    @property
    def signals(self) -> Signals | None:
        return declared_signals(self.order, reads={"generation", self.signal})

    def check_site(self, site: Site | None) -> list[str]:
        """Say what the site lacks; see `simkit.power.site.SiteChecker`."""
        return slot_problems(site, self.signal)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._planned_s: dict[Task, float] = {}

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`.

        Raises PolicyError if the scenario has no power section or no forecast.
        """
        power = site_power(state, _RULE)
        for lane in self._lanes:
            lane.update(state)
        if state.suspended:
            yield from resumptions(state, self.placement)
        self._planned_s.clear()
        if not state.queue:
            return
        profile, slots = state.profile(), SlotCosts(state, power, self.signal)
        claims = {lane: _claims(state, lane, slots) for lane in self._lanes if state.suspended}
        for _ in self._rounds(state):
            yield from self._plan(state, profile, slots, claims)
        yield from self._wake_at(state, next_start(state, self._planned_s.values()))

    def _plan(
        self, state: State, profile: Profile, slots: SlotCosts, of_lane: Mapping[Lane, Claims]
    ) -> Iterator[Place]:
        """Plan what waits and has no plan yet, in order; start what is planned for now."""
        for lane in self._lanes:
            claims = of_lane.get(lane)
            for entry in tuple(lane.entries):
                task = entry[3]
                if not task.waiting or task in self._planned_s:
                    continue
                if claims is not None:
                    claims.hold(profile, task.priority)
                found = self._best(state, task, profile, slots, lane.rule)
                while found is not None and found[0] <= state.now:
                    yield Place(task, found[1])
                    _take(task, *found, profile, slots)
                    # A bag: on with what is left of it.
                    found = self._best(state, task, profile, slots, lane.rule)
                if not task.waiting:
                    lane.drop(task)
                elif found is not None:
                    self._planned_s[task] = found[0]
                    _take(task, *found, profile, slots)

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
            return planned_for(self.signal, start)
        return super().why(state, task)


def _claims(state: State, lane: Lane, slots: SlotCosts) -> Claims:
    """Return the claims of what is suspended of a lane's partitions, which take green power too."""

    def take(allocation: Allocation, start: float) -> None:
        watts = slots.watts_of(allocation.task, allocation.count)
        slots.take_power(watts, start, start + allocation.left_s)

    return Claims(state, lane.rule, lane.partitions, held=take)


def _take(task: Task, start: float, on: Placement, profile: Profile, slots: SlotCosts) -> None:
    """Take room and green power of a task that starts, or is planned to."""
    profile.hold(task, on, start)
    watts = slots.watts_of(task, instances_on(on))
    slots.take_power(watts, start, start + task.estimate_s)
