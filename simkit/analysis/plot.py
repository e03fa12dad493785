"""Pictures of runs: utilisation and queue over time, and how long jobs waited."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.analysis.plot_style import (
    BODY,
    COLOURS,
    HEIGHT,
    INK,
    bin_name,
    drawn_window,
    new_figure,
    save_picture,
    top_share,
    write_title,
)
from simkit.analysis.time_axis import TimeAxis
from simkit.errors import SimkitError
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.time_bins import bin_edges, bin_length, binned_mean, timeline_columns
from simkit.text import counted, printable
from simkit.units import format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WAIT_TICKS: Final = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 21600.0: "6 h",
    86400.0: "1 d", 604800.0: "1 wk", 2592000.0: "30 d", 31536000.0: "1 yr",
}  # fmt: skip


_LEGEND_COLUMNS: Final = 2


def plot_run(run: RunOrFolder, target: str | PathLike[str]) -> Path:
    """Draw a run: utilisation, queue length and the distribution of waits; return the file.

    Args:
        run: a run, or its folder.
        target: the picture, ``.png``, ``.svg`` or ``.pdf``; it has the same bytes each time.

    Raises SimkitError without matplotlib, for another file type, a run without jobs, or a file
    that cannot be written.
    """
    return plot_compare([run], target)


def plot_compare(runs: Sequence[RunOrFolder], target: str | PathLike[str]) -> Path:
    """Draw several runs into one picture, a colour each; otherwise like `plot_run`.

    Two runs share their panels; each of more has panels of its own, with the same scales.
    """
    if not runs:
        raise SimkitError("plot: no run is given; name at least one run folder")
    opened = [open_run(run) for run in runs]
    return save_picture(target, lambda: draw_runs(opened))


_TOGETHER: Final = 2
"""So many runs share the panels over time; the lines of more would tangle, so each has its own."""


def draw_runs(runs: Sequence[Run]) -> Figure:
    """Return the figure of `plot_compare`."""
    apart = len(runs) > _TOGETHER
    height = HEIGHT + (1.1 * (len(runs) - _TOGETHER) if apart else 0.0)
    legend = 0.028 * len(runs) if len(runs) > 1 else 0.0
    figure = new_figure(BODY - legend, height=height)
    panels, waits = _panels(figure, len(runs) if apart else 1)
    length, span = _common_bins(runs)
    axis, resource = TimeAxis(runs, span), counted_resource(runs[0].resources)
    longest = 0.0  # of all waits, in s
    for row, (colour, run) in enumerate(zip(colours(len(runs)), runs, strict=True)):
        usage, queue = panels[row if apart else 0]
        alone = apart or len(runs) == 1
        _draw_over_time(usage, queue, run, axis, length, colour, alone=alone)
        longest = max(longest, _draw_waits(waits, run, colour))
    for row, pair in enumerate(panels):
        _finish_over_time(*pair, axis, length, resource, apart=apart, first=row == 0)
        for axes in pair if apart and row < len(panels) - 1 else ():
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    _finish_waits(waits, longest)
    _title(figure, runs, axis)
    return figure


def _panels(figure: Figure, rows: int) -> tuple[list[tuple[Axes, Axes]], Axes]:
    """Return utilisation and queue of each row, and the waits below them.

    A single row has its two panels one above the other; more have them side by side, with the same
    scales.
    """
    if rows == 1:
        usage, queue, waits = figure.subplots(3, 1, height_ratios=(1.15, 1, 1.15))
        return [(usage, queue)], waits
    grid = figure.add_gridspec(rows + 1, 2, height_ratios=(*[1.0] * rows, 2.2))
    pairs: list[tuple[Axes, Axes]] = []
    for row in range(rows):
        first = pairs[0] if pairs else (None, None)
        usage, queue = (
            figure.add_subplot(grid[row, column], sharex=first[column], sharey=first[column])
            for column in (0, 1)
        )
        pairs.append((usage, queue))
    return pairs, figure.add_subplot(grid[rows, :])


def _common_bins(runs: Sequence[Run]) -> tuple[float, tuple[float, float]]:
    """Return the bins' length and the span from the first submit to the last end, in s."""
    windows = [drawn_window(run) for run in runs]
    start = min(w.start_s for w in windows)
    end = max(start + 1.0, *(w.end_s for w in windows))
    most = 800 if len(runs) == 1 else 200  # lines that cross need wider bins than one that fills
    return bin_length(end - start, most), (start, end)


def _draw_over_time(
    usage: Axes, queue: Axes, run: Run, axis: TimeAxis, length: float, colour: str, *, alone: bool
) -> None:
    """Draw one run's utilisation and queue, as means over bins."""
    resource = counted_resource(run.resources)
    line = timeline_columns(run.scan("timeline"), resource)
    end = drawn_window(run).end_s
    edges = bin_edges(axis.start_s, end, length)
    edges[-1] = max(end, edges[-2] + 1.0) if len(edges) > 1 else end
    times, total = axis.values(edges), run.capacity[resource]
    held = binned_mean(line["time_s"], line["allocated"], edges)
    offered = binned_mean(line["time_s"], line["capacity"], edges, before=total)
    waiting = binned_mean(line["time_s"], line["waiting"], edges)
    for axes, values in ((usage, 100 * held / total), (queue, waiting)):
        if alone:
            axes.stairs(values, times, fill=True, color=colour, alpha=0.22, linewidth=0)
        axes.stairs(values, times, color=colour, linewidth=1.0, baseline=None)
    usage.stairs(
        100 * offered / total, times, baseline=None, color=INK, linewidth=1.0, linestyle="--"
    )


def _finish_over_time(
    usage: Axes, queue: Axes, axis: TimeAxis, length: float, resource: str,
    *, apart: bool, first: bool,
) -> None:  # fmt: skip
    """Set scales and labels; of runs with panels of their own, `first` is the row that is above."""
    name = bin_name(length)
    usage.set_ylabel("in use (%)" if apart else f"{resource} in use (%)")
    usage.set_ylim(0, 108)
    usage.set_yticks(range(0, 101, 50 if apart else 25))
    queue.set_ylabel("waiting" if apart else "tasks waiting")
    queue.set_ylim(bottom=0)
    if first:
        what = f"Utilisation of {resource}" if apart else "Utilisation"
        usage.set_title(f"{what}, {name} means; dashed: available", loc="left", fontsize=10)
        queue.set_title(f"Tasks waiting, {name} means", loc="left", fontsize=10)
    axis.finish(usage, label=apart)
    axis.finish(queue)


def _draw_waits(axes: Axes, run: Run, colour: str) -> float:
    """Draw the cumulative distribution of waits; return the longest, in s.

    Waits below 1 s are at the left edge.
    """
    waits = run.scan("jobs").select("wait_time_s").collect()["wait_time_s"]
    values = np.sort(waits.drop_nulls().to_numpy())
    if not len(values):
        axes.plot([], [], color=colour, label="no job started")
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
    axes.step([*x, 1e12], [*y, 100.0], where="post", color=colour, linewidth=1.6, label=label)
    if mean >= 1:
        axes.axvline(mean, color=colour, linewidth=1.0, linestyle=":")
    return float(values[-1])


def _finish_waits(axes: Axes, longest: float) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    axes.set_xscale("log")
    right = 1.3 * max(longest, 60.0)
    axes.set_xlim(1.0, right)
    ticks = {at: name for at, name in _WAIT_TICKS.items() if at <= right}
    axes.set_xticks(list(ticks), labels=list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
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


def _title(figure: Figure, runs: Sequence[Run], axis: TimeAxis) -> None:
    """Write the title and facts of the run; for several runs, a legend with a line each."""
    if len(runs) == 1:
        write_title(figure, runs[0].name, facts_of(runs[0]) + axis.period())
        return
    write_legend(figure, runs, axis.period())


def write_legend(figure: Figure, runs: Sequence[Run], facts: Iterable[str]) -> None:
    """Write the title of a comparison and short facts, then a line for each run in its colour."""
    write_title(figure, "Comparison of runs", facts)
    for row, (colour, run) in enumerate(zip(colours(len(runs)), runs, strict=True)):
        y = top_share(0.924 - 0.028 * row, figure.get_figheight())
        figure.text(0.014, y, "\u2501\u2501", color=colour, fontweight="bold", va="top")
        text = printable(" · ".join([run.name, *facts_of(run)]))
        figure.text(0.05, y, text, fontsize=9.5, va="top")


def facts_of(run: Run) -> list[str]:
    """Return policy, size, jobs and seed as short texts, and the status unless complete."""
    jobs, resource = run.info.get("jobs"), counted_resource(run.resources)
    facts = [f"policy {run.policy}"]
    if run.estimates not in ("", "requested"):
        facts.append(f"estimates {run.estimates}")
    facts.append(f"{run.capacity[resource]:,.15g} {resource}")
    facts += [counted(jobs, "job")] if isinstance(jobs, int) else []
    return [*facts, f"seed {run.seed}", *([] if run.status == "complete" else [run.status])]


def colours(count: int) -> list[str]:
    """Return a colour for each of so many runs."""
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
