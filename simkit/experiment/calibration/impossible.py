"""Rows of a log that no schedule can have: jobs beyond the machine, more in use than there is."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from simkit.workload import Workload
from simkit.workload.recorded import peak_use


@dataclass(frozen=True)
class Impossible:
    """What of a log a machine cannot have done; it has processors, or what comes first."""

    jobs: int
    capacity: float
    too_large: int
    """Jobs that ask for more than the whole machine has."""
    without_start: int
    """Jobs whose start the log does not tell."""
    started_early: int
    """Jobs that start before their submission."""
    starts_over_capacity: int
    """Jobs that start when more is in use than the machine has, themselves included."""
    instants_over_capacity: int
    """Instants of starts at which that is so, all that ends then having ended."""
    time_over_capacity_s: float
    """How long more was in use, in s."""
    peak: float
    """The most in use at once."""

    def as_dict(self) -> dict[str, float]:
        """Return the counts by name."""
        return asdict(self)


def impossible_rows(workload: Workload, capacity: float) -> Impossible:
    """Count what a log records that a machine cannot have done.

    Args:
        workload: with recorded starts; each job holds what it asks for from its start for its run
            time.
        capacity: what the machine has of the first resource.
    """
    first = workload.first_task[:-1]
    start, size = workload.recorded_start_s[first], workload.job_request()[:, 0]
    end = start + workload.run_time_s[first]
    known = np.isfinite(start)
    begin, until, held = start[known], end[known], size[known]
    time = np.concatenate((begin, until))
    change = np.concatenate((held, -held))
    instants, row = np.unique(time, return_inverse=True)
    used = np.cumsum(np.bincount(row, change, len(instants)))
    # What runs for no time holds its processors at the instant of its start alone.
    at_once = np.bincount(row[: len(begin)], np.where(until == begin, held, 0.0), len(instants))
    over = used + at_once > capacity
    starts = np.bincount(row[: len(begin)], minlength=len(instants))
    peak = peak_use(begin, until, held)
    return Impossible(
        jobs=len(workload),
        capacity=capacity,
        too_large=int((size > capacity).sum()),
        without_start=int((~known).sum()),
        started_early=int((begin < workload.submit_time_s[known]).sum()),
        starts_over_capacity=int(starts[over].sum()),
        instants_over_capacity=int((over & (starts > 0)).sum()),
        time_over_capacity_s=float(np.diff(instants)[(used > capacity)[:-1]].sum()),
        peak=0.0 if peak is None else peak.amount,
    )
