"""The picture of a comparison: what differs, B - A, in metrics, over time and job by job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.analysis.compare import Comparison, Difference
from simkit.analysis.plot_panels import Bins, common_bins
from simkit.analysis.plot_style import (
    COLOURS,
    GREY,
    HEIGHT,
    INK,
    SOFT,
    explain,
    finished,
    new_figure,
    plain_numbers,
    short_name,
    title_inches,
    write_lines,
    write_title,
)
from simkit.analysis.runs import pair_runs
from simkit.analysis.summary import SIGNS
from simkit.arrays import Floats
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run
from simkit.results.timeline import bin_edges, binned_mean, timeline_columns
from simkit.text import counted
from simkit.units import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BETTER, _WORSE = COLOURS[0], COLOURS[1]
_MOST_GROUPS: Final = 40
_ROW_INCHES: Final = 0.27
_COLUMNS: Final = 10
_FOREST: Final = 7
"""Columns of the grid, and how many of them the points have; the rest is for the numbers."""
_PANEL_INCHES: Final = 1.5
_LABELS: Final = 0.95
_FARTHEST: Final = 300.0
"""Differences in % beyond are drawn at the edge, with an arrow; the number stands beside it."""
_POINTS: Final = 1500
_DURATIONS: Final = {60.0: "1 min", 3600.0: "1 h", 86400.0: "1 d", 604800.0: "1 wk",
                     2592000.0: "30 d", 31536000.0: "1 yr"}  # fmt: skip


def plot_comparison(comparison: Comparison, target: str | PathLike[str] | None = None) -> Figure:
    """Draw a comparison: metrics with intervals, two runs over time, and waits job by job.

    Args:
        comparison: from `compare_runs`.
        target: a picture to write, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Returns the matplotlib figure.

    Raises SimkitError without matplotlib, for another file type, or a file that cannot be written.
    """
    return finished(lambda: _draw(comparison), target)


def _draw(comparison: Comparison) -> Figure:
    whole = [row for row in comparison.differences if row.group is None]
    parts = [whole, *_by_group(comparison)]
    single = len(comparison.runs) == 1
    heights = [max(0.6, _ROW_INCHES * len(rows)) for rows in parts]
    heights += [_PANEL_INCHES] * (3 if single else 1)
    head = title_inches(2)
    figure = new_figure(1 - head / HEIGHT, height=head + sum(heights) + _LABELS * len(heights))
    grid = figure.add_gridspec(len(heights), _COLUMNS, height_ratios=heights)
    for n, rows in enumerate(parts):
        title = "Difference of means" if rows is whole else f"{rows[0].metric}: difference of means"
        axes = figure.add_subplot(grid[n, :_FOREST])
        _forest(axes, rows, title)
        _write_numbers(figure.add_subplot(grid[n, _FOREST:], sharey=axes), rows)
    rest = [figure.add_subplot(grid[n, :]) for n in range(len(parts), len(heights))]
    if single:
        _over_time(rest[0], rest[1], *comparison.runs[0])
    _by_job(rest[-1], comparison)
    facts = ["B - A", *([counted(len(comparison.seeds), "seed")] if not single else [])]
    write_title(figure, "Comparison", facts)
    write_lines(figure, [f"A: {comparison.a}", f"B: {comparison.b}"])
    return figure


def _by_group(comparison: Comparison) -> Iterator[list[Difference]]:
    """Yield the groups of the first metric that has any."""
    grouped = [row for row in comparison.differences if row.group is not None]
    if grouped:
        yield [row for row in grouped if row.metric == grouped[0].metric][:_MOST_GROUPS]


def _forest(axes: Axes, rows: Sequence[Difference], title: str) -> None:
    """Draw a point with its interval for each row."""
    from matplotlib.lines import Line2D

    for place, row in enumerate(rows):
        _difference(axes, place, row)
    axes.axvline(0, color=INK, linewidth=1.0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    names = [short_name(row.group or row.metric, 34) for row in rows]
    axes.set_yticks(range(len(rows)), labels=names)
    axes.grid(visible=False, axis="y")
    _percent_limits(axes)
    levels = {row.interval.level for row in rows if row.interval.low is not None}
    interval = f"; line: {max(levels):.0%} interval" if levels else "; no interval"
    axes.set_xlabel(f"B - A, in % of A{interval}")
    unsure = "not sure, or neither is better" if levels else "no interval"
    marks = {_BETTER: "B better", _WORSE: "B worse", GREY: unsure}
    used = [colour for colour in marks if any(_colour(row) == colour for row in rows)]
    dots = [Line2D([], [], marker="o", linestyle="", color=colour) for colour in used]
    axes.set_title(title, loc="left", fontsize=10)
    explain(axes, [(dot, marks[colour]) for dot, colour in zip(dots, used, strict=True)])


def _difference(axes: Axes, place: int, row: Difference) -> None:
    """Draw a metric's difference in per cent of A, with its interval, if there is such a share."""
    if row.difference is None or not row.mean_a:
        return
    share, colour = 100 / abs(row.mean_a), _colour(row)
    at = share * row.difference
    near = float(np.clip(at, -_FARTHEST, _FARTHEST))
    marker = "o" if near == at else ">" if at > 0 else "<"
    axes.plot([near], [place], marker=marker, color=colour, markersize=5.5, zorder=3)
    bounds = (row.interval.low, row.interval.high)
    if bounds[0] is not None and bounds[1] is not None:
        ends = np.clip(share * np.array(bounds), -_FARTHEST, _FARTHEST)
        axes.plot(ends, [place, place], color=colour, linewidth=1.6)


def _write_numbers(axes: Axes, rows: Sequence[Difference]) -> None:
    """Write the means of A and B beside the points."""
    axes.set_axis_off()
    axes.set_title("mean of A → mean of B", loc="left", fontsize=8.5, color=SOFT)
    for place, row in enumerate(rows):
        text = "no value on one side"
        if row.difference is not None:
            text = f"{quantity(row.mean_a, row.unit)} → {quantity(row.mean_b, row.unit)}"
            text += f" ({100 * row.difference / abs(row.mean_a):+.1f} %)" if row.mean_a else ""
        axes.text(0.0, place, text, va="center", fontsize=8.5)


def _colour(row: Difference) -> str:
    """Return whether B is better for sure, in a colour."""
    sign, low, high = SIGNS[row.direction], row.interval.low, row.interval.high
    if sign == 0 or low is None or high is None or low <= 0 <= high:
        return GREY
    return _BETTER if (low > 0) == (sign > 0) else _WORSE


def _percent_limits(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    low, high = axes.dataLim.x0, axes.dataLim.x1
    most = max(abs(low), abs(high)) if np.isfinite([low, high]).all() else 0.0
    most = 1.08 * max(most, 1.0)
    axes.set_xlim(-most, most)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    plain_numbers(axes.xaxis)


def _over_time(queue: Axes, usage: Axes, a: Run, b: Run) -> None:
    """Draw how many more tasks wait in B, and how much more is in use."""
    bins = common_bins([a, b])
    resource = counted_resource(a.resources)
    end = bins.axis.end_s
    edges = bin_edges(bins.axis.start_s, end, bins.length_s)
    edges[-1] = max(end, edges[-2] + 1.0)
    found = [_means(run, resource, edges) for run in (a, b)]
    for axes, n, title, label in (
        (queue, 0, "Tasks waiting, B - A", "tasks"),
        (usage, 1, f"Utilisation of {resource}, B - A", "percentage points"),
    ):
        _signed(axes, found[1][n] - found[0][n], edges, bins)
        axes.set_title(f"{title}, {bins.name} means", loc="left", fontsize=10)
        axes.set_ylabel(label)
        bins.axis.finish(axes, label=axes is usage)
        axes.tick_params(labelbottom=axes is usage)


def _means(run: Run, resource: str, edges: Floats) -> tuple[Floats, Floats]:
    """Return the means of tasks waiting and of the utilisation in % over bins."""
    line = timeline_columns(run.scan("timeline"), resource)
    total = run.capacity[resource] or 1.0
    held = binned_mean(line["time_s"], line["allocated"], edges)
    return binned_mean(line["time_s"], line["waiting"], edges), 100 * held / total


def _signed(axes: Axes, values: Floats, edges: Floats, bins: Bins) -> None:
    """Draw what is above 0 and what is below in colours of their own."""
    from matplotlib.patches import Patch

    times = bins.axis.values(edges)
    for part, colour in ((np.maximum(values, 0), COLOURS[4]), (np.minimum(values, 0), COLOURS[3])):
        axes.stairs(part, times, fill=True, color=colour, alpha=0.75, linewidth=0)
    axes.stairs(values, times, baseline=None, color=INK, linewidth=0.8)
    axes.axhline(0, color=INK, linewidth=0.8)
    most = 1.1 * max(float(np.abs(values).max(initial=0.0)), 1.0)
    axes.set_ylim(-most, most)
    plain_numbers(axes.yaxis)
    marks = [Patch(color=colour, alpha=0.75) for colour in (COLOURS[4], COLOURS[3])]
    explain(axes, list(zip(marks, ("more in B", "less in B"), strict=True)))


def _by_job(axes: Axes, comparison: Comparison) -> None:
    """Draw the cumulative distribution of the differences of waits, job by job."""
    apart = _wait_differences(comparison)
    axes.set_ylabel("jobs (%)")
    if not len(apart):
        axes.set_title("No job started in both", loc="left", fontsize=10)
        return
    rows = np.unique(np.linspace(0, len(apart) - 1, min(_POINTS, len(apart))).astype(int))
    shares = 100 * (rows + 1) / len(apart)
    far = 1e12
    axes.step(
        [-far, *apart[rows], far], [0.0, *shares, 100.0], where="post", color=INK, linewidth=1.5
    )
    _signed_durations(axes, float(max(np.abs(apart[[0, -1]]).max(), 60.0)))
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_ylim(0, 102)
    axes.set_yticks(range(0, 101, 25))
    counts = [float(np.mean(part)) for part in (apart < 0, apart == 0, apart > 0)]
    parts = ", ".join(
        f"{share:.1%} {what}"
        for share, what in zip(counts, ("shorter", "equal", "longer"), strict=True)
    )
    axes.set_title(f"Wait of each job, B - A, cumulative: {parts} in B", loc="left", fontsize=10)
    axes.set_xlabel("B - A at most (logarithmic beyond a minute)")


def _wait_differences(comparison: Comparison) -> Floats:
    """Return the differences of waits in s of all jobs that started in both, ascending."""
    found = [
        (pair.both["wait_time_s_b"] - pair.both["wait_time_s"]).drop_nulls().to_numpy()
        for a, b in comparison.runs
        for pair in pair_runs([a], [b])
    ]
    return np.sort(np.concatenate(found)) if found else np.empty(0)


def _signed_durations(axes: Axes, most_s: float) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("symlog", linthresh=60.0, linscale=0.7)
    axes.set_xlim(-1.3 * most_s, 1.3 * most_s)
    ticks = {at: name for at, name in _DURATIONS.items() if at <= 1.3 * most_s}
    below = {-at: f"-{name}" for at, name in reversed(ticks.items())}
    every = {**below, 0.0: "0", **ticks}
    axes.set_xticks(list(every), labels=list(every.values()))
    axes.xaxis.set_minor_locator(NullLocator())
