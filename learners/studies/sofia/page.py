"""What the page of the Sofia study calls by name, and its pictures."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Estimate, estimate, seed_interval
from simkit.analysis.plot_style import COLOURS, SOFT
from simkit.arrays import Floats
from simkit.learners.studies.page import CONFIRMED, judged
from simkit.learners.studies.pictures import ERRORS, Mark, distances, line, panel, picture
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.judge import EVERYWHERE, HEURISTICS, PACKER, SJF
from simkit.learners.studies.sofia.trainings import COST, LOOKS, METHODS, NATURAL, RATE

SLOWDOWN: Final = "held_out_slowdown"
RETURN: Final = "held_out_return"
HERE: Final = f"{RATE:g}"
"""The case of the rate at which agents are trained."""


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
    """Return the decisions until the first of (L,) values at or below a level; nan: none is."""
    met = np.flatnonzero(values <= level)
    return float(decisions[met[0]]) if len(met) else np.nan


def change(results: Results, metric: str = SLOWDOWN, arm: str = NATURAL) -> Estimate:
    """Return by how many percent training changes the size of a value, with seeds' interval."""
    ends, begins = (
        np.abs(results.values(metric, arm, case)[0].mean(axis=1, keepdims=True))
        for case in ("trained", "untrained")
    )
    return estimate(ends, np.ones(1), begins, relation="ratio").scaled(100, -100)


def diverges(results: Results) -> bool:
    """Return whether the natural gradient does not surely lower the slowdown."""
    return judged(change(results), "<", 0.0) != CONFIRMED


def return_grows(results: Results) -> bool:
    """Return whether it does raise the return, which is negative."""
    return judged(change(results, RETURN), "<", 0.0) == CONFIRMED


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


def saves_samples(results: Results, other: str) -> str:
    """Return the verdict on whether the natural gradient takes fewer samples than another."""
    return judged(saving(results, NATURAL, other), "<", 1.0, 1.0)


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


def flattered(results: Results) -> str:
    """Return how many look better by the study's count than with all jobs counted."""
    arms = results.arms("slowdown", HERE)
    better = [
        results.mean("slowdown at the cut", arm, HERE) < results.mean("slowdown", arm, HERE)
        for arm in arms
    ]
    return f"{sum(better)} of {len(arms)}"


def never_finished(results: Results) -> int:
    """Return how many jobs are left when all have been played to the end."""
    return int(results.rows.filter(metric="unfinished")["value"].sum())


# --- pictures -------------------------------------------------------------------------------------

AGENTS: Final = dict(zip(METHODS, COLOURS, strict=False))
RULES: Final = {"SJF": COLOURS[4], SJF: COLOURS[5], "Packer": COLOURS[3], PACKER: COLOURS[2]}
"""Arm → the colour of its line."""
BARS: Final = (*RULES, "Tetris 0.00002", "Random")
POINTS: Final = 80
"""Points of a mean curve."""


def _method(metric: str, arm: str, colour: str) -> Mark:
    """Return what draws each training of a method thinly, and their mean with a band."""

    def draw(axes: Any, results: Results) -> None:
        values = smooth(curve(results, metric, arm))
        decisions = curve(results, "decisions", arm) / 1e6
        axes.plot(decisions.T, values.T, color=colour, linewidth=0.6, alpha=0.55)
        grid = np.linspace(0, decisions[:, -1].min(), POINTS)
        drawn = np.array([np.interp(grid, *one) for one in zip(decisions, values, strict=True)])
        axes.plot(grid, drawn.mean(axis=0), color=colour, linewidth=1.9, label=arm)
        bands = [seed_interval(column) for column in drawn.T]
        if len(drawn) > 1:
            axes.fill_between(grid, [one.low for one in bands], [one.high for one in bands],
                              color=colour, alpha=0.13, linewidth=0)  # fmt: skip

    return draw


def _level(arm: str, style: str, side: str) -> Mark:
    """Return what draws the slowdown of a rule as a line with its name."""

    def draw(axes: Any, results: Results) -> None:
        value = results.mean("slowdown", arm, HERE)
        axes.axhline(value, color=SOFT, linestyle=style, linewidth=1.1)
        axes.text(0.01, value, arm, transform=axes.get_yaxis_transform(), va=side, fontsize=8,
                  color=SOFT)  # fmt: skip

    return draw


def _counts(axes: Any, results: Results) -> None:
    """Draw both counts as bars, the worst arm first."""
    ranked = reversed(results.ranked("slowdown", HERE))
    arms = [arm for arm in ranked if arm not in HEURISTICS or arm in BARS]
    for shift, colour, label, metric in (
        (0.2, COLOURS[0], "all jobs, to the end", "slowdown"),
        (-0.2, COLOURS[1], "jobs finished in 150 steps", "slowdown at the cut"),
    ):
        values, errors = distances([results.ask(f"{metric} | {arm} | {HERE}") for arm in arms])
        axes.barh(np.arange(len(arms)) + shift, values, 0.38, xerr=errors, color=colour,
                  label=label, error_kw=ERRORS)  # fmt: skip
    axes.set_yticks(range(len(arms)), arms)
    axes.grid(False, axis="y")
    axes.set_title(f"{HERE} jobs a position", fontsize=10)


PICTURES: Final = {
    "sofia-curves": picture(
        *(panel(*(_method(metric, arm, colour) for arm, colour in AGENTS.items()), *levels,
                xlabel="samples, million decisions", xlim=(0, None),
                ylabel=f"mean {metric.removeprefix('held_out_')} of held-out batches")
          for metric, levels in (
              (SLOWDOWN, [_level("SJF", "--", "bottom"), _level(SJF, ":", "top")]), (RETURN, []),
          )),
        width=10.4, height=4.6, legend={"ncols": len(METHODS)},
    ),
    "sofia-figure4": picture(
        panel(_counts, xlabel="mean slowdown", legend={
            "loc": "upper center", "bbox_to_anchor": (0.4, -0.13), "ncols": 2, "fontsize": 8.5,
        }),
        panel(
            *(line(f"slowdown | {arm} | [x]", bars=True, color=colour, label=arm, marker="o",
                   markersize=3.5, linewidth=1.3, linestyle="--" if arm in RULES else "-")
              for arm, colour in (AGENTS | RULES).items() if arm in (*EVERYWHERE, *RULES)),
            xlabel="probability of a job at each of 100 positions",
            ylabel="mean slowdown of all jobs", ylim=(0, None), legend={"fontsize": 8.5},
        ),
        width=10.4, height=5.0, width_ratios=(1.25, 1),
    ),
}  # fmt: skip
"""Learning curves; and both counts at the study's rate, and all jobs over the rate."""
