"""Compares two runs of one workload, job by job or as a whole: differences with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl

from simkit import plugins
from simkit.analysis.intervals import Interval, seed_interval, weekly_interval
from simkit.analysis.runs import GROUP, RunPair, Settings, as_runs, pair_runs
from simkit.arrays import Floats
from simkit.errors import RunError, did_you_mean
from simkit.records import ENERGY, JOBS_RELEASED, JOBS_WITH_VALUE
from simkit.results.all_metrics import Number, measured, metric_numbers, shown_on
from simkit.results.group_metrics import By, check_by, in_order
from simkit.results.job_metrics import ALSO_COMPARED, JOB_METRICS, LAST_S, SINCE_RELEASE, JobMetric
from simkit.results.metric import Better, counted_resource, custom_names
from simkit.results.run_folder import Run, RunOrFolder
from simkit.shown import notes, table, text_or
from simkit.text import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RunMetric(NamedTuple):
    """A number of a whole run, by its name in `metric_numbers`."""

    name: str
    unit: str
    better: Better | None = None


COMPARABLE_JOB_METRICS: Final = (*JOB_METRICS, SINCE_RELEASE, *ALSO_COMPARED)
"""Numbers of single jobs: of every run, of jobs with a value, and the columns of "energy"."""


def default_metrics(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the names of the metrics by which runs are compared by default: what all have."""
    of_jobs = _known_job_metrics(runs)
    known = [
        name
        for name, row in shown_on("comparison").items()
        if (name in of_jobs if isinstance(row, JobMetric) else all(name in r.metrics for r in runs))
    ]
    return (*known, *custom_of(runs))


def custom_of(runs: Sequence[Run]) -> list[str]:
    """Return the names of the user's metrics that any of the runs has."""
    with suppress(RunError):  # an interrupted run may have no metrics
        return custom_names(*(run.metrics for run in runs))
    return []


def chosen_metrics(names: Sequence[str], runs: Sequence[Run]) -> list[JobMetric | RunMetric]:
    """Return metrics by name; a metric of single jobs goes before one of whole runs.

    Raises RunError, with all that is wrong, for names that are no metric of all runs.
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
    """Return the numbers of metrics that all runs have, and those of the user that any has."""
    try:
        every = [metric_numbers(run.metrics) for run in runs]
    except RunError:  # an interrupted run may have no metrics
        return {}
    own, merged = custom_of(runs), {name: n for one in every for name, n in one.items()}
    return {
        name: number
        for name, number in (every[0] | merged).items()
        if name.partition(".")[0] in own or all(name in one for one in every)
    }


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
                f"{name!r} needs the bills of a run with power, but not all runs have power"
            )
        else:
            column = needs[name][0]
            released = "a workload with release times or preceding jobs"
            gives = released if column in JOBS_RELEASED else "a section value:"
            lines.append(
                f"{name!r} needs the column {column} of the jobs, but not all runs have it; "
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


_MOST_ROWS: Final = 60
"""Rows of the table in a notebook."""


DIFFERENCE_HEADS: Final = ("mean A", "mean B", "B - A", "low", "high", "better", "equal", "worse")
"""Heads of `Difference.cells`."""


@dataclass(frozen=True)
class Difference:
    """How one metric differs between paired jobs or runs: B - A, below 0 where B is lower."""

    metric: str
    unit: str
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    """Mean of B - A over the pairs, or over the seeds' means."""
    interval: Interval
    better: float | None
    """Share of pairs of jobs in which B is lower than A, or higher if `direction` is high, as with
    the value of jobs. None for whole runs."""
    equal: float | None
    worse: float | None
    n: int
    """Jobs, or pairs of runs, that have a value on both sides, summed over the seeds."""
    without_value: int
    """Jobs, or pairs of runs, that are left out: one or both have no value."""
    of: Literal["jobs", "runs"] = "jobs"
    """What `n` counts."""
    group: str | None = None
    """The group of jobs that this is about; None: all."""
    direction: Better | None = None
    """Which numbers of the metric are better; None: neither."""

    def cells(self) -> list[str]:
        """Return means, difference, interval and shares as text, see `DIFFERENCE_HEADS`."""
        means = (measured(self.metric, mean, self.unit) for mean in (self.mean_a, self.mean_b))
        apart = (self.difference, self.interval.low, self.interval.high)
        differences = (measured(self.metric, n, self.unit, difference=True) for n in apart)
        shares = ("-" if s is None else f"{s:.0%}" for s in (self.better, self.equal, self.worse))
        return [*means, *differences, *shares]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two runs, or two sets of runs with the same seeds, compared."""

    a: str
    b: str
    seeds: tuple[int, ...]
    differences: tuple[Difference, ...]
    only_in_a: tuple[Any, ...]
    """Ids of the jobs that run B lacks."""
    only_in_b: tuple[Any, ...]
    unfinished_in_a: tuple[Any, ...]
    """Ids of the jobs of both runs that did not end in A (waiting, running or rejected)."""
    unfinished_in_b: tuple[Any, ...]
    changes: tuple[str, ...] = ()
    """What differs between the scenarios of A and B: ``cluster.processors 1,216 → 1,338``."""
    by: By | None = None
    """What the groups of `differences` are."""
    unknown: tuple[str, ...] = ()
    """Which metrics of the user are unknown in which runs, a sentence each."""
    runs: tuple[tuple[Run, Run], ...] = field(default=(), compare=False)
    """The runs of A and B, paired; for pictures."""

    def __repr__(self) -> str:
        return text_or(plugins.view("comparison.text"), self, object.__repr__(self))

    def _repr_html_(self) -> str:
        rows = [
            [*([] if self.by is None else [d.group or "all"]), d.metric, *d.cells(), f"{d.n:,}"]
            for d in self.differences
        ]
        keys = () if self.by is None else (self.by,)
        heads = (*keys, "metric", *DIFFERENCE_HEADS, "n")
        level = {d.interval.level for d in self.differences}
        about = [f"A: {self.a}", f"B: {self.b}", *(f"differs: {each}" for each in self.changes)]
        methods = dict.fromkeys(d.interval.method for d in self.differences)
        about += [f"interval: {max(level):.0%}, {method}" for method in methods]
        if more := max(len(rows) - _MOST_ROWS, 0):
            about.insert(0, f"{more:,} more rows: frame() has all")
        return table(heads, rows[:_MOST_ROWS], names=len(keys) + 1) + notes([*about, *self.notes()])

    def plot(self) -> Figure:
        """Draw the comparison: differences of metrics, over time and job by job; return the figure.

        Raises SimkitError without matplotlib.
        """
        figure: Figure = plugins.view("comparison.plot")(self)
        return figure

    def frame(self) -> pl.DataFrame:
        """Return one row a metric, the interval as columns low, high, level, method, blocks."""
        rows = []
        for difference in self.differences:
            row = asdict(difference)
            rows.append({**row, **row.pop("interval")})
        return pl.DataFrame([{k: v for k, v in row.items() if k != "interval"} for row in rows])

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers and text."""
        plain = replace(self, runs=())  # they are no numbers
        left_out = {"runs", "by", *([] if self.unknown else ["unknown"])}
        return {key: value for key, value in asdict(plain).items() if key not in left_out}

    def notes(self) -> list[str]:
        """Return which metrics are unknown or have no groups, and which jobs are left out."""
        groups = {
            f"only in A ({self.a})": self.only_in_a,
            f"only in B ({self.b})": self.only_in_b,
            f"not ended in A ({self.a})": self.unfinished_in_a,
            f"not ended in B ({self.b})": self.unfinished_in_b,
        }
        left_out = [
            f"{counted(len(ids), 'job')} {where}: {_first(ids)}"
            for where, ids in groups.items()
            if ids
        ]
        whole = [row.metric for row in self.differences if row.of == "runs"]
        ungrouped = (
            [f"no groups of {', '.join(whole)}: known of whole runs alone"]
            if whole and self.by is not None
            else []
        )
        return [*self.unknown, *ungrouped, *left_out]


def compare_runs(
    a: RunOrFolder | Sequence[RunOrFolder],
    b: RunOrFolder | Sequence[RunOrFolder],
    *,
    metrics: Sequence[str] | None = None,
    by: By | None = None,
    tau: float = 10.0,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare two runs, or two sets of runs paired by seed, job by job or as a whole.

    With one run a side, a metric of jobs has a bootstrap interval over weeks of submission, and a
    number of whole runs has none. With several runs, it is a t-interval over the seeds'
    differences.

    Args:
        a: a run, its folder, or several of them with different seeds.
        b: the same for the other side, with the same seeds.
        metrics: names of metrics of single jobs (`COMPARABLE_JOB_METRICS`), or of numbers of
            whole runs, such as ``carbon_kg`` or ``grid_kwh.import``. None: waits and slowdowns, and
            value and energy if all runs have them.
        by: also compares each group of jobs, after all jobs; see `group_metrics.By`. A job is in
            the group that it has in A, which matters for the scenario's partitions alone.
        tau: floor of the run time in bounded slowdowns, in s.
        level: of confidence, between 0 and 1.
        resamples: resamples of the bootstrap.
        seed: the bootstrap's.

    Raises RunError if the workloads differ, the seeds do not pair, not all runs have a metric, or
    an argument is out of range.
    """
    if not (0 < level < 1 and resamples >= 1 and tau > 0):
        raise RunError(
            f"compare: level {level!r}, resamples {resamples!r}, tau {tau!r}; the level lies "
            "between 0 and 1, there is at least 1 resample, and tau is above 0 s"
        )
    if by is not None:
        check_by(by)
    runs_a, runs_b = as_runs(a), as_runs(b)
    runs = (*runs_a, *runs_b)
    chosen = chosen_metrics(default_metrics(runs) if metrics is None else metrics, runs)
    needed = {name for m in chosen if not isinstance(m, RunMetric) for name in m.needs}
    pairs = pair_runs(runs_a, runs_b, needed, by)
    parts: dict[str | None, list[RunPair]] = {None: pairs}
    for group in _groups(pairs, by) if by else ():
        parts[group] = [pair.of_group(group) for pair in pairs]
    differences = []
    for metric in chosen:
        if isinstance(metric, RunMetric):
            differences.append(_of_runs(metric, pairs, level))
            continue
        for part, found in parts.items():
            difference = _of_jobs(metric, found, tau, level=level, resamples=resamples, seed=seed)
            differences.append(replace(difference, group=part))
    return Comparison(
        a=_names(runs_a),
        b=_names(runs_b),
        seeds=tuple(pair.a.seed for pair in pairs),
        differences=tuple(differences),
        only_in_a=tuple(job for pair in pairs for job in pair.only_in_a),
        only_in_b=tuple(job for pair in pairs for job in pair.only_in_b),
        unfinished_in_a=tuple(job for pair in pairs for job in pair.unfinished_in_a),
        unfinished_in_b=tuple(job for pair in pairs for job in pair.unfinished_in_b),
        changes=_changes(pairs[0].a, pairs[0].b),
        by=by,
        unknown=_unknown(chosen, pairs),
        runs=tuple((pair.a, pair.b) for pair in pairs),
    )


def _unknown(chosen: Sequence[JobMetric | RunMetric], pairs: Sequence[RunPair]) -> tuple[str, ...]:
    """Return which runs do not have the user's metrics, as their scenarios do not name them."""
    found = []
    for side, runs in (("A", [p.a for p in pairs]), ("B", [p.b for p in pairs])):
        for metric in chosen:
            lacking = [run.name for run in runs if metric.name not in metric_numbers(run.metrics)]
            if isinstance(metric, RunMetric) and lacking:
                found.append(
                    f"{metric.name} is unknown in {side} ({', '.join(dict.fromkeys(lacking))}): "
                    "its scenario does not name this metric"
                )
    return tuple(found)


def _changes(a: Run, b: Run) -> tuple[str, ...]:
    """Return what differs between two runs: what their machines have, then keys of scenarios."""
    first, second = _capacity(a), _capacity(b)
    found = [
        f"{name} {first[name]:,.10g} → {second[name]:,.10g}"
        for name in dict.fromkeys((*first, *second))
        if first[name] != second[name]
    ]
    hidden = ("name ", "cluster.processors ") if found else ("name ",)
    keys = Settings([a, b]).changes()
    return (*found, *(change for change in keys if not change.startswith(hidden)))


def _capacity(run: Run) -> Counter[str]:
    """Return what the machines of a run have of each resource, in all."""
    total: Counter[str] = Counter()
    for machine in run.info["cluster"]["machines"]:
        total.update(machine["capacity"])
    return total


def _groups(pairs: Sequence[RunPair], by: By) -> list[str]:
    """Return the groups of jobs of all pairs, in the order of `metrics_by`."""
    jobs = pl.concat(pair.both.select(pl.col(GROUP).alias(by)) for pair in pairs)
    names: list[str] = in_order(jobs.group_by(by).agg(pl.len().alias("jobs")), by)[by].to_list()
    return names


def _of_jobs(
    metric: JobMetric,
    pairs: Sequence[RunPair],
    tau: float,
    *,
    level: float,
    resamples: int,
    seed: int,
) -> Difference:
    """Return the difference of a metric of single jobs."""
    columns = [pair.values(metric.value(tau, counted_resource(pair.a.resources))) for pair in pairs]
    lost = sum(len(pair.both) - len(x) for pair, (x, _, _) in zip(pairs, columns, strict=True))
    means = np.array([[x.mean(), y.mean()] for x, y, _ in columns if len(x)]).reshape(-1, 2)
    apart = np.array([(y - x).mean() for x, y, _ in columns if len(x)])
    if len(pairs) > 1:
        interval = seed_interval(apart, level=level)
    else:
        first, second, submit = columns[0]
        interval = weekly_interval(
            second - first, submit, level=level, resamples=resamples, seed=seed
        )
    first, second = (np.concatenate([column[side] for column in columns]) for side in (0, 1))
    shares: list[float | None] = [None] * 3
    if len(first):
        shares = [
            float(where.mean()) for where in (second < first, second == first, second > first)
        ]
    if metric.better == "high":
        shares.reverse()
    better, equal, worse = shares
    return Difference(
        metric.name,
        metric.unit,
        *_means(means, apart),
        interval,
        better,
        equal,
        worse,
        n=len(first),
        without_value=lost,
        direction=metric.better,
    )


def _of_runs(metric: RunMetric, pairs: Sequence[RunPair], level: float) -> Difference:
    """Return the difference of a number of whole runs."""
    numbers = [
        [
            number.value if (number := metric_numbers(run.metrics).get(metric.name)) else None
            for run in (pair.a, pair.b)
        ]
        for pair in pairs
    ]
    known = np.array([row for row in numbers if None not in row], np.float64).reshape(-1, 2)
    means = _means(known, known[:, 1] - known[:, 0])
    if not len(known):  # one side may have it
        sides = ([n for n in side if n is not None] for side in zip(*numbers, strict=True))
        first, second = (float(np.mean(side)) if side else None for side in sides)
        means = (first, second, None)
    apart: Floats = known[:, 1] - known[:, 0]
    interval = seed_interval(apart, level=level)
    if len(pairs) == 1:
        why = "none: a number of a whole run has an interval only over several seeds"
        interval = Interval(None, None, level, why, len(known))
    return Difference(
        metric.name,
        metric.unit,
        *means,
        interval,
        better=None,
        equal=None,
        worse=None,
        n=len(known),
        without_value=len(pairs) - len(known),
        of="runs",
        direction=metric.better,
    )


def _means(means: Floats, apart: Floats) -> tuple[float | None, float | None, float | None]:
    """Return the mean over S seeds of A and B, (S, 2) `means`, and of B - A, (S,) `apart`."""
    if not len(means):
        return None, None, None
    return float(means[:, 0].mean()), float(means[:, 1].mean()), float(apart.mean())


def _names(runs: Sequence[Run]) -> str:
    """Return the runs' scenarios, policies and estimates, each once."""
    return ", ".join(dict.fromkeys(f"{run.name}, {run.method}" for run in runs))


def _first(ids: tuple[Any, ...], most: int = 10) -> str:
    shown = ", ".join(str(i) for i in ids[:most])
    return f"{shown}, …" if len(ids) > most else shown
