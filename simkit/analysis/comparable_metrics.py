"""The metrics by which runs can be compared: numbers of single jobs, and numbers of whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import polars as pl

from simkit.errors import RunError, did_you_mean
from simkit.records import ENERGY, JOBS_RELEASED, JOBS_WITH_VALUE
from simkit.results.job_metrics import JOB_METRICS, SINCE_RELEASE, JobMetric
from simkit.results.metric import Number, metric_numbers
from simkit.results.run_folder import Run

LAST_S: Final = "last_s"
"""A further column: the run's last instant, in s."""


class RunMetric(NamedTuple):
    """A number of a whole run, by its name in `metric_numbers`."""

    name: str
    unit: str


def _late(due: pl.Expr) -> pl.Expr:
    """Return 1 for a job that did not finish by its due time, 0 for one that did, else null.

    The rules are those of `simkit.results.value_metrics`: killed and rejected jobs are late; a job
    that waits or runs is late if its due time had passed at the run's last instant, else unknown.
    """
    status = pl.col("status")
    late = status.is_in(["killed", "rejected"]) | (
        pl.col("end_time_s").fill_null(pl.col(LAST_S)) > due
    )
    known = due.is_not_null() & due.is_finite() & (late | (status == "finished"))
    return pl.when(known).then(late.cast(pl.Float64))


def _billed(name: str, meaning: str) -> JobMetric:
    """Return a column of the table "energy" as a metric; jobs that never ran have used nothing."""
    unit = {"carbon_g": "g CO2e", "cost": "currency of the prices"}.get(name, "J")
    return JobMetric(
        name, unit, meaning, lambda _tau, _resource: pl.col(name), (name,), name == "renewable_j"
    )


COMPARABLE_JOB_METRICS: Final[tuple[JobMetric, ...]] = (
    *JOB_METRICS,
    SINCE_RELEASE,
    JobMetric(
        "job_value",
        "value",
        "the value of a job that finished, 0 of any other",
        lambda _tau, _resource: (
            pl.when(pl.col("status") == "finished").then(pl.col("value")).otherwise(0.0)
        ),
        ("value", "status"),
        high_is_good=True,
    ),
    JobMetric(
        "qos_violated",
        "1",
        "1 if a job did not finish by submit + run time / QoS, 0 if it did",
        lambda _tau, _resource: _late(
            pl.col("submit_time_s") + pl.col("trace_run_time_s") / pl.col("qos")
        ),
        ("qos", "status", LAST_S),
    ),
    JobMetric(
        "deadline_missed",
        "1",
        "1 if a job did not finish by its deadline, 0 if it did",
        lambda _tau, _resource: _late(pl.col("deadline_s")),
        ("deadline_s", "status", LAST_S),
    ),
    *(_billed(name, meaning) for name, meaning in ENERGY.items() if name != "job_id"),
)
"""Numbers of single jobs: of every run, of jobs with a value, and the columns of "energy"."""

_ALWAYS: Final = ("wait_time_s", "turnaround_time_s", "bounded_slowdown")
"""Compared by default."""
_OF_RUNS: Final = ("instance_wait_time_s",)
"""Numbers of whole runs that are compared by default if all runs have them: a job's wait ends with
the start of its first instance."""
_IF_KNOWN: Final = (
    "wait_since_release_s", "job_value", "qos_violated", "deadline_missed", "energy_j", "carbon_g",
    "cost",
)  # fmt: skip
"""Also compared by default if all runs have them."""


def default_metrics(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the names of the metrics by which runs are compared by default."""
    known = _known_job_metrics(runs)
    of_runs = [name for name in _OF_RUNS if all(name in run.metrics for run in runs)]
    return (*_ALWAYS, *of_runs, *(name for name in _IF_KNOWN if name in known))


def chosen_metrics(names: Sequence[str], runs: Sequence[Run]) -> list[JobMetric | RunMetric]:
    """Return metrics by name; a metric of single jobs goes before one of whole runs.

    Raises RunError, with all that is wrong, for names of which not all runs have a metric.
    """
    of_jobs = _known_job_metrics(runs)
    found: list[JobMetric | RunMetric] = []
    unknown, of_runs = [], None
    for name in names:
        if name in of_jobs:
            found.append(of_jobs[name])
            continue
        of_runs = _common_numbers(runs) if of_runs is None else of_runs
        if name in of_runs:
            found.append(RunMetric(name, of_runs[name].unit))
        else:
            unknown.append(name)
    if unknown:
        raise RunError(_unknown_text(unknown, list(of_jobs), of_runs or {}))
    return found


def _known_job_metrics(runs: Sequence[Run]) -> dict[str, JobMetric]:
    """Return the metrics of single jobs for which all runs have the columns."""
    columns = set.intersection(*map(_columns, runs))
    return {m.name: m for m in COMPARABLE_JOB_METRICS if columns.issuperset(m.needs)}


def _columns(run: Run) -> set[str]:
    columns = {"status", LAST_S}
    columns |= (JOBS_WITH_VALUE.keys() | JOBS_RELEASED.keys()) & set(
        run.scan("jobs").collect_schema().names()
    )
    if run.has_power:
        with suppress(RunError):  # an interrupted run may have no bills
            columns |= set(run.scan("energy").collect_schema().names())
    return columns


def _common_numbers(runs: Sequence[Run]) -> dict[str, Number]:
    """Return the numbers of the first run's metrics that all runs have."""
    try:
        first, *others = (metric_numbers(run.metrics) for run in runs)
    except RunError:  # an interrupted run may have no metrics
        return {}
    return {n: number for n, number in first.items() if all(n in other for other in others)}


def _unknown_text(unknown: list[str], of_jobs: list[str], of_runs: dict[str, Number]) -> str:
    """Return which names are unknown, why, and which names there are."""
    needs = {metric.name: metric.needs for metric in COMPARABLE_JOB_METRICS}
    lines = []
    for name in unknown:
        if name not in needs:
            near = did_you_mean(name, [*of_jobs, *of_runs])
            lines.append(f"{name!r} is not a metric of these runs{near if '?' in near else ''}")
        elif ENERGY.keys() & set(needs[name]):
            lines.append(
                f"{name!r} needs the bills of a run with power, and not all runs have power"
            )
        else:
            column = needs[name][0]
            released = "a workload with release times or preceding jobs"
            gives = released if column in JOBS_RELEASED else "a section value:"
            lines.append(
                f"{name!r} needs the column {column} of the jobs, and not all runs have it; "
                f"{gives} gives it"
            )
    lines.append(f"metrics of single jobs: {', '.join(of_jobs)}")
    if of_runs:
        heads = [n for n in of_runs if "." not in n or n.partition(".")[0] not in of_runs]
        whole = [n for n in heads if n not in of_jobs]
        lines.append(
            f"numbers of whole runs: {', '.join(whole)}; and their parts, such as wait_time_s.p99"
        )
    return "compare: " + "\n  ".join(lines)
