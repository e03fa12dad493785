"""The numbers and tables of the Sofia page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from simkit.learners.studies.page import Rows, answer, grid
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.curves import (
    RETURN,
    SLOWDOWN,
    change,
    curve,
    samples_to,
    saving,
    smooth,
)
from simkit.learners.studies.sofia.judge import CUT, SJF
from simkit.learners.studies.sofia.trainings import COST, METHODS, NATURAL, RATE, WAYS

HERE: Final = f"{RATE:g}"
"""The case of the rate at which agents are trained."""
OTHERS: Final = [arm for arm in METHODS if arm != NATURAL]


def rates(results: Results) -> list[str]:
    """Return the rates of jobs at which everyone is judged, the lowest first."""
    return sorted(results.rows.filter(metric="jobs")["case"].unique(), key=float)


def pilots(results: Results) -> Rows:
    """Return the values that pilots tried, and the one taken."""

    def tried(arm: str) -> str:
        ends = {v: results.mean(SLOWDOWN, arm, f"pilot with {v:g}") for v in METHODS[arm].values}
        return ", ".join(f"{value:g}: {end:.2f}" for value, end in ends.items())

    return grid(results, list(METHODS), {
        "tuned": lambda arm: f"`{METHODS[arm].tuned}`",
        "slowdown at the end of the pilot": tried,
        "taken": lambda arm: f"{results.facts['tuned'][arm]:g}",
    }, corner="method")  # fmt: skip


def ends(results: Results) -> Rows:
    """Return the final numbers of each method."""
    samples = {arm: curve(results, "decisions", arm) for arm in METHODS}
    return grid(results, list(METHODS), {
        "slowdown untrained": f"{SLOWDOWN} | {{}} | untrained",
        "trained": f"{SLOWDOWN} | {{}} | trained : .2f ±",
        "by seed": f"{SLOWDOWN} | {{}} | trained : seeds .2f",
        "return trained": f"{RETURN} | {{}} | trained : ,.0f",
        "million decisions": lambda arm: f"{samples[arm][:, -1].mean() / 1e6:.2f}",
    }, corner="method")  # fmt: skip


def levels(results: Results) -> Rows:
    """Return the samples that each method needs to reach some slowdowns, in thousands."""
    curves = {arm: smooth(curve(results, SLOWDOWN, arm)) for arm in METHODS}
    highest = min(values[:, 0].min() for values in curves.values())
    lowest = min(values[:, -1].min() for values in curves.values())

    def taken(level: float, arm: str) -> str:
        pairs = zip(curves[arm], curve(results, "decisions", arm), strict=True)
        found = [samples_to(level, *one) / 1000 for one in pairs]
        known = [one for one in found if np.isfinite(one)]
        some = "" if len(known) == len(found) else f" ({len(known)} of {len(found)})"
        return f"{np.mean(known):,.0f}{some}" if known else "–"

    marks = np.arange(np.floor(2 * highest) / 2, lowest - 1e-9, -0.5).tolist()
    columns = {f"{level:.1f}": partial(taken, level) for level in marks}
    return grid(results, list(METHODS), columns, corner="method")


def savings(results: Results) -> Rows:
    """Return the natural gradient's samples as a share of each other method's."""
    last = {arm: smooth(curve(results, RETURN, arm))[:, -1] for arm in METHODS}
    found = {arm: saving(results, NATURAL, arm) for arm in OTHERS}
    return grid(results, OTHERS, {
        "geometric mean": lambda arm: f"{found[arm]:.2f}",
        "by seed": lambda arm: answer(found[arm], "seeds .2f"),
        "ends at least as well": lambda arm: (
            f"{(last[NATURAL] >= last[arm]).sum()} of {len(last[arm])}"
        ),
    }, corner="other method")  # fmt: skip


def cost(results: Results) -> Rows:
    """Return the processor time of an iteration."""
    us = {arm: 1e3 * results.mean("processor_ms", arm, COST) / results.mean("decisions", arm, COST)
          for arm in WAYS}  # fmt: skip
    return grid(results, list(WAYS), {
        "ms an iteration": f"processor_ms | {{}} | {COST} : .0f",
        "ratio": f"processor_ms | {{}} | {COST} | over=gradient : .2f ±",
        "decisions": f"decisions | {{}} | {COST} : ,.0f",
        "µs a decision": lambda arm: f"{us[arm]:.1f}",
        "ratio a decision": lambda arm: f"{us[arm] / us['gradient']:.2f}",
    }, corner="update")  # fmt: skip


def figure_4(results: Results) -> Rows:
    """Return both counts at the rate of the training, the best by all jobs first."""
    return grid(results, results.ranked("slowdown", HERE), {
        "all jobs": f"slowdown | {{}} | {HERE} : .2f ±",
        "less SJF, reserving": f"slowdown | {{}} | {HERE} | less={SJF} : .2f ±",
        "by seed": f"slowdown | {{}} | {HERE} : seeds .2f",
        f"finished in {CUT} steps": f"slowdown at the cut | {{}} | {HERE} : .2f ±",
        "their share, %": f"share at the cut | {{}} | {HERE} | percent : .0f",
    })  # fmt: skip


def by_rate(results: Results, asked: str) -> Rows:
    """Return a metric by rate of all who are judged at all of them."""
    columns = {rate: asked.replace("RATE", rate) for rate in rates(results)}
    return grid(results, results.arms("slowdown", rates(results)[0]), columns)


def loads(results: Results) -> Rows:
    """Return L at the beginning of training and at its end."""
    return grid(results, results.arms("load", "last iteration"), {
        f"{where}, {case}": f"{metric} | {{}} | {case}"
        for where, metric in (("all steps", "load"), (f"step {CUT}", "last_load"))
        for case in ("first iteration", "last iteration")
    }, corner="method")  # fmt: skip


TABLES: Final[Mapping[str, Callable[[Results], Rows]]] = {
    **{table.__name__: table for table in (pilots, ends, levels, savings, cost, figure_4, loads)},
    "all jobs": partial(by_rate, asked="slowdown | {} | RATE"),
    "at the cut": partial(by_rate, asked="slowdown at the cut | {} | RATE"),
    "shares": partial(by_rate, asked="share at the cut | {} | RATE | percent : .0f"),
}


def flattered(results: Results) -> str:
    """Return how many look better by the study's count than with all jobs counted."""
    arms = results.arms("slowdown", HERE)
    at_cut, everyone = (
        np.array([results.mean(metric, arm, HERE) for arm in arms])
        for metric in ("slowdown at the cut", "slowdown")
    )
    return f"{(at_cut < everyone).sum()} of {len(arms)}"


NUMBERS: Final[Mapping[str, Callable[[Results], Any]]] = {
    "flattered": flattered,
    "unfinished": lambda results: int(results.rows.filter(metric="unfinished")["value"].sum()),
    "change of the slowdown, %": partial(change, metric=SLOWDOWN, arm=NATURAL),
    **{
        f"samples, % of {arm}": partial(saving, arm=NATURAL, other=arm, factor=100.0)
        for arm in OTHERS
    },
}
