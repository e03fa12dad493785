"""What the pages of the comparison with DeepRM call by name, and their pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.deeprm.judge import FAMILIES, RESERVING, TETRIS, WITHHOLDING, seeded
from simkit.learners.studies.deeprm.trainings import ALL, FIXED, FULL, RATES, trained_at
from simkit.learners.studies.deeprm.withheld import BEST_TETRIS, of_length
from simkit.learners.studies.pictures import curve, line, panel, picture
from simkit.learners.studies.results import Best, Results

BEST: Final = {
    "best baseline": Best("slowdown", ("SJF", "Packer", *TETRIS)),
    "best Tetris": Best("slowdown", tuple(TETRIS)),
    "best reserving": Best("slowdown", tuple(RESERVING)),
    "best withholding": Best("slowdown", tuple(WITHHOLDING)),
    "best DeepRM": Best("slowdown", tuple(map(trained_at, RATES))),
    "best family": Best("slowdown", tuple(FAMILIES)),
    "watched": Best("jobs", tuple(map(trained_at, RATES))),
}
"""Who stands for whom, with Tetris at every knob; *watched*: the agents of figure 7."""
LEARNING: Final = "learning curve"
"""The case of the curves; an item is an iteration."""
CURVE: Final = "held_out_slowdown"
SHORT: Final = 3
"""The most steps of a short job of this workload."""
MOST_ABOVE: Final = 1.0
"""The most, in per cent, by which our agent for all loads may be above the best rule."""
BELOW: Final = range(50, 131)
"""At these loads it must be below the best rule, the interval too."""


def our_bars(results: Results) -> Iterator[dict[str, str]]:
    """Yield for each load the best rule, with its numbers, and whether our agent meets its bar."""
    for load in results.numbers("[x] %, more sets"):
        sets = seeded(int(load))
        chosen = results.facts["chosen rules"][sets]
        over = results.ask(f"slowdown | {ALL} | {sets} | over=best family | percent")
        strict = int(load) in BELOW
        met = over.surely_below(0.0) if strict else over.value <= MOST_ABOVE
        yield {
            "x": load, "sets": sets, "rule": chosen[results.named("best family", sets)],
            "headroom": ", ".join(chosen["headroom"].split()[1::2]),
            "bar": "below it, the interval too" if strict
            else f"at most {MOST_ABOVE:.0f} % above it",
            "met": "yes" if met else "**no**",
        }  # fmt: skip


def first_below_tetris(results: Results) -> int | str:
    """Return the first iteration at 70 % whose mean over seeds is below the best Tetris."""
    tetris = results.mean("slowdown", "best Tetris", "70 %")
    _, items = results.values(CURVE, trained_at(70), LEARNING)
    below = items[results.by_item(CURVE, trained_at(70), LEARNING) < tetris]
    return int(below[0]) if len(below) else "–"


def soon_better(results: Results) -> bool:
    """Return whether DeepRM is better than Tetris within 200 iterations."""
    first = first_below_tetris(results)
    return isinstance(first, int) and first <= 200


def _counts(results: Results, metric: str) -> dict[int, float]:
    """Return the length of jobs → their number over all sets and seeds."""
    return {
        int(steps): results.ask(f"{metric} | watched | {of_length(steps)} | total").value
        for steps in results.numbers(of_length("[x]"))
    }


def long_jobs(results: Results, metric: str) -> float:
    """Return the share of jobs longer than `SHORT` among all, or among those withheld."""
    counts = _counts(results, metric)
    long = sum(count for steps, count in counts.items() if steps > SHORT)
    return long / max(sum(counts.values()), 1)


def nearly_always_long(results: Results) -> bool:
    """Return whether more than 90 % of the jobs that are withheld are long."""
    return long_jobs(results, "withheld_jobs") > 0.9


def _draw_withheld(axes: Any, results: Results) -> None:
    counts = _counts(results, "withheld_jobs")
    held = np.array(list(counts.values())).round()
    axes.bar(list(counts), held / max(held.sum(), 1), color=COLOURS[0])


_LOADS: Final = {
    "Packer": "Packer", "SJF": "SJF", "best Tetris": "best Tetris",
    "best withholding": "best withholding rule", "best DeepRM": "DeepRM",
}  # fmt: skip
_SHORT_70: Final = (trained_at(70), LEARNING)
_LENGTH: Final = "length of the job, steps"

PICTURES: Final = {
    "deeprm-load": picture(panel(
        *(line(f"slowdown | {arm} | [x] %", band=0.2 * (label == "DeepRM"), color=colour,
               label=label, marker="o", markersize=3.5)
          for colour, (arm, label) in zip(COLOURS, _LOADS.items(), strict=False)),
        xlabel="offered load, %", ylabel="mean slowdown", log=[1, 2, 3, 5, 10, 20], legend={},
    )),
    "deeprm-learning": picture(
        panel(
            *(curve(CURVE, arm, LEARNING, label, color=colour, linewidth=1.1, linestyle=style)
              for load, colour in zip(FULL.trained, COLOURS, strict=False)
              for arm, label, style in [
                  (trained_at(load), f"{load} %", "-"), *([(FIXED, None, "--")] * (load == 70))
              ]),
            xlabel="iteration", ylabel="slowdown on unseen job sets", log=[1.5, 2, 3, 5, 9],
            legend={"title": "dashed: fixed job sets"},
        ),
        panel(
            curve("return_best", *_SHORT_70, "best rollout", color=COLOURS[0], seeds=1),
            curve("return", *_SHORT_70, "mean", color=COLOURS[1], seeds=1),
            xlabel="iteration", ylabel="return of a job set at 70 %", legend={},
        ),
    ),
    "deeprm-withheld": picture(
        panel(_draw_withheld, xlabel=_LENGTH, ylabel="share of what was withheld"),
        panel(
            *(line(f"slowdown | {arm} | {of_length('[x]')}", color=colour, label=label,
                   marker=marker, linestyle="None")
              for arm, marker, colour, label in (
                  ("watched", "o", COLOURS[4], "DeepRM"), (BEST_TETRIS, "s", COLOURS[1], "Tetris"),
              )),
            xlabel=_LENGTH, ylabel="mean slowdown", legend={},
        ),
    ),
}  # fmt: skip
"""Figures 4, 6 and 7."""
