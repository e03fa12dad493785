"""Burst time classes from section sizes: models are fitted and tested on held-out programs.

Programs with static arrays are held out at random, by ranges of sizes and by kinds. Those with
arrays on the heap, whose sections do not depend on the size of the input, are tested separately.
Each fit is kept, so an interrupted command resumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, stream
from simkit.learners.run_times.burst_classifier import PUBLISHED, TUNED, Settings
from simkit.learners.run_times.burst_predictor import BurstPredictor, ModelName
from simkit.learners.run_times.examples import (
    Examples,
    by_group,
    by_size,
    class_scores,
    of_programs,
    random_rows,
)
from simkit.learners.studies.results import long
from simkit.learners.studies.trainings import Part, digest_of, kept_tables
from simkit.traces.elf_bursts import noise_of
from simkit.traces.elf_bursts.measurements import CLASSES
from simkit.training import Workplace

HELD_OUT: Final = 0.3
"""Held-out share, as in the paper: 30,000 of 100,000 programs."""
LAW, BOOSTED, NETWORK, PAPER = (
    "local power law", "boosted trees", "network, tuned", "network, as published",
)  # fmt: skip
FILE_SIZE, MOST = "file size alone", "most frequent class"
MODELS: Final = (LAW, BOOSTED, NETWORK, PAPER, FILE_SIZE, MOST)
LEARNED: Final = (LAW, BOOSTED, NETWORK)
"""Models with learning curves; one of them must reach the paper's score."""
RANDOM, SIZE, KIND, HEAP = "random", "by size", "by kind", "heap"
SPLITS: Final = (RANDOM, SIZE, KIND, HEAP)
BINS: Final = 10
"""Bins of confidence, of equal width."""
DRAWN: Final = 3000
"""Programs in the picture of true against predicted times."""
SCORES: Final = ("precision", "recall", "f1")


@dataclass(frozen=True)
class BurstSetting:
    """How much to fit."""

    seeds: Mapping[str, int]
    """Split → how often it is drawn."""
    shares: tuple[float, ...] = (0.25, 0.5)
    """Shares of the training programs in learning curves, in addition to all of them."""
    most_rows: int | None = None
    """Rows of the table to use; None: all."""
    published: Settings = PUBLISHED
    tuned: Settings = TUNED
    trees: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of scikit-learn that differ from those of `boosted_trees.TREES`."""


FULL: Final = BurstSetting({RANDOM: 3, SIZE: 3, KIND: 5, HEAP: 3})
QUICK: Final = BurstSetting({RANDOM: 1, SIZE: 1, KIND: 2, HEAP: 1}, (0.5,), 1200)


class Fit(NamedTuple):
    """A model that is fitted to one part of the table and tested on another."""

    split: str
    seed: int
    model: str
    share: float = 1.0
    """Share of the training programs."""

    @property
    def name(self) -> str:
        """Name of the file that keeps it, and of its random numbers."""
        words = f"{self.split}-{self.seed}-{self.model}-{self.share:g}"
        return words.replace(",", "").replace(" ", "-")


def case_of(split: str, share: float = 1.0) -> str:
    """Return the name of a case of the long table."""
    return split if share == 1 else f"{split}, {share:.0%} to learn from"


def fits(setting: BurstSetting) -> list[Fit]:
    """Return all fits."""
    drawn = [(split, seed) for split, seeds in setting.seeds.items() for seed in range(seeds)]
    found = [Fit(*draw, model) for draw in drawn for model in MODELS]
    curves = [(seed, share) for seed in range(setting.seeds[RANDOM]) for share in setting.shares]
    return found + [Fit(RANDOM, seed, model, part) for seed, part in curves for model in LEARNED]


def parts(table: pl.DataFrame, split: str, seed: int) -> tuple[Bools, Bools]:
    """Return (n,) the training rows, and (n,) the test rows."""
    rng = stream(seed, f"reproduce.schedqrm.{split}")
    heap, kind = table["heap"].to_numpy(), table["kind"].to_list()
    if split == KIND:
        out = by_group(kind, HELD_OUT, rng)
    elif split == SIZE:
        out = np.zeros(table.height, np.bool_)  # ranges of the sizes of static programs
        static = table.filter(~heap)
        sizes = static["size"].to_numpy()
        out[~heap] = by_size(static["kind"].to_list(), sizes, HELD_OUT, rng)
    else:
        out = random_rows(table.height, HELD_OUT, rng)
    return (~out, out & heap) if split == HEAP else (~out & ~heap, out & ~heap)


# --- one fit --------------------------------------------------------------------------------------


def _fit(table: pl.DataFrame, setting: BurstSetting, task: Fit) -> pl.DataFrame:
    """Fit a model; return a row for each answer, followed by one for each loss of a pass."""
    learn, ask = (np.flatnonzero(rows) for rows in parts(table, task.split, task.seed))
    rng = stream(task.seed, f"reproduce.schedqrm.{task.name}")
    learn = np.sort(rng.permutation(learn)[: round(task.share * len(learn))])
    examples, losses = of_programs(table), list[float]()
    asked = examples.take(ask).features
    answers = _answers(task.model, examples.take(learn), asked, setting, rng, losses)
    return pl.concat([
        pl.DataFrame({"row": ask, **answers}, _ANSWERS),
        pl.DataFrame({"pass": range(len(losses)), "loss": losses}, _LOSSES),
    ], how="diagonal")  # fmt: skip


_LOSSES: Final = {"pass": pl.Int64, "loss": pl.Float64}
_ANSWERS: Final = {
    "row": pl.UInt32, "label": pl.Int64, "run_time_s": pl.Float64, "sure": pl.Float64,
    "unlike": pl.Boolean,
}  # fmt: skip


def _answers(
    model: str, examples: Examples, asked: Floats, setting: BurstSetting,
    rng: np.random.Generator, losses: list[float],
) -> dict[str, Any]:  # fmt: skip
    """Return a model's answers for m programs; None where it has none."""
    answers: dict[str, Any] = dict.fromkeys(list(_ANSWERS)[1:])
    if model == MOST:
        return answers | {"label": np.full(len(asked), np.bincount(examples.label).argmax())}
    if model == FILE_SIZE:  # the most frequent class among the nearest five
        from sklearn.neighbors import KNeighborsClassifier

        column = [examples.names.index("file_size")]
        nearest = KNeighborsClassifier(5).fit(examples.features[:, column], examples.label)
        return answers | {"label": nearest.predict(asked[:, column])}
    network: dict[str, Any] = {"on_pass": losses.append}
    kinds: dict[str, tuple[ModelName, Mapping[str, Any]]] = {
        LAW: ("local-power-law", {}), BOOSTED: ("trees", setting.trees),
        NETWORK: ("network", {"settings": setting.tuned, **network}),
        PAPER: ("network", {"settings": setting.published, **network}),
    }  # fmt: skip
    kind, settings = kinds[model]
    if model == PAPER:
        examples = examples.balanced(rng)
    found = BurstPredictor.fit(examples, rng, kind, **settings).predict(asked)
    sure = None if found.probabilities is None else found.probabilities.max(axis=1)
    time_s = None if kind == "network" else found.run_time_s
    return {"label": found.label, "run_time_s": time_s, "sure": sure, "unlike": found.unlike}


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """The models' answers for held-out programs."""

    rows: pl.DataFrame
    """Rows of the long table. Items: classes from 0, draws of a split as seeds; in a case ``…, by
    confidence`` bins of it; in ``training`` passes over the examples; in ``times`` programs."""
    facts: Mapping[str, Any]
    confusion: Mapping[str, Floats]
    """The best model and the published one → (C, C) share of the programs of each true class (row),
    held out at random, that it takes for each class."""


def judge_classifiers(place: Workplace, table: pl.DataFrame, setting: BurstSetting) -> Judged:
    """Fit missing models and return what follows from their answers.

    Args:
        place: keeps the fits.
        table: as `read_bursts` returns it.
        setting: how much to fit.
    """
    table = table.head(setting.most_rows) if setting.most_rows else table
    every, digest = fits(setting), digest_of([table.write_csv(), asdict(setting)])
    tables = kept_tables(
        place, [Part(one.name, digest, _fit, (table, setting, one)) for one in every]
    )
    true = table.select("class", "kind", measured_s="run_time_s").with_row_index("row")
    kept = pl.concat(
        each.with_columns(
            case=pl.lit(case_of(one.split, one.share)), arm=pl.lit(one.model), seed=one.seed
        )
        for one, each in zip(every, tables, strict=True)
    )
    answers = kept.drop_nulls("row").join(true, on="row", maintain_order="left")
    scored = answers.group_by("case", "arm", "seed", maintain_order=True).map_groups(_scores)
    rows = [long(scored, SCORES)]
    sizes = scored.filter(case=SIZE).group_by("arm").agg(pl.col("f1").mean())
    best = max(LEARNED, key=lambda model: sizes.filter(arm=model)["f1"].item())
    here = answers.filter(case=RANDOM)
    losses = kept.filter(case=RANDOM).drop_nulls("pass")
    rows.append(long(losses, ("loss",), case="training", item=pl.col("pass")))
    timed = here.filter(pl.col("run_time_s").is_not_null(), seed=0)
    drawn = timed.group_by("arm", maintain_order=True).head(DRAWN)
    rows.append(
        long(drawn, ("measured_s", "run_time_s"), case="times", item=pl.col("row"), seed=None)
    )
    for model, split in product((LAW, NETWORK, PAPER), (RANDOM, KIND)):
        rows += by_confidence(model, split, answers.filter(case=split, arm=model))
    law = answers.filter(arm=LAW)
    unlike = {f"unlike, {split}": law.filter(case=split)["unlike"].mean() for split in SPLITS[:3]}
    confusion = {model: _confusion(here.filter(arm=model)) for model in (best, PAPER)}
    rows.append(_by_kind(here.filter(arm=best), table))
    facts = {**_facts(table, setting), "best model": best, **unlike}
    return Judged(pl.concat(rows), facts, confusion)


def _scores(answers: pl.DataFrame) -> pl.DataFrame:
    """Return the scores of each class in the answers of one fit."""
    scores = class_scores(answers["class"].to_numpy(), answers["label"].to_numpy(), CLASSES)
    fit = answers.select("case", "arm", "seed").head(1)
    return fit.join(pl.DataFrame({"item": range(CLASSES), **scores._asdict()}), how="cross")


def by_confidence(model: str, split: str, answers: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield how many predictions there are in each bin of confidence, and how many are right.

    The error is the expected calibration error: M. P. Naeini, G. F. Cooper and M. Hauskrecht,
    "Obtaining well calibrated probabilities using Bayesian binning" (2015).
    """
    sure, right = answers["sure"].to_numpy(), answers["label"] == answers["class"]
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    count, hits, total = (
        np.bincount(place, each, BINS) for each in (np.ones_like(sure), right.to_numpy(), sure)
    )
    told = {"arm": model, "case": f"{split}, by confidence", "seed": None}
    bins = pl.DataFrame({"item": range(BINS), "answers": count, "hits": hits})
    yield long(bins, ("answers", "hits"), **told)
    error = pl.DataFrame({"calibration_error": [np.abs(total - hits).sum() / count.sum()]})
    yield long(error, error.columns, item=0, **told)


def _confusion(answers: pl.DataFrame) -> Floats:
    counts = np.zeros((CLASSES, CLASSES))
    np.add.at(counts, (answers["class"].to_numpy(), answers["label"].to_numpy()), 1.0)
    shares: Floats = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _by_kind(answers: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Return how well the best model does on each kind of program, and how noisy the kind is."""
    off = (pl.col("run_time_s") / pl.col("measured_s")).log().abs()
    found = answers.group_by("kind").agg(
        held_out=pl.len(), right=(pl.col("label") == pl.col("class")).mean(), off=off.median()
    ).sort("kind")  # fmt: skip
    static = table.filter(~pl.col("heap"))
    flips = [noise_of(static.filter(kind=kind)).single_flips for kind in found["kind"]]
    metrics = ("held_out", "right", "off", "flips")
    found = found.with_columns(flips=pl.Series(flips))
    return long(found, metrics, arm=pl.col("kind"), case="kinds", item=0)


def _facts(table: pl.DataFrame, setting: BurstSetting) -> dict[str, Any]:
    """Return what a table must have, and how noisy its run times are, as they are on the page."""
    static = table.filter(~pl.col("heap"))
    counts = table.group_by("class", "kind").len()
    shares = counts.with_columns(share=pl.col("len") / pl.col("len").sum().over("class"))
    number, kind, _, share = shares.sort("share", "kind", "class").row(-1)
    classes = np.bincount(table["class"].to_numpy(), minlength=CLASSES) / table.height
    noise, learned = noise_of(static), round((1 - HELD_OUT) * static.height)
    return {
        "programs": table.height, "static programs": static.height,
        "kinds": table["kind"].n_unique(),
        "largest share": f"{share:.1%} ({kind}, class {number + 1})",
        "class shares": f"{classes.min():.1%} to {classes.max():.1%}",
        "longest run": float(table["run_time_s"].max()),  # type: ignore[arg-type] # a number
        "sigma": noise.sigma, "flips": noise.flips, "single flips": noise.single_flips,
        "measured again": noise.pairs,
        **{
            f"programs, {case_of(RANDOM, share)}": round(share * learned)
            for share in (*setting.shares, 1.0)
        },
    }  # fmt: skip
