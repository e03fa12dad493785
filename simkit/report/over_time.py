"""What a report shows over time: charts, their time axis, and their columns packed for the page.

A chart has the minimum, mean and maximum per time bin. A mean over a bin is an exact integral, and
the minimum and maximum are those of every instant in it: nothing is sampled, so a peak of a second
stays visible in a chart of three years.

Columns of whole numbers and texts are packed, a few bytes a row instead of a line: neighbours in a
column are alike, so each number is stored as its difference from the one before; then all lowest
bytes follow each other, all second bytes, and so on, which gzip packs well. The page undoes this
with a loop, see ``assets/decode.js``.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats
from simkit.dates import is_dated, zone_of
from simkit.power.ledger import COLUMNS
from simkit.results.metric import run_window
from simkit.results.run_folder import Run
from simkit.results.timeline import binned_mean, binned_power, timeline_columns
from simkit.why.rerun import dates_of

_UNITS_S: Final = tuple(10.0**power for power in range(-3, 100))
_MOST_TICKS: Final = 2**31
_MOST_DAYS: Final = 200 * 366
"""Days that are searched for changes of the clock."""


@dataclass(frozen=True)
class Clock:
    """Times of several runs on one axis."""

    start_s: float
    """First submit, on the trace's clock."""
    end_s: float
    """Last end; later than the start."""
    unit_s: float
    """Times are stored as whole numbers of this unit since the start."""
    epoch_s: float | None
    """Unix time of the trace's zero; None: the times have no dates."""
    zone: str
    offsets: tuple[tuple[float, float], ...]
    """Unix time, in s → what the zone's clock is ahead of UTC from then on, in s."""

    @property
    def ticks(self) -> int:
        """The span in units."""
        return max(1, round((self.end_s - self.start_s) / self.unit_s))

    def as_json(self) -> dict[str, Any]:
        """Return what the page needs to write times."""
        return {
            "start": self.start_s, "end": self.end_s, "unit": self.unit_s, "ticks": self.ticks,
            "epoch": self.epoch_s, "zone": self.zone, "offsets": self.offsets,
        }  # fmt: skip


def clock_of(runs: Sequence[Run]) -> Clock | None:
    """Return the clock of some runs; None if no job was ever submitted in any of them."""
    windows = [run_window(run.scan("jobs"), run.scan("timeline")) for run in runs]
    known = [window for window in windows if window is not None]
    if not known:
        return None
    start = min(window.first_submit_s for window in known)
    ends = [window.last_end_s for window in known]
    unfinished = pl.col("status").is_in(["running", "waiting"]).any()
    for run in runs:  # what is unfinished may go on after the last end
        if run.status != "complete" or run.scan("jobs").select(unfinished).collect().item():
            (last,) = run.scan("timeline").select("time_s").max().collect().row(0)
            ends.append(start if last is None else float(last))
    end = max(start + 1.0, *ends)
    unit = next(u for u in _UNITS_S if (end - start) / u < _MOST_TICKS)
    dates = {dates_of(run) for run in runs}
    epoch, name = dates.pop() if len(dates) == 1 else (None, None)
    if epoch is None or not (is_dated(epoch + start) and is_dated(epoch + end)):
        return Clock(start, end, unit, None, "", ())
    zone, name = zone_of(name)
    return Clock(start, end, unit, epoch, name, _offsets(zone, epoch + start, epoch + end))


def _offsets(zone: tzinfo, begin: float, end: float) -> tuple[tuple[float, float], ...]:
    """Return the changes of a zone's clock, found to the minute."""

    def ahead(at: float) -> float:
        offset = datetime.fromtimestamp(at, zone).utcoffset()
        return (offset or timedelta()).total_seconds()

    found = [(begin, ahead(begin))]
    for day in range(min(_MOST_DAYS, int((end - begin) // 86400) + 1)):
        low, high = begin + 86400.0 * day, begin + 86400.0 * (day + 1)
        if ahead(high) == found[-1][1]:
            continue
        while high - low > 1:
            middle = (low + high) / 2
            low, high = (middle, high) if ahead(middle) == found[-1][1] else (low, middle)
        found.append((round(high / 60) * 60.0, ahead(high)))
    return tuple(found)


LARGEST: Final = 2**32 - 1
"""The largest number of a column."""
_LEVEL: Final = 6
"""Level of gzip; higher ones take several times as long for a few per cent."""


class Packed:
    """Named columns, packed one after the other into one gzipped block."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._columns: list[dict[str, Any]] = []

    def numbers(self, name: str, values: npt.ArrayLike) -> None:
        """Add whole numbers from 0 to `LARGEST`, by their differences."""
        given = np.asarray(values, dtype=np.int64)
        assert not len(given) or (given.min() >= 0 and given.max() <= LARGEST), name
        steps = np.diff(given, prepend=0).astype(np.uint32)  # modulo 2**32, as the page adds them
        planes = steps.astype("<u4").view(np.uint8).reshape(-1, 4).T
        self._add(name, "numbers", len(given), planes.tobytes())

    def bytes_of(self, name: str, values: npt.NDArray[np.uint8]) -> None:
        """Add numbers from 0 to 255 as they are."""
        self._add(name, "bytes", values.size, values.tobytes())

    def texts(self, name: str, values: Sequence[str]) -> None:
        """Add texts."""
        self._add(name, "texts", len(values), json.dumps(list(values)).encode())

    def _add(self, name: str, kind: str, count: int, part: bytes) -> None:
        self._parts.append(part)
        self._columns.append({"name": name, "kind": kind, "count": count, "bytes": len(part)})

    def finish(self) -> dict[str, Any]:
        """Return the columns' names, kinds and sizes, and the block as base64 text."""
        block = gzip.compress(b"".join(self._parts), _LEVEL, mtime=0)
        return {"columns": self._columns, "block": b64encode(block).decode()}


def whole(values: Floats, start: float, unit: float, most: int = LARGEST) -> npt.NDArray[np.int64]:
    """Return times as whole numbers of a unit since a start, within 0 and `most`; NaN as 0."""
    ticks = np.nan_to_num((values - start) / unit, nan=0.0, posinf=float(most), neginf=0.0)
    return np.rint(np.clip(ticks, 0, most)).astype(np.int64)


BINS: Final = 4096
_LEVELS: Final = 65_534
"""Steps between the minimum and the maximum of a line; 0 stands for "not known"."""

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
    """Return the minimum and the maximum of a step function in each bin.

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
