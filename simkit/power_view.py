"""The power of a run at regular times: its table "power" as means over intervals of one length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simkit.energy_records import EnergyRecords
from simkit.errors import RunError
from simkit.ledger_rows import COLUMNS, STORED
from simkit.ledger_view import resampled
from simkit.output_place import PART, reason
from simkit.run_folder import Run, open_run
from simkit.series import bin_edges
from simkit.units import parse_duration

if TYPE_CHECKING:
    import polars as pl

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
    import polars as pl

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
