"""Work that is done again: where tasks stop for lack of power and go on from a checkpoint.

Worked out piece by piece from the allocations. Every so much work is saved. A stop takes the work
since the last time away, and going on costs a restart, in run time, before more work is done; where
nothing has been saved yet, work begins anew and there is nothing to restart. What has been saved
stays saved, also if the restart itself is cut short.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from simkit.verify_maintenance import seconds
from simkit.verify_pieces import UNIT

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

POWER = "power"
"""The cause of capacity that goes and comes back with the power, in the records."""


class _Piece(NamedTuple):
    length_s: float
    stopped: bool
    """For lack of power."""


def with_redone(work: pl.DataFrame, run: RunFolder) -> pl.DataFrame:
    """Return work with ``redone_s``: how much of its time did what had been done, or restarted.

    Args:
        work: the rows of `verify_pieces.executed`.
        run: the run.

    Without checkpoints ``redone_s`` is 0; else ``executed_s`` is less by it.
    """
    import polars as pl

    lost = redone(run)
    if lost is None:
        return work.with_columns(pl.lit(0.0).alias("redone_s"))
    lost = lost.drop("count")
    rows = work.join(lost, on=[*UNIT, "attempt"], how="left", maintain_order="left")
    again = pl.col("redone_s").fill_null(0.0)
    return rows.with_columns(again, (pl.col("executed_s") - again).alias("executed_s"))


def redone(run: RunFolder) -> pl.DataFrame | None:
    """Return ``redone_s`` of each attempt that power stopped; None without checkpoints.

    Columns: `UNIT`, ``attempt``, ``count`` (instances of the unit), ``redone_s``.
    """
    import polars as pl

    saved = run.setting("power", "supply", "checkpoints")
    if not saved:
        return None
    every, restart = seconds(saved["every"]), seconds(saved.get("restart") or 0.0)
    stops = power_instants(run)
    stopped = (pl.col("outcome") == "suspended") & pl.col("end_time_s").is_in(stops.implode())
    rows = run.pieces.filter(~pl.col("quiet"), pl.col("end_time_s").is_not_null())
    rows = rows.with_columns(
        (pl.col("end_time_s") - pl.col("start_time_s")).alias("length_s"),
        stopped.alias("stopped"),
    ).filter(pl.col("stopped").any().over(*UNIT, "attempt"))
    key = [*UNIT, "attempt", "count"]
    found = [
        (*names, redone_s(map(_Piece._make, group.select("length_s", "stopped").rows()),
                          every, restart))
        for names, group in rows.group_by(key, maintain_order=True)
    ]  # fmt: skip
    schema = {name: rows.schema[name] for name in key} | {"redone_s": pl.Float64}
    return pl.DataFrame(found, schema=schema, orient="row")


def power_instants(run: RunFolder) -> pl.Series:
    """Return the instants at which capacity goes or comes back with the power."""
    import polars as pl

    events = run.tables["events"].filter(pl.col("kind") == "capacity")
    cause = pl.col("detail").str.json_path_match("$.cause")
    return events.filter(cause == POWER)["time_s"].unique()


def redone_s(pieces: Iterable[_Piece], every: float, restart: float) -> float:
    """Return the run time of one attempt that did not bring its work further, in s.

    Args:
        pieces: (length in s, whether power stopped it), one after another.
        every: work between two checkpoints, in s.
        restart: run time that going on from a checkpoint costs, in s.
    """
    done = saved = again = 0.0
    for length, stopped in pieces:
        done += length
        if stopped:
            saved = max(saved, done // every * every)
            owed = restart if saved else 0.0
            left = round((saved - owed) * 2**20) / 2**20  # the run's grid of times
            again += done - left
            done = left
    return again
