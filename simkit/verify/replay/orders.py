"""The orders of a queue: the formulas of the reference of policies, smallest key first.

Formulas are evaluated in double precision from left to right, as the reference says, so that equal
keys are equal here as well. Ties go by rank: (submit time, job id).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log10, sqrt
from typing import Any, Final

import numpy as np

from simkit.verify.numbers import ENDLESS, TICK, Floats, Ints, stream
from simkit.verify.replay.pool_jobs import PoolJobs


@dataclass(frozen=True)
class Setting:
    """What an order knows apart from the jobs."""

    capacity: float
    """Of the pool."""
    seed: int
    arguments: Mapping[str, Any]
    """Of the order, as the scenario gives them."""


Keys = Callable[[PoolJobs, Setting], Floats]
"""(J,): a number that a job keeps while it waits."""
ChangingKeys = Callable[[PoolJobs, Setting, Ints, float], tuple[Floats, ...]]
"""(W,) keys of W waiting jobs at an instant, the first decides."""


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    return np.array([function(value) for value in values.tolist()], dtype=np.float64)


def _logs(values: Floats) -> Floats:
    """Return log10(x), x at least 2."""
    return _each(log10, np.maximum(values, 2.0))


def _roots(values: Floats) -> Floats:
    return _each(sqrt, values)


def _log_submit(jobs: PoolJobs) -> Floats:
    """Return log10 of the submit time since the first job, in s, at least 1."""
    return _logs(np.maximum(jobs.submit - jobs.submit.min(initial=np.inf), 1.0))


def _r(jobs: PoolJobs) -> Floats:
    """Return estimates in s; one without an end is a number, too."""
    return np.minimum(jobs.estimate, ENDLESS)


def _at_least_10(jobs: PoolJobs) -> Floats:
    """Return estimates in s, at least 10."""
    return np.maximum(_r(jobs), 10.0)


def _density(jobs: PoolJobs, setting: Setting) -> Floats:
    """Return minus value / (share of the cluster * estimate)."""
    held = jobs.size / setting.capacity * _r(jobs)
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(held > 0, jobs.value / held, np.inf)


def _drawn(jobs: PoolJobs, setting: Setting) -> Floats:
    """Return SplitMix64 of the policy's first draw plus the rank.

    G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    first = int(stream(setting.seed, "policy").integers(2**63))
    with np.errstate(over="ignore"):
        mixed = jobs.rank.astype(np.uint64) + np.uint64(first + 1)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed.astype(np.float64) / 2.0**64


STATIC: Final[dict[str, Keys]] = {
    "fcfs": lambda jobs, _: jobs.submit,
    "lcfs": lambda jobs, _: -jobs.rank.astype(np.float64),
    "sjf": lambda jobs, _: jobs.estimate,
    "ljf": lambda jobs, _: -jobs.estimate,
    "saf": lambda jobs, _: jobs.size * _r(jobs),
    "laf": lambda jobs, _: -(jobs.size * _r(jobs)),
    "f1": lambda jobs, _: _logs(_r(jobs)) * jobs.size + 870.0 * _log_submit(jobs),
    "f2": lambda jobs, _: _roots(_r(jobs)) * jobs.size + 25_600.0 * _log_submit(jobs),
    "f3": lambda jobs, _: _r(jobs) * jobs.size + 6_860_000.0 * _log_submit(jobs),
    "f4": lambda jobs, _: _r(jobs) * _roots(jobs.size) + 530_000.0 * _log_submit(jobs),
    "log-r-n": lambda jobs, _: _logs(_r(jobs)) * jobs.size,
    "r2-n": lambda jobs, _: _at_least_10(jobs) * _at_least_10(jobs) * jobs.size,
    "random": _drawn,
    "fewest-remaining": lambda jobs, _: jobs.instances,
    "largest-request": lambda jobs, setting: -jobs.request / setting.capacity,
    "qos": lambda jobs, _: -jobs.qos,
    "value": lambda jobs, _: -jobs.value,
    "value-density": _density,
}
"""Orders whose keys do not change while a job waits; all jobs are gangs of a pool."""
BY_VALUE: Final = ("value", "value-density")
"""Orders that need the value of jobs."""


def _facts(jobs: PoolJobs, waiting: Ints, now: float) -> tuple[Floats, Floats, Floats]:
    """Return wait, estimate (at least a tick) and processors."""
    estimate = np.clip(jobs.estimate[waiting], TICK, ENDLESS)
    return now - jobs.submit[waiting], estimate, jobs.size[waiting]


def _hrrn(jobs: PoolJobs, _: Setting, waiting: Ints, now: float) -> tuple[Floats]:
    wait, estimate, _size = _facts(jobs, waiting, now)
    return (-((wait + estimate) / estimate),)


def _wfp3(jobs: PoolJobs, _: Setting, waiting: Ints, now: float) -> tuple[Floats]:
    wait, estimate, size = _facts(jobs, waiting, now)
    return (-((wait / estimate) ** 3 * size),)


def _unicef(jobs: PoolJobs, _: Setting, waiting: Ints, now: float) -> tuple[Floats]:
    wait, estimate, size = _facts(jobs, waiting, now)
    return (-(wait / (np.log2(np.maximum(size, 2.0)) * estimate)),)


def _least_slack(
    jobs: PoolJobs, setting: Setting, waiting: Ints, now: float
) -> tuple[Floats, Floats]:
    """Return whether it is too late, if that comes first, and the latest start, on the grid."""
    estimate, deadline = _r(jobs)[waiting], jobs.deadline[waiting]
    due = jobs.submit[waiting] + estimate / jobs.qos[waiting]
    latest = np.floor((np.where(np.isfinite(deadline), deadline, due) - estimate) / TICK) * TICK
    late = (latest < now) & bool(setting.arguments.get("hopeless_last", True))
    return late.astype(np.float64), latest


CHANGING: Final[dict[str, ChangingKeys]] = {
    "hrrn": _hrrn,
    "wfp3": _wfp3,
    "unicef": _unicef,
    "least-slack": _least_slack,
}
"""Orders that are sorted again at every decision."""
ARGUMENTS: Final = {"least-slack": {"hopeless_last"}}
"""Order → names of its arguments; the others have none."""
