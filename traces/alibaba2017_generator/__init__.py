"""Generates traces like Alibaba's cluster-trace-v2017: all six tables in the official layout.

Jobs, tasks, machines and mean run times of instances follow the published tables; the rest is
assumed. The module `model` says which is which. The known problems of the trace occur at the rates
of the trace: tasks that wait, run or failed, end times of 0 or before the creation, empty requests,
negative times, rows out of order or without a job, errors with capacity 0. The generator does not
model a scheduler: instances are spread evenly over the machines.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import polars as pl

from simkit.errors import TraceError
from simkit.files import remove_leftovers, unfinished
from simkit.traces.alibaba2017_generator.draws import (
    BatchLoad,
    draw_attempts,
    draw_containers,
    draw_machines,
    draw_tasks,
    draw_usage,
    usage_edges,
)
from simkit.traces.alibaba2017_generator.model import (
    JOBS,
    MACHINES,
    USAGE_FROM_S,
    USAGE_INTERVAL_S,
    USAGE_UNTIL_S,
)
from simkit.traces.columns import ALIBABA2017

Tables = Callable[[str, pl.DataFrame], None]
"""Appends rows, with the columns of the layout, to a table: no header, empty is null."""
Progress = Callable[[int, int], None]
"""Takes (planned instances written, planned instances in all)."""
FEWEST_MACHINES = 5
SHORTEST_INTERVAL_S = 60


@contextmanager
def written_tables(folder: Path, rows: dict[str, int], *, packed: bool) -> Iterator[Tables]:
    """Open a folder of tables for writing; if anything fails, nothing remains.

    Args:
        folder: absent, or empty.
        rows: gets the number of rows of each table.
        packed: gzip the tables (without time stamps: equal content, equal bytes).

    Raises TraceError if the folder is not empty, or cannot be written.
    """
    folder = folder.absolute()
    try:
        remove_leftovers(folder)
        there = folder.is_dir()
        _refuse_full(folder, sorted(p.name for p in folder.iterdir()) if there else [])
        folder.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(folder, folder=True, inside=there) as part:
            with ExitStack() as files:
                streams = {name: _opened(part, name, files, packed=packed) for name in ALIBABA2017}

                def add(table: str, frame: pl.DataFrame) -> None:
                    text = frame.select(ALIBABA2017[table].names).write_csv(include_header=False)
                    streams[table].write(text.encode())
                    rows[table] = rows.get(table, 0) + frame.height

                yield add
            if there:  # perhaps somebody's working folder: fill it, do not replace it
                for path in part.iterdir():
                    path.rename(folder / path.name)
            else:
                part.rename(folder)
    except OSError as error:
        raise TraceError(
            f"{folder}: cannot be written: {error.strerror or error}; choose another folder or "
            "make room"
        ) from None


def _opened(folder: Path, table: str, files: ExitStack, *, packed: bool) -> BinaryIO:
    raw = files.enter_context((folder / f"{table}.csv{'.gz' * packed}").open("wb"))
    if not packed:
        return raw
    stream = gzip.GzipFile("", "wb", fileobj=raw, compresslevel=6, mtime=0)
    return cast("BinaryIO", files.enter_context(stream))


def _refuse_full(folder: Path, entries: list[str]) -> None:
    remedy = "name a new or an empty folder for the tables"
    if entries:
        shown = ", ".join([*entries[:3], *["…"] * (len(entries) > 3)])
        raise TraceError(f"{folder}: is not empty ({shown}); {remedy}")
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise TraceError(f"{folder}: is a file; {remedy}")


def generate_alibaba2017(
    folder: str | PathLike[str],
    *,
    jobs: int,
    machines: int | None = None,
    usage_interval_s: int = USAGE_INTERVAL_S,
    packed: bool = False,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Write a folder with the tables of a generated trace; return the number of rows of each.

    However many jobs there are, they spread over the 61,000 s in which the trace's jobs were
    created: fewer jobs on as many machines mean less load. Tables are written in pieces, so memory
    does not grow with the instances. Equal arguments give equal bytes.

    Args:
        folder: absent, or empty; it appears when all tables are written.
        jobs: number of jobs, at least 1; the trace has 12,951 with 11.9 million instances.
        machines: number of machines, at least 1; default: in the proportion of the trace (1,313 for
            12,951 jobs), but at least 5.
        usage_interval_s: length of the intervals of server_usage and container_usage, in s, 60 to
            43,200; a divisor of 43,200 covers all twelve disclosed hours. The trace has 300.
        packed: write ``.csv.gz`` instead of ``.csv``.
        rng: only spawned from.
        progress: called after each piece of batch_instance.

    Raises TraceError for arguments out of their range, and if the folder cannot be written.
    """
    _check(jobs, machines, usage_interval_s)
    machines = default_machines(jobs) if machines is None else machines
    rows = dict.fromkeys(ALIBABA2017, 0)
    with written_tables(Path(folder), rows, packed=packed) as add:
        _write(add, jobs, machines, usage_interval_s, rng, progress)
    return rows


def default_machines(jobs: int) -> int:
    """Return the number of machines for the jobs of a trace, but at least `FEWEST_MACHINES`."""
    return max(FEWEST_MACHINES, round(jobs * MACHINES / JOBS))


def _check(jobs: int, machines: int | None, interval_s: int) -> None:
    bounds = {
        "jobs": (jobs, 1, 2**31),
        "machines": (FEWEST_MACHINES if machines is None else machines, 1, 2**31),
        "usage_interval_s": (interval_s, SHORTEST_INTERVAL_S, USAGE_UNTIL_S - USAGE_FROM_S),
    }
    problems = [
        f"{name}: must be a whole number from {least} to {most}, not {value!r}"
        for name, (value, least, most) in bounds.items()
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most
    ]
    if problems:
        raise TraceError("\n".join(problems))


def _write(
    add: Tables, jobs: int, machines: int, interval_s: int, rng: np.random.Generator,
    progress: Progress | None,
) -> None:  # fmt: skip
    """Draw and write all tables, each from a separate random stream."""
    tasks_rng, instances_rng, machines_rng, containers_rng, usage_rng = rng.spawn(5)
    site = draw_machines(machines, machines_rng)
    add("server_event", site.frame())
    containers = draw_containers(site, containers_rng)
    add("container_event", containers.frame())
    tasks = draw_tasks(jobs, tasks_rng)
    add("batch_task", tasks.frame())
    load, done, total = BatchLoad(machines, usage_edges(interval_s)), 0, int(tasks.instances.sum())
    for attempts in draw_attempts(tasks, machines, instances_rng):
        add("batch_instance", attempts.frame())
        load.add(attempts)
        done += int((attempts.seq == attempts.total).sum())
        if progress is not None:
            progress(min(done, total), total)
    for of_machines, of_containers in draw_usage(site, containers, load, interval_s, usage_rng):
        add("server_usage", of_machines)
        add("container_usage", of_containers)
