"""Metrics over time, of allocations and of tasks: utilisation, backlog, throughput, losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from simkit.verify.audited_run import TASK, AuditedRun
from simkit.verify.numbers import Floats

Numbers = dict[tuple[str, str], float | None]
"""(metric, number) → value, as ``metrics[metric][number]``."""
_STATUSES = ("finished", "killed", "rejected", "running", "waiting")


@dataclass(frozen=True)
class Window:
    """What the metrics cover: some jobs, and a stretch of time in s."""

    jobs: pl.DataFrame
    """Those that are submitted after the warm-up and before the cool-down."""
    start_s: float
    end_s: float


def share(part: float, whole: float) -> float | None:
    """Return part / whole; None if the whole is not above 0."""
    return part / whole if whole > 0 else None


def counted(
    metric: str, values: Mapping[str, float | None], count: float, censored: float = 0
) -> Numbers:
    """Return a metric's numbers with its count and what is censored."""
    own: Numbers = {(metric, name): value for name, value in values.items()}
    return own | {(metric, "count"): float(count), (metric, "censored"): float(censored)}


def distribution(metric: str, values: Floats, of: float) -> Numbers:
    """Return the distribution of values, which `of` jobs (or others) might have."""
    some = len(values) > 0
    found: dict[str, float | None] = {
        "mean": float(np.mean(values)) if some else None,
        "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "p50": float(np.median(values)) if some else None,
        "p90": float(np.quantile(values, 0.9)) if some else None,
        "p99": float(np.quantile(values, 0.99)) if some else None,
        "max": float(np.max(values)) if some else None,
    }
    return counted(metric, found, len(values), of - len(values))


def statuses(metric: str, rows: pl.DataFrame) -> Numbers:
    """Return how many rows there are, and how many of each status."""
    tally = {name: float((rows["status"] == name).sum()) for name in _STATUSES}
    return counted(metric, {"submitted": float(rows.height), **tally}, rows.height)


def over_time(run: AuditedRun, window: Window) -> Numbers:
    """Return utilisation, backlog, throughput of jobs and the share of what was in vain."""
    held = run.only("allocations", "count", "start_time_s", "end_time_s", "outcome")
    ended = held.drop_nulls("end_time_s")
    length = window.end_s - window.start_s
    numbers: Numbers = {}
    for index, name in enumerate(run.resources):
        there = sum(capacity[index] for capacity in run.capacity.values())
        used, _, _ = _integral(run, window, _column(run, f"allocated_{name}"), 0.0)
        most = np.maximum(_column(run, f"allocated_{name}"), _column(run, f"capacity_{name}"))
        available, _, _ = _integral(run, window, most, there)
        numbers |= counted(f"utilisation_{name}", {"value": share(used, available)}, held.height)
    waiting = _column(run, "waiting") + _column(run, "backlog")
    area, top, rows = _integral(run, window, waiting, 0.0)
    numbers |= counted("backlog", {"mean": share(area, length), "max": top}, rows)
    spent = (ended["count"] * (ended["end_time_s"] - ended["start_time_s"])).to_numpy()
    vain = ended["outcome"].is_in(["lost", "killed"]).to_numpy()
    value = share(float(spent[vain].sum()), float(spent.sum()))
    open_ = held.height - ended.height
    numbers |= counted("unsuccessful_share", {"value": value}, ended.height, open_)
    done = _finished_inside(run.only("jobs", "status", "end_time_s"), window).height
    return numbers | _throughput("jobs", done, window)


def _column(run: AuditedRun, name: str) -> Floats:
    column = run.only("timeline", name).to_series()
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _integral(
    run: AuditedRun, window: Window, values: Floats, before: float
) -> tuple[float, float | None, int]:
    """Integrate a column of the timeline over the window.

    Returns the area, the largest value that held for some time, and the number of rows.
    """
    time = run.only("timeline", "time_s")["time_s"].to_numpy()
    until = max(window.start_s, window.end_s)
    seconds = np.diff(np.clip(np.concatenate([[-np.inf], time, [np.inf]]), window.start_s, until))
    levels = np.concatenate([[before], values])
    some = levels[seconds > 0]
    return float((levels * seconds).sum()), float(some.max()) if len(some) else None, len(time)


def _finished_inside(rows: pl.DataFrame, window: Window, status: str = "status") -> pl.DataFrame:
    inside = pl.col("end_time_s").is_between(window.start_s, window.end_s)
    return rows.filter((pl.col(status) == "finished") & inside)


def _throughput(what: str, done: int, window: Window) -> Numbers:
    rate = share(done, (window.end_s - window.start_s) / 3600)
    return counted(f"throughput_{what}_per_h", {"value": rate}, done)


def of_tasks(run: AuditedRun, window: Window) -> Numbers:
    """Return the metrics of tasks and instances; none if each job is one gang on one machine."""
    if len(run.capacity) < 2 and run.only("tasks", "gang")["gang"].all():
        return {}
    allocations, tasks = run.allocations, run.tasks
    finished = allocations.filter(pl.col("outcome") == "finished")
    instances = int(finished["count"].sum())
    inside = _finished_inside(allocations, window, "outcome")
    numbers = statuses("tasks", tasks)
    for what, done, total in (
        ("jobs", int((run.jobs["status"] == "finished").sum()), run.jobs.height),
        ("tasks", int((tasks["status"] == "finished").sum()), tasks.height),
        ("instances", instances, int(tasks["instances"].sum())),
    ):
        numbers |= counted(f"completed_{what}", {"value": share(done, total)}, done, total - done)
    submits = window.jobs.select("job_id", "submit_time_s").unique("job_id")
    ends = tasks.join(submits, on="job_id", how="inner")
    spans = (ends["end_time_s"] - ends["submit_time_s"]).drop_nulls().to_numpy()
    numbers |= distribution("task_turnaround_time_s", spans, ends.height)
    numbers |= _throughput("tasks", _finished_inside(tasks, window).height, window)
    numbers |= _throughput("instances", int(inside["count"].sum()), window)
    lost = int(allocations.filter(pl.col("outcome") == "lost")["count"].sum())
    killed = int(allocations.filter(pl.col("outcome") == "killed")["count"].sum())
    numbers |= counted("retries", {"value": float(lost)}, allocations.height)
    tries = finished["attempt"]
    mean = share(float((finished["count"] * tries).sum()), instances)
    top = float(tries.to_numpy().max()) if instances else None
    numbers |= counted("attempts", {"mean": mean, "max": top}, instances, lost + killed)
    return numbers | _in_vain(run)


def _in_vain(run: AuditedRun) -> Numbers:
    """Return the instance-seconds and resource-seconds of what was lost, and of what was killed."""
    ended = run.known.drop_nulls("end_time_s").unique(
        [*TASK, "machine_id", "first_instance", "attempt", "start_time_s", "end_time_s"],
        keep="first",
    )
    running = run.allocations["end_time_s"].null_count()
    numbers: Numbers = {}
    for outcome in ("lost", "killed"):
        rows = ended.filter(pl.col("outcome") == outcome)
        held = (rows["count"] * (rows["end_time_s"] - rows["start_time_s"])).to_numpy()
        sums = {"instance": float(held.sum())}
        for name in run.resources:
            one = rows[f"one_{name}"].to_numpy() if name in run.requested else 0.0
            sums[name] = float((held * one).sum())
        for what, value in sums.items():
            count = run.allocations.height - running
            numbers |= counted(f"{outcome}_{what}_s", {"value": value}, count, running)
    return numbers
