"""The records of a run's machines: their allocations and their capacity.

Allocations say who holds what of a machine from when to when. Here they become, machine by
machine, segments between two changes, with what is held and what the machine has: every metric of
machines is a sum over segments. Segments come in batches of whole machines, so that memory stays
at a few compact columns of the allocations.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Bools, Floats, Ints
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


CHANGES_AT_ONCE = 1 << 18
"""Most changes whose segments are held at once, unless a single machine has more."""


@dataclass(frozen=True)
class Segments:
    """N stretches of time of some machines, sorted by (machine, start).

    A machine's segments follow each other without gaps from the window's start to its end.
    """

    machine: Ints
    """(N,) rows of the cluster's machines."""
    start_s: Floats
    """(N,) s on the trace's clock."""
    seconds: Floats
    """(N,) length in s, above 0."""
    instances: Floats
    """(N,) instances on the machine, whole numbers."""
    allocated: Floats
    """(N, R) what they hold."""
    capacity: Floats
    """(N, R) what the machine has."""

    @cached_property
    def free(self) -> Floats:
        """(N, R) free resources; 0 if more is held than there is, as while draining."""
        free: Floats = np.maximum(self.capacity - self.allocated, 0.0)
        return free

    @cached_property
    def available(self) -> Floats:
        """(N, R) what the machine has, or what is held if that is more, as while draining."""
        available: Floats = np.maximum(self.capacity, self.allocated)
        return available

    @cached_property
    def begins(self) -> Bools:
        """(N,) whether it is a machine's first segment."""
        begins: Bools = np.ones(len(self.machine), dtype=np.bool_)
        begins[1:] = self.machine[1:] != self.machine[:-1]
        return begins


def segments(
    records: MachineRecords,
    requests: Requests,
    start_s: float,
    end_s: float,
    cuts: Floats | None = None,
) -> Iterator[Segments]:
    """Yield the segments of all machines within a window of time, batch by batch.

    Args:
        records: the run's records of machines.
        requests: what the tasks ask for; see `MachineRecords.requests`.
        start_s: start of the window, in s.
        end_s: end of the window; nothing is yielded unless it is after the start.
        cuts: times in s at which segments also end if nothing changes, e.g. the edges of bins.
    """
    if not end_s > start_s:
        return
    held = read_allocations(records, requests, start_s, end_s)
    changes = records.capacity_changes()
    cuts = np.empty(0) if cuts is None else cuts[(cuts > start_s) & (cuts < end_s)]
    for first, last in _bands(held.first, len(cuts)):
        made = _Changes(len(records.resources))
        made.of_capacity(records.capacity[first:last], changes, first, (start_s, end_s))
        made.of_allocations(held, requests.amounts, first, last)
        made.of_cuts(cuts, first, last)
        yield made.segments()


def _bands(first_row: Ints, cuts: int) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of machines whose changes are held at once."""
    machines = len(first_row) - 1
    work = 2 * first_row + (2 + cuts) * np.arange(machines + 1)
    first = 0
    while first < machines:
        most = int(np.searchsorted(work, work[first] + CHANGES_AT_ONCE, side="right")) - 1
        last = min(max(most, first + 1), machines)
        yield first, last
        first = last


class _Changes:
    """Changes of machines, in any order: additions to instances, allocated and capacity."""

    def __init__(self, resources: int) -> None:
        self._width = resources
        self._parts: list[tuple[npt.NDArray[np.integer], Floats, Floats]] = []

    def _add(
        self,
        machine: npt.NDArray[np.integer],
        time: Floats,
        *,
        instances: Floats | float = 0.0,
        allocated: Floats | float = 0.0,
        capacity: Floats | float = 0.0,
    ) -> None:
        change = np.empty((len(machine), 1 + 2 * self._width))
        change[:, 0] = instances
        change[:, 1 : 1 + self._width] = allocated
        change[:, 1 + self._width :] = capacity
        self._parts.append((machine, time, change))

    def of_capacity(
        self,
        capacity: Floats,
        changes: Mapping[int, list[tuple[float, list[float]]]],
        first: int,
        window: tuple[float, float],
    ) -> None:
        """Add the capacity of machines at the window's start, its changes, and its end.

        `capacity` is that of the machines from `first` on, before any change.
        """
        machine, last = first + np.arange(len(capacity)), capacity.copy()
        self._add(machine, np.full(len(machine), window[0]), capacity=capacity)
        rows, times, differences = [], [], []
        for row, number in enumerate(machine.tolist()):
            for time, amounts in changes.get(number, ()):
                rows.append(number)
                times.append(min(max(time, window[0]), window[1]))
                differences.append(np.array(amounts) - last[row])
                last[row] = amounts
        if rows:
            self._add(np.array(rows), np.array(times), capacity=np.array(differences))
        self._add(machine, np.full(len(machine), window[1]), capacity=-last)

    def of_allocations(
        self, held: MachineAllocations, amounts: Floats, first: int, last: int
    ) -> None:
        """Add what allocations take and give back."""
        rows = slice(held.first[first], held.first[last])
        machine = np.repeat(np.arange(first, last), np.diff(held.first[first : last + 1]))
        count = held.count[rows].astype(np.float64)
        taken = amounts[held.request[rows]] * count[:, None]
        self._add(machine, held.start_s[rows], instances=count, allocated=taken)
        self._add(machine, held.end_s[rows], instances=-count, allocated=-taken)

    def of_cuts(self, cuts: Floats, first: int, last: int) -> None:
        """Add an empty change of every machine at each of these times."""
        machine = np.repeat(np.arange(first, last), len(cuts))
        self._add(machine, np.tile(cuts, last - first))

    def segments(self) -> Segments:
        """Sum up the changes.

        A machine's changes add up to 0, so one sum runs over all machines. Times and amounts lie
        on grids on which sums are exact.
        """
        machine, time, change = (
            np.concatenate(columns) for columns in zip(*self._parts, strict=True)
        )
        order = np.lexsort((time, machine))
        machine, time = machine[order], time[order]
        state = np.cumsum(change[order], axis=0)
        seconds = np.diff(time, append=time[-1:])
        held = (seconds > 0) & np.append(machine[1:] == machine[:-1], False)
        instances, allocated, capacity = np.split(state[held], [1, 1 + self._width], axis=1)
        return Segments(
            machine=machine[held],
            start_s=time[held],
            seconds=seconds[held],
            instances=instances[:, 0],
            allocated=allocated,
            capacity=capacity,
        )
