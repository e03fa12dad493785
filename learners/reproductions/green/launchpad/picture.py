"""The picture of `simkit reproduce launchpad`: points above QoS, figures 7.3 to 7.7 in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from simkit.analysis.plot_style import COLOURS, save_picture
from simkit.learners.reproductions.green.judge import gap
from simkit.learners.reproductions.green.launchpad.runs import ACTIONS, KINDS, Results
from simkit.learners.reproductions.green.studies import LATE_LEAVE, SMALL_POOL
from simkit.learners.reproductions.green.trainings import Task, named
from simkit.learners.studies.study import empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MIXES: Final = {"qos": "QoS", "qos-sjf": "QoS, SJF", "combo": "four rules"}
_COLOURS: Final = dict(zip(ACTIONS, (COLOURS[0], COLOURS[1]), strict=True))


def draw(folder: Path, results: Results) -> None:
    """Write launchpad.svg."""
    save_picture(folder / "launchpad.svg", lambda: _figure(results))


def _figure(results: Results) -> Figure:
    figure = empty_figure(9.0, 4.2)
    left, right = figure.subplots(1, 2)
    plan = results.plan
    combo = {**{label: plan.combo[kind] for kind, label in KINDS.items()},
             "online alone": plan.combo["online"]}  # fmt: skip
    mixes = {
        f"{label}: {_MIXES[data]}": [task]
        for kind, label in KINDS.items()
        for data, task in plan.mixes[kind].items()
    }
    for axes, where, agents, title in (
        (left, LATE_LEAVE, combo, "data of four rules"),
        (right, SMALL_POOL, mixes, "three sets of data"),
    ):
        _panel(axes, results, where.ready, agents)
        axes.set_title(f"{title}; pool of {where.ready}, load {where.load:.0%}", fontsize=9.5)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _panel(axes: Axes, results: Results, pool: int, agents: Mapping[str, Sequence[Task]]) -> None:
    """Draw a row for each rule and kind of agent; each seed is a point with its interval."""
    rules = {
        "SJF": "sjf",
        "FCFS": "fcfs",
        "HVF": "value",
        "threshold rule": results.threshold(pool),
    }
    for row, name in enumerate(rules.values()):
        _point(axes, results, pool, name, row, COLOURS[5], "rules" if row == 0 else None)
    for row, tasks in enumerate(agents.values(), len(rules)):
        for way, actions in enumerate(ACTIONS):
            for seed, task in enumerate(tasks):
                at = row + 0.22 * (2 * way - 1) + 0.1 * (seed - (len(tasks) - 1) / 2)
                first = row == len(rules) and seed == 0
                _point(axes, results, pool, named(task, actions), at, _COLOURS[actions],
                       f"{actions} actions" if first else None)  # fmt: skip
    axes.axvline(0.0, color=COLOURS[5], linewidth=0.7)
    axes.set_yticks(range(len(rules) + len(agents)), labels=[*rules, *agents], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("points of value above QoS")


def _point(
    axes: Axes, results: Results, pool: int, name: str, row: float, colour: str, label: str | None
) -> None:
    found = gap(results.judged[pool], name, "qos")
    reach = [[found.value - found.low], [found.high - found.value]]
    known = bool(np.isfinite(reach).all())
    axes.errorbar([found.value], [row], xerr=reach if known else None, fmt="o", markersize=3.5,
                  color=colour, elinewidth=1.0, label=label)  # fmt: skip
