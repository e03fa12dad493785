"""The pictures: losses of the networks, burst times, slowdown by class and over the load."""

from __future__ import annotations

import numpy as np

from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.learners.studies.pictures import Figure, draw_line, empty_figure, log_ticks
from simkit.learners.studies.results import Results
from simkit.learners.studies.schedqrm.classifiers import NETWORK, PAPER
from simkit.learners.studies.schedqrm.judge import BEST_RULE, REFERENCE, case_of
from simkit.learners.studies.schedqrm.numbers import LABELS, by_class
from simkit.learners.studies.schedqrm.trainings import CLASSES, LOADS, PPO, WHOLE
from simkit.traces.elf_bursts.measurements import LONGEST_S


def draw_losses(results: Results) -> Figure:
    """Draw the paper's figure 3: the mean loss of each pass, a line for each draw."""
    figure = empty_figure(10.4, 3.6)
    for axes, model, colour in zip(figure.subplots(1, 2), (PAPER, NETWORK), COLOURS, strict=False):
        curves, passes = results.values("loss", model, "training")
        axes.plot(passes, curves.T, color=colour, linewidth=1.2)
        axes.set_title(model, fontsize=9.5)
        axes.set_xlabel("passes over the examples")
        axes.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("mean cross-entropy")
    return figure


def draw_times(results: Results) -> Figure:
    """Draw measured against predicted burst times of the models that predict one."""
    models = results.arms("run_time_s", "times")
    figure = empty_figure(4.4 * len(models), 4.4)
    for axes, model in zip(np.atleast_1d(figure.subplots(1, len(models))), models, strict=True):
        x, y = (results.values(name, model, "times")[0][0] for name in ("measured_s", "run_time_s"))
        axes.scatter(x, y, s=5, alpha=0.35, color=COLOURS[0], linewidths=0, rasterized=True)
        axes.plot((0, LONGEST_S), (0, LONGEST_S), color=SOFT, linewidth=0.9)
        ticks = np.linspace(0, LONGEST_S, 6)
        axes.set(xlim=(0, LONGEST_S), ylim=(0, LONGEST_S * 1.1), xticks=ticks, yticks=ticks,
                 xlabel="measured, s", ylabel="predicted, s")  # fmt: skip
        axes.set_title(model, fontsize=9.5)
    return figure


def draw_classes(results: Results) -> Figure:
    """Draw the paper's figure 4: mean and largest slowdown by class."""
    figure, number = empty_figure(), np.arange(1, CLASSES + 1)
    for axes, arm in zip(figure.subplots(1, 2, sharey=True), (REFERENCE, WHOLE), strict=True):
        mean, largest = (by_class(results, arm, metric) for metric in ("mean", "largest"))
        axes.bar(number, mean, color=COLOURS[0])
        axes.errorbar(number, mean, [0.0 * mean, largest - mean], fmt="none",
                      ecolor=COLOURS[1], elinewidth=1.0, capsize=2)  # fmt: skip
        axes.set(xlabel="class of burst time", xticks=number)
        axes.set_title(LABELS.get(arm, arm), fontsize=9.5)
    figure.axes[0].set_ylabel("slowdown: mean, and the largest")
    return figure


def draw_loads(results: Results) -> Figure:
    """Draw the paper's figure 5, the slowdown over the load, and its difference to SJF in order."""
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    arms = ("Packer", "Tetris", "SJF", REFERENCE, BEST_RULE, WHOLE)
    for colour, arm in zip(COLOURS, arms, strict=True):
        asked = (f"slowdown | {arm} | {case_of(load)}" for load in LOADS)
        draw_line(left, results, LOADS, asked, color=colour, label=LABELS.get(arm, arm),
                  linewidth=1.3)  # fmt: skip
    left.set(xlabel="load, %", ylabel="mean slowdown")
    log_ticks(left, [1, 2, 3, 5, 10])
    left.legend(fontsize=8)
    for arm, colour in ((BEST_RULE, COLOURS[4]), (WHOLE, COLOURS[5]), (PPO, COLOURS[3])):
        asked = (f"slowdown | {arm} | {case_of(load)} | less={REFERENCE}" for load in LOADS)
        draw_line(right, results, LOADS, asked, band=0.12, color=colour, linewidth=1.2,
                  label=LABELS.get(arm, arm))  # fmt: skip
    right.axhline(0.0, color=COLOURS[5], linewidth=0.7)
    right.set(xlabel="load, %", ylabel="slowdown less that of SJF in order")
    right.legend(fontsize=8)
    return figure
