"""All metrics: the tables of their rows, what a run has of them, and how their numbers are read.

A metric is a row of the table of its kind (`TABLES`); results, groups, comparisons, sweeps and
summaries follow from it. `measure` also computes the user's metrics, which a scenario names.
`metric_numbers` gives the numbers in metrics.json by name: ``carbon_kg``, ``grid_kwh.import``,
``wait_time_s.p99``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple

import polars as pl

from simkit import plugins
from simkit.errors import PluginError, RunError, ScenarioError, SimkitError, nearest
from simkit.policy.declared import PolicyMetric
from simkit.results.custom_metrics import CustomMetric, custom_metric
from simkit.results.energy_metrics import ENERGY_METRICS, energy_metrics
from simkit.results.group_metrics import COLUMNS
from simkit.results.job_metrics import (
    ALSO_COMPARED,
    COUNTS,
    JOB_METRICS,
    SINCE_RELEASE,
    VALUE_METRICS,
    WHOLE_JOBS,
    job_metrics,
    value_metrics,
)
from simkit.results.machine_metrics import MACHINE_METRICS, machine_metrics
from simkit.results.machine_records import MachineRecords
from simkit.results.metric import (
    ABOUT,
    CUSTOM,
    Better,
    Found,
    Metric,
    MetricFacts,
    MetricRow,
    Metrics,
    RunWindow,
    Screen,
    counted_resource,
    entries,
    main_key,
    metrics_of,
    run_window,
)
from simkit.results.run_folder import Run
from simkit.results.task_metrics import (
    SUSPENSION_METRICS,
    TASK_METRICS,
    suspension_metrics,
    task_metrics,
)
from simkit.results.timeline import TIMELINE_METRICS, timeline_metrics
from simkit.scenario import Scenario
from simkit.units import quantity

TABLES: Final[Mapping[str, Sequence[MetricFacts]]] = {
    "single jobs": (*JOB_METRICS, SINCE_RELEASE),
    "time": TIMELINE_METRICS,
    "jobs": WHOLE_JOBS,
    "value": VALUE_METRICS,
    "tasks": TASK_METRICS,
    "machines": MACHINE_METRICS,
    "suspensions": SUSPENSION_METRICS,
    "energy": ENERGY_METRICS,
    "counts": (COUNTS,),
    "comparisons": ALSO_COMPARED,
}
"""Kind of metric → its rows, in the order in which screens show them. Those of comparisons are
numbers of single jobs that no run's metrics.json has: they stand last, as `job_value` is also a
metric of runs."""


@cache
def shown_on(screen: Screen) -> Mapping[str, MetricFacts]:
    """Return the numbers on a screen where the user names none, each with its row.

    They are named as in `metric_numbers`; `utilisation` is that of each resource, see `full_names`.
    """
    return {
        f"{_short(row)}.{number}" if number else _short(row): row
        for table in TABLES.values()
        for row in table
        for number in row.shown.get(screen, ())
    }


def _short(row: MetricFacts) -> str:
    return row.name.replace("_{resource}", "")


def full_names(name: str, known: Collection[str]) -> list[str]:
    """Return which of the known metrics a name is; `utilisation` is that of every resource."""
    if name in known:
        return [name]
    found = next((row for row in _rows().values() if _short(row) == name != row.name), None)
    return [] if found is None else [o for o in known if "." not in o and _is_one_of(found, o)]


def full_name(name: str, known: Collection[str]) -> str:
    """Return a metric's name; `utilisation` is that of the first resource."""
    return next(iter(full_names(name, known)), name)


def other_names(name: str, known: Collection[str]) -> str:
    """Return how a message about an unknown metric ends: the nearest name, or the usual ones."""
    if near := nearest(name, known):
        return f"; did you mean {near!r}?"
    ordered = sorted(known)
    usual = [one for shown in shown_on("summary") for one in full_names(shown, ordered)]
    return f"; usual: {', '.join(usual)}; name a part like wait_time_s.p99" if usual else ""


def _is_one_of(row: MetricFacts, name: str) -> bool:
    """Return whether a row of each resource makes the metric of this name."""
    before, hole, after = row.name.partition("{resource}")
    return bool(hole and re.fullmatch(f"{re.escape(before)}.+{re.escape(after)}", name))


@cache
def _rows() -> Mapping[str, MetricFacts]:
    return {row.name: row for table in reversed([*TABLES.values()]) for row in table}


@cache
def facts_of(name: str) -> MetricFacts | None:
    """Return the row of a metric, or of one of its numbers; None of one that simkit does not know.

    Args:
        name: as in metrics.json, such as ``utilisation_processors``, or ``wait_time_s.p99``.
    """
    head, rows = name.partition(".")[0], _rows()
    if head in rows:
        return rows[head]
    if found := next((row for row in rows.values() if _is_one_of(row, head)), None):
        return found
    brought = metrics_of_policies().get(head)
    return None if brought is None else _row_of(brought)


def better_of(name: str) -> Better | None:
    """Return whether high or low numbers of a metric are better; None: neither, or unknown.

    Args:
        name: of a metric, or of one of its numbers: ``grid_kwh.import``.
    """
    row = facts_of(name)
    return None if row is None else row.parts.get(name.partition(".")[2], row.better)


def is_share(name: str) -> bool:
    """Return whether the numbers of a metric are parts of a whole, which people read in per cent.

    Args:
        name: of a metric, or of one of its numbers: ``curtailment_kwh.share``.
    """
    row = facts_of(name)
    return name.endswith(("_share", ".share")) or (row is not None and row.share)


def compute_metrics(
    run: Run,
    *,
    tau: float = 10.0,
    warmup: float = 0.0,
    cooldown: float = 0.0,
    brought: Iterable[PolicyMetric] = (),
) -> dict[str, dict[str, Any]]:
    """Return every metric of a run as plain numbers and text, ready for JSON.

    The tables are read column by column or in batches and never sorted: memory stays at a few
    columns of the jobs. Sums do not depend on the number of threads. Metrics of value, tasks,
    machines and energy are included if the run has them.

    Args:
        run: its tables must be closed.
        tau: floor of the run time in bounded slowdowns, in s, above 0.
        warmup: leaves out jobs submitted within this many seconds of the first submit.
        cooldown: leaves out jobs submitted within this many seconds before the last submit.
        brought: metrics that the policy brings.

    Returns name → ``{"value": …}`` or ``{"mean": …, "p50": …, …}``, with unit, formula, window,
    count and censored. Makespan, counts and the unsuccessful share are never trimmed.

    Raises RunError if `tau`, `warmup` or `cooldown` are out of range, or a table is missing.
    """
    if not (math.isfinite(tau) and tau > 0):
        raise RunError(f"metrics.tau: {tau!r} is not above 0 s; 10s is usual")
    for name, value in (("warmup", warmup), ("cooldown", cooldown)):
        if not (math.isfinite(value) and value >= 0):
            raise RunError(f"metrics.{name}: {value!r} is not a time of 0 s or more")
    jobs, tasks, allocations, timeline = map(run.scan, ("jobs", "tasks", "allocations", "timeline"))
    window = run_window(jobs, timeline, warmup=warmup, cooldown=cooldown)
    (counts,) = metrics_of((COUNTS,), jobs, window or RunWindow(0, 0, 0))
    if window is None:
        return {counts.name: counts.as_json()}
    found = [
        *job_metrics(jobs, tasks, window, tau=tau, resource=counted_resource(run.resources)),
        *timeline_metrics(jobs, tasks, allocations, timeline, window, run.capacity),
        *value_metrics(jobs, allocations, timeline, window),
        *_on_machines(MachineRecords.of(run), jobs, window),
        *suspension_metrics(allocations, tasks, jobs, _priorities(run), window),
    ]
    found += metrics_of([_row_of(row) for row in brought], (allocations, window), window)
    if run.has_power:
        found += energy_metrics(run.scan("power"), run.battery, window)
    return {metric.name: metric.as_json() for metric in (*found, counts)}


def _row_of(brought: PolicyMetric) -> MetricRow[tuple[pl.LazyFrame, RunWindow]]:
    """Return a policy's metric as a row: over all allocations, never trimmed."""

    def value(records: tuple[pl.LazyFrame, RunWindow]) -> Found:
        allocations, window = records
        times = allocations.select("start_time_s", "end_time_s").collect()
        number = value_of(brought, times, window.first_submit_s)
        return Found(number, times["end_time_s"].count())

    name, unit, formula, _, better = brought
    return MetricRow(name, unit, formula, value, "all allocations", better=better)


def value_of(row: PolicyMetric, allocations: pl.DataFrame, first_submit_s: float) -> float | None:
    """Return a metric that a policy brings, by the times of allocations; missing ends are NaN."""
    start_s, end_s = (allocations[name].to_numpy() for name in ("start_time_s", "end_time_s"))
    return row.value(start_s, end_s, first_submit_s)


@cache
def metrics_of_policies() -> Mapping[str, PolicyMetric]:
    """Return the metrics that installed policies bring, by name; it loads all of them."""
    found: dict[str, PolicyMetric] = {}
    for name in plugins.names("simkit.policies"):
        with suppress(PluginError):  # one that cannot be loaded brings none
            rows = getattr(plugins.find("simkit.policies", name), "metrics", ())
            found |= {row.name: row for row in rows} if isinstance(rows, tuple) else {}
    return found


def _priorities(run: Run) -> dict[str, float]:
    """Return the priority of each partition by its name."""
    partitions = run.info.get("cluster", {}).get("partitions") or ()
    return {str(part["name"]): float(part.get("priority") or 0.0) for part in partitions}


def _on_machines(machines: MachineRecords, jobs: pl.LazyFrame, window: RunWindow) -> list[Metric]:
    """Return the metrics of machines, if there are several, and of tasks, unless each is a job."""
    several = len(machines.capacity) > 1
    if not several and machines.tasks.select(pl.col("gang").all()).collect().item():
        return []
    requests = machines.requests()
    found = task_metrics(machines, requests, jobs, window)
    return found + machine_metrics(machines, requests, window) if several else found


def measured(name: str, value: float | None, unit: str, *, difference: bool = False) -> str:
    """Return the readable number of a metric: shares in per cent, others as `quantity`.

    Args:
        name: of the metric.
        value: its number; None: unknown.
        unit: its unit.
        difference: whether it is one of two numbers: of shares in points, as per cent would be of
            what remains open.
    """
    if value is None or unit != "1" or not is_share(name):
        return quantity(value, unit)
    return f"{100 * value:,.4g}{' pp' if difference else '%'}"


class Number(NamedTuple):
    """One number of a metric."""

    value: float | None
    """None if it is undefined, as the mean over no jobs."""
    unit: str
    better: Better | None = None
    """Whether high or low numbers are better; None: neither."""


def metric_numbers(metrics: Mapping[str, Any]) -> dict[str, Number]:
    """Return every number of a run's metrics.

    Args:
        metrics: the content of metrics.json.

    Returns NAME.KEY → number, and NAME → its `value`, or else its `mean`.
    """
    found: dict[str, Number] = {}
    for name, metric in entries(metrics).items():
        numbers = {key: number for key, number in metric.items() if key not in ABOUT}
        unit, better = metric.get("unit", ""), metric.get("better")
        if (main := main_key(numbers)) is not None:
            found[name] = Number(numbers[main], unit, better or better_of(name))
        for key, number in numbers.items():
            full = f"{name}.{key}"
            found[full] = Number(number, unit, better or better_of(full))
    return found


def metric_columns(metrics: Mapping[str, Any]) -> dict[str, Number]:
    """Return every number of a run's metrics once: as `metric_numbers`, without NAME's second name.

    Args:
        metrics: the content of metrics.json.
    """
    again = {f"{name}.{main_key(metric)}" for name, metric in entries(metrics).items()}
    return {name: n for name, n in metric_numbers(metrics).items() if name not in again}


_TAKEN: Final = (CUSTOM, *COLUMNS)
"""Names that mean something else in metrics.json or in a table of groups."""


def build_metrics(
    scenario: Scenario, functions: Sequence[Callable[..., Any]] = ()
) -> tuple[CustomMetric, ...]:
    """Return the user's metrics of a scenario, and those that are given as functions.

    Raises ScenarioError, with all that is wrong, for what is no metric or has the name of another
    one.
    """
    has_power = scenario.power is not None
    found, problems = list[CustomMetric](), list[str]()
    named: list[tuple[str, str, Any]] = [
        (f"metrics.custom.{n}", name, None) for n, name in enumerate(scenario.metrics.custom)
    ]
    if isinstance(functions, str) or not isinstance(functions, Iterable):
        raise ScenarioError("metrics: give a list of functions, metrics=[tail_wait]")
    named += [
        (f"metrics.{n}", _name_of(function), function) for n, function in enumerate(functions)
    ]
    places = {name: what for what, name, _ in reversed(named)}
    for what, name, function in named:
        try:
            if function is None:
                function = plugins.find("simkit.metrics", name)
            found.append(custom_metric(what, name, function, has_power=has_power))
        except ScenarioError as error:
            problems += error.problems
        except SimkitError as error:
            problems.append(f"{what}: {error}")
    times = Counter(metric.name for metric in found)
    for metric in dict.fromkeys(found):
        if facts_of(metric.name) is not None or metric.name in _TAKEN:
            problems.append(
                f"{places[metric.source]}: {metric.source!r}: {metric.name} is a name of "
                "simkit's own; rename the function"
            )
        elif times[metric.name] > 1:
            problems.append(
                f"{places[metric.source]}: {metric.source!r}: {metric.name} is the name of "
                f"{times[metric.name]} metrics; rename one"
            )
    if problems:
        raise ScenarioError(dict.fromkeys(problems))
    return tuple(found)


def _name_of(function: object) -> str:
    """Return a function's name; text as it is."""
    named: str = getattr(function, "__name__", type(function).__name__)
    return function if isinstance(function, str) else named


def measure(
    run: Run,
    scenario: Scenario,
    custom: Sequence[CustomMetric],
    brought: Iterable[PolicyMetric] = (),
) -> Metrics:
    """Return the metrics of a run whose tables are closed; `brought` are those of the policy."""
    given = scenario.metrics
    window = {"warmup": given.warmup, "cooldown": given.cooldown}
    found = Metrics(compute_metrics(run, tau=given.tau, **window, brought=brought))
    if custom:
        found[CUSTOM] = measure_custom(run, scenario, custom)
    return found


def measure_custom(
    run: Run, scenario: Scenario, custom: Iterable[CustomMetric]
) -> dict[str, dict[str, Any]]:
    """Return the user's metrics of a run whose tables are closed, by name."""
    jobs, given = run.scan("jobs"), scenario.metrics
    kept = run_window(jobs, run.scan("timeline"), warmup=given.warmup, cooldown=given.cooldown)
    counted = jobs if kept is None else kept.jobs(jobs)
    return {metric.name: metric.entry(run, counted, kept) for metric in custom}


def failures(metrics: Mapping[str, Any]) -> list[str]:
    """Return why metrics of the user could not be computed, a warning each."""
    errors = (entry.get("error") for entry in metrics.get(CUSTOM, {}).values())
    return [f"{error}\n  metrics.json has null instead" for error in errors if error]
