"""The SchedQRM page's section on burst times: scores next to the paper's, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from simkit.analysis.plot_style import save_picture
from simkit.arrays import Floats
from simkit.learners.reproductions.common import markdown_table
from simkit.learners.reproductions.schedqrm.classifier_pictures import draw_losses, draw_times
from simkit.learners.reproductions.schedqrm.classifiers import (
    HEAP,
    HELD_OUT,
    KIND,
    LAW,
    LEARNED,
    MODELS,
    NETWORK,
    PAPER,
    RANDOM,
    SIZE,
    SPLITS,
    Judged,
)
from simkit.learners.run_times.examples import ClassScores
from simkit.traces.elf_bursts import Noise, noise_of
from simkit.traces.elf_bursts.measurements import CLASSES, LONGEST_S
from simkit.training import Workplace

TABLE_II: Final = (
    (1.00, 0.99, 1.00), (0.95, 0.99, 0.97), (0.99, 0.96, 0.97), (0.94, 0.93, 0.93),
    (0.89, 0.86, 0.88), (0.88, 0.95, 0.91), (0.94, 0.90, 0.92), (0.92, 0.98, 0.95),
    (0.98, 0.81, 0.89), (0.83, 1.00, 0.90),
)  # fmt: skip
"""Precision, recall and F1 of classes 1 to 10, as published."""
PUBLISHED_F1: Final = 0.932
"""Published macro F1."""
QUIET, SLOPE, SLACK = 0.005, 3.6, 0.04
"""The largest σ for which the published score is the bar; beyond it, the loss of a perfect model per
unit of σ, and the most by which a model may be below that."""
ROWS, KINDS, SHARE, RUNS = 20_000, 12, 0.15, 3
"""Requirements on the table: rows, kinds, largest share of a kind in a class, runs per row."""
LOSSES, TIMES = "schedqrm-burst-loss.svg", "schedqrm-burst-times.svg"


class Bar(NamedTuple):
    """The macro F1 that the best model must reach under the random split."""

    least: float
    why: str


def bar_of(sigma: float) -> Bar | None:
    """Return the bar for a relative standard deviation of run times; None if that is unknown."""
    if isnan(sigma):
        return None
    if sigma <= QUIET:
        return Bar(PUBLISHED_F1, f"the paper's, since σ is at most {QUIET:.1%}")
    least = 1 - SLOPE * sigma - SLACK
    return Bar(
        least,
        f"1 − {SLOPE:g} σ − {SLACK:g}, since σ is above {QUIET:.1%}: a model that knew the true means would have about 1 − {SLOPE:g} σ",
    )


def draw_classifiers(place: Workplace, judged: Judged) -> list[Path]:
    """Write the two pictures that the section shows."""
    return [
        save_picture(place.pages / LOSSES, lambda: draw_losses(judged)),
        save_picture(place.pages / TIMES, lambda: draw_times(judged)),
    ]


def section(judged: Judged) -> str:
    """Return the section, in Markdown."""
    parts = [
        _head(judged), verdict(judged), _requirements(judged), _models(judged), _curves(judged),
        _classes(judged), _calibration(judged), _kinds(judged), _pictures(),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _static(judged: Judged) -> pl.DataFrame:
    return judged.table.filter(~pl.col("heap"))


def _noise(judged: Judged) -> Noise:
    return noise_of(_static(judged))


def _head(judged: Judged) -> str:
    static = _static(judged).height
    return f"""## Burst times

A model sees the section sizes of an executable and its file size, and says in which tenth of {LONGEST_S:g} s its run time is. The paper's data are
not public; these are {judged.table.height:,} C++ programs that were compiled and measured for it (`simkit trace generate elf-bursts`), {static:,} of them
with static arrays, by which models are judged. {HELD_OUT:.0%} are held out: at random, as in the paper; by ranges of sizes of each kind; or by
whole kinds of programs."""


# --- the verdict ----------------------------------------------------------------------------------


def verdict(judged: Judged) -> str:
    """Return whether the best model reaches the bar, in words."""
    noise, best = _noise(judged), judged.best
    found = float(judged.macro_f1(RANDOM, best).mean())
    sentence = f"The {best}, chosen by its score on held-out sizes, has a macro F1 of **{found:.3f}** on programs held out at random"
    bar = bar_of(noise.sigma)
    if bar is None:
        return f"**Not decided.** {sentence}. No program was measured again, so the noise of the run times, on which the bar depends, is not known."
    margin = found - bar.least
    size = (
        ""
        if judged.table.height >= ROWS
        else f" The bar is meant for {ROWS:,} programs; these are {judged.table.height:,}."
    )
    outcome = "met" if margin >= 0 else f"missed by {-margin:.3f}"
    return f"**The bar is {outcome}.** {sentence}; the bar is {bar.least:.3f} ({bar.why}).{size}"


def _requirements(judged: Judged) -> str:
    """Return the requirements on the data, and whether they are met."""
    table, noise = judged.table, _noise(judged)
    share, kind, number = _largest_share(table)
    counts = np.bincount(table["class"].to_numpy(), minlength=CLASSES) / table.height
    runs = all(
        table.select(pl.col(f"^run_{k}_s$").count()).row(0) == (table.height,)
        for k in range(1, RUNS + 1)
    )
    longest = float(table["run_time_s"].max())  # type: ignore[arg-type] # a number
    kinds = table["kind"].n_unique()
    rows = [
        ("what", "asked for", "found", "met"),
        ("programs", f"at least {ROWS:,}", f"{table.height:,}", _yes(table.height >= ROWS)),
        ("kinds", f"at least {KINDS}", str(kinds), _yes(kinds >= KINDS)),
        ("largest share of a kind in a class", f"at most {SHARE:.0%}", f"{share:.1%} ({kind}, class {number + 1})", _yes(share <= SHARE)),
        ("longest run", f"at most {LONGEST_S:g} s", f"{longest:.3f} s", _yes(longest <= LONGEST_S)),
        ("runs of each program", str(RUNS), str(RUNS) if runs else "fewer", _yes(runs)),
        ("share of each class", "about a tenth", f"{counts.min():.1%} to {counts.max():.1%}", "–"),
        ("σ, relative standard deviation of a run time", "measured", _percent(noise.sigma, 2), _yes(noise.pairs > 0)),
        ("programs that change their class when measured again", "measured", _percent(noise.flips, 1), _yes(noise.pairs > 0)),
        ("the same of two single runs in a row", "measured", _percent(noise.single_flips, 1), _yes(not isnan(noise.single_flips))),
    ]  # fmt: skip
    return f"{markdown_table(rows)}\n\nσ and changes are those of programs with static arrays; {noise.pairs:,} of them were measured again at the end."


def _largest_share(table: pl.DataFrame) -> tuple[float, str, int]:
    """Return the largest share that a kind has of a class, the kind and the class."""
    counts = table.group_by("class", "kind").len()
    shares = counts.with_columns(share=pl.col("len") / pl.col("len").sum().over("class"))
    number, kind, _, share = shares.sort("share", "kind", "class").row(-1)
    return share, kind, number


# --- the tables -----------------------------------------------------------------------------------


def _models(judged: Judged) -> str:
    """Return the macro F1 of each model under each split."""
    heads = {RANDOM: "at random", SIZE: "by size", KIND: "by kind", HEAP: "arrays on the heap"}
    rows: list[Sequence[str]] = [("macro F1", *(heads[split] for split in SPLITS))]
    for model in MODELS:
        rows.append((model, *(_spread(judged.macro_f1(split, model)) for split in SPLITS)))
    rows.append(("paper", f"{PUBLISHED_F1:.3f}", "", "", ""))
    drawn = ", ".join(f"{judged.setting.seeds[split]} {heads[split]}" for split in SPLITS)
    return f"""### Models

{markdown_table(rows)}

Means over splits drawn anew ({drawn}), with the least and the most in brackets. The paper's data are four kinds of programs, rows of which differ
by 8 bytes of code and share their file size, so its number is not one for new sizes or kinds. *Arrays on the heap*: programs with equal sections run
for different times there, so that no model can tell them apart. *{PAPER.capitalize()}*: 100 hidden units, Adam with 1e-4, 120 passes over as many examples of
each class. *{NETWORK.capitalize()}*: the sizes as logarithms, two hidden layers, a step that falls. Classes of the {LAW} are its most probable ones;
those of the trees, whose output is a run time, are the classes of that."""


def _curves(judged: Judged) -> str:
    """Return how the macro F1 grows with the number of training programs."""
    shares = (*judged.setting.shares, 1.0)
    learned = round((1 - HELD_OUT) * _static(judged).height)
    rows: list[Sequence[str]] = [
        ("programs to learn from", *(f"{share * learned:,.0f}" for share in shares))
    ]
    rows += [
        (m, *(_spread(judged.macro_f1(RANDOM, m, share)) for share in shares)) for m in LEARNED
    ]
    return f"More programs to learn from, with those held out at random the same:\n\n{markdown_table(rows)}"


def _classes(judged: Judged) -> str:
    """Return precision, recall and F1 of each class, next to table II."""
    width = LONGEST_S / CLASSES
    best = judged.best
    shown = list(dict.fromkeys((best, NETWORK, PAPER)))
    each = [_means(judged.scores(RANDOM, model)) for model in shown]
    rows: list[Sequence[str]] = [("class", "run time, s", "paper", *shown)]
    for k in range(CLASSES):
        span = f"{k * width:.2f} to {(k + 1) * width:.2f}"
        rows.append((str(k + 1), span, _three(TABLE_II[k]), *(_three(one[k]) for one in each)))
    last = [_three(one.mean(axis=0)) for one in (np.array(TABLE_II), *each)]
    rows.append(("mean", "", *last))
    return f"### Classes, compared with table II\n\nPrecision, recall and F1 of programs held out at random; the paper's classes are of other widths. They are counted from 1, as in the paper; the table's column `class` counts from 0.\n\n{markdown_table(rows)}"


def _means(scores: Sequence[ClassScores]) -> Floats:
    """Return (C, 3) precision, recall and F1, the means over seeds."""
    found: Floats = np.mean([np.column_stack(one[:3]) for one in scores], axis=0)
    return found


def _calibration(judged: Judged) -> str:
    """Return how often predictions are right, by how sure the model is."""
    found = {model: judged.calibration(RANDOM, model) for model in MODELS}
    known = {model: one for model, one in found.items() if one is not None}
    elsewhere = {m: judged.calibration(KIND, m) for m in known}
    rows: list[Sequence[str]] = [("probability of the predicted class", *known)]
    for k in range(10):
        cells = [
            f"{one.right[k]:.2f} of {one.examples[k]:,}" if one.examples[k] else "–"
            for one in known.values()
        ]
        rows.append((f"{k / 10:.1f} to {(k + 1) / 10:.1f}", *cells))
    rows.append(("mean difference", *(f"{one.error:.3f}" for one in known.values())))
    rows.append(
        (
            "the same, kinds held out",
            *("–" if one is None else f"{one.error:.3f}" for one in elsewhere.values()),
        )
    )
    return f"""### Calibration

{markdown_table(rows)}

Share of predictions that are right, by how probable the model holds them to be. *Mean difference*: the expected calibration error of Naeini, Cooper
and Hauskrecht (2015). {_unlike(judged)}"""


def _unlike(judged: Judged) -> str:
    """Return how many programs the predictor marks as unlike its training programs."""
    shares = [f"{_share_unlike(judged, split):.0%}" for split in (RANDOM, SIZE, KIND)]
    return (
        "A probability holds for programs like those of the fit alone; `simkit burst-times predict` marks others as unlike them: "
        f"{shares[0]} of programs held out at random, {shares[1]} of those held out by size, and {shares[2]} of those of kinds held out."
    )


def _share_unlike(judged: Judged, split: str) -> float:
    return float(pl.concat(judged.of(split, LAW))["unlike"].mean())  # type: ignore[arg-type] # a number


def _kinds(judged: Judged) -> str:
    """Return how well the best model does on each kind, and how noisy the kind is."""
    best = judged.best
    answers = pl.concat(judged.of(RANDOM, best))
    rows: list[tuple[float, Sequence[str]]] = []
    for (kind,), part in answers.group_by("kind"):
        right = float((part["label"] == part["class"]).mean())  # type: ignore[arg-type] # a number
        flips = noise_of(_static(judged).filter(kind=kind)).single_flips
        timed = part.drop_nulls("run_time_s")
        off = np.abs(np.log((timed["run_time_s"] / timed["run_time_s_measured"]).to_numpy()))
        middle = f"{np.median(off):.1%}" if len(off) else "–"
        rows.append(
            (right, (str(kind), f"{part.height:,}", f"{right:.1%}", middle, _percent(flips, 1)))
        )
    head = (
        "kind",
        "held out",
        "right class",
        "median error of the time",
        "two single runs differ in class",
    )
    table = markdown_table([head, *(cells for _, cells in sorted(rows))])
    return f"### Kinds\n\nThe {best} on programs held out at random, the hardest kinds first:\n\n{table}"


def _pictures() -> str:
    return f"""### Pictures

![Training loss]({LOSSES})

The paper's figure 3, and the same of the tuned network: a line a seed.

![Measured and predicted run times]({TIMES})

Measured and predicted run times of programs held out at random, of the models that predict one."""


# --- cells ----------------------------------------------------------------------------------------


def _spread(values: Floats) -> str:
    """Return a mean, with the least and the most of several values."""
    mean = f"{values.mean():.3f}"
    return mean if len(values) == 1 else f"{mean} ({values.min():.3f} to {values.max():.3f})"


def _three(values: Sequence[float] | Floats) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


def _percent(value: float, digits: int) -> str:
    return "not known" if isnan(value) else f"{value:.{digits}%}"


def _yes(met: bool) -> str:
    return "yes" if met else "no"
