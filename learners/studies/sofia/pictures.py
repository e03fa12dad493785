"""The pictures of the Sofia page: learning curves, and figure 4 by two counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simkit.analysis.intervals import Estimate, seed_interval
from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.curves import RETURN, SLOWDOWN, curve, smooth
from simkit.learners.studies.sofia.judge import HEURISTICS, PACKER, SJF
from simkit.learners.studies.sofia.tables import HERE, rates
from simkit.learners.studies.sofia.trainings import METHODS
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN: Final = ("SJF", SJF, "Packer", PACKER)
"""Heuristics with a line over the rates."""
BARS: Final = (*SHOWN, "Tetris 0.00002", "Random")
LINES: Final = dict(
    zip(
        (*METHODS, *SHOWN),
        (*COLOURS[: len(METHODS)], *(COLOURS[n] for n in (4, 5, 3, 2))),
        strict=True,
    )
)
"""Arm → the colour of its line over the rates."""
POINTS: Final = 80
"""Points of a mean curve."""


def draw_curves(results: Results) -> Figure:
    """Draw held-out slowdown and return over the samples, a band and thin lines for each method."""
    figure = empty_figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    for axes, metric in ((left, SLOWDOWN), (right, RETURN)):
        for arm, colour in zip(METHODS, COLOURS, strict=False):
            _draw_method(axes, results, metric, arm, colour)
        axes.set_xlabel("samples, million decisions")
        axes.set_xlim(left=0)
    for arm, style in (("SJF", "--"), (SJF, ":")):
        value = results.mean("slowdown", arm, HERE)
        left.axhline(value, color=SOFT, linestyle=style, linewidth=1.1)
        left.annotate(
            arm, (0, value), xycoords=("axes fraction", "data"), xytext=(4, 3),
            textcoords="offset points", fontsize=8, color=SOFT,
        )  # fmt: skip
    left.set_ylabel("mean slowdown of held-out batches")
    right.set_ylabel("mean return of held-out batches")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_method(axes: Any, results: Results, metric: str, arm: str, colour: str) -> None:
    decisions, values = curve(results, "decisions", arm) / 1e6, smooth(curve(results, metric, arm))
    for xs, ys in zip(decisions, values, strict=True):
        axes.plot(xs, ys, color=colour, linewidth=0.6, alpha=0.55)
    grid = np.linspace(0, decisions[:, -1].min(), POINTS)
    drawn = np.array([np.interp(grid, *one) for one in zip(decisions, values, strict=True)])
    axes.plot(grid, drawn.mean(axis=0), color=colour, linewidth=1.9, label=arm)
    bands = [seed_interval(column) for column in drawn.T]
    if len(drawn) > 1:
        axes.fill_between(grid, [one.low for one in bands], [one.high for one in bands],
                          color=colour, alpha=0.13, linewidth=0)  # fmt: skip


def draw_figure_4(results: Results) -> Figure:
    """Draw both counts at the study's rate as bars, and the slowdown of all jobs over the rate."""
    figure = empty_figure(10.4, 5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_bars(left, results)
    _draw_rates(right, results)
    return figure


def _draw_bars(axes: Any, results: Results) -> None:
    """Draw the count over all jobs and the study's, one above the other."""
    ranked = results.ranked("slowdown", HERE)[::-1]
    arms = [arm for arm in ranked if arm not in HEURISTICS or arm in BARS]
    place = np.arange(len(arms))
    for shift, colour, label, metric in (
        (0.2, COLOURS[0], "all jobs, to the end", "slowdown"),
        (-0.2, COLOURS[1], "jobs finished in 150 steps", "slowdown at the cut"),
    ):
        found = [results.estimate(metric, arm, HERE) for arm in arms]
        axes.barh(
            place + shift, [one.value for one in found], 0.38, xerr=_errors(found), color=colour,
            label=label, error_kw={"linewidth": 0.9, "ecolor": SOFT},
        )  # fmt: skip
    for at, arm in zip(place, arms, strict=True):
        share = results.mean("share at the cut", arm, HERE)
        axes.annotate(
            f"{100 * share:.0f} % of the jobs", (0, at - 0.2), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=7, color="white",
        )  # fmt: skip
    axes.set_yticks(place, arms)
    axes.grid(False, axis="y")
    axes.set_xlabel("mean slowdown")
    axes.set_title(f"{HERE} jobs a position", fontsize=10)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=2, fontsize=8.5)


def _draw_rates(axes: Any, results: Results) -> None:
    """Draw the slowdown of all jobs over the probability of a job at a position."""
    everywhere = results.arms("slowdown", rates(results)[0])
    for arm, colour in LINES.items():
        if arm in everywhere:
            found = [results.estimate("slowdown", arm, rate) for rate in rates(results)]
            axes.errorbar(
                [float(rate) for rate in rates(results)], [one.value for one in found],
                yerr=_errors(found), color=colour, label=arm, marker="o", markersize=3.5,
                linewidth=1.3, elinewidth=0.8, linestyle="--" if arm in SHOWN else "-",
            )  # fmt: skip
    axes.set_xlabel("probability of a job at each of 100 positions")
    axes.set_ylabel("mean slowdown of all jobs")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8.5)


def _errors(found: Sequence[Estimate]) -> Any:
    """Return (2, n) distances of the bounds; 0 where there is no interval."""
    bounds = [
        (0.0, 0.0) if one.low is None or one.high is None
        else (one.value - one.low, one.high - one.value)
        for one in found
    ]  # fmt: skip
    return np.maximum(np.array(bounds).T, 0)
