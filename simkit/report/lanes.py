"""Where the bars of a Gantt chart are drawn: a lane for each processor, or for each allocation.

A run records the machine of each allocation, and how many processors it holds there; which of them
it is not recorded. So bars are packed, lowest free lanes first. Where every allocation holds whole
processors, a machine has as many lanes as processors; else a lane holds one allocation at a time,
whatever it takes of the machine.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import polars as pl

from simkit.analysis.processor_numbers import number_processors
from simkit.arrays import Floats, Ints
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run

_MOST_LANES = 2**31
"""More processors than these share lanes."""


class Bars(NamedTuple):
    """The allocations of a run and the rectangles that show them."""

    rows: pl.DataFrame
    """One row an allocation, by start: job_id, task_id, machine_id, count, attempt, start_time_s,
    end_time_s (NaN while it runs), outcome, amount."""
    bar: Ints
    """(rectangles,) row of `rows`; a job on lanes that are apart has several rectangles."""
    lane: Ints
    """(rectangles,) first lane."""
    lanes: Ints
    """(rectangles,) how many lanes."""
    first_lane: Ints
    """(machines + 1,) first lane of each machine, in the order of run.json."""
    by_processor: bool
    """Whether a lane is a processor."""
    processors_a_lane: int
    """1, but of huge pools."""


def bars_of(run: Run) -> Bars:
    """Return the bars of a run; none for a run without allocations."""
    resource = counted_resource(run.resources)
    rows = _allocations(run, resource)
    amount = rows["amount"].to_numpy()
    capacity = [float(m["capacity"].get(resource, 0.0)) for m in run.machines]
    by_processor = bool(np.all((amount >= 1) & (amount == np.floor(amount))))
    scale = max(1, int(np.ceil((sum(capacity) + amount.max(initial=0.0)) / _MOST_LANES)))
    places = {machine["id"]: n for n, machine in enumerate(run.machines)}
    machine = rows["machine_id"].replace_strict(places, default=len(places)).to_numpy()
    pieces: list[tuple[Ints, Ints, Ints]] = []
    used = np.zeros(len(places) + 1, np.int64)
    start, end = (rows[f"{name}_time_s"].to_numpy() for name in ("start", "end"))
    for one, members in _members(machine):
        if by_processor:
            found = _by_processor(members, start, end, amount, scale)
        else:
            found = _by_allocation(members, start, end)
        pieces.append(found)
        used[one] = int((found[1] + found[2]).max(initial=0))
    least = [max(1, int(c / scale)) if by_processor else 1 for c in (*capacity, 0.0)]
    least[-1] = 0  # allocations of a machine that run.json lacks come last, if there are any
    first_lane = np.concatenate(([0], np.cumsum(np.maximum(used, least))))
    bar, lane, lanes = (
        np.concatenate([piece[n] for piece in pieces]) if pieces else np.zeros(0, np.int64)
        for n in range(3)
    )
    return Bars(rows, bar, lane + first_lane[machine[bar]], lanes, first_lane, by_processor, scale)


def _allocations(run: Run, resource: str) -> pl.DataFrame:
    """Return the allocations by start, with how much of the resource each holds."""
    asked = run.scan("tasks").select("job_id", "task_id", pl.col(resource).alias("request"))
    held = run.scan("allocations").join(
        asked.unique(["job_id", "task_id"]), on=["job_id", "task_id"], how="left"
    )
    return (
        held.select(
            "job_id", "task_id", "machine_id", "count", "attempt", "outcome",
            pl.col("start_time_s"),
            pl.col("end_time_s").fill_null(float("nan")),
            (pl.col("count") * pl.col("request")).fill_null(0.0).alias("amount"),
        )
        .sort("start_time_s", "machine_id", "job_id", "task_id", maintain_order=True)
        .collect()
    )  # fmt: skip


def _members(machine: Ints) -> list[tuple[int, Ints]]:
    """Return each machine that has allocations, and their rows in ascending order."""
    order = np.argsort(machine, kind="stable")
    cuts = np.flatnonzero(np.diff(machine[order])) + 1
    return [(int(machine[part[0]]), part) for part in np.split(order, cuts) if len(part)]


def _by_processor(
    members: Ints, start: Floats, end: Floats, amount: Floats, scale: int
) -> tuple[Ints, Ints, Ints]:
    """Return bar, first lane on the machine, and lanes, of allocations of whole processors."""
    ends = [None if np.isnan(e) else e for e in end[members].tolist()]
    count = np.maximum(1, amount[members] // scale).astype(np.int64)
    spans, _ = number_processors(start[members].tolist(), ends, count.tolist())
    parts = np.array([len(part) for part in spans], np.int64)
    flat = np.array([span for part in spans for span in part], np.int64).reshape(-1, 2)
    return np.repeat(members, parts), flat[:, 0], flat[:, 1] - flat[:, 0] + 1


def _by_allocation(members: Ints, start: Floats, end: Floats) -> tuple[Ints, Ints, Ints]:
    """Return bar, lane on the machine, and 1, of allocations with a lane each."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lane, used = np.zeros(len(members), np.int64), 0
    starts, ends = start[members].tolist(), end[members].tolist()
    for row, (begin, finish) in enumerate(zip(starts, ends, strict=True)):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if free:
            lane[row] = heappop(free)
        else:
            lane[row], used = used, used + 1
        heappush(busy, (finish if finish == finish else float("inf"), int(lane[row])))
    return members, lane, np.ones(len(members), np.int64)
