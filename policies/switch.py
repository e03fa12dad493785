"""Switching: several policies, one after the other, each from an instant on.

    policy: {start: easy, switch: [{at: 30d, to: sjf+easy}]}

The first policy decides as if it were alone, up to the instant of the first change; there the next
one decides, and so on. A change is a decision of its own, also where nothing else happens then.

At a change, the queue stays as it is, and all of it is new to the policy that begins, which is
reset as at the beginning of a run. Reservations of the policy that ends are taken back: their tasks
return to their places in the queue. What runs goes on, and what is suspended stays so until the new
policy resumes it. Machines, battery and grid stay as they are. Estimates that learn go on
learning. What a policy has learned or promised earlier in the run, another one does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, cast

import numpy as np

from simkit.errors import ScenarioError
from simkit.policies.lookahead import AllArrived
from simkit.policy import Action, Cancel, Policy, State, SystemInfo
from simkit.policy.declared import (
    PolicyMetric,
    Signals,
    declared_metrics,
    declared_signals,
    reads_estimates,
)
from simkit.policy.task import Allocation, Task
from simkit.units import instant_on_grid


class Switching:
    """Decides by one policy after the other.

    Args:
        policies: at least one; the first decides first. Each is another object.
        changes: from when on each of the others decides, ascending: seconds after the first
            submission, or a date with a zone.

    Raises ScenarioError for other numbers of policies, and in `reset` for a date in a run whose log
    does not tell when it began, and for changes out of order.
    """

    def __init__(self, policies: Sequence[Policy], changes: Sequence[float | datetime]) -> None:
        if len(policies) != len(changes) + 1:
            raise ScenarioError(
                f"switch: {len(policies)} policies and {len(changes)} changes; there is a change "
                "before each policy but the first"
            )
        self.policies = list(policies)
        self.changes = list(changes)
        if all(hasattr(policy, "victims") for policy in self.policies):
            self.victims = self._victims

    @property
    def signals(self) -> Signals | None:
        """Signals that the policies read; None if one declares none."""
        return declared_signals(*self.policies)

    @property
    def reads_estimates(self) -> bool:
        """Whether one of the policies reads estimates."""
        return reads_estimates(*self.policies)

    @property
    def metrics(self) -> tuple[PolicyMetric, ...]:
        """Metrics that the policies bring."""
        return declared_metrics(*self.policies)

    @property
    def preempts(self) -> bool:
        """Whether all of the policies do what partitions say of preemption."""
        return all(getattr(policy, "preempts", False) for policy in self.policies)

    def check_scenario(self, scenario: Any) -> list[str]:
        """Return what of a `Scenario` its policies do not schedule, a line each."""
        return list(self._of_policies("check_scenario", scenario))

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why a policy cannot schedule a cluster, or begin at a date, a line each."""
        problems = list(self._of_policies("check_cluster", info))
        try:
            self._on_clock(info)
        except ScenarioError as error:
            problems += error.problems
        return problems

    def check_site(self, site: Any) -> list[str]:
        """Return why a policy cannot schedule a site, a line each."""
        problems = list(self._of_policies("check_site", site))
        choosing = [hasattr(policy, "victims") for policy in self.policies]
        if any(choosing) and not all(choosing):
            problems.append(
                "policy.switch: one policy chooses which tasks stop when the power falls, and "
                "another does not; take policies that all do, or none"
            )
        return problems

    def _of_policies(self, method: str, subject: Any) -> Iterator[str]:
        """Yield what a method of the policies finds, with their places in the scenario."""
        for row, policy in enumerate(self.policies):
            place = f"policy.switch.{row - 1}.to" if row else "policy.start"
            for text in getattr(policy, method, lambda _: [])(subject):
                placed = text if text.startswith("policy") else f"policy: {text}"
                yield placed.replace("policy", place, 1)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self._info, self._rng = info, deepcopy(rng)
        self.switch_times_s = self._on_clock(info)
        """When the policy changes, in seconds on the trace's clock; the engine decides then."""
        self._acting = 0
        self.acting.reset(info, rng)

    def _on_clock(self, info: SystemInfo) -> list[float]:
        times = [_on_clock(change, info) for change in self.changes]
        if times != sorted(times):
            raise ScenarioError("policy.switch: the changes are out of order; sort them by time")
        return times

    @property
    def acting(self) -> Policy:
        """The policy that decides; known from `reset` on."""
        return self.policies[self._acting]

    def schedule(self, state: State) -> Iterable[Action]:
        times = self.switch_times_s
        if self._acting == len(times) or state.now < times[self._acting]:
            return self.acting.schedule(state)
        return self._take_over(state)

    def _take_over(self, state: State) -> Iterator[Action]:
        """Let the policy begin that is to decide now, and decide."""
        while self._acting < len(self.switch_times_s) and (
            state.now >= self.switch_times_s[self._acting]
        ):
            self._acting += 1
        self.acting.reset(self._info, deepcopy(self._rng))
        for task in tuple(state.reservations):
            yield Cancel(task)
        yield from self.acting.schedule(cast("State", AllArrived(state)))

    def _victims(self, state: State) -> Iterable[Allocation]:
        chosen: Iterable[Allocation] = cast("Any", self.acting).victims(state)
        return chosen

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for, as the policy that decides says it."""
        why = getattr(self.acting, "why", None)
        return "its policy does not say" if why is None else str(why(state, task))

    def planned(self) -> dict[Task, float]:
        """Return when waiting tasks are to start, if the policy that decides plans this."""
        planned = getattr(self.acting, "planned", None)
        return {} if planned is None else dict(planned())


def _on_clock(change: float | datetime, info: SystemInfo) -> float:
    """Return an instant in seconds on the trace's clock."""
    if not isinstance(change, datetime):
        return instant_on_grid(info.first_submit_s + change)
    if info.epoch_s != info.epoch_s:
        raise ScenarioError(
            f"policy.switch: {change.isoformat()} is a date, but the log does not tell when it "
            "began; give a duration after the first submission, such as 30d"
        )
    return instant_on_grid(change.timestamp() - info.epoch_s)
