"""What the page of the Sofia study calls by name: rows, numbers, verdicts, pictures."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Estimate, estimate, seed_interval
from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.arrays import Floats
from simkit.learners.studies.page import CONFIRMED, judged
from simkit.learners.studies.pictures import Figure, distances, empty_figure
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.judge import HEURISTICS, PACKER, SJF
from simkit.learners.studies.sofia.trainings import COST, LOOKS, METHODS, NATURAL, RATE

SLOWDOWN: Final = "held_out_slowdown"
RETURN: Final = "held_out_return"
HERE: Final = f"{RATE:g}"
"""The case of the rate at which agents are trained."""

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


def saving(results: Results, arm: str, other: str, scale: str = "1") -> Estimate:
    """Return scale × the samples that one arm needs for the same return over those of another.

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
    whole = Estimate(float(np.exp(found.value)), low, high, tuple(shares.tolist()))
    return whole.scaled(float(scale))


# --- rows and numbers -----------------------------------------------------------------------------


def rates(results: Results) -> list[str]:
    """Return the rates of jobs at which everyone is judged, the lowest first."""
    return sorted(results.rows.filter(metric="jobs")["case"].unique(), key=float)


def taken(results: Results, arm: str) -> str:
    """Return the value of a method's tuned argument that its pilots chose."""
    return f"{results.facts['tuned'][arm]:g}"


def million_decisions(results: Results, arm: str) -> float:
    """Return how many decisions a method takes in training, the mean over its seeds."""
    return float(curve(results, "decisions", arm)[:, -1].mean() / 1e6)


def thousands_to(results: Results, level: str, arm: str) -> str:
    """Return the samples that a method needs to reach a slowdown, in thousands."""
    curves = smooth(curve(results, SLOWDOWN, arm))
    pairs = zip(curves, curve(results, "decisions", arm), strict=True)
    found = [samples_to(float(level), *one) / 1000 for one in pairs]
    known = [one for one in found if np.isfinite(one)]
    some = "" if len(known) == len(found) else f" ({len(known)} of {len(found)})"
    return f"{np.mean(known):,.0f}{some}" if known else "–"


def ends_as_well(results: Results, other: str) -> str:
    """Return with how many seeds the natural gradient ends at least as well as another method."""
    mine, theirs = (smooth(curve(results, RETURN, arm))[:, -1] for arm in (NATURAL, other))
    return f"{(mine >= theirs).sum()} of {len(mine)}"


def us_a_decision(results: Results, way: str) -> float:
    """Return the processor time of a decision in µs, in training by an update."""
    return 1e3 * results.mean("processor_ms", way, COST) / results.mean("decisions", way, COST)


def ratio_a_decision(results: Results, way: str) -> float:
    """Return it over that of the plain gradient."""
    return us_a_decision(results, way) / us_a_decision(results, "gradient")


def best_first(results: Results) -> list[str]:
    """Return who is judged at the rate of the training, the best by all jobs first."""
    return results.ranked("slowdown", HERE)


def judged_everywhere(results: Results) -> list[str]:
    """Return who is judged at all rates."""
    return results.arms("slowdown", rates(results)[0])


def flattered(results: Results) -> str:
    """Return how many look better by the study's count than with all jobs counted."""
    arms = results.arms("slowdown", HERE)
    at_cut, everyone = (
        np.array([results.mean(metric, arm, HERE) for arm in arms])
        for metric in ("slowdown at the cut", "slowdown")
    )
    return f"{(at_cut < everyone).sum()} of {len(arms)}"


def never_finished(results: Results) -> int:
    """Return how many jobs are left when all have been played to the end."""
    return int(results.rows.filter(metric="unfinished")["value"].sum())


def change_of_slowdown(results: Results) -> Estimate:
    """Return by how many percent the natural gradient changes the slowdown."""
    return change(results, SLOWDOWN, NATURAL)


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


# --- pictures -------------------------------------------------------------------------------------

AGENTS: Final = dict(zip(METHODS, COLOURS, strict=False))
RULES: Final = {"SJF": COLOURS[4], SJF: COLOURS[5], "Packer": COLOURS[3], PACKER: COLOURS[2]}
"""Arm → the colour of its line."""
BARS: Final = (*RULES, "Tetris 0.00002", "Random")
POINTS: Final = 80
"""Points of a mean curve."""


def draw_curves(results: Results) -> Figure:
    """Draw held-out slowdown and return over the samples, a band and thin lines for each method."""
    figure = empty_figure(10.4, 4.6)
    left, right = figure.subplots(1, 2)
    for axes, metric in ((left, SLOWDOWN), (right, RETURN)):
        for arm, colour in AGENTS.items():
            _draw_method(axes, results, metric, arm, colour)
        axes.set_xlabel("samples, million decisions")
        axes.set_ylabel(f"mean {metric.removeprefix('held_out_')} of held-out batches")
        axes.set_xlim(left=0)
    for arm, style, side in (("SJF", "--", "bottom"), (SJF, ":", "top")):
        value = results.mean("slowdown", arm, HERE)
        left.axhline(value, color=SOFT, linestyle=style, linewidth=1.1)
        left.text(0.01, value, arm, transform=left.get_yaxis_transform(), va=side, fontsize=8,
                  color=SOFT)  # fmt: skip
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS))
    return figure


def _draw_method(axes: Any, results: Results, metric: str, arm: str, colour: str) -> None:
    decisions, values = curve(results, "decisions", arm) / 1e6, smooth(curve(results, metric, arm))
    axes.plot(decisions.T, values.T, color=colour, linewidth=0.6, alpha=0.55)
    grid = np.linspace(0, decisions[:, -1].min(), POINTS)
    drawn = np.array([np.interp(grid, *one) for one in zip(decisions, values, strict=True)])
    axes.plot(grid, drawn.mean(axis=0), color=colour, linewidth=1.9, label=arm)
    bands = [seed_interval(column) for column in drawn.T]
    if len(drawn) > 1:
        axes.fill_between(grid, [one.low for one in bands], [one.high for one in bands],
                          color=colour, alpha=0.13, linewidth=0)  # fmt: skip


def draw_figure_4(results: Results) -> Figure:
    """Draw both counts at the study's rate as bars, and the slowdown of all jobs over the rate."""
    figure = empty_figure(10.4, 5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    ranked = reversed(results.ranked("slowdown", HERE))
    arms = [arm for arm in ranked if arm not in HEURISTICS or arm in BARS]
    for shift, colour, label, metric in (
        (0.2, COLOURS[0], "all jobs, to the end", "slowdown"),
        (-0.2, COLOURS[1], "jobs finished in 150 steps", "slowdown at the cut"),
    ):
        values, errors = distances(results, (f"{metric} | {arm} | {HERE}" for arm in arms))
        left.barh(np.arange(len(arms)) + shift, values, 0.38, xerr=errors, color=colour,
                  label=label, error_kw={"linewidth": 0.9, "ecolor": SOFT})  # fmt: skip
    left.set_yticks(range(len(arms)), arms)
    left.grid(False, axis="y")
    left.set_xlabel("mean slowdown")
    left.set_title(f"{HERE} jobs a position", fontsize=10)
    left.legend(loc="upper center", bbox_to_anchor=(0.4, -0.13), ncols=2, fontsize=8.5)
    everywhere = results.arms("slowdown", rates(results)[0])
    for arm, colour in (AGENTS | RULES).items():
        if arm in everywhere:
            asked = (f"slowdown | {arm} | {rate}" for rate in rates(results))
            values, errors = distances(results, asked)
            right.errorbar(
                [float(rate) for rate in rates(results)], values, errors, color=colour, label=arm,
                marker="o", markersize=3.5, linewidth=1.3, elinewidth=0.8,
                linestyle="--" if arm in RULES else "-",
            )  # fmt: skip
    right.set_xlabel("probability of a job at each of 100 positions")
    right.set_ylabel("mean slowdown of all jobs")
    right.set_ylim(bottom=0)
    right.legend(fontsize=8.5)
    return figure
