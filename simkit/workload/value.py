"""The worth of jobs: quality of service, prices, deadlines, GPUs for logs that have none.

The model is that of the dissertation on power-modulated datacenters ("RARE", University of
Virginia, 2023, sections 3.2.1 and 3.2.3):

- A user asks for a *quality of service*, QoS in (0, 1]: the share of the time in the system that
  the job is to run. A job violates it if its turnaround exceeds run time / QoS (equation 3.1), so
  0.5 allows for as much waiting as running, and 1 for none.
- A job that finishes is worth the sum over resources of amount * price * duration * QoS
  (equation 3.2).

Of a job of several tasks the worths of the tasks add up, and its run time is that of the longest.
Everything that is drawn comes from a generator passed in, two numbers a job in the order of
submission: more jobs begin with the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.workload.workload import Workload

Of = Literal["requested", "actual"]
"""The run time that a deadline is set by."""


def draw_two_classes(
    jobs: int,
    rng: np.random.Generator,
    *,
    high_share: float = 0.6,
    high: tuple[float, float] = (0.6, 1.0),
    low: tuple[float, float] = (0.1, 0.6),
) -> Floats:
    """Return (jobs,) qualities of service of two classes of users, spread evenly in each.

    The defaults are those of the dissertation (section 4.4.2): 60 % of the jobs between 0.6 and 1,
    the others between 0.1 and 0.6.

    Raises ScenarioError for a share outside 0..1 or bounds outside (0, 1] or out of order.
    """
    if not 0 <= high_share <= 1:
        raise ScenarioError(f"value.qos: high_share is {high_share:g}; it lies between 0 and 1")
    for name, (least, most) in (("high", high), ("low", low)):
        if not 0 < least <= most <= 1:
            raise ScenarioError(
                f"value.qos: {name} is [{least:g}, {most:g}]; give 0 < least <= most <= 1"
            )
    choice, position = rng.random((jobs, 2)).T
    drawn = np.where(choice < high_share, _between(high, position), _between(low, position))
    return np.asarray(drawn, dtype=np.float64)


def draw_factors(jobs: int, rng: np.random.Generator, bounds: tuple[float, float]) -> Floats:
    """Return (jobs,) numbers spread evenly between two bounds."""
    return _between(bounds, rng.random((jobs, 2))[:, 0])


def draw_amounts(
    jobs: int, rng: np.random.Generator, *, share: float, least: int, most: int
) -> Ints:
    """Return (jobs,) whole amounts: 0, or, for a share of the jobs, one of least..most, evenly."""
    choice, position = rng.random((jobs, 2)).T
    amount = least + np.floor(position * (most - least + 1)).astype(np.int64)
    return np.where(choice < share, amount, 0)


def _between(bounds: tuple[float, float], position: Floats) -> Floats:
    return bounds[0] + (bounds[1] - bounds[0]) * position


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


def _without_instance_times(workload: Workload, folds: np.ndarray) -> dict[str, Floats]:
    """Return the instances' run times once some gangs are one instance: that of the longest."""
    if not len(workload.instance_run_time_s) or not folds.any():
        return {}
    longest = workload.longest_run_time_s()
    own = np.split(workload.instance_run_time_s, np.cumsum(workload.instances)[:-1])
    times = [longest[[row]] if fold else own[row] for row, fold in enumerate(folds)]
    return {"instance_run_time_s": np.concatenate(times), "run_time_s": longest}


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
        prices: resource → price of a unit for a time unit; a resource without one costs nothing.
        time_unit_s: what the prices are per, in s.
        knob: multiplies every worth. The dissertation's `job_value_knob`, for scaling down, has
            the default 0.1; its figure 3.3 (4 + 4 units for 6 steps at 0.5 are worth 24) shows
            it not applied, so here it is 1. Nothing but the size of the numbers depends on it.

    Raises ScenarioError for a price of a resource that no job asks for, and for numbers out of
    range.
    """
    _check_prices(workload, prices, time_unit_s, knob)
    price = np.array([float(prices.get(name, 0.0)) for name in workload.resources])
    jobs = np.repeat(np.arange(len(workload)), np.diff(workload.first_task))
    demand = workload.request * workload.instances[:, None]
    per_s = (demand * price).sum(axis=1) / time_unit_s * knob
    if len(workload.qos):
        per_s = per_s * workload.qos[jobs]
    weights = per_s * workload.held_time_s()
    value = np.bincount(jobs, weights=weights, minlength=len(workload))
    return workload.with_columns(value=value, value_per_s=per_s)


def _check_prices(
    workload: Workload, prices: Mapping[str, float], time_unit_s: float, knob: float
) -> None:
    problems = [
        f"value.prices: no job asks for {name!r}, only for {', '.join(workload.resources)}"
        for name in prices
        if name not in workload.resources
    ]
    problems += [
        f"value.prices.{name}: {price!r} is not a valid price; give a number from 0 on"
        for name, price in prices.items()
        if not 0 <= price < math.inf
    ]
    for name, number in (("time_unit", time_unit_s), ("knob", knob)):
        if not 0 < number < math.inf:
            problems.append(f"value.{name}: {number!r} must be a finite number above 0")
    if problems:
        raise ScenarioError(problems)


def with_deadlines(workload: Workload, factor: Floats, *, of: Of = "requested") -> Workload:
    """Return the workload with deadlines: submit + factor * run time.

    Args:
        workload: J jobs.
        factor: (J,) 1 / QoS puts the deadline where the QoS is violated.
        of: ``requested``: the run time is the requested one, as the user sets it, or the true one
            where the trace has none; ``actual``: the true one. Policies see deadlines, so the
            latter tells them of true run times.
    """
    run = workload.longest_run_time_s()
    if of == "requested":
        run = np.where(np.isnan(workload.requested_time_s), run, workload.requested_time_s)
    if workload.tasks != len(workload):
        run = np.maximum.reduceat(run, workload.first_task[:-1])
    return workload.with_columns(deadline_s=workload.submit_time_s + factor * run)
