"""Generated containers: the table container_event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simkit.workload import Bools, Floats, Ints

from . import alibaba2017_model_instances as model
from .alibaba2017_generator_machines import GeneratedMachines
from .alibaba2017_model import DAY_S

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class GeneratedContainers:
    """C containers with ids 1 … C, sorted by machine; each has cores of its own."""

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
    """(C,) it has no row in container_event, only usage."""

    def __len__(self) -> int:
        """Return C."""
        return len(self.machine)

    def frame(self) -> pl.DataFrame:
        """Return the rows of container_event in the order of time."""
        import polars as pl

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
    """Draw the containers of all machines; what would fill a machine too much is left out."""
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
    """Return the sums within each machine, up to and with each container."""
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
    """Give each container cores of its own: both threads of each, n and n + 32 of 64."""
    half = model.CORES // 2
    sets: list[str] = []
    pairs, machine = np.empty(0, np.int64), -1
    for row, count in zip(owner.tolist(), cpu.tolist(), strict=True):
        if row != machine:
            machine, pairs = row, rng.permutation(half)
        mine, pairs = np.sort(pairs[: count // 2]), pairs[count // 2 :]
        sets.append("|".join(map(str, (*mine, *(mine + half)))))
    return sets
