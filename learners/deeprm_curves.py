"""Learning curves: what trainings logged on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simkit.reproduction import Workplace

from .deeprm_study import Setting, tasks

if TYPE_CHECKING:
    import polars as pl

COLUMNS = (
    "iteration", "wall_time_s", "decisions", "return", "return_best", "entropy",
    "held_out_slowdown", "held_out_unfinished",
)  # fmt: skip


def curves(place: Workplace, setting: Setting) -> pl.DataFrame:
    """Return a row an iteration of each training that is there, with its name, load and seed."""
    import polars as pl

    parts = []
    for task in tasks(setting):
        path = place.work / "trainings" / task.name / "metrics.parquet"
        if path.exists():
            table = pl.read_parquet(path)
            facts = (pl.lit(task.name).alias("training"), pl.lit(task.load).alias("load"),
                     pl.lit(task.seed).alias("seed"))  # fmt: skip
            parts.append(table.select(*facts, *(c for c in COLUMNS if c in table.columns)))
    return pl.concat(parts, how="diagonal_relaxed")
