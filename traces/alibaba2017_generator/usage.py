"""Generated usage: the tables server_usage and container_usage.

A machine uses what its containers and batch instances use, and a little for its system. How much
containers use of their requests is assumed: a level for each, a swing over the day, and noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats
from simkit.traces.alibaba2017_generator import model
from simkit.traces.alibaba2017_generator.machines import (
    BatchLoad,
    GeneratedContainers,
    GeneratedMachines,
)
from simkit.traces.alibaba2017_generator.model import DAY_S

_SYSTEM_CPU: Final = (0.5, 2.0)
"""Cores that the system of a machine uses."""
_SYSTEM_MEM: Final = 0.05
_SWING: Final = 0.3
_PEAK_S: Final = 50_000
_LOADS: Final = (("load1", 0.8, 1.4), ("load5", 0.9, 1.2), ("load15", 0.95, 1.1))
"""Load averages relative to the cores in use: longer ones vary less."""


def usage_edges(interval_s: int) -> Floats:
    """Return (K + 1,) where the intervals of the disclosed hours begin and end, in s."""
    return np.arange(model.USAGE_FROM_S, model.USAGE_UNTIL_S + 1, interval_s, dtype=np.float64)


@dataclass(frozen=True)
class _UsageLevels:
    """Levels of usage of each container, (C,) each."""

    cpu: Floats
    mem: Floats
    disk: Floats
    cpi: Floats
    mpki: Floats


def draw_usage(
    machines: GeneratedMachines,
    containers: GeneratedContainers,
    batch: BatchLoad,
    interval_s: int,
    rng: np.random.Generator,
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the rows of server_usage and of container_usage, one interval at a time."""
    size = len(containers)
    levels = _UsageLevels(
        cpu=np.minimum(rng.lognormal(np.log(8), 0.7, size), 80),
        mem=rng.uniform(30, 95, size),
        disk=rng.uniform(1, 40, size),
        cpi=rng.lognormal(np.log(1.5), 0.3, size),
        mpki=rng.lognormal(0, 0.7, size),
    )
    disk = rng.uniform(30, 70, len(machines))
    batch_cpu, batch_mem = batch.means()
    for number, time in enumerate(usage_edges(interval_s)[:-1].astype(np.int64).tolist()):
        here = (containers.start_s <= time) & (containers.end_s > time)
        cpu, mem, rows = _of_containers(time, here, containers, levels, rng)
        where = containers.machine[here] - 1
        busy = batch_cpu[:, number] + rng.uniform(*_SYSTEM_CPU, len(machines))
        full = batch_mem[:, number] + _SYSTEM_MEM * machines.mem
        busy += np.bincount(where, cpu / 100 * containers.cpu[here], len(machines))
        full += np.bincount(where, mem / 100 * containers.mem[here], len(machines))
        yield _of_machines(time, busy, full / machines.mem, disk, rng), rows


def _of_containers(
    time: int,
    here: Bools,
    containers: GeneratedContainers,
    levels: _UsageLevels,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, pl.DataFrame]:
    """Return cpu and memory in percent, and the rows of the containers that are there."""
    present = np.flatnonzero(here)
    swing = 1 + _SWING * np.cos(2 * np.pi * (time - _PEAK_S) / DAY_S)
    noise = rng.lognormal(0, 0.15, (3, len(present)))
    cpu = np.minimum(levels.cpu[present] * swing * noise[0], 100)
    mem = np.minimum(levels.mem[present] + rng.normal(0, 0.5, len(present)), 100)
    cpi, mpki = levels.cpi[present] * noise[1], levels.mpki[present] * noise[2]
    peak = 1 + rng.random((2, len(present))) / 4
    rows = {
        "time_s": np.full(len(present), time),
        "container_id": present + 1,
        "cpu_percent": np.round(cpu, 2),
        "mem_percent": np.round(mem, 2),
        "disk_percent": np.round(levels.disk[present], 2),
        **_loads(cpu / 100 * containers.cpu[present], rng),
        "cpi_mean": np.round(cpi, 3),
        "mpki_mean": np.round(mpki, 3),
        "cpi_max": np.round(cpi * peak[0], 3),
        "mpki_max": np.round(mpki * peak[1], 3),
    }
    return cpu, mem, pl.DataFrame(rows)


def _of_machines(
    time: int, cores: Floats, mem_share: Floats, disk: Floats, rng: np.random.Generator
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "time_s": np.full(len(cores), time),
            "machine_id": np.arange(1, len(cores) + 1),
            "cpu_percent": np.round(np.minimum(100 * cores / model.CORES, 100), 2),
            "mem_percent": np.round(np.minimum(100 * mem_share, 100), 2),
            "disk_percent": np.round(disk, 2),
            **_loads(cores, rng),
        }
    )


def _loads(cores: Floats, rng: np.random.Generator) -> dict[str, Floats]:
    return {
        name: np.round(cores * rng.uniform(low, high, len(cores)), 2) for name, low, high in _LOADS
    }
