"""Metrics of jobs: `wait_time_s`, turnaround, slowdowns, makespan, throughput and fairness.

`JOB_METRICS` defines the numbers of single jobs; a run has the distribution of each:
mean, deviation and percentiles (`metric.distribution`). `WHOLE_JOBS` are numbers of all jobs.

Metrics of value count every submitted job. The *due time* of a job is the end of what its quality
of service allows, or its deadline:

- a finished job is late if it ended after its due time;
- a killed or rejected job is late: it will never finish;
- a job that waits or runs at the run's last instant is late if its due time has passed, and
  censored otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.records import ENERGY
from simkit.results.metric import (
    MAIN,
    Found,
    Metric,
    MetricFacts,
    MetricRow,
    RunWindow,
    batches,
    counts_row,
    distribution,
    metrics_of,
    share,
    status_counts,
    task_area,
    throughput,
    throughput_row,
)
from simkit.text import counted
from simkit.workload.workload import OF_JOBS


@dataclass(frozen=True)
class JobMetric(MetricFacts):
    """A number that a job has once it has started or ended.

    `needs` are the columns that it reads besides times and resources.
    """

    value: Callable[[float, str], pl.Expr]
    """Function of tau (s) and the counted resource; null if a job has no value."""


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


JOB_METRICS: Final[tuple[JobMetric, ...]] = (
    JobMetric(
        "wait_time_s",
        "s",
        "first start - submit",
        lambda _tau, _resource: pl.col("wait_time_s"),
        better="low",
        shown={
            "summary": MAIN,
            "comparison": MAIN,
            "groups": ("", "p90"),
            "charts": MAIN,
            "tiles": ("", "p90"),
            "report": ("", "p50", "p90", "p99", "max"),
        },
    ),
    JobMetric(
        "turnaround_time_s",
        "s",
        "end - submit, killed jobs included",
        lambda _tau, _resource: pl.col("turnaround_time_s"),
        better="low",
        shown={"comparison": MAIN, "groups": MAIN, "report": MAIN},
    ),
    JobMetric(
        "slowdown",
        "1",
        "turnaround / run; of several tasks or instances turnaround / ideal, the critical path of "
        "the longest successful instances; a job that ran for 0 s has none and counts as censored",
        lambda _tau, _resource: pl.when(_LEAST > 0).then(pl.col("turnaround_time_s") / _LEAST),
        better="low",
    ),
    JobMetric(
        "bounded_slowdown",
        "1",
        "max(1, (wait + run) / max(run, {tau:g} s))" + _OR_IDEAL,
        lambda tau, _resource: _bounded_slowdown(tau, pl.lit(1.0)),
        better="low",
        shown={
            "summary": MAIN,
            "comparison": MAIN,
            "groups": ("", "p90"),
            "charts": MAIN,
            "tiles": MAIN,
            "report": ("", "p90"),
        },
        left_out_rank=2,
    ),
    JobMetric(
        "per_processor_bounded_slowdown",
        "1",
        "max(1, (wait + run) / ({resource} * max(run, {tau:g} s))) (Zotkin and Keleher, "
        '"Job-length estimation and performance in backfilling schedulers", 1999)' + _OR_IDEAL,
        lambda tau, resource: _bounded_slowdown(tau, pl.col(resource)),
        better="low",
    ),
)
"""Metrics that every job has, by the names that `compute_metrics` and `compare_runs` use."""

SINCE_RELEASE: Final = JobMetric(
    "wait_since_release_s",
    "s",
    "first start - release: what a job waited once it could run, after its release time and the "
    "ends and think times of its preceding jobs",
    lambda _tau, _resource: pl.col("start_time_s") - pl.col("release_time_s"),
    needs=("release_time_s",),
    better="low",
    shown={"comparison": MAIN, "report": MAIN},
)
"""The metric that only jobs of a workload with release times or preceding jobs have."""


LAST_S: Final = "last_s"
"""A further column in comparisons: the run's last instant, in s."""


def _late(due: pl.Expr) -> pl.Expr:
    """Return 1 for a job that did not finish by its due time, 0 for one that did, else null.

    The rules are those of `VALUE_METRICS`: killed and rejected jobs are late; a job
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
    value = pl.col(name)
    return JobMetric(
        name,
        unit,
        meaning,
        lambda _tau, _resource: value,
        needs=(name,),
        better="high" if name == "renewable_j" else "low",
        shown={"comparison": MAIN} if name in ("energy_j", "carbon_g", "cost") else {},
    )


ALSO_COMPARED: Final[tuple[JobMetric, ...]] = (
    JobMetric(
        "job_value",
        "value",
        "the value of a job that finished, 0 of any other",
        lambda _tau, _resource: (
            pl.when(pl.col("status") == "finished").then(pl.col("value")).otherwise(0.0)
        ),
        needs=("value", "status"),
        better="high",
        shown={"comparison": MAIN},
    ),
    JobMetric(
        "qos_violated",
        "1",
        "1 if a job did not finish by submit + run time / QoS, 0 if it did",
        lambda _tau, _resource: _late(
            pl.col("submit_time_s") + pl.col("trace_run_time_s") / pl.col("qos")
        ),
        needs=("qos", "status", LAST_S),
        better="low",
        shown={"comparison": MAIN},
    ),
    JobMetric(
        "deadline_missed",
        "1",
        "1 if a job did not finish by its deadline, 0 if it did",
        lambda _tau, _resource: _late(pl.col("deadline_s")),
        needs=("deadline_s", "status", LAST_S),
        better="low",
        shown={"comparison": MAIN},
    ),
    *(_billed(name, meaning) for name, meaning in ENERGY.items() if name != "job_id"),
)
"""Further numbers of single jobs, by which runs are compared: of jobs with a value, quality of
service or deadline, and the columns of the table "energy"."""


class JobRecords(NamedTuple):
    """What metrics of all jobs are made of."""

    jobs: pl.LazyFrame
    """Columns of `records.JOBS`, and one a resource."""
    tasks: pl.LazyFrame
    """Columns of `records.TASKS`, and one a resource."""
    window: RunWindow
    tau: float
    resource: str


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
    records = JobRecords(jobs, tasks, window, tau, resource)
    return [
        *_distributions(records),
        *metrics_of(WHOLE_JOBS, records, window, tau=tau, resource=resource),
    ]


def _distributions(records: JobRecords) -> list[Metric]:
    """Return each job metric's distribution; the values of all are held, the jobs read once."""
    jobs, _, window, tau, resource = records
    found, jobs_seen, known = [], 0, set(jobs.collect_schema().names())
    metrics = (*JOB_METRICS, *([SINCE_RELEASE] if known.issuperset(SINCE_RELEASE.needs) else []))
    parts: dict[str, list[Floats]] = {metric.name: [np.empty(0)] for metric in metrics}
    columns = [metric.value(tau, resource).alias(metric.name) for metric in metrics]
    for rows in batches(jobs, columns, window):
        jobs_seen += len(rows)
        for column in rows.iter_columns():
            values = column.drop_nulls().to_numpy().astype(np.float64, copy=False)
            parts[column.name].append(values)
    for metric in metrics:
        values = np.concatenate(parts.pop(metric.name))
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


def _weighted_response(records: JobRecords) -> Found:
    """Return the average weighted response time, each job weighted by its area.

    Schwiegelshohn and Yahyapour, "Fairness in parallel job scheduling", 2000.
    """
    jobs, tasks, window, _, resource = records
    own = pl.col(resource) * pl.col("run_time_s")
    columns = ["job_id", own.alias("own"), pl.col("turnaround_time_s")]
    several = _areas_of_several(jobs, tasks, resource)
    count, censored, total, weighted = 0, 0, 0.0, 0.0
    for batch in batches(jobs, columns, window):
        rows = batch
        if len(several):
            rows = rows.join(several, on="job_id", how="left", maintain_order="left")
            rows = rows.with_columns(pl.coalesce("area", "own").alias("own"))
        ended = rows.select("own", "turnaround_time_s").drop_nulls()
        weight, turnaround = ended["own"].to_numpy(), ended["turnaround_time_s"].to_numpy()
        count, censored = count + len(ended), censored + len(rows) - len(ended)
        total += float(weight.sum())
        weighted += float((weight * turnaround).sum())
    return Found(share(weighted, total), count, censored)


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


def _fairness(records: JobRecords) -> Found:
    """Return Jain's index over users: 1 if all fare alike, 1/n if one of n has all the slowdown.

    Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", 1984. Jobs of unknown users (-1) are left out.
    """
    columns = [pl.col("user"), _bounded_slowdown(records.tau, pl.lit(1.0)).alias("value")]
    sums: dict[int | str, list[float]] = {}  # user → sum and number of values
    seen = 0
    for rows in batches(records.jobs, columns, records.window):
        seen += len(rows)
        nobody = "" if rows.schema["user"] == pl.String else -1
        known = rows.drop_nulls().filter(pl.col("user") != nobody)
        for user, total, count in _by_group(known["user"], known["value"].to_numpy()):
            entry = sums.setdefault(user, [0.0, 0.0])
            entry[0] += total
            entry[1] += count
    means = np.array([sums[user][0] / sums[user][1] for user in sorted(sums)])
    number = int(sum(count for _, count in sums.values()))
    index = float(means.sum()) ** 2 / (len(means) * float((means**2).sum())) if len(means) else None
    return Found(index, number, seen - number, {"users": counted(len(means), "user")})


def _by_group(group: pl.Series, values: Floats) -> Iterator[tuple[int | str, float, float]]:
    """Yield each group, the sum and the number of its values, summed in the order of rows."""
    if len(group):
        codes = group.rank("dense").to_numpy().astype(np.int64) - 1
        sums, counts = np.bincount(codes, weights=values), np.bincount(codes)
        yield from zip(group.unique().sort(), sums.tolist(), counts.tolist(), strict=True)


def _makespan(records: JobRecords) -> Found:
    """Return the time from the first submit to the last end, over all jobs, never trimmed."""
    end, submit = pl.col("end_time_s"), pl.col("submit_time_s")
    columns = {"end": end.max(), "submit": submit.min(), "ended": end.count(), "all": pl.len()}
    row = records.jobs.select(**columns).collect().row(0, named=True)
    known = row["end"] is not None
    value = row["end"] - row["submit"] if known else None
    return Found(value, row["ended"], row["all"] - row["ended"])


def _throughput(records: JobRecords) -> Found:
    """Return the jobs that finished in an hour of the window of time."""
    inside = pl.col("end_time_s").is_between(records.window.start_s, records.window.end_s)
    finished = ((pl.col("status") == "finished") & inside).sum()
    return throughput(records.jobs.select(finished).collect().item(), records.window)


WHOLE_JOBS: Final[tuple[MetricRow[JobRecords], ...]] = (
    MetricRow(
        "makespan_s",
        "s",
        "last end - first submit",
        _makespan,
        "all jobs submitted",
        better="low",
        in_short="first submit to last end",
        shown={"summary": MAIN, "tiles": MAIN, "report": MAIN},
        left_out_rank=1,
    ),
    throughput_row("jobs", _throughput, shown={"report": MAIN}),
    MetricRow(
        "awrt_s",
        "s",
        "sum(w * turnaround) / sum(w), w = {resource} * run, or of several tasks or instances the "
        "{resource}-seconds that they ask for (average weighted response time; Schwiegelshohn and "
        'Yahyapour, "Fairness in parallel job scheduling", 2000)',
        _weighted_response,
        better="low",
    ),
    MetricRow(
        "fairness_jain",
        "1",
        "sum(x)^2 / (n * sum(x^2)), x = a user's mean bounded slowdown (tau {tau:g} s), n = "
        "{users} (Jain, Chiu and Hawe 1984); 1 is fairest; jobs without a known user count as "
        "censored",
        _fairness,
        better="high",
    ),
)
"""Metrics of all jobs of a run."""
COUNTS: Final[MetricRow[pl.LazyFrame]] = counts_row("jobs", status_counts)
"""How many jobs had which status; the last metric of a run."""


@dataclass
class ValueSums:
    """Counts and sums over jobs."""

    submitted: int = 0
    finished: int = 0
    finished_early: int = 0
    """Jobs that finished by the last submit."""
    value: float = 0.0
    """Value of all jobs."""
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


def _lateness(
    name: str, due: str, need: str, counts: _Lateness, **facts: Any
) -> MetricRow[ValueSums]:
    """Return the row of jobs that were late; `counts` gives late, in time, all with a due time."""

    def found(tally: ValueSums) -> Found:
        late, in_time, total = counts(tally)
        known = late + in_time
        return Found({"value": late, "share": share(late, known)}, known, total - known)

    formula = (
        f"jobs that did not finish by {due}; killed and rejected ones did not; unfinished "
        "ones whose time was not up at the run's last instant are censored; share: of the others"
    )
    return MetricRow(name, "jobs", formula, found, better="low", needs=(need,), **facts)


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
        shown={"report": MAIN},
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
        shown={"sweep": MAIN},
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
        shown={"sweep": MAIN},
        left_out_rank=5,
    ),
    _lateness(
        "qos_violations",
        "submit + run time / QoS",
        "qos",
        lambda tally: (tally.violated, tally.unviolated, tally.submitted),
        shown={"sweep": ("share",)},
        left_out_rank=9,
    ),
    _lateness(
        "deadline_misses",
        "the deadline",
        "deadlines",
        lambda tally: (tally.missed, tally.met, tally.deadlines),
        shown={"sweep": ("share",), "report": MAIN},
        left_out_rank=6,
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
