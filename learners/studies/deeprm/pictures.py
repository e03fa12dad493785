"""The pictures of the DeepRM page: loads, learning curves, withheld jobs."""

from __future__ import annotations

from typing import Any

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.deeprm.judge import TETRIS, WITHHOLDING, original
from simkit.learners.studies.deeprm.numbers import (
    CURVE,
    LEARNING,
    best,
    count,
    deeprm,
    lengths,
    loads,
    watched,
)
from simkit.learners.studies.deeprm.trainings import FIXED, RATES, trained_at
from simkit.learners.studies.deeprm.withheld import BEST_TETRIS, of_length
from simkit.learners.studies.pictures import Figure, draw_line, empty_figure, log_ticks
from simkit.learners.studies.results import Results


def draw_loads(results: Results) -> Figure:
    """Draw figure 4: mean slowdown over the load, of the best of each kind."""
    figure, x = empty_figure(), loads(results)
    axes = figure.subplots()
    lines = {
        "Packer": ["Packer"] * len(x),
        "SJF": ["SJF"] * len(x),
        "best Tetris": [best(results, original(load), TETRIS) for load in x],
        "best withholding rule": [best(results, original(load), WITHHOLDING) for load in x],
        "DeepRM": [deeprm(results, load) for load in x],
    }
    for colour, (label, arms) in zip(COLOURS, lines.items(), strict=False):
        asked = [f"slowdown | {arm} | {original(load)}" for arm, load in zip(arms, x, strict=True)]
        draw_line(axes, results, x, asked, band=0.2 if label == "DeepRM" else 0.0, color=colour,
                  label=label, marker="o", markersize=3.5)  # fmt: skip
    axes.set(xlabel="offered load, %", ylabel="mean slowdown")
    log_ticks(axes, [1, 2, 3, 5, 10, 20])
    axes.legend()
    return figure


def draw_learning(results: Results) -> Figure:
    """Draw figure 6: slowdown on unseen job sets, and returns, over the iterations."""
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    arms = [trained_at(load) for load in RATES]
    known = results.arms(CURVE, LEARNING)
    for number, arm in enumerate(arm for arm in arms if arm in known):
        values, items = results.values(CURVE, arm, LEARNING)
        style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.1}
        left.plot(items, values[0], label=arm.removeprefix("trained at "), **style)
        left.plot(items, values[1:].T, **style)
        if arm == trained_at(70):
            values, items = results.values(CURVE, FIXED, LEARNING)
            left.plot(items, values[0], linestyle="--", **style)
    left.set(xlabel="iteration", ylabel="slowdown on unseen job sets")
    log_ticks(left, [1.5, 2, 3, 5, 9])
    left.legend(title="dashed: fixed job sets")
    for colour, (metric, label) in zip(
        COLOURS, (("return_best", "best rollout"), ("return", "mean")), strict=False
    ):
        values, items = results.values(metric, trained_at(70), LEARNING)
        right.plot(items, values[0], color=colour, label=label)
    right.set(xlabel="iteration", ylabel="return of a job set at 70 %")
    right.legend()
    return figure


def draw_withheld(results: Results) -> Figure:
    """Draw figure 7: which lengths are withheld, and slowdown by length."""
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    steps = lengths(results)
    x, held = list(map(int, steps)), [count(results, "withheld_jobs", one) for one in steps]
    left.bar(x, [one / max(sum(held), 1) for one in held], color=COLOURS[0])
    left.set(xlabel="length of the job, steps", ylabel="share of what was withheld")
    for arm, style, colour, label in (
        (watched(results), "o", COLOURS[4], "DeepRM"), (BEST_TETRIS, "s", COLOURS[1], "Tetris"),
    ):  # fmt: skip
        means = [results.mean("slowdown", arm, of_length(one)) for one in steps]
        right.plot(x, means, style, color=colour, label=label)
    right.set(xlabel="length of the job, steps", ylabel="mean slowdown")
    right.legend()
    return figure
