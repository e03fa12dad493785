"""The pictures of the Sofia page: learning curves, and figure 4 by two counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.learners.reproductions.sofia.curves import TrainingCurve, band, smooth
from simkit.learners.reproductions.sofia.judge import PACKER, REFERENCE, MeanEstimate, Score
from simkit.learners.reproductions.sofia.study import METHODS, RATE
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("SJF", REFERENCE, "Packer", PACKER)
"""Heuristics with a line over the rates."""
BARS = (*SHOWN, "Tetris 0.00002", "Random")
METHOD_COLOURS = dict(zip(METHODS, COLOURS, strict=False))


def draw_curves(
    curves: Mapping[str, Sequence[TrainingCurve]], lines: Mapping[str, float]
) -> Figure:
    """Draw held-out slowdown and return over the samples, a band and thin lines for each method.

    Args:
        curves: method → a curve for each seed.
        lines: label → slowdown of a heuristic, drawn as a dashed line.
    """
    figure = empty_figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    for axes, of in ((left, "slowdown"), (right, "returns")):
        for method, some in curves.items():
            _draw_method(axes, some, of, METHOD_COLOURS[method], METHODS[method].label)
        axes.set_xlabel("samples, million decisions")
        axes.set_xlim(left=0)
    for number, (label, value) in enumerate(lines.items()):
        left.axhline(value, color=SOFT, linestyle=("--", ":")[number % 2], linewidth=1.1)
        left.annotate(
            label, (0, value), xycoords=("axes fraction", "data"), xytext=(4, 3),
            textcoords="offset points", fontsize=8, color=SOFT,
        )  # fmt: skip
    left.set_ylabel("mean slowdown of held-out batches")
    right.set_ylabel("mean return of held-out batches")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_method(
    axes: Any, curves: Sequence[TrainingCurve], of: str, colour: str, label: str
) -> None:
    for curve in curves:
        axes.plot(
            curve.decisions / 1e6, smooth(getattr(curve, of)), color=colour, linewidth=0.6,
            alpha=0.55,
        )  # fmt: skip
    whole = band(curves, of)
    axes.plot(whole.decisions / 1e6, whole.mean, color=colour, linewidth=1.9, label=label)
    if not np.isnan(whole.low).all():
        axes.fill_between(
            whole.decisions / 1e6, whole.low, whole.high, color=colour, alpha=0.13, linewidth=0
        )


def draw_figure_4(scores: Sequence[Score]) -> Figure:
    """Draw both counts at the study's rate as bars, and the slowdown of all jobs over the rate."""
    figure = empty_figure(10.4, 5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_bars(left, [s for s in scores if s.rate == RATE and (s.seeds or s.label in BARS)])
    _draw_rates(right, scores)
    return figure


def _draw_bars(axes: Any, scores: Sequence[Score]) -> None:
    """Draw the count over all jobs and the study's, one above the other."""
    ordered = sorted(scores, key=lambda score: -score.everyone.value)
    place = np.arange(len(ordered))
    for shift, colour, label, values in (
        (0.2, COLOURS[0], "all jobs, to the end", [s.everyone for s in ordered]),
        (-0.2, COLOURS[1], "jobs finished in 150 steps", [s.at_cut for s in ordered]),
    ):
        axes.barh(
            place + shift, [one.value for one in values], 0.38, xerr=_errors(values), color=colour,
            label=label, error_kw={"linewidth": 0.9, "ecolor": SOFT},
        )  # fmt: skip
    for at, score in zip(place, ordered, strict=True):
        axes.annotate(
            f"{100 * score.done_at_cut:.0f} % of the jobs", (0, at - 0.2), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=7, color="white",
        )  # fmt: skip
    axes.set_yticks(place, [score.label for score in ordered])
    axes.grid(False, axis="y")
    axes.set_xlabel("mean slowdown")
    axes.set_title(f"{RATE:g} jobs a position", fontsize=10)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=2, fontsize=8.5)


def _draw_rates(axes: Any, scores: Sequence[Score]) -> None:
    """Draw the slowdown of all jobs over the probability of a job at a position."""
    labels = [method.label for method in METHODS.values()]
    known = dict(zip(labels, METHOD_COLOURS.values(), strict=True))
    known |= dict(zip(SHOWN, (COLOURS[4], COLOURS[5], COLOURS[3], COLOURS[2]), strict=True))
    for label, colour in known.items():
        mine = sorted((s for s in scores if s.label == label), key=lambda score: score.rate)
        if len(mine) < 2:
            continue
        values = [score.everyone for score in mine]
        axes.errorbar(
            [score.rate for score in mine], [one.value for one in values], yerr=_errors(values),
            color=colour, label=label, marker="o", markersize=3.5, linewidth=1.3, elinewidth=0.8,
            linestyle="--" if label in SHOWN else "-",
        )  # fmt: skip
    axes.set_xlabel("probability of a job at each of 100 positions")
    axes.set_ylabel("mean slowdown of all jobs")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8.5)


def _errors(values: Sequence[MeanEstimate]) -> Any:
    """Return (2, n) distances of the bounds; 0 where there is no interval."""
    bounds = [
        (one.value if one.interval.low is None else one.interval.low,
         one.value if one.interval.high is None else one.interval.high)
        for one in values
    ]  # fmt: skip
    middle = np.array([one.value for one in values])
    low, high = np.array(bounds).T
    return np.maximum(np.stack((middle - low, high - middle)), 0)
