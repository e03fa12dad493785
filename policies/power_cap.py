"""EASY backfilling under a power cap; and which running tasks stop first when power falls.

EASY as in `simkit.policies.easy`, with power as a further resource. Power-capped backfilling:
M. Etinski, J. Corbalan, J. Labarta and M. Valero, "Optimizing job performance under a given power
constraint in HPC centers" (2010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite

from simkit.errors import ScenarioError
from simkit.policies.orderings import SJF
from simkit.policies.power_profile import PowerProfile, earliest_with_power, next_start, site_power
from simkit.policy import Action, Place, State
from simkit.policy.claims import Claims
from simkit.policy.declared import Signals, declared_signals
from simkit.policy.lane import ChangingOrder, Lane, Order
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule
from simkit.policy.state import PowerState
from simkit.policy.task import Allocation, Placement, Task, at_most, instances_on
from simkit.power.site import Site, unmet_needs


class PowerCap:
    """The rule `power-cap`: as it decides about the head too, `compose` makes the policy.

    Args:
        cap_w: what the whole site may draw, in W: machines, what PUE adds to them, and critical
            load. None: what sources, grid and battery can give, now and, with a forecast, later.

    Raises ScenarioError unless the cap is above 0.
    """

    def __init__(self, cap_w: float | None = None) -> None:
        if cap_w is not None and not (isinstance(cap_w, (int, float)) and 0 < cap_w < inf):
            raise ScenarioError(
                f"power-cap: cap_w is {cap_w!r}; it must be above 0, in W, "
                "or be left out for the power that is available"
            )
        self.cap_w = cap_w

    def compose(
        self, order: Order | ChangingOrder, placement: PlacementRule | None = None
    ) -> PowerCapPolicy:
        """Return the policy of this rule with an order and a placement rule."""
        return PowerCapPolicy(order, self.cap_w, placement)


class PowerCapPolicy(OrderedPolicy):
    """EASY in which a task starts only if the site's load stays at or below a cap.

    It plans with what machines draw: a cap of the site is turned into what it leaves to machines,
    because the power of tasks adds up there, whatever the PUE.

    Tasks are tried in order. What has room and power from now on, through its estimate, starts.
    The first that has not is the head: it gets the earliest place at which it has both, and those
    behind it start if they have room and power next to it. Suspended allocations are resumed
    first, whatever the cap: their power was granted before. Room and power of those that cannot go
    on yet are kept (`simkit.policy.claims`).

    Args:
        order: which task comes first.
        cap_w: see `PowerCap`.
        placement: which machine first; None: the first that fits.
    """

    def __init__(
        self,
        order: Order | ChangingOrder,
        cap_w: float | None = None,
        placement: PlacementRule | None = None,
    ) -> None:
        super().__init__(order, None, placement)
        self.cap_w = PowerCap(cap_w).cap_w

    @property
    def holds_back(self) -> str:
        """Why jobs may wait to the end of a run, and the remedy."""
        if self.cap_w is None:
            cap, remedy = "what sources, grid and battery give", "raise the grid's import_limit_w"
        else:
            cap, remedy = f"its cap_w of {self.cap_w:,.10g} W", "raise cap_w"
        return (
            f"backfill power-cap starts a job only if the site's load stays within {cap}, and what "
            f"waits needs more power than that leaves; {remedy}, or make the jobs smaller"
        )

    def check_site(self, site: Site | None) -> list[str]:
        """Say what the site lacks; see `simkit.power.site.SiteChecker`."""
        name = "policy.backfill: power-cap"
        if site is not None and self.cap_w is None and site.grid.import_limit_w == inf:
            return [
                f"{name}: it has no cap_w, and power.grid has no import_limit_w, so that nothing "
                "would be capped; give one of the two"
            ]
        return unmet_needs(site, name)

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`.

        Raises PolicyError if the scenario has no power section.
        """
        power = site_power(state, "backfill power-cap")
        for lane in self._lanes:
            lane.update(state)
        if state.suspended:
            yield from resumptions(state, self.placement)
        for _ in self._rounds(state):
            yield from self._start_tasks(state, power)

    def _start_tasks(self, state: State, power: PowerState) -> Iterator[Action]:
        if not state.queue:
            return
        profile, watts = state.profile(), self._watts(state, power)
        heads = []
        for lane in self._lanes:
            headless = True  # nothing has been found yet that does not fit
            claims = _claims(state, lane, watts) if state.suspended else None
            for entry in tuple(lane.entries):
                task = entry[3]
                if not task.waiting:
                    continue
                if claims is not None:
                    claims.hold(profile, task.priority)
                if on := _fit_now(state, task, profile, watts, lane.rule):
                    yield Place(task, on)
                    profile.hold(task, on, state.now)
                    watts.take(task, instances_on(on), state.now)
                    if not task.waiting:
                        lane.drop(task)
                        continue
                if headless and (found := earliest_with_power(profile, watts, task, lane.rule)):
                    start, on = found
                    profile.hold(task, on, start)
                    watts.take(task, instances_on(on), start)
                    heads.append(start)
                headless = False
        yield from self._wake_at(state, next_start(state, heads))

    @property
    def signals(self) -> Signals | None:
        return declared_signals(self.order, reads={"available"})

    def _watts(self, state: State, power: PowerState) -> PowerProfile:
        if self.cap_w is not None:
            return PowerProfile(state, power, power.machines_within(self.cap_w))
        most_w = power.available_w
        if power.horizon_s <= 0 or not isfinite(most_w):
            return PowerProfile(state, power, most_w)
        return PowerProfile(state, power, most_w, power.forecast("available"))


def _claims(state: State, lane: Lane, watts: PowerProfile) -> Claims:
    """Return the claims of what is suspended of a lane's partitions, which take power as well."""

    def take(allocation: Allocation, start: float) -> None:
        watts.take(allocation.task, allocation.count, start, allocation.left_s)

    return Claims(state, lane.rule, lane.partitions, held=take)


def _fit_now(
    state: State, task: Task, profile: Profile, watts: PowerProfile, rule: PlacementRule | None
) -> Placement | None:
    """Return where a task has room and power from now on; a bag perhaps not all of it."""
    if state.fit(task, rule) is None:
        return None
    count = watts.most(task, state.now)
    if not count or (on := profile.fit(task, state.now, rule)) is None:
        return None
    return on if task.gang else at_most(on, count)


def victims_by(order: Order | ChangingOrder, state: State) -> Sequence[Allocation]:
    """Return what runs, in the order in which it is to be stopped.

    Whatever an order would start last is stopped first, of equal ones the youngest: by QoS the
    lowest QoS first, by highest value the lowest value first, by first come the latest come
    first. By shortest job the longest *remaining* first. An order that changes with time says
    nothing about what runs; then the lowest value density goes first. Partitions of low priority
    come before those of high priority.
    """
    rank = _rank(order, state.now)
    return sorted(state.running, key=lambda a: (-a.task.priority, rank(a), a.rank), reverse=True)


def _rank(order: Order | ChangingOrder, now: float) -> Callable[[Allocation], float]:
    if isinstance(order, SJF):
        return lambda allocation: allocation.expected_end_s - now
    key: Callable[[Task], float] | None = getattr(order, "key", None)
    if key is None:
        return lambda allocation: -allocation.task.value_density
    return lambda allocation: key(allocation.task)
