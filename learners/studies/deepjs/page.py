"""What the page of the comparison with DeepJS calls by name, and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.arrays import Floats
from simkit.learners.studies.deepjs.agreement import AGREEMENT, HALVES, SHOWN
from simkit.learners.studies.deepjs.judge import (
    BALANCE,
    BOUND,
    FIRST_FIT,
    LONGEST,
    OPTIONS,
    RIVALS,
    TEST,
)
from simkit.learners.studies.pictures import ERRORS, Figure, Mark, empty_figure, panel, picture
from simkit.learners.studies.results import Results


def counts(results: Results, arm: str, case: str = TEST, rival: str = FIRST_FIT) -> str:
    """Return on how many chunks an arm's makespan is larger, equal and smaller than a rival's."""
    above, below = (results.mean(f"{side} {rival}", arm, case) for side in ("above", "below"))
    chunks = len(results.values("makespan", BALANCE, case)[1])
    shares = (above, 1 - above - below, below)
    return "/".join(f"{chunks * share:.1f}".removesuffix(".0") for share in shares)


def training_minutes(results: Results, arm: str) -> str:
    """Return the mean wall time of an arm's trainings; empty for a rule."""
    found = results.facts["minutes"].get(arm.removeprefix("lookahead of rules and "))
    return "" if found is None else f"{found:.1f} min"


def worst_first(results: Results, case: str) -> list[str]:
    """Return everyone by the mean makespan, the best one last."""
    arms = [arm for arm in results.arms("makespan", case) if arm not in (BOUND, *OPTIONS)]
    return results.ranked("makespan", case, arms)[::-1]


def _longer(results: Results, other: str, arm: str, case: str) -> Floats:
    """Return (I,) makespans of one arm less another's, means over their seeds."""
    mine, theirs = (results.by_item("makespan", each, case) for each in (arm, other))
    return np.asarray(theirs - mine, np.float64)


def _differences(others: Sequence[str], label: str, case: str, xlabel: str) -> Mark:
    """Return what draws how much longer others take than DeepJS, chunk by chunk."""

    def draw(axes: Any, results: Results) -> None:
        chunks = results.values("makespan", FIRST_FIT, case)[1]
        for colour, other in zip(COLOURS[1:], others, strict=False):
            axes.plot(chunks, _longer(results, other, "deepjs-paper", case), color=colour,
                      linewidth=1.0, label=f"{other} less {label}")  # fmt: skip
        axes.axhline(0.0, color=SOFT, linewidth=0.9)
        _log_scale(axes.set_yscale, axes.yaxis)

    legend = {"fontsize": 8.5, "ncols": 3, "loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
    return panel(draw, xlabel=xlabel, ylabel="ticks of makespan", legend=legend)


def _scores(pair: str) -> Mark:
    """Return what draws the scores of two agents for the same pairs."""

    def draw(axes: Any, results: Results) -> None:
        one, other = (results.values("score", arm, pair)[0][0] for arm in ("first", "second"))
        axes.scatter(one, other, s=6, alpha=0.4, color=COLOURS[0], linewidths=0)
        pearson = results.mean("pearson", pair, AGREEMENT, seed=0)
        axes.set_title(f"{pair}: {pearson:.2f}", fontsize=9.5)

    return draw


def draw_test(results: Results) -> Figure:
    """Draw figures 6 and 7: how much longer first-fit and Tetris take on the test chunks."""
    figure = empty_figure(10.4, 7.0)
    top, bottom = np.asarray(figure.subfigures(2, 1)).tolist()
    _differences(RIVALS, "deepjs-paper", TEST, "chunk")(top.subplots(), results)
    left, right = bottom.subplots(1, 2)
    rows = [(other, arm) for other in RIVALS for arm in ("deepjs-paper", BALANCE, "fitness")]
    values = [_longer(results, *row, TEST) for row in rows]
    places = np.arange(len(rows))[::-1]
    left.barh(places, [one.mean() for one in values], xerr=[one.std() for one in values],
              color=COLOURS[0], error_kw=ERRORS)  # fmt: skip
    left.set_yticks(places, [f"{other} less {arm}" for other, arm in rows])
    left.set_xlabel("ticks: mean and standard deviation over chunks")
    right.boxplot(values, positions=places, orientation="horizontal", widths=0.6, whis=(0, 100),
                  manage_ticks=False)  # fmt: skip
    right.set_yticks(places, [""] * len(places))
    _log_scale(right.set_xscale, right.xaxis)
    right.set_xlabel("ticks: least, quartiles, median, most")
    return figure


def _log_scale(set_scale: Any, axis: Any) -> None:
    """Make an axis of differences logarithmic beyond 20 ticks in both directions."""
    marks = (-1000, -100, 0, 100, 1000)
    set_scale("symlog", linthresh=20)
    axis.set_ticks(marks, [f"{mark:,}" for mark in marks])
    axis.minorticks_off()


PICTURES: Final = {
    "deepjs-figure4": picture(
        _differences((FIRST_FIT, "random", LONGEST), "DeepJS", HALVES[0],
                     "chunk, in the order of training"),
        width=10.4,
    ),
    "deepjs-figure5": picture(
        *(panel(_scores(pair), xlabel="score of the first", ylabel="score of the second")
          for pair in SHOWN),
        width=3.5 * len(SHOWN), height=3.6,
    ),
    "deepjs-figure6": draw_test,
}  # fmt: skip
