"""The pictures of the DeepJS page: figures 4 to 7 of the paper, redrawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.arrays import Floats, Ints
from simkit.learners.reproductions.deepjs.judge import (
    BALANCE,
    FIRST_FIT,
    LONGEST,
    TETRIS,
    Likeness,
    matrix,
)
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = ("deepjs-paper", BALANCE, "fitness")
"""Schedulers whose differences are drawn."""
SHOWN = 500
"""Pairs of figure 5 that are drawn."""
_ABOVE: Final[dict[str, Any]] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
_MARKS: Final = (-1000, -100, 0, 100, 1000)


def draw_sliding(record: pl.DataFrame, last: int) -> Figure:
    """Draw figure 4: makespans of rules less those of agents, before they train on a chunk."""
    record = record.filter(pl.col("chunk") <= last)
    trained = record.filter(pl.col("seed").is_not_null()).sort("seed", "chunk")
    mine = np.stack([
        part["makespan"].to_numpy() for part in trained.partition_by("seed", maintain_order=True)
    ])  # fmt: skip
    figure = empty_figure(10.4, 3.8)
    axes = figure.subplots()
    for colour, label in zip(COLOURS[1:], (FIRST_FIT, "random", LONGEST), strict=False):
        other = record.filter(pl.col("label") == label).sort("chunk")["makespan"].to_numpy()
        difference = other - mine.mean(axis=0)
        axes.plot(difference, color=colour, linewidth=1.2, label=f"{label} less DeepJS")
    axes.axhline(0.0, color=SOFT, linewidth=0.9)
    _log_scale(axes.set_yscale, axes.yaxis)
    axes.set_xlabel("chunk, in the order of training")
    axes.set_ylabel("ticks of makespan")
    axes.legend(fontsize=8.5, ncols=3, **_ABOVE)
    return figure


def draw_likenesses(found: Sequence[Likeness]) -> Figure:
    """Draw figure 5: the scores of two agents for the same pairs, for the first seed."""
    shown = [one for one in found if one.seed == 0 and " and " in one.label]
    figure = empty_figure(3.5 * len(shown), 3.6)
    for axes, one in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown, strict=True):
        axes.scatter(*one.scores[:, :SHOWN], s=6, alpha=0.4, color=COLOURS[0], linewidths=0)
        axes.set_title(f"{one.label}: {one.pearson:.2f}", fontsize=9.5)
        axes.set_xlabel("score of the first")
        axes.set_ylabel("score of the second")
    return figure


def draw_test(judged: pl.DataFrame, labels: Sequence[str], span: tuple[int, int]) -> Figure:
    """Draw figures 6 and 7: how much longer first-fit and Tetris take on the test chunks."""
    judged = judged.filter(pl.col("chunk").is_between(*span))
    figure = empty_figure(10.4, 7.0)
    top, bottom = np.asarray(figure.subfigures(2, 1)).tolist()
    axes = top.subplots()
    agent = labels[0]
    for colour, other in zip(COLOURS[1:], (FIRST_FIT, TETRIS), strict=False):
        difference = _difference(judged, other, agent)
        axes.plot(np.arange(span[0], span[1] + 1), difference, color=colour, linewidth=0.9,
                  label=f"{other} less {agent}")  # fmt: skip
    axes.axhline(0.0, color=SOFT, linewidth=0.9)
    _log_scale(axes.set_yscale, axes.yaxis)
    axes.set_xlabel("chunk")
    axes.set_ylabel("ticks of makespan")
    axes.legend(fontsize=8.5, ncols=2, **_ABOVE)
    left, right = bottom.subplots(1, 2)
    rows = [(other, label) for other in (FIRST_FIT, TETRIS) for label in labels]
    values = [_difference(judged, *row) for row in rows]
    names = [f"{other} less {label}" for other, label in rows]
    place = np.arange(len(rows))[::-1]
    left.barh(place, [one.mean() for one in values], xerr=[one.std() for one in values],
              color=COLOURS[0], error_kw={"linewidth": 0.9, "ecolor": SOFT})  # fmt: skip
    left.set_yticks(place, names)
    left.set_xlabel("ticks: mean and standard deviation over chunks")
    _boxes(right, values, place)
    return figure


def _boxes(axes: Any, values: Sequence[Floats], place: Ints) -> None:
    axes.boxplot(values, positions=place, orientation="horizontal", widths=0.6, whis=(0, 100),
                 manage_ticks=False)  # fmt: skip
    axes.set_yticks(place, [""] * len(place))
    _log_scale(axes.set_xscale, axes.xaxis)
    axes.set_xlabel("ticks: least, quartiles, median, most")


def _difference(judged: pl.DataFrame, other: str, mine: str) -> Floats:
    """Return (chunks,) makespans of one scheduler less another's mean over its runs."""
    difference: Floats = matrix(judged, other)[0] - matrix(judged, mine).mean(axis=0)
    return difference


def _log_scale(set_scale: Any, axis: Any) -> None:
    """Make an axis of differences logarithmic beyond 20 ticks in both directions."""
    set_scale("symlog", linthresh=20)
    axis.set_ticks(_MARKS, [f"{mark:,}" for mark in _MARKS])
    axis.minorticks_off()
