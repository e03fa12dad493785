"""The work of `simkit burst-times`: fit a predictor to measured programs, predict others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Bools, stream
from simkit.errors import RunError
from simkit.learners.run_times.burst_predictor import (
    BurstPredictor,
    ModelName,
    require_libraries,
)
from simkit.learners.run_times.examples import by_size, class_scores, of_programs, random_rows
from simkit.results.run_info import versions
from simkit.traces.elf_bursts import SIGNATURE, read_bursts
from simkit.traces.elf_bursts.measurements import read_signature, require_pyelftools

__all__ = ["BurstGuess", "FitReport", "fit_bursts", "predict_bursts"]

_HELD_OUT = 0.3
_FEWEST = 100  # programs, so that each class has some to train and some to test on


class FitReport(NamedTuple):
    """What a predictor was fitted to, and its scores on held-out programs."""

    programs: int
    kinds: int
    macro_f1: Mapping[str, tuple[float | None, float | None]]
    """Way of holding out → macro F1 on programs with static arrays, and on those with arrays on the
    heap; None: none of these are held out."""


class BurstGuess(NamedTuple):
    """The prediction for one program."""

    path: Path
    run_time_s: float
    label: int
    """Predicted class, from 0."""
    span_s: tuple[float, float | None]
    """Where the class begins and ends; None: it has no end."""
    probability: float | None
    """Probability of the class; None: the model has none."""
    unlike: bool
    """Whether the program is unlike all training examples."""
    times_usual: float
    """Distance to the nearest training example, as a multiple of the predictor's limit."""


def fit_bursts(table: Path | None, folder: Path, model: ModelName, seed: int) -> FitReport:
    """Fit a predictor to all rows of a table and write its bundle; first score such models.

    Args:
        table: a table that `simkit trace generate elf-bursts` wrote; None: simkit's sample.
        folder: the bundle's folder.
        model: kind of the model.
        seed: draws what is held out, and what is random in the model.

    Raises TraceError if the table cannot be read, RunError if it is too small or the bundle cannot
    be written, PluginError if a library is missing.
    """
    require_libraries(model)
    rows = read_bursts(table)
    static = rows.filter(~pl.col("heap"))
    if static.height < _FEWEST:
        raise RunError(
            f"{table}: has {static.height} programs with static arrays, but a predictor needs "
            f"{_FEWEST}; measure more: simkit trace generate elf-bursts FOLDER --jobs N"
        )
    rng = stream(seed, "burst-times")
    ways = {
        "at random": random_rows(rows.height, _HELD_OUT, rng),
        "by size": by_size(rows["kind"].to_list(), rows["size"].to_numpy(), _HELD_OUT, rng),
    }
    scores = {name: _judge(rows, out, model, rng) for name, out in ways.items()}
    report = FitReport(rows.height, rows["kind"].n_unique(), scores)
    predictor = BurstPredictor.fit(of_programs(rows), rng, model)
    predictor.save(folder, _facts(report, table, seed))
    return report


def _judge(
    rows: pl.DataFrame, out: Bools, model: ModelName, rng: np.random.Generator
) -> tuple[float | None, float | None]:
    """Return the macro F1 on held-out static and heap programs; None: there are none."""
    examples, heap = of_programs(rows), rows["heap"].to_numpy()
    predictor = BurstPredictor.fit(examples.take(~out), rng, model)

    def macro_f1(which: Bools) -> float | None:
        tested = examples.take(which)
        if not len(tested):
            return None
        label = predictor.predict(tested.features).label
        return class_scores(tested.label, label, examples.classes).macro_f1

    return macro_f1(out & ~heap), macro_f1(out & heap)


def _facts(report: FitReport, table: Path | None, seed: int) -> dict[str, Any]:
    """Return the origin of a predictor, for its bundle."""
    return {
        "learner": "burst-times", "seed": seed, "versions": versions(),
        "fitted_to": {
            "table": "simkit's sample" if table is None else table.name,
            "programs": report.programs, "kinds": report.kinds,
        },
        "macro_f1": {name: list(each) for name, each in report.macro_f1.items()},
    }  # fmt: skip


def predict_bursts(bundle: Path, programs: Sequence[Path]) -> list[BurstGuess]:
    """Return the predictions of a bundle for executable files.

    Raises RunError if the bundle is damaged or not a burst time predictor, TraceError if a file is
    not in ELF, PluginError if a library is missing.
    """
    require_pyelftools()
    predictor = BurstPredictor.load(bundle)
    if predictor.names != SIGNATURE:
        raise RunError(
            f"{bundle}: its features are not the section sizes of this simkit; fit it again with "
            "simkit burst-times fit"
        )
    rows = [read_signature(path) for path in programs]
    signatures = np.array([[row[name] for name in SIGNATURE] for row in rows], float)
    prediction = predictor.predict(signatures)
    edges, guesses = [0.0, *predictor.edges_s.tolist(), None], []
    for k, path in enumerate(programs):
        label = int(prediction.label[k])
        shares = prediction.probabilities
        guesses.append(BurstGuess(
            path, float(prediction.run_time_s[k]), label, (edges[label] or 0.0, edges[label + 1]),
            None if shares is None else float(shares[k, label]), bool(prediction.unlike[k]),
            float(prediction.distance[k]) / max(predictor.limit, 1.0),
        ))  # fmt: skip
    return guesses
