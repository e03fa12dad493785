"""Bills: the energy, carbon and cost of each job on machines that jobs share, from the records.

The declared rule: a machine's power above idle belongs to the jobs on it, each resource's part in
proportion to what each job holds of it. Idle, booting and switched-off power belongs to nobody and
is kept apart. What the facility adds (cooling, conversion) is borne by every W of machine power
alike, and so is the mix of sources.

Where a resource's power is a straight line, a job's power does not depend on the others. Where it
is curved (`simkit.results.energy_bills`), a unit of the resource draws more or less as others come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.exact_sum import RunningSums
from simkit.results.machine_records import MachineRecords, Requests
from simkit.results.metric import batches
from simkit.results.usage_per_watt import BILLED, Places, UsagePerWatt
from simkit.units import amount_on_grid

if TYPE_CHECKING:
    from simkit.power.machine_model import Curve, PowerModel
    from simkit.results.run_folder import Run


# MERGED Shares of machines: what draws power on them, and whose it is where it does not rise in a line.
# MERGED
# MERGED On a curve, the power that a resource adds is shared by those who hold it, so much a unit. How much
# MERGED changes when someone comes or goes; in between a unit draws evenly. Machine by machine, what a unit
# MERGED has drawn is a running sum over these stretches, and a job's part is a difference of two of them.


@dataclass(frozen=True)
class Holding:
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

    @classmethod
    def joined(cls, parts: Sequence[Holding]) -> Holding:
        """Return several, one after another."""
        columns = (np.concatenate([vars(part)[name] for part in parts]) for name in _COLUMNS)
        return cls(*columns)

    def where(self, chosen: Bools) -> Holding:
        """Return the allocations chosen by (N,)."""
        return Holding(*(vars(self)[name][chosen] for name in _COLUMNS))


_COLUMNS: Final = tuple(field.name for field in fields(Holding))


@dataclass(frozen=True)
class Wiring:
    """What use of M machines with R resources adds to their power."""

    watts: Floats
    """(M, R) W a unit, where the power is a straight line."""
    curves: tuple[tuple[int, Curve, Floats], ...]
    """Resource, curve, and (M,) what a machine has of it; 0 where it follows another curve."""

    @classmethod
    def of(cls, models: Sequence[PowerModel], resources: Sequence[str], capacity: Floats) -> Wiring:
        """Wire up machines; see `energy_bills.job_bills` for the arguments and errors."""
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


def bill_curved(
    totals: Floats, held: Holding, requests: Requests, wiring: Wiring, drawn: UsagePerWatt
) -> None:
    """Add to (B, J) `totals` what allocations have drawn by resources whose power is curved."""
    for r, curve, capacity in wiring.curves:
        amount = amount_on_grid(requests.amounts[held.request, r] * held.instances)
        mine = (amount > 0) & (capacity[held.machine] > 0) & (held.end_s > held.start_s)
        part, amount = held.where(mine), amount[mine]
        stretches = _stretches(part, amount)
        use = stretches.held / capacity[stretches.machine]
        above_idle = curve.powers_w(use)
        unit_w = np.divide(
            above_idle, stretches.held, out=np.zeros_like(use), where=stretches.held > 0
        )
        places = drawn.places(stretches.start_s)
        after = Places(
            np.append(places.row[1:], places.row[-1:]),
            np.append(places.seconds[1:], places.seconds[-1:]),
        )
        for billed in range(len(BILLED)):
            sums = RunningSums(unit_w * drawn.between(billed, places, after))
            share = amount * sums.between(stretches.first, stretches.last)
            np.add.at(totals[billed], part.job, share)


class _Stretches(NamedTuple):
    """S stretches of machines in which the same is held, sorted by machine and time.

    The last of each machine, in which nothing is held, goes on into the next machine's first.
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


def _stretches(part: Holding, amount: Floats) -> _Stretches:
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
    # Amounts lie on a grid, so that sums are exact and a machine that got all back holds 0.
    held = np.cumsum(np.add.reduceat(change, first)) if len(first) else change
    half = len(part.job)
    return _Stretches(machine[first], time[first], held, at[:half], at[half:])


_READ = ("job_id", "task_id", "machine_id", "count", "start_time_s", "end_time_s")


class Bill(NamedTuple):
    """What a job, or idle power, has used; renewable + battery + grid = energy + overhead."""

    energy_j: float = 0.0
    """Energy of the machines that was served, in J."""
    overhead_j: float = 0.0
    """Its part of what the facility adds and loses."""
    renewable_j: float = 0.0
    """Of both: straight from sun and wind."""
    battery_j: float = 0.0
    """Of both: from the battery."""
    grid_j: float = 0.0
    """Of both: straight from the grid."""
    carbon_g: float = 0.0
    """In g of CO₂ equivalent."""
    cost: float = 0.0
    """In the currency of the prices."""


def energy_table(run: Run, models: Sequence[PowerModel]) -> pl.DataFrame:
    """Return the table "energy" of a run whose other tables are closed: columns `records.ENERGY`.

    One row a job id, in the order of the table "jobs"; jobs that never ran have used nothing.

    Args:
        run: with the table "power".
        models: (M,) what each machine draws.

    Raises ScenarioError if the models do not fit the machines, RunError for a missing table.
    """
    machines = MachineRecords.of(run)
    bills = job_bills(
        machines.allocations,
        run.scan("power"),
        requests=machines.requests(),
        models=models,
        capacity=machines.capacity,
        resources=machines.resources,
    )
    jobs = run.scan("jobs").select("job_id").collect().unique(maintain_order=True)
    table = jobs.join(bills, on="job_id", how="left", maintain_order="left")
    return table.with_columns(pl.col(BILLED).fill_null(0.0))


def job_bills(
    allocations: pl.LazyFrame,
    power: pl.LazyFrame,
    *,
    requests: Requests,
    models: Sequence[PowerModel],
    capacity: Floats,
    resources: Sequence[str],
) -> pl.DataFrame:
    """Return what each job has used until its end, or the ledger's.

    Args:
        allocations: columns of `records.ALLOCATIONS`.
        power: columns of `records.POWER`, by ascending time.
        requests: what the tasks ask for.
        models: (M,) what each machine draws.
        capacity: (M, R) what each machine has when all of it is there.
        resources: names of the R resources.

    Returns job_id and `BILLED`, one row a job that has held anything, in order of its first end.

    Raises ScenarioError if there are not as many models as machines, or if a model draws power by a
    resource that its machine does not have.
    """
    wiring = Wiring.of(models, resources, capacity)
    drawn = UsagePerWatt(power)
    ids = allocations.select("job_id").unique(maintain_order=True).collect()
    numbered = ids.with_row_index("job")
    totals = np.zeros((len(BILLED), len(ids)))
    curved: list[Holding] = []
    for rows in batches(allocations, _READ):
        held = _holding(rows, numbered, requests)
        _bill_lines(totals, held, requests, wiring, drawn)
        if wiring.curves:
            curved.append(held)
    if curved:
        bill_curved(totals, Holding.joined(curved), requests, wiring, drawn)
    bills = {name: totals[column] for column, name in enumerate(BILLED)}
    return ids.with_columns(pl.Series(name, column) for name, column in bills.items())


def idle_bill(power: pl.LazyFrame) -> Bill:
    """Return what the machines' own power has used: idle, booting and switched off.

    Args:
        power: columns of `records.POWER`.
    """
    drawn = UsagePerWatt(power)
    energy = drawn.standing_w * drawn.seconds
    return Bill(*[float(np.add.reduce(energy * r, dtype=np.longdouble)) for r in drawn.rates])


def _holding(rows: pl.DataFrame, numbered: pl.DataFrame, requests: Requests) -> Holding:
    """Return the allocations of a batch that have begun, as compact columns."""
    begun = rows.filter(pl.col("start_time_s").is_not_null())
    known = begun.join(numbered, on="job_id", how="inner", maintain_order="left").join(
        requests.of_task, on=["job_id", "task_id"], how="inner", maintain_order="left"
    )
    return Holding(
        known["job"].to_numpy().astype(np.int64),
        known["machine_id"].to_numpy(),
        known["request"].to_numpy(),
        known["count"].to_numpy(),
        known["start_time_s"].to_numpy(),
        known["end_time_s"].fill_null(np.inf).to_numpy(),
    )


def _bill_lines(
    totals: Floats, held: Holding, requests: Requests, wiring: Wiring, drawn: UsagePerWatt
) -> None:
    """Add what allocations have drawn by resources whose power is a straight line."""
    per_instance = (wiring.watts[held.machine] * requests.amounts[held.request]).sum(axis=1)
    watts = per_instance * held.instances
    first, last = drawn.places(held.start_s), drawn.places(held.end_s)
    for billed in range(len(BILLED)):
        np.add.at(totals[billed], held.job, watts * drawn.between(billed, first, last))
