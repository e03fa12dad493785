"""The pictures of `simkit reproduce cocorl`: value against cost, and figures 6.4 to 6.7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simkit.analysis.plot_style import COLOURS, save_picture
from simkit.learners.reproductions.green.cocorl.runs import HALF, LOADS, RULES, Results
from simkit.learners.reproductions.green.judge import THRESHOLDS, mean, threshold_of
from simkit.learners.reproductions.green.trainings import Task, drawn
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS: Final[Mapping[str, str]] = {
    "value": "value ratio", "completed": "jobs completed", "utilisation": "utilisation",
    "cost": "waiting jobs",
}  # fmt: skip
"""Column → label, in the order of figures 6.4 to 6.7."""


def draw_pictures(folder: Path, results: Results) -> None:
    """Write cocorl-frontier.svg and cocorl-loads.svg."""
    save_picture(folder / "cocorl-frontier.svg", lambda: _frontier(results))
    save_picture(folder / "cocorl-loads.svg", lambda: _loads(results))


def _frontier(results: Results) -> Figure:
    table, plan = results.judged, results.plan
    figure = empty_figure(8.0, 4.4)
    axes = figure.subplots()
    rules = [threshold_of(theta) for theta in THRESHOLDS]
    costs, values = _points(results, rules)
    axes.plot(costs, values, color=COLOURS[5], marker=".", linewidth=1.0, label="threshold rules")
    for theta, cost, value in zip(THRESHOLDS, costs, values, strict=True):
        if theta > 0 and round(20 * theta) % 2 == 0:
            axes.annotate(f"{theta:.1f}", (cost, value), (0, -11), textcoords="offset points",
                          fontsize=7.5, color=COLOURS[5], ha="center")  # fmt: skip
    for name, (right, side) in {
        "fcfs": (6, "left"),
        "sjf": (-6, "right"),
        "value": (6, "left"),
    }.items():
        at = mean(table, name, "cost"), mean(table, name)
        axes.plot(*at, color=COLOURS[5], marker="x", linestyle="")
        axes.annotate(RULES[name], at, (right, -3), textcoords="offset points", fontsize=8, ha=side)
    for colour, tasks, label in (
        (COLOURS[0], plan.free, "without a limit"),
        (COLOURS[1], plan.half, f"limit {100 * HALF:.0f} %"),
        (COLOURS[4], plan.slow, f"limit {100 * HALF:.0f} %, small integral gain"),
        (COLOURS[2], plan.others, "other limits, by share"),
        (COLOURS[3], plan.reject, "with reject"),
    ):
        _agents(axes, results, tasks, colour, label)
    for task in plan.others:
        at = mean(table, task.name, "cost"), mean(table, task.name)
        axes.annotate(f"{100 * task.arguments['cost_share']:.0f} %", at, (5, 4),
                      textcoords="offset points", fontsize=7.5, color=COLOURS[2])  # fmt: skip
    axes.set(xlabel="cost: waiting jobs, mean over the hours", ylabel="value ratio")
    axes.legend(fontsize=8)
    return figure


def _agents(axes: Axes, results: Results, tasks: Sequence[Task], colour: str, label: str) -> None:
    """Draw agents as filled circles, and with drawn actions as empty ones."""
    names = [task.name for task in tasks]
    axes.plot(*_points(results, names), color=colour, marker="o", linestyle="", label=label)
    axes.plot(*_points(results, [drawn(name) for name in names]), color=colour, marker="o",
              markerfacecolor="none", linestyle="")  # fmt: skip


def _points(results: Results, names: Sequence[str]) -> tuple[list[float], list[float]]:
    return (
        [mean(results.judged, name, "cost") for name in names],
        [mean(results.judged, name) for name in names],
    )


def _loads(results: Results) -> Figure:
    figure = empty_figure(8.0, 6.0)
    panels = figure.subplots(2, 2).ravel()
    order = (5, 4, 2, 3, 0, 1)
    for axes, (column, label) in zip(panels, PANELS.items(), strict=True):
        for number, (name, who) in zip(order, results.compared.items(), strict=True):
            values = [mean(results.at(load), name, column) for load in LOADS]
            width = 1.0 if name in RULES else 1.8
            axes.plot(LOADS, values, color=COLOURS[number], label=who, linewidth=width,
                      marker=".")  # fmt: skip
        axes.set(xlabel="load, %", ylabel=label, xticks=LOADS)
    panels[-1].set_yscale("log")
    ticks = [0.01, 0.03, 0.1, 0.3, 1, 3]
    panels[-1].set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    panels[-1].minorticks_off()
    panels[0].legend(fontsize=8)
    return figure
