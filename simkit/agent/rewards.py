"""Rewards by name: for time in the system, for value and quality of service, for what is used.

    reward = make_reward("slowdown")

The sums of a reward over a run are those of the run's tables, and each class says which. Jobs that
are rejected at their submission count in none of them; those that are rejected later count until
then.

Most rewards are costs of the jobs in the system. A job is in the system, including the backlog,
from its submission until the last of its tasks has ended, finished or killed. With a reward of
-1/length of every job in the system a step, the sum over a run is minus the sum of all slowdowns
(H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource Management with Deep Reinforcement
Learning", HotNets 2016, section 3). Killing a job stops its cost. If a policy may kill, add a
reward that pays for jobs that finish. A job's value is that of `simkit.scenario.value`: it is paid
as the job is placed, as it finishes, or only if it finishes in time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf, isfinite
from typing import Any

import numpy as np

from simkit.agent.reward import AccruingReward, JobReward, Reward, WeightedRewards, positive
from simkit.arrays import ExactSum, Floats, Ints
from simkit.errors import PluginError, ScenarioError
from simkit.plugins import find_in_table, instantiate
from simkit.policy import SystemInfo
from simkit.policy.task import Allocation, Reservation, Task
from simkit.power.ledger import Flows, site_rates
from simkit.workload import Workload


class InSystemReward(JobReward):
    """Minus the weighted time that jobs spend in the system.

    Costs per second are added up as jobs come and go, so that a decision takes no longer with many
    jobs than with one.
    """

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._cost_per_s: list[float] = self.costs_per_s(workload).tolist()
        self._jobs = 0  # in the system

    @abstractmethod
    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,): the cost of each job in the system, per second; at least 0."""

    def _reward_per_s(self) -> float:
        return -self._rate.value

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._advance(time_s)
        super().submitted(time_s, tasks)
        self._jobs += 1
        self._rate.add(self._cost_per_s[tasks[0].job_index])

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().rejected(time_s, tasks)
        self._leave(time_s, tasks[0].job_index)

    def job_ended(self, time_s: float, job: int) -> None:
        self._leave(time_s, job)

    def _leave(self, time_s: float, job: int) -> None:
        self._advance(time_s)
        self._jobs -= 1
        if self._jobs:
            self._rate.add(-self._cost_per_s[job])
        else:
            self._rate = ExactSum()  # empty, so exactly 0


class SlowdownReward(InSystemReward):
    """Minus the sum of slowdowns: of (end - submit) / max(run time, `least_run_s`) over jobs.

    The run time is the trace's; of a job of several tasks, it is the critical path of them.

    Args:
        least_run_s: shorter run times count as this one, in s, so that no job weighs infinitely.
    """

    def __init__(self, least_run_s: float = 1.0) -> None:
        self.least_run_s = positive("least_run_s", least_run_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) 1 / run time."""
        costs: Floats = 1.0 / np.maximum(workload.ideal_time_s(), self.least_run_s)
        return costs


class BoundedSlowdownReward(SlowdownReward):
    """Minus the sum of bounded slowdowns: of max(1, (end - submit) / max(run time, `tau_s`)).

    They are those of the metric `bounded_slowdown` where no job is suspended or starts over. What a
    job lacks of 1 is paid when it ends.

    Args:
        tau_s: shorter run times count as this one, in s.
    """

    def __init__(self, tau_s: float = 10.0) -> None:
        super().__init__(positive("tau_s", tau_s))

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._submit_s: list[float] = workload.submit_time_s.tolist()

    def job_ended(self, time_s: float, job: int) -> None:
        super().job_ended(time_s, job)
        slowdown = (time_s - self._submit_s[job]) * self._cost_per_s[job]
        self._accrued -= max(1 - slowdown, 0.0)


class WaitReward(JobReward):
    """Minus the sum of wait times, first start - submit; of jobs that never start, until they end.

    Args:
        time_unit_s: what they are counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._waiting: set[int] = set()  # jobs

    def _reward_per_s(self) -> float:
        return -len(self._waiting) / self.time_unit_s

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        self._advance(time_s)
        super().submitted(time_s, tasks)
        self._waiting.add(tasks[0].job_index)

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().rejected(time_s, tasks)
        self._leave(time_s, tasks[0].job_index)

    def started(self, time_s: float, allocation: Allocation) -> None:
        self._leave(time_s, allocation.task.job_index)

    def job_ended(self, time_s: float, job: int) -> None:
        self._leave(time_s, job)  # some are killed before they start

    def _leave(self, time_s: float, job: int) -> None:
        if job in self._waiting:
            self._advance(time_s)
            self._waiting.discard(job)


class CompletionTimeReward(InSystemReward):
    """Minus the sum of turnaround times, end - submit.

    Args:
        time_unit_s: what they are counted in, in s; a slotted model's step gives DeepRM's reward.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) ones / unit."""
        return np.full(len(workload), 1.0 / self.time_unit_s)


class MakespanReward(InSystemReward):
    """Minus the time in which there is any job in the system.

    That is the makespan without the gaps in which there is no work, which no policy can shorten.

    Args:
        time_unit_s: what it is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def costs_per_s(self, workload: Workload) -> Floats:
        """Return (J,) zeros: the cost does not depend on which jobs are there."""
        return np.zeros(len(workload))

    def _reward_per_s(self) -> float:
        return -1.0 / self.time_unit_s if self._jobs else 0.0


_NOISE = 1e-6  # of a step: rounding errors of a quotient


def job_run_time_s(workload: Workload) -> Floats:
    """Return (J,): the true run time of each job, that of its longest task."""
    longest = workload.longest_run_time_s()
    if workload.tasks == len(workload):
        return longest
    run: Floats = np.maximum.reduceat(longest, workload.first_task[:-1])
    return run


def sum_of_powers(base: float, count: Floats | Ints) -> Floats:
    """Return 1 + base + … + base^(count - 1), elementwise; 0 for none."""
    number = np.asarray(count, np.float64)
    if base == 1.0:
        return number
    powers: Floats = (1.0 - base**number) / (1.0 - base)
    return powers


def discounted_share(discount: float, ahead: Floats | Ints, steps: Floats | Ints) -> Floats:
    """Return, elementwise, what of a job's value is paid at the decision that places it.

    An equal part for each of the n steps that it will run, the first in `ahead` steps, discounted
    until now: γ^ahead · (1 + γ + … + γ^(n - 1)) / n, at most 1.
    """
    share: Floats = discount**ahead * sum_of_powers(discount, steps) / steps
    return share


def _values(workload: Workload, reward: str) -> Floats:
    """Return (J,) the values of jobs; raises ScenarioError if they have none."""
    if len(workload) and not len(workload.value):
        raise ScenarioError(
            f"reward {reward!r}: the jobs have no value; add a section `value` with prices, "
            "or reward something else"
        )
    return workload.value


def _qos_due_s(workload: Workload) -> Floats:
    """Return (J,) submit + run time / quality of service, by which a job must end to keep it."""
    due: Floats = workload.submit_time_s + job_run_time_s(workload) / workload.qos
    return due


class ValueAtDecisionReward(Reward):
    """The sum of the values of jobs, each paid when it is placed, now or reserved for later.

    A job of value V that will run for n steps, the first in h steps, earns V / n for each of them,
    discounted to the decision: V · γ^h · (1 + γ + … + γ^(n - 1)) / n; V itself if γ
    is 1. A job is paid once, by its run time, and whatever becomes of it: if it is suspended, or
    its reservation fails, nothing changes. A job of several tasks is paid with the first of them.

    Args:
        discount: γ of a step, at most 1.
        time_unit_s: length of a step, in s; a step that has begun counts whole.
    """

    def __init__(self, discount: float = 1.0, time_unit_s: float = 1.0) -> None:
        self.discount = positive("discount", discount)
        if self.discount > 1:
            raise ScenarioError(f"reward: discount is {discount!r}; it must be at most 1")
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        value = _values(workload, "value-at-decision")
        steps = np.ceil(job_run_time_s(workload) / self.time_unit_s - _NOISE)
        share = discounted_share(self.discount, np.zeros(len(steps)), np.maximum(steps, 1.0))
        self._worth: list[float] = (value * share).tolist()  # of jobs that start now
        self._paid, self._accrued = set[int](), 0.0

    def collect(self, time_s: float) -> float:
        accrued, self._accrued = self._accrued, 0.0
        return accrued

    def reserved(self, time_s: float, place: Reservation) -> None:
        self._pay(place.task.job_index, (place.start_s - time_s) / self.time_unit_s)

    def started(self, time_s: float, allocation: Allocation) -> None:
        self._pay(allocation.task.job_index, 0.0)

    def _pay(self, job: int, ahead: float) -> None:
        if job not in self._paid:
            self._paid.add(job)
            self._accrued += self._worth[job] * self.discount**ahead


class ValueOnCompletionReward(JobReward):
    """The sum of the values of jobs that finish, late or not; killed and rejected jobs pay none.

    A job of several tasks finishes if all of them do, and is paid with the last.
    """

    name = "value-on-completion"

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        self._value: list[float] = _values(workload, self.name).tolist()
        self._spoilt: set[int] = set()  # jobs with a killed task

    def ended(self, time_s: float, task: Task, *, killed: bool) -> None:
        if killed:
            self._spoilt.add(task.job_index)
        super().ended(time_s, task, killed=killed)

    def job_ended(self, time_s: float, job: int) -> None:
        if job in self._spoilt:
            self._spoilt.discard(job)
        elif self.counts(time_s, job):
            self._accrued += self._value[job]

    def counts(self, time_s: float, job: int) -> bool:
        """Return whether a job that finishes now is paid."""
        return True


class ValueReward(ValueOnCompletionReward):
    """The sum of the values of jobs that finish in time; late, killed and rejected jobs pay none.

    In time: by its deadline, and by submit + run time / quality of service, where the workload has
    them; see `simkit.scenario.value`. A job of several tasks finishes if all of them do.
    """

    name = "value"

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        due = np.full(len(workload), inf)
        if len(workload.deadline_s):
            due = np.minimum(due, workload.deadline_s)
        if len(workload.qos):
            due = np.minimum(due, _qos_due_s(workload))
        self._due_s: list[float] = due.tolist()

    def counts(self, time_s: float, job: int) -> bool:
        return time_s <= self._due_s[job]


class QosViolationsReward(JobReward):
    """Minus the time that jobs are in the system, waiting or running, after they should have ended.

    The sum over jobs of max(0, end - (submit + run time / quality of service)): -1 in each unit of
    time for each job whose quality of service is violated, as in the dissertation on
    power-modulated datacenters ("RARE", University of Virginia, 2023, table B.1). Rejected and
    killed jobs count until then.

    Args:
        time_unit_s: what time is counted in, in s.
    """

    def __init__(self, time_unit_s: float = 1.0) -> None:
        self.time_unit_s = positive("time_unit_s", time_unit_s)

    def begin(self, workload: Workload, info: SystemInfo) -> None:
        super().begin(workload, info)
        if len(workload) and not len(workload.qos):
            raise ScenarioError(
                "reward 'qos-violations': the jobs have no quality of service; add a section "
                "`value`, or reward something else"
            )
        self._due_s: list[float] = _qos_due_s(workload).tolist() if len(workload) else []
        self._coming: list[tuple[float, int]] = []  # a heap of (due, job), also of jobs that left
        self._in_time: set[int] = set()  # jobs in the system that are not violated
        self._violated = 0

    def _reward_per_s(self) -> float:
        return -self._violated / self.time_unit_s

    def _advance(self, time_s: float) -> None:
        while self._coming and self._coming[0][0] <= time_s:
            due, job = heappop(self._coming)
            if job in self._in_time:
                super()._advance(due)
                self._in_time.discard(job)
                self._violated += 1
        super()._advance(time_s)

    def submitted(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().submitted(time_s, tasks)
        job = tasks[0].job_index
        self._in_time.add(job)
        heappush(self._coming, (self._due_s[job], job))

    def rejected(self, time_s: float, tasks: Sequence[Task]) -> None:
        super().rejected(time_s, tasks)
        self.job_ended(time_s, tasks[0].job_index)

    def job_ended(self, time_s: float, job: int) -> None:
        self._advance(time_s)
        if job in self._in_time:
            self._in_time.discard(job)
        else:
            self._violated -= 1


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


REWARDS: Mapping[str, type[Reward]] = {
    "slowdown": SlowdownReward,
    "bounded-slowdown": BoundedSlowdownReward,
    "wait": WaitReward,
    "completion-time": CompletionTimeReward,
    "makespan": MakespanReward,
    "utilisation": UtilisationReward,
    "value-at-decision": ValueAtDecisionReward,
    "value-on-completion": ValueOnCompletionReward,
    "value": ValueReward,
    "qos-violations": QosViolationsReward,
    "energy-cost": EnergyCostReward,
    "carbon": CarbonReward,
}
"""Rewards by name."""


def make_reward(
    what: str | Mapping[str, float], arguments: Mapping[str, Any] | None = None
) -> Reward:
    """Return the reward that a name stands for, or the weighted sum of several.

    Args:
        what: one of `REWARDS` or ``module:attribute``; or name → weight.
        arguments: the reward's arguments; for several rewards, a mapping for each name.

    Raises ScenarioError or PluginError for an unknown name, for arguments that the reward does not
    take, and for weights that are not finite numbers; all weights at once.
    """
    given = dict(arguments or {})
    if isinstance(what, str):
        return _make_one(what, given)
    _check_weights(what)
    for name, own in given.items():
        if name not in what or not isinstance(own, Mapping):
            raise ScenarioError(
                f"reward: arguments are given for {name!r}, which is none of {', '.join(what)}; "
                f"write {{{next(iter(what), 'slowdown')}: {{…}}}}"
            )
    return WeightedRewards(
        [(float(weight), _make_one(name, given.get(name, {}))) for name, weight in what.items()]
    )


def _check_weights(weights: Mapping[str, Any]) -> None:
    wrong = [
        f"reward {name!r}: weight {weight!r} must be a finite number"
        for name, weight in weights.items()
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not isfinite(weight)
    ]
    if wrong:
        raise ScenarioError(wrong)


def _make_one(name: str, arguments: Mapping[str, Any]) -> Reward:
    reward: Reward = instantiate(
        f"reward {name!r}", find_in_table("a reward", REWARDS, name), arguments
    )
    methods = [method for method in vars(Reward) if not method.startswith("_")]
    if missing := [method for method in methods if not callable(getattr(reward, method, None))]:
        raise PluginError(
            f"reward {name!r}: {type(reward).__name__} has no method {missing[0]}; derive it from "
            "simkit.agent.reward.Reward"
        )
    return reward
