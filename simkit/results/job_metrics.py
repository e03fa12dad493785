"""Metrics of jobs: `wait_time_s`, turnaround, slowdowns, makespan, throughput and fairness.

`JOB_METRICS` defines the numbers of single jobs; a run has the distribution of each:
mean, deviation and percentiles (`metric.distribution`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.results.metric import (
    Metric,
    RunWindow,
    batches,
    distribution,
    share,
    task_area,
    throughput,
)
from simkit.text import counted


@dataclass(frozen=True)
class JobMetric:
    """A number that a job has once it has started or ended."""

    name: str
    unit: str
    formula: str
    value: Callable[[float, str], pl.Expr]
    """Function of tau (s) and the counted resource; null if a job has no value."""
    needs: tuple[str, ...] = ()
    """Columns that it reads besides times and resources; see `analysis.comparable_metrics`."""
    high_is_good: bool = False


_LEAST: Final = pl.coalesce("ideal_time_s", "run_time_s")
"""The ideal time of a job of several tasks or instances, the run time of any other."""
_OR_IDEAL: Final = (
    "; of several tasks or instances: turnaround for wait + run and ideal for run, where ideal is "
    "the critical path of the longest successful instances"
)


def _bounded_slowdown(tau: float, processors: pl.Expr) -> pl.Expr:
    """Return max(1, (wait + run) / (processors · max(run, tau))), null before the job's end.

    Of several tasks or instances: max(1, turnaround / (processors · max(ideal, tau))).
    """
    ended, several = pl.col("end_time_s").is_not_null(), pl.col("ideal_time_s").is_not_null()
    floor = processors * pl.max_horizontal(_LEAST, pl.lit(tau))
    whole = pl.col("wait_time_s") + pl.col("run_time_s")
    ratio = pl.when(several).then(pl.col("turnaround_time_s")).otherwise(whole) / floor
    return pl.when(ended & ratio.is_not_null() & (floor > 0)).then(pl.max_horizontal(ratio, 1.0))


JOB_METRICS: tuple[JobMetric, ...] = (
    JobMetric(
        "wait_time_s", "s", "first start - submit", lambda _tau, _resource: pl.col("wait_time_s")
    ),
    JobMetric(
        "turnaround_time_s",
        "s",
        "end - submit, killed jobs included",
        lambda _tau, _resource: pl.col("turnaround_time_s"),
    ),
    JobMetric(
        "slowdown",
        "1",
        "turnaround / run; of several tasks or instances turnaround / ideal, the critical path of "
        "the longest successful instances; a job that ran for 0 s has none and counts as censored",
        lambda _tau, _resource: pl.when(_LEAST > 0).then(pl.col("turnaround_time_s") / _LEAST),
    ),
    JobMetric(
        "bounded_slowdown",
        "1",
        "max(1, (wait + run) / max(run, {tau:g} s))" + _OR_IDEAL,
        lambda tau, _resource: _bounded_slowdown(tau, pl.lit(1.0)),
    ),
    JobMetric(
        "per_processor_bounded_slowdown",
        "1",
        "max(1, (wait + run) / ({resource} * max(run, {tau:g} s))) (Zotkin and Keleher, "
        '"Job-length estimation and performance in backfilling schedulers", 1999)' + _OR_IDEAL,
        lambda tau, resource: _bounded_slowdown(tau, pl.col(resource)),
    ),
)
"""Metrics that every job has, by the names that `compute_metrics` and `compare_runs` use."""

SINCE_RELEASE: Final = JobMetric(
    "wait_since_release_s",
    "s",
    "first start - release: what a job waited once it could run, after its release time and the "
    "ends and think times of its preceding jobs",
    lambda _tau, _resource: pl.col("start_time_s") - pl.col("release_time_s"),
    ("release_time_s",),
)
"""The metric that only jobs of a workload with release times or preceding jobs have."""


def job_metrics(
    jobs: pl.LazyFrame, tasks: pl.LazyFrame, window: RunWindow, *, tau: float, resource: str
) -> list[Metric]:
    """Return the metrics of the window's jobs; makespan is that of all jobs.

    Args:
        jobs: columns of `records.JOBS`, and one a resource.
        tasks: columns of `records.TASKS`, and one a resource.
        window: its jobs count; throughput is that of its stretch of time.
        tau: floor of the run time in bounded slowdowns, in s.
        resource: its amount stands for a job's processors.
    """
    finished = (pl.col("status") == "finished") & pl.col("end_time_s").is_between(
        window.start_s, window.end_s
    )
    return [
        *_distributions(jobs, window, tau, resource),
        _makespan(jobs),
        throughput("jobs", jobs.select(finished.sum()).collect().item(), window),
        _weighted_response(jobs, tasks, window, resource),
        _fairness(jobs, window, tau),
    ]


def _distributions(
    jobs: pl.LazyFrame, window: RunWindow, tau: float, resource: str
) -> list[Metric]:
    """Return each job metric's distribution; the values of one metric are held at a time."""
    found, columns = [], set(jobs.collect_schema().names())
    metrics = (*JOB_METRICS, *([SINCE_RELEASE] if columns.issuperset(SINCE_RELEASE.needs) else []))
    for metric in metrics:
        value, jobs_seen = metric.value(tau, resource).alias("value"), 0
        parts = [np.empty(0)]
        for rows in batches(jobs, [value], window):
            jobs_seen += len(rows)
            parts.append(rows["value"].drop_nulls().to_numpy().astype(np.float64, copy=False))
        values = np.concatenate(parts)
        found.append(
            Metric(
                name=metric.name,
                unit=metric.unit,
                formula=metric.formula.format(tau=tau, resource=resource),
                window=window.jobs_text,
                count=len(values),
                censored=jobs_seen - len(values),
                values=distribution(values),
            )
        )
    return found


def _weighted_response(
    jobs: pl.LazyFrame, tasks: pl.LazyFrame, window: RunWindow, resource: str
) -> Metric:
    """Return the average weighted response time, each job weighted by its area.

    Schwiegelshohn and Yahyapour, "Fairness in parallel job scheduling", 2000.
    """
    own = pl.col(resource) * pl.col("run_time_s")
    columns = ["job_id", own.alias("own"), pl.col("turnaround_time_s")]
    several = _areas_of_several(jobs, tasks, resource)
    count, censored, total, weighted = 0, 0, 0.0, 0.0
    for batch in batches(jobs, columns, window):
        rows = batch.join(several, on="job_id", how="left", maintain_order="left")
        rows = rows.with_columns(pl.coalesce("area", "own").alias("area"))
        ended = rows.select("area", "turnaround_time_s").drop_nulls()
        weight, turnaround = ended["area"].to_numpy(), ended["turnaround_time_s"].to_numpy()
        count, censored = count + len(ended), censored + len(rows) - len(ended)
        total += float(weight.sum())
        weighted += float((weight * turnaround).sum())
    return Metric(
        name="awrt_s",
        unit="s",
        formula=f"sum(w * turnaround) / sum(w), w = {resource} * run, or of several tasks or "
        f"instances the {resource}-seconds that they ask for (average weighted response "
        'time; Schwiegelshohn and Yahyapour, "Fairness in parallel job scheduling", 2000)',
        window=window.jobs_text,
        count=count,
        censored=censored,
        values={"value": share(weighted, total)},
    )


def _areas_of_several(jobs: pl.LazyFrame, tasks: pl.LazyFrame, resource: str) -> pl.DataFrame:
    """Return the area (resource-seconds) of each job that has an ideal time, by job_id."""
    known = pl.col("ideal_time_s").is_not_null()
    found = jobs.filter(known).select("job_id").collect()
    found = found.unique("job_id", keep="first", maintain_order=True).with_row_index("row")
    area = np.zeros(len(found))
    columns = [pl.col("job_id"), task_area(resource).alias("area")]
    for batch in batches(tasks, columns) if len(found) else ():
        rows = batch.join(found, on="job_id", how="inner", maintain_order="left")
        np.add.at(area, rows["row"].to_numpy(), rows["area"].to_numpy())
    return found.select("job_id", pl.Series("area", area, pl.Float64))


def _fairness(jobs: pl.LazyFrame, window: RunWindow, tau: float) -> Metric:
    """Return Jain's index over users: 1 if all fare alike, 1/n if one of n has all the slowdown.

    Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", 1984. Jobs of unknown users (-1) are left out.
    """
    columns = [pl.col("user"), _bounded_slowdown(tau, pl.lit(1.0)).alias("value")]
    sums: dict[int | str, list[float]] = {}  # user → sum and number of values
    seen = 0
    for rows in batches(jobs, columns, window):
        seen += len(rows)
        known = rows.drop_nulls().filter(~pl.col("user").cast(pl.String).is_in(["-1", ""]))
        for user, total, count in _by_group(known["user"], known["value"].to_numpy()):
            entry = sums.setdefault(user, [0.0, 0.0])
            entry[0] += total
            entry[1] += count
    means = np.array([sums[user][0] / sums[user][1] for user in sorted(sums)])
    number = int(sum(count for _, count in sums.values()))
    index = float(means.sum()) ** 2 / (len(means) * float((means**2).sum())) if len(means) else None
    return Metric(
        name="fairness_jain",
        unit="1",
        formula="sum(x)^2 / (n * sum(x^2)), x = a user's mean bounded slowdown (tau "
        f"{tau:g} s), n = {counted(len(means), 'user')} (Jain, Chiu and Hawe 1984); 1 is "
        "fairest; jobs without a known user count as censored",
        window=window.jobs_text,
        count=number,
        censored=seen - number,
        values={"value": index},
    )


def _by_group(group: pl.Series, values: Floats) -> Iterator[tuple[int | str, float, float]]:
    """Yield each group, the sum and the number of its values, summed in the order of rows."""
    if len(group):
        codes = group.rank("dense").to_numpy().astype(np.int64) - 1
        sums, counts = np.bincount(codes, weights=values), np.bincount(codes)
        yield from zip(group.unique().sort(), sums.tolist(), counts.tolist(), strict=True)


def _makespan(jobs: pl.LazyFrame) -> Metric:
    """Return the time from the first submit to the last end, over all jobs, never trimmed."""
    end, submit = pl.col("end_time_s"), pl.col("submit_time_s")
    columns = {"end": end.max(), "submit": submit.min(), "ended": end.count(), "all": pl.len()}
    row = jobs.select(**columns).collect().row(0, named=True)
    known = row["end"] is not None
    return Metric(
        name="makespan_s",
        unit="s",
        formula="last end - first submit",
        window="all jobs submitted",
        count=row["ended"],
        censored=row["all"] - row["ended"],
        values={"value": row["end"] - row["submit"] if known else None},
    )
