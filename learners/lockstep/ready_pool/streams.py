"""Streams of jobs for lock-step ready pools, and the units that have power in each hour.

They are those of a scenario under some seeds, so that replicas play what `simkit run` replays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.engine.admission import check_lateness
from simkit.engine.machines_on import PoolUnits
from simkit.errors import ScenarioError
from simkit.experiment import Experiment
from simkit.gym.episodes import Episodes
from simkit.learners.lockstep.job_sets import NEVER, JobSets
from simkit.learners.lockstep.pool_in_steps import change_problems
from simkit.learners.lockstep.ready_pool.energy import (
    SIGNALS,
    PoolEnergy,
    energy_problems,
    hourly_signals,
)
from simkit.power.site import Site
from simkit.power.system import EnergySystem
from simkit.scenario import Scenario
from simkit.units import TIME_GRID
from simkit.workload import Workload

__all__ = ["JobStreams", "StreamSource", "is_ready_pool", "streams_of"]

_OF_ENERGY = frozenset({"energy-cost", "carbon"})
"""Parts that need to know the site."""


@dataclass(frozen=True)
class JobStreams(JobSets):
    """S streams of up to J jobs, and T hours of power; hour 0 is that of the first submission.

    Jobs are padded with those that never `enter`.
    """

    qos: Floats
    """(S, J) its quality of service, 1 without one."""
    value: Floats
    """(S, J) its value."""
    last_start: Ints
    """(S, J) the last hour in which it may start to end in time; `NEVER`: whenever."""
    due: Floats
    """(S, J) when it must have ended for its quality of service, in hours; inf: whenever."""
    powered: Ints
    """(S, T, R) units that have power in each hour; after the last as in it."""
    signals: Floats
    """(S, T, F) the site's `SIGNALS` in each hour; T is 0 where energy is not accounted for."""
    capacity: tuple[int, ...]
    """(R,) units in all."""
    step_s: float = 3600.0
    """Seconds of an hour."""
    energy: PoolEnergy | None = None
    """What the units draw, where energy is accounted for."""
    PADDING: ClassVar = {
        "enter": NEVER, "length": 0, "size": 0, "qos": 0.0, "value": 0.0, "last_start": NEVER,
        "due": inf,
    }  # fmt: skip
    OTHERS: ClassVar = ("powered", "signals")

    def powered_at_first(self, hours: int) -> Ints:
        """Return (H, R, S) units that have power in the first H = `hours`."""
        hour = np.minimum(np.arange(hours), self.powered.shape[1] - 1)
        return np.moveaxis(self.powered[:, hour], 0, -1)


class StreamSource:
    """Draws the streams of a scenario, each by a seed.

    Attributes:
        step_s: seconds of a step.
        resources: names of the pool's resources.
        units: (R,) how much there is of each.
    """

    def __init__(self, scenario: Scenario, hours: int, accounts: Collection[str] = ()) -> None:
        """Read a scenario.

        Args:
            scenario: of jobs that take whole steps, come at steps, and fit a pool of one machine;
                its power depends on no battery.
            hours: T, steps of `scheduling.step` for which the power is known.
            accounts: parts that the games will account for; see `Accounts`.

        Raises ScenarioError, all problems at once, for another scenario.
        """
        step_s = scenario.scheduling.step
        self._hours, self._episodes = hours, Episodes(scenario)
        first = self._episodes.prepare(scenario.seed)
        problems = [*_problems(first, step_s), *_problems_of_accounts(first, accounts)]
        if problems or step_s is None:
            raise ScenarioError(problems)
        self.step_s = step_s
        self.resources = first.cluster.resources
        self.units = tuple(round(amount) for amount in first.cluster.capacity[0].tolist())
        self._energy: PoolEnergy | None = None
        if first.site is not None and not _OF_ENERGY.isdisjoint(accounts):
            model, pue = first.site.models[0], first.site.pue
            self._energy = PoolEnergy(model, self.resources, self.units, pue)

    def draw(self, seeds: Sequence[int]) -> JobStreams:
        """Return the streams of S seeds.

        Raises ScenarioError if what has power changes within a step, or a signal of the site where
        its energy is accounted for.
        """
        experiments = [self._episodes.prepare(seed) for seed in seeds]
        jobs = max(len(each.trace.workload) for each in experiments)
        columns: dict[str, list[Any]] = defaultdict(list)
        for each in experiments:
            of_jobs = _jobs(each.trace.workload, self.resources, self.step_s, jobs)
            for name, column in of_jobs.items():
                columns[name].append(column)
            columns["powered"].append(_powered(each, self.step_s, self._hours))
            columns["signals"].append(self._signals(each))
        stacked = {name: np.stack(rows) for name, rows in columns.items()}
        return JobStreams(capacity=self.units, step_s=self.step_s, energy=self._energy, **stacked)

    def _signals(self, experiment: Experiment) -> Floats:
        """Return (T, F) the site's `SIGNALS`, of no hour where energy is not accounted for."""
        if self._energy is None or experiment.site is None:
            return np.zeros((0, len(SIGNALS)))
        begin_s = _begin_s(experiment.trace.workload, self.step_s)
        return hourly_signals(experiment.site, begin_s, self.step_s, self._hours)


def streams_of(
    scenario: Scenario, seeds: Sequence[int], hours: int, accounts: Collection[str] = ()
) -> JobStreams:
    """Return the streams of a scenario under some seeds; see `StreamSource`."""
    return StreamSource(scenario, hours, accounts).draw(seeds)


def _problems_of_accounts(experiment: Experiment, accounts: Collection[str]) -> Iterable[str]:
    """Yield what the scenario lacks for parts that are to be accounted for."""
    if "qos-violations" in accounts and not len(experiment.trace.workload.qos):
        yield "value: jobs without a quality of service do not violate it; add a section `value`"
    if not _OF_ENERGY.isdisjoint(accounts):
        yield from energy_problems(experiment.site)


def _problems(experiment: Experiment, step_s: float | None) -> Iterable[str]:
    """Yield what lock-step does not support."""
    load, cluster, site = experiment.trace.workload, experiment.cluster, experiment.site
    scenario = experiment.scenario
    if step_s is None:
        yield (
            "scheduling.step: a ready pool in lock-step decides once a step; add "
            "`scheduling: {step: 1h}`"
        )
    yield from _problems_of_rules(scenario)
    if not len(load.value) or not load.value.any():
        yield "value: no job is worth anything, so there is nothing to learn; add a section `value`"
    if scenario.admission.late == "leave":
        try:
            check_lateness(load)
        except ScenarioError as error:
            yield from error.problems
    if len(cluster.capacity) != 1:
        yield f"cluster: lock-step knows a pool of one machine, not {len(cluster.capacity)}"
    if load.tasks != len(load) or not (load.gang.all() and (load.instances == 1).all()):
        yield "workload: lock-step knows jobs of one task and one instance"
    if load.has_releases:
        yield (
            "workload: lock-step knows neither release times nor preceding jobs; add "
            "dependencies: ignore"
        )
    for name, times in (("submit", load.submit_time_s), ("run", load.run_time_s)):
        if step_s is not None and np.fmod(times, step_s).any():
            yield f"workload: {name} times must be multiples of scheduling.step, {step_s:g} s"
    if not load.run_time_s.all():
        yield "workload: lock-step knows jobs of a step or more; leave out those that take no time"
    if np.fmod(load.request, 1.0).any() or np.fmod(cluster.capacity, 1.0).any():
        yield "workload: lock-step knows whole units of resources"
    if scenario.estimates.type != "actual":
        yield "estimates: lock-step knows jobs that run as long as expected; give `actual`"
    if site is None:
        return
    if site.battery is not None:
        yield "power.battery: what it holds depends on the load, which lock-step does not follow"
    if len(site.models) != 1 or any(model.switching.boot for model in site.models):
        yield "power.machines: lock-step knows a pool whose units need no time to boot"
    section = scenario.power
    if section is None or section.forecast is None or section.forecast.type != "perfect":
        yield "power.forecast: lock-step knows a perfect one; give {type: perfect, …}"


def is_ready_pool(scenario: Scenario) -> bool:
    """Tell whether lock-step knows a scenario, as far as it says so without its jobs."""
    power = scenario.power
    if power is not None and (
        power.battery is not None or power.forecast is None or power.forecast.type != "perfect"
    ):
        return False
    known = scenario.scheduling.step is not None and scenario.estimates.type == "actual"
    return known and not any(_problems_of_rules(scenario))


def _problems_of_rules(scenario: Scenario) -> Iterable[str]:
    """Yield the scenario's rules that lock-step does not follow."""
    admission = scenario.admission
    if admission.slots is None:
        yield "admission.slots: a ready pool has a size; give it, such as 5"
    if admission.order != "fifo":
        yield f"admission.order: lock-step lets jobs in by fifo, not by {admission.order}"
    if admission.refill != "at_once":
        yield "admission.refill: lock-step fills places at_once"
    yield from change_problems(scenario)


def _jobs(
    load: Workload, resources: tuple[str, ...], step_s: float, jobs: int
) -> dict[str, Ints | Floats]:
    """Return the columns of `JobStreams` of one workload, (jobs, …), padded."""
    count = len(load)
    begin_s = _begin_s(load, step_s)
    enter, last = np.full((2, jobs), NEVER)
    length, size = np.zeros(jobs, np.int64), np.zeros((jobs, len(resources)), np.int64)
    qos, value = np.zeros((2, jobs))
    enter[:count] = np.rint((load.submit_time_s - begin_s) / step_s)
    length[:count] = np.rint(load.run_time_s / step_s)
    columns = [load.resources.index(name) for name in resources if name in load.resources]
    there = [resources.index(load.resources[column]) for column in columns]
    size[:count, there] = np.rint(load.request[:, columns])
    qos[:count] = load.qos if len(load.qos) else 1.0
    value[:count] = load.value if len(load.value) else 0.0
    latest = _latest_start_s(load)
    known = latest < inf
    last[:count][known] = np.floor((latest[known] - begin_s) / step_s)
    due = np.full(jobs, inf)
    if len(load.qos):
        due[:count] = enter[:count] + length[:count] / load.qos
    return {
        "enter": enter, "length": length, "size": size, "qos": qos, "value": value,
        "last_start": last, "due": due,
    }  # fmt: skip


def _begin_s(load: Workload, step_s: float) -> float:
    """Return when hour 0 begins, in s."""
    return float(np.floor(load.submit_time_s[0] / step_s) * step_s)


def _latest_start_s(load: Workload) -> Floats:
    """Return (J,) `Task.latest_start_s` of each job."""
    due = np.full(len(load), inf)
    if len(load.deadline_s):
        due = np.minimum(due, load.deadline_s)
    if len(load.qos):
        due = np.minimum(due, load.submit_time_s + load.run_time_s / load.qos)
    return np.where(due < inf, np.floor((due - load.run_time_s) / TIME_GRID) * TIME_GRID, inf)


def _powered(experiment: Experiment, step_s: float, hours: int) -> Ints:
    """Return (T, R) units that have power in each hour."""
    site, capacity = experiment.site, experiment.cluster.capacity[0].tolist()
    whole = np.broadcast_to(np.rint(capacity).astype(np.int64), (hours, len(capacity)))
    if site is None or site.supply.limit == "none":
        return whole
    begin_s = _begin_s(experiment.trace.workload, step_s)
    return np.array(list(_hourly(site, capacity, begin_s, step_s, hours)), np.int64)


def _hourly(
    site: Site, capacity: Sequence[float], begin_s: float, step_s: float, hours: int
) -> Iterable[tuple[float, ...]]:
    """Yield the amounts that have power in each hour, (R,); raises ScenarioError if they change."""
    pool, energy = PoolUnits(site.models[0], capacity, site.supply), EnergySystem(site, begin_s)
    for hour in range(hours):
        now = begin_s + hour * step_s
        energy.time_s = now
        energy.read_signals(now)
        units = pool.most(energy.available_w())
        change = energy.next_change()
        while change < now + step_s:
            energy.time_s = change
            energy.read_signals(change)
            if pool.most(energy.available_w()) != units:
                raise ScenarioError(
                    f"power: what has power changes within the step at {now:g} s; lock-step knows "
                    f"signals that change at steps: {{type: means, step: {step_s:g}s, signal: …}}"
                )
            change = energy.next_change()
        yield pool.amounts(units)
