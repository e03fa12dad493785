"""Pictures of runs by group of jobs: waits and slowdowns of each user, queue, size, …."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from simkit.analysis.plot import colours, facts_of, write_legend
from simkit.analysis.plot_style import BODY, INK, new_figure, save_picture, write_title
from simkit.errors import SimkitError
from simkit.results.group_metrics import By, in_order
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST: Final = 20
"""Groups that are drawn: of names, those with the most jobs in any run."""


def plot_groups(runs: Sequence[RunOrFolder], by: By, target: str | PathLike[str]) -> Path:
    """Draw the mean and the 90th percentile of each group's waits and bounded slowdowns.

    Args:
        runs: at least one run, or its folder; a colour each.
        by: what jobs are grouped by.
        target: the picture, ``.png`` or ``.svg``; an SVG has the same bytes each time.

    Raises SimkitError without matplotlib, for another file type, no run, or a file that cannot be
    written; RunError for an unknown `by`.
    """
    if not runs:
        raise SimkitError("plot: no run is given; name at least one run folder")
    opened = [open_run(run) for run in runs]
    groups = [run.metrics_by(by) for run in opened]
    return save_picture(target, lambda: _draw(opened, groups, by))


def _draw(runs: Sequence[Run], groups: Sequence[pl.DataFrame], by: By) -> Figure:
    figure = new_figure(BODY - 0.028 * (len(runs) if len(runs) > 1 else 0))
    names, left_out = _names(groups, by)
    for axes, metric, title, per in zip(
        figure.subplots(2, 1),
        ("wait_time_s", "bounded_slowdown"),
        ("Wait time (h)", "Bounded slowdown"),
        (3600.0, 1.0),
        strict=True,
    ):
        for row, frame in enumerate(groups):
            found = {line[by]: line for line in frame.iter_rows(named=True)}
            _bars(axes, [found.get(name, {}) for name in names], metric, per, row, len(runs))
        axes.set_title(f"{title}: mean, and 90th percentile as a line", loc="left", fontsize=10)
        tilted = {"rotation": 45, "ha": "right"} if sum(map(len, names)) > 90 else {}
        axes.set_xticks(range(len(names)), labels=[printable(n) for n in names], **tilted)
        axes.grid(visible=False, axis="x")
        axes.set_xlabel(by)
        if metric == "bounded_slowdown":  # from 1 to thousands
            axes.set_yscale("log")
            axes.set_ylim(bottom=1)
    facts = [f"by {by}", *([f"{left_out:,} more groups not drawn"] if left_out else [])]
    if len(runs) == 1:
        write_title(figure, runs[0].name, [*facts_of(runs[0]), *facts])
        return figure
    write_legend(figure, runs, facts)
    return figure


def _names(groups: Sequence[pl.DataFrame], by: By) -> tuple[list[str], int]:
    """Return the groups of all runs that are drawn, in order, and how many are not."""
    jobs = pl.concat(frame.select(by, "jobs") for frame in groups)
    names = in_order(jobs.group_by(by).agg(pl.col("jobs").max()), by)[by].to_list()
    return names[:MOST], max(len(names) - MOST, 0)


def _bars(
    axes: Axes, rows: Sequence[dict[str, float]], metric: str, per: float, run: int, runs: int
) -> None:
    """Draw one run's bars, beside those of the other runs."""
    width = 0.8 / runs
    places = np.arange(len(rows)) - 0.4 + (run + 0.5) * width
    means, high = (
        np.array([row.get(name) for row in rows], dtype=np.float64) / per  # None becomes NaN
        for name in (metric, f"{metric}.p90")
    )
    axes.bar(places, means, 0.92 * width, color=colours(runs)[run], alpha=0.85)
    axes.hlines(high, places - 0.46 * width, places + 0.46 * width, color=INK, linewidth=1.2)
