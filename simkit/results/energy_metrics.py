"""Metrics of energy: where it came from, what it served, what it cost; all over a window of time.

Energies are in kWh, 3.6e6 J each. Which source serves what is the ledger's rule: the load takes
renewables first, then what the battery gives, then the grid. The battery is well mixed, so that
what it gives is from renewables as far as its content is; what it held at the start counts as
renewable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.results.metric import Metric, RunWindow, batches

if TYPE_CHECKING:
    from simkit.results.run_folder import Run


# MERGED What a run recorded of its site: the ledger's rows within a window of time, summed up.


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


_DIGITS: Final = 1e-12
"""Share of the energies by which a difference of them may be its last digits alone."""
_TICKS: Final = 1e-9
"""Share of a battery's capacity that moves within a few ticks of the grid of times, to which the
instants of being full and empty are rounded."""


def energy_metrics(records: EnergyRecords, window: RunWindow) -> list[Metric]:
    """Return the metrics of a site over a window of time.

    Args:
        records: the table "power" and the battery.
        window: of whose time; rows that lie in it in part count for their seconds there.
    """
    sums = sum_up(records, window.start_s, window.end_s)
    write = _Writer(sums, window)
    found = [
        *_of_load(write, sums),
        *_of_renewables(write, sums),
        *_of_grid(write, sums),
        *_of_carbon_and_cost(write, sums),
    ]
    if records.battery is not None:
        found += _of_battery(write, sums, records.battery)
    return found


class _Writer:
    """Writes metrics that share window and count."""

    def __init__(self, sums: EnergySums, window: RunWindow) -> None:
        self.rows, self.window = sums.rows, window.time_text

    def __call__(
        self, name: str, unit: str, formula: str, values: Mapping[str, float | None] | float | None
    ) -> Metric:
        numbers = values if isinstance(values, Mapping) else {"value": values}
        return Metric(name, unit, f"{formula}; count: rows", self.window, self.rows, 0, numbers)


def _of_load(write: _Writer, sums: EnergySums) -> list[Metric]:
    """Return what was wanted, and what served it."""
    machines, overhead = sums.kwh("machines"), sums.overhead_j / KWH_J
    load, idle = sums.kwh("load"), sums.kwh("standing")
    return [
        write(
            "load_kwh",
            "kWh",
            "energy wanted, served or not: integral of load_w; machines: of machines_w; idle: of "
            "standing_w, what machines draw by themselves; jobs: machines - idle; overhead: of "
            "(pue - 1) * machines_w; critical: value - machines - overhead",
            {
                "value": load,
                "machines": machines,
                "idle": idle,
                "jobs": machines - idle,
                "overhead": overhead,
                "critical": load - machines - overhead,
            },
        ),
        write(
            "served_kwh",
            "kWh",
            "energy that served load and losses, by source: integrals of load_renewable_w, "
            "load_battery_w and load_grid_w; value: their sum",
            {
                "value": sums.kwh("load_renewable", "load_battery", "load_grid"),
                "renewable": sums.kwh("load_renewable"),
                "battery": sums.kwh("load_battery"),
                "grid": sums.kwh("load_grid"),
            },
        ),
        write(
            "unserved_kwh",
            "kWh",
            "load for which there was no power: integral of unserved_w; share: of the load; jobs, "
            "idle: that of their part of load_kwh, every W of the load alike: integrals of "
            "unserved_w / load_w * (machines_w - standing_w) and of unserved_w / load_w * "
            "standing_w; load_kwh.jobs - jobs: what the bills of energy.parquet add up to",
            {
                "value": sums.kwh("unserved"),
                "share": _share(sums.j("unserved"), sums.j("load")),
                "jobs": sums.unserved_jobs_j / KWH_J,
                "idle": sums.unserved_idle_j / KWH_J,
            },
        ),
    ]


def _of_renewables(write: _Writer, sums: EnergySums) -> list[Metric]:
    """Return what sun and wind gave, and how much of the load they carried."""
    made, left = sums.j("generation"), sums.j("curtailment")
    served = sums.j("load_renewable", "load_battery", "load_grid")
    renewable = sums.j("load_renewable", "load_battery") - sums.j("load_battery_grid")
    kept = sums.j("load_renewable", "charge_renewable")
    return [
        write(
            "generation_kwh",
            "kWh",
            "what sun and wind could give: integral of generation_w; used: less curtailment",
            {"value": made / KWH_J, "used": (made - left) / KWH_J},
        ),
        write(
            "curtailment_kwh",
            "kWh",
            "generation that is not used: integral of curtailment_w; share: of generation",
            {"value": left / KWH_J, "share": _share(left, made)},
        ),
        write(
            "renewable_fraction",
            "1",
            "(load_renewable + load_battery - load_battery_grid) / (load_renewable + load_battery "
            "+ load_grid), energies: renewables that served the load, at once or through the "
            "battery",
            _share(renewable, served),
        ),
        write(
            "self_consumption",
            "1",
            "(load_renewable + charge_renewable) / generation, energies: generation used on the "
            "site, not exported",
            _share(kept, made),
        ),
    ]


def _of_grid(write: _Writer, sums: EnergySums) -> list[Metric]:
    """Return what was bought and sold."""
    return [
        write(
            "grid_kwh",
            "kWh",
            "integrals of import_w and export_w",
            {"import": sums.kwh("import"), "export": sums.kwh("export")},
        ),
        write(
            "grid_import_peak_w",
            "W",
            "the most that is imported for some time: max of import_w",
            sums.peak_import_w,
        ),
    ]


def _of_carbon_and_cost(write: _Writer, sums: EnergySums) -> list[Metric]:
    """Return carbon and money, of the site and of what the load used."""
    amounts = sums.amounts
    return [
        write(
            "carbon_kg",
            "kg CO2e",
            "value: integral of carbon_g_per_s / 1000, import and used generation when they come "
            "in; load: of load_carbon_g_per_s / 1000, what the load's energy carries",
            {
                "value": amounts["carbon_g_per_s"] / 1000.0,
                "load": amounts["load_carbon_g_per_s"] / 1000.0,
            },
        ),
        write(
            "energy_cost",
            "currency of the prices",
            "value: integral of cost_per_s, import and used generation less what export brings; "
            "load: of load_cost_per_s, what the load's energy carries",
            {"value": amounts["cost_per_s"], "load": amounts["load_cost_per_s"]},
        ),
    ]


def _of_battery(write: _Writer, sums: EnergySums, store: Store) -> list[Metric]:
    """Return how the battery was used."""
    entered = sums.j("charge") * store.charge_efficiency
    left = sums.j("discharge") / store.discharge_efficiency
    converted = sums.j("charge") - entered + left - sums.j("discharge")
    before, after = sums.stored_j
    leaked = entered - left - (after - before)
    return [
        write(
            "battery_kwh",
            "kWh",
            "charge, discharge: integrals of charge_w and discharge_w, at its terminals; "
            "conversion: charge * (1 - charge_efficiency) + discharge * (1 / discharge_efficiency "
            "- 1); self_discharge: charge - discharge - conversion - stored; stored: content at "
            "the end less that at the start, 0 within 1e-9 of the capacity",
            {
                "charge": sums.kwh("charge"),
                "discharge": sums.kwh("discharge"),
                "conversion": converted / KWH_J,
                "self_discharge": _above(leaked, _DIGITS * (entered + left + store.capacity_j)),
                "stored": _above(after - before, _TICKS * store.capacity_j),
            },
        ),
        write(
            "battery_full_cycles",
            "1",
            "equivalent full cycles: (charge * charge_efficiency + discharge / "
            "discharge_efficiency) / (2 * capacity), energies",
            (entered + left) / (2.0 * store.capacity_j),
        ),
    ]


def _above(energy_j: float, least_j: float) -> float:
    """Return an energy in kWh; 0 where it is not above what counts as nothing."""
    return energy_j / KWH_J if abs(energy_j) > least_j else 0.0


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
