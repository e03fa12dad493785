"""The scenario's `value`: what jobs are worth, their quality of service, deadlines and GPUs.

The model is that of the dissertation on power-modulated datacenters ("RARE", University of
Virginia, 2023, sections 3.2.1 and 3.2.3):

- A user asks for a *quality of service*, QoS in (0, 1]: the share of the time in the system that
  the job is to run. A job violates it if its turnaround exceeds run time / QoS (equation 3.1), so
  0.5 allows for as much waiting as running, and 1 for none.
- A job that finishes is worth the sum over resources of amount * price * duration * QoS
  (equation 3.2).

The worths of a job's tasks add up, and its run time is that of the longest task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from simkit.arrays import Bools, Floats, Ints, stream
from simkit.errors import ScenarioError
from simkit.sections import (
    AtLeastZero,
    CountRange,
    Positive,
    PositiveDuration,
    PositiveRange,
    Quality,
    QualityRange,
    Section,
    Share,
)
from simkit.workload import Workload

RunTimeOf = Literal["requested", "actual"]
"""The run time that a deadline is set by."""


class JobColumn(Section, ABC):
    """What makes a column of the jobs."""

    @abstractmethod
    def build(self, workload: Workload, seed: int) -> Floats:
        """Return (J,) the column; of deadlines, in s on the trace's clock, or empty.

        Raises ScenarioError if it is to be the trace's own, and that has none.
        """


class TwoClasses(JobColumn):
    """Two classes of users, drawn per job; defaults of the dissertation (RARE, 2023)."""

    type: Literal["two-classes"] = "two-classes"
    """Two classes of users, drawn per job; defaults of the dissertation (RARE, 2023)."""
    high_share: Share = 0.6
    """Share of the jobs whose QoS is high."""
    high: QualityRange = (0.6, 1.0)
    """Least and most QoS of these jobs, uniformly distributed."""
    low: QualityRange = (0.1, 0.6)
    """Least and most QoS of the other jobs."""

    def build(self, workload: Workload, seed: int) -> Floats:
        choice, position = _drawn(workload, seed, "qos")
        high, low = _between(self.high, position), _between(self.low, position)
        return np.where(choice < self.high_share, high, low)


class FixedQuality(JobColumn):
    """One quality of service for every job."""

    type: Literal["fixed"]
    """One quality of service for every job."""
    qos: Quality
    """The quality of service."""

    def build(self, workload: Workload, seed: int) -> Floats:
        return np.full(len(workload), self.qos)


class TraceQuality(JobColumn):
    """The trace's quality of service, in the column qos of a table of jobs."""

    type: Literal["column"]
    """The trace's quality of service, in the column qos of a table of jobs."""

    def build(self, workload: Workload, seed: int) -> Floats:
        return _own_column(workload, "qos", "value.qos")


class NoDeadlines(JobColumn):
    """Jobs have no deadlines."""

    type: Literal["none"] = "none"
    """Jobs have no deadlines."""

    def build(self, workload: Workload, seed: int) -> Floats:
        return np.empty(0)


class QualityDeadlines(JobColumn):
    """The deadline is when the quality of service is violated: submit + run time / QoS."""

    type: Literal["qos"]
    """The deadline is when the quality of service is violated: submit + run time / QoS."""
    of: RunTimeOf = "requested"
    """Which run time counts. Policies see deadlines, so `actual` reveals true run times."""

    def build(self, workload: Workload, seed: int) -> Floats:
        return deadlines(workload, 1 / workload.qos, of=self.of)


class SlackDeadlines(JobColumn):
    """Submit + factor x run time, with a factor drawn per job."""

    type: Literal["slack"]
    """Submit + factor x run time, with a factor drawn per job."""
    factor: PositiveRange = (2.0, 10.0)
    """Least and most factor, uniformly distributed."""
    of: RunTimeOf = "requested"
    """Which run time counts. Policies see deadlines, so `actual` hints at true run times."""

    def build(self, workload: Workload, seed: int) -> Floats:
        factor = _between(self.factor, _drawn(workload, seed, "deadlines")[0])
        return deadlines(workload, factor, of=self.of)


class TraceDeadlines(JobColumn):
    """The trace's deadlines, in the column deadline_s of a table of jobs."""

    type: Literal["column"]
    """The trace's deadlines, in the column deadline_s of a table of jobs."""

    def build(self, workload: Workload, seed: int) -> Floats:
        return _own_column(workload, "deadline_s", "value.deadlines")


class Gpus(Section):
    """GPU requests (resource gpu) drawn for the jobs of a log that has none."""

    share: Share = 1.0
    """Share of the jobs that ask for GPUs."""
    amount: CountRange = (1, 5)
    """Least and most GPUs, whole and uniformly distributed."""
    per: Literal["job", "processor"] = "job"
    """job: the job asks for all GPUs as one instance, as suits a pool; processor: each asks."""

    def build(self, workload: Workload, seed: int) -> Workload:
        """Return the workload whose jobs ask for GPUs; raises ScenarioError as `with_resource`."""
        choice, position = _drawn(workload, seed, "gpu")
        least, most = self.amount
        amount = least + np.floor(position * (most - least + 1)).astype(np.int64)
        return with_resource(
            workload, "gpu", np.where(choice < self.share, amount, 0), per=self.per
        )


def _drawn(workload: Workload, seed: int, part: str) -> Floats:
    """Return (2, J) numbers in 0..1, two a job in order of submission, from a part's stream.

    More jobs begin with the same draws, and no part shifts those of another.
    """
    return stream(seed, f"value.{part}").random((len(workload), 2)).T


def _between(bounds: tuple[float, float], position: Floats) -> Floats:
    return bounds[0] + (bounds[1] - bounds[0]) * position


def _own_column(workload: Workload, column: str, place: str) -> Floats:
    values: Floats = getattr(workload, column)
    if len(workload) and not len(values):
        raise ScenarioError(
            f"{place}: the trace has no column {column}; only a table of jobs (type: jobs) that "
            "has one gives it, take another type"
        )
    return values


def with_resource(
    workload: Workload, name: str, amounts: Ints, *, per: Literal["job", "processor"] = "job"
) -> Workload:
    """Return the workload with one more resource that its jobs ask for.

    Args:
        workload: J jobs.
        name: of the resource, e.g. ``gpu``.
        amounts: (J,) what each job asks for.
        per: ``job``: the amount is that of the whole job, which then asks for everything at once
            as one instance, so that amounts stay whole; this is made for a pool, since one
            instance goes to one machine. ``processor``: each instance asks for the amount.

    Raises ScenarioError if there is such a resource, or if amounts are per job and a job has
    several tasks or a task whose instances start one by one.
    """
    if name in workload.resources:
        raise ScenarioError(f"value.{name}: the jobs ask for {name} already; leave this out")
    whole = per == "job"
    if whole and (workload.tasks != len(workload) or not workload.gang.all()):
        raise ScenarioError(
            f"value.{name}: jobs have several tasks, or tasks whose instances start one by one; "
            "write `per: processor`"
        )
    folds = (amounts > 0) & whole
    jobs = np.repeat(np.arange(len(workload)), np.diff(workload.first_task))
    counts = np.where(folds[jobs], workload.instances, 1)
    request = np.column_stack((workload.request * counts[:, None], amounts[jobs]))
    return workload.with_columns(
        resources=(*workload.resources, name),
        request=request,
        instances=workload.instances // counts,
        **_without_instance_times(workload, folds),
    )


def _without_instance_times(workload: Workload, folds: Bools) -> dict[str, Floats]:
    """Return the instances' run times once some gangs are one instance: that of the longest."""
    if not len(workload.instance_run_time_s) or not folds.any():
        return {}
    longest = workload.longest_run_time_s()
    own = np.split(workload.instance_run_time_s, np.cumsum(workload.instances)[:-1])
    times = [longest[[row]] if fold else own[row] for row, fold in enumerate(folds)]
    return {"instance_run_time_s": np.concatenate(times), "run_time_s": longest}


def deadlines(workload: Workload, factor: Floats, *, of: RunTimeOf = "requested") -> Floats:
    """Return (J,) submit + factor * run time, in s on the trace's clock.

    Args:
        workload: J jobs; the run time of a job of several tasks is that of the longest.
        factor: (J,) 1 / QoS puts the deadline where the QoS is violated.
        of: ``requested``: the run time is the requested one, or the true one where the trace has
            none; ``actual``: the true one.
    """
    run = workload.longest_run_time_s()
    if of == "requested":
        run = np.where(np.isnan(workload.requested_time_s), run, workload.requested_time_s)
    if workload.tasks != len(workload):
        run = np.maximum.reduceat(run, workload.first_task[:-1])
    return workload.submit_time_s + factor * run


def _short_form(value: object) -> object:
    """Return a name as a section without other keys, and a number as a fixed quality."""
    if isinstance(value, str):
        return {"type": value}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"type": "fixed", "qos": value}
    return value


AnyQuality = TwoClasses | FixedQuality | TraceQuality
AnyDeadlines = NoDeadlines | QualityDeadlines | SlackDeadlines | TraceDeadlines

Qualities = Annotated[
    AnyQuality,
    Field(discriminator="type"),
    BeforeValidator(_short_form, json_schema_input_type=float | str | AnyQuality),
]
"""A number, ``two-classes``, or a section."""
Deadlines = Annotated[
    AnyDeadlines,
    Field(discriminator="type"),
    BeforeValidator(_short_form, json_schema_input_type=str | AnyDeadlines),
]
"""``none``, ``qos``, ``slack``, ``column``, or a section."""
PRICE: Final = 0.5
"""Price of a unit of any resource for a time unit where the scenario names none: `res_price`."""


class Value(Section):
    """What jobs are worth; applied to the workload after its transforms."""

    qos: Qualities = TwoClasses()
    """Quality of service in (0, 1]: a number, two-classes or column. Run time / QoS is the longest
    turnaround without a violation."""
    prices: dict[str, AtLeastZero] | None = None
    """Resource → price of a unit for `time_unit`; null: the trace's values, or else 0.5 each."""
    time_unit: PositiveDuration = 3600.0
    """The time that a price is for."""
    knob: Positive = 1.0
    """Factor on every computed value."""
    deadlines: Deadlines = NoDeadlines()
    """none, qos, slack or column."""
    gpu: Gpus | None = None
    """GPUs for jobs of a log without them; absent: none."""

    def build(self, workload: Workload, seed: int) -> Workload:
        """Return the workload with QoS, values and deadlines, and with GPUs if they are asked for.

        Draws come from streams "value.gpu", "value.qos" and "value.deadlines" of the seed.

        Raises ScenarioError if a column is wanted that the trace does not have, GPUs where there
        are some, or a price of what no job asks for.
        """
        if len(workload.whole_memory):
            raise ScenarioError(
                "value: the memory of some jobs is unknown and has no price; set workload.memory: "
                "false"
            )
        if self.gpu is not None:
            workload = self.gpu.build(workload, seed)
        workload = workload.with_columns(qos=self.qos.build(workload, seed))
        if self.prices is not None or not len(workload.value):
            prices = self.prices
            if prices is None:
                prices = dict.fromkeys(workload.resources, PRICE)
            workload = with_values(workload, prices, time_unit_s=self.time_unit, knob=self.knob)
        return workload.with_columns(deadline_s=self.deadlines.build(workload, seed))


def with_values(
    workload: Workload,
    prices: Mapping[str, float],
    *,
    time_unit_s: float = 3600.0,
    knob: float = 1.0,
) -> Workload:
    """Return the workload with the worth of each job: sum of amount * price * duration * QoS.

    Args:
        workload: T tasks, and the QoS of its jobs; without one, it is 1.
        prices: resource → price of a unit for a time unit, at least 0; a resource without one costs
            nothing.
        time_unit_s: what the prices are per, in s, above 0.
        knob: multiplies every worth. The dissertation's `job_value_knob`, for scaling down, has
            the default 0.1; its figure 3.3 (4 + 4 units for 6 steps at 0.5 are worth 24) shows
            it not applied, so here it is 1. Nothing but the size of the numbers depends on it.

    Raises ScenarioError for a price of a resource that no job asks for.
    """
    if unasked := [name for name in prices if name not in workload.resources]:
        raise ScenarioError(
            f"value.prices: no job asks for {name!r}, only for {', '.join(workload.resources)}"
            for name in unasked
        )
    price = np.array([float(prices.get(name, 0.0)) for name in workload.resources])
    jobs = np.repeat(np.arange(len(workload)), np.diff(workload.first_task))
    demand = workload.request * workload.instances[:, None]
    per_s = (demand * price).sum(axis=1) / time_unit_s * knob
    if len(workload.qos):
        per_s = per_s * workload.qos[jobs]
    weights = per_s * workload.held_time_s()
    value = np.bincount(jobs, weights=weights, minlength=len(workload))
    return workload.with_columns(value=value, value_per_s=per_s)
