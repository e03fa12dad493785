"""What runs can be compared by: a number of each of their jobs, or one of a run as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from simkit.errors import RunError, did_you_mean
from simkit.records import ENERGY, JOBS_WITH_VALUE
from simkit.results.job_metrics import JOB_METRICS, JobMetric
from simkit.results.metric import Number, metric_numbers

if TYPE_CHECKING:
    from simkit.results.run_folder import Run

LAST_S: Final = "last_s"
"""A column beside those of the records: the run's last instant, in s."""


class RunMetric(NamedTuple):
    """A number of a whole run, by its name in `simkit.results.metric`."""

    name: str
    unit: str


def _earned(_tau: float, _resource: str) -> pl.Expr:
    return pl.when(pl.col("status") == "finished").then(pl.col("value")).otherwise(0.0)


def _violated(_tau: float, _resource: str) -> pl.Expr:
    return _late(pl.col("submit_time_s") + pl.col("trace_run_time_s") / pl.col("qos"))


def _missed(_tau: float, _resource: str) -> pl.Expr:
    return _late(pl.col("deadline_s"))


def _late(due: pl.Expr) -> pl.Expr:
    """Return 1 for a job that did not finish by its due time, 0 for one that did, else null.

    It is that of `simkit.results.value_metrics`: killed and rejected jobs are late; one that still waits or
    runs is late if its time was up at the run's last instant, and unknown otherwise.
    """
    status = pl.col("status")
    late = status.is_in(["killed", "rejected"]) | (
        pl.col("end_time_s").fill_null(pl.col(LAST_S)) > due
    )
    known = due.is_not_null() & due.is_finite() & (late | (status == "finished"))
    return pl.when(known).then(late.cast(pl.Float64))


def _billed(name: str, unit: str, meaning: str) -> JobMetric:
    """Return a column of the table "energy" as a metric; jobs that never ran have used nothing."""

    def value(_tau: float, _resource: str) -> pl.Expr:
        return pl.col(name)

    return JobMetric(name, unit, meaning, value, (name,), high_is_good=name == "renewable_j")


_DUE = ("status", LAST_S)

PAIRED_METRICS: Final[tuple[JobMetric, ...]] = (
    *JOB_METRICS,
    JobMetric(
        "job_value", "value", "what a job is worth that finished, 0 of any other", _earned,
        ("value", "status"), high_is_good=True,
    ),
    JobMetric(
        "qos_violated", "1", "1 if a job did not finish by submit + run time / QoS, 0 if it did",
        _violated, ("qos", *_DUE),
    ),
    JobMetric(
        "deadline_missed", "1", "1 if a job did not finish by its deadline, 0 if it did",
        _missed, ("deadline_s", *_DUE),
    ),
    *(
        _billed(name, {"carbon_g": "g CO2e", "cost": "currency of the prices"}.get(name, "J"), text)
        for name, text in ENERGY.items()
        if name != "job_id"
    ),
)  # fmt: skip
"""Numbers of single jobs: those of every run, those of worth, and the columns of "energy"."""

ALWAYS: Final = ("wait_time_s", "turnaround_time_s", "bounded_slowdown")
"""Compared by default."""
WHERE_KNOWN: Final = (
    "job_value", "qos_violated", "deadline_missed", "energy_j", "carbon_g", "cost",
)  # fmt: skip
"""Compared by default too where all runs tell of them."""


def default_metrics(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the names of what runs are compared by if nobody says."""
    there = _columns(runs)
    known = {metric.name for metric in PAIRED_METRICS if there.issuperset(metric.needs)}
    return (*ALWAYS, *(name for name in WHERE_KNOWN if name in known))


def chosen_metrics(names: Sequence[str], runs: Sequence[Run]) -> list[JobMetric | RunMetric]:
    """Return the metrics of some names; one of single jobs goes before one of whole runs.

    Raises RunError, with all that is wrong, for a name that not all runs have a metric of.
    """
    there = _columns(runs)
    of_jobs = {m.name: m for m in PAIRED_METRICS if there.issuperset(m.needs)}
    found: list[JobMetric | RunMetric] = []
    unknown, of_runs = [], None
    for name in names:
        if name in of_jobs:
            found.append(of_jobs[name])
            continue
        of_runs = _numbers(runs) if of_runs is None else of_runs
        if name in of_runs:
            found.append(RunMetric(name, of_runs[name].unit))
        else:
            unknown.append(name)
    if unknown:
        raise RunError(_not_there(unknown, list(of_jobs), of_runs or {}))
    return found


def _columns(runs: Sequence[Run]) -> set[str]:
    """Return the columns that metrics may need and all runs have."""
    return set.intersection(*map(_columns_of, runs))


def _columns_of(run: Run) -> set[str]:
    there = {"status", LAST_S}
    there |= JOBS_WITH_VALUE.keys() & set(run.scan("jobs").collect_schema().names())
    try:
        return there | set(run.scan("energy").collect_schema().names()) if run.has_power else there
    except RunError:  # it was interrupted before the bills were made
        return there


def _numbers(runs: Sequence[Run]) -> dict[str, Number]:
    """Return the numbers that the metrics of all runs have, those of the first run."""
    try:
        first, *others = (metric_numbers(run.metrics) for run in runs)
    except RunError:  # it was interrupted before it was measured
        return {}
    return {n: number for n, number in first.items() if all(n in other for other in others)}


def _not_there(unknown: list[str], of_jobs: list[str], of_runs: dict[str, Number]) -> str:
    """Say which names stand for nothing, why, and which there are."""
    needs = {metric.name: metric.needs for metric in PAIRED_METRICS}
    lines = []
    for name in unknown:
        if name not in needs:
            near = did_you_mean(name, [*of_jobs, *of_runs])
            lines.append(f"{name!r} is no metric of these runs{near if '?' in near else ''}")
        elif ENERGY.keys() & set(needs[name]):
            lines.append(f"{name!r} is of jobs of runs with power, and not all runs are such")
        else:
            lines.append(
                f"{name!r} needs the column {needs[name][0]} of the jobs, and not all runs have "
                "it; a section value: gives it"
            )
    lines.append(f"of single jobs there are: {', '.join(of_jobs)}")
    if of_runs:
        heads = [n for n in of_runs if "." not in n or n.partition(".")[0] not in of_runs]
        whole = [n for n in heads if n not in of_jobs]
        lines.append(f"of whole runs: {', '.join(whole)}; and their parts, as wait_time_s.p99")
    return "compare: " + "\n  ".join(lines)
