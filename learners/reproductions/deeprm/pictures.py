"""The pictures of the DeepRM page: loads, learning curves, withheld jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from simkit.analysis.plot_style import COLOURS, save_picture
from simkit.learners.reproductions.deeprm.figures import AtLoad, Withheld
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_all(
    folder: Path, found: Sequence[AtLoad], curves: pl.DataFrame, withheld: Withheld
) -> None:
    """Write deeprm-load.svg, deeprm-learning.svg and deeprm-withheld.svg."""
    save_picture(folder / "deeprm-load.svg", lambda: _loads(found))
    save_picture(folder / "deeprm-learning.svg", lambda: _learning(curves))
    save_picture(folder / "deeprm-withheld.svg", lambda: _withheld(withheld))


def _loads(found: Sequence[AtLoad]) -> Figure:
    figure = empty_figure()
    axes = figure.subplots()
    x = [f.load for f in found]
    lines: dict[str, list[float]] = {
        "Packer": [f.means["Packer"] for f in found],
        "SJF": [f.means["SJF"] for f in found],
        "best Tetris": [f.means[f.best_tetris] for f in found],
        "best withholding rule": [f.means[f.best_withholding] for f in found],
        "DeepRM": [f.agent.value for f in found],
    }
    for colour, (label, values) in zip(COLOURS, lines.items(), strict=False):
        axes.plot(x, values, marker="o", markersize=3.5, color=colour, label=label)
    low, high = [f.agent.low for f in found], [f.agent.high for f in found]
    axes.fill_between(x, low, high, color=COLOURS[4], alpha=0.2, linewidth=0)
    axes.set(xlabel="offered load, %", ylabel="mean slowdown", yscale="log")
    axes.set_yticks([1, 2, 3, 5, 10, 20], labels=["1", "2", "3", "5", "10", "20"])
    axes.minorticks_off()
    axes.legend()
    return figure


def _learning(curves: pl.DataFrame) -> Figure:
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    for number, (load, rows) in enumerate(_by_load(curves)):
        for (name,), one in rows.group_by("training", maintain_order=True):
            looks = one.drop_nulls("held_out_slowdown").sort("iteration")
            style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.1}
            if "fixed" in str(name):
                style["linestyle"] = "--"
            elif str(name).endswith("seed0"):
                style["label"] = f"{load} %"
            left.plot(looks["iteration"], looks["held_out_slowdown"], **style)
    left.set(xlabel="iteration", ylabel="slowdown on unseen job sets", yscale="log")
    left.set_yticks([1.5, 2, 3, 5, 9], labels=["1.5", "2", "3", "5", "9"])
    left.minorticks_off()
    left.legend(title="dashed: fixed job sets")
    one = curves.filter(curves["training"] == "deeprm-70-seed0").drop_nulls("return")
    right.plot(one["iteration"], one["return_best"], color=COLOURS[0], label="best rollout")
    right.plot(one["iteration"], one["return"], color=COLOURS[1], label="mean")
    right.set(xlabel="iteration", ylabel="return of a job set at 70 %")
    right.legend()
    return figure


def _by_load(curves: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    slow = curves.filter(~curves["training"].str.contains("completion"))
    return [(load, slow.filter(slow["load"] == load)) for load in sorted(set(slow["load"]))]


def _withheld(found: Withheld) -> Figure:
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    lengths = sorted(found.present)
    total = max(sum(found.lengths.values()), 1)
    left.bar(lengths, [found.lengths.get(n, 0) / total for n in lengths], color=COLOURS[0])
    left.set(xlabel="length of the job, steps", ylabel="share of what was withheld")
    right.plot(lengths, [found.slowdown[n] for n in lengths], "o", color=COLOURS[4], label="DeepRM")
    right.plot(lengths, [found.slowdown_of_tetris[n] for n in lengths], "s", color=COLOURS[1],
               label="Tetris")  # fmt: skip
    right.set(xlabel="length of the job, steps", ylabel="mean slowdown")
    right.legend()
    return figure
