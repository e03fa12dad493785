"""What a run recorded of its site: the ledger's rows within a window of time, summed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simkit.metric import Floats, batches

if TYPE_CHECKING:
    import polars as pl

    from simkit.run_folder import Run

KWH_J: Final = 3.6e6
"""Joules in a kWh."""

FLOWING: Final = (
    "generation_w", "import_w", "discharge_w", "unserved_w", "load_w", "charge_w", "export_w",
    "curtailment_w", "losses_w", "machines_w", "standing_w", "load_renewable_w", "load_battery_w",
    "load_grid_w", "charge_renewable_w", "load_battery_grid_w", "carbon_g_per_s", "cost_per_s",
    "load_carbon_g_per_s", "load_cost_per_s",
)  # fmt: skip
"""Columns of the table "power" that are summed over time."""


@dataclass(frozen=True)
class Store:
    """What the metrics need to know of a battery."""

    capacity_j: float
    """Energy between state of charge 0 and 1."""
    initial_j: float
    """Content at the start of the run."""
    charge_efficiency: float = 1.0
    """Share of the charging power that is stored."""
    discharge_efficiency: float = 1.0
    """Share of what is taken out that arrives."""

    @classmethod
    def of(cls, battery: Mapping[str, Any]) -> Store:
        """Return that of a scenario's section `power.battery`."""
        capacity_j = float(battery["capacity_kwh"]) * KWH_J
        return cls(
            capacity_j,
            capacity_j * float(battery["initial_soc"]),
            float(battery["charge_efficiency"]),
            float(battery["discharge_efficiency"]),
        )


@dataclass(frozen=True)
class EnergyRecords:
    """The table of the site's power, and its battery."""

    power: pl.LazyFrame
    """Columns of `records.POWER`, by ascending time."""
    battery: Store | None = None
    """None: there is none."""

    @classmethod
    def of(cls, run: Run) -> EnergyRecords | None:
        """Return the records of a run; None if its scenario says nothing of power.

        Raises RunError if the table is missing or damaged.
        """
        if not run.has_power:
            return None
        battery = run.info["scenario"]["power"].get("battery")
        return cls(run.scan("power"), None if battery is None else Store.of(battery))


@dataclass(frozen=True)
class EnergySums:
    """What flowed within a window."""

    rows: int
    """Rows that lie in it, at least in part."""
    amounts: Mapping[str, float]
    """J of each of `FLOWING`; g and cost of those per s."""
    overhead_j: float
    """What the facility adds to the machines' energy: cooling, conversion."""
    unserved_jobs_j: float
    """What jobs on the machines wanted and there was no power for."""
    unserved_idle_j: float
    """What the machines wanted by themselves and there was no power for."""
    peak_import_w: float
    """The most that is imported for some time."""
    stored_j: tuple[float, float]
    """What the battery holds at its start and at its end, in J."""

    def j(self, *names: str) -> float:
        """Return a sum of energies in J: ``j("load")`` is that of load_w."""
        return sum(self.amounts[f"{name}_w"] for name in names)

    def kwh(self, *names: str) -> float:
        """Return the same in kWh."""
        return self.j(*names) / KWH_J


def sum_up(records: EnergyRecords, start_s: float, end_s: float) -> EnergySums:
    """Return what flowed between two times in s, in one pass over the table.

    A row that lies in the window in part counts for its seconds there; the battery's content within
    a row is that of a straight line.
    """
    names = ("start_s", "end_s", "pue", "stored_j", *FLOWING)
    totals = np.zeros(len(FLOWING) + 3, dtype=np.longdouble)
    rows, peak = 0, 0.0
    last = 0.0 if records.battery is None else records.battery.initial_j
    edges, contents = (start_s, end_s), [last, last]
    for batch in batches(records.power, names):
        column: dict[str, Floats] = {name: batch[name].to_numpy() for name in names}
        times = np.append(column["start_s"][0], column["end_s"])
        stored = np.append(last, column["stored_j"])
        last = float(stored[-1])
        for n, edge in enumerate(edges):
            if edge >= times[0]:
                contents[n] = float(np.interp(edge, times, stored))
        seconds = np.diff(np.clip(times, start_s, end_s))
        inside = seconds > 0
        rows += int(inside.sum())
        peak = max(peak, float(column["import_w"][inside].max(initial=0.0)))
        for n, powers in enumerate([*(column[name] for name in FLOWING), *_of_machines(column)]):
            totals[n] += np.add.reduce(powers * seconds, dtype=np.longdouble)
    *amounts, overhead_j, jobs_j, idle_j = (float(total) for total in totals)
    by_name = dict(zip(FLOWING, amounts, strict=True))
    return EnergySums(rows, by_name, overhead_j, jobs_j, idle_j, peak, (contents[0], contents[1]))


def _of_machines(column: Mapping[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """Return what the facility adds, and what of jobs and of idle power is unserved, in W.

    Every W of the load is served alike.
    """
    machines, load, standing = (column[f"{name}_w"] for name in ("machines", "load", "standing"))
    short = np.divide(column["unserved_w"], load, out=np.zeros_like(load), where=load > 0)
    return (column["pue"] - 1.0) * machines, short * (machines - standing), short * standing
