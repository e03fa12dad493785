"""How the jobs of a run fared, all of them: one that never ended counts with its value so far.

A mean over the jobs that ended flatters a policy that leaves the awkward ones waiting.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from simkit.errors import ScenarioError, did_you_mean
from simkit.job_metrics import JOB_METRICS, JobMetric
from simkit.metrics import counted_resource

if TYPE_CHECKING:
    import polars as pl

    from simkit.run_folder import Run

TABLES_JUDGED: Final = ("jobs", "timeline")
"""The tables that `judge` looks at."""
NOTHING_JUDGED: Final[dict[str, Any]] = {
    "sum": 0.0, "jobs": 0, "submitted": 0, "unfinished": 0, "rejected": 0, "killed": 0,
    "workload": "",
}  # fmt: skip
"""What `judge` would say of a run without jobs."""
_GIVEN: Final = ("job_id", "submit_time_s", "trace_run_time_s")
"""What the workload says of a job."""


def judged_metric(name: str) -> JobMetric:
    """Return a metric of single jobs that can be had of unfinished ones too.

    Raises ScenarioError, with the nearest name, for another one.
    """
    known = {metric.name: metric for metric in JOB_METRICS}
    if name not in known:
        raise ScenarioError(f"--metric {name}: {name!r} is none of jobs{did_you_mean(name, known)}")
    return known[name]


def judge(run: Run, metric: JobMetric, tau: float) -> dict[str, Any]:
    """Return how the jobs of a run fared by a metric.

    A job that did not end, a rejected one among them, is taken as if it ended at the run's last
    instant, its run time that of the trace: its slowdown so far.

    Args:
        run: of any status, `TABLES_JUDGED` at hand.
        metric: from `judged_metric`.
        tau: floor of the run time in bounded slowdowns, in s.

    Returns:
        ``sum`` over the ``jobs`` that have a value, ``submitted``, ``unfinished`` (of these,
        ``rejected``, ``killed``), and ``workload``, a hash of the jobs themselves.
    """
    import polars as pl

    jobs = run.jobs
    so_far = _so_far(jobs, _last_s(run))
    values = so_far.select(metric.value(tau, counted_resource(run.resources)).alias("v"))["v"]
    known = values.drop_nulls()
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
    """Return the jobs with the times filled in that unfinished ones do not have."""
    import polars as pl

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
    import polars as pl

    latest = (
        run.scan("timeline").select(pl.col("time_s").max()).collect().item(),
        run.jobs["end_time_s"].max(),
        run.jobs["submit_time_s"].max(),
    )
    return max((float(time) for time in latest if isinstance(time, (int, float))), default=0.0)
