"""Trainings and tables that a study keeps: what an earlier run has completed is not made again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.arrays import Ints
from simkit.errors import RunError
from simkit.experiment.workers import Workers
from simkit.learners.common.bundle import Bundle, ViewDescription, read_bundle, up_to_date
from simkit.learners.common.games import Games
from simkit.learners.networks.inference import draws, masked_log_softmax, plain_network
from simkit.learners.studies.results import long
from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.training import Workplace
from simkit.training.train import EVALUATION, train_all

__all__ = ["KeptTraining", "Part", "data_file", "digest_of", "in_parallel", "kept_rows",
           "kept_table", "kept_tables", "made", "player", "train"]  # fmt: skip


@dataclass(frozen=True)
class KeptTraining:
    """A training in a study's folder, named as its scenario; complete after `train`."""

    place: Workplace
    scenario: Scenario

    @property
    def folder(self) -> Path:
        """The folder of the training."""
        return self.place.work / "trainings" / self.scenario.name

    @property
    def agent(self) -> Bundle:
        """The agent that it made."""
        return read_bundle(self.folder / "agent")

    @property
    def curve(self) -> pl.DataFrame:
        """A row for each iteration; the first is the untrained agent."""
        return pl.read_parquet(self.folder / "metrics.parquet")

    @property
    def digest(self) -> str:
        """A hash of the agent's weights, for the names of kept results."""
        return sha256((self.folder / "agent" / "weights.safetensors").read_bytes()).hexdigest()

    @property
    def seconds(self) -> float:
        """Wall time of the training, its evaluations included."""
        clock = [name for name in ("wall_time_s", EVALUATION) if name in self.curve.columns]
        return float(sum(self.curve[name].sum() for name in clock))


def train(place: Workplace, trainings: Iterable[KeptTraining]) -> None:
    """Run the trainings that are not complete yet; equal ones are the same training."""
    (place.work / "trainings").mkdir(exist_ok=True)
    todo = dict[Path, Scenario]()
    for one in trainings:
        assert todo.setdefault(one.folder, one.scenario) == one.scenario, f"two {one.folder.name}"
    pairs = [(scenario, folder) for folder, scenario in todo.items()]
    train_all(pairs, workers=place.workers, say=place.say)


def player(agent: Path, rng: np.random.Generator | None = None) -> Callable[[Games], Ints]:
    """Return how the agent of a bundle plays games in lock-step that it was trained on.

    Args:
        agent: folder of the bundle.
        rng: draws actions by their probabilities; None: the likeliest are taken.

    Returns:
        A function of games that returns (A,) the action in each active one.
    """
    bundle = read_bundle(agent)
    shape = ViewDescription.read(up_to_date(bundle.description)).architecture
    network = plain_network(shape, bundle.weights)

    def choose(games: Games) -> Ints:
        logits, allowed = network.logits(games.observe()), games.mask()
        if rng is not None:
            return draws(np.exp(masked_log_softmax(logits, allowed), dtype=np.float64), rng)
        likeliest: Ints = np.where(allowed, logits, -np.inf).argmax(axis=1)
        return likeliest

    return choose


@dataclass(frozen=True)
class Part:
    """A table that is kept, so that an interrupted study resumes."""

    name: str
    depends_on: object
    """Plain values; if they differ, the table is computed anew."""
    compute: Callable[..., pl.DataFrame]
    arguments: tuple[Any, ...] = ()
    index: Mapping[str, Any] = field(default_factory=dict)
    """Where its rows belong in the long table, see `long`."""


def kept_tables(place: Workplace, parts: Sequence[Part]) -> list[pl.DataFrame]:
    """Return tables; those that are missing are computed, several at a time, and kept."""
    paths = [place.work / "judged" / _file(part) for part in parts]
    todo = {path: part for path, part in zip(paths, parts, strict=True) if not path.exists()}
    for name in in_parallel(place, _keep, todo.items()):
        place.say(f"judged {name}")
    return [pl.read_parquet(path) for path in paths]


def kept_rows(place: Workplace, parts: Sequence[Part], metrics: Sequence[str]) -> pl.DataFrame:
    """Return tables with a column for each metric as one long table; see `kept_tables`."""
    tables = zip(parts, kept_tables(place, parts), strict=True)
    return pl.concat([long(table, metrics, **part.index) for part, table in tables])


def kept_table(
    place: Workplace, name: str, depends_on: object, compute: Callable[..., pl.DataFrame],
    *arguments: Any,
) -> pl.DataFrame:  # fmt: skip
    """Return one table, computed in this process if it is missing; see `Part`."""
    return kept_tables(place, [Part(name, depends_on, compute, arguments)])[0]


def _file(part: Part) -> str:
    return f"{part.name.replace(',', '').replace(' ', '-')}-{digest_of(part.depends_on)}.parquet"


def _keep(path: Path, part: Part) -> str:
    """Compute and write a table, which has its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    part.compute(*part.arguments).write_parquet(unfinished)
    unfinished.replace(path)
    return part.name


def digest_of(values: object) -> str:
    """Return a short hash of plain values."""
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def in_parallel(
    place: Workplace, work: Callable[..., str], calls: Iterable[tuple[Any, ...]]
) -> Iterator[str]:
    """Call a function with each tuple of arguments, several at a time; yield what it returns."""
    todo = list(calls)
    if place.workers == 1 or len(todo) < 2:
        yield from (work(*arguments) for arguments in todo)
        return
    with Workers(place.workers, grace_s=0.0) as pool:
        for done in as_completed([pool.submit(work, *arguments) for arguments in todo]):
            yield done.result()


def data_file(study: str, file: str) -> Path:
    """Return a file below SIMKIT_DATA; raises RunError if it is missing."""
    folder = os.environ.get("SIMKIT_DATA")
    path = Path(folder or "", file)
    if not (folder and path.is_file()):
        raise RunError(
            f"reproduce {study}: there is no file {path}; set SIMKIT_DATA to the folder "
            f"that holds {file}"
        )
    return path


def made() -> dict[str, str]:
    """Return the commit of this file's checkout, if it is one, and versions, as facts."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        commit = found.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    known = {**versions(), "torch": metadata.version("torch")}
    text = ", ".join(f"{name} {known[name]}" for name in ("simkit", "python", "numpy", "torch"))
    return {"commit": commit, "versions": text}
