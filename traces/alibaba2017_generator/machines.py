"""Generated machines and containers: the tables server_event and container_event; their load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces.alibaba2017_generator import model
from simkit.traces.alibaba2017_generator.instances import Attempts
from simkit.traces.alibaba2017_generator.model import DAY_S, MACHINES


@dataclass(frozen=True)
class GeneratedMachines:
    """M machines with ids 1 … M, added before the trace, and E soft errors of some of them."""

    mem: Floats
    """(M,) relative to the largest machine's."""
    disk: Floats
    error_time_s: Ints
    """(E,) in order for each machine, not for all together, as in the trace."""
    error_machine: Ints
    error: list[str]

    def __len__(self) -> int:
        """Return M."""
        return len(self.mem)

    def frame(self) -> pl.DataFrame:
        """Return the rows of server_event; an error carries the capacity 0."""
        machines, errors = len(self), len(self.error)
        none = np.zeros(errors)
        return pl.DataFrame(
            {
                "time_s": np.concatenate((np.zeros(machines, np.int64), self.error_time_s)),
                "machine_id": np.concatenate((np.arange(1, machines + 1), self.error_machine)),
                "event": ["add"] * machines + ["softerror"] * errors,
                "detail": [None] * machines + self.error,
                "cpu": np.concatenate((np.full(machines, model.CORES), none.astype(np.int64))),
                "mem": _numbers(np.concatenate((self.mem, none))),
                "disk": _numbers(np.concatenate((self.disk, none))),
            }
        )


def draw_machines(machines: int, rng: np.random.Generator) -> GeneratedMachines:
    """Draw machines with 64 cores; of 1,313 seven have soft errors, of fewer at least one."""
    sizes = np.array([size for size, _ in model.CAPACITIES])
    counts = np.array([count for _, count in model.CAPACITIES])
    capacity = sizes[rng.choice(len(sizes), machines, p=counts / counts.sum())]
    faulty = -(-model.FAULTY_MACHINES * machines // MACHINES)
    times = [_error_times(rng) for _ in range(faulty)]
    owner = rng.permutation(machines)[:faulty] + 1
    names = [name for name, _ in model.ERRORS]
    counts = np.array([count for _, count in model.ERRORS])
    lengths = [len(each) for each in times]
    kinds = rng.choice(len(names), sum(lengths), p=counts / counts.sum())
    return GeneratedMachines(
        mem=capacity[:, 0],
        disk=capacity[:, 1],
        error_time_s=np.concatenate(times),
        error_machine=np.repeat(owner, lengths),
        error=[names[kind] for kind in kinds],
    )


def _error_times(rng: np.random.Generator) -> Ints:
    """Return when one faulty machine has errors: every two hours to the day's end, or a few."""
    if rng.random() < model.LASTING_SHARE:
        begin = rng.integers(1, DAY_S // 2)
        times = begin + np.arange(DAY_S // model.RETURN_S + 1) * model.RETURN_S
        return np.asarray(times[times < DAY_S])
    low, high = model.FEW_ERRORS
    begin = rng.integers(1, DAY_S - model.RETURN_S)
    return np.sort(begin + rng.integers(0, model.RETURN_S, rng.integers(low, high, endpoint=True)))


def _numbers(values: Floats) -> pl.Series:
    """Return numbers as text, whole ones without decimals, as the trace has them."""
    return pl.Series([f"{value:.16g}" for value in values], dtype=pl.String)


class BatchLoad:
    """Sums what batch instances use of each machine, as means over intervals of time.

    The use of an instance is even over its run; attempts without a known end are left out.
    """

    def __init__(self, machines: int, edges_s: Floats) -> None:
        """Start empty; `edges_s` are the (K + 1,) ascending bounds of the K intervals."""
        self._machines, self._edges = machines, edges_s
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


@dataclass(frozen=True)
class GeneratedContainers:
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

    def __len__(self) -> int:
        """Return C."""
        return len(self.machine)

    def frame(self) -> pl.DataFrame:
        """Return the rows of container_event in the order of time."""
        created = np.flatnonzero(~self.hidden)
        removed = created[self.end_s[created] < DAY_S]
        rows = np.concatenate((created, removed))
        time = np.concatenate((self.start_s[created], self.end_s[removed]))
        event = np.repeat(("Create", "Remove"), (len(created), len(removed)))
        order = np.argsort(time, kind="stable")
        rows = rows[order]
        return pl.DataFrame(
            {
                "time_s": time[order],
                "event": event[order],
                "container_id": rows + 1,
                "machine_id": self.machine[rows],
                "cpu": self.cpu[rows],
                "mem": self.mem[rows],
                "disk": self.disk[rows],
                "cpu_set": [self.cpu_set[row] for row in rows],
            }
        )


def draw_containers(machines: GeneratedMachines, rng: np.random.Generator) -> GeneratedContainers:
    """Draw the containers of all machines; those that would overfill a machine are left out."""
    counts = rng.poisson(model.CONTAINERS_PER_MACHINE, len(machines))
    owner = np.repeat(np.arange(len(machines)), counts)
    cpu, mem = _drawn(model.CONTAINER_CPU, owner, rng), _drawn(model.CONTAINER_MEM, owner, rng)
    disk = np.round(rng.uniform(*model.CONTAINER_DISK, len(owner)), 4)
    fits = np.ones(len(owner), dtype=bool)
    sizes = (np.full(len(machines), model.CORES), machines.mem, machines.disk)
    for held, size in zip((cpu, mem, disk), sizes, strict=True):
        fits &= _running_sum(held, counts) <= model.LARGEST_FILL * size[owner]
    owner, cores, mem, disk = owner[fits], cpu[fits].astype(np.int64), mem[fits], disk[fits]
    start, end = _lifetimes(len(owner), rng)
    hidden = np.zeros(len(owner), dtype=bool)
    hidden[rng.permutation(len(owner))[: -int(-model.HIDDEN_SHARE * len(owner) // 1)]] = True
    return GeneratedContainers(
        machine=owner + 1, cpu=cores, mem=mem, disk=disk, cpu_set=_cpu_sets(owner, cores, rng),
        start_s=start, end_s=end, hidden=hidden,
    )  # fmt: skip


def _drawn(
    shares: tuple[tuple[float, float], ...], owner: Ints, rng: np.random.Generator
) -> Floats:
    values, share = np.array(shares).T
    return rng.choice(values, len(owner), p=share)


def _running_sum(held: Floats, counts: Ints) -> Floats:
    """Return the sums within each machine, each container included."""
    total = np.concatenate(([0.0], np.cumsum(held)))
    begin = total[np.cumsum(counts) - counts]
    return np.asarray(total[1:] - np.repeat(begin, counts))


def _lifetimes(containers: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    level, begins, ends = rng.random((3, containers))
    late = level < model.LATE_CONTAINERS
    removed = level >= 1 - model.REMOVED_CONTAINERS
    start = np.where(late, 1 + begins * (DAY_S - 2), 0).astype(np.int64)
    end = np.where(removed, 1 + ends * (DAY_S - 2), DAY_S).astype(np.int64)
    return start, end


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
