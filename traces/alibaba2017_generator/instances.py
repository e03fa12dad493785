"""Generated instances: the table batch_instance, a row for every attempt.

The last attempt of each instance ends within its task; one of them ends with the task. Earlier
attempts follow each other between the task's creation and the last attempt. Placement does not
model a scheduler: the instances of a task visit the machines in turn, from a random one on, and
each further attempt runs on the next machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces.alibaba2017.tables import CPU_PER_CORE
from simkit.traces.alibaba2017_generator import model
from simkit.traces.alibaba2017_generator.tasks import FAILED, RUNNING, STATUSES, TERMINATED, WAITING
from simkit.traces.alibaba2017_generator.tasks import GeneratedTasks as Tasks

INTERRUPTED: Final = len(STATUSES)
_STATUSES: Final = (*STATUSES, "Interrupted")
_INSTANCES_AT_ONCE: Final = 300_000
_NONE: Final = -1


@dataclass(frozen=True)
class Attempts:
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

        def ids(values: Ints) -> pl.Series:
            return pl.Series(values).replace(_NONE, None)

        used = {
            "cpu_max": np.round(self.cpu * self.peak, 2),
            "cpu_mean": np.round(self.cpu, 2),
            "mem_max": np.round(self.mem * self.peak, 6),
            "mem_mean": np.round(self.mem, 6),
        }
        shown = pl.lit(pl.Series(self.measured))
        return pl.DataFrame(
            {
                "start_time_s": self.start_s,
                "end_time_s": self.end_s,
                "job_id": ids(self.job),
                "task_id": ids(self.task),
                "machine_id": ids(self.machine),
                "status": pl.Series(self.status).replace_strict(
                    range(len(_STATUSES)), _STATUSES, return_dtype=pl.String
                ),
                "seq_no": self.seq,
                "total_seq_no": self.total,
                **used,
            }
        ).with_columns(pl.when(shown).then(pl.col(name)).alias(name) for name in used)


def draw_attempts(tasks: Tasks, machines: int, rng: np.random.Generator) -> Iterator[Attempts]:
    """Yield the attempts of all instances, some tasks at a time, and finally those without a job.

    Args:
        tasks: the tasks.
        machines: the number M of machines; ids are 1 … M.
        rng: the generator.
    """
    before = np.cumsum(tasks.instances) - tasks.instances
    piece = before // _INSTANCES_AT_ONCE
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
    level = rng.random(len(instances))
    share = np.ones(len(instances))
    for size, wall, marginal in model.RUN_SHARE:  # from few to many and short to long
        rows = (instances >= size) & (wall_s >= wall)
        share[rows] = marginal.at(level[rows])
    return np.minimum(share, 1.0)


@dataclass(frozen=True)
class _Instances:
    """Columns of I instances, task by task."""

    owner: Ints
    """(I,) rows of their tasks."""
    final: Ints
    """(I,) status of the last attempt."""
    wait_s: Ints
    """(I,) from the task's creation to the start of the last attempt."""
    run_s: Ints
    attempts: Ints
    machine: Ints
    """(I,) machine of the first attempt, modulo the number of machines."""


def _of_tasks(tasks: Tasks, chosen: Ints, machines: int, rng: np.random.Generator) -> Attempts:
    """Return the attempts of some tasks, instance by instance."""
    drawn = _draw_instances(tasks, chosen, machines, rng)
    total = drawn.attempts
    row = np.repeat(np.arange(len(total)), total)
    seq = np.arange(len(row)) - np.repeat(np.cumsum(total) - total, total) + 1
    status, start, end = _attempt_times(
        seq, total[row], drawn.wait_s[row], drawn.run_s[row], drawn.final[row], rng
    )
    owner = drawn.owner[row]
    create = tasks.create_s[owner]
    machine = (drawn.machine[row] + seq - 1) % machines + 1
    machine[status == WAITING] = _NONE
    return _with_usage(
        rng,
        cpu=tasks.cpu[owner] / CPU_PER_CORE,
        mem=tasks.mem[owner],
        start_s=np.where(status == WAITING, 0, _not_zero(create + start)),
        end_s=np.where(end < 0, 0, _not_zero(create + end)),
        job=tasks.job[owner],
        task=tasks.task[owner],
        machine=machine,
        status=status,
        seq=seq,
        total=total[row],
    )


def _draw_instances(
    tasks: Tasks, chosen: Ints, machines: int, rng: np.random.Generator
) -> _Instances:
    counts, wall_s = tasks.instances[chosen], tasks.wall_s[chosen]
    first = np.cumsum(counts) - counts
    owner = np.repeat(chosen, counts)
    final = _final_statuses(tasks.status[owner], first, rng)
    mean = wall_s * run_shares(counts, wall_s, rng)
    wall = tasks.wall_s[owner]
    run = _run_times(np.repeat(mean, counts), wall, rng)
    wait = np.floor(rng.random(len(run)) * (wall - run + 1)).astype(np.int64)
    wait[first] = (wall - run)[first]  # an instance that ends with the task
    attempts = rng.geometric(1 / model.ATTEMPTS, len(run))
    attempts[final == WAITING] = 1
    machine = np.repeat(rng.integers(0, machines, len(chosen)) - first, counts)
    machine += np.arange(len(run))
    return _Instances(owner, final, wait, run, attempts, machine)


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


def _with_usage(rng: np.random.Generator, *, cpu: Floats, mem: Floats, **columns: Any) -> Attempts:
    """Add what was used of `cpu` and `mem`, shown for rows that began in the measured hours."""
    start, end = columns["start_s"], columns["end_s"]
    level, peak, shown = rng.random((3, len(start)))
    measured = (start >= model.USAGE_FROM_S) & (start < model.USAGE_UNTIL_S) & (end > 0)
    return Attempts(
        cpu=cpu * (model.CPU_USED[0] + level * (model.CPU_USED[1] - model.CPU_USED[0])),
        mem=mem * (model.MEM_USED[0] + level * (model.MEM_USED[1] - model.MEM_USED[0])),
        peak=1 + peak / 2,
        measured=measured & (shown >= model.NO_USAGE_SHARE),
        **columns,
    )


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
    none, one = np.full(rows, _NONE), np.ones(rows, np.int64)
    zero = np.zeros(rows)
    return Attempts(
        start_s=start[group], end_s=end[group], job=none, task=none,
        machine=machine % machines + 1, status=np.full(rows, RUNNING), seq=one, total=one,
        cpu=zero, mem=zero, peak=zero, measured=np.zeros(rows, dtype=bool),
    )  # fmt: skip
