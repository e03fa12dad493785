"""The check of capacity: machines never hold more than they have.

A sweep over the starts and ends of allocations, by machine and resource. At one instant, as in the
engine, what ends is released first, then capacity changes, then tasks start.

An allocation of length zero starts and ends at one instant, and the rounds within an instant are
not recorded: it must fit next to the allocations that run from before until after the instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun, RecordedCapacity
from simkit.verify.numbers import Floats, Ints

_INSTANT = ("machine_id", "time_s", "allocated", "capacity", "started")
"""Columns of instants at which a machine holds too much."""
_AT_ONCE = 500_000
"""Starts of a stretch of time that is swept at once."""


def check_capacity(run: AuditedRun) -> Check:
    """Check that what starts on a machine fits, and that tasks make room when they must.

    Only draining work may hold more than the machine still has.
    """
    check = Check("capacity", "allocated <= capacity on each machine, except for draining work")
    check.examined = run.rows_of("allocations")
    steps = run.capacity_steps
    for event in run.malformed_capacity_events:
        check.add("the capacity event is malformed", event)
    rows = _facts(run).filter(
        pl.col("machine_id").is_in(list(run.capacity)),
        pl.col("start_time_s").is_not_null(),
        pl.col("end_time_s").is_null() | (pl.col("end_time_s") >= pl.col("start_time_s")),
    )
    for resource in run.requested:
        index = run.resources.index(resource)
        amounts = rows.with_columns(
            (pl.col("count") * pl.col(f"one_{resource}")).alias("amount")
        ).filter(pl.col("amount") > 0)
        for begin, end, some in _stretches(amounts):
            sweep = _Sweep(some, steps, index, run.together)
            for instants in (sweep.overfull(), sweep.overfull_at_zero_length()):
                inside = instants.filter(pl.col("time_s").is_between(begin, end, closed="left"))
                check.add_rows(
                    "more is allocated than the capacity", _with_starters(inside, some, resource)
                )
    # Nothing starts on a machine that is absent or down, unless it requests nothing.
    asking = rows.filter(pl.any_horizontal(pl.col(f"one_{r}") > 0 for r in run.requested))
    empty = np.array([not any(step.capacity) for step in steps], dtype=bool)
    if not empty.any():
        return check
    ids, times = (np.array([getattr(s, n) for s in steps]) for n in ("machine_id", "time_s"))
    at = _last_at(asking["machine_id"].to_numpy(), asking["start_time_s"].to_numpy(), ids, times)
    check.add_rows("starts on a machine that is absent or down", asking.filter(empty[at]))
    return check


def _facts(run: AuditedRun) -> pl.DataFrame:
    """Return the allocations with what their tasks request; of a large run no other column."""
    if not run.is_large:
        return run.known
    requests = [f"one_{name}" for name in run.requested]
    times = ("start_time_s", "end_time_s")
    own = [name for name in run.together if name not in times]
    return run.known_only(*own, *times, "machine_id", "count", "gang", *requests)


def _stretches(rows: pl.DataFrame) -> Iterator[tuple[float, float, pl.DataFrame]]:
    """Yield stretches of time, from and until, with the rows that hold something in them."""
    if rows.height <= _AT_ONCE:
        yield -inf, inf, rows
        return
    start, end = rows["start_time_s"].to_numpy(), rows["end_time_s"].fill_null(inf).to_numpy()
    cuts = np.unique(np.sort(start)[_AT_ONCE::_AT_ONCE]).tolist()
    for begin, until in pairwise([-inf, *cuts, inf]):
        yield begin, until, rows.filter(pl.Series((start < until) & (end >= begin)))


class _Sweep:
    """The use of one resource on all machines, instant by instant.

    I instants, sorted by (machine, time); several changes at one instant are one.
    """

    def __init__(
        self,
        rows: pl.DataFrame,
        steps: list[RecordedCapacity],
        resource: int,
        together: list[str],
    ) -> None:
        start = rows["start_time_s"].to_numpy()
        end = rows["end_time_s"].fill_null(np.inf).to_numpy()
        amount, machine = rows["amount"].to_numpy(), rows["machine_id"].to_numpy()
        self.brief = rows.with_row_index("row").filter(
            pl.col("start_time_s") == pl.col("end_time_s")
        )
        self._together = together
        lasting = end > start
        held = np.where(lasting, amount, 0.0)
        zeros = np.zeros(len(steps))
        machines = np.concatenate([machine, machine, [s.machine_id for s in steps]])
        times = np.concatenate([start, end, [s.time_s for s in steps]])
        change = np.concatenate([held, -held, zeros])
        started = np.concatenate([held, np.zeros(len(end)), zeros])
        self.machine, self.time, sums = _by_instant(machines, times, change, started)
        self.started = sums[1]
        self.used = _running_sum(self.machine, sums[0])
        # Every machine has a step at minus infinity, so the step in force always exists.
        ids = np.array([s.machine_id for s in steps])
        in_force = _last_at(self.machine, self.time, ids, np.array([s.time_s for s in steps]))
        self.capacity = np.array([s.capacity[resource] for s in steps])[in_force]
        self.forced = np.array([s.forced for s in steps], dtype=bool)[in_force]

    def overfull(self) -> pl.DataFrame:
        """Return the instants at which a machine holds more than it has.

        After a drain, running tasks may exceed the capacity, but nothing may start.
        """
        over = (self.used > self.capacity) & (self.forced | (self.started > 0))
        over &= np.isfinite(self.time)
        columns = (self.machine, self.time, self.used, self.capacity, self.started)
        return pl.DataFrame(dict(zip(_INSTANT, columns, strict=True))).filter(over)

    def overfull_at_zero_length(self) -> pl.DataFrame:
        """Return the same for allocations of length zero, next to what runs on."""
        # The instances of a gang run together; those of a bag may have started in different rounds.
        alone = pl.when("gang").then(0).otherwise(pl.col("row"))
        brief = self.brief.group_by(
            "machine_id", *self._together, alone.alias("alone"), maintain_order=True
        ).agg(pl.col("amount").sum())
        machine, time = brief["machine_id"].to_numpy(), brief["start_time_s"].to_numpy()
        amount = brief["amount"].to_numpy()
        at = _last_at(machine, time, self.machine, self.time)
        used = self.used[at] - self.started[at] + amount
        capacity = self.capacity[at]
        columns = (machine, time, used, capacity, amount)
        return pl.DataFrame(dict(zip(_INSTANT, columns, strict=True))).filter(used > capacity)


def _by_instant(machine: Ints, time: Floats, *values: Floats) -> tuple[Ints, Floats, list[Floats]]:
    """Return the distinct (machine, time) in order, and each of `values` summed over them."""
    order = np.lexsort((time, machine))
    machine, time = machine[order].astype(np.int64), time[order]
    if not len(order):
        return machine, time, [value[order] for value in values]
    new = np.flatnonzero(
        np.concatenate(([True], (machine[1:] != machine[:-1]) | (time[1:] != time[:-1])))
    )
    return machine[new], time[new], [np.add.reduceat(value[order], new) for value in values]


def _running_sum(machine: Ints, change: Floats) -> Floats:
    """Return the sum of changes so far on the same machine; `machine` is sorted."""
    total = np.cumsum(change)
    first = np.searchsorted(machine, machine, side="left")
    return np.asarray(total - (total - change)[first])


def _last_at(machine: Ints, time: Floats, key_machine: Ints, key_time: Floats) -> Ints:
    """Return, for each (machine, time), the index of the last of the sorted keys up to it."""
    keys = len(key_machine)
    # A stable sort with the keys first puts every key before the queries equal to it.
    order = np.lexsort((np.concatenate([key_time, time]), np.concatenate([key_machine, machine])))
    latest = np.cumsum(order < keys) - 1
    found = np.empty(len(order), dtype=np.int64)
    found[order] = latest
    return found[keys:]


def _with_starters(instants: pl.DataFrame, rows: pl.DataFrame, resource: str) -> pl.DataFrame:
    """Add the name of the resource, and a task that starts at that machine and instant, if any."""
    starters = rows.select(
        "machine_id", pl.col("start_time_s").alias("time_s"), "job_id", "task_id"
    ).unique(["machine_id", "time_s"], keep="last", maintain_order=True)
    named = instants.with_columns(pl.lit(resource).alias("resource"))
    return named.join(starters, on=["machine_id", "time_s"], how="left", maintain_order="left")
