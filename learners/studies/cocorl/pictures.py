"""The pictures of the study of CoCoRL: value against cost, and figures 6.4 to 6.7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.cocorl import numbers
from simkit.learners.studies.cocorl.numbers import COMPARED, FRONTIER, LOADS, TRAINED
from simkit.learners.studies.green.judge import HEURISTICS, THRESHOLDS
from simkit.learners.studies.green.trainings import drawn
from simkit.learners.studies.pictures import Figure, draw_line, empty_figure, log_ticks
from simkit.learners.studies.results import Results

_OTHERS: Final = tuple(FRONTIER)[2:]
_KINDS: Final[Mapping[str, Sequence[str]]] = {
    "without a limit": ["ppo"], "limit 50 %": ["half-of-ppo"], "other limits, by share": _OTHERS,
    "with reject": ["ppo-reject", "half-of-ppo-reject"],
    "limit 50 %, small integral gain": ["half-of-ppo-slow"],
}  # fmt: skip


def draw_frontier(results: Results) -> Figure:
    """Draw value against cost of rules and agents; empty circles draw their actions."""
    figure = empty_figure(8.0, 4.4)
    axes, ink = figure.subplots(), COLOURS[5]

    def note(text: str, at: tuple[float, float], by: tuple[int, int], size: float = 7.5,
             **told: Any) -> None:  # fmt: skip
        axes.annotate(text, at, by, textcoords="offset points", fontsize=size, **told)

    costs, values = _points(results, numbers.THRESHOLD_RULES)
    axes.plot(costs, values, color=ink, marker=".", linewidth=1.0, label="threshold rules")
    for theta, *at in zip(THRESHOLDS, costs, values, strict=True):
        if theta > 0 and round(20 * theta) % 2 == 0:
            note(f"{theta:.1f}", (at[0], at[1]), (0, -11), color=ink, ha="center")
    for arm, right, side in (("fcfs", 6, "left"), ("sjf", -6, "right"), ("value", 6, "left")):
        at = [found[0] for found in _points(results, [arm])]
        axes.plot(*at, color=ink, marker="x", linestyle="")
        note(HEURISTICS[arm], (at[0], at[1]), (right, -3), 8, ha=side)
    for colour, (label, arms) in zip(COLOURS, _KINDS.items(), strict=False):
        axes.plot(*_points(results, arms), color=colour, marker="o", linestyle="", label=label)
        axes.plot(*_points(results, [drawn(arm) for arm in arms]), color=colour, marker="o",
                  markerfacecolor="none", linestyle="")  # fmt: skip
    for arm in _OTHERS:
        at = [found[0] for found in _points(results, [arm])]
        note(FRONTIER[arm], (at[0], at[1]), (5, 4), color=COLOURS[2])
    axes.set(xlabel="cost: waiting jobs, mean over the hours", ylabel="value ratio")
    axes.legend(fontsize=8)
    return figure


def _points(results: Results, arms: Iterable[str]) -> tuple[list[float], list[float]]:
    """Return costs and values of each training of some arms."""
    costs, values = (
        [float(one) for arm in arms for one in results.values(metric, arm, TRAINED)[0].mean(axis=1)]
        for metric in ("cost", "value")
    )
    return costs, values


def draw_loads(results: Results) -> Figure:
    """Draw each metric over the load."""
    figure = empty_figure(8.0, 6.0)
    panels = figure.subplots(2, 2).ravel()
    loads, order = [int(load) for load in LOADS], (5, 4, 2, 3, 0, 1)
    for axes, (metric, label) in zip(panels, numbers.PANELS.items(), strict=True):
        for number, arm in zip(order, COMPARED, strict=False):
            asked = (f"{metric} | {arm} | {load} | {numbers.AT_LOAD}" for load in LOADS)
            draw_line(axes, results, loads, asked, color=COLOURS[number], label=COMPARED[arm],
                      marker=".", linewidth=1.0 if arm in HEURISTICS else 1.8)  # fmt: skip
        axes.set(xlabel="load, %", ylabel=label.removesuffix(", %"), xticks=loads)
    log_ticks(panels[-1], [0.01, 0.03, 0.1, 0.3, 1, 3])
    panels[0].legend(fontsize=8)
    return figure
