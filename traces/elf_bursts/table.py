"""The table of programs, and what it says about the noise of their run times."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.traces.elf_bursts.measurements import Measurements
from simkit.traces.elf_bursts.plan import CLASSES, LONGEST_S
from simkit.traces.elf_bursts.programs import Program
from simkit.traces.elf_bursts.signature import SECTIONS

_SAMPLE = Path(str(resources.files("simkit.traces.samples").joinpath("elf_bursts.parquet")))
SIGNATURE = (*SECTIONS, "file_size")
"""Columns of a program's signature, in bytes."""


def bursts_table(programs: Sequence[Program], kept: Measurements, rows: int) -> pl.DataFrame:
    """Return the first `rows` measured programs, one a row.

    Columns: ``kind``, ``level``, ``heap``, ``size``; `SIGNATURE`; ``run_1_s`` to ``run_3_s`` and
    the smallest, ``run_time_s``; ``again_s``, the smallest of three runs at another time, if there
    were some; ``class``, 0 to 9: the tenth of 0.3 s.
    """
    found: list[dict[str, Any]] = []
    for number, program in enumerate(programs):
        row = kept.rows[number]
        if row is None or len(found) == rows:
            continue
        times = {f"run_{k}_s": time_s for k, time_s in enumerate(row["times"], 1)}
        run_time_s = min(row["times"])
        found.append({
            "kind": program.kind, "level": program.level, "heap": program.heap,
            "size": program.size, **row["signature"], **times, "run_time_s": run_time_s,
            "again_s": kept.again.get(number), "class": burst_class(run_time_s),
        })  # fmt: skip
    floats = ("run_1_s", "run_2_s", "run_3_s", "run_time_s", "again_s")
    return pl.DataFrame(found, schema_overrides=dict.fromkeys(floats, pl.Float64))


def read_bursts(path: str | PathLike[str] | None = None) -> pl.DataFrame:
    """Return a table of programs that was written before.

    Args:
        path: of the Parquet file; None: the sample that comes with simkit.

    Raises TraceError if it cannot be read, or lacks columns.
    """
    place = Path(path) if path is not None else _SAMPLE
    try:
        table = pl.read_parquet(place)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise TraceError(
            f"{place}: cannot be read as a Parquet file: {why}; name the bursts.parquet that "
            "simkit trace generate elf-bursts has written"
        ) from None
    wanted = ("kind", "level", "heap", "size", *SIGNATURE, "run_time_s", "class")
    if missing := [name for name in wanted if name not in table.columns]:
        raise TraceError(
            f"{place}: has no column {', '.join(missing[:3])}{', …' * (len(missing) > 3)}; name "
            "the bursts.parquet that simkit trace generate elf-bursts has written"
        )
    return table


def burst_class(run_time_s: float) -> int:
    """Return the class of a run time: the tenth of 0.3 s, from 0; the last if it is longer."""
    return min(int(run_time_s * CLASSES / LONGEST_S), CLASSES - 1)


class Noise(NamedTuple):
    """How far the run times of one and the same program are from each other."""

    sigma: float
    """Relative standard deviation of a run time, which is the smallest of three runs."""
    flips: float
    """The share of programs whose two run times are in different classes."""
    single_flips: float
    """The same of two single runs, one after the other."""
    pairs: int
    """Programs that were measured twice."""


def noise_of(table: pl.DataFrame) -> Noise:
    """Return the noise of a table; NaN where nothing was measured twice."""
    twice = table.drop_nulls("again_s")
    one, other = twice["run_time_s"].to_numpy(), twice["again_s"].to_numpy()
    first, second = table["run_1_s"].to_numpy(), table["run_2_s"].to_numpy()
    ratio = np.log(other / one)
    return Noise(
        float(np.sqrt(np.mean(ratio**2) / 2)) if len(ratio) else float("nan"),
        _flips(one, other), _flips(first, second), len(ratio),
    )  # fmt: skip


def _flips(one: Floats, other: Floats) -> float:
    if not len(one):
        return float("nan")
    flips = [burst_class(a) != burst_class(b) for a, b in zip(one, other, strict=True)]
    return float(np.mean(flips))
