"""Generated batch jobs: the tables batch_task and batch_instance.

Jobs are finished, waiting or broken; each kind has its own number of tasks. Jobs arrive in bursts
at the trace's rate over the day. Instances, wall time and memory of a task are correlated through
a Gaussian copula with one part for the job and one for the task (R. B. Nelsen, "An Introduction to
Copulas", 2006), so that each keeps its fitted distribution.

The last attempt of each instance ends within its task; one of them ends with the task. Earlier
attempts follow each other between the task's creation and the last attempt. No scheduler places
them: the instances of a task visit the machines in turn, from a random one on, and each further
attempt runs on the next machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces.alibaba2017_generator import model
from simkit.traces.columns import ALIBABA2017

STATUSES: Final = ("Terminated", "Failed", "Running", "Waiting", "Interrupted")
"""Of tasks, and the last of attempts alone."""
TERMINATED, FAILED, RUNNING, WAITING, INTERRUPTED = range(len(STATUSES))
_FINISHED_KIND, _WAITING_KIND, _BROKEN_KIND = range(len(model.KINDS))
CPU_PER_CORE: Final = ALIBABA2017["batch_task"]["plan_cpu"].per
_INSTANCES_AT_ONCE: Final = 300_000
_NONE: Final = -1


class Tasks(NamedTuple):
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
        asked = pl.Series(~self.no_request)
        frame = pl.DataFrame(
            {
                "create_time_s": self.create_s, "end_time_s": self.end_s, "job_id": self.job,
                "task_id": self.task, "instances": self.instances,
                "status": np.array(STATUSES)[self.status], "plan_cpu": self.cpu,
                "plan_mem": np.round(self.mem, 9),
            }
        )  # fmt: skip
        return frame.with_columns(pl.when(asked).then(n).alias(n) for n in ("plan_cpu", "plan_mem"))


def draw_tasks(jobs: int, rng: np.random.Generator) -> Tasks:
    """Draw `jobs` jobs with their tasks; `rng` is only spawned from."""
    jobs_rng, times_rng, tasks_rng = rng.spawn(3)
    kind = jobs_rng.choice(len(model.KINDS), jobs, p=_shares(model.KIND_COUNTS))
    level = jobs_rng.random(jobs)
    size = np.zeros(jobs, np.int64)
    for number, name in enumerate(model.KINDS):
        size[kind == number] = model.TASKS_PER_JOB[name].whole_at(level[kind == number])
    owner = np.repeat(np.arange(jobs), size)
    status = _statuses(kind, size, owner, tasks_rng)
    score = _scores(jobs, owner, tasks_rng)
    wall = np.select(
        [status == number for number in range(WAITING + 1)],
        [model.WALL_S[name].whole_at(score[:, 1]) for name in STATUSES[: WAITING + 1]],
    )
    create = _arrivals(jobs, times_rng)[owner] + _later(size, owner, times_rng)
    create[create == 0] = 1  # the trace has no task created at 0, which would mean: before it
    cpu = _cpu(jobs, owner, tasks_rng)
    wall[create + wall == 0] -= 1  # an end of 0 would mean: no end
    end = create + wall
    end[_happens(model.END_ZERO, status, tasks_rng)] = 0
    early = _happens(model.ENDS_EARLY, status, tasks_rng)
    wall[early] = 0
    end[early] = create[early] - 1
    task = np.empty(len(owner), np.int64)  # a job's ids are consecutive, but not in order of rows
    task[np.lexsort((tasks_rng.random(len(owner)), owner))] = np.arange(1, len(owner) + 1)
    few, many = (
        law.whole_at(score[:, 0]) for law in (model.INSTANCES_OF_WAITING, model.INSTANCES_PER_TASK)
    )
    small, large = (model.MEMORY[name].at(score[:, 2]) for name in ("small", "large"))
    return Tasks(
        job=owner + 1, task=task, create_s=create, wall_s=wall, end_s=end,
        instances=np.where(status == WAITING, few, many), status=status, cpu=cpu,
        mem=np.where(cpu >= model.LARGE_CPU, large, small),
        no_request=_happens(model.NO_REQUEST, status, tasks_rng),
    )  # fmt: skip


def _shares(counts: tuple[int, ...]) -> Floats:
    return np.array(counts) / sum(counts)


def _arrivals(jobs: int, rng: np.random.Generator) -> Ints:
    """Return (jobs,) submit times: bursts over the day, in stretches that are each in order."""
    edges = np.array(model.ARRIVAL_EDGES_S)
    sizes = rng.geometric(1 / model.BURST_JOBS, jobs)  # more bursts than are needed
    slot = rng.choice(len(model.ARRIVALS), jobs, p=_shares(model.ARRIVALS))
    begin = np.repeat(rng.uniform(edges[slot], edges[slot + 1]), sizes)[:jobs]
    spread = rng.exponential(model.BURST_SPREAD_S, jobs)
    time = np.floor(np.minimum(begin + spread, edges[-1] - 1)).astype(np.int64)
    stretch = rng.integers(0, -(-jobs // model.JOBS_IN_ORDER), jobs)
    return np.asarray(time[np.lexsort((time, stretch))])


def _later(size: Ints, owner: Ints, rng: np.random.Generator) -> Ints:
    """Return (T,) how long after its job's first task each task is created."""
    level, gap = rng.random(len(owner)), rng.geometric(1 / (model.VERY_LATE_S - 1), len(owner))
    late = (level < model.LATE_SHARE) + np.where(level < model.VERY_LATE_SHARE, gap, 0)
    late[np.cumsum(size) - size] = 0
    return np.asarray(late)


def _statuses(kind: Ints, size: Ints, owner: Ints, rng: np.random.Generator) -> Ints:
    """Return (T,) statuses; a broken job has one failed task, or a running one, besides others."""
    status = np.full(len(owner), TERMINATED)
    status[kind[owner] == _WAITING_KIND] = WAITING
    broken = kind[owner] == _BROKEN_KIND
    status[broken & (rng.random(len(owner)) < model.RUNNING_SHARE)] = RUNNING
    fails = rng.random(len(size)) < np.where(size == 1, *model.BROKEN_WITH_FAILED)
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


def _cpu(jobs: int, owner: Ints, rng: np.random.Generator) -> Ints:
    """Return (T,) plan_cpu: most tasks ask for what their job asks for."""
    values, share = np.array(model.CPU_VALUES), _shares(model.CPU_COUNTS)
    of_job, of_task = rng.choice(values, jobs, p=share), rng.choice(values, len(owner), p=share)
    return np.where(rng.random(len(owner)) < model.SAME_CPU_SHARE, of_job[owner], of_task)


def _happens(shares: dict[str, float], status: Ints, rng: np.random.Generator) -> Bools:
    """Draw for each task whether what has these shares, by status, happens to it."""
    share = np.array([shares[name] for name in STATUSES[: WAITING + 1]])
    return np.asarray(rng.random(len(status)) < share[status])


class Attempts(NamedTuple):
    """Columns of A rows of batch_instance; ids of -1 are left empty."""

    start_s: Ints
    end_s: Ints
    """(A,) 0: the table shows no end."""
    job: Ints
    task: Ints
    machine: Ints
    status: Ints
    seq: Ints
    total: Ints
    cpu: Floats
    """(A,) cores used on average."""
    mem: Floats
    peak: Floats
    """(A,) the maxima over the means, from 1 on."""
    measured: Bools
    """(A,) the table shows what was used."""

    def frame(self) -> pl.DataFrame:
        """Return the rows as the table has them."""
        job, task, machine = (
            pl.Series(ids).replace(_NONE, None) for ids in (self.job, self.task, self.machine)
        )
        used = {
            "cpu_max": np.round(self.cpu * self.peak, 2), "cpu_mean": np.round(self.cpu, 2),
            "mem_max": np.round(self.mem * self.peak, 6), "mem_mean": np.round(self.mem, 6),
        }  # fmt: skip
        status = pl.Series(self.status).replace_strict(
            range(len(STATUSES)), STATUSES, return_dtype=pl.String
        )
        return pl.DataFrame(
            {
                "start_time_s": self.start_s,
                "end_time_s": self.end_s,
                "job_id": job,
                "task_id": task,
                "machine_id": machine,
                "status": status,
                "seq_no": self.seq,
                "total_seq_no": self.total,
                **used,
            }
        ).with_columns(pl.when(pl.Series(self.measured)).then(n).alias(n) for n in used)


def draw_attempts(tasks: Tasks, machines: int, rng: np.random.Generator) -> Iterator[Attempts]:
    """Yield the attempts of all instances, some tasks at a time, and finally those without a job.

    Args:
        tasks: the tasks.
        machines: the number M of machines; ids are 1 … M.
        rng: the generator.
    """
    piece = (np.cumsum(tasks.instances) - tasks.instances) // _INSTANCES_AT_ONCE
    rows = 0
    for chosen in np.split(np.arange(len(piece)), np.flatnonzero(np.diff(piece)) + 1):
        attempts = _of_tasks(tasks, chosen, machines, rng)
        rows += len(attempts.seq)
        yield attempts
    share = model.NOBODYS_SHARE
    yield _of_nobody(round(rows * share / (1 - share)), machines, rng)


def run_shares(instances: Ints, wall_s: Ints, rng: np.random.Generator) -> Floats:
    """Return (T,) mean run times of instances as a share of their tasks' wall times `wall_s`.

    `instances` has the (T,) number of instances of each task.
    """
    level, share = rng.random(len(instances)), np.ones(len(instances))
    for size, wall, marginal in model.RUN_SHARE:  # from few to many and short to long
        rows = (instances >= size) & (wall_s >= wall)
        share[rows] = marginal.at(level[rows])
    return np.minimum(share, 1.0)


def _of_tasks(tasks: Tasks, chosen: Ints, machines: int, rng: np.random.Generator) -> Attempts:
    """Return the attempts of some tasks, instance by instance."""
    counts, wall_s = tasks.instances[chosen], tasks.wall_s[chosen]
    first = np.cumsum(counts) - counts
    owner = np.repeat(chosen, counts)  # of I instances, the rows of their tasks
    final = _final_statuses(tasks.status[owner], first, rng)
    mean = np.repeat(wall_s * run_shares(counts, wall_s, rng), counts)
    wall = tasks.wall_s[owner]
    run = _run_times(mean, wall, rng)
    wait = np.floor(rng.random(len(run)) * (wall - run + 1)).astype(np.int64)
    wait[first] = (wall - run)[first]  # an instance that ends with the task
    total = rng.geometric(1 / model.ATTEMPTS, len(run))
    total[final == WAITING] = 1
    machine = np.repeat(rng.integers(0, machines, len(chosen)) - first, counts)
    machine += np.arange(len(run))
    row = np.repeat(np.arange(len(total)), total)  # of A attempts, their instances
    seq = np.arange(len(row)) - np.repeat(np.cumsum(total) - total, total) + 1
    status, start, end = _attempt_times(seq, total[row], wait[row], run[row], final[row], rng)
    owner, machine = owner[row], (machine[row] + seq - 1) % machines + 1
    machine[status == WAITING] = _NONE
    start = np.where(status == WAITING, 0, _not_zero(tasks.create_s[owner] + start))
    end = np.where(end < 0, 0, _not_zero(tasks.create_s[owner] + end))
    level, peak, shown = rng.random((3, len(start)))
    measured = (start >= model.USAGE_FROM_S) & (start < model.USAGE_UNTIL_S) & (end > 0)
    return Attempts(
        start_s=start, end_s=end, job=tasks.job[owner], task=tasks.task[owner], machine=machine,
        status=status, seq=seq, total=total[row],
        cpu=tasks.cpu[owner] / CPU_PER_CORE * _between(model.CPU_USED, level),
        mem=tasks.mem[owner] * _between(model.MEM_USED, level),
        peak=1 + peak / 2, measured=measured & (shown >= model.NO_USAGE_SHARE),
    )  # fmt: skip


def _between(bounds: tuple[float, float], level: Floats) -> Floats:
    return bounds[0] + level * (bounds[1] - bounds[0])


def _final_statuses(status: Ints, first: Ints, rng: np.random.Generator) -> Ints:
    """Return (I,) how instances end up whose tasks have `status`; a task's first is its worst."""
    level = rng.random(len(status))
    final = status.copy()
    for number in (FAILED, RUNNING):
        final[(status == number) & (level >= model.UNENDED_SHARE[STATUSES[number]])] = TERMINATED
    final[first] = status[first]
    return final


def _run_times(mean: Floats, wall: Ints, rng: np.random.Generator) -> Ints:
    """Return (I,) run times around their task's mean, within its wall time, at least 1 if it is."""
    width = np.minimum(model.RUN_SPREAD * mean, wall - mean)
    run = mean + width * rng.uniform(-1, 1, len(mean))
    whole = np.floor(run + rng.random(len(mean))).astype(np.int64)  # rounded without bias
    return np.clip(whole, np.minimum(1, wall), wall)


def _attempt_times(
    seq: Ints, total: Ints, wait: Ints, run: Ints, final: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """Return (A,) statuses, and starts and ends after the task's creation; no end is -1."""
    last = seq == total
    kinds, level = rng.random((2, len(seq)))
    before = np.where(kinds < model.INTERRUPTED_SHARE, INTERRUPTED, FAILED)
    status = np.where(last, final, before)
    piece = wait / np.maximum(total - 1, 1)
    start = np.where(last, wait, np.floor(piece * (seq - 1 + level))).astype(np.int64)
    end = np.full(len(seq), _NONE)
    ended, broken = status == TERMINATED, status == INTERRUPTED
    end[ended] = (wait + run)[ended]
    end[broken] = np.maximum(start, np.floor(piece * seq).astype(np.int64))[broken]
    return status, start, end


def _not_zero(time_s: Ints) -> Ints:
    """Move what happens at 0 a second ahead, for 0 means that there is no time."""
    return np.where(time_s == 0, -1, time_s)


def _of_nobody(rows: int, machines: int, rng: np.random.Generator) -> Attempts:
    """Return rows without job and task id, in groups of equal times, shown as still running."""
    groups = -(-rows // model.NOBODYS_GROUP)
    low, high = model.NOBODYS_LATE_S
    late = rng.random(groups) < model.NOBODYS_LATE_SHARE
    level = rng.random(groups)
    start = np.where(late, low + level * (high - low), level * low).astype(np.int64) + 1
    end = start + 1 + rng.exponential(100, groups).astype(np.int64)
    group = np.repeat(np.arange(groups), model.NOBODYS_GROUP)[:rows]
    machine = rng.integers(0, machines, groups)[group] + np.arange(rows)
    none, one, zero = np.full(rows, _NONE), np.ones(rows, np.int64), np.zeros(rows)
    return Attempts(
        start_s=start[group], end_s=end[group], job=none, task=none,
        machine=machine % machines + 1, status=np.full(rows, RUNNING), seq=one, total=one,
        cpu=zero, mem=zero, peak=zero, measured=zero > 0,
    )  # fmt: skip
