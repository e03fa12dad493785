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
from simkit.traces.alibaba2017.layout import COLUMNS
from simkit.traces.alibaba2017_generator.instances import draw_attempts
from simkit.traces.alibaba2017_generator.machines import BatchLoad, draw_containers, draw_machines
from simkit.traces.alibaba2017_generator.model import (
    JOBS,
    MACHINES,
    USAGE_FROM_S,
    USAGE_INTERVAL_S,
    USAGE_UNTIL_S,
)
from simkit.traces.alibaba2017_generator.tasks import draw_tasks
from simkit.traces.alibaba2017_generator.usage import draw_usage, usage_edges


class TableWriter:
    """Writes rows to the tables of the trace, in any order of tables, and counts them."""

    def __init__(self, streams: dict[str, BinaryIO]) -> None:
        self._streams = streams
        self.rows = dict.fromkeys(streams, 0)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Append rows, with the columns of the layout, to a table: no header, empty is null."""
        text = frame.select(list(COLUMNS[table])).write_csv(include_header=False)
        self._streams[table].write(text.encode())
        self.rows[table] += frame.height


@contextmanager
def written_tables(folder: Path, *, packed: bool) -> Iterator[TableWriter]:
    """Open a folder of tables for writing; if anything fails, nothing remains.

    Args:
        folder: absent, or empty.
        packed: gzip the tables (without time stamps: equal content, equal bytes).

    Raises TraceError if the folder is not empty, or cannot be written.
    """
    folder = folder.absolute()
    remove_leftovers(folder)
    _refuse_full(folder)
    there = folder.is_dir()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(folder, folder=True, inside=there) as part:
            with ExitStack() as files:
                yield TableWriter(
                    {name: _opened(part, name, files, packed=packed) for name in COLUMNS}
                )
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


def _refuse_full(folder: Path) -> None:
    if folder.is_dir():
        try:
            entries = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            raise TraceError(
                f"{folder}: cannot be read: {error.strerror or error}; choose another folder"
            ) from None
        if entries:
            more = ", …" * (len(entries) > 3)
            raise TraceError(
                f"{folder}: is not empty ({', '.join(entries[:3])}{more}); name a new or an "
                "empty folder for the tables"
            )
    elif folder.exists() or folder.is_symlink():
        raise TraceError(f"{folder}: is a file; name a new or an empty folder for the tables")


FEWEST_MACHINES = 5
SHORTEST_INTERVAL_S = 60

Progress = Callable[[int, int], None]
"""Takes (planned instances written, planned instances in all)."""


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
    with written_tables(Path(folder), packed=packed) as tables:
        _write(tables, jobs, machines, usage_interval_s, rng, progress)
    return tables.rows


def default_machines(jobs: int) -> int:
    """Return the machines for so many jobs in the trace, but at least `FEWEST_MACHINES`."""
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
    tables: TableWriter,
    jobs: int,
    machines: int,
    interval_s: int,
    rng: np.random.Generator,
    progress: Progress | None,
) -> None:
    """Draw and write all tables, each from a separate random stream."""
    tasks_rng, instances_rng, machines_rng, containers_rng, usage_rng = rng.spawn(5)
    site = draw_machines(machines, machines_rng)
    tables.add("server_event", site.frame())
    containers = draw_containers(site, containers_rng)
    tables.add("container_event", containers.frame())
    tasks = draw_tasks(jobs, tasks_rng)
    tables.add("batch_task", tasks.frame())
    load = BatchLoad(machines, usage_edges(interval_s))
    total = int(tasks.instances.sum())
    done = 0
    for attempts in draw_attempts(tasks, machines, instances_rng):
        tables.add("batch_instance", attempts.frame())
        load.add(attempts)
        done += int((attempts.seq == attempts.total).sum())
        if progress is not None:
            progress(min(done, total), total)
    for of_machines, of_containers in draw_usage(site, containers, load, interval_s, usage_rng):
        tables.add("server_usage", of_machines)
        tables.add("container_usage", of_containers)
