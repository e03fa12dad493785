"""What a run used and had waiting over time, as least, mean and most of equal bins.

A mean over a bin is an exact integral, and the least and the most are those of every instant in it:
nothing is sampled, so a peak of a second stays visible in a chart of three years.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.power.ledger import COLUMNS
from simkit.report.clock import Clock, Packed, clock_of
from simkit.results.run_folder import Run
from simkit.results.timeline import binned_mean, binned_power, timeline_columns

BINS: Final = 4096
_LEVELS: Final = 65_534
"""Steps between the least and the most of a line; 0 stands for "not known"."""

FLOWS: Final = {
    "load_renewable_w": "sun and wind",
    "load_battery_w": "battery",
    "load_grid_w": "grid",
    "unserved_w": "unserved",
    "charge_w": "into the battery",
    "export_w": "exported",
    "curtailment_w": "curtailed",
}
"""Flows of the table "power" that are stacked; the first four add up to the load."""
_SIGNALS: Final = {
    "price_per_kwh": ("Price of imported energy", "per kWh"),
    "carbon_gco2_per_kwh": ("Carbon intensity of imported energy", "g CO₂e/kWh"),
}


class _Line(NamedTuple):
    """A line of a chart, by bin."""

    name: str
    mean: Floats
    low: Floats | None = None
    high: Floats | None = None


def charts_over_time(run: Run, clock: Clock, packed: Packed) -> list[dict[str, Any]]:
    """Return the charts of a run over time; their numbers go into `packed`."""
    edges = np.linspace(clock.start_s, clock.end_s, BINS + 1)
    own = clock_of([run])
    over = edges[:-1] >= (own.end_s if own else clock.start_s)  # bins after the run's end
    charts = [
        *(_utilisation(run, resource, edges) for resource in run.resources),
        _waiting(run, edges),
    ]
    if run.has_power and len(run.power):
        charts += _power(run, edges)
    found = []
    for number, (chart, lines) in enumerate(charts):
        chart["lines"] = [
            _pack(packed, f"t{number}.{place}", _cut(line, over))
            for place, line in enumerate(lines)
        ]
        found.append(chart)
    return found


def _cut(line: _Line, over: npt.NDArray[np.bool_]) -> _Line:
    """Return a line that is not known in some bins."""
    if not over.any():
        return line
    low, high = (
        None if part is None else np.where(over, np.nan, part) for part in (line.low, line.high)
    )
    return _Line(line.name, np.where(over, np.nan, line.mean), low, high)


_Chart = tuple[dict[str, Any], list[_Line]]


def _utilisation(run: Run, resource: str, edges: Floats) -> _Chart:
    """Return what is in use of a resource, and what is there of it, in per cent of its total."""
    line, total = timeline_columns(run.scan("timeline"), resource), run.capacity[resource]
    per = 100.0 / total if total else 0.0
    used = _stepped("in use", line["time_s"], per * line["allocated"], edges, 0.0)
    there = binned_mean(line["time_s"], per * line["capacity"], edges, before=per * total)
    chart = {
        "kind": "use", "title": f"{resource[:1].upper()}{resource[1:]} in use", "unit": "%",
        "resource": resource, "total": total,
    }  # fmt: skip
    return chart, [used, _Line("available", there)]


def _waiting(run: Run, edges: Floats) -> _Chart:
    line = timeline_columns(run.scan("timeline"), run.resources[0])
    title = "Tasks waiting"
    return {"kind": "queue", "title": title, "unit": "tasks"}, [
        _stepped("waiting", line["time_s"], line["waiting"], edges, 0.0)
    ]


def _stepped(name: str, time: Floats, values: Floats, edges: Floats, before: float) -> _Line:
    low, high = binned_extremes(time, values, edges, before)
    return _Line(name, binned_mean(time, values, edges, before), low, high)


def binned_extremes(
    time_s: Floats, values: Floats, edges: Floats, before: float = 0.0
) -> tuple[Floats, Floats]:
    """Return the least and the most of a step function in each bin.

    Values that last for no time do not count.

    Args:
        time_s: (n,) ascending times in s; a value holds from its time to the next.
        values: (n,) values.
        edges: (bins + 1,) edges of the bins, in s.
        before: the value before the first time.
    """
    lasting = np.append(np.diff(time_s) > 0, True)[: len(time_s)]
    time, held = time_s[lasting], np.concatenate(([before], values[lasting]))
    points = np.union1d(edges, time[(time > edges[0]) & (time < edges[-1])])
    at = held[np.searchsorted(time, points[:-1], side="right")]
    begin = np.searchsorted(points, edges[:-1])
    return np.minimum.reduceat(at, begin), np.maximum.reduceat(at, begin)


def _power(run: Run, edges: Floats) -> list[_Chart]:
    """Return the flows of a site, the charge of its battery, its prices and carbon intensity."""
    rows = {name: run.power[name].to_numpy() for name in COLUMNS}
    view = binned_power(rows, edges)
    flows = [_Line(name, view[column]) for column, name in FLOWS.items() if view[column].any()]
    load = _Line("load", view["load_w"] + view["losses_w"])
    charts: list[_Chart] = [
        ({"kind": "power", "title": "Power, and where it comes from", "unit": "W"}, [*flows, load])
    ]
    if (battery := run.battery) is not None and battery.capacity_j > 0:
        title = f"Charge of the battery ({battery.capacity_j / 3.6e6:,.6g} kWh)"
        initial = 100 * battery.initial_soc
        charts.append(
            (
                {"kind": "charge", "title": title, "unit": "%"},
                [_charge(rows, 100 / battery.capacity_j, initial, edges)],
            )
        )
    for column, (title, unit) in _SIGNALS.items():
        known = view[column][np.isfinite(view[column])]
        if len(known) and known.any():
            apart = float(np.ptp(known)) > 1e-9 * float(np.abs(known).max())  # means are rounded
            constant = None if apart else float(known[0])
            chart = {"kind": "signal", "title": title, "unit": unit, "constant": constant}
            charts.append((chart, [_Line(title, view[column])]))
    return charts


def _charge(rows: Mapping[str, Floats], per: float, initial: float, edges: Floats) -> _Line:
    """Return the state of charge in per cent; within a row it changes evenly."""
    times = np.concatenate((rows["start_s"][:1], rows["end_s"]))
    held = np.concatenate(([initial], per * rows["stored_j"]))
    points = np.union1d(edges, times[(times > edges[0]) & (times < edges[-1])])
    at = np.interp(points, times, held)
    begin = np.searchsorted(points, edges[:-1])
    area = np.add.reduceat((at[1:] + at[:-1]) / 2 * np.diff(points), begin)
    low, high = np.minimum(at[1:], at[:-1]), np.maximum(at[1:], at[:-1])
    return _Line(
        "charge",
        area / np.diff(edges),
        np.minimum.reduceat(low, begin),
        np.maximum.reduceat(high, begin),
    )


def _pack(packed: Packed, name: str, line: _Line) -> dict[str, Any]:
    """Store a line in `_LEVELS` steps; return its name and how to read it."""
    parts = {"mean": line.mean, "low": line.low, "high": line.high}
    given = {part: values for part, values in parts.items() if values is not None}
    every = np.concatenate(list(given.values()))
    known = every[np.isfinite(every)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    step = (high - low) / _LEVELS
    for part, values in given.items():
        levels = np.where(np.isfinite(values), 1 + np.rint((values - low) / (step or 1.0)), 0)
        packed.numbers(f"{name}.{part}", levels)
    return {"name": line.name, "key": name, "low": low, "step": step, "parts": list(given)}
