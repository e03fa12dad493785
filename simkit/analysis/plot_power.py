"""The picture of a site's power: sources and load, state of charge, and capacity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from simkit.analysis.plot import facts_of
from simkit.analysis.plot_style import (
    COLOURS,
    INK,
    SOFT,
    bin_name,
    drawn_window,
    new_figure,
    save_picture,
    write_title,
)
from simkit.analysis.time_axis import TimeAxis
from simkit.arrays import Floats
from simkit.power.battery import BatteryFacts
from simkit.power.ledger_rows import COLUMNS
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.time_bins import (
    bin_edges,
    bin_length,
    binned_mean,
    binned_power,
    timeline_columns,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Layer(NamedTuple):
    """A layer of the stack: a flow of the table "power", its name and its look."""

    column: str
    name: str
    colour: str
    alpha: float = 1.0
    hatch: str = ""


LAYERS: Final = (
    _Layer("load_renewable_w", "sun and wind", "#7fb069"),
    _Layer("load_battery_w", "battery", COLOURS[0]),
    _Layer("load_grid_w", "grid", "#8b949e"),
    _Layer("unserved_w", "unserved", "#b3261e", 0.75, "xxxx"),
    _Layer("charge_w", "into the battery", COLOURS[0], 0.30),
    _Layer("export_w", "exported", COLOURS[4], 0.45),
    _Layer("curtailment_w", "curtailed", "#7fb069", 0.22, "////"),
)
"""From below; the first four add up to the load, all to what the sources could give."""

_PARTS: Final = 12
"""Points within a bin at which the battery's content is read."""
_MOST_BINS: Final = 1000
"""Enough for the hours of a month."""
_LEGEND_COLUMNS: Final = 4
_UNITS: Final = ((1e9, "GW"), (1e6, "MW"), (1e3, "kW"), (0.0, "W"))


class _Bins(NamedTuple):
    """Equal bins over a run, the last cut at the run's end, and their time axis."""

    edges: Floats
    """(bins + 1,) in s."""
    length_s: float
    axis: TimeAxis

    @property
    def times(self) -> Floats:
        """The edges in the units of the axis."""
        times: Floats = self.axis.values(self.edges)
        return times


def plot_power(run: RunOrFolder, target: str | PathLike[str]) -> Path:
    """Draw the power of a run's site; return the file.

    From above: which source serves the load, and where the rest goes; the battery's state of
    charge; the available capacity, and how much of it is allocated. All are means over bins of a
    familiar length, so that a year fits.

    Args:
        run: a run, or its folder.
        target: the picture, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Raises SimkitError for a run without power or without jobs, without matplotlib, for another file
    type, or a file that cannot be written.
    """
    opened = open_run(run)
    _ = opened.power  # raises RunError if the run has no power
    return save_picture(target, lambda: draw_power(opened))


def draw_power(run: Run) -> Figure:
    """Return the figure of `plot_power`."""
    bins, battery = _bins(run), run.battery
    rows = {name: run.power[name].to_numpy() for name in COLUMNS}
    figure = new_figure()
    heights = (1.9, 1.0) if battery is None else (1.9, 0.8, 1.0)
    panels = list(figure.subplots(len(heights), 1, height_ratios=heights))
    _draw_flows(panels[0], binned_power(rows, bins.edges), bins)
    if battery is not None:
        _draw_battery(panels[1], rows, battery, bins)
        _draw_levels(panels[1], run)
    _draw_capacity(panels[-1], run, bins)
    for axes in panels:
        bins.axis.finish(axes, label=axes is panels[-1])
    write_title(figure, run.name, facts_of(run) + bins.axis.period())
    return figure


def _bins(run: Run) -> _Bins:
    window = drawn_window(run)
    start, end = window.start_s, max(window.end_s, window.start_s + 1.0)
    length = bin_length(end - start, _MOST_BINS)
    edges = bin_edges(start, end, length)
    edges[-1] = end
    # sun and prices may have dates even if the log has none
    site = run.info.get("power") or {}
    dates = {"epoch_s": site.get("epoch_s"), "time_zone": site.get("zone")}
    known = {key: value for key, value in dates.items() if value is not None}
    axis = TimeAxis([Run(run.folder, {**run.info, **known})], (start, end))
    return _Bins(edges, length, axis)


def _draw_flows(axes: Axes, view: Mapping[str, Floats], bins: _Bins) -> None:
    """Stack the flows, with the load as a line across them."""
    load = view["load_w"] + view["losses_w"]
    most = max(float(np.sum([view[layer.column] for layer in LAYERS], axis=0).max()), 1.0)
    per, unit = next((watts, name) for watts, name in _UNITS if most >= watts)
    per = per or 1.0
    below = np.zeros_like(load)
    for layer in LAYERS:
        flow = view[layer.column]
        if not flow.any():
            continue
        axes.stairs(
            (below + flow) / per,
            bins.times,
            baseline=below / per,
            fill=True,
            facecolor=(layer.colour, layer.alpha),
            edgecolor=(layer.colour, 0.8) if layer.hatch else "none",
            hatch=layer.hatch or None,
            linewidth=0,
            label=f"{layer.name} {_energy(flow, bins.edges)}",
        )
        below = below + flow
    axes.stairs(
        load / per,
        bins.times,
        baseline=None,
        color=INK,
        linewidth=1.1,
        label=f"load {_energy(load, bins.edges)}",
    )
    axes.set_ylabel(f"power ({unit})")
    axes.set_ylim(0, 1.04 * most / per)
    name = bin_name(bins.length_s)
    lines = math.ceil(len(axes.get_legend_handles_labels()[1]) / _LEGEND_COLUMNS)
    axes.set_title(
        f"Which source serves the load, {name} means", loc="left", fontsize=10, pad=7 + 14 * lines
    )
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 0.995), ncols=_LEGEND_COLUMNS, fontsize=8.5,
        columnspacing=1.4, handlelength=1.6, borderaxespad=0.2, labelspacing=0.3,
    )  # fmt: skip


def _energy(flow: Floats, edges: Floats) -> str:
    """Return the energy of a mean power over bins as text: ``17.2 MWh``."""
    kwh = float(flow @ np.diff(edges)) / 3.6e6
    for per, unit in ((1e6, "GWh"), (1e3, "MWh"), (1.0, "kWh")):
        if kwh >= per:
            return f"{kwh / per:.3g} {unit}" if kwh < 1e3 * per else f"{kwh / per:,.0f} {unit}"
    return f"{1e3 * kwh:.3g} Wh"


def _draw_battery(
    axes: Axes, rows: Mapping[str, Floats], battery: BatteryFacts, bins: _Bins
) -> None:
    """Draw the mean state of charge of each bin, and its range."""
    times = np.concatenate((rows["start_s"][:1], rows["end_s"]))
    initial_j = battery.capacity_j * battery.initial_soc
    stored = np.concatenate(([initial_j], rows["stored_j"]))
    if not len(rows["end_s"]):
        times, stored = np.zeros(1), stored[:1]
    at = np.linspace(bins.edges[:-1], bins.edges[1:], _PARTS + 1, axis=1)  # (bins, parts + 1)
    soc = 100 * np.interp(at, times, stored) / battery.capacity_j
    axes.stairs(
        soc.max(axis=1), bins.times, baseline=soc.min(axis=1), fill=True,
        color=COLOURS[0], alpha=0.25, linewidth=0,
    )  # fmt: skip
    axes.stairs(soc.mean(axis=1), bins.times, baseline=None, color=COLOURS[0], linewidth=1.0)
    axes.set_ylabel("charge (%)")
    axes.set_ylim(0, 104)
    axes.set_yticks(range(0, 101, 25))


def _draw_levels(axes: Axes, run: Run) -> None:
    """Mark the battery's floor and ceiling, and write the title."""
    section = run.info["scenario"]["power"]["battery"]
    levels = [level for level in (section["floor"], section["ceiling"]) if 0 < level < 1]
    for level in levels:
        axes.axhline(100 * level, color=SOFT, linewidth=0.9, linestyle=":")
    title = f"State of charge of {section['capacity_kwh']:,.10g} kWh; pale: from lowest to highest"
    axes.set_title(title + ("; dotted: limits" if levels else ""), loc="left", fontsize=10)


def _draw_capacity(axes: Axes, run: Run, bins: _Bins) -> None:
    """Draw the available and the allocated capacity."""
    resource = counted_resource(run.resources)
    line, total = timeline_columns(run.scan("timeline"), resource), run.capacity[resource]
    held = binned_mean(line["time_s"], line["allocated"], bins.edges)
    there = binned_mean(line["time_s"], line["capacity"], bins.edges, before=total)
    axes.stairs(there, bins.times, fill=True, color="#d0d7de", alpha=0.6, linewidth=0)
    axes.stairs(held, bins.times, fill=True, color=COLOURS[3], alpha=0.45, linewidth=0)
    axes.stairs(held, bins.times, baseline=None, color=COLOURS[3], linewidth=0.9)
    axes.stairs(there, bins.times, baseline=None, color=INK, linewidth=1.0)
    axes.set_ylabel(resource)
    axes.set_ylim(0, 1.06 * max(total, float(held.max(initial=0.0))))
    limit = run.info["scenario"]["power"].get("supply", {}).get("limit", "none")
    source = "Capacity" if limit == "none" else "Capacity that the power carries"
    axes.set_title(f"{source}; violet: allocated", loc="left", fontsize=10)
