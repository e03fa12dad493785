"""Metrics of value: the value of finished jobs, violations of quality of service, delay costs.

Every submitted job counts. The *due time* of a job is the end of what its quality of service
allows, or its deadline:

- a finished job is late if it ended after its due time;
- a killed or rejected job is late: it will never finish;
- a job that waits or runs at the run's last instant is late if its due time has passed, and
  censored otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.results.metric import Found, Metric, MetricRow, RunWindow, batches, metrics_of, share
from simkit.workload import OF_JOBS


@dataclass
class ValueSums:
    """Counts and sums over jobs."""

    submitted: int = 0
    finished: int = 0
    finished_early: int = 0
    """Jobs that finished by the last submit."""
    value: float = 0.0
    """Of all jobs."""
    earned: float = 0.0
    """Value of the jobs that finished."""
    earned_in_time: float = 0.0
    """Value of the jobs that finished without a violation."""
    earned_early: float = 0.0
    """Value of the jobs that finished by the last submit."""
    violated: int = 0
    unviolated: int = 0
    missed: int = 0
    met: int = 0
    deadlines: int = 0
    """Jobs that have one."""
    in_system_s: float = 0.0
    """Time from submission until the end, or the run's last instant."""
    held_s: float = 0.0
    """Time in which jobs held something."""
    has_qos: bool = False


_Lateness = Callable[[ValueSums], tuple[int, int, int]]


def value_metrics(
    jobs: pl.LazyFrame, allocations: pl.LazyFrame, timeline: pl.LazyFrame, window: RunWindow
) -> list[Metric]:
    """Return the metrics of value; none if no job has a value, QoS or deadline.

    Args:
        jobs: columns of `records.JOBS` and any columns of `records.JOBS_WITH_VALUE`.
        allocations: columns of `records.ALLOCATIONS`.
        timeline: column ``time_s``, whose last value is the run's last instant.
        window: its jobs count.
    """
    there = [name for name in OF_JOBS if name in jobs.collect_schema().names()]
    if not there:
        return []
    last = timeline.select(pl.col("time_s").max()).collect().item()
    end_s = window.last_end_s if last is None else max(float(last), window.last_end_s)
    tally = _tally(jobs, window, there, end_s)
    tally.held_s = _held_s(jobs, allocations, window, end_s)
    known = {*there, *(["deadlines"] if tally.deadlines else [])}
    return metrics_of(VALUE_METRICS, tally, window, known=known)


def _tally(
    jobs: pl.LazyFrame, window: RunWindow, there: Collection[str], end_s: float
) -> ValueSums:
    """Count and add up the window's jobs; `end_s` is the run's last instant."""
    columns = ["status", "submit_time_s", "end_time_s", "trace_run_time_s", *there]
    tally = ValueSums(has_qos="qos" in there)
    for rows in batches(jobs, [pl.col(name) for name in columns], window):
        status = rows["status"].to_numpy()
        finished, rejected = status == "finished", status == "rejected"
        gone = rejected | (status == "killed")
        submit = rows["submit_time_s"].to_numpy()
        ended = rows["end_time_s"].cast(pl.Float64).fill_null(end_s).to_numpy()
        in_time = finished
        if "qos" in there:
            due = submit + rows["trace_run_time_s"].to_numpy() / rows["qos"].to_numpy()
            in_time = finished & (ended <= due)
            tally.violated += int((gone | (ended > due)).sum())
            tally.unviolated += int(in_time.sum())
        if "deadline_s" in there:
            due = rows["deadline_s"].fill_null(np.inf).to_numpy()
            has = np.isfinite(due)
            tally.deadlines += int(has.sum())
            tally.missed += int((has & (gone | (ended > due))).sum())
            tally.met += int((has & finished & (ended <= due)).sum())
        early = finished & (ended <= window.last_submit_s)
        if "value" in there:
            value = rows["value"].to_numpy()
            tally.value += float(value.sum())
            tally.earned += float(value[finished].sum())
            tally.earned_in_time += float(value[in_time].sum())
            tally.earned_early += float(value[early].sum())
        tally.submitted += len(rows)
        tally.finished += int(finished.sum())
        tally.finished_early += int(early.sum())
        tally.in_system_s += float((ended - submit)[~rejected].sum())
    return tally


def _held_s(
    jobs: pl.LazyFrame, allocations: pl.LazyFrame, window: RunWindow, end_s: float
) -> float:
    """Return the seconds in which the window's jobs held something, summed over jobs."""
    start, end = pl.col("start_time_s"), pl.col("end_time_s")
    rows = allocations.select("job_id", start, end.fill_null(end_s))
    if window.trimmed:
        rows = rows.join(window.jobs(jobs).select("job_id"), on="job_id", how="semi")
    table = rows.sort("job_id", "start_time_s", "end_time_s").select(
        start, end, before=end.cum_max().shift(1).over("job_id")
    ).collect()  # fmt: skip
    begun = table.select(pl.max_horizontal(start, "before")).to_series().to_numpy()
    return float(np.maximum(table["end_time_s"].to_numpy() - begun, 0.0).sum())


def _by_part(tally: ValueSums) -> dict[str, float]:
    """Return the value of the jobs that finished, of those by the last submit and in time."""
    found = {"value": tally.earned, "by_last_submit": tally.earned_early}
    return found | ({"in_time": tally.earned_in_time} if tally.has_qos else {})


_EARLY: Final = "by_last_submit: by then, as if the run ended when no new job comes"


def _lateness(name: str, due: str, need: str, counts: _Lateness) -> MetricRow[ValueSums]:
    """Return the row of jobs that were late; `counts` gives late, in time, all with a due time."""

    def found(tally: ValueSums) -> Found:
        late, in_time, total = counts(tally)
        known = late + in_time
        return Found({"value": late, "share": share(late, known)}, known, total - known)

    formula = (
        f"jobs that did not finish by {due}; killed and rejected ones did not; unfinished "
        "ones whose time was not up at the run's last instant are censored; share: of the others"
    )
    return MetricRow(name, "jobs", formula, found, better="low", needs=(need,))


VALUE_METRICS: Final[tuple[MetricRow[ValueSums], ...]] = (
    MetricRow(
        "job_value",
        "value",
        "sum of the values of the jobs that finished; " + _EARLY + "{in_time}",
        lambda tally: Found(
            _by_part(tally),
            tally.finished,
            tally.submitted - tally.finished,
            {"in_time": "; in_time: of those whose QoS was not violated" * tally.has_qos},
        ),
        better="high",
        needs=("value",),
    ),
    MetricRow(
        "value_ratio",
        "1",
        "job_value / the value of all jobs, rejected ones included",
        lambda tally: Found(
            {name: share(part, tally.value) for name, part in _by_part(tally).items()},
            tally.submitted,
        ),
        better="high",
        share=True,
        needs=("value",),
    ),
    MetricRow(
        "completion_ratio",
        "1",
        f"jobs that finished / all, rejected ones included; {_EARLY}",
        lambda tally: Found(
            {
                "value": share(tally.finished, tally.submitted),
                "by_last_submit": share(tally.finished_early, tally.submitted),
            },
            tally.submitted,
        ),
        better="high",
        share=True,
    ),
    _lateness(
        "qos_violations",
        "submit + run time / QoS",
        "qos",
        lambda tally: (tally.violated, tally.unviolated, tally.submitted),
    ),
    _lateness(
        "deadline_misses",
        "the deadline",
        "deadlines",
        lambda tally: (tally.missed, tally.met, tally.deadlines),
    ),
    MetricRow(
        "delay_cost",
        "job h",
        "hours from submit to end (or the run's last instant) in which a job holds nothing: before "
        "its start, while it is suspended or waits to start over; rejected jobs none",
        lambda tally: Found((tally.in_system_s - tally.held_s) / 3600, tally.submitted),
        better="low",
    ),
)
"""``deadlines``: a job of the window has one."""
