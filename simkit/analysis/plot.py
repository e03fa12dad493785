"""Pictures of runs: utilisation and queue over time, and how long jobs waited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.analysis.plot_style import (
    BODY,
    COLOURS,
    INK,
    TimeAxis,
    bin_name,
    drawn_window,
    new_figure,
    save_picture,
    write_title,
)
from simkit.errors import SimkitError
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.results.time_bins import bin_edges, bin_length, binned_mean, timeline_columns
from simkit.text import counted, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WAIT_TICKS: Final = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 21600.0: "6 h",
    86400.0: "1 d", 604800.0: "1 wk", 2592000.0: "30 d", 31536000.0: "1 yr",
}  # fmt: skip


def plot_run(run: RunOrFolder, target: str | PathLike[str]) -> Path:
    """Draw a run: utilisation, queue length and the distribution of waits; return the file.

    Args:
        run: a run, or its folder.
        target: the picture, ``.png`` or ``.svg``; an SVG has the same bytes each time.

    Raises SimkitError without matplotlib, for another file type, a run without jobs, or a file
    that cannot be written.
    """
    return plot_compare([run], target)


def plot_compare(runs: Sequence[RunOrFolder], target: str | PathLike[str]) -> Path:
    """Draw several runs into one picture, a colour each; otherwise like `plot_run`."""
    if not runs:
        raise SimkitError("plot: no run is given; name at least one run folder")
    opened = [open_run(run) for run in runs]
    return save_picture(target, lambda: draw_runs(opened))


def draw_runs(runs: Sequence[Run]) -> Figure:
    """Return the figure of `plot_compare`."""
    figure = new_figure(BODY - 0.028 * (len(runs) if len(runs) > 1 else 0))
    usage, queue, waits = figure.subplots(3, 1, height_ratios=(1.15, 1, 1.15))
    length, span = _common_bins(runs)
    axis = TimeAxis(runs, span)
    for colour, run in zip(colours(len(runs)), runs, strict=True):
        _draw_over_time(usage, queue, run, axis, length, colour, alone=len(runs) == 1)
        _draw_waits(waits, run, colour)
    _finish_over_time(usage, queue, axis, length, counted_resource(runs[0].resources))
    _finish_waits(waits)
    _title(figure, runs, axis)
    return figure


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
    usage: Axes, queue: Axes, axis: TimeAxis, length: float, resource: str
) -> None:
    name = bin_name(length)
    usage.set_ylabel(f"{resource} in use (%)")
    usage.set_ylim(0, 108)
    usage.set_yticks(range(0, 101, 25))
    usage.set_title(f"Utilisation, {name} means; dashed: available", loc="left", fontsize=10)
    queue.set_ylabel("tasks waiting")
    queue.set_ylim(bottom=0)
    queue.set_title(f"Queue length, {name} means", loc="left", fontsize=10)
    for axes in (usage, queue):
        axis.finish(axes)


def _draw_waits(axes: Axes, run: Run, colour: str) -> None:
    """Draw the cumulative distribution of waits; waits below 1 s are at the left edge."""
    waits = run.scan("jobs").select("wait_time_s").collect()["wait_time_s"].drop_nulls()
    values = np.sort(waits.to_numpy())
    if not len(values):
        return
    shares = np.arange(1, len(values) + 1) / len(values)
    keep = np.unique(
        np.searchsorted(values, np.geomspace(1.0, max(values[-1], 1.0), 1200), "right")
    )
    rows = np.clip(np.concatenate((keep, [len(values)])), 1, None) - 1
    x = np.concatenate(([1.0], np.maximum(values[rows], 1.0)))
    below = np.searchsorted(values, 1.0, "right") / len(values)
    y = 100 * np.concatenate(([below], shares[rows]))
    axes.step(x, y, where="post", color=colour, linewidth=1.6)
    mean = float(values.mean())
    if mean >= 1:
        axes.axvline(mean, color=colour, linewidth=1.0, linestyle=":")


def _finish_waits(axes: Axes) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    axes.set_xscale("log")
    right = max(axes.get_xlim()[1], 60.0)
    axes.set_xlim(1.0, right)
    ticks = {at: name for at, name in _WAIT_TICKS.items() if at <= right}
    axes.set_xticks(list(ticks), labels=list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 102)
    axes.set_yticks(range(0, 101, 25))
    axes.set_xlabel("waited at most (logarithmic; waits below 1 s at the left edge)")
    axes.set_ylabel("share of jobs (%)")
    axes.set_title("Wait time, cumulative; dotted: mean", loc="left", fontsize=10)


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
        y = 0.924 - 0.028 * row
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
