"""The pictures of the Sofia page: learning curves, and figure 4 by two counts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.analysis.intervals import seed_interval
from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.learners.studies.pictures import Figure, distances, empty_figure
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.judge import HEURISTICS, PACKER, SJF
from simkit.learners.studies.sofia.numbers import HERE, RETURN, SLOWDOWN, curve, rates, smooth
from simkit.learners.studies.sofia.trainings import METHODS

AGENTS: Final = dict(zip(METHODS, COLOURS, strict=False))
RULES: Final = {"SJF": COLOURS[4], SJF: COLOURS[5], "Packer": COLOURS[3], PACKER: COLOURS[2]}
"""Arm → the colour of its line."""
BARS: Final = (*RULES, "Tetris 0.00002", "Random")
POINTS: Final = 80
"""Points of a mean curve."""


def draw_curves(results: Results) -> Figure:
    """Draw held-out slowdown and return over the samples, a band and thin lines for each method."""
    figure = empty_figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    for axes, metric in ((left, SLOWDOWN), (right, RETURN)):
        for arm, colour in AGENTS.items():
            _draw_method(axes, results, metric, arm, colour)
        axes.set_xlabel("samples, million decisions")
        axes.set_ylabel(f"mean {metric.removeprefix('held_out_')} of held-out batches")
        axes.set_xlim(left=0)
    for arm, style, side in (("SJF", "--", "bottom"), (SJF, ":", "top")):
        value = results.mean("slowdown", arm, HERE)
        left.axhline(value, color=SOFT, linestyle=style, linewidth=1.1)
        left.text(0.01, value, arm, transform=left.get_yaxis_transform(), va=side, fontsize=8,
                  color=SOFT)  # fmt: skip
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS))
    return figure


def _draw_method(axes: Any, results: Results, metric: str, arm: str, colour: str) -> None:
    decisions, values = curve(results, "decisions", arm) / 1e6, smooth(curve(results, metric, arm))
    axes.plot(decisions.T, values.T, color=colour, linewidth=0.6, alpha=0.55)
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
    ranked = reversed(results.ranked("slowdown", HERE))
    arms = [arm for arm in ranked if arm not in HEURISTICS or arm in BARS]
    for shift, colour, label, metric in (
        (0.2, COLOURS[0], "all jobs, to the end", "slowdown"),
        (-0.2, COLOURS[1], "jobs finished in 150 steps", "slowdown at the cut"),
    ):
        values, errors = distances(results, (f"{metric} | {arm} | {HERE}" for arm in arms))
        left.barh(np.arange(len(arms)) + shift, values, 0.38, xerr=errors, color=colour,
                  label=label, error_kw={"linewidth": 0.9, "ecolor": SOFT})  # fmt: skip
    left.set_yticks(range(len(arms)), arms)
    left.grid(False, axis="y")
    left.set_xlabel("mean slowdown")
    left.set_title(f"{HERE} jobs a position", fontsize=10)
    left.legend(loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=2, fontsize=8.5)
    everywhere = results.arms("slowdown", rates(results)[0])
    for arm, colour in (AGENTS | RULES).items():
        if arm in everywhere:
            asked = (f"slowdown | {arm} | {rate}" for rate in rates(results))
            values, errors = distances(results, asked)
            right.errorbar(
                [float(rate) for rate in rates(results)], values, errors, color=colour, label=arm,
                marker="o", markersize=3.5, linewidth=1.3, elinewidth=0.8,
                linestyle="--" if arm in RULES else "-",
            )  # fmt: skip
    right.set_xlabel("probability of a job at each of 100 positions")
    right.set_ylabel("mean slowdown of all jobs")
    right.set_ylim(bottom=0)
    right.legend(fontsize=8.5)
    return figure
