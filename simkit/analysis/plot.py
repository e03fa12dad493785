"""Pictures of runs: utilisation, queue and power over time, and how long jobs waited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from simkit.analysis.plot_groups import plot_groups
from simkit.analysis.plot_panels import Below, Bins, Look, Quantity, draw_line, draw_panels
from simkit.analysis.plot_power import plot_power, power_quantities
from simkit.analysis.plot_style import INK, finished, look_of, plain_numbers
from simkit.errors import SimkitError
from simkit.results.group_metrics import By
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
    runs: Sequence[Run], *, by: By | None = None, kind: Literal["jobs", "power"] = "jobs"
) -> Figure:
    """Return the picture of `Run.plot`.

    Raises SimkitError for a kind that does not go with the other arguments.
    """
    if kind not in ("jobs", "power"):
        raise SimkitError(f"plot: kind {kind!r}; it is jobs or power")
    if kind == "power" and (by is not None or len(runs) > 1):
        raise SimkitError("plot: a picture of power shows one run, without groups")
    if by is not None:
        return plot_groups(runs, by)
    return plot_power(runs[0]) if kind == "power" else plot_compare(runs)


def draw_runs(runs: Sequence[Run]) -> Figure:
    """Return the figure of `plot_compare`."""
    powered = power_quantities(runs) if all(run.has_power for run in runs) else []
    return draw_panels(
        runs, [*powered, *_common(runs)], Below(lambda axes: _waits(axes, runs), _WAITS)
    )


def _common(runs: Sequence[Run]) -> list[Quantity]:
    """Return the quantities that every run has."""
    resources = list(dict.fromkeys(name for run in runs for name in run.resources))
    tall = 1.75 if len(resources) == 1 else 1.15
    return [*(Usage(resource, tall) for resource in resources), Waiting(1.5)]


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

    def __init__(self, inches: float) -> None:
        self.title, self.label, self.inches = "Tasks waiting", "tasks", inches

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
