"""Judges one run by a metric: every job counts, one that never ended with its value so far.

A mean over the jobs that ended would flatter a policy that leaves difficult ones waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final

import numpy as np
import polars as pl

from simkit import records
from simkit.errors import RunError, ScenarioError, did_you_mean
from simkit.policy.declared import PolicyMetric
from simkit.results.all_metrics import (
    better_of,
    compute_metrics,
    facts_of,
    metric_numbers,
    metrics_of_policies,
    value_of,
)
from simkit.results.job_metrics import JOB_METRICS, JobMetric
from simkit.results.metric import Better, counted_resource, distribution
from simkit.results.run_folder import Run

__all__ = [
    "MAKESPAN", "NOTHING_JUDGED", "NUMBERS", "TABLES_JUDGED", "RunMetric", "judge", "judged_metric",
    "tables_judged", "values_so_far",
]  # fmt: skip


@dataclass(frozen=True)
class RunMetric:
    """A number of a whole run: each job set has one."""

    name: str
    unit: str
    value: Callable[[Run, float, float], float | None]
    """Function of a run, its last instant in s, at which what has not ended counts as ended, and
    tau; None if it is undefined."""
    tables: tuple[str, ...] = ()
    """Tables that it reads besides `TABLES_JUDGED`."""
    better: Better | None = "low"


def _makespan(run: Run, last_s: float, _tau: float) -> float:
    """Return last end - first submit, in s."""
    end, submit = pl.col("end_time_s").fill_null(last_s), pl.col("submit_time_s")
    return float(run.jobs.select(end.max() - submit.min()).item())


def _of_policy(row: PolicyMetric) -> RunMetric:
    """Return a metric that a policy brings; a run has 0 if nothing has started."""

    def value(run: Run, last_s: float, _tau: float) -> float:
        so_far = run.allocations.with_columns(pl.col("end_time_s").fill_null(last_s))
        first: Any = run.jobs["submit_time_s"].min()
        return value_of(row, so_far, first) or 0.0

    return RunMetric(row.name, row.unit, value, ("allocations",), row.better)


def _of_distribution(metric: JobMetric, number: str) -> RunMetric:
    """Return a number of the distribution of a metric of jobs: ``p99``, ``max``."""

    def value(run: Run, last_s: float, tau: float) -> float | None:
        known = _values(run, metric, last_s, tau).to_numpy().astype(np.float64)
        return distribution(known)[number]

    return RunMetric(f"{metric.name}.{number}", metric.unit, value, better=metric.better)


def _of_metrics(name: str, run: Run, _last_s: float, tau: float) -> float | None:
    """Return a number of a run's metrics as metrics.json has it."""
    numbers = metric_numbers(compute_metrics(run, tau=tau))
    if name not in numbers:
        raise RunError(f"--metric {name}: a run of this scenario has no {name}; take another one")
    return numbers[name].value


TABLES_JUDGED: Final = ("jobs", "timeline")
"""The tables that `judge` reads."""
MAKESPAN: Final = RunMetric("makespan_s", "s", _makespan)
"""The makespan, in which jobs that have not ended count until the run's last instant."""
NUMBERS: Final = ("mean", "std", "p50", "p90", "p99", "max")
"""What may follow a metric of jobs after a point."""
NOTHING_JUDGED: Final[dict[str, Any]] = {
    "sum": 0.0, "jobs": 0, "submitted": 0, "unfinished": 0, "rejected": 0, "killed": 0,
    "workload": "",
}  # fmt: skip
"""The result of `judge` for a run without jobs."""
_GIVEN: Final = ("job_id", "submit_time_s", "trace_run_time_s")
"""Columns that the workload gives."""


def judged_metric(name: str) -> JobMetric | RunMetric:
    """Return a metric by name.

    Args:
        name: of a metric of jobs, ``wait_time_s``, of a number of its distribution,
            ``wait_time_s.p99``, ``makespan_s``, one that a policy brings, or any number of a run's
            metrics.json: ``value_ratio``, ``carbon_kg``. All but the last count every job.

    Raises ScenarioError, with the nearest name.
    """
    jobs = {metric.name: metric for metric in JOB_METRICS}
    known: dict[str, JobMetric | RunMetric] = {**jobs, MAKESPAN.name: MAKESPAN}
    head, _, number = name.partition(".")
    if head in jobs and number in NUMBERS:
        return _of_distribution(jobs[head], number)
    if name not in known:
        known |= {brought: _of_policy(row) for brought, row in metrics_of_policies().items()}
    if name not in known and (facts := facts_of(name)) is not None:
        value = partial(_of_metrics, name)
        tables = (*records.TABLES, "power")
        return RunMetric(name, facts.unit, value, tables, better_of(name))
    if name not in known:
        raise ScenarioError(
            f"--metric {name}: {name!r} is not a metric, or a number of one such as "
            f"wait_time_s.p99{did_you_mean(name, known)}"
        )
    return known[name]


def tables_judged(*metrics: JobMetric | RunMetric) -> tuple[str, ...]:
    """Return the tables that `judge` reads for some metrics."""
    more = [name for each in metrics if isinstance(each, RunMetric) for name in each.tables]
    return tuple(dict.fromkeys((*TABLES_JUDGED, *more)))


def judge(
    run: Run, metric: JobMetric | RunMetric, tau: float, *beside: JobMetric | RunMetric
) -> dict[str, Any]:
    """Return the sum of a metric over the jobs of a run, counts of jobs, and further metrics.

    A job that did not end (or was rejected) counts as if it ended at the run's last instant, with
    the run time of the trace: its slowdown so far. A metric of the whole run counts as that of one
    job.

    Args:
        run: of any status, with `tables_judged`.
        metric: from `judged_metric`.
        tau: floor of the run time in bounded slowdowns, in s.
        beside: further metrics.

    Returns:
        ``sum`` over the ``jobs`` that have a value, ``submitted``, ``unfinished`` (of these,
        ``rejected``, ``killed``), ``workload``, a hash of the jobs themselves, and by name the mean
        over the jobs of each further metric, None if no job has a value.
    """
    jobs = run.jobs
    last_s = _last_s(run)
    known = _values(run, metric, last_s, tau)
    counts = {name: int((jobs["status"] == name).sum()) for name in ("rejected", "killed")}
    given = jobs.select(*_GIVEN, *run.resources).sort(pl.col("job_id").cast(pl.String))
    return {
        "sum": float(known.sum()),
        "jobs": len(known),
        "submitted": len(jobs),
        "unfinished": int((jobs["status"] != "finished").sum()),
        **counts,
        "workload": sha256(given.write_csv().encode()).hexdigest(),
        **{one.name: _values(run, one, last_s, tau).mean() for one in beside},
    }


def _values(run: Run, metric: JobMetric | RunMetric, last_s: float, tau: float) -> pl.Series:
    """Return the values of the jobs that have one, or that of the run."""
    if isinstance(metric, RunMetric):
        found = metric.value(run, last_s, tau) if len(run.jobs) else None
        return pl.Series([] if found is None else [found], dtype=pl.Float64)
    return values_so_far(run.jobs, metric.value(tau, counted_resource(run.resources)), last_s)


def values_so_far(jobs: pl.DataFrame, value: pl.Expr, last_s: float) -> pl.Series:
    """Return the values of the jobs that have one; what has not ended does so at the last instant.

    Args:
        jobs: a run's table.
        value: of a job, see `JobMetric.value`.
        last_s: the last instant, in s.
    """
    unfinished = pl.col("end_time_s").is_null()
    wait = pl.lit(last_s) - pl.col("submit_time_s")
    filled = jobs.with_columns(
        wait_time_s=pl.col("wait_time_s").fill_null(wait),
        turnaround_time_s=pl.col("turnaround_time_s").fill_null(wait),
        end_time_s=pl.col("end_time_s").fill_null(last_s),
        run_time_s=pl.when(unfinished)
        .then(pl.col("trace_run_time_s"))
        .otherwise(pl.col("run_time_s")),
    )
    return filled.select(value.alias("v"))["v"].drop_nulls()


def _last_s(run: Run) -> float:
    """Return the last instant of a run, in s."""
    latest = (
        run.scan("timeline").select(pl.col("time_s").max()).collect().item(),
        run.jobs["end_time_s"].max(),
        run.jobs["submit_time_s"].max(),
    )
    return max((float(time) for time in latest if isinstance(time, (int, float))), default=0.0)
