"""The metrics by which runs can be compared: numbers of single jobs, and numbers of whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from simkit.errors import RunError, did_you_mean
from simkit.records import ENERGY, JOBS_RELEASED, JOBS_WITH_VALUE
from simkit.results.all_metrics import Number, metric_numbers
from simkit.results.job_metrics import ALSO_COMPARED, JOB_METRICS, LAST_S, SINCE_RELEASE, JobMetric
from simkit.results.metric import Better
from simkit.results.run_folder import Run


class RunMetric(NamedTuple):
    """A number of a whole run, by its name in `metric_numbers`."""

    name: str
    unit: str
    better: Better | None = None


COMPARABLE_JOB_METRICS: Final = (*JOB_METRICS, SINCE_RELEASE, *ALSO_COMPARED)
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
            found.append(RunMetric(name, of_runs[name].unit, of_runs[name].better))
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
