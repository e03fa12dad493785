"""Helpers of the reproductions: Markdown tables, figures, trainings, and results that are kept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.training import Workplace
from simkit.training.train import train_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_bounds(value: float, low: float | None, high: float | None) -> str:
    """Return ``1.20 (1.10 to 1.30)``, or the value alone without an interval."""
    return (
        f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f} to {high:.2f})"
    )


def empty_figure(width: float = 8.0, height: float = 3.8) -> Figure:
    """Return an empty figure, in inches; imports matplotlib, which is optional."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def keep(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name and rename it, so that it is complete if it exists."""
    part = path.with_suffix(".part")
    write(part)
    part.replace(path)


def digest_of(told: object) -> str:
    """Return a short hash of plain values, for the name of a result that is kept."""
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def weights_hash(training: Path) -> str:
    """Return a hash of the weights of a complete training's agent."""
    return sha256((training / "agent" / "weights.safetensors").read_bytes()).hexdigest()


def wall_time_s(training: Path) -> float:
    """Return how long a complete training took."""
    table = pl.read_parquet(training / "metrics.parquet")
    return float(table["wall_time_s"].sum()) if "wall_time_s" in table else 0.0


def commit() -> str:
    """Return the commit of the checkout that this file is in; ``unknown`` if it is in none."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def told_versions() -> str:
    """Return the versions of what numbers may depend on, in words."""
    known = {**versions(), "torch": metadata.version("torch")}
    return ", ".join(f"{name} {known[name]}" for name in ("simkit", "python", "numpy", "torch"))


def train_in(place: Workplace, scenarios: Iterable[Scenario]) -> None:
    """Do the trainings that are not complete yet, each in the folder of its scenario's name."""
    folder = place.work / "trainings"
    folder.mkdir(exist_ok=True)
    todo = [(scenario, folder / scenario.name) for scenario in scenarios]
    train_all(todo, workers=place.workers, say=place.say)
