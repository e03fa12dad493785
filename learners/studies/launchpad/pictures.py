"""The picture of the study of Launchpad: points above QoS, figures 7.3 to 7.7 in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.green.trainings import LATE_LEAVE, SMALL_POOL
from simkit.learners.studies.launchpad import numbers
from simkit.learners.studies.launchpad.numbers import ACTIONS
from simkit.learners.studies.pictures import Figure, distances, empty_figure
from simkit.learners.studies.results import Results

_COLOURS: Final = dict(zip(ACTIONS, (COLOURS[0], COLOURS[1]), strict=True))


def draw(results: Results) -> Figure:
    """Draw points of value above QoS of rules and agents, with both pools."""
    figure = empty_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    for axes, where, agents, title in (
        (left, LATE_LEAVE, numbers.OF_FOUR_RULES, "data of four rules"),
        (right, SMALL_POOL, numbers.OF_THREE_SETS, "three sets of data"),
    ):
        _panel(axes, results, where.ready, agents)
        axes.set_title(f"{title}; pool of {where.ready}, load {where.load:.0%}", fontsize=9.5)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _panel(axes: Any, results: Results, pool: int, agents: Mapping[str, str]) -> None:
    """Draw a row for each rule and kind of agent; each seed is a point with its interval."""
    best = numbers.best_threshold_rule(results, pool)
    rules = {"sjf": "SJF", "fcfs": "FCFS", "value": "HVF", best: "threshold rule"}
    seeds = {arm: len(results.values("value", arm, f"pool {pool}")[0]) for arm in agents}
    points = [("rules", arm, 0, float(row), COLOURS[5]) for row, arm in enumerate(rules)]
    points += [
        (f"{actions} actions", act(arm), seed,
         row + 0.22 * (2 * way - 1) + 0.1 * (seed - (seeds[arm] - 1) / 2), _COLOURS[actions])
        for row, arm in enumerate(agents, len(rules))
        for way, (actions, act) in enumerate(ACTIONS.items())
        for seed in range(seeds[arm])
    ]  # fmt: skip
    named = set[str]()
    for label, arm, seed, at, colour in points:
        asked = f"value | {arm} | pool {pool} | less=qos | seed={seed} | percent"
        value, reach = distances(results, [asked])
        axes.errorbar(value, [at], xerr=reach, fmt="o", markersize=3.5, color=colour,
                      elinewidth=1.0, label=None if label in named else label)  # fmt: skip
        named.add(label)
    axes.axvline(0.0, color=COLOURS[5], linewidth=0.7)
    labels = [*rules.values(), *(label.replace(" and SJF", ", SJF") for label in agents.values())]
    axes.set_yticks(range(len(labels)), labels=labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("points of value above QoS")
