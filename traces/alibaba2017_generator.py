"""Generates traces like Alibaba's cluster-trace-v2017: all six tables in the official layout.

Jobs, tasks, machines and mean run times of instances follow the published tables; what is not
published is assumed, and `alibaba2017_model` and `alibaba2017_model_instances` say which is which.
The known problems of the trace occur at their own rates: tasks that wait, run or failed, end times
of 0 or before the creation, empty requests, negative times, rows without order or job, errors with
capacity 0. It is no model of a scheduler: where instances run is spread evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

import numpy as np

from simkit.errors import TraceError

from .alibaba2017_generator_containers import draw_containers
from .alibaba2017_generator_folder import TableWriter, written_tables
from .alibaba2017_generator_instances import draw_attempts
from .alibaba2017_generator_machines import BatchLoad, draw_machines
from .alibaba2017_generator_tasks import draw_tasks
from .alibaba2017_generator_usage import draw_usage, usage_edges
from .alibaba2017_model import JOBS, MACHINES
from .alibaba2017_model_instances import USAGE_FROM_S, USAGE_INTERVAL_S, USAGE_UNTIL_S
from .synthetic import check_whole

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

    The jobs spread over the 61,000 s in which the trace's were created, however many they are, so
    that fewer jobs on as many machines mean less load. Tables are written in pieces: memory does
    not grow with the instances. Equal arguments give equal bytes.

    Args:
        folder: absent, or empty; it appears when all tables are written.
        jobs: how many, at least 1; the trace has 12,951 with 11.9 million instances.
        machines: how many, at least 1; default: as many for the jobs as the trace has (1,313 for
            12,951), but at least 5.
        usage_interval_s: length of the intervals of server_usage and container_usage, in s, 60 to
            43,200; a divisor of 43,200 covers all twelve disclosed hours. The trace has 300.
        packed: write ``.csv.gz`` instead of ``.csv``.
        rng: the generator; it is only spawned from.
        progress: called after each piece of batch_instance.

    Raises TraceError for arguments out of their range, and if the folder cannot be written.
    """
    machines = default_machines(jobs) if machines is None else machines
    _check(jobs, machines, usage_interval_s)
    with written_tables(Path(folder), packed=packed) as tables:
        _write(tables, jobs, machines, usage_interval_s, rng, progress)
    return tables.rows


def default_machines(jobs: int) -> int:
    """Return how many machines the trace has for so many jobs, but at least `FEWEST_MACHINES`."""
    check_whole("jobs", jobs, 1)
    return max(FEWEST_MACHINES, round(jobs * MACHINES / JOBS))


def _check(jobs: int, machines: int, interval_s: int) -> None:
    problems = []
    for name, value, least in (
        ("jobs", jobs, 1),
        ("machines", machines, 1),
        ("usage_interval_s", interval_s, SHORTEST_INTERVAL_S),
    ):
        try:
            check_whole(name, value, least)
        except TraceError as error:
            problems.append(str(error))
    longest = USAGE_UNTIL_S - USAGE_FROM_S
    if not problems and interval_s > longest:
        problems.append(
            f"generate: usage_interval_s is {interval_s}; usage covers {longest} s, so give at "
            f"most {longest}"
        )
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
    """Draw and write all tables, each from a stream of its own."""
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
