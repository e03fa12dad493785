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
intensity over its run time is least.

With interruption (section 4 of theirs), tasks run in the best slots before their deadline, else
they pause. Of the slots until a task must have ended, it takes the cheapest that it needs, whether
or not they are adjacent; in the dearest of these it runs only for as long as the others do not
suffice. What has begun and what waits is planned together at every decision, by least slack: the
time for which it may still pause. What runs now and is planned for later is suspended, keeps its
work, and is resumed in its next slot. A task that has too few slots to be in time runs as early as
possible.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple, get_args

import numpy as np

from simkit.errors import ScenarioError, did_you_mean
from simkit.policies.orderings import LeastSlack, duration_s, last_start_s
from simkit.policies.power_profile import (
    SlotCosts,
    Wanted,
    next_start,
    planned_for,
    site_power,
    slot_problems,
)
from simkit.policy import Action, Place, Resume, State, Suspend, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.declared import Signals, declared_signals
from simkit.policy.lane import ChangingOrder, Lane, Order
from simkit.policy.ordered import OrderedPolicy, resumptions
from simkit.policy.profile import Profile
from simkit.policy.room import PlacementRule
from simkit.policy.task import Allocation, Placement, Task, instances_on
from simkit.power.site import Site
from simkit.units import ENDLESS_S, TIME_GRID

MAX_DELAY = "24h"
_RULE = "backfill green-slot"


class GreenSlot:
    """The rule `green-slot`: as it decides about the head too, `compose` makes the policy.

    Args:
        max_delay: how long tasks may wait that have neither a deadline nor a quality of service
            below 1; a duration or seconds.
        signal: what brown power costs, and so which slot is best; see `SlotCosts`.
        interrupt: tasks may pause: each runs in the best slots before its deadline, whether or not
            they are adjacent, and order must be `least-slack`; see `simkit.policies.green_slot`.

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
        claims = {
            lane: _claims(state, slots, lane.rule, lane.partitions)
            for lane in self._lanes
            if state.suspended
        }
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


def _claims(
    state: State, slots: SlotCosts, rule: PlacementRule | None,
    partitions: Container[int] | None = None, but: Container[Allocation] = (),
) -> Claims:  # fmt: skip
    """Return the claims of what is suspended, as `Claims` has them; they take green power too."""

    def take(allocation: Allocation, start: float) -> None:
        watts = slots.watts_of(allocation.task, allocation.count)
        slots.take_power(watts, start, start + allocation.left_s)

    return Claims(state, rule, partitions, but=but, held=take)


def _take(task: Task, start: float, on: Placement, profile: Profile, slots: SlotCosts) -> None:
    """Take room and green power of a task that starts, or is planned to."""
    profile.hold(task, on, start)
    watts = slots.watts_of(task, instances_on(on))
    slots.take_power(watts, start, start + task.estimate_s)


@dataclass(frozen=True)
class Work:
    """Instances that are planned together: those that wait of a task, or an allocation."""

    task: Task
    count: int
    """Instances."""
    left_s: float
    """Run time that is left, by the estimate, in s."""
    due_s: float
    """When it should have ended, in s on the trace's clock."""
    begun: Allocation | None = None
    """Running or suspended; None: it waits."""

    def as_task(self, duration_s: float, machines: tuple[int, ...] | None) -> Task:
        """Return a stand-in that asks for its room for so long, on these machines alone."""
        task = self.task
        return Task(
            task.index, task.job_index, task.submit_time_s, task.request, self.count,
            task.gang or self.begun is not None, duration_s, partition=task.partition,
            priority=task.priority, machines=machines,
        )  # fmt: skip


class Part(NamedTuple):
    """A time in which work is planned to run, in s, and where."""

    start_s: float
    end_s: float
    on: Placement


class GreenPartsPolicy(GreenSlotPolicy):
    """Runs each task in the best slots before its deadline; see the module's text.

    Args:
        order: least slack first; says whether tasks that can no longer be in time come last.
        max_delay: see `GreenSlot`, as for the next two; tasks that may wait so long should end so
            much after they would if they started at once.
        placement: which machine first; None: the first that fits.
        signal: what brown power costs.
    """

    order: LeastSlack

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._paused: dict[Allocation, float] = {}  # by this policy: the run time that is left

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`.

        Raises PolicyError if the scenario has no power section or no forecast.
        """
        power = site_power(state, _RULE)
        for lane in self._lanes:
            lane.update(state)
        self._paused = {a: left for a, left in self._paused.items() if a in state.suspended}
        # What the power supply or maintenance has suspended does not wait for a better slot.
        yield from resumptions(state, self.placement, self._paused)
        self._planned_s.clear()
        begun = self._begun(state)
        if not (begun or state.queue):
            return
        running = [w.begun for w in begun if w.begun and w.begun not in self._paused]
        profile = state.profile()
        slots = SlotCosts(state, power, self.signal, idle=running)
        for allocation in running:
            request, until = allocation.task.request, allocation.expected_end_s
            profile.give(allocation.on, request, state.now, until)
        plan = Plan(state.now, profile, slots, self.placement)
        # What this policy has paused itself is planned with all other work.
        paused_by_others = len(state.suspended) > len(self._paused)
        claims = (
            _claims(state, slots, self.placement, but=self._paused) if paused_by_others else None
        )
        for first in self._rounds(state):
            waiting = state.arrived[first:] if first else state.queue
            todo = [*([] if first else begun), *(self._waiting(t) for t in waiting if t.waiting)]
            todo.sort(key=lambda work: self._rank(state, work))
            yield from self._act(state, plan, todo, claims)
        yield from self._wake_at(state, next_start(state, plan.changes))

    def _begun(self, state: State) -> list[Work]:
        """Return what runs, unless it overruns its estimate, and what this policy has paused."""
        now = state.now
        left = {a: a.expected_end_s - now for a in state.running}
        return [
            Work(a.task, a.count, _on_grid(seconds), self._due_s(a.task), a)
            for a, seconds in (*left.items(), *self._paused.items())
            if seconds > TIME_GRID or a in self._paused
        ]

    def _waiting(self, task: Task) -> Work:
        left = _on_grid(max(task.estimate_s, TIME_GRID))
        return Work(task, task.remaining, left, self._due_s(task))

    def _due_s(self, task: Task) -> float:
        estimate_s = min(max(task.estimate_s, TIME_GRID), ENDLESS_S)
        return last_start_s(task, self.max_delay_s) + _on_grid(estimate_s)

    def _rank(self, state: State, work: Work) -> tuple[float, bool, float, int, int]:
        """Return a key: partitions' priority, then least slack, then submission."""
        slack = work.due_s - min(work.left_s, ENDLESS_S) - state.now
        late = self.order.hopeless_last and slack < 0
        rank = work.begun.rank if work.begun is not None else -1
        return -work.task.priority, late, slack, work.task.index, rank

    def _act(
        self, state: State, plan: Plan, todo: Iterable[Work], claims: Claims | None
    ) -> Iterator[Action]:
        """Plan work in turn; then suspend, resume and start what the plan says of now."""
        starts: list[tuple[Work, Placement]] = []
        for each in todo:
            if claims is not None:
                claims.hold(plan.profile, each.task.priority)
            rest: Work | None = each
            while rest is not None:
                work, rest = rest, None
                if not (parts := plan.parts(work)):
                    continue  # it never fits
                on = parts[0].on if parts[0].start_s <= state.now else None
                if work.begun is not None and work.begun not in self._paused:
                    if on == work.begun.on:
                        continue
                    self._paused[work.begun] = work.left_s
                    yield Suspend(work.begun)
                if on is None:
                    self._planned_s.setdefault(work.task, parts[0].start_s)
                else:
                    starts.append((work, on))
                    rest = _rest(work, on)
        for work, on in starts:
            if not state.room.copy().claim(on, work.task.request):
                continue  # what is overdue still holds it; the next decision is when it ends
            if work.begun is None:
                yield Place(work.task, on)
            else:
                del self._paused[work.begun]
                yield Resume(work.begun, on)


class Plan:
    """What runs when: takes room and green power in the order in which it is asked.

    Args:
        now: in s.
        profile: free resources over future time, as if nothing ran that is to be planned.
        slots: what power costs.
        rule: which machine first.
    """

    def __init__(
        self, now: float, profile: Profile, slots: SlotCosts, rule: PlacementRule | None
    ) -> None:
        self._now, self._slots, self._rule = now, slots, rule
        self.profile = profile
        """What is free beside all that is planned."""
        self.changes: list[float] = []
        """When something is planned to start, to pause or to continue, in s."""

    def parts(self, work: Work) -> list[Part]:
        """Return when work runs, and take what it needs; empty: it never fits."""
        parts = self._cheapest(work) or self._earliest(work)
        for start, end, on in parts:
            self.profile.take(on, work.task.request, start, end)
            self._slots.take_power(self._slots.watts_of(work.task, instances_on(on)), start, end)
        together = _together(parts)
        self.changes += [start for start, _ in together if start > self._now]
        self.changes += [end for _, end in together[:-1]]
        return parts

    def _cheapest(self, work: Work) -> list[Part]:
        """Return the cheapest slots in which work is done in time; empty: there are too few."""
        edges, missing = self._slots.edges.tolist(), work.left_s
        if missing > min(edges[-1], work.due_s) - self._now:
            return []
        chosen: dict[int, Part] = {}
        for k in self._slots.cheapest_slots(self._slots.watts_of(work.task, work.count)).tolist():
            start, end = edges[k], min(edges[k + 1], work.due_s)
            if start >= end or (on := self._fit(work, start, end - start)) is None:
                continue
            chosen[k] = Part(start, end, on)
            missing -= end - start
            if missing <= 0:
                # The dearest is needed in part: the part next to one that follows.
                cut = (start - missing, end) if k + 1 in chosen else (start, end + missing)
                chosen[k] = Part(*cut, on)
                return [chosen[row] for row in sorted(chosen)]
        return []

    def _earliest(self, work: Work) -> list[Part]:
        """Return the first time in which work is done at a stretch; empty: there is none."""
        on = self._fit(work, self._now, work.left_s)
        start = self._now
        if on is None:
            stand_in = work.as_task(work.left_s, self._machines(work))
            found = self.profile.earliest(stand_in, self._rule)
            if found is None:
                return []
            start, on = found
        return [Part(start, start + work.left_s, on)]

    def _fit(self, work: Work, start: float, duration_s: float) -> Placement | None:
        """Return where work fits for a time; what runs now stays where it is."""
        begun, machines = work.begun, self._machines(work)
        if start > self._now or begun is None:
            return self.profile.fit(work.as_task(duration_s, machines), start, self._rule)
        own = tuple(machine for machine, _ in begun.on)
        if self.profile.fit(work.as_task(duration_s, own), start, self._rule) is not None:
            return begun.on
        return self.profile.fit(work.as_task(duration_s, machines), start, self._rule)

    def _machines(self, work: Work) -> tuple[int, ...] | None:
        """Return the machines on which work may run: instances of a bag do not move."""
        if work.begun is not None and not work.task.gang:
            return tuple(machine for machine, _ in work.begun.on)
        return work.task.machines


def _rest(work: Work, on: Placement) -> Work | None:
    """Return what is left of a waiting bag when some of its instances start; None: nothing."""
    count = work.count - instances_on(on)
    return Work(work.task, count, work.left_s, work.due_s) if count else None


def _together(parts: list[Part]) -> list[tuple[float, float]]:
    """Return (start, end) of the times in which parts follow each other without a gap."""
    spans: list[tuple[float, float]] = []
    for start, end, _ in parts:
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _on_grid(seconds: float) -> float:
    """Return a duration in s, rounded up to the grid of time; infinite stays so."""
    return ceil(seconds / TIME_GRID) * TIME_GRID if seconds < inf else seconds
