"""Logs that benchmarks make: jobs in bursts, and waves of arrays that let queues grow long."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints

PROCESSORS: Final = 8192
"""Those that `long_queue` is made for."""
_LIMITS: Final = np.array([900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 3 * 86_400.0])


def long_queue(jobs: int, seed: int = 0) -> pl.DataFrame:
    """Return a table of jobs for `PROCESSORS` that come in waves above what the machine can do.

    Users submit arrays of up to a few hundred alike jobs at once: nearly all serial, the others
    on powers of two up to 2,048, with one request for the whole array; seven in ten leave it at
    the limit of three days. Within each of four waves the first half of the jobs comes at twice the
    rate at which the machine finishes them, the second half at 0.7 times that rate, so that tens of
    thousands of 447,784 jobs wait at once.
    """
    rng = np.random.default_rng(seed)
    length = rng.geometric(1 / 60, jobs)
    arrays = int(np.searchsorted(np.cumsum(length), jobs)) + 1
    member = np.repeat(np.arange(arrays), length[:arrays])[:jobs]
    serial = rng.random(arrays) < 0.96
    processors = 2 ** np.where(serial, 0, rng.integers(1, 12, arrays))
    typical_s = rng.lognormal(8.0, 1.2, arrays)
    run_s = np.clip(np.round(typical_s[member] * rng.lognormal(0.0, 0.3, jobs)), 1, _LIMITS[-1])
    request = _LIMITS[np.minimum(np.searchsorted(_LIMITS, 2 * typical_s), len(_LIMITS) - 1)]
    request[rng.random(arrays) < 0.7] = _LIMITS[-1]
    return pl.DataFrame(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": _in_waves(processors[member] * run_s, member, rng),
            "run_time_s": run_s,
            "processors": processors[member],
            "requested_time_s": np.maximum(request[member], run_s),
            "user": (rng.zipf(1.5, arrays) % 200)[member],
        }
    )


def _in_waves(area: Floats, member: Ints, rng: np.random.Generator) -> Floats:
    """Return (n,) submit times in s for jobs of (n,) processor-seconds in (n,) arrays."""
    arrays = int(member[-1]) + 1
    rush = np.arange(arrays) * 4 % arrays < arrays / 2
    gap = area.sum() / PROCESSORS / arrays / np.where(rush, 2.0, 0.7)
    return np.floor(np.cumsum(rng.exponential(1.0, arrays) * gap)[member])


def bursts(
    jobs: int, load: float, *, processors: int = 256, sizes: int = 7, unit: int = 1
) -> pl.DataFrame:
    """Return jobs that come in bursts, in turn to queues 0 and 1.

    Args:
        jobs: how many.
        load: the offered load of all processors.
        processors: those of the machine.
        sizes: jobs ask for 1, 2, 4, … units, so many sizes in all, each as likely.
        unit: processors of a unit.
    """
    rng = np.random.default_rng(1)
    size = unit * 2 ** rng.integers(0, sizes, jobs)
    run_s = np.ceil(rng.lognormal(7.0, 1.8, jobs).clip(10, 86_400))
    gaps = rng.weibull(0.6, jobs)
    span_s = float((run_s * size).sum()) / (load * processors)
    return pl.DataFrame({
        "job_id": np.arange(jobs),
        "submit_time_s": np.floor(np.cumsum(gaps / gaps.sum() * span_s)),
        "run_time_s": run_s,
        "processors": size,
        "requested_time_s": np.ceil(run_s * rng.choice([1.0, 2.0, 5.0, 20.0], jobs)),
        "queue": np.arange(jobs) % 2,
    })  # fmt: skip
