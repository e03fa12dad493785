"""The tables, numbers and verdicts of the Sofia page: learning curves, savings, figure 4."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Estimate, estimate
from simkit.arrays import Floats
from simkit.learners.studies.page import CONFIRMED, Rows, answer, grid, judged
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.judge import CUT, SJF
from simkit.learners.studies.sofia.trainings import COST, LOOKS, METHODS, NATURAL, RATE, WAYS

SLOWDOWN: Final = "held_out_slowdown"
RETURN: Final = "held_out_return"
HERE: Final = f"{RATE:g}"
"""The case of the rate at which agents are trained."""
OTHERS: Final = [arm for arm in METHODS if arm != NATURAL]

# --- learning curves ------------------------------------------------------------------------------


def curve(results: Results, metric: str, arm: str) -> Floats:
    """Return (S, L) values of a metric by seed and evaluation, in the order of the training."""
    cases = pl.col("case").is_in(["untrained", "training", "trained"])
    mine = results.rows.filter(cases, metric=metric, arm=arm).sort("seed", "item")
    return mine["value"].to_numpy().reshape(mine["seed"].n_unique(), -1)


def smooth(values: Floats) -> Floats:
    """Return (S, L) means of each value and the `LOOKS` - 1 before it, fewer at the beginning."""
    sums = np.cumsum(values, axis=1)
    sums[:, LOOKS:] = sums[:, LOOKS:] - sums[:, :-LOOKS]
    result: Floats = sums / np.minimum(np.arange(1, values.shape[1] + 1), LOOKS)
    return result


def samples_to(level: float, values: Floats, decisions: Floats) -> float:
    """Return the decisions until the first evaluation at or below a level; nan: none is.

    Args:
        level: the highest value that counts.
        values: (L,) of the evaluations, smoothed.
        decisions: (L,) taken in training until each of them.
    """
    met = np.flatnonzero(values <= level)
    return float(decisions[met[0]]) if len(met) else np.nan


def change(results: Results, metric: str, arm: str) -> Estimate:
    """Return by how many percent training changes the size of a value, with seeds' interval."""
    ends, begins = (
        np.abs(results.values(metric, arm, case)[0].mean(axis=1, keepdims=True))
        for case in ("trained", "untrained")
    )
    return estimate(ends, np.ones(1), begins, relation="ratio").scaled(100, -100)


def saving(results: Results, arm: str, other: str) -> Estimate:
    """Return the samples that one arm needs for the same return over those of another.

    Seed by seed, that return is the worse of the two final ones, and each training's samples count
    until it first reaches it. The mean over seeds is geometric, the interval Student's.
    """
    losses = [-smooth(curve(results, RETURN, one)) for one in (arm, other)]
    levels = np.maximum(losses[0][:, -1], losses[1][:, -1])
    mine, theirs = (
        [max(samples_to(*seed), 1.0) for seed in zip(levels, values, decisions, strict=True)]
        for values, decisions in zip(
            losses, (curve(results, "decisions", one) for one in (arm, other)), strict=True
        )
    )
    shares = np.array(mine) / theirs
    found = estimate(np.log(shares)[:, None], np.ones(1))
    low, high = (None if x is None else float(np.exp(x)) for x in (found.low, found.high))
    return Estimate(float(np.exp(found.value)), low, high, tuple(shares.tolist()))


# --- tables ---------------------------------------------------------------------------------------


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


def costs(results: Results) -> Rows:
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


def by_rate(results: Results, metric: str) -> Rows:
    """Return a metric by rate of all who are judged at all of them."""
    form = " | percent : .0f" if metric.startswith("share") else ""
    columns = {rate: f"{metric} | {{}} | {rate}{form}" for rate in rates(results)}
    return grid(results, results.arms("slowdown", rates(results)[0]), columns)


def loads(results: Results) -> Rows:
    """Return L at the beginning of training and at its end."""
    return grid(results, results.arms("load", "last iteration"), {
        f"{where}, {case}": f"{metric} | {{}} | {case}"
        for where, metric in (("all steps", "load"), (f"step {CUT}", "last_load"))
        for case in ("first iteration", "last iteration")
    }, corner="method")  # fmt: skip


# --- numbers and verdicts -------------------------------------------------------------------------


def flattered(results: Results) -> str:
    """Return how many look better by the study's count than with all jobs counted."""
    arms = results.arms("slowdown", HERE)
    at_cut, everyone = (
        np.array([results.mean(metric, arm, HERE) for arm in arms])
        for metric in ("slowdown at the cut", "slowdown")
    )
    return f"{(at_cut < everyone).sum()} of {len(arms)}"


def unfinished(results: Results) -> int:
    """Return how many jobs are left when all have been played to the end."""
    return int(results.rows.filter(metric="unfinished")["value"].sum())


def change_of_slowdown(results: Results) -> Estimate:
    """Return by how many percent the natural gradient changes the slowdown."""
    return change(results, SLOWDOWN, NATURAL)


def samples(results: Results, other: str) -> Estimate:
    """Return the natural gradient's samples in percent of another method's."""
    return saving(results, NATURAL, other).scaled(100.0)


def _falls(results: Results, metric: str) -> bool:
    return judged(change(results, metric, NATURAL), "<", 0.0) == CONFIRMED


def diverges(results: Results) -> bool:
    """Return whether the natural gradient does not surely lower the slowdown."""
    return not _falls(results, SLOWDOWN)


def return_grows(results: Results) -> bool:
    """Return whether it does raise the return, which is negative."""
    return _falls(results, RETURN)


def saves_samples(results: Results, other: str) -> str:
    """Return the verdict on whether it takes fewer samples than another method."""
    return judged(saving(results, NATURAL, other), "<", 1.0, 1.0)


FUNCTIONS: Final = (
    pilots, ends, levels, savings, costs, figure_4, by_rate, loads, flattered, unfinished,
    change_of_slowdown, samples, diverges, return_grows, saves_samples,
)  # fmt: skip
