"""Held-out job sets: the overrides that make one scenario into many, each with other jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from simkit.errors import ScenarioError, did_you_mean
from simkit.results.job_metrics import JOB_METRICS, JobMetric
from simkit.results.metric import counted_resource
from simkit.scenario import Scenario

if TYPE_CHECKING:
    from simkit.results.run_folder import Run


ORIGINAL_SETS: Final = 100
"""Job sets of the original DeepRM code that are known."""
SEEDS: Final = 10
"""Seeds that stand for job sets if nobody says which."""
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def held_out(
    scenario: Scenario, *, sets: int | None = None, seeds: Sequence[int] | None = None
) -> list[dict[str, Any]]:
    """Return the overrides of each job set, dotted key → value.

    Args:
        scenario: its workload says what there is. Of type `deeprm`, these are the unseen job sets
            of the original code, of any other what its seeds draw.
        sets: how many: original sets 0 …, or seeds 0 ….
        seeds: which seeds, of any workload.

    Raises ScenarioError for numbers that name no sets.
    """
    if sets is not None and seeds is not None:
        raise ScenarioError("evaluate: sets and seeds are both given; leave one of them out")
    if sets is not None and sets < 1:
        raise ScenarioError(f"evaluate: {sets} job sets; it must be at least 1")
    if seeds is not None:
        if not seeds or len(set(seeds)) < len(seeds):
            raise ScenarioError("evaluate: seeds must be there, and each only once")
        return [{"seed": seed} for seed in seeds]
    if scenario.workload.type != "deeprm":
        return [{"seed": seed} for seed in range(SEEDS if sets is None else sets)]
    count = ORIGINAL_SETS if sets is None else sets
    # the seed moves on as well: agents and policies that draw are not to draw alike in all sets
    return [
        {"workload.original_set": number, "seed": scenario.seed + number} for number in range(count)
    ]


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of ``0..9`` or ``0,3,7..9``; raises ScenarioError for anything else."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        span = _RANGE.fullmatch(part)
        if span:
            found += range(int(span[1]), int(span[2]) + 1)
        elif part.isdecimal():
            found.append(int(part))
        else:
            raise ScenarioError(f"--seeds {text}: {part!r} is no seed; write 0..9 or 0,3,7")
    return found


def applied(scenario: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario's JSON with overrides of one or two levels put in; nothing is changed."""
    made = dict(scenario)
    for key, value in overrides.items():
        section, _, name = key.partition(".")
        made[section] = {**made[section], name: value} if name else value
    return made


# MERGED How the jobs of a run fared, all of them: one that never ended counts with its value so far.
# MERGED
# MERGED A mean over the jobs that ended flatters a policy that leaves the awkward ones waiting.


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
