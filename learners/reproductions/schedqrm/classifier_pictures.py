"""The pictures of burst times: the loss of the networks, and true against predicted times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.learners.reproductions.schedqrm.classifiers import (
    LEARNED,
    NETWORK,
    PAPER,
    RANDOM,
    Judged,
)
from simkit.learners.studies.study import empty_figure
from simkit.traces.elf_bursts.measurements import LONGEST_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 3000
"""Programs to draw."""


def draw_losses(judged: Judged) -> Figure:
    """Draw figure 3: the mean loss of each pass over the examples, a line for each seed."""
    figure = empty_figure(10.4, 3.6)
    for axes, model, colour in zip(figure.subplots(1, 2), (PAPER, NETWORK), COLOURS, strict=False):
        here = judged.losses.filter(split=RANDOM, model=model, share=1.0)
        for curve in here.partition_by("seed", maintain_order=True):
            axes.plot(curve["pass"], curve["loss"], color=colour, linewidth=1.2)
        axes.set_title(model, fontsize=9.5)
        axes.set_xlabel("passes over the examples")
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("mean cross-entropy")
    return figure


def draw_times(judged: Judged) -> Figure:
    """Draw true against predicted burst times of the first random split; classes are squares."""
    found = {model: judged.of(RANDOM, model)[0].drop_nulls("run_time_s") for model in LEARNED}
    timed = {model: part for model, part in found.items() if part.height}
    figure = empty_figure(4.4 * len(timed), 4.4)
    for axes, (model, part) in zip(
        np.atleast_1d(figure.subplots(1, len(timed))), timed.items(), strict=True
    ):
        _scatter(axes, part.head(SHOWN))
        axes.set_title(model, fontsize=9.5)
    return figure


def _scatter(axes: Any, part: pl.DataFrame) -> None:
    axes.scatter(part["run_time_s_measured"], part["run_time_s"], s=5, alpha=0.35,
                 color=COLOURS[0], linewidths=0, rasterized=True)  # fmt: skip
    axes.plot((0, LONGEST_S), (0, LONGEST_S), color=SOFT, linewidth=0.9)
    ticks = np.linspace(0, LONGEST_S, 6)
    axes.set(xlim=(0, LONGEST_S), ylim=(0, LONGEST_S * 1.1), xticks=ticks, yticks=ticks,
             xlabel="measured, s", ylabel="predicted, s")  # fmt: skip
