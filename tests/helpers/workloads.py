"""Small workloads of two resources: jobs of one task each, and drawn jobs of gangs and bags."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.workload import Workload


def one_task_jobs(
    submit: npt.ArrayLike,
    run: npt.ArrayLike,
    request: npt.ArrayLike,
    instances: npt.ArrayLike = 1,
    *,
    requested: npt.ArrayLike | None = None,
    gang: bool = True,
    **columns: Any,
) -> Workload:
    """Return jobs of one task each.

    Args:
        submit: of each job, s; a single number is that of all, here and below.
        run: run times, s.
        request: (N, 2) cores and memory of an instance.
        instances: of each task.
        requested: requested times, s; None: the run times.
        gang: whether the instances of a task start together.
        columns: further columns, such as `user`.
    """
    amounts = np.array(request, float).reshape(-1, 2)
    jobs = len(amounts)

    def column(value: npt.ArrayLike, dtype: type = float) -> Any:
        return np.broadcast_to(np.asarray(value, dtype), jobs).copy()

    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(jobs),
        submit_time_s=column(submit),
        first_task=np.arange(jobs + 1),
        task_id=np.arange(jobs),
        instances=column(instances, int),
        request=amounts,
        run_time_s=column(run),
        requested_time_s=column(run if requested is None else requested),
        gang=column(gang, bool),
        **columns,
    )


def mixed_jobs(
    seed: int,
    jobs: int,
    *,
    gap_s: int = 3,
    most: int = 3,
    requests: tuple[float, ...] = (0.0, 0.5, 1.0),
    off: tuple[int, int] | None = (-3, 7),
    gangs: float = 0.6,
) -> Workload:
    """Draw gangs and bags in jobs of one to three tasks that run for 0 to 8 s.

    Args:
        seed: of everything.
        jobs: how many.
        gap_s: the longest time between two submissions, s.
        most: instances of a task.
        requests: what an instance may ask for of a resource.
        off: the least and the most by which an estimate differs from the run time, s; None: nothing
            is requested.
        gangs: share of the tasks whose instances start together.
    """
    rng = np.random.default_rng(seed)
    tasks = rng.integers(1, 4, jobs)
    total = int(tasks.sum())
    run = rng.integers(0, 9, total).astype(float)
    asked = np.full(total, np.nan)
    if off is not None:
        asked = np.maximum(run + rng.integers(off[0], off[1] + 1, total), 0.0)
    return Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(jobs),
        submit_time_s=np.cumsum(rng.integers(0, gap_s + 1, jobs)).astype(float),
        first_task=np.concatenate(([0], np.cumsum(tasks))),
        task_id=np.arange(total),
        instances=rng.integers(1, most + 1, total),
        request=rng.choice(requests, (total, 2)),
        run_time_s=run,
        requested_time_s=asked,
        gang=rng.random(total) < gangs,
        queue=rng.integers(0, 2, jobs),
        user=rng.integers(-1, 4, jobs),
    )
