"""What all generators of synthetic workloads share: checks of their arguments, and the result."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import TraceError, did_you_mean
from simkit.traces.models.users import ESTIMATES, Estimates, draw_users, requested_times
from simkit.workload import RowReport, Trace, Workload


def synthetic_trace(
    *,
    processors: int,
    submit_time_s: Floats,
    run_time_s: Floats,
    sizes: Ints,
    queue: Ints | None = None,
    users: int,
    estimates: Estimates,
    rng: np.random.Generator,
) -> Trace:
    """Return the trace of J generated jobs, numbered from 1 in order of submission.

    Args:
        processors: the machine's capacity.
        submit_time_s: (J,) ascending, in seconds since the trace's zero.
        run_time_s: (J,) seconds.
        sizes: (J,) processors of each job.
        queue: (J,) queue numbers, if the model has queues.
        users: how many users submit; 0 leaves the users unknown.
        estimates: how users estimate run times.
        rng: the generator of users and estimates alone.
    """
    who, how = rng.spawn(2)
    jobs = len(submit_time_s)
    columns = {
        "job_id": np.arange(1, jobs + 1),
        "submit_time_s": submit_time_s,
        "run_time_s": run_time_s,
        "processors": sizes,
    }
    if estimates != "none":
        columns["requested_time_s"] = requested_times(run_time_s, estimates, how)
    if users:
        columns["user"] = draw_users(jobs, users, who)
    if queue is not None:
        columns["queue"] = queue
    workload = Workload.from_jobs(columns, capacity={"processors": float(processors)})
    return Trace(workload, RowReport(read=jobs, accepted=jobs))


def check_common(*, jobs: int, processors: int, users: int, estimates: str) -> None:
    """Raise TraceError if an argument that every generator takes is out of its range."""
    check_whole("jobs", jobs, 1)
    check_whole("processors", processors, 1)
    check_whole("users", users, 0)
    check_choice("estimates", estimates, ESTIMATES)


def check_whole(name: str, value: int, least: int) -> None:
    """Raise TraceError unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise TraceError(f"generate: {name} is {value!r}; give a whole number from {least} on")


def check_positive(name: str, value: float) -> None:
    """Raise TraceError unless `value` is a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise TraceError(f"generate: {name} is {value!r}; give a finite number above 0")


def check_range(name: str, bounds: tuple[float, float], least: float, most: float) -> None:
    """Raise TraceError unless least <= bounds[0] <= bounds[1] <= most."""
    low, high = bounds
    if not least <= low <= high <= most or math.isinf(high):
        rule = f"from {least:g} on" if math.isinf(most) else f"within {least:g} and {most:g}"
        raise TraceError(f"generate: {name} is [{low!r}, {high!r}]; give low <= high, {rule}")


def check_choice(name: str, value: str, known: Collection[str]) -> None:
    """Raise TraceError, with the nearest known value, unless `value` is one of `known`."""
    if value not in known:
        raise TraceError(f"generate: {name} is {value!r}{did_you_mean(value, known)}")
