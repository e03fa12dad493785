"""The timeline audit: what it says is allocated and available follows from the allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simkit.verify_audit import Check
from simkit.verify_capacity import capacity_steps

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

Floats = npt.NDArray[np.float64]


def check_timeline(run: RunFolder) -> Check:
    """After each decision, as much is allocated, available and running as the records say.

    Instants at which an allocation of length zero came and went are left out: whether the row was
    written before or after its end is not recorded. Of several decisions at one instant the last
    counts.
    """
    import polars as pl

    timeline = run.tables["timeline"]
    check = Check("timeline", "allocated and capacity columns follow from the allocations")
    start, end = pl.col("start_time_s"), pl.col("end_time_s")
    check.add_rows("goes back in time", timeline.filter(pl.col("time_s").diff() < 0))
    known = run.known.filter(start.is_not_null())
    brief = known.filter(start == end)["start_time_s"].unique()
    rows = timeline.unique("time_s", keep="last", maintain_order=True)
    rows = rows.filter(~pl.col("time_s").is_in(brief.implode()))
    check.examined = rows.height
    time = rows["time_s"].to_numpy()
    for index, resource in enumerate(run.resources):
        one = known[f"one_{resource}"] if resource in run.asked else known["count"] * 0.0
        amount = (known["count"] * one).to_numpy()
        expected = {
            f"allocated_{resource}": _held(known, amount, time),
            f"capacity_{resource}": _capacity(run, index, time),
        }
        for column, values in expected.items():
            _compare(check, rows, column, values)
    if known["gang"].all():
        gangs = run.segments
        _compare(check, rows, "running", _held(gangs, np.ones(gangs.height), time))
    return check


def _held(spans: pl.DataFrame, amount: Floats, time: Floats) -> Floats:
    """Return the sum of the amounts with start <= time < end, for each time."""
    start = spans["start_time_s"].to_numpy()
    end = spans["end_time_s"].fill_null(np.inf).to_numpy()
    # Starts and ends in one sum: it stays within the capacity, so it stays exact.
    return _sum_until(np.concatenate([start, end]), np.concatenate([amount, -amount]), time)


def _sum_until(instants: Floats, amount: Floats, time: Floats) -> Floats:
    """Return the sum of the amounts at instants up to each time, that time included."""
    order = np.argsort(instants, kind="stable")
    total = np.concatenate(([0.0], np.cumsum(amount[order])))
    return np.asarray(total[np.searchsorted(instants[order], time, side="right")])


def _capacity(run: RunFolder, index: int, time: Floats) -> Floats:
    """Return the cluster's capacity of a resource at each time."""
    changes: list[tuple[float, float]] = []
    before: dict[int, float] = {}
    for step in capacity_steps(run):
        now = step.capacity[index]
        changes.append((step.time_s, now - before.get(step.machine_id, 0.0)))
        before[step.machine_id] = now
    instants, amounts = np.array(changes).T
    return _sum_until(instants, amounts, time)


def _compare(check: Check, rows: pl.DataFrame, column: str, expected: Floats) -> None:
    import polars as pl

    if column not in rows.columns:
        check.add(f"the timeline has no column {column}", {"column": column})
        return
    found = rows.with_columns(pl.Series("expected", expected))
    wrong = found.filter(pl.col(column).cast(pl.Float64).ne_missing(pl.col("expected")))
    check.add_rows(f"{column} is not what the allocations say", wrong)
