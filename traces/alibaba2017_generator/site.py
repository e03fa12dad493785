"""Generated machines, containers and usage: four tables of the trace.

A machine uses what its containers and batch instances use, and a little for its system. How much
containers use of their requests is assumed: a level for each, a swing over the day, and noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.traces.alibaba2017_generator import model
from simkit.traces.alibaba2017_generator.batch import Attempts
from simkit.traces.alibaba2017_generator.model import DAY_S, MACHINES

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
                "mem": mem,
                "disk": disk,
            }
        )


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
    of_instructions = {"cpi": cpi * noise[1], "mpki": mpki * noise[2]}
    rows = {
        "time_s": np.full(len(here), time),
        "container_id": here + 1,
        **_used((cpu, mem, disk), cpu / 100 * containers.cpu[here], rng),
        **{f"{name}_mean": np.round(mean, 3) for name, mean in of_instructions.items()},
        **{f"{name}_max": np.round(mean * most, 3)
           for (name, mean), most in zip(of_instructions.items(), peak, strict=True)},
    }  # fmt: skip
    return cpu, mem, pl.DataFrame(rows)


def _used(
    percents: tuple[Floats, ...], cores: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return the columns of usage that machines and containers have, from percent and cores."""
    columns = {
        name: np.minimum(share, 100)
        for name, share in zip(
            ("cpu_percent", "mem_percent", "disk_percent"), percents, strict=True
        )
    }
    columns |= {name: cores * rng.uniform(low, high, len(cores)) for name, low, high in _LOADS}
    return {name: np.asarray(np.round(values, 2)) for name, values in columns.items()}
