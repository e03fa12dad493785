"""Pictures of runs: utilisation, queue and power over time, and how long jobs waited.

`plot_groups` draws waits and slowdowns of each user, queue, size, ….
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from simkit.analysis.plot_panels import Below, Bins, Look, Quantity, draw_line, draw_panels
from simkit.analysis.plot_power import plot_power, power_quantities
from simkit.analysis.plot_style import (
    COLOURS,
    HEIGHT,
    INK,
    SOFT,
    explain,
    finished,
    lie_down,
    look_of,
    name_bars,
    new_figure,
    over_bars,
    plain_numbers,
    time_unit,
    title_inches,
    write_head,
)
from simkit.errors import SimkitError
from simkit.results.all_metrics import shown_on
from simkit.results.group_metrics import By, in_order
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.timeline import binned_mean, timeline_columns
from simkit.text import counted, printable
from simkit.units import format_duration

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WAITS: Final = 2.75
"""Height of the distribution of waits with its labels, in inches."""
_WAIT_TICKS: Final = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 21600.0: "6 h",
    86400.0: "1 d", 604800.0: "1 wk", 2592000.0: "30 d", 31536000.0: "1 yr",
}  # fmt: skip
_LEGEND_COLUMNS: Final = 2


def plot_run(run: RunOrFolder, target: str | PathLike[str] | None = None) -> Figure:
    """Draw a run: each resource's utilisation, queue length and the distribution of waits.

    A run on power also shows what the sources give and what serves the load, the battery's state of
    charge, the price and the carbon intensity of the grid.

    Args:
        run: a run, or its folder.
        target: a picture to write, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Returns the matplotlib figure.

    Raises SimkitError without matplotlib, for another file type, a run without jobs, or a file
    that cannot be written.
    """
    return plot_compare([run], target)


def plot_compare(runs: Sequence[RunOrFolder], target: str | PathLike[str] | None = None) -> Figure:
    """Draw several runs into one picture, a colour each; otherwise like `plot_run`.

    Two runs share their panels; each of more has panels of its own, with the same scales.
    """
    if not runs:
        raise SimkitError("plot: no run is given; name at least one run folder")
    opened = [open_run(run) for run in runs]
    return finished(lambda: draw_runs(opened), target)


def plot_view(
    runs: Sequence[Run],
    target: str | PathLike[str] | None = None,
    *,
    by: By | None = None,
    kind: Literal["jobs", "power"] = "jobs",
) -> Figure:
    """Return the picture of `Run.plot` and `simkit plot`.

    Raises SimkitError for a kind that does not go with the other arguments.
    """
    if kind not in ("jobs", "power"):
        raise SimkitError(f"plot: kind {kind!r}; it is jobs or power")
    if kind == "power" and (by is not None or len(runs) > 1):
        raise SimkitError("plot: a picture of power shows one run, without groups")
    if by is not None:
        return plot_groups(runs, by, target)
    return plot_power(runs[0], target) if kind == "power" else plot_compare(runs, target)


def draw_runs(runs: Sequence[Run]) -> Figure:
    """Return the figure of `plot_compare`."""
    quantities = power_quantities(runs) if all(run.has_power for run in runs) else []
    resources = list(dict.fromkeys(name for run in runs for name in run.resources))
    tall = 1.75 if len(resources) == 1 else 1.15
    quantities += [*(Usage(resource, tall) for resource in resources), Waiting()]
    return draw_panels(runs, quantities, Below(lambda axes: _waits(axes, runs), _WAITS))


class Usage(Quantity):
    """How much of a resource is allocated, and how much there is."""

    def __init__(self, resource: str, inches: float) -> None:
        self.resource = resource
        self.title = f"Utilisation: {printable(resource)}"
        self.label = "in use (%)"
        self.inches = inches

    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        if self.resource not in run.resources:
            return []
        line, edges = timeline_columns(run.scan("timeline"), self.resource), bins.edges(run)
        total = run.capacity[self.resource] or 1.0
        held = binned_mean(line["time_s"], line["allocated"], edges)
        offered = binned_mean(line["time_s"], line["capacity"], edges, before=total)
        draw_line(axes, 100 * held / total, edges, bins, look)
        there = axes.stairs(
            100 * offered / total, bins.axis.values(edges), baseline=None, color=INK,
            linewidth=1.0, linestyle="--",
        )  # fmt: skip
        return [(there, "available")]

    def scale(self, axes: Axes, *, small: bool) -> None:
        axes.set_ylim(0, 108)
        axes.set_yticks(range(0, 101, 50 if small or self.inches < 1.4 else 25))


class Waiting(Quantity):
    """How many tasks wait."""

    title, label = "Tasks waiting", "tasks"

    def draw(self, axes: Axes, run: Run, bins: Bins, look: Look) -> list[tuple[Artist, str]]:
        resource = run.resources[0]
        line, edges = timeline_columns(run.scan("timeline"), resource), bins.edges(run)
        draw_line(axes, binned_mean(line["time_s"], line["waiting"], edges), edges, bins, look)
        return []

    def scale(self, axes: Axes, *, small: bool) -> None:
        from matplotlib.ticker import MaxNLocator

        axes.set_ylim(0, max(axes.get_ylim()[1], 1.0))
        plain_numbers(axes.yaxis)
        axes.yaxis.set_major_locator(MaxNLocator(3 if small else 4, steps=[1, 2, 2.5, 5, 10]))


def _waits(axes: Axes, runs: Sequence[Run]) -> None:
    """Draw the distributions of waits of all runs."""
    looks = [Look(*look_of(row, len(runs))) for row in range(len(runs))]
    longest = [draw_waits(axes, run, look) for run, look in zip(runs, looks, strict=True)]
    finish_waits(axes, max(longest))


def draw_waits(axes: Axes, run: Run, look: Look) -> float:
    """Draw the cumulative distribution of waits; return the longest, in s.

    Waits below 1 s are at the left edge.
    """
    waits = run.scan("jobs").select("wait_time_s").collect()["wait_time_s"]
    values = np.sort(waits.drop_nulls().to_numpy())
    if not len(values):
        axes.plot([], [], color=look.colour, linestyle=look.dashes, label="no job started")
        return 0.0
    shares = np.arange(1, len(values) + 1) / len(values)
    keep = np.unique(
        np.searchsorted(values, np.geomspace(1.0, max(values[-1], 1.0), 1200), "right")
    )
    rows = np.clip(np.concatenate((keep, [len(values)])), 1, None) - 1
    x = np.concatenate(([1.0], np.maximum(values[rows], 1.0)))
    below = np.searchsorted(values, 1.0, "right") / len(values)
    y = 100 * np.concatenate(([below], shares[rows]))
    mean, never = float(values.mean()), len(waits) - len(values)
    label = f"mean {format_duration(mean)} (dotted), longest {format_duration(float(values[-1]))}"
    if never:
        label += f"; {counted(never, 'job')} never started"
    axes.step(
        [*x, 1e12], [*y, 100.0], where="post", color=look.colour, linestyle=look.dashes,
        linewidth=1.6, label=label,
    )  # fmt: skip
    if mean >= 1:
        axes.axvline(mean, color=look.colour, linewidth=1.0, linestyle=":")
    return float(values[-1])


def finish_waits(axes: Axes, longest_s: float) -> None:
    """Set scales and labels of the distribution of waits."""
    right = 1.3 * max(longest_s, 60.0)
    duration_ticks(axes, 1.0, right)
    axes.set_ylim(0, 102)
    axes.set_yticks(range(0, 101, 25))
    axes.set_xlabel("waited at most (logarithmic; waits below 1 s at the left edge)")
    axes.set_ylabel("jobs that started (%)")
    lines = math.ceil(len(axes.get_legend_handles_labels()[1]) / _LEGEND_COLUMNS)
    axes.set_title("Wait time, cumulative", loc="left", fontsize=10, pad=7 + 14 * lines)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 0.995), ncols=_LEGEND_COLUMNS, fontsize=8.5,
        handlelength=1.6, borderaxespad=0.2, labelspacing=0.3,
    )  # fmt: skip


def duration_ticks(axes: Axes, left_s: float, right_s: float) -> None:
    """Give an axis of durations a logarithmic scale with familiar ticks: 1 s, 1 min, 1 h, …."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(left_s, right_s)
    ticks = {at: name for at, name in _WAIT_TICKS.items() if left_s <= at <= right_s}
    axes.set_xticks(list(ticks), labels=list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


MOST: Final = 40
"""Groups that are drawn: of names, those with the most jobs in any run."""
_ROW_INCHES: Final = 0.24


def plot_groups(
    runs: Sequence[RunOrFolder], by: By, target: str | PathLike[str] | None = None
) -> Figure:
    """Draw the mean and the 90th percentile of each group's waits and bounded slowdowns.

    Args:
        runs: at least one run, or its folder; a colour each.
        by: what jobs are grouped by.
        target: a picture to write, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Returns the matplotlib figure.

    Raises SimkitError without matplotlib, for another file type, no run, or a file that cannot be
    written; RunError for an unknown `by`.
    """
    if not runs:
        raise SimkitError("plot: no run is given; name at least one run folder")
    opened = [open_run(run) for run in runs]
    groups = [run.metrics_by(by) for run in opened]
    return finished(lambda: _draw_groups(opened, groups, by), target)


def _draw_groups(runs: Sequence[Run], groups: Sequence[pl.DataFrame], by: By) -> Figure:
    names, left_out = _names(groups, by)
    lie = lie_down(names)
    height = max(HEIGHT, _ROW_INCHES * len(names) * max(1.0, len(runs) / 2)) if lie else HEIGHT
    figure = new_figure(1 - title_inches(len(runs)) / HEIGHT, height=height)
    drawn = shown_on("charts")
    shape = (1, len(drawn)) if lie else (len(drawn), 1)
    panels = figure.subplots(*shape, sharey=lie, squeeze=False).flat
    for axes, (metric, about) in zip(panels, drawn.items(), strict=True):
        title, per = metric.removesuffix("_s").replace("_", " ").capitalize(), 1.0
        if timed := about.unit == "s":
            longest_s = max(float(frame[metric].max() or 0.0) for frame in groups)  # type: ignore[arg-type]
            per, unit = time_unit(longest_s)
            title += f" ({unit})"
        for row, frame in enumerate(groups):
            found = {line[by]: line for line in frame.iter_rows(named=True)}
            rows = [found.get(name, {}) for name in names]
            _bars(axes, rows, metric, per, row, len(runs), lie=lie)
        axes.set_title(title, loc="left", fontsize=10)
        _explain(axes)
        first, numbers = metric == next(iter(drawn)), axes.xaxis if lie else axes.yaxis
        name_bars(axes, names, by if first or not lie else "", lie=lie)
        if not timed:  # slowdowns go from 1 to thousands
            _logarithmic(axes, lie=lie)
        plain_numbers(numbers)
    facts = [f"by {by}", *([f"{left_out:,} more groups not drawn"] if left_out else [])]
    write_head(figure, runs, facts)
    return figure


def _explain(axes: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    mean, high = Patch(color=SOFT, alpha=0.6), Line2D([], [], color=INK, linewidth=1.2)
    explain(axes, [(mean, "mean"), (high, "90th percentile")])


def _logarithmic(axes: Axes, *, lie: bool) -> None:
    (axes.set_xscale if lie else axes.set_yscale)("log")
    high = (axes.get_xlim() if lie else axes.get_ylim())[1]
    (axes.set_xlim if lie else axes.set_ylim)(1.0, max(high, 10.0))


def _names(groups: Sequence[pl.DataFrame], by: By) -> tuple[list[str], int]:
    """Return the groups of all runs that are drawn, in order, and how many are not."""
    jobs = pl.concat(frame.select(by, "jobs") for frame in groups)
    names = in_order(jobs.group_by(by).agg(pl.col("jobs").max()), by)[by].to_list()
    return names[:MOST], max(len(names) - MOST, 0)


def _bars(
    axes: Axes, rows: Sequence[dict[str, float]], metric: str, per: float, run: int, runs: int,
    *, lie: bool,
) -> None:  # fmt: skip
    """Draw one run's bars, beside those of the other runs."""
    width = 0.8 / runs
    places = np.arange(len(rows)) - 0.4 + (run + 0.5) * width
    means, high = (
        np.array([row.get(name) for row in rows], dtype=np.float64) / per  # None becomes NaN
        for name in (metric, f"{metric}.p90")
    )
    ends = places - 0.46 * width, places + 0.46 * width
    (axes.barh if lie else axes.bar)(
        places, means, 0.92 * width, color=COLOURS[run % len(COLOURS)], alpha=0.85
    )
    over_bars(axes.vlines if lie else axes.hlines, high, *ends)
