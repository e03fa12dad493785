"""Trainings and tables that a study keeps: what an earlier run has completed is not made again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl

from simkit.errors import RunError
from simkit.experiment.workers import Workers
from simkit.learners.common.bundle import Bundle, read_bundle
from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.training import Workplace
from simkit.training.train import EVALUATION, train_all

__all__ = [
    "KeptTraining",
    "data_file",
    "digest_of",
    "in_parallel",
    "keep",
    "kept_table",
    "made",
    "train",
]


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
    todo = {one.folder: (one.scenario, one.folder) for one in trainings}
    train_all(list(todo.values()), workers=place.workers, say=place.say)


def kept_table(
    place: Workplace, path: Path, compute: Callable[[], pl.DataFrame], message: str = ""
) -> pl.DataFrame:
    """Return the table kept at a path; compute and keep it first, with a message, if missing."""
    if not path.exists():
        keep(path, compute())
        if message:
            place.say(message)
    return pl.read_parquet(path)


def keep(path: Path, table: pl.DataFrame) -> None:
    """Write a table, which has its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    table.write_parquet(part)
    part.replace(path)


def digest_of(values: object) -> str:
    """Return a short hash of plain values, to name a kept result."""
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def in_parallel(
    place: Workplace, work: Callable[..., str], calls: Iterable[tuple[Any, ...]]
) -> Iterator[str]:
    """Call a function with each tuple of arguments, several at a time; yield what it returns.

    Where the place is an argument, the function gets one that says nothing.
    """
    quiet = replace(place, say=_unheard)  # `say` need not be a function that processes can share
    todo = [[quiet if each is place else each for each in arguments] for arguments in calls]
    if place.workers == 1 or len(todo) < 2:
        yield from (work(*arguments) for arguments in todo)
        return
    with Workers(place.workers, grace_s=0.0) as pool:
        for done in as_completed([pool.submit(work, *arguments) for arguments in todo]):
            yield done.result()


def _unheard(_line: str) -> None:
    pass


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
