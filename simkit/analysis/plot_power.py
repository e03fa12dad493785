"""Panels of a site's power: what the sources give, what serves the load, battery, price, carbon."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from simkit.analysis.plot_panels import Bins, Look, Quantity, draw_line, draw_panels
from simkit.analysis.plot_style import (
    ALARM,
    COLOURS,
    GREY,
    INK,
    OF_SOURCES,
    SOFT,
    SUN,
    WIND,
    explain,
    finished,
    plain_numbers,
)
from simkit.arrays import Floats
from simkit.power.ledger import COLUMNS
from simkit.power.site import Source
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.timeline import binned_mean, binned_power, timeline_columns
from simkit.scenario.power import sources_again
from simkit.text import printable
from simkit.workload.workload import Span

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Layer(NamedTuple):
    """A layer of the stack: a flow of the table "power", its name and its look."""

    column: str
    name: str
    colour: str
    alpha: float = 1.0
    hatch: str = ""


_MIXED: Final = COLOURS[2]
"""Colour of sun and wind together."""
LAYERS: Final = (
    _Layer("load_renewable_w", "", _MIXED, 0.85),
    _Layer("load_battery_w", "battery", COLOURS[0]),
    _Layer("load_grid_w", "grid", GREY),
    _Layer("unserved_w", "unserved", ALARM, 0.75, "xxxx"),
    _Layer("charge_w", "into the battery", COLOURS[0], 0.30),
    _Layer("export_w", "exported", COLOURS[3], 0.55),
    _Layer("curtailment_w", "curtailed", _MIXED, 0.18, "////"),
)
"""From below; the first four add up to the load, all to what the sources could give. The first has
the names of the sources."""
_SPARE: Final = ("export_w", "curtailment_w")
"""What must not crush the load: where these are much larger, the picture is cut off above."""
_MOST_SPARE: Final = 2.2
"""Largest ratio of supply to use that is drawn; above, the stack is cut off at `_CUT` times use."""
_CUT: Final = 1.5
_LONGEST_NAMES: Final = 24
_PARTS: Final = 12
"""Points within a bin at which the battery's content is read."""
_UNITS: Final = ((1e9, "GW"), (1e6, "MW"), (1e3, "kW"), (0.0, "W"))


def plot_power(run: RunOrFolder, target: str | PathLike[str] | None = None) -> Figure:
    """Draw the power of a run's site.

    From above: what each source gives; what serves the load, and where the rest goes; the battery's
    state of charge; price and carbon intensity of the grid; the available capacity, and how much of
    it is allocated. All are means over bins of a familiar length, so that a year fits.

    Args:
        run: a run, or its folder.
        target: a picture to write, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Returns the matplotlib figure.

    Raises SimkitError for a run without power or without jobs, without matplotlib, for another file
    type, or a file that cannot be written.
    """
    opened = open_run(run)
    _ = opened.power  # raises RunError if the run has no power
    return finished(lambda: draw_power(opened), target)


def draw_power(run: Run) -> Figure:
    """Return the figure of `plot_power`."""
    return draw_panels([run], [*power_quantities([run]), Capacity(run)])


def power_quantities(runs: Sequence[Run]) -> list[Quantity]:
    """Return the quantities of the runs' power that say something, all runs having power."""
    watts, unit = _unit(runs)
    sources = {id(run): _sources(run) for run in runs}
    found: list[Quantity] = []
    if all(len(each) > 1 for each in sources.values()):
        found.append(Generation(runs, sources, watts, unit))
    found.append(Served(watts, unit))
    if any(run.battery is not None for run in runs):
        found.append(Charge(runs))
    for column, title, label in _PRICES:
        if any((run.power[column] != 0).any() for run in runs):
            found.append(OfTheGrid(column, title, label))
    return found


_PRICES: Final = (
    ("price_per_kwh", "Price of the grid's energy", "per kWh"),
    ("carbon_gco2_per_kwh", "Carbon intensity of the grid", "gCO₂/kWh"),
)


def _unit(runs: Sequence[Run]) -> tuple[float, str]:
    """Return the W of the unit in which the loads are readable, and its name."""
    most = 1.0
    for run in runs:
        used = run.power.select("load_w", "losses_w", "charge_w").sum_horizontal().max()
        most = max(most, float(used or 0.0))  # type: ignore[arg-type]
    watts, unit = next((watts, name) for watts, name in _UNITS if most >= watts)
    return watts or 1.0, unit


def _sources(run: Run) -> tuple[Source, ...]:
    """Return the sources of a run, read again; empty if that cannot be done."""
    if not len(run.power):
        return ()
    span = Span(float(run.power["start_s"][0]), float(run.power["end_s"][-1]))
    return sources_again(run.info, span)


def _rows(run: Run) -> Mapping[str, Floats]:
    return {name: run.power[name].to_numpy() for name in COLUMNS}


def _source_names(run: Run) -> list[str]:
    section = (run.info.get("scenario", {}).get("power") or {}).get("sources")
    return [printable(str(name)) for name in section] if isinstance(section, Mapping) else []


def _site_key(run: Run, part: str) -> str:
    """Return what two runs have in common if a part of their sites has the same signals."""
    section: Any = run.info.get("scenario", {}).get("power") or {}
    facts: Any = run.info.get("power") or {}
    known = [section.get(part), section.get("align"), facts.get("epoch_s"), facts.get("zone")]
    text = json.dumps([*known, run.info.get("epoch_s")], sort_keys=True, default=str)
    if "times_load" in text:
        text += f" {facts.get('load_w')}"
    return f"{text} {run.seed}" if '"levels"' in text else text  # levels are random


def source_colours(names: Sequence[str]) -> list[str]:
    """Return a colour for each source; sun and wind have theirs, whatever else is there."""
    found, others = [], 0
    for name in names:
        low = name.lower()
        usual = (
            SUN if any(part in low for part in ("sun", "solar", "pv"))
            else WIND if "wind" in low
            else None
        )  # fmt: skip
        if usual is None or usual in found:
            usual, others = OF_SOURCES[others % len(OF_SOURCES)], others + 1
        found.append(usual)
    return found


class _Stack(Quantity):
    """Layers of power over each other; each run has its own panel, and all have one scale."""

    apart = True

    def __init__(self, watts: float, unit: str) -> None:
        self.watts, self.label = watts, f"power ({unit})"
        self.inches = 1.7
        self._top = 0.0

    def _draw(
        self, axes: Axes, layers: Sequence[tuple[_Layer, Floats]], edges: Floats, bins: Bins
    ) -> list[tuple[Artist, str]]:
        times, below = bins.axis.values(edges), np.zeros(len(edges) - 1)
        names: list[tuple[Artist, str]] = []
        for layer, flow in layers:
            if not flow.any():
                continue
            area = axes.stairs(
                (below + flow) / self.watts, times, baseline=below / self.watts, fill=True,
                facecolor=(layer.colour, layer.alpha),
                edgecolor=(layer.colour, 0.8) if layer.hatch else "none",
                hatch=layer.hatch or None, linewidth=0,
            )  # fmt: skip
            names.append((area, layer.name))
            below = below + flow
        return names

    def scale(self, axes: Axes, *, small: bool) -> None:
        from matplotlib.ticker import MaxNLocator

        axes.set_ylim(0, 1.04 * max(self._top, 1e-9))
        axes.yaxis.set_major_locator(MaxNLocator(3 if small else 5, steps=[1, 2, 2.5, 5, 10]))
        plain_numbers(axes.yaxis)

    def legend(self, axes: Axes, names: Sequence[tuple[Artist, str]]) -> None:
        """Explain the layers in lines of their own below the title."""
        explain(axes, names, own_lines=True)


class Generation(_Stack):
    """What each source could give, with the load as a line across it."""

    def __init__(
        self,
        runs: Sequence[Run],
        sources: Mapping[int, Sequence[Source]],
        watts: float,
        unit: str,
    ) -> None:
        super().__init__(watts, unit)
        self.title = "What the sources could give"
        self._sources = sources
        self.once = len({self.same(run) for run in runs}) == 1

    def same(self, run: Run) -> str:
        return _site_key(run, "sources")

    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        edges, sources = bins.edges(run), self._sources[id(run)]
        rows = _rows(run)
        inside = np.clip(edges, rows["start_s"][0], rows["end_s"][-1])
        names = [source.name for source in sources]
        layers, total = [], np.zeros(len(edges) - 1)
        for source, colour in zip(sources, source_colours(names), strict=True):
            flow = np.array([
                source.power.integral(first, last) if last > first else 0.0
                for first, last in zip(inside[:-1].tolist(), inside[1:].tolist(), strict=True)
            ]) / np.diff(edges)  # fmt: skip
            name = printable(source.name) + _amount(flow, edges, look)
            layers.append((_Layer("", name, colour, 0.9), flow))
            total = total + flow
        found = self._draw(axes, layers, edges, bins)
        self._top = max(self._top, float(total.max(initial=0.0)) / self.watts)
        return found


class Served(_Stack):
    """What serves the load, and where the rest goes."""

    def __init__(self, watts: float, unit: str) -> None:
        super().__init__(watts, unit)
        self.title = "What serves the load"
        self.inches = 1.9

    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        edges = bins.edges(run)
        view = binned_power(_rows(run), edges)
        load = view["load_w"] + view["losses_w"]
        top, cut = _top(view)
        self._top = max(self._top, top / self.watts)
        layers = [
            (_named(layer, run, view, edges, look, cut=cut), view[layer.column]) for layer in LAYERS
        ]
        names = self._draw(axes, layers, edges, bins)
        line = axes.stairs(
            load / self.watts, bins.axis.values(edges), baseline=None, color=INK, linewidth=1.1
        )
        return [*names, (line, f"load{_amount(load, edges, look)}")]


def _top(view: Mapping[str, Floats]) -> tuple[float, bool]:
    """Return how many W the picture must hold, and whether that cuts off what is spare."""
    used = [view[layer.column] for layer in LAYERS if layer.column not in _SPARE]
    spare = [view[name] for name in _SPARE]
    most = float(np.sum([*used, *spare], axis=0).max(initial=0.0))
    needed = float(np.sum(used, axis=0).max(initial=0.0))
    if needed > 0 and most > _MOST_SPARE * needed:
        return _CUT * needed, True
    return most, False


def _named(
    layer: _Layer, run: Run, view: Mapping[str, Floats], edges: Floats, look: Look, *, cut: bool
) -> _Layer:
    """Return a layer with its name and its energy; and how far it goes, if that is cut off."""
    flow, sources = view[layer.column], _source_names(run)
    name = layer.name or " and ".join(sources)
    if not name or len(name) > _LONGEST_NAMES:
        name = "sources"
    text = name + _amount(flow, edges, look)
    if cut and layer.column in _SPARE:
        most = "" if look.many else f"up to {_power(float(flow.max(initial=0.0)))}, "
        text += f" ({most}cut off)"
    colour = layer.colour
    if colour == _MIXED and len(sources) == 1:
        colour = source_colours(sources)[0]
    return layer._replace(name=text, colour=colour)


def _amount(flow: Floats, edges: Floats, look: Look) -> str:
    """Return the energy of a flow after its name; none where a legend is about many runs."""
    return "" if look.many else f" {_energy(flow, edges)}"


def _power(watts: float) -> str:
    """Return a mean power as text: ``1.23 MW``."""
    per, unit = next((per, name) for per, name in _UNITS if watts >= per)
    return f"{watts / (per or 1.0):,.3g} {unit}"


def _energy(flow: Floats, edges: Floats) -> str:
    """Return the energy of a mean power over bins as text: ``17.2 MWh``."""
    kwh = float(flow @ np.diff(edges)) / 3.6e6
    for per, unit in ((1e6, "GWh"), (1e3, "MWh"), (1.0, "kWh")):
        if kwh >= per:
            return f"{kwh / per:.3g} {unit}" if kwh < 1e3 * per else f"{kwh / per:,.0f} {unit}"
    return f"{1e3 * kwh:.3g} Wh"


class Charge(Quantity):
    """The battery's state of charge, as the mean of each bin and its range."""

    def __init__(self, runs: Sequence[Run]) -> None:
        sizes = {run.battery.capacity_j / 3.6e6 for run in runs if run.battery is not None}
        size = f" of {sizes.pop():,.10g} kWh" if len(sizes) == 1 else ""
        self.title, self.label, self.inches = f"State of charge{size}", "charge (%)", 0.95

    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        if run.battery is None:
            return []
        rows, edges = _rows(run), bins.edges(run)
        times = np.concatenate((rows["start_s"][:1], rows["end_s"]))
        stored = np.concatenate(([run.stored_at_start_j], rows["stored_j"]))
        if not len(rows["end_s"]):
            times, stored = np.zeros(1), stored[:1]
        at = np.linspace(edges[:-1], edges[1:], _PARTS + 1, axis=1)  # (bins, parts + 1)
        soc = 100 * np.interp(at, times, stored) / run.battery.capacity_j
        names: list[tuple[Artist, str]] = []
        if look.alone:
            band = axes.stairs(
                soc.max(axis=1), bins.axis.values(edges), baseline=soc.min(axis=1), fill=True,
                color=look.colour, alpha=0.25, linewidth=0,
            )  # fmt: skip
            names.append((band, "lowest to highest"))
        line = draw_line(axes, soc.mean(axis=1), edges, bins, Look(look.colour, look.dashes, False))
        return [(line, "mean"), *names, *_limits(axes, run)]

    def scale(self, axes: Axes, *, small: bool) -> None:
        axes.set_ylim(0, 104)
        axes.set_yticks(range(0, 101, 50))


def _limits(axes: Axes, run: Run) -> list[tuple[Artist, str]]:
    """Mark the battery's floor and ceiling."""
    section = run.info["scenario"]["power"]["battery"]
    levels = [level for level in (section["floor"], section["ceiling"]) if 0 < level < 1]
    lines: list[Artist] = [
        axes.axhline(100 * level, color=SOFT, linewidth=0.9, linestyle=":") for level in levels
    ]
    return [(line, "limits") for line in lines[:1]]


class OfTheGrid(Quantity):
    """The price or the carbon intensity of the grid's energy."""

    once = True

    def __init__(self, column: str, title: str, label: str) -> None:
        self.column, self.title, self.label, self.inches = column, title, label, 0.85
        self._drawn = 0

    def same(self, run: Run) -> str:
        return _site_key(run, "grid")

    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        edges = bins.edges(run)
        values = binned_power(_rows(run), edges)[self.column]
        plain = Look(INK if self._drawn == 0 else look.colour, look.dashes, False)
        self._drawn += 1
        draw_line(axes, values, edges, bins, plain)
        return []

    def scale(self, axes: Axes, *, small: bool) -> None:
        from matplotlib.ticker import MaxNLocator

        low, high = axes.dataLim.y0, axes.dataLim.y1
        room = 0.08 * max(high - min(low, 0.0), 1e-9)
        axes.set_ylim(min(low - room, 0.0) if low < 0 else 0.0, high + room)
        axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
        plain_numbers(axes.yaxis)


class Capacity(Quantity):
    """The capacity that is there, and how much of it is allocated."""

    def __init__(self, run: Run) -> None:
        supply = run.info["scenario"]["power"].get("supply") or {}
        limited = supply.get("limit", "none") != "none"
        self.title = "Capacity that the power carries" if limited else "Capacity"
        self.resource = counted_resource(run.resources)
        self.label, self.inches = printable(self.resource), 1.5
        self._top = 1.0

    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        line, total = timeline_columns(run.scan("timeline"), self.resource), run.capacity
        edges, of_all = bins.edges(run), total[self.resource]
        held = binned_mean(line["time_s"], line["allocated"], edges)
        there = binned_mean(line["time_s"], line["capacity"], edges, before=of_all)
        times = bins.axis.values(edges)
        grey = axes.stairs(there, times, fill=True, color="#d0d7de", alpha=0.6, linewidth=0)
        axes.stairs(there, times, baseline=None, color=INK, linewidth=1.0)
        taken = axes.stairs(held, times, fill=True, color=look.colour, alpha=0.5, linewidth=0)
        axes.stairs(held, times, baseline=None, color=look.colour, linewidth=0.9)
        self._top = max(self._top, of_all, float(held.max(initial=0.0)))
        return [(grey, "available"), (taken, "allocated")]

    def scale(self, axes: Axes, *, small: bool) -> None:
        axes.set_ylim(0, 1.06 * self._top)
        plain_numbers(axes.yaxis)
