"""Bills: the energy, carbon and cost of each job on machines that jobs share, from the records.

A machine's power above idle belongs to the jobs on it, each resource's part in proportion to what
each job holds of it. Idle, booting and switched-off power belongs to no job. What the facility
adds (cooling, conversion) is borne by every W of machine power alike, and so is the mix of sources.

If a resource's power is a straight line, a job's power does not depend on the other jobs. If it is
curved, the power that the resource adds is shared by those who hold it, in proportion to the units
they hold. A unit's power changes when a job comes or goes and is constant in between. So what a
unit has used is, machine by machine, a running sum over these stretches of time, and a job's part
is a difference of two of its values.

Every W of machine power is alike: it is served to the extent that the load is, bears its part of
what the facility adds and loses, and has the load's mix of sources. So a bill is a number of W
times what one W has used meanwhile, and costs the same to compute whether a job ran through one
row or a million.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints, RunningSums
from simkit.errors import ScenarioError
from simkit.power.machine_model import Curve, PowerModel
from simkit.results.machine_records import MachineRecords, Requests
from simkit.results.metric import batches
from simkit.results.run_folder import Run
from simkit.units import amount_on_grid

_READ: Final = ("job_id", "task_id", "machine_id", "count", "start_time_s", "end_time_s")


def energy_table(run: Run, models: Sequence[PowerModel]) -> pl.DataFrame:
    """Return the table "energy" of a run whose other tables are closed: columns `records.ENERGY`.

    One row a job id, in the order of the table "jobs"; jobs that never ran have used nothing.

    Args:
        run: with the table "power".
        models: (M,) what each machine draws.

    Raises ScenarioError if the models do not fit the machines, RunError for a missing table.
    """
    bills = job_bills(MachineRecords.of(run), run.scan("power"), models)
    jobs = run.scan("jobs").select("job_id").collect().unique(maintain_order=True)
    table = jobs.join(bills, on="job_id", how="left", maintain_order="left")
    return table.with_columns(pl.col(BILLED).fill_null(0.0))


def job_bills(
    records: MachineRecords, power: pl.LazyFrame, models: Sequence[PowerModel]
) -> pl.DataFrame:
    """Return what each job has used until its end, or the ledger's.

    Args:
        records: the run's records of machines.
        power: columns of `records.POWER`, by ascending time.
        models: (M,) what each machine draws.

    Returns job_id and `BILLED`, one row a job that has held anything, in order of its first end.

    Raises ScenarioError if there are not as many models as machines, or if a model draws power by a
    resource that its machine does not have.
    """
    use, usage = _UsePower.of(models, records.resources, records.capacity), UsagePerWatt(power)
    requests = records.requests()
    ids = records.allocations.select("job_id").unique(maintain_order=True).collect()
    numbered = ids.with_row_index("job")
    totals = np.zeros((len(BILLED), len(ids)))
    curved: list[_Held] = []
    for rows in batches(records.allocations, _READ):
        held = _held(rows, numbered, requests)
        _bill_lines(totals, held, requests, use, usage)
        if use.curves:
            curved.append(held)
    if curved:
        everything = _Held._make(np.concatenate(column) for column in zip(*curved, strict=True))
        _bill_curves(totals, everything, requests, use, usage)
    bills = {name: totals[column] for column, name in enumerate(BILLED)}
    return ids.with_columns(pl.Series(name, column) for name, column in bills.items())


class _Held(NamedTuple):
    """N allocations as columns."""

    job: Ints
    """(N,) number of the job."""
    machine: Ints
    """(N,) row of the machine."""
    request: Ints
    """(N,) row in the distinct requests."""
    instances: Ints
    """(N,)"""
    start_s: Floats
    """(N,)"""
    end_s: Floats
    """(N,) inf while it runs."""


def _held(rows: pl.DataFrame, numbered: pl.DataFrame, requests: Requests) -> _Held:
    """Return the allocations of a batch that have begun, as compact columns."""
    begun = rows.filter(pl.col("start_time_s").is_not_null())
    known = begun.join(numbered, on="job_id", how="inner", maintain_order="left").join(
        requests.of_task, on=["job_id", "task_id"], how="inner", maintain_order="left"
    )
    return _Held(
        known["job"].to_numpy().astype(np.int64),
        known["machine_id"].to_numpy(),
        known["request"].to_numpy(),
        known["count"].to_numpy(),
        known["start_time_s"].to_numpy(),
        known["end_time_s"].fill_null(np.inf).to_numpy(),
    )


@dataclass(frozen=True)
class _UsePower:
    """The power that use of M machines with R resources adds to idle power."""

    watts: Floats
    """(M, R) W a unit, for resources whose power is a straight line."""
    curves: tuple[tuple[int, Curve, Floats], ...]
    """Resource, curve, and (M,) what a machine has of it; 0 if it follows another curve."""

    @classmethod
    def of(
        cls, models: Sequence[PowerModel], resources: Sequence[str], capacity: Floats
    ) -> _UsePower:
        """Return that of machines; see `job_bills` for the errors."""
        if len(models) != len(capacity):
            raise ScenarioError(
                f"machine power: {len(models)} models for {len(capacity)} machines; give one each"
            )
        rows_of: dict[PowerModel, list[int]] = {}
        for machine, model in enumerate(models):
            rows_of.setdefault(model, []).append(machine)
        watts, curves = np.zeros(capacity.shape), []
        for model, rows in rows_of.items():
            for name, curve in zip(model.resources, model.curves, strict=True):
                r = list(resources).index(name) if name in resources else -1
                if r < 0 or not (capacity[rows, r] > 0).all():
                    raise ScenarioError(
                        f"machine power: draws power by {name!r}, which not every such machine "
                        f"has; the machines' resources are {', '.join(resources)}"
                    )
                if len(curve.watts) == 2:
                    watts[rows, r] = curve.watts[1] / capacity[rows, r]
                else:
                    there = np.zeros(len(models))
                    there[rows] = capacity[rows, r]
                    curves.append((r, curve, there))
        return cls(watts, tuple(curves))


def _bill_lines(
    totals: Floats, held: _Held, requests: Requests, use: _UsePower, usage: UsagePerWatt
) -> None:
    """Add to (B, J) `totals` what allocations used by resources with a straight line of power."""
    per_instance = (use.watts[held.machine] * requests.amounts[held.request]).sum(axis=1)
    watts = per_instance * held.instances
    first, last = usage.at(held.start_s), usage.at(held.end_s)
    for billed in range(len(BILLED)):
        np.add.at(totals[billed], held.job, watts * usage.between(billed, first, last))


def _bill_curves(
    totals: Floats, held: _Held, requests: Requests, use: _UsePower, usage: UsagePerWatt
) -> None:
    """Add to (B, J) `totals` what allocations used by resources with a curve of power."""
    for r, curve, capacity in use.curves:
        amount = amount_on_grid(requests.amounts[held.request, r] * held.instances)
        mine: Bools = (amount > 0) & (capacity[held.machine] > 0) & (held.end_s > held.start_s)
        part, amount = _Held._make(column[mine] for column in held), amount[mine]
        stretches = _stretches(part, amount)
        share = stretches.held / capacity[stretches.machine]
        above_idle = curve.powers_w(share)
        unit_w = np.divide(
            above_idle, stretches.held, out=np.zeros_like(share), where=stretches.held > 0
        )
        start = usage.at(stretches.start_s)
        end = RowTimes._make(np.append(column[1:], column[-1:]) for column in start)
        for billed in range(len(BILLED)):
            sums = RunningSums(unit_w * usage.between(billed, start, end))
            np.add.at(
                totals[billed], part.job, amount * sums.between(stretches.first, stretches.last)
            )


class _Stretches(NamedTuple):
    """S stretches of machines in which the same amount is held, sorted by machine and time.

    The last stretch of a machine holds nothing and extends to the next machine's first.
    """

    machine: Ints
    """(S,)"""
    start_s: Floats
    """(S,)"""
    held: Floats
    """(S,) amount."""
    first: Ints
    """(N,) the stretch with which each allocation starts."""
    last: Ints
    """(N,) the stretch before which it ends."""


def _stretches(part: _Held, amount: Floats) -> _Stretches:
    """Return the stretches between the starts and ends of (N,) allocations of such amounts."""
    machine = np.concatenate((part.machine, part.machine))
    time = np.concatenate((part.start_s, part.end_s))
    change = np.concatenate((amount, -amount))
    order = np.lexsort((time, machine))
    machine, time, change = machine[order], time[order], change[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (machine[1:] != machine[:-1]) | (time[1:] != time[:-1])
    at = np.empty(len(order), dtype=np.int64)
    at[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    # Amounts lie on a grid, so sums are exact and a machine that got all back holds 0.
    held = np.cumsum(np.add.reduceat(change, first)) if len(first) else change
    half = len(part.job)
    return _Stretches(machine[first], time[first], held, at[:half], at[half:])


BILLED: Final = (
    "energy_j", "overhead_j", "renewable_j", "battery_j", "grid_j", "carbon_g", "cost",
)  # fmt: skip
"""What is billed; renewable + battery + grid = energy + overhead. See `records.ENERGY`."""
_COLUMNS: Final = (
    "start_s", "end_s", "unserved_w", "load_w", "pue", "load_renewable_w", "load_battery_w",
    "load_grid_w", "load_carbon_g_per_s", "load_cost_per_s",
)  # fmt: skip
"""Columns of the table "power" that bills need."""
_ROUNDING: Final = 1e-12
"""Share of the power below which overhead is rounding."""


class RowTimes(NamedTuple):
    """K times as rows of the ledger."""

    row: Ints
    """(K,) number of rows that have ended by then."""
    seconds: Floats
    """(K,) since the start of the next row, in s."""


class UsagePerWatt:
    """How fast one W of machine power uses each of `BILLED` in the ledger's N rows."""

    def __init__(self, power: pl.LazyFrame) -> None:
        """Read the rows of a table "power"."""
        rows = power.select(_COLUMNS).collect()
        columns = {name: rows[name].to_numpy() for name in _COLUMNS}
        self._start, self._end = columns["start_s"], columns["end_s"]
        rates = _rates(columns)
        self._sums = [RunningSums(rate * (self._end - self._start)) for rate in rates]
        self._rates = [np.append(rate, 0.0) for rate in rates]  # nothing after the last row

    def at(self, times: Floats) -> RowTimes:
        """Find (K,) times in s; times outside the rows count as the first or the last instant."""
        if not len(self._end):
            return RowTimes(np.zeros(len(times), dtype=np.int64), np.zeros(len(times)))
        inside = np.clip(times, self._start[0], self._end[-1])
        row = np.searchsorted(self._end, inside, side="right").astype(np.int64)
        return RowTimes(row, inside - np.append(self._start, self._end[-1])[row])

    def between(self, billed: int, first: RowTimes, last: RowTimes) -> Floats:
        """Return (K,) what one W has used of a column of `BILLED` between two times."""
        rates = self._rates[billed]
        whole = self._sums[billed].between(first.row, last.row)
        parts: Floats = rates[last.row] * last.seconds - rates[first.row] * first.seconds
        return whole + parts


def _rates(rows: dict[str, Floats]) -> list[Floats]:
    """Return (N,) rates of `BILLED`, per s and W of machine power; 0 if there is no load."""
    load = rows["load_w"]
    loaded = load > 0
    per_watt = np.divide(rows["pue"], load, out=np.zeros_like(load), where=loaded)
    short = np.divide(rows["unserved_w"], load, out=np.ones_like(load), where=loaded)
    served = np.maximum(1.0 - short, 0.0)
    sources = [rows[f"load_{source}_w"] * per_watt for source in ("renewable", "battery", "grid")]
    used = sources[0] + sources[1] + sources[2]
    added = used - served
    overhead = np.where(added > _ROUNDING * used, added, 0.0)  # exactly 0 if nothing is added
    carried = [rows[f"load_{what}_per_s"] * per_watt for what in ("carbon_g", "cost")]
    return [served, overhead, *sources, *carried]
