"""Bills: the energy, carbon and cost of each job on machines that jobs share, from the records.

The declared rule: a machine's power above idle belongs to the jobs on it, each resource's part in
proportion to what each job holds of it. Idle, booting and switched-off power belongs to nobody and
is kept apart. What the facility adds (cooling, conversion) is borne by every W of machine power
alike, and so is the mix of sources.

Where a resource's power is a straight line, a job's power does not depend on the others. Where it
is curved (`simkit.energy_shares`), a unit of the resource draws more or less as others come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simkit.drawn_power import BILLED, DrawnPower
from simkit.energy_shares import Holding, Wiring, bill_curved
from simkit.exact_sum import Floats
from simkit.machine_records import MachineRecords, Requests
from simkit.metric import batches

if TYPE_CHECKING:
    import polars as pl

    from simkit.power_model import PowerModel
    from simkit.run_folder import Run

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
    import polars as pl

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
    import polars as pl

    wiring = Wiring.of(models, resources, capacity)
    drawn = DrawnPower(power)
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
    drawn = DrawnPower(power)
    energy = drawn.standing_w * drawn.seconds
    return Bill(*[float(np.add.reduce(energy * r, dtype=np.longdouble)) for r in drawn.rates])


def _holding(rows: pl.DataFrame, numbered: pl.DataFrame, requests: Requests) -> Holding:
    """Return the allocations of a batch that have begun, as compact columns."""
    import polars as pl

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
    totals: Floats, held: Holding, requests: Requests, wiring: Wiring, drawn: DrawnPower
) -> None:
    """Add what allocations have drawn by resources whose power is a straight line."""
    per_instance = (wiring.watts[held.machine] * requests.amounts[held.request]).sum(axis=1)
    watts = per_instance * held.instances
    first, last = drawn.places(held.start_s), drawn.places(held.end_s)
    for billed in range(len(BILLED)):
        np.add.at(totals[billed], held.job, watts * drawn.between(billed, first, last))
