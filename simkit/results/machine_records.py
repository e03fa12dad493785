"""The records of a run's machines: their allocations and their capacity."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import polars as pl

from simkit.arrays import Floats, Ints
from simkit.results.metric import batches
from simkit.results.run_folder import Run


@dataclass(frozen=True)
class MachineRecords:
    """The tables of M machines with R resources."""

    resources: tuple[str, ...]
    """Names of the cluster's resources."""
    capacity: Floats
    """(M, R) each machine's capacity before the first event; a machine's id is its row."""
    allocations: pl.LazyFrame
    """Columns of `records.ALLOCATIONS`."""
    tasks: pl.LazyFrame
    """Columns of `records.TASKS`, then one a resource; a missing column means that no task asks for
    the resource."""
    events: pl.LazyFrame
    """Columns of `records.EVENTS`; the kind "capacity" gives a machine's new capacity."""

    @classmethod
    def of(cls, run: Run) -> MachineRecords:
        """Return the records of a run.

        Raises RunError if a table is missing or damaged.
        """
        machines = sorted(run.machines, key=lambda machine: int(machine["id"]))
        amounts = [[float(m["capacity"].get(r, 0.0)) for r in run.resources] for m in machines]
        return cls(
            resources=run.resources,
            capacity=np.array(amounts, dtype=np.float64).reshape(len(machines), -1),
            allocations=run.scan("allocations"),
            tasks=run.scan("tasks"),
            events=run.scan("events"),
        )

    def requests(self) -> Requests:
        """Read what the tasks ask for."""
        there = self.tasks.collect_schema().names()
        amounts = [
            (pl.col(name) if name in there else pl.lit(0.0)).cast(pl.Float64).alias(f"r{number}")
            for number, name in enumerate(self.resources)
        ]
        tasks = self.tasks.select("job_id", "task_id", "instances", *amounts).collect()
        asked = tasks.select(column.meta.output_name() for column in amounts).to_numpy()
        distinct, of_task = np.unique(asked, axis=0, return_inverse=True)
        of_task = of_task.reshape(-1)
        weights = tasks["instances"].cast(pl.Float64).to_numpy()
        number = np.bincount(of_task, weights, len(distinct)).astype(np.float64)
        rows = tasks.select("job_id", "task_id", request=pl.Series(of_task, dtype=pl.Int32))
        return Requests(distinct, number, rows.unique(["job_id", "task_id"], keep="first"))

    def capacity_changes(self) -> dict[int, list[tuple[float, list[float]]]]:
        """Return machine → (time in s, its capacity of each resource from then on), by time."""
        columns = ["time_s", "machine_id", "detail"]
        changes = self.events.filter(pl.col("kind") == "capacity").select(columns).collect()
        found: dict[int, list[tuple[float, list[float]]]] = defaultdict(list)
        for time, machine, detail in changes.drop_nulls("machine_id").iter_rows():
            totals, earlier = json.loads(detail)["capacity"], found[machine]
            had = earlier[-1][1] if earlier else self.capacity[machine].tolist()
            has = [float(totals.get(name, had[r])) for r, name in enumerate(self.resources)]
            earlier.append((time, has))
        return dict(found)


@dataclass(frozen=True)
class Requests:
    """The distinct requests of a run's tasks: K of them, R resources."""

    amounts: Floats
    """(K, R) what one instance asks for."""
    instances: Floats
    """(K,) number of instances that ask for it, whether they finish or not."""
    of_task: pl.DataFrame
    """job_id, task_id and `request`, the row in `amounts`; one row a task."""


@dataclass(frozen=True)
class MachineAllocations:
    """N allocations that hold something in a window of time, as columns sorted by machine."""

    start_s: Floats
    """(N,) start in s, not before the window's."""
    end_s: Floats
    """(N,) end in s, not after the window's; later than the start."""
    count: Ints
    """(N,) instances."""
    request: Ints
    """(N,) row in the distinct requests."""
    first: Ints
    """(M + 1,) machine m has the rows ``first[m]:first[m + 1]``."""


def read_allocations(
    records: MachineRecords, requests: Requests, start_s: float, end_s: float
) -> MachineAllocations:
    """Read the allocations that hold something between two times, in s."""
    columns = ("job_id", "task_id", "machine_id", "count", "start_time_s", "end_time_s")
    start, end = pl.col("start_time_s"), pl.col("end_time_s")
    schema = {"machine": pl.Int32, "start": pl.Float64, "end": pl.Float64,
              "count": pl.Int32, "request": pl.Int32}  # fmt: skip
    parts = [pl.DataFrame(schema=schema)]
    for rows in batches(records.allocations, columns):
        inside = rows.select(
            "job_id",
            "task_id",
            pl.col("machine_id").cast(pl.Int32).alias("machine"),
            start.clip(start_s, end_s).alias("start"),
            end.fill_null(end_s).clip(start_s, end_s).alias("end"),
            pl.col("count").cast(pl.Int32),
        ).filter(pl.col("end") > pl.col("start"))
        known = inside.join(
            requests.of_task, on=["job_id", "task_id"], how="inner", maintain_order="left"
        )
        parts.append(known.select(list(schema)))
    table = pl.concat(parts).sort("machine", maintain_order=True)
    machine = table["machine"].to_numpy()
    first = np.searchsorted(machine, np.arange(len(records.capacity) + 1)).astype(np.int64)
    start_column, end_column, count, request = (table[name].to_numpy() for name in list(schema)[1:])
    return MachineAllocations(start_column, end_column, count, request, first)
