"""Generated jobs and tasks: the table batch_task.

Jobs are finished, waiting or broken; each kind has its own number of tasks. Jobs arrive in bursts
at the trace's rate over the day. Instances, wall time and memory of a task are correlated through
a Gaussian copula with one part for the job and one for the task (R. B. Nelsen, "An Introduction to
Copulas", 2006), so that each keeps its fitted distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces.alibaba2017_generator import model

STATUSES: Final = ("Terminated", "Failed", "Running", "Waiting")
TERMINATED, FAILED, RUNNING, WAITING = range(len(STATUSES))
_FINISHED_KIND, _WAITING_KIND, _BROKEN_KIND = range(len(model.KINDS))


@dataclass(frozen=True)
class GeneratedTasks:
    """Columns of T tasks in the order of the file; the tasks of a job stand together."""

    job: Ints
    task: Ints
    create_s: Ints
    wall_s: Ints
    """(T,) from creation to the end, at least 0; also where the table does not show the end."""
    end_s: Ints
    """(T,) as the table shows it: 0, or before the creation, where the trace has such rows."""
    instances: Ints
    status: Ints
    """(T,) positions in `STATUSES`."""
    cpu: Ints
    """(T,) hundredths of a core."""
    mem: Floats
    no_request: Bools
    """(T,) cpu and memory are left empty in the table."""

    def frame(self) -> pl.DataFrame:
        """Return the rows of batch_task."""
        frame = pl.DataFrame(
            {
                "create_time_s": self.create_s,
                "end_time_s": self.end_s,
                "job_id": self.job,
                "task_id": self.task,
                "instances": self.instances,
                "status": np.array(STATUSES)[self.status],
                "plan_cpu": self.cpu,
                "plan_mem": np.round(self.mem, 9),
            }
        )
        asked = pl.lit(pl.Series(~self.no_request))
        return frame.with_columns(
            pl.when(asked).then(pl.col(name)).otherwise(None).alias(name)
            for name in ("plan_cpu", "plan_mem")
        )


def draw_tasks(jobs: int, rng: np.random.Generator) -> GeneratedTasks:
    """Draw `jobs` jobs with their tasks; `rng` is only spawned from."""
    jobs_rng, times_rng, tasks_rng = rng.spawn(3)
    counts = np.array(model.KIND_COUNTS)
    kind = jobs_rng.choice(len(counts), jobs, p=counts / counts.sum())
    level = jobs_rng.random(jobs)
    size = np.zeros(jobs, np.int64)
    for number, name in enumerate(model.KINDS):
        size[kind == number] = model.TASKS_PER_JOB[name].whole_at(level[kind == number])
    owner = np.repeat(np.arange(jobs), size)
    status = _statuses(kind, size, owner, tasks_rng)
    score = _scores(jobs, owner, tasks_rng)
    wall = _by_status(status, score[:, 1])
    create = _arrivals(jobs, times_rng)[owner] + _later(size, owner, times_rng)
    create[create == 0] = 1  # the trace has no task created at 0, which would mean: before it
    cpu = _cpu(jobs, owner, tasks_rng)
    wall[create + wall == 0] -= 1  # an end of 0 would mean: no end
    end = create + wall
    end[_happens(model.END_ZERO, status, tasks_rng)] = 0
    early = _happens(model.ENDS_EARLY, status, tasks_rng)
    wall[early] = 0
    end[early] = create[early] - 1
    return GeneratedTasks(
        job=owner + 1,
        task=_task_ids(owner, tasks_rng),
        create_s=create,
        wall_s=wall,
        end_s=end,
        instances=_instances(status, score[:, 0]),
        status=status,
        cpu=cpu,
        mem=_memory(cpu, score[:, 2]),
        no_request=_happens(model.NO_REQUEST, status, tasks_rng),
    )


def _arrivals(jobs: int, rng: np.random.Generator) -> Ints:
    """Return (jobs,) submit times: bursts over the day, in stretches that are each in order."""
    edges, counts = np.array(model.ARRIVAL_EDGES_S), np.array(model.ARRIVALS)
    sizes = rng.geometric(1 / model.BURST_JOBS, jobs)  # more bursts than are needed
    slot = rng.choice(len(counts), jobs, p=counts / counts.sum())
    begin = rng.uniform(edges[slot], edges[slot + 1])
    begin = np.repeat(begin, sizes)[:jobs]
    spread = rng.exponential(model.BURST_SPREAD_S, jobs)
    time = np.floor(np.minimum(begin + spread, edges[-1] - 1)).astype(np.int64)
    stretch = rng.integers(0, -(-jobs // model.JOBS_IN_ORDER), jobs)
    return np.asarray(time[np.lexsort((time, stretch))])


def _later(size: Ints, owner: Ints, rng: np.random.Generator) -> Ints:
    """Return (T,) how long after its job's first task each task is created."""
    level, gap = rng.random(len(owner)), rng.geometric(1 / (model.VERY_LATE_S - 1), len(owner))
    late = (level < model.LATE_SHARE).astype(np.int64)
    late[level < model.VERY_LATE_SHARE] += gap[level < model.VERY_LATE_SHARE]
    late[np.cumsum(size) - size] = 0
    return late


def _statuses(kind: Ints, size: Ints, owner: Ints, rng: np.random.Generator) -> Ints:
    """Return (T,) statuses; a broken job has one failed task, or a running one, besides others."""
    status = np.full(len(owner), TERMINATED)
    status[kind[owner] == _WAITING_KIND] = WAITING
    broken = kind[owner] == _BROKEN_KIND
    status[broken & (rng.random(len(owner)) < model.RUNNING_SHARE)] = RUNNING
    single, several = model.BROKEN_WITH_FAILED
    fails = rng.random(len(size)) < np.where(size == 1, single, several)
    jobs = np.flatnonzero(kind == _BROKEN_KIND)
    chosen = (np.cumsum(size) - size + rng.integers(0, size))[jobs]
    status[chosen] = np.where(fails[jobs], FAILED, RUNNING)
    return status


def _scores(jobs: int, owner: Ints, rng: np.random.Generator) -> Floats:
    """Return (T, 3) levels in 0 … 1 of instances, wall time and memory."""
    from scipy.special import ndtr

    own = model.TOTAL_CORRELATION - model.JOB_CORRELATION
    of_job = rng.standard_normal((jobs, 3)) @ np.linalg.cholesky(model.JOB_CORRELATION).T
    of_task = rng.standard_normal((len(owner), 3)) @ np.linalg.cholesky(own).T
    return np.asarray(ndtr(of_job[owner] + of_task))


def _instances(status: Ints, level: Floats) -> Ints:
    return np.where(
        status == WAITING,
        model.INSTANCES_OF_WAITING.whole_at(level),
        model.INSTANCES_PER_TASK.whole_at(level),
    )


def _by_status(status: Ints, level: Floats) -> Ints:
    """Return (T,) wall times."""
    wall = np.zeros(len(status), np.int64)
    for number, name in enumerate(STATUSES):
        rows = status == number
        wall[rows] = model.WALL_S[name].whole_at(level[rows])
    return wall


def _cpu(jobs: int, owner: Ints, rng: np.random.Generator) -> Ints:
    """Return (T,) plan_cpu: most tasks ask for what their job asks for."""
    values, counts = np.array(model.CPU_VALUES), np.array(model.CPU_COUNTS)
    share = counts / counts.sum()
    of_job, of_task = rng.choice(values, jobs, p=share), rng.choice(values, len(owner), p=share)
    same = rng.random(len(owner)) < model.SAME_CPU_SHARE
    return np.where(same, of_job[owner], of_task)


def _memory(cpu: Ints, level: Floats) -> Floats:
    large = cpu >= model.LARGE_CPU
    return np.where(large, model.MEMORY["large"].at(level), model.MEMORY["small"].at(level))


def _happens(shares: dict[str, float], status: Ints, rng: np.random.Generator) -> Bools:
    """Draw for each task whether what has these shares, by status, happens to it."""
    share = np.array([shares[name] for name in STATUSES])
    return np.asarray(rng.random(len(status)) < share[status])


def _task_ids(owner: Ints, rng: np.random.Generator) -> Ints:
    """Number the tasks: the ids of a job are consecutive, but its rows are not in their order."""
    rank = np.empty(len(owner), np.int64)
    rank[np.lexsort((rng.random(len(owner)), owner))] = np.arange(1, len(owner) + 1)
    return rank
