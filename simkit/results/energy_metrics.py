"""Metrics of energy: its sources, the load it served, its carbon and its cost.

Energies are in kWh, 3.6e6 J each. The ledger's rule says which source serves what: the load takes
renewables first, then the battery, then the grid. The battery is well mixed: the renewable share
of what it gives is that of its content, and its content at the start counts as renewable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.results.metric import (
    MAIN,
    Found,
    Metric,
    MetricRow,
    RunWindow,
    Values,
    batches,
    metrics_of,
    share,
)
from simkit.units import KWH_J

if TYPE_CHECKING:
    from simkit.power.facts import BatteryFacts

_FLOWING: Final = (
    "generation_w", "import_w", "discharge_w", "unserved_w", "load_w", "charge_w", "export_w",
    "curtailment_w", "losses_w", "machines_w", "standing_w", "load_renewable_w", "load_battery_w",
    "load_grid_w", "charge_renewable_w", "load_battery_grid_w", "carbon_g_per_s", "cost_per_s",
    "load_carbon_g_per_s", "load_cost_per_s",
)  # fmt: skip
"""Columns of the table "power" that are integrated over time."""
_DIGITS: Final = 1e-12
"""Share of the energies below which their difference is rounding."""
_TICKS: Final = 1e-9
"""Share of a battery's capacity that moves within a few ticks of the grid of times, to which the
instants of being full and empty are rounded."""


@dataclass(frozen=True)
class EnergySums:
    """What flowed within a window."""

    rows: int
    """Rows that overlap the window."""
    amounts: Mapping[str, float]
    """Integral of each of `_FLOWING`: J, g or cost."""
    overhead_j: float
    """What the facility adds to the machines' energy: cooling, conversion."""
    unserved_jobs_j: float
    """Unserved energy of jobs on the machines."""
    unserved_idle_j: float
    """Unserved idle energy of the machines."""
    peak_import_w: float
    """The largest import."""
    stored_j: tuple[float, float]
    """Content of the battery at the window's start and end, in J."""
    battery: BatteryFacts | None

    def j(self, *names: str) -> float:
        """Return a sum of energies in J: ``j("load")`` is that of load_w."""
        return sum(self.amounts[f"{name}_w"] for name in names)

    def kwh(self, *names: str) -> float:
        """Return the same in kWh."""
        return self.j(*names) / KWH_J


def _sum_up(
    power: pl.LazyFrame, battery: BatteryFacts | None, start_s: float, end_s: float
) -> EnergySums:
    """Return what flowed between two times in s, in one pass over the table.

    A row counts for its seconds in the window; within a row the battery's content changes evenly.
    """
    names = ("start_s", "end_s", "pue", "stored_j", *_FLOWING)
    totals = np.zeros(len(_FLOWING) + 3, dtype=np.longdouble)
    rows, peak = 0, 0.0
    last = battery.capacity_j * battery.initial_soc if battery else 0.0
    edges, contents = (start_s, end_s), [last, last]
    for batch in batches(power, names):
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
        for n, powers in enumerate([*(column[name] for name in _FLOWING), *_of_machines(column)]):
            totals[n] += np.add.reduce(powers * seconds, dtype=np.longdouble)
    *amounts, overhead_j, jobs_j, idle_j = (float(total) for total in totals)
    by_name = dict(zip(_FLOWING, amounts, strict=True))
    return EnergySums(
        rows, by_name, overhead_j, jobs_j, idle_j, peak, (contents[0], contents[1]), battery
    )


def _of_machines(column: Mapping[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """Return the facility's overhead, and the unserved power of jobs and of idle machines, in W.

    Every W of the load is served alike.
    """
    machines, load, standing = (column[f"{name}_w"] for name in ("machines", "load", "standing"))
    short = np.divide(column["unserved_w"], load, out=np.zeros_like(load), where=load > 0)
    return (column["pue"] - 1.0) * machines, short * (machines - standing), short * standing


def energy_metrics(
    power: pl.LazyFrame, battery: BatteryFacts | None, window: RunWindow
) -> list[Metric]:
    """Return the metrics of a site over the window's stretch of time.

    `power` has the columns of `records.POWER`, by ascending time.
    """
    sums = _sum_up(power, battery, window.start_s, window.end_s)
    known = () if battery is None else ("battery",)
    return metrics_of(ENERGY_METRICS, sums, window, known=known)


def _above(energy_j: float, least_j: float) -> float:
    """Return an energy in kWh; 0 unless its size is above `least_j`."""
    return energy_j / KWH_J if abs(energy_j) > least_j else 0.0


def _load(sums: EnergySums) -> Values:
    machines, overhead = sums.kwh("machines"), sums.overhead_j / KWH_J
    load, idle = sums.kwh("load"), sums.kwh("standing")
    return {
        "value": load,
        "machines": machines,
        "idle": idle,
        "jobs": machines - idle,
        "overhead": overhead,
        "critical": load - machines - overhead,
    }


def _renewable_fraction(sums: EnergySums) -> float | None:
    renewable = sums.j("load_renewable", "load_battery") - sums.j("load_battery_grid")
    return share(renewable, sums.j("load_renewable", "load_battery", "load_grid"))


def _battery(sums: EnergySums) -> Values:
    assert sums.battery is not None
    entered, left = _through(sums)
    converted = sums.j("charge") - entered + left - sums.j("discharge")
    before, after = sums.stored_j
    leaked = entered - left - (after - before)
    capacity_j = sums.battery.capacity_j
    return {
        "charge": sums.kwh("charge"),
        "discharge": sums.kwh("discharge"),
        "conversion": converted / KWH_J,
        "self_discharge": _above(leaked, _DIGITS * (entered + left + capacity_j)),
        "stored": _above(after - before, _TICKS * capacity_j),
    }


def _through(sums: EnergySums) -> tuple[float, float]:
    """Return the energy in J that came into the battery's content, and that left it."""
    assert sums.battery is not None
    entered = sums.j("charge") * sums.battery.charge_efficiency
    return entered, sums.j("discharge") / sums.battery.discharge_efficiency


def _full_cycles(sums: EnergySums) -> float:
    assert sums.battery is not None
    return sum(_through(sums)) / (2.0 * sums.battery.capacity_j)


def _row(
    name: str,
    unit: str,
    formula: str,
    value: Callable[[EnergySums], Values | float | None],
    **facts: Any,
) -> MetricRow[EnergySums]:
    """Return a row over the window of time, which counts rows of the table "power"."""
    return MetricRow(
        name,
        unit,
        f"{formula}; count: rows",
        lambda sums: Found(value(sums), sums.rows),
        "time",
        **facts,
    )


ENERGY_METRICS: Final[tuple[MetricRow[EnergySums], ...]] = (
    _row(
        "load_kwh",
        "kWh",
        "energy wanted, served or not: integral of load_w; machines: of machines_w; idle: of "
        "standing_w, what machines draw by themselves; jobs: machines - idle; overhead: of "
        "(pue - 1) * machines_w; critical: value - machines - overhead",
        _load,
        shown={"report": MAIN},
    ),
    _row(
        "served_kwh",
        "kWh",
        "energy that served load and losses, by source: integrals of load_renewable_w, "
        "load_battery_w and load_grid_w; value: their sum",
        lambda sums: {
            "value": sums.kwh("load_renewable", "load_battery", "load_grid"),
            "renewable": sums.kwh("load_renewable"),
            "battery": sums.kwh("load_battery"),
            "grid": sums.kwh("load_grid"),
        },
        better="high",
    ),
    _row(
        "unserved_kwh",
        "kWh",
        "load for which there was no power: integral of unserved_w; share: of the load; jobs, "
        "idle: that of their part of load_kwh, every W of the load alike: integrals of "
        "unserved_w / load_w * (machines_w - standing_w) and of unserved_w / load_w * "
        "standing_w; load_kwh.jobs - jobs: what the bills of energy.parquet add up to",
        lambda sums: {
            "value": sums.kwh("unserved"),
            "share": share(sums.j("unserved"), sums.j("load")),
            "jobs": sums.unserved_jobs_j / KWH_J,
            "idle": sums.unserved_idle_j / KWH_J,
        },
        better="low",
        shown={"sweep": MAIN, "report": MAIN},
        left_out_rank=7,
    ),
    _row(
        "generation_kwh",
        "kWh",
        "what sun and wind could give: integral of generation_w; used: less curtailment",
        lambda sums: {
            "value": sums.kwh("generation"),
            "used": (sums.j("generation") - sums.j("curtailment")) / KWH_J,
        },
    ),
    _row(
        "curtailment_kwh",
        "kWh",
        "generation that is not used: integral of curtailment_w; share: of generation",
        lambda sums: {
            "value": sums.kwh("curtailment"),
            "share": share(sums.j("curtailment"), sums.j("generation")),
        },
        better="low",
        shown={"report": MAIN},
    ),
    _row(
        "renewable_fraction",
        "1",
        "(load_renewable + load_battery - load_battery_grid) / (load_renewable + load_battery + "
        "load_grid), energies: renewables that served the load, at once or through the battery",
        _renewable_fraction,
        better="high",
        share=True,
        shown={"sweep": MAIN, "tiles": MAIN, "report": MAIN},
    ),
    _row(
        "self_consumption",
        "1",
        "(load_renewable + charge_renewable) / generation, energies: generation used on the site, "
        "not exported",
        lambda sums: share(sums.j("load_renewable", "charge_renewable"), sums.j("generation")),
        better="high",
        share=True,
        shown={"report": MAIN},
    ),
    _row(
        "grid_kwh",
        "kWh",
        "integrals of import_w and export_w",
        lambda sums: {"import": sums.kwh("import"), "export": sums.kwh("export")},
        parts={"import": "low"},
        shown={"sweep": ("import",), "report": ("import",)},
        left_out_rank=3,
    ),
    _row(
        "grid_import_peak_w",
        "W",
        "the most that is imported for some time: max of import_w",
        lambda sums: sums.peak_import_w,
        better="low",
    ),
    _row(
        "carbon_kg",
        "kg CO2e",
        "value: integral of carbon_g_per_s / 1000, import and used generation when they come in; "
        "load: of load_carbon_g_per_s / 1000, what the load's energy carries",
        lambda sums: {
            "value": sums.amounts["carbon_g_per_s"] / 1000.0,
            "load": sums.amounts["load_carbon_g_per_s"] / 1000.0,
        },
        better="low",
        shown={"sweep": MAIN, "tiles": MAIN, "report": MAIN},
    ),
    _row(
        "energy_cost",
        "currency of the prices",
        "value: integral of cost_per_s, import and used generation less what export brings; load: "
        "of load_cost_per_s, what the load's energy carries",
        lambda sums: {"value": sums.amounts["cost_per_s"], "load": sums.amounts["load_cost_per_s"]},
        better="low",
        shown={"sweep": MAIN, "tiles": MAIN, "report": MAIN},
        left_out_rank=8,
    ),
    _row(
        "battery_kwh",
        "kWh",
        "charge, discharge: integrals of charge_w and discharge_w, at its terminals; conversion: "
        "charge * (1 - charge_efficiency) + discharge * (1 / discharge_efficiency - 1); "
        "self_discharge: charge - discharge - conversion - stored; stored: content at the end less "
        "that at the start, 0 within 1e-9 of the capacity",
        _battery,
        needs=("battery",),
    ),
    _row(
        "battery_full_cycles",
        "1",
        "equivalent full cycles: (charge * charge_efficiency + discharge / discharge_efficiency) / "
        "(2 * capacity), energies",
        _full_cycles,
        needs=("battery",),
    ),
)
