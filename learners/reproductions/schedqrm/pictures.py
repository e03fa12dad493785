"""The pictures of the scheduling: slowdown by class (figure 4) and over the load (figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from simkit.analysis.plot_style import COLOURS, save_picture
from simkit.learners.reproductions.schedqrm.judge import REFERENCE, by_class, gap
from simkit.learners.reproductions.schedqrm.study import CLASSES, LOADS, WHOLE
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASS_LOADS: Final = (100, 150, 200)
"""Loads in figure 4."""
_LINES: Final[Mapping[str, str]] = {
    "packer": "Packer", "tetris": "Tetris", "sjf": "SJF", REFERENCE: "SJF in order",
    "earliest-finish": "earliest finish", WHOLE: "deep Q-network",
}  # fmt: skip


def draw_scheduling(folder: Path, judged: pl.DataFrame) -> None:
    """Write schedqrm-classes.svg and schedqrm-loads.svg."""
    save_picture(folder / "schedqrm-classes.svg", lambda: _classes(judged))
    save_picture(folder / "schedqrm-loads.svg", lambda: _loads(judged))


def _classes(judged: pl.DataFrame) -> Figure:
    figure = empty_figure()
    for axes, name in zip(figure.subplots(1, 2, sharey=True), (REFERENCE, WHOLE), strict=True):
        found = by_class(judged, name, CLASS_LOADS)
        axes.bar(found["class"], found["mean"], color=COLOURS[0])
        above = (found["largest"] - found["mean"]).to_numpy()
        axes.errorbar(found["class"], found["mean"], [0.0 * above, above], fmt="none",
                      ecolor=COLOURS[1], elinewidth=1.0, capsize=2)  # fmt: skip
        axes.set(xlabel="class of burst time", xticks=range(1, CLASSES + 1))
        axes.set_title(_LINES[name], fontsize=9.5)
    figure.axes[0].set_ylabel("slowdown: mean, and the largest")
    return figure


def _loads(judged: pl.DataFrame) -> Figure:
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    means = judged.group_by("candidate", "load").agg(pl.col("slowdown").mean()).sort("load")
    for colour, (name, label) in zip(COLOURS, _LINES.items(), strict=True):
        here = means.filter(candidate=name)
        left.plot(here["load"], here["slowdown"], color=colour, label=label, linewidth=1.3)
    left.set(xlabel="load, %", ylabel="mean slowdown", yscale="log")
    left.set_yticks([1, 2, 3, 5, 10], labels=["1", "2", "3", "5", "10"])
    left.minorticks_off()
    left.legend(fontsize=8)
    seeds = sorted(judged.filter(candidate=WHOLE)["seed"].unique())
    for name, colour in (("earliest-finish", COLOURS[4]), (WHOLE, COLOURS[5]), ("PPO", COLOURS[3])):
        if judged.filter(candidate=name).is_empty():
            continue
        numbers = [0] if name == "earliest-finish" else seeds
        for number in numbers:
            gaps = [gap(judged, name, number, load) for load in LOADS]
            right.plot(LOADS, [one.value for one in gaps], color=colour, linewidth=1.2,
                       label=_LINES.get(name, name) if number == 0 else None)  # fmt: skip
            right.fill_between(LOADS, [one.low for one in gaps], [one.high for one in gaps],
                               color=colour, alpha=0.12, linewidth=0)  # fmt: skip
    right.axhline(0.0, color=COLOURS[5], linewidth=0.7)
    right.set(xlabel="load, %", ylabel="slowdown less that of SJF in order")
    right.legend(fontsize=8)
    return figure
