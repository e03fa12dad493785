"""Judges a run by a metric over all its jobs; a job that never ended counts with its value so far.

A mean over the jobs that ended would flatter a policy that leaves difficult ones waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import polars as pl

from simkit.errors import ScenarioError, did_you_mean
from simkit.policy.declared import PolicyMetric
from simkit.results.all_metrics import metrics_of_policies, value_of
from simkit.results.job_metrics import JOB_METRICS, JobMetric
from simkit.results.metric import Better, counted_resource
from simkit.results.run_folder import Run


@dataclass(frozen=True)
class RunMetric:
    """A number of a whole run: each job set has one."""

    name: str
    unit: str
    value: Callable[[Run, float], float]
    """Function of a run and its last instant in s, at which what has not ended counts as ended."""
    tables: tuple[str, ...] = ()
    """Tables that it reads besides `TABLES_JUDGED`."""
    better: Better | None = "low"


def _makespan(run: Run, last_s: float) -> float:
    """Return last end - first submit, in s."""
    end, submit = pl.col("end_time_s").fill_null(last_s), pl.col("submit_time_s")
    return float(run.jobs.select(end.max() - submit.min()).item())


def _of_policy(row: PolicyMetric) -> RunMetric:
    """Return a metric that a policy brings; a run has 0 if nothing has started."""

    def value(run: Run, last_s: float) -> float:
        so_far = run.allocations.with_columns(pl.col("end_time_s").fill_null(last_s))
        first: Any = run.jobs["submit_time_s"].min()
        return value_of(row, so_far, first) or 0.0

    return RunMetric(row.name, row.unit, value, ("allocations",), row.better)


TABLES_JUDGED: Final = ("jobs", "timeline")
"""The tables that `judge` reads."""
MAKESPAN: Final = RunMetric("makespan_s", "s", _makespan)
"""The metric of whole runs that `judge` knows without a policy that brings one."""
NOTHING_JUDGED: Final[dict[str, Any]] = {
    "sum": 0.0, "jobs": 0, "submitted": 0, "unfinished": 0, "rejected": 0, "killed": 0,
    "workload": "",
}  # fmt: skip
"""The result of `judge` for a run without jobs."""
_GIVEN: Final = ("job_id", "submit_time_s", "trace_run_time_s")
"""Columns that the workload gives."""


def judged_metric(name: str) -> JobMetric | RunMetric:
    """Return a metric by name; raises ScenarioError, with the nearest name."""
    known: dict[str, JobMetric | RunMetric] = {metric.name: metric for metric in JOB_METRICS}
    known[MAKESPAN.name] = MAKESPAN
    if name not in known:
        known |= {brought: _of_policy(row) for brought, row in metrics_of_policies().items()}
    if name not in known:
        raise ScenarioError(
            f"--metric {name}: {name!r} is not a metric of single jobs or a makespan"
            f"{did_you_mean(name, known)}"
        )
    return known[name]


def tables_judged(metric: JobMetric | RunMetric) -> tuple[str, ...]:
    """Return the tables that `judge` reads for a metric."""
    return TABLES_JUDGED + (metric.tables if isinstance(metric, RunMetric) else ())


def judge(run: Run, metric: JobMetric | RunMetric, tau: float) -> dict[str, Any]:
    """Return the sum of a metric over the jobs of a run, and counts of jobs.

    A job that did not end (or was rejected) counts as if it ended at the run's last instant, with
    the run time of the trace: its slowdown so far. A metric of the whole run counts as that of one
    job.

    Args:
        run: of any status, with `tables_judged`.
        metric: from `judged_metric`.
        tau: floor of the run time in bounded slowdowns, in s.

    Returns:
        ``sum`` over the ``jobs`` that have a value, ``submitted``, ``unfinished`` (of these,
        ``rejected``, ``killed``), and ``workload``, a hash of the jobs themselves.
    """
    jobs = run.jobs
    last_s = _last_s(run)
    if isinstance(metric, RunMetric):
        known = pl.Series([metric.value(run, last_s)] if len(jobs) else [], dtype=pl.Float64)
    else:
        value = metric.value(tau, counted_resource(run.resources))
        known = _so_far(jobs, last_s).select(value.alias("v"))["v"].drop_nulls()
    counts = {name: int((jobs["status"] == name).sum()) for name in ("rejected", "killed")}
    given = jobs.select(*_GIVEN, *run.resources).sort(pl.col("job_id").cast(pl.String))
    return {
        "sum": float(known.sum()),
        "jobs": len(known),
        "submitted": len(jobs),
        "unfinished": int((jobs["status"] != "finished").sum()),
        **counts,
        "workload": sha256(given.write_csv().encode()).hexdigest(),
    }


def _so_far(jobs: pl.DataFrame, last_s: float) -> pl.DataFrame:
    """Return the jobs, with the missing times of unfinished ones filled in."""
    unfinished = pl.col("end_time_s").is_null()
    wait = pl.lit(last_s) - pl.col("submit_time_s")
    return jobs.with_columns(
        wait_time_s=pl.col("wait_time_s").fill_null(wait),
        turnaround_time_s=pl.col("turnaround_time_s").fill_null(wait),
        run_time_s=pl.when(unfinished)
        .then(pl.col("trace_run_time_s"))
        .otherwise(pl.col("run_time_s")),
    )


def _last_s(run: Run) -> float:
    """Return the last instant of a run, in s."""
    latest = (
        run.scan("timeline").select(pl.col("time_s").max()).collect().item(),
        run.jobs["end_time_s"].max(),
        run.jobs["submit_time_s"].max(),
    )
    return max((float(time) for time in latest if isinstance(time, (int, float))), default=0.0)
