"""Derived sizes: what a few keys of a scenario stand for, estimated before any of it is made.

A count of 10⁸ or a period of a microsecond is quickly written, and takes gigabytes or days. Each
size is compared with one of the scenario's `limits`; above it the scenario is refused, with the key
that makes it so large and the one that raises the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simkit.errors import ScenarioError
from simkit.power.forecast import ERROR_STEP_S
from simkit.power.signal_align import Span
from simkit.scenario import Limits, Scenario
from simkit.scenario.cluster import ClusterSection
from simkit.scenario.power import NoisySection, Power
from simkit.workload import Workload
from simkit.workload.cluster import Cluster


class Size(NamedTuple):
    """How many things a key makes."""

    key: str
    """Dotted place of the key."""
    amount: float
    noun: str
    limit: str
    """The key of `limits` that it is compared with."""
    remedy: str = "use fewer"

    def problem(self, limits: Limits) -> str:
        """Return what is wrong, and the remedies; empty if the limit is kept."""
        most = getattr(limits, self.limit)
        if most is None or self.amount <= most:
            return ""
        return (
            f"{self.key}: makes {self.amount:,.0f} {self.noun}, and at most {most:,} are allowed; "
            f"{self.remedy}, or raise limits.{self.limit}"
        )


def refuse_beyond(sizes: Iterable[Size], limits: Limits) -> None:
    """Raise ScenarioError for sizes above their limits, all at once."""
    if problems := [text for size in sizes if (text := size.problem(limits))]:
        raise ScenarioError(problems)


def check_before_reading(scenario: Scenario) -> None:
    """Refuse what the scenario alone makes too large: jobs of a model, machines, forecasts."""
    refuse_beyond(
        [*_of_workload(scenario), *_of_cluster(scenario.cluster), *_of_forecast(scenario.power)],
        scenario.limits,
    )


def _of_workload(scenario: Scenario) -> Iterator[Size]:
    for key, (count, noun) in scenario.workload.derived().items():
        yield Size(f"workload.{key}", count, noun, "jobs")


def _of_cluster(section: ClusterSection) -> Iterator[Size]:
    """Yield the machines, and the pairs of windows or partitions and machines that are kept."""
    groups = section.machines or ()
    total = sum(group.count for group in groups)
    largest = max(range(len(groups)), key=lambda row: groups[row].count, default=0)
    yield Size(f"cluster.machines.{largest}.count", total, "machines in all", "machines")
    of_group = {group.name: group.count for group in groups}
    for key, parts in (("maintenance", section.maintenance), ("partitions", section.partitions)):
        pairs = sum(
            sum(of_group.get(name, 1) for name in part.machines) if part.machines else total
            for part in parts
        )
        yield Size(f"cluster.{key}", pairs, f"pairs of {key} and machines", "steps")


def _of_forecast(section: Power | None) -> Iterator[Size]:
    if section is None or section.forecast is None:
        return
    forecast = section.forecast
    steps = math.ceil(forecast.horizon / forecast.step)
    longer = "use a longer step or a shorter horizon"
    yield Size("power.forecast.step", steps, "steps of each forecast", "steps", longer)
    if isinstance(forecast, NoisySection):
        drawn = forecast.horizon / ERROR_STEP_S
        yield Size("power.forecast.horizon", drawn, "errors of each forecast", "steps", longer)


def check_before_running(
    scenario: Scenario, workload: Workload, cluster: Cluster, span: Span
) -> None:
    """Refuse bags of too many instances, and periods too short for the time that the jobs take.

    Args:
        scenario: with its cluster's keys.
        workload: its jobs.
        cluster: its machines.
        span: from the run's start until the last job can end at the earliest.
    """
    length_s = min(span.last_s - span.first_s, scenario.limits.simulated_time or math.inf)
    if len(workload):
        sizes = [*_of_bags(workload), *_of_periods(scenario, cluster, length_s)]
        refuse_beyond(sizes, scenario.limits)


def _of_bags(workload: Workload) -> Iterator[Size]:
    """Yield the instances that start one by one; those of a gang are placed together."""
    instances = workload.instances[~workload.gang].sum(dtype=float)
    fewer = "use fewer or smaller tasks"
    yield Size("workload", instances, "instances of bags", "instances", fewer)


def _of_periods(scenario: Scenario, cluster: Cluster, length_s: float) -> Iterator[Size]:
    longer = "use a longer period"
    if (step := scenario.scheduling.step) is not None:
        yield Size("scheduling.step", length_s / step, "decisions", "steps", longer)
    if scenario.cluster.maintenance:
        changes = sum(
            2 * length_s / window.every_s for window in cluster.recurring if window.every_s
        )
        key = "cluster.maintenance"
        yield Size(key, changes, "changes of machines", "steps", longer)
    if cluster.failures is not None:
        failing, cycle_s = (
            cluster.failures.machines,
            cluster.failures.mtbf_s + cluster.failures.mttr_s,
        )
        machines = len(cluster.machine_names) if failing is None else len(failing)
        changes = 2 * machines * length_s / cycle_s
        yield Size("cluster.failures", changes, "changes of machines", "steps", longer)
