"""The audit of the metrics of worth: worked out once more from the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

    from simkit.verify_folder import RunFolder

Floats = npt.NDArray[np.float64]
Numbers = dict[tuple[str, str], float | None]
"""(metric, number) → value, as ``metrics[metric][number]``."""


def value_numbers(run: RunFolder, jobs: pl.DataFrame) -> Numbers:
    """Return the numbers that metrics of worth must have; none where jobs have no worth.

    Args:
        run: the run.
        jobs: those of its jobs that count.
    """
    import polars as pl

    there = {"qos", "value", "deadline_s"} & set(jobs.columns)
    if not there or not run.jobs.height:
        return {}
    last = _last_instant(run)
    status = jobs["status"]
    finished = (status == "finished").to_numpy()
    no_more = float(run.jobs["submit_time_s"].to_numpy().max())
    early = finished & (jobs["end_time_s"].fill_null(np.inf) <= no_more).to_numpy()
    numbers: Numbers = {
        ("completion_ratio", name): _share(int(which.sum()), jobs.height)
        for name, which in (("value", finished), ("by_last_submit", early))
    }
    in_time = finished
    if "qos" in there:
        due = jobs.select(pl.col("submit_time_s") + pl.col("trace_run_time_s") / pl.col("qos"))
        late, known = _lateness(jobs, due.to_series().to_numpy(), last)
        in_time = finished & ~late
        numbers |= _of_lateness("qos_violations", late, known)
    if "deadline_s" in there and jobs["deadline_s"].is_not_null().any():
        some = jobs.filter(pl.col("deadline_s").is_not_null())
        late, known = _lateness(some, some["deadline_s"].to_numpy(), last)
        numbers |= _of_lateness("deadline_misses", late, known)
    if "value" in there:
        worth = jobs["value"].to_numpy()
        parts = {"value": finished, "by_last_submit": early, "in_time": in_time}
        for name, which in parts.items():
            if name != "in_time" or "qos" in there:
                numbers["job_value", name] = float(worth[which].sum())
                numbers["value_ratio", name] = _share(float(worth[which].sum()), float(worth.sum()))
    numbers["delay_cost", "value"] = _delay_s(run, jobs, last) / 3600
    return numbers


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _last_instant(run: RunFolder) -> float:
    """Return the last instant of the timeline or the last end of a job, whichever is later."""
    columns = (run.tables["timeline"]["time_s"], run.jobs["end_time_s"], run.jobs["submit_time_s"])
    return max(float(c.drop_nulls().to_numpy().max()) for c in columns if c.drop_nulls().len())


def _lateness(
    jobs: pl.DataFrame, due: Floats, last: float
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which jobs were late, and of which it is known whether they were."""
    status = jobs["status"].to_numpy()
    over = np.isin(status, ("finished", "killed", "rejected"))
    end = np.where(status == "finished", jobs["end_time_s"].fill_null(np.nan).to_numpy(), last)
    late = (end > due) | np.isin(status, ("killed", "rejected"))
    return late, over | late


def _of_lateness(name: str, late: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> Numbers:
    count, of = int(late.sum()), int(known.sum())
    return {
        (name, "value"): float(count),
        (name, "share"): _share(count, of),
        (name, "count"): float(of),
        (name, "censored"): float(len(known) - of),
    }


def _delay_s(run: RunFolder, jobs: pl.DataFrame, last: float) -> float:
    """Return the seconds in which jobs that had been let in held nothing, from submit to end.

    One sweep over submits, ends, and starts and ends of allocations, job by job.
    """
    import polars as pl

    rows = jobs.filter(pl.col("status") != "rejected").with_row_index("row")
    rows = rows.with_columns(pl.col("end_time_s").fill_null(last))
    held = run.allocations.join(rows.select("job_id", "row"), on="job_id", how="inner")
    job = np.concatenate([rows["row"], rows["row"], held["row"], held["row"]]).astype(np.int64)
    time = np.concatenate(
        [rows["submit_time_s"], rows["end_time_s"], held["start_time_s"],
         held["end_time_s"].fill_null(last)]
    )  # fmt: skip
    inside = np.repeat([1, -1, 0, 0], [rows.height, rows.height, held.height, held.height])
    running = np.repeat([0, 0, 1, -1], [rows.height, rows.height, held.height, held.height])
    order = np.lexsort((time, job))
    job, time = job[order], time[order]
    idle = (np.cumsum(inside[order]) > 0) & (np.cumsum(running[order]) == 0)
    same = job[1:] == job[:-1]
    return float(np.diff(time)[idle[:-1] & same].sum()) if len(time) else 0.0
