"""The power of a run at regular times: its table "power" as means over intervals of one length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats
from simkit.errors import RunError
from simkit.power.ledger_rows import COLUMNS, RATES, STORED, Flows
from simkit.results.energy_metrics import EnergyRecords
from simkit.results.output_folder import PART, reason
from simkit.results.run_folder import Run, open_run
from simkit.results.timeline_metrics import bin_edges
from simkit.units import parse_duration

# MERGED The ledger as a table at regular times: a view of its rows that changes no total.


MEANS: Final = tuple(name for name in Flows._fields if name not in RATES)
"""Columns that hold and do not flow: PUE, prices, carbon intensities."""


def resampled(
    rows: Mapping[str, Floats | Sequence[float]],
    edges: npt.ArrayLike,
    first: Mapping[str, float] | None = None,
) -> dict[str, Floats]:
    """Return the means of a ledger's rows over bins.

    The mean of a bin times its length is exactly what flowed in it, so that bins of any length add
    up to the same totals as long as they cover the same time.

    Args:
        rows: columns of equal length as the ledger hands them on, in order of time.
        edges: (bins + 1,) ascending times in s; outside the rows nothing flows.
        first: what is stored at the first row's start, by the names of `STORED`; NaN where absent.

    Returns:
        Columns of (bins,): start_s, end_s, the means of `RATES` over the bin, those of `MEANS` over
        what the rows cover of it (NaN: nothing), and what is stored at its end; within a row the
        store is filled and emptied evenly.
    """
    cuts = np.asarray(edges, dtype=np.float64)
    columns = {name: np.asarray(rows[name], dtype=np.float64) for name in rows}
    times = np.concatenate((columns["start_s"][:1], columns["end_s"]))
    within = times[np.searchsorted(times, cuts[0], "right") : np.searchsorted(times, cuts[-1])]
    points = np.union1d(cuts, within)  # between two of them everything is constant
    row = np.searchsorted(times, points[:-1], side="right") - 1
    covered = (row >= 0) & (row < len(times) - 1)
    row = np.clip(row, 0, len(times) - 2)
    span = np.where(covered, np.diff(points), 0.0)
    begin = np.searchsorted(points, cuts[:-1])
    view = {"start_s": cuts[:-1], "end_s": cuts[1:]}
    for names, seconds in ((RATES, np.diff(cuts)), (MEANS, np.add.reduceat(span, begin))):
        for name in names:
            flowed = np.add.reduceat(columns[name][row] * span, begin)
            view[name] = np.divide(
                flowed, seconds, out=np.full(len(begin), np.nan), where=seconds > 0
            )
    for name in STORED:
        held = np.concatenate(([(first or {}).get(name, np.nan)], columns[name]))
        view[name] = np.interp(cuts[1:], times, held)
    return view


MOST_ROWS: Final = 2**25
"""Rows that a table at regular times may have: more than a year of seconds."""
_CHUNK: Final = 2**16
"""Rows that are worked out at once."""
ENDINGS: Final = (".csv", ".parquet")
"""Of files that hold a table of power."""


def power_frames(run: Run, interval: str | float) -> Iterator[pl.DataFrame]:
    """Yield the table that `Run.power_every` returns in frames of some rows each, at least one.

    Raises RunError as that does.
    """
    length = _interval(interval)
    table = power_table(run)
    if not len(table):
        yield pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.Float64))
        return
    rows = {name: table[name].to_numpy() for name in COLUMNS}
    start, end = float(rows["start_s"][0]), float(rows["end_s"][-1])
    if (end - start) / length > MOST_ROWS:
        raise RunError(
            f"{run.folder}: {(end - start) / length:,.0f} intervals of {length:g} s from "
            f"{start:g} s to {end:g} s; a table has at most {MOST_ROWS:,}: choose longer ones"
        )
    edges, first = bin_edges(start, end, length), stored_first(run)
    for begin in range(0, len(edges) - 1, _CHUNK):
        view = resampled(rows, edges[begin : begin + _CHUNK + 1], first)
        yield pl.DataFrame({name: view[name] for name in COLUMNS})


def power_table(run: Run) -> pl.DataFrame:
    """Return the table "power" of a run; raises RunError if its scenario says nothing of power."""
    if not run.has_power:
        raise RunError(
            f"{run.folder}: its scenario says nothing of power, so nothing of it was recorded; add "
            "a section `power` to the scenario and run it again"
        )
    return run.power


def stored_first(run: Run) -> dict[str, float]:
    """Return what the battery holds at the start of a run, by the names of `STORED`.

    Its content then carries neither carbon nor cost, nor does it come from the grid.
    """
    records = EnergyRecords.of(run)
    battery = None if records is None else records.battery
    content = 0.0 if battery is None else battery.initial_j
    return {**dict.fromkeys(STORED, 0.0), "stored_j": content}


def export_power(
    run: Run | str | PathLike[str],
    path: str | PathLike[str],
    *,
    every: str | float | None = None,
) -> None:
    """Write the power of a run as a table of its own, with the columns of the table "power".

    Args:
        run: a run, or its folder.
        path: a ``.csv`` or ``.parquet`` file.
        every: length of the intervals, as for `Run.power_every`; None: the rows as they were
            recorded, each of which lasts as long as nothing changes.

    Raises RunError for another type of file, a run without power, an interval that is none, or a
    file that cannot be written.
    """
    opened, target = run if isinstance(run, Run) else open_run(run), Path(path)
    if target.suffix.lower() not in ENDINGS:
        raise RunError(f"{target}: a table of power is {' or '.join(ENDINGS)}; name it so")
    frames = [power_table(opened)] if every is None else power_frames(opened, every)
    part = target.with_name(target.name + PART)
    try:
        try:
            if target.suffix.lower() == ".csv":
                _write_csv(part, frames)
            else:
                _write_parquet(part, frames)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(
            f"{target}: cannot be written: {reason(error)}; choose another place"
        ) from error


def _write_csv(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    with path.open("wb") as file:
        for number, frame in enumerate(frames):
            frame.write_csv(file, include_header=number == 0)


def _write_parquet(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    from pyarrow.parquet import ParquetWriter

    frames = iter(frames)
    table = next(frames).to_arrow()
    with ParquetWriter(path, table.schema, compression="zstd") as writer:
        writer.write_table(table)
        for frame in frames:
            writer.write_table(frame.to_arrow())


def _interval(given: str | float) -> float:
    """Return the length of an interval in s."""
    try:
        length = parse_duration(given)
    except ValueError as error:
        raise RunError(f"interval: {error}") from error
    if length <= 0:
        raise RunError(f"interval: {given!r} is not above 0; write 300, 5m or 1h")
    return length
