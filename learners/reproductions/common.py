"""What the reproductions share: Markdown tables, figures, data files, trainings, kept results."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl

from simkit.errors import RunError
from simkit.experiment.workers import Workers
from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.training import Workplace
from simkit.training.train import train_all


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def markdown_table(rows: Iterable[Sequence[str]], *, left: int | None = None) -> str:
    """Return a Markdown table whose first row is its head; only `left` columns align left."""
    head, *body = rows
    right = 0 if left is None else len(head) - left
    return markdown([head, ["---"] * (len(head) - right) + ["---:"] * right, *body])


def with_bounds(value: float, low: float | None, high: float | None) -> str:
    """Return ``1.20 (1.10 to 1.30)``, or the value alone without an interval."""
    return (
        f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f} to {high:.2f})"
    )


def keep(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, then rename it, so that only complete files exist."""
    part = path.with_suffix(".part")
    write(part)
    part.replace(path)


def kept_table(
    place: Workplace, path: Path, compute: Callable[[], pl.DataFrame], message: str = ""
) -> pl.DataFrame:
    """Return the table kept at a path; compute and keep it first, with a message, if missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        keep(path, compute().write_parquet)
        if message:
            place.say(message)
    return pl.read_parquet(path)


def digest_of(values: object) -> str:
    """Return a short hash of plain values, to name a kept result."""
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def weights_hash(training: Path) -> str:
    """Return a hash of the weights of a complete training's agent."""
    return sha256((training / "agent" / "weights.safetensors").read_bytes()).hexdigest()


def wall_time_s(training: Path) -> float:
    """Return the wall time of a complete training, in s."""
    table = pl.read_parquet(training / "metrics.parquet")
    return float(table["wall_time_s"].sum()) if "wall_time_s" in table else 0.0


def commit() -> str:
    """Return the commit of this file's checkout; ``unknown`` outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def list_versions(*names: str) -> str:
    """Return the versions of packages that results depend on, as text; by default four."""
    known = {**versions(), "torch": metadata.version("torch")}
    chosen = names or ("simkit", "python", "numpy", "torch")
    return ", ".join(f"{name} {known[name]}" for name in chosen)


def data_file(reproduction: str, file: str) -> Path:
    """Return a file below SIMKIT_DATA; raises RunError if it is missing."""
    folder = os.environ.get("SIMKIT_DATA")
    path = Path(folder or "", file)
    if not (folder and path.is_file()):
        raise RunError(
            f"reproduce {reproduction}: there is no file {path}; set SIMKIT_DATA to the folder "
            f"that holds {file}"
        )
    return path


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


def train_in(place: Workplace, scenarios: Iterable[Scenario]) -> None:
    """Run the trainings that are not complete yet, each in a folder with its scenario's name."""
    folder = place.work / "trainings"
    folder.mkdir(exist_ok=True)
    todo = [(scenario, folder / scenario.name) for scenario in scenarios]
    train_all(todo, workers=place.workers, say=place.say)
