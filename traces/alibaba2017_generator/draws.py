"""Draws the six tables: batch jobs and their instances, machines, containers and usage.

Jobs are finished, waiting or broken; each kind has its own number of tasks. Jobs arrive in bursts
at the trace's rate over the day. Instances, wall time and memory of a task are correlated through
a Gaussian copula with one part for the job and one for the task (R. B. Nelsen, "An Introduction to
Copulas", 2006), so that each keeps its fitted distribution.

The last attempt of each instance ends within its task; one of them ends with the task. Earlier
attempts follow each other between the task's creation and the last attempt. No scheduler places
them: the instances of a task visit the machines in turn, from a random one on, and each further
attempt runs on the next machine.

Machines use what their containers and batch instances use, and a little for their system. How much
containers use of their requests is assumed: a level for each, a swing over the day, and noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces.alibaba2017_generator import model
from simkit.traces.alibaba2017_generator.model import DAY_S, MACHINES
from simkit.traces.columns import ALIBABA2017

STATUSES: Final = ("Terminated", "Failed", "Running", "Waiting", "Interrupted")
"""Statuses of tasks; the last one is of attempts alone."""
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
        """Return the rows of batch_instance."""
        used = {
            "cpu_max": np.round(self.cpu * self.peak, 2), "cpu_mean": np.round(self.cpu, 2),
            "mem_max": np.round(self.mem * self.peak, 6), "mem_mean": np.round(self.mem, 6),
        }  # fmt: skip
        frame = pl.DataFrame(
            {
                "start_time_s": self.start_s, "end_time_s": self.end_s, "job_id": self.job,
                "task_id": self.task, "machine_id": self.machine,
                "status": np.array(STATUSES)[self.status], "seq_no": self.seq,
                "total_seq_no": self.total, **used,
            }
        )  # fmt: skip
        return frame.with_columns(
            pl.col("job_id", "task_id", "machine_id").replace(_NONE, None),
            *(pl.when(pl.Series(self.measured)).then(n).alias(n) for n in used),
        )


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


_SYSTEM_CPU: Final = (0.5, 2.0)
"""Cores that the system of a machine uses."""
_SYSTEM_MEM: Final = 0.05
_SWING: Final = 0.3
_PEAK_S: Final = 50_000
_LOADS: Final = (("load1", 0.8, 1.4), ("load5", 0.9, 1.2), ("load15", 0.95, 1.1))
"""Load averages relative to the cores in use: longer ones vary less."""


class Machines(NamedTuple):
    """M machines with ids 1 … M, added before the trace, and E soft errors of some of them."""

    mem: Floats
    """(M,) relative to the largest machine's."""
    disk: Floats
    error_time_s: Ints
    """(E,) in order for each machine, not for all together, as in the trace."""
    error_machine: Ints
    error: list[str]

    def frame(self) -> pl.DataFrame:
        """Return the rows of server_event; an error carries the capacity 0."""
        machines, errors = len(self.mem), len(self.error)
        none = np.zeros(errors, np.int64)
        mem, disk = (  # as text, whole numbers without decimals, as the trace has them
            [f"{value:.16g}" for value in (*sizes, *none)] for sizes in (self.mem, self.disk)
        )
        return pl.DataFrame(
            {
                "time_s": np.concatenate((np.zeros(machines, np.int64), self.error_time_s)),
                "machine_id": np.concatenate((np.arange(1, machines + 1), self.error_machine)),
                "event": ["add"] * machines + ["softerror"] * errors,
                "detail": [None] * machines + self.error,
                "cpu": np.concatenate((np.full(machines, model.CORES), none)),
                "mem": mem, "disk": disk,
            }
        )  # fmt: skip


def draw_machines(machines: int, rng: np.random.Generator) -> Machines:
    """Draw machines with 64 cores; of 1,313 seven have soft errors, of fewer at least one."""
    size = _drawn(model.CAPACITIES, machines, rng)
    faulty = -(-model.FAULTY_MACHINES * machines // MACHINES)
    times = [_error_times(rng) for _ in range(faulty)]
    owner = rng.permutation(machines)[:faulty] + 1
    lengths = [len(each) for each in times]
    names = [name for name, _ in model.ERRORS]
    kinds = _drawn(tuple(enumerate(count for _, count in model.ERRORS)), sum(lengths), rng)
    return Machines(
        mem=size[:, 0], disk=size[:, 1], error_time_s=np.concatenate(times),
        error_machine=np.repeat(owner, lengths), error=[names[kind] for kind in kinds],
    )  # fmt: skip


def _drawn(counts: tuple[tuple[object, float], ...], size: int, rng: np.random.Generator) -> Floats:
    """Return (size, …) values, each as often as its count says."""
    values, weights = np.array([value for value, _ in counts]), np.array([n for _, n in counts])
    return np.asarray(values[rng.choice(len(values), size, p=weights / weights.sum())])


def _error_times(rng: np.random.Generator) -> Ints:
    """Return when one faulty machine has errors: every two hours to the day's end, or a few."""
    if rng.random() < model.LASTING_SHARE:
        begin = rng.integers(1, DAY_S // 2)
        times = begin + np.arange(DAY_S // model.RETURN_S + 1) * model.RETURN_S
        return np.asarray(times[times < DAY_S])
    low, high = model.FEW_ERRORS
    begin = rng.integers(1, DAY_S - model.RETURN_S)
    return np.sort(begin + rng.integers(0, model.RETURN_S, rng.integers(low, high, endpoint=True)))


class BatchLoad:
    """Sums what batch instances use of each machine, as means over intervals of time.

    The use of an instance is even over its run; attempts without a known end are left out.
    """

    def __init__(self, machines: int, edges_s: Floats) -> None:
        """Start empty; `edges_s` are the (K + 1,) ascending bounds of the K intervals."""
        self._edges = edges_s
        self._sums = np.zeros((2, 2, machines, len(edges_s) + 1))

    def add(self, attempts: Attempts) -> None:
        """Add a batch of attempts."""
        ended = (attempts.end_s > 0) & (attempts.machine > 0)
        machine = attempts.machine[ended] - 1
        for sign, times in ((1, attempts.start_s[ended]), (-1, attempts.end_s[ended])):
            cell = machine * (len(self._edges) + 1) + np.searchsorted(self._edges, times)
            for kind, used in enumerate((attempts.cpu[ended], attempts.mem[ended])):
                for power, weight in enumerate((used, used * times)):
                    total = np.bincount(cell, weight, self._sums[0, 0].size)
                    self._sums[kind, power] += sign * total.reshape(self._sums[0, 0].shape)

    def means(self) -> tuple[Floats, Floats]:
        """Return (M, K) cores and (M, K) memory in use on average."""
        # What has been used up to an edge e: the sum of use · (e − start) over what has started,
        # less the same with the ends.
        amount, moment = np.cumsum(self._sums, axis=-1)[..., :-1].swapaxes(0, 1)
        used = np.diff(self._edges * amount - moment, axis=-1)
        cpu, mem = np.maximum(used, 0) / np.diff(self._edges)
        return cpu, mem


class Containers(NamedTuple):
    """C containers with ids 1 … C, sorted by machine; no core is shared."""

    machine: Ints
    cpu: Ints
    mem: Floats
    disk: Floats
    cpu_set: list[str]
    start_s: Ints
    """(C,) when it was created; 0: before the trace."""
    end_s: Ints
    """(C,) when it was removed; after the day's end: not within the trace."""
    hidden: Bools
    """(C,) whether it has no row in container_event, only usage."""

    def frame(self) -> pl.DataFrame:
        """Return the rows of container_event in the order of time."""
        created = np.flatnonzero(~self.hidden)
        removed = created[self.end_s[created] < DAY_S]
        time = np.concatenate((self.start_s[created], self.end_s[removed]))
        event = np.repeat(("Create", "Remove"), (len(created), len(removed)))
        order = np.argsort(time, kind="stable")
        rows = np.concatenate((created, removed))[order]
        return pl.DataFrame(
            {
                "time_s": time[order], "event": event[order], "container_id": rows + 1,
                "machine_id": self.machine[rows], "cpu": self.cpu[rows], "mem": self.mem[rows],
                "disk": self.disk[rows], "cpu_set": [self.cpu_set[row] for row in rows],
            }
        )  # fmt: skip


def draw_containers(machines: Machines, rng: np.random.Generator) -> Containers:
    """Draw the containers of all machines; those that would overfill a machine are left out."""
    counts = rng.poisson(model.CONTAINERS_PER_MACHINE, len(machines.mem))
    owner = np.repeat(np.arange(len(counts)), counts)
    cpu, mem = (
        rng.choice(np.array(values), len(owner), p=np.array(shares))
        for values, shares in (zip(*law, strict=True) for law in model.CONTAINER_LAWS)
    )
    disk = np.round(rng.uniform(*model.CONTAINER_DISK, len(owner)), 4)
    fits = np.ones(len(owner), dtype=bool)
    sizes = (np.full(len(counts), model.CORES), machines.mem, machines.disk)
    for held, size in zip((cpu, mem, disk), sizes, strict=True):
        total = np.concatenate(([0.0], np.cumsum(held)))
        on_machine = total[1:] - np.repeat(total[np.cumsum(counts) - counts], counts)
        fits &= on_machine <= model.LARGEST_FILL * size[owner]
    owner, cores, mem, disk = owner[fits], cpu[fits].astype(np.int64), mem[fits], disk[fits]
    level, begins, ends = rng.random((3, len(owner)))
    late, removed = level < model.LATE_CONTAINERS, level >= 1 - model.REMOVED_CONTAINERS
    hidden = np.zeros(len(owner), dtype=bool)
    hidden[rng.permutation(len(owner))[: -int(-model.HIDDEN_SHARE * len(owner) // 1)]] = True
    return Containers(
        machine=owner + 1, cpu=cores, mem=mem, disk=disk, cpu_set=_cpu_sets(owner, cores, rng),
        start_s=np.where(late, 1 + begins * (DAY_S - 2), 0).astype(np.int64),
        end_s=np.where(removed, 1 + ends * (DAY_S - 2), DAY_S).astype(np.int64), hidden=hidden,
    )  # fmt: skip


def _cpu_sets(owner: Ints, cpu: Ints, rng: np.random.Generator) -> list[str]:
    """Give each container separate cores: both threads of each, n and n + 32 of 64."""
    half = model.CORES // 2
    sets: list[str] = []
    pairs, machine = np.empty(0, np.int64), -1
    for row, count in zip(owner.tolist(), cpu.tolist(), strict=True):
        if row != machine:
            machine, pairs = row, rng.permutation(half)
        mine, pairs = np.sort(pairs[: count // 2]), pairs[count // 2 :]
        sets.append("|".join(map(str, (*mine, *(mine + half)))))
    return sets


def usage_edges(interval_s: int) -> Floats:
    """Return (K + 1,) where the intervals of the disclosed hours begin and end, in s."""
    return np.arange(model.USAGE_FROM_S, model.USAGE_UNTIL_S + 1, interval_s, dtype=np.float64)


def draw_usage(
    machines: Machines, containers: Containers, batch: BatchLoad, interval_s: int,
    rng: np.random.Generator,
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:  # fmt: skip
    """Yield the rows of server_usage and of container_usage, one interval at a time."""
    size, hosts = len(containers.machine), len(machines.mem)
    levels = (
        np.minimum(rng.lognormal(np.log(8), 0.7, size), 80), rng.uniform(30, 95, size),
        rng.uniform(1, 40, size), rng.lognormal(np.log(1.5), 0.3, size),
        rng.lognormal(0, 0.7, size),
    )  # fmt: skip
    disk = rng.uniform(30, 70, hosts)
    batch_cpu, batch_mem = batch.means()
    for number, time in enumerate(usage_edges(interval_s)[:-1].astype(np.int64).tolist()):
        here = np.flatnonzero((containers.start_s <= time) & (containers.end_s > time))
        cpu, mem, rows = _of_containers(time, here, containers, levels, rng)
        where = containers.machine[here] - 1
        busy = batch_cpu[:, number] + rng.uniform(*_SYSTEM_CPU, hosts)
        full = batch_mem[:, number] + _SYSTEM_MEM * machines.mem
        busy += np.bincount(where, cpu / 100 * containers.cpu[here], hosts)
        full += np.bincount(where, mem / 100 * containers.mem[here], hosts)
        shares = (100 * busy / model.CORES, 100 * (full / machines.mem), disk)
        ids = {"time_s": np.full(hosts, time), "machine_id": np.arange(1, hosts + 1)}
        yield pl.DataFrame(ids | _used(shares, busy, rng)), rows


def _of_containers(
    time: int, here: Ints, containers: Containers, levels: tuple[Floats, ...],
    rng: np.random.Generator,
) -> tuple[Floats, Floats, pl.DataFrame]:  # fmt: skip
    """Return cpu and memory in percent, and the rows of the containers that are there."""
    cpu, mem, disk, cpi, mpki = (level[here] for level in levels)
    swing = 1 + _SWING * np.cos(2 * np.pi * (time - _PEAK_S) / DAY_S)
    noise = rng.lognormal(0, 0.15, (3, len(here)))
    cpu = np.minimum(cpu * swing * noise[0], 100)
    mem = np.minimum(mem + rng.normal(0, 0.5, len(here)), 100)
    peak = 1 + rng.random((2, len(here))) / 4
    cpi, mpki = cpi * noise[1], mpki * noise[2]
    rows = {
        "time_s": np.full(len(here), time), "container_id": here + 1,
        **_used((cpu, mem, disk), cpu / 100 * containers.cpu[here], rng),
        "cpi_mean": np.round(cpi, 3), "mpki_mean": np.round(mpki, 3),
        "cpi_max": np.round(cpi * peak[0], 3), "mpki_max": np.round(mpki * peak[1], 3),
    }  # fmt: skip
    return cpu, mem, pl.DataFrame(rows)


def _used(
    percents: tuple[Floats, ...], cores: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return the columns of usage that machines and containers have, from percent and cores."""
    names = ("cpu_percent", "mem_percent", "disk_percent")
    columns = {name: np.minimum(share, 100) for name, share in zip(names, percents, strict=True)}
    columns |= {name: cores * rng.uniform(low, high, len(cores)) for name, low, high in _LOADS}
    return {name: np.asarray(np.round(values, 2)) for name, values in columns.items()}
