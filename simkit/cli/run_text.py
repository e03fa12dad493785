"""Text about runs: what will be simulated, a run's metrics, comparisons, summaries, sweeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simkit.cli.text import GAP, Blocks, Line, Plain, Table, as_text, console, rows_blocks
from simkit.errors import RunError, did_you_mean
from simkit.experiment.warnings import estimates_name
from simkit.records import STATUSES
from simkit.results.all_metrics import (
    Number,
    facts_of,
    full_name,
    measured,
    metric_numbers,
    other_names,
    shown_on,
)
from simkit.results.group_metrics import NOT_FINISHED, WAIT_SHARE, By
from simkit.results.metric import DISTRIBUTION, custom_names, entries
from simkit.scenario.policy import USUAL_ESTIMATES
from simkit.text import counted
from simkit.units import KWH_J, quantity
from simkit.workload.workload import Span

if TYPE_CHECKING:
    import polars as pl

    from simkit.analysis.compare import Comparison, Difference
    from simkit.analysis.summary import Summary
    from simkit.experiment import Experiment
    from simkit.experiment.workers import SweepOutcome
    from simkit.power.facts import Supply
    from simkit.power.site import Foresight, Site
    from simkit.results.run_folder import Run


MOST: Final = 20
"""Groups that are printed if nothing else is said."""


@dataclass(frozen=True)
class Groups:
    """How jobs are grouped for a table, and which groups it shows."""

    by: By
    sort: str | None = None
    """The number to sort by, the largest first; None: the usual order, names by their jobs."""
    top: int = MOST
    """Groups that are printed."""


def groups_blocks(found: pl.DataFrame, groups: Groups, own: Mapping[str, str]) -> Blocks:
    """Yield a row for each group of `metrics_by`, with the states that any of its jobs is in.

    `own` are the user's metrics → their units; those that groups have are columns too.
    """
    if groups.sort is not None:
        found = found.sort(groups.sort, descending=True, nulls_last=True, maintain_order=True)
    states = [state for state in NOT_FINISHED if found[state].sum()]
    shown = {name: row.unit for name, row in shown_on("groups").items()}
    shown |= {name: unit for name, unit in own.items() if name in found.columns}
    if groups.sort not in (None, "jobs", *states, *shown, WAIT_SHARE):
        sorted_by = facts_of(str(groups.sort))
        shown[str(groups.sort)] = "1" if sorted_by is None else sorted_by.unit
    rows = [
        [
            row[groups.by],
            *(f"{row[count]:,}" for count in ("jobs", *states)),
            "-" if row[WAIT_SHARE] is None else f"{row[WAIT_SHARE]:.1%}",
            *(quantity(row[name], unit) for name, unit in shown.items()),
        ]
        for row in found.head(groups.top).iter_rows(named=True)
    ]
    yield Table([groups.by.capitalize(), "jobs", *states, WAIT_SHARE, *shown], rows)
    yield from _left_out_blocks(len(found), groups)


def differences_by_blocks(groups: Groups, differences: Sequence[Difference]) -> Blocks:
    """Yield a table for each metric, a row for each group.

    Sorted by a metric, the groups with its largest differences come first in every table. Raises
    RunError for a metric that is not compared.
    """
    from simkit.analysis.compare import DIFFERENCE_HEADS

    of_groups: dict[str, list[Difference]] = {}
    for row in differences:
        if row.group is not None:
            of_groups.setdefault(row.metric, []).append(row)
    if groups.sort is not None:
        if groups.sort not in of_groups:
            near = did_you_mean(groups.sort, of_groups)
            raise RunError(f"sort: {groups.sort!r} is not among the compared metrics{near}")
        rank = {row.group: row.difference for row in of_groups[groups.sort]}
        for rows in of_groups.values():
            rows.sort(key=lambda row: math.inf if (n := rank[row.group]) is None else -abs(n))
    for metric, found in of_groups.items():
        yield Plain(f"\n{metric}")
        cells = [[str(r.group), *r.cells(), f"{r.n:,}"] for r in found[: groups.top]]
        yield Table([groups.by.capitalize(), *DIFFERENCE_HEADS, "jobs"], cells)
        yield from _left_out_blocks(len(found), groups)


def _left_out_blocks(count: int, groups: Groups) -> Blocks:
    if count > groups.top:
        yield Line(
            "Left out", f"{counted(count - groups.top, 'more group')}; --top shows more, --json all"
        )


def run_text(run: Run) -> str:
    """Return the metrics of a run as `simkit run` prints them, for `Run.summary`."""

    def blocks() -> Blocks:
        yield Plain(repr(run))
        yield from _metrics_blocks(run.metrics)
        if digest := run.digest:
            yield Line("Digest", digest)
        for warning in run.info.get("warnings") or ():
            yield Line("Note", str(warning).removeprefix("warning: "))

    return as_text(blocks())


def metrics_text(metrics: Mapping[str, Any]) -> str:
    """Return metrics as `simkit run` prints them."""
    return as_text(_metrics_blocks(metrics)).lstrip("\n")


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison as `simkit compare` prints it."""
    groups = None if comparison.by is None else Groups(comparison.by)
    return as_text(comparison_blocks(comparison, groups))


def summary_text(summary: Summary) -> str:
    """Return a summary as `simkit summarise` prints it."""
    return as_text(summary_blocks(summary))


def _metrics_blocks(metrics: Mapping[str, Any], *, verbose: bool = False) -> Blocks:
    """Yield metrics; zeros, and what is the same everywhere, in a line each unless `verbose`."""
    numbers = {name: values for name, values in entries(metrics).items() if "unit" in values}
    same: dict[str, str] = {} if verbose else _same_everywhere(numbers)
    shown = {name: values for name, values in numbers.items() if name not in same}
    yield Plain()
    yield from _distributions_blocks(shown)
    yield Plain()
    yield from _numbers_blocks(shown)
    yield Plain()
    yield from _same_blocks(same)


def trace_blocks(experiment: Experiment) -> Blocks:
    """Yield the trace, the cluster, the policy and the site of an experiment."""
    scenario, trace = experiment.scenario, experiment.trace
    yield Line("Trace", ", ".join(map(str, trace.inputs)) or f"generated: {scenario.workload.type}")
    yield from rows_blocks(trace.report)
    for name, report in trace.tables.items():
        if report is not trace.report:
            yield Line("", f"{name}:")
            yield from rows_blocks(report)
    jobs = len(trace.workload)
    if jobs != trace.report.jobs:
        yield Line("", f"{counted(jobs, 'job')} after window and resample")
    yield Line("Cluster", _cluster_line(experiment))
    for name, report in experiment.cluster.reports.items():
        yield Line("", f"{name}:")
        yield from rows_blocks(report)
    name = estimates_name(scenario, trace.workload)
    yield Line("Policy", f"{scenario.policy.label}, estimates {name}, "
        f"walltime {scenario.walltime}, seed {scenario.seed}")  # fmt: skip
    if line := power_line(experiment):
        yield Line("Power", line)
    for name, notes in experiment.site.notes.items() if experiment.site else ():
        yield Line("", f"{name.removeprefix('power.')}: {'; '.join(notes)}")
    for name, report in ({} if experiment.site is None else experiment.site.reports).items():
        if report.dropped:
            yield Line("", f"{name}:")
            yield from rows_blocks(report)


def _cluster_line(experiment: Experiment) -> str:
    cluster = experiment.cluster
    totals = zip(cluster.resources, cluster.capacity.sum(axis=0).tolist(), strict=True)
    parts = [", ".join(f"{amount:,.10g} {name}" for name, amount in totals)]
    if len(cluster.machine_names) > 1:
        parts.append(f"on {counted(len(cluster.machine_names), 'machine')}")
    if len(cluster.partitions) > 1:
        parts.append(f"in {counted(len(cluster.partitions), 'partition')}")
    if cluster.maintenance:
        recurring, windows = len(cluster.recurring), len(cluster.maintenance)
        recur = "" if not recurring else ", recurring" if recurring == windows else (
            f", {recurring} of them recurring"
        )  # fmt: skip
        parts.append(f"with {counted(windows, 'maintenance window')}{recur}")
    return " ".join(parts)


def run_blocks(run: Run, groups: Groups | None = None, *, verbose: bool = False) -> Blocks:
    """Yield the metrics of a run, also by group if asked for, its counts, and where it is.

    Numbers that are 0, and metrics with the same value everywhere, are one line each unless
    `verbose`.
    """
    yield from _metrics_blocks(run.metrics, verbose=verbose)
    if groups is not None:
        units = {metric.name: metric.unit for metric in run.custom}
        yield from groups_blocks(run.metrics_by(groups.by), groups, units)
        yield Plain()
    counts = run.metrics["jobs"]
    ended = [f"{counts[s]:,} {s}" for s in STATUSES if counts.get(s) or s == "finished"]
    yield Line("Jobs", f"{counts['submitted']:,} submitted: {', '.join(ended)}")
    if (recorded := run.info.get("recorded")) is not None:
        yield from _recorded_blocks(recorded)
    yield Line("Took", _times(run.info))
    yield Line("Digest", run.digest)
    yield Line("Run folder", str(run.folder))


def _recorded_blocks(counts: Mapping[str, Any]) -> Blocks:
    """Yield how many of the log's starts were replayed as they are, and why others were later."""
    later = counts["started_later"]
    late, on_time = sum(later.values()), counts["started_as_recorded"]
    yield Line("Recorded", f"{on_time:,} of {counted(on_time + late, 'start')} as the log has them")
    if delays := counts["later_s"]:
        mean, most = (quantity(delays[key], "s") for key in ("mean", "max"))
        yield Line(
            "", f"{late:,} later, as soon as they fitted: by {mean} on average, {most} at most"
        )
        for reason, number in later.items():
            yield Line("", f"  {number:,}: {reason}")
    if without := counts["jobs_without_recorded_start"]:
        yield Line("", f"{counted(without, 'job')} whose start the log does not tell")


def _same_blocks(same: Mapping[str, str]) -> Blocks:
    """Yield the metrics that have no row, those that are 0 by their names alone."""
    zeros = [name for name, number in same.items() if number in _ZEROS]
    others = [f"{name} {number}" for name, number in same.items() if number not in _ZEROS]
    if zeros:
        yield Line("Zero", ", ".join(zeros))
    if others:
        yield Line("Constant", ", ".join(others))
    if same:
        yield Line("", "--verbose shows them in the tables")
        yield Plain()


_ZEROS: Final = ("0", "0 s", "0%")


def _same_everywhere(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return metric → its number, of those that say little: 0, or the same in all cases."""
    same = {}
    for name, values in metrics.items():
        key = "value" if "value" in values else "mean"
        if name in ("jobs", "tasks") or values.get(key) is None:
            continue
        all_equal = {values.get(column) for column in DISTRIBUTION} == {values[key]}
        if all_equal if "p50" in values else values[key] == 0:
            same[name] = measured(name, values[key], values["unit"])
    return same


def _times(info: Mapping[str, Any]) -> str:
    times = info["wall_time_s"]
    phases = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in times.items())
    rate = info["jobs"] / times["simulate"] if times.get("simulate") else 0.0
    memory = (info["peak_memory_bytes"] or 0) / 1e6
    return f"{phases} ({rate:,.0f} jobs/s, peak memory {memory:,.0f} MB)"


def _distributions_blocks(metrics: Mapping[str, Any]) -> Blocks:
    rows, over = [], dict[str, list[str]]()
    for name, values in metrics.items():
        if "p50" in values:
            rows.append(
                [name, *(measured(name, values.get(c), values["unit"]) for c in DISTRIBUTION)]
            )
            missing = f", {values['censored']:,} missing" if values["censored"] else ""
            count = f"{counted(values['count'], 'value')}{missing}"
            over.setdefault(f"{values['window']} ({count})", []).append(name)
    if rows or not metrics:
        yield Table(["Metric", *DISTRIBUTION], rows)
    yield from _over_blocks(over)


def _numbers_blocks(metrics: Mapping[str, Any]) -> Blocks:
    rows, over = [], dict[str, list[str]]()
    for name, values in metrics.items():
        key = "value" if "value" in values else "mean"
        if "p50" not in values and key in values:
            unit = "" if values["unit"] in ("1", "s") else values["unit"]
            rows.append([name, measured(name, values[key], values["unit"]), unit])
            over.setdefault(str(values["window"]), []).append(name)
    yield Table(["Metric", "value", "unit"], rows, text=1)
    yield from _over_blocks(over)


def _over_blocks(over: Mapping[str, Sequence[str]]) -> Blocks:
    """Yield what metrics are over: first that of most of them, then the others with their names."""
    if not over:
        return  # no job was submitted
    most, *rest = sorted(over, key=lambda what: -len(over[what]))
    yield Line("Over", f"{most}{'; except:' if rest else ''}")
    for what in rest:
        yield Line("", f"{', '.join(over[what])}: {what}")


def power_line(experiment: Experiment) -> str:
    """Return one line about the site of an experiment; empty without a site.

    The mean of a source is taken from the first submission to the earliest possible end of the
    last job: the time for which every signal is known before the run.
    """
    site, section = experiment.site, experiment.scenario.power
    if site is None:
        return ""
    start, end = Span.of(experiment.trace.workload)
    means = {source.name: source.power.mean(start, end) for source in site.sources}
    parts = [f"{name} {_power(watts)} on average" for name, watts in means.items()]
    if site.battery is not None:
        parts.append(f"battery {site.battery.capacity_j / KWH_J:,.10g} kWh")
    parts += [_grid(site), _supply(site.supply)]
    kind = None if section is None or section.forecast is None else section.forecast.type
    return ", ".join([*parts, _forecast(site.foresight, kind)])


def _power(watts: float) -> str:
    """Return a readable power: ``44.4 kW``."""
    for per, unit in ((1e6, "MW"), (1e3, "kW")):
        if abs(watts) >= per:
            return f"{watts / per:,.4g} {unit}"
    return f"{watts:.4g} W"


def _grid(site: Site) -> str:
    limit = site.grid.import_limit_w
    if not isinstance(limit, (int, float)):
        return "grid with a limit that varies"
    if limit == math.inf:
        return "grid without limit"
    return f"grid up to {_power(limit)}" if limit else "no grid"


def _supply(supply: Supply) -> str:
    if supply.limit == "none":
        return "no supply limit"
    return f"limit {supply.limit}, then {supply.running}"


def _forecast(foresight: Foresight | None, kind: str | None) -> str:
    if foresight is None:
        return "no forecast"
    return f"forecast {kind} for {foresight.horizon_s / 3600:g} h" if kind else "a forecast"


def comparison_blocks(comparison: Comparison, groups: Groups | None = None) -> Blocks:
    """Yield the differences of two runs, also by group if asked for, then what was left out."""
    from simkit.analysis.compare import DIFFERENCE_HEADS

    yield Line("A", comparison.a)
    yield Line("B", comparison.b)
    same = {a.digest for a, _ in comparison.runs} == {b.digest for _, b in comparison.runs}
    nothing = "nothing, the digests are equal" if same else "nothing but the results"
    yield Line("Differs", "; ".join(comparison.changes) or nothing)
    whole = [row for row in comparison.differences if row.group is None]
    heads = ["Metric", *DIFFERENCE_HEADS]
    rows = [[row.metric, *row.cells()] for row in whole]
    over = [counted(row.n, "job" if row.of == "jobs" else "run") for row in whole]
    if len(set(over)) > 1:
        heads, rows = [*heads, "over"], [[*row, n] for row, n in zip(rows, over, strict=True)]
    yield Table(heads, rows)
    if len(set(over)) == 1:
        yield Line("Over", over[0])
    if groups is not None:
        yield from differences_by_blocks(groups, comparison.differences)
        yield Plain()
    methods: dict[str, list[str]] = {}
    for row in whole:
        method = f"{row.interval.level:.0%}, {row.interval.method}"
        methods.setdefault(method, []).append(row.metric)
    for method, names in methods.items():
        yield Line("Interval", f"{method} ({', '.join(names)})" if len(methods) > 1 else method)
    for note in comparison.notes():
        yield Line("Note", note)


def summary_blocks(summary: Summary) -> Blocks:
    """Yield the metrics of groups of runs, and what a reader must know of them."""
    from simkit.analysis.summary import with_star

    table = summary.table()
    yield Table(table.heads, table.cells(with_star), names=table.names)
    for note in table.notes:
        yield Line("Note", note)


class Column(NamedTuple):
    """A metric of every run, ready to be printed."""

    name: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """Its width in characters."""
        return max(map(len, (self.name, *self.cells)))


def sweep_blocks(
    folder: Path, outcomes: Sequence[SweepOutcome], metrics: Sequence[str] = ()
) -> Blocks:
    """Yield a line per run: its state, the swept values, its main metrics.

    Args:
        folder: the folder of the sweep.
        outcomes: one per run.
        metrics: names of the metrics to show; empty: the most informative ones that fit.
    """
    keys = list(outcomes[0].assignment) if outcomes else []
    named = [Column("Run", tuple(outcome.state for outcome in outcomes))]
    named += [Column(key, tuple(_swept(o.assignment[key]) for o in outcomes)) for key in keys]
    named_as = [o.assignment.get("estimates", USUAL_ESTIMATES) for o in outcomes]
    if any(o.estimates and o.estimates != name for o, name in zip(outcomes, named_as, strict=True)):
        named.append(Column("planned with", tuple(o.estimates for o in outcomes)))
    last = [*_jobs_without_an_end(outcomes)]
    if any(outcome.state == "done" for outcome in outcomes):
        took = (f"{o.seconds:.1f}" if o.state == "done" else "" for o in outcomes)
        last.append(Column("seconds", tuple(took)))
    found = [metric_numbers(outcome.metrics) for outcome in outcomes]
    left_out: list[str] = []
    if metrics:
        shown = [_column(name, found) for name in metrics]
    else:
        taken = sum(column.width + GAP for column in (*named, *last))
        own = custom_names(*(outcome.metrics for outcome in outcomes))
        usual = (*shown_on("summary"), *own)
        shown, left_out = _chosen(usual, found, console().width + GAP - taken)
    columns = [*named, *shown, *last]
    rows = zip(*(column.cells for column in columns), strict=True)
    yield Table([column.name for column in columns], list(rows), names=len(named))
    states = Counter(outcome.state for outcome in outcomes)
    yield Line("Runs", ", ".join(f"{count} {state}" for state, count in states.items()))
    if left_out:
        yield Line("Left out", f"{', '.join(left_out)}; --metrics names what to show")
    for line in _unknown(metrics, found):
        yield Line("Note", line)
    yield Line("Folder", str(folder))


def _jobs_without_an_end(outcomes: Sequence[SweepOutcome]) -> Iterator[Column]:
    """Yield how many jobs did not finish, by the reason, if there are any in any run.

    They are shown next to the means, which they change: a run that rejects long jobs waits less.
    """
    jobs = [outcome.metrics.get("jobs", {}) for outcome in outcomes]
    for name, states in NOT_FINISHED.items():
        counts = [sum(found.get(state, 0) for state in states) for found in jobs]
        if any(counts):
            cells = (f"{n:,}" if found else "-" for n, found in zip(counts, jobs, strict=True))
            yield Column(name, tuple(cells))


def _swept(value: Any) -> str:
    """Return a value as a scenario has it, on one line."""
    if not isinstance(value, dict | list):
        return str(value)
    from ruamel.yaml import YAML

    yaml, text = YAML(typ="rt", pure=True), StringIO()
    yaml.default_flow_style, yaml.width = True, 4096  # on one line
    yaml.dump(value, text)
    return text.getvalue().strip()


def _chosen(
    usual: Sequence[str], found: Sequence[Mapping[str, Number]], room: int
) -> tuple[list[Column], list[str]]:
    """Return the metrics that fit into a table, and the names of those that do not."""
    informative = [name for name in shown_on("sweep") if _is_informative(name, found)]
    columns = [_column(name, found) for name in (*usual, *informative)]
    if not informative:
        return columns, []
    rows, left_out = {**shown_on("summary"), **shown_on("sweep")}, []
    ranks = {name: row.left_out_rank for name, row in rows.items() if row.left_out_rank}
    for name in sorted(ranks, key=ranks.__getitem__):
        if sum(column.width + GAP for column in columns) <= room:
            break
        if any(column.name == name for column in columns):
            columns = [column for column in columns if column.name != name]
            left_out.append(name)
    return columns, left_out


def _is_informative(name: str, found: Sequence[Mapping[str, Number]]) -> bool:
    """Return whether a metric differs between runs; of a single run, whether it is not 0."""
    values = [number.value for one in found if (number := _number(one, name)) is not None]
    return len(set(values)) > 1 or (len(values) == 1 and any(values))


def _column(name: str, found: Sequence[Mapping[str, Number]]) -> Column:
    numbers = [_number(one, name) for one in found]
    whole = next((full_name(name, one) for one, n in zip(found, numbers, strict=True) if n), name)
    return Column(
        name, tuple("-" if n is None else measured(whole, n.value, n.unit) for n in numbers)
    )


def _number(found: Mapping[str, Number], name: str) -> Number | None:
    """Return a metric by its name; see `full_name`."""
    return found.get(full_name(name, found))


def _unknown(names: Sequence[str], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a note for every name that is a metric of no run, unless all runs failed."""
    known = {name for one in found for name in one}
    missing = [n for n in names if known and all(_number(one, n) is None for one in found)]
    return [f"no run has a metric {name!r}{other_names(name, known)}" for name in missing]
