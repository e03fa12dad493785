"""Pictures of runs by group of jobs: waits and slowdowns of each user, queue, size, …."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from simkit.analysis.plot_style import (
    COLOURS,
    HEIGHT,
    INK,
    SOFT,
    explain,
    finished,
    new_figure,
    plain_numbers,
    title_inches,
    write_head,
)
from simkit.errors import SimkitError
from simkit.results.group_metrics import By, in_order
from simkit.results.run_folder import Run, RunOrFolder, open_run
from simkit.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST: Final = 40
"""Groups that are drawn: of names, those with the most jobs in any run."""
_MOST_UPRIGHT: Final = 8
_MOST_LETTERS: Final = 70
"""With more groups, or longer names, the bars lie, so that every name has a line of its own."""
_ROW_INCHES: Final = 0.24
_LONGEST_NAME: Final = 22
_WAIT_UNITS: Final = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


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
    return finished(lambda: _draw(opened, groups, by), target)


def _draw(runs: Sequence[Run], groups: Sequence[pl.DataFrame], by: By) -> Figure:
    names, left_out = _names(groups, by)
    lie = lie_down(names)
    height = max(HEIGHT, _ROW_INCHES * len(names) * max(1.0, len(runs) / 2)) if lie else HEIGHT
    figure = new_figure(1 - title_inches(len(runs)) / HEIGHT, height=height)
    panels = figure.subplots(1, 2, sharey=True) if lie else figure.subplots(2, 1)
    wait_s, unit = _wait_unit(groups)
    for axes, metric, title, per in zip(
        panels,
        ("wait_time_s", "bounded_slowdown"),
        (f"Wait time ({unit})", "Bounded slowdown"),
        (wait_s, 1.0),
        strict=True,
    ):
        for row, frame in enumerate(groups):
            found = {line[by]: line for line in frame.iter_rows(named=True)}
            rows = [found.get(name, {}) for name in names]
            _bars(axes, rows, metric, per, row, len(runs), lie=lie)
        axes.set_title(title, loc="left", fontsize=10)
        _explain(axes)
        _finish(axes, names, by, lie=lie, first=metric == "wait_time_s")
        if metric == "bounded_slowdown":  # from 1 to thousands
            _logarithmic(axes, lie=lie)
    facts = [f"by {by}", *([f"{left_out:,} more groups not drawn"] if left_out else [])]
    write_head(figure, runs, facts)
    return figure


def _explain(axes: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    mean, high = Patch(color=SOFT, alpha=0.6), Line2D([], [], color=INK, linewidth=1.2)
    explain(axes, [(mean, "mean"), (high, "90th percentile")])


def _wait_unit(groups: Sequence[pl.DataFrame]) -> tuple[float, str]:
    """Return the length in s and the name of the unit in which waits are readable."""
    most = max((float(frame["wait_time_s"].max() or 0.0) for frame in groups), default=0.0)  # type: ignore[arg-type]
    return next(((s, name) for s, name in _WAIT_UNITS if most >= 2 * s), _WAIT_UNITS[-1])


def _finish(axes: Axes, names: Sequence[str], by: By, *, lie: bool, first: bool) -> None:
    """Write the groups' names, and the name of what they are."""
    shown, places = [short_name(name) for name in names], range(len(names))
    axes.grid(visible=False, axis="y" if lie else "x")
    if lie:
        axes.set_ylim(len(names) - 0.4, -0.6)  # the first group above
        axes.set_yticks(places, labels=shown)
        axes.set_ylabel(by if first else "")
    else:
        axes.set_xticks(places, labels=shown)
        axes.set_xlabel(by)
    if first:
        plain_numbers(axes.xaxis if lie else axes.yaxis)


def lie_down(names: Sequence[str]) -> bool:
    """Return whether the bars of these groups lie, so that every name has room."""
    return len(names) > _MOST_UPRIGHT or sum(len(short_name(n)) for n in names) > _MOST_LETTERS


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name that leaves room for the bars, its middle cut if need be."""
    text = printable(name)
    end = longest * 2 // 5
    return text if len(text) <= longest else f"{text[: longest - end - 1]}…{text[-end:]}"


def _logarithmic(axes: Axes, *, lie: bool) -> None:
    (axes.set_xscale if lie else axes.set_yscale)("log")
    high = (axes.get_xlim() if lie else axes.get_ylim())[1]
    (axes.set_xlim if lie else axes.set_ylim)(1.0, max(high, 10.0))
    plain_numbers(axes.xaxis if lie else axes.yaxis)


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


def over_bars(draw: Callable[..., Any], at: ArrayLike, first: ArrayLike, last: ArrayLike) -> None:
    """Draw dark lines that are seen on bars of any colour; `draw` is ``axes.hlines`` or so."""
    draw(at, first, last, color="white", linewidth=2.4, zorder=3)
    draw(at, first, last, color=INK, linewidth=1.2, zorder=3)
