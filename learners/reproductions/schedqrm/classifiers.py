"""Burst time classes from section sizes: models are fitted and tested on held-out programs.

Programs with static arrays are held out at random, by ranges of sizes and by kinds. Those with
arrays on the heap, whose sections do not depend on the size of the input, are tested separately.
Each fit is kept, so an interrupted command resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, Floats, Ints, stream
from simkit.learners.common.torch_training import one_thread
from simkit.learners.reproductions.common import digest_of, in_parallel, keep
from simkit.learners.run_times.boosted_trees import TREES, BoostedTrees
from simkit.learners.run_times.burst_classifier import (
    PUBLISHED,
    TUNED,
    BurstClassifier,
    Settings,
)
from simkit.learners.run_times.burst_predictor import BurstPredictor
from simkit.learners.run_times.examples import (
    ClassScores,
    Examples,
    by_group,
    by_size,
    class_scores,
    of_programs,
    random_rows,
)
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


@dataclass(frozen=True)
class ClassifierSetting:
    """How much to fit."""

    seeds: Mapping[str, int]
    """Split → how often it is drawn."""
    shares: tuple[float, ...] = (0.25, 0.5)
    """Shares of the training programs in learning curves, in addition to all of them."""
    most_rows: int | None = None
    """Rows of the table to use; None: all."""
    published: Settings = PUBLISHED
    tuned: Settings = TUNED
    trees: Mapping[str, Any] = field(default_factory=lambda: dict(TREES))


FULL = ClassifierSetting({RANDOM: 3, SIZE: 3, KIND: 5, HEAP: 3})
QUICK = ClassifierSetting({RANDOM: 1, SIZE: 1, KIND: 2, HEAP: 1}, (0.5,), 3000)


@dataclass(frozen=True)
class Fit:
    """A model that is fitted to one part of the table and tested on another."""

    split: str
    seed: int
    model: str
    share: float = 1.0
    """Share of the training programs."""

    @property
    def name(self) -> str:
        """Name of the file that keeps it."""
        words = f"{self.split}-{self.seed}-{self.model}-{self.share:g}"
        return words.replace(",", "").replace(" ", "-")


@dataclass(frozen=True)
class Judged:
    """The models' answers for held-out programs."""

    setting: ClassifierSetting
    table: pl.DataFrame
    """The rows in use."""
    answers: pl.DataFrame
    """A row for each answer: ``split``, ``seed``, ``model``, ``share``, ``row`` of the table,
    ``label``, ``run_time_s``, ``sure``, the probability of the label, and whether the program is
    ``unlike`` all examples; null where the model gives none."""
    losses: pl.DataFrame
    """``split``, ``seed``, ``model``, ``share``, ``pass`` and ``loss`` of the networks."""

    def of(self, split: str, model: str, share: float = 1.0) -> list[pl.DataFrame]:
        """Return the answers of each seed, joined with the table's columns."""
        here = self.answers.filter(split=split, model=model, share=share)
        rows = self.table.with_row_index("row")
        return [
            part.join(rows, on="row", suffix="_measured", maintain_order="left")
            for part in here.partition_by("seed", maintain_order=True)
        ]

    def scores(self, split: str, model: str, share: float = 1.0) -> list[ClassScores]:
        """Return the scores of each seed."""
        return [
            class_scores(part["class"].to_numpy(), part["label"].to_numpy(), CLASSES)
            for part in self.of(split, model, share)
        ]

    def macro_f1(self, split: str, model: str, share: float = 1.0) -> Floats:
        """Return (seeds,) macro F1."""
        return np.array([each.macro_f1 for each in self.scores(split, model, share)])

    @property
    def best(self) -> str:
        """The model with the highest mean macro F1 under the split by size."""
        return max(LEARNED, key=lambda model: float(self.macro_f1(SIZE, model).mean()))

    def calibration(self, split: str, model: str) -> Calibration | None:
        """Return the calibration over all seeds; None if the model has no probabilities."""
        answers = pl.concat(self.of(split, model)).drop_nulls("sure")
        if answers.is_empty():
            return None
        right = (answers["label"] == answers["class"]).to_numpy()
        return calibration(answers["sure"].to_numpy(), right)


def judge_classifiers(
    place: Workplace, table: pl.DataFrame, setting: ClassifierSetting | None = None
) -> Judged:
    """Fit missing models and return all answers.

    Args:
        place: keeps the fits.
        table: as `read_bursts` returns it.
        setting: None: the full or the quick one, depending on the place.
    """
    chosen = setting or (QUICK if place.quick else FULL)
    rows = table.head(chosen.most_rows) if chosen.most_rows else table
    content = sha256(rows.write_csv().encode()).hexdigest()
    folder = place.work / f"classifiers-{digest_of([content, asdict(chosen)])}"
    folder.mkdir(parents=True, exist_ok=True)
    tasks = list(fits(chosen))
    todo = [task for task in tasks if not _answers_path(folder, task).exists()]
    for name in in_parallel(place, do_fit, ((folder, rows, chosen, task) for task in todo)):
        place.say(f"fitted {name}")
    networks = [task for task in tasks if _losses_path(folder, task).exists()]
    return Judged(
        chosen, rows, pl.concat(_read(task, _answers_path(folder, task)) for task in tasks),
        pl.concat(_read(task, _losses_path(folder, task)) for task in networks),
    )  # fmt: skip


def fits(setting: ClassifierSetting) -> Iterator[Fit]:
    """Yield all fits."""
    for split, seeds in setting.seeds.items():
        for seed in range(seeds):
            yield from (Fit(split, seed, model) for model in MODELS)
    for seed in range(setting.seeds[RANDOM]):
        for share in setting.shares:
            yield from (Fit(RANDOM, seed, model, share) for model in LEARNED)


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


def do_fit(folder: Path, table: pl.DataFrame, setting: ClassifierSetting, task: Fit) -> str:
    """Fit a model, keep its answers, and return the name of the fit."""
    learn, ask = (np.flatnonzero(rows) for rows in parts(table, task.split, task.seed))
    rng = stream(task.seed, f"reproduce.schedqrm.{task.name}")
    learn = np.sort(rng.permutation(learn)[: round(task.share * len(learn))])
    examples = of_programs(table)
    with one_thread():
        fit = _MODELS[task.model]
        found = fit(examples.take(learn), examples.take(ask).features, setting, rng)
    if found.losses:
        losses = pl.DataFrame({"pass": np.arange(len(found.losses)) + 1, "loss": found.losses})
        keep(_losses_path(folder, task), losses.write_parquet)
    answers = pl.DataFrame(
        {"row": ask, **{name: getattr(found, name) for name in _COLUMNS}},
        schema={"row": pl.UInt32, **_COLUMNS},
    )
    keep(_answers_path(folder, task), answers.write_parquet)
    return task.name


_COLUMNS: Final = {
    "label": pl.Int64, "run_time_s": pl.Float64, "sure": pl.Float64, "unlike": pl.Boolean,
}  # fmt: skip


def _answers_path(folder: Path, task: Fit) -> Path:
    return folder / f"{task.name}.parquet"


def _losses_path(folder: Path, task: Fit) -> Path:
    return folder / f"{task.name}-losses.parquet"


def _read(task: Fit, path: Path) -> pl.DataFrame:
    """Return a kept table with columns that name its fit."""
    columns = {name: pl.lit(value) for name, value in asdict(task).items()}
    return pl.read_parquet(path).with_columns(**columns)


@dataclass(frozen=True)
class _Answers:
    """A model's answers for m programs."""

    label: Ints
    run_time_s: Floats | None = None
    sure: Floats | None = None
    losses: Sequence[float] = ()
    unlike: Bools | None = None


def _by_law(
    examples: Examples, asked: Floats, _setting: ClassifierSetting, rng: np.random.Generator
) -> _Answers:
    found = BurstPredictor.fit(examples, rng).predict(asked)
    assert found.probabilities is not None
    sure = found.probabilities.max(axis=1)
    return _Answers(found.label, found.run_time_s, sure, unlike=found.unlike)


def _by_trees(
    examples: Examples, asked: Floats, setting: ClassifierSetting, rng: np.random.Generator
) -> _Answers:
    time_s = BoostedTrees.fitted(examples, rng, **setting.trees).run_time_s(asked)
    return _Answers(examples.class_of(time_s), time_s)


def _by_network(
    examples: Examples, asked: Floats, setting: ClassifierSetting, rng: np.random.Generator
) -> _Answers:
    return _classified(examples, asked, setting.tuned, rng)


def _by_published_network(
    examples: Examples, asked: Floats, setting: ClassifierSetting, rng: np.random.Generator
) -> _Answers:
    return _classified(examples.balanced(rng), asked, setting.published, rng)


def _classified(
    examples: Examples, asked: Floats, settings: Settings, rng: np.random.Generator
) -> _Answers:
    losses: list[float] = []
    fitted = BurstClassifier.fitted(examples, rng, settings, losses.append)
    shares = fitted.probabilities(asked)
    return _Answers(shares.argmax(axis=1), None, shares.max(axis=1), losses)


def _by_file_size(
    examples: Examples, asked: Floats, _setting: ClassifierSetting, _rng: np.random.Generator
) -> _Answers:
    column = examples.names.index("file_size")
    return _Answers(guess(examples.features[:, column], examples.label, asked[:, column]))


def _by_majority(
    examples: Examples, asked: Floats, _setting: ClassifierSetting, _rng: np.random.Generator
) -> _Answers:
    return _Answers(majority(examples.label, len(asked)))


_Model = Callable[[Examples, Floats, ClassifierSetting, np.random.Generator], _Answers]
_MODELS: Final[Mapping[str, _Model]] = dict(
    zip(
        MODELS,
        (_by_law, _by_trees, _by_network, _by_published_network, _by_file_size, _by_majority),
        strict=True,
    )
)


class Calibration(NamedTuple):
    """Confidence against accuracy in B bins of confidence, of equal width."""

    sure: Floats
    """(B,) mean probability of the predicted class; NaN where the bin is empty."""
    right: Floats
    """(B,) share of predictions that are right; NaN where the bin is empty."""
    examples: Ints
    """(B,) number of examples."""

    @property
    def error(self) -> float:
        """The expected calibration error: mean |confidence - accuracy|, weighted by examples.

        M. P. Naeini, G. F. Cooper and M. Hauskrecht, "Obtaining well calibrated probabilities
        using Bayesian binning" (2015).
        """
        gaps = np.abs(np.nan_to_num(self.sure - self.right))
        return float((gaps * self.examples).sum() / max(self.examples.sum(), 1))


def calibration(sure: Floats, right: Bools, bins: int = 10) -> Calibration:
    """Return the calibration of predictions.

    Args:
        sure: (n,) probability that the model gives each prediction.
        right: (n,) whether it is right.
        bins: B.
    """
    place = np.minimum((sure * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_sure, mean_right = (np.bincount(place, each, bins) / count for each in (sure, right))
    return Calibration(mean_sure, mean_right, count)


def majority(truth: Ints, count: int) -> Ints:
    """Return the most frequent true class `count` times, as a baseline."""
    return np.full(count, np.bincount(truth).argmax())


def guess(feature: Floats, truth: Ints, asked: Floats, neighbours: int = 5) -> Ints:
    """Return (m,) classes from one feature alone: the most frequent among the nearest examples.

    Args:
        feature: (n,) the feature of the examples.
        truth: (n,) classes of the examples.
        asked: (m,) the feature of the queries.
        neighbours: number of examples that vote.
    """
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(neighbours).fit(feature[:, None], truth)
    classes: Ints = model.predict(asked[:, None])
    return classes
