"""Lookahead: simulates several policies ahead, and lets the one with the best outcome act.

    Lookahead([FitnessPolicy(Tetris()), OrderedPolicy(SJF(), Easy())], "makespan")

At every decision at which tasks have arrived, the system is played on under each candidate, as
`simkit.policy.what_if` says, to the end of all that waits and runs. The candidate with the best
outcome acts from then on, until tasks arrive again. Ties keep the one that acts, at first the
first; among others the first wins. So a lookahead over list schedules is the rollout of D. P.
Bertsekas and D. A. Castañon, "Rollout algorithms for stochastic scheduling problems" (1999), with
a choice among whole policies in place of single actions.

A candidate that begins to act is reset, and all that waits is new to it: what it decides follows
from the present state. What it would have learned earlier in the run (usage of users, run times of
tasks that have ended) or promised (reservations of conservative backfilling) it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from math import fsum, inf
from typing import Any, cast

import numpy as np

from simkit.errors import ScenarioError, did_you_mean
from simkit.policy import Action, Policy, State, SystemInfo
from simkit.policy.declared import PolicyMetric, Signals, declared_metrics, declared_signals
from simkit.policy.task import Task
from simkit.policy.what_if import WhatIf, play_on

TAU_S = 10.0
"""Bound of the bounded slowdown: shorter jobs count as this long."""


class Lookahead:
    """Acts as the candidate with the best outcome, chosen anew whenever tasks arrive.

    Args:
        policies: the candidates; the first acts first. Each is copied: a copy plays ahead.
        objective: what the best candidate minimises, over the jobs that have not ended:
            ``makespan``, the last end; ``turnaround``, the mean time from submission to end; or
            ``slowdown``, the mean bounded slowdown.
        every_s: the scenario's ``scheduling.every``, in s; None: decisions at every change.

    Raises ScenarioError, all problems at once, for no candidates, one that is no policy, cannot be
    copied or looks ahead itself, and for another objective. In a run: PolicyError for a candidate
    that stops tasks, and where allocations are suspended.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        objective: str = "makespan",
        every_s: float | None = None,
    ) -> None:
        if not isinstance(policies, Sequence):
            raise ScenarioError(f"lookahead: {policies!r} is no list; give a list of policies")
        self.policies = list(policies)
        self.objective = objective
        self.every_s = every_s
        if problems := list(_wrong_arguments(self.policies, objective)):
            raise ScenarioError(problems)
        self._cost = OBJECTIVES[objective]
        self._ahead = [deepcopy(policy) for policy in self.policies]

    @property
    def signals(self) -> Signals | None:
        """Signals that the candidates read; None if one declares none."""
        return declared_signals(*self.policies)

    @property
    def metrics(self) -> tuple[PolicyMetric, ...]:
        """Metrics that the candidates bring."""
        return declared_metrics(*self.policies)

    def check_scenario(self, scenario: Any) -> list[str]:
        """Return what of a `Scenario` cannot be played ahead, a line each."""
        problems = list(_cannot_be_foreseen(scenario))
        if scenario.scheduling.step is None and scenario.scheduling.every != self.every_s:
            problems.append(
                f"lookahead: every_s is {self.every_s} and scheduling.every is "
                f"{scenario.scheduling.every}; make them equal"
            )
        return [*problems, *self._of_candidates("check_scenario", scenario)]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why a candidate cannot schedule a cluster, a line each."""
        return list(self._of_candidates("check_cluster", info))

    def check_site(self, site: Any) -> list[str]:
        """Return which candidates decide by power, which cannot be played ahead, a line each."""
        return [
            f"policy.lookahead.{row}: {type(policy).__name__} decides by the site's power, which "
            "cannot be played ahead; use a candidate that does not"
            for row, policy in enumerate(self.policies)
            if hasattr(policy, "check_site")
        ]

    def _of_candidates(self, method: str, subject: Any) -> Iterator[str]:
        """Yield what a method of the candidates finds, with their places in the scenario."""
        for row, policy in enumerate(self.policies):
            for text in getattr(policy, method, lambda _: [])(subject):
                placed = text if text.startswith("policy.") else f"policy: {text}"
                yield placed.replace("policy", f"policy.lookahead.{row}", 1)

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self._info, self._rng = info, deepcopy(rng)
        for policy in (*self.policies, *self._ahead):  # all, so that none keeps an earlier run
            policy.reset(info, deepcopy(rng))
        self._acting = 0

    @property
    def acting(self) -> Policy:
        """The candidate that acts; known from `reset` on."""
        return self.policies[self._acting]

    def schedule(self, state: State) -> Iterable[Action]:
        if state.arrived and len(self.policies) > 1:
            best = self._best(state)
            if best != self._acting:
                self._acting = best
                self.acting.reset(self._info, deepcopy(self._rng))
                state = cast("State", AllArrived(state))
        return self.acting.schedule(state)

    def _best(self, state: State) -> int:
        """Return the row of the candidate with the best outcome."""
        rows = sorted(range(len(self.policies)), key=lambda row: row != self._acting)
        return min(rows, key=lambda row: self._outcome(state, self._ahead[row]))

    def _outcome(self, state: State, policy: Policy) -> tuple[int, float]:
        """Return how many tasks would never end, and the objective over the jobs of the others."""
        ends = play_on(state, policy, deepcopy(self._rng), self.every_s).ends_s
        ended = {task: end for task, end in ends.items() if end < inf}
        return len(ends) - len(ended), self._cost(WhatIf(ended)) if ended else 0.0

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for, as the acting candidate says it."""
        why = getattr(self.acting, "why", None)
        return "its policy does not say" if why is None else str(why(state, task))


class AllArrived:
    """A state as a policy sees it that begins to act: all that waits has just arrived."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._waiting = state.queue.tasks.copy()
        self._known = len(state.arrived)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    @property
    def arrived(self) -> list[Task]:
        """All that waited when the decision began, then what admission lets in during it."""
        return self._waiting + self._state.arrived[self._known :]


def makespan(outcome: WhatIf) -> float:
    """Return the last end, in s."""
    return max(outcome.ends_s.values())


def turnaround(outcome: WhatIf) -> float:
    """Return the mean time from submission to end, over jobs, in s."""
    return _mean([end - submit for submit, end, _ in _jobs(outcome)])


def slowdown(outcome: WhatIf) -> float:
    """Return the mean bounded slowdown over jobs: turnaround over run time, at least 1.

    The run time of a job is that of its longest task, by estimate, and at least `TAU_S`.
    """
    return _mean([
        max((end - submit) / max(run, TAU_S), 1.0) for submit, end, run in _jobs(outcome)
    ])  # fmt: skip


OBJECTIVES: dict[str, Callable[[WhatIf], float]] = {
    "makespan": makespan,
    "turnaround": turnaround,
    "slowdown": slowdown,
}


def _jobs(outcome: WhatIf) -> Iterable[tuple[float, float, float]]:
    """Return (submission, last end, longest estimate) of every job, in s."""
    jobs: dict[int, tuple[float, float, float]] = {}
    for task, end in outcome.ends_s.items():
        _, last, longest = jobs.get(task.job_index, (0.0, end, 0.0))
        times = task.submit_time_s, max(last, end), max(longest, task.estimate_s)
        jobs[task.job_index] = times
    return jobs.values()


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)  # exact, so that equal outcomes in another order are ties


def _wrong_arguments(policies: Sequence[Any], objective: object) -> Iterator[str]:
    """Yield what is wrong with the arguments of `Lookahead`, a line each."""
    if not policies:
        yield "lookahead: there is no candidate; give a list of policies"
    for row, policy in enumerate(policies):
        what = f"lookahead: candidate {row}, {type(policy).__name__},"
        if not (hasattr(policy, "reset") and hasattr(policy, "schedule")):
            yield f"{what} is no policy; a policy has reset(info, rng) and schedule(state)"
        elif isinstance(policy, Lookahead):
            yield f"{what} looks ahead itself; list its candidates in its place"
        elif getattr(policy, "begins_with_run", False):
            yield f"{what} cannot begin in the middle of a run; leave it out"
        elif reason := _why_no_copy(policy):
            yield f"{what} cannot be copied ({reason}), but a copy must play ahead"
    if not (isinstance(objective, str) and objective in OBJECTIVES):
        known = did_you_mean(str(objective), OBJECTIVES)
        yield f"lookahead: objective is {objective!r}{known}"


def _why_no_copy(policy: object) -> str:
    try:
        deepcopy(policy)
    except Exception as error:  # objects of others may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _cannot_be_foreseen(scenario: Any) -> Iterator[str]:
    """Yield what of a scenario a forward play does not know, a line each."""
    if scenario.scheduling.step is not None:
        yield (
            "policy.lookahead: it plays ahead from change to change, not step by step; use "
            "scheduling.every in place of scheduling.step"
        )
    if scenario.power is not None and scenario.power.supply.limit != "none":
        yield (
            f"policy.lookahead: power.supply.limit is {scenario.power.supply.limit}, and power "
            "that limits what runs cannot be played ahead; set it to none"
        )
    for place in _suspending(scenario.cluster.model_dump(), "cluster"):
        yield (
            f"policy.lookahead: {place} is suspend, and what is suspended cannot be played ahead; "
            "choose requeue or drain"
        )


def _suspending(section: Any, place: str) -> Iterator[str]:
    """Yield the dotted keys ``running`` of a section by which tasks are suspended."""
    parts = section.items() if isinstance(section, dict) else enumerate(section)
    for key, value in parts:
        if key == "running" and value == "suspend":
            yield f"{place}.{key}"
        elif isinstance(value, (dict, list, tuple)):
            yield from _suspending(value, f"{place}.{key}")
