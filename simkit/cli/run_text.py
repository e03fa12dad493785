"""Text about runs: what will be simulated, a run's metrics, a comparison of runs, an audit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from simkit.cli.echo import echo
from simkit.cli.groups_text import (
    DIFFERENCE_HEADS,
    Groups,
    difference_cells,
    print_differences_by,
    print_groups,
)
from simkit.cli.tables import READ_WIDTH, print_table
from simkit.cli.text import as_text, print_rows, say, wrapped
from simkit.experiment.policy import policy_label
from simkit.experiment.warnings import estimates_name
from simkit.power.signal_align import Span
from simkit.results.all_metrics import measured
from simkit.results.metric import entries
from simkit.text import counted
from simkit.units import KWH_J, quantity

if TYPE_CHECKING:
    from simkit.analysis.compare import Comparison, Difference
    from simkit.analysis.summary import Summary
    from simkit.experiment import Experiment
    from simkit.power.facts import Supply
    from simkit.power.site import Foresight, Site
    from simkit.results.run_folder import Run
    from simkit.verify.audit import Audit

DISTRIBUTION = ("mean", "p50", "p90", "p99", "max")


def run_text(run: Run) -> str:
    """Return the metrics of a run as `simkit run` prints them, for `Run.summary`."""

    def show() -> None:
        echo(repr(run))
        _print_metrics(run.metrics)
        if digest := run.digest:
            say("Digest", digest)
        for warning in run.info.get("warnings") or ():
            say("Note", str(warning).removeprefix("warning: "))

    return as_text(show)


def metrics_text(metrics: Mapping[str, Any]) -> str:
    """Return metrics as `simkit run` prints them."""
    return as_text(lambda: _print_metrics(metrics)).lstrip("\n")


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison as `simkit compare` prints it."""
    groups = None if comparison.by is None else Groups(comparison.by)
    return as_text(lambda: print_comparison(comparison, groups))


def summary_text(summary: Summary) -> str:
    """Return a summary as `simkit summarise` prints it."""
    return as_text(lambda: print_summary(summary))


def _print_metrics(metrics: Mapping[str, Any], *, verbose: bool = False) -> None:
    """Print metrics; zeros, and what is the same everywhere, in a line each unless `verbose`."""
    numbers = {name: values for name, values in entries(metrics).items() if "unit" in values}
    same: dict[str, str] = {} if verbose else _same_everywhere(numbers)
    shown = {name: values for name, values in numbers.items() if name not in same}
    echo()
    _print_distributions(shown)
    echo()
    _print_numbers(shown)
    echo()
    _say_same(same)


def print_trace(experiment: Experiment) -> None:
    """Print the trace, the cluster, the policy and the site of an experiment."""
    scenario, trace = experiment.scenario, experiment.trace
    say("Trace", ", ".join(map(str, trace.inputs)) or f"generated: {scenario.workload.type}")
    print_rows(trace.report)
    for name, report in trace.tables.items():
        if report is not trace.report:
            say("", f"{name}:")
            print_rows(report)
    jobs = len(trace.workload)
    if jobs != trace.report.jobs:
        say("", f"{counted(jobs, 'job')} after window and resample")
    say("Cluster", _cluster_line(experiment))
    for name, report in experiment.cluster.reports.items():
        say("", f"{name}:")
        print_rows(report)
    name = estimates_name(scenario, trace.workload)
    say("Policy", f"{policy_label(scenario)}, estimates {name}, "
        f"walltime {scenario.walltime}, seed {scenario.seed}")  # fmt: skip
    if line := power_line(experiment):
        say("Power", line)
    for name, notes in experiment.site.notes.items() if experiment.site else ():
        say("", f"{name.removeprefix('power.')}: {'; '.join(notes)}")
    for name, report in ({} if experiment.site is None else experiment.site.reports).items():
        if report.dropped:
            say("", f"{name}:")
            print_rows(report)


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


def print_run(run: Run, groups: Groups | None = None, *, verbose: bool = False) -> None:
    """Print the metrics of a run, also by group if asked for, its counts, and where it is.

    Numbers that are 0, and metrics with the same value everywhere, are one line each unless
    `verbose`.
    """
    _print_metrics(run.metrics, verbose=verbose)
    if groups is not None:
        units = {metric.name: metric.unit for metric in run.custom}
        print_groups(run.metrics_by(groups.by), groups, units)
        echo()
    counts = run.metrics["jobs"]
    states = ("finished", "killed", "rejected", "running", "waiting")
    ended = [f"{counts[s]:,} {s}" for s in states if counts.get(s) or s == "finished"]
    say("Jobs", f"{counts['submitted']:,} submitted: {', '.join(ended)}")
    if (recorded := run.info.get("recorded")) is not None:
        _print_recorded(recorded)
    say("Took", _times(run.info))
    say("Digest", run.digest)
    say("Run folder", str(run.folder))


def _print_recorded(counts: Mapping[str, Any]) -> None:
    """Print how many of the log's starts were replayed as they are, and why others were later."""
    later = counts["started_later"]
    late, on_time = sum(later.values()), counts["started_as_recorded"]
    say("Recorded", f"{on_time:,} of {counted(on_time + late, 'start')} as the log has them")
    if delays := counts["later_s"]:
        mean, most = (quantity(delays[key], "s") for key in ("mean", "max"))
        say("", f"{late:,} later, as soon as they fitted: by {mean} on average, {most} at most")
        for reason, number in later.items():
            say("", f"  {number:,}: {reason}")
    if without := counts["jobs_without_recorded_start"]:
        say("", f"{counted(without, 'job')} whose start the log does not tell")


def _say_same(same: Mapping[str, str]) -> None:
    """Print the metrics that have no row, those that are 0 by their names alone."""
    zeros = [name for name, number in same.items() if number in _ZEROS]
    others = [f"{name} {number}" for name, number in same.items() if number not in _ZEROS]
    if zeros:
        say("Zero", ", ".join(zeros))
    if others:
        say("Constant", ", ".join(others))
    if same:
        say("", "--verbose shows them in the tables")
        echo()


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


def _print_distributions(metrics: Mapping[str, Any]) -> None:
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
        print_table(["Metric", *DISTRIBUTION], rows)
    _say_over(over)


def _print_numbers(metrics: Mapping[str, Any]) -> None:
    rows, over = [], dict[str, list[str]]()
    for name, values in metrics.items():
        key = "value" if "value" in values else "mean"
        if "p50" not in values and key in values:
            unit = "" if values["unit"] in ("1", "s") else values["unit"]
            rows.append([name, measured(name, values[key], values["unit"]), unit])
            over.setdefault(str(values["window"]), []).append(name)
    print_table(["Metric", "value", "unit"], rows, text=1)
    _say_over(over)


def _say_over(over: Mapping[str, Sequence[str]]) -> None:
    """Print what metrics are over: first that of most of them, then the others with their names."""
    if not over:
        return  # no job was submitted
    most, *rest = sorted(over, key=lambda what: -len(over[what]))
    say("Over", f"{most}{'; except:' if rest else ''}")
    for what in rest:
        say("", f"{', '.join(over[what])}: {what}")


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


def print_comparison(comparison: Comparison, groups: Groups | None = None) -> None:
    """Print the differences of two runs, also by group if asked for, then what was left out."""
    say("A", comparison.a)
    say("B", comparison.b)
    same = {a.digest for a, _ in comparison.runs} == {b.digest for _, b in comparison.runs}
    nothing = "nothing, the digests are equal" if same else "nothing but the results"
    say("Differs", "; ".join(comparison.changes) or nothing)
    whole = [row for row in comparison.differences if row.group is None]
    heads, rows = ["Metric", *DIFFERENCE_HEADS], [[r.metric, *difference_cells(r)] for r in whole]
    over = [_pairs_over(row) for row in whole]
    if len(set(over)) > 1:
        heads, rows = [*heads, "over"], [[*row, n] for row, n in zip(rows, over, strict=True)]
    print_table(heads, rows)
    if len(set(over)) == 1:
        say("Over", over[0])
    if groups is not None:
        print_differences_by(groups, comparison.differences)
        echo()
    methods: dict[str, list[str]] = {}
    for row in whole:
        method = f"{row.interval.level:.0%}, {row.interval.method}"
        methods.setdefault(method, []).append(row.metric)
    for method, names in methods.items():
        say("Interval", f"{method} ({', '.join(names)})" if len(methods) > 1 else method)
    for note in comparison.notes():
        say("Note", note)


def print_summary(summary: Summary) -> None:
    """Print the metrics of groups of runs, and what a reader must know of them."""
    from simkit.analysis.summary import with_star

    table = summary.table()
    print_table(table.heads, table.cells(with_star), names=table.names)
    for note in table.notes:
        say("Note", note)


def _pairs_over(row: Difference) -> str:
    return counted(row.n, "job" if row.of == "jobs" else "run")


def print_audit(audit: Audit, *, verbose: bool = False) -> None:
    """Print the checks and the rows that break a rule; those that do not apply if `verbose`."""
    rows = []
    for check in audit.checks:
        if check.skipped and not check.applies and not verbose:
            continue
        if audit.alike and check.skipped.startswith(audit.alike):
            continue  # the last line says it of all these rules at once
        found = "-" if check.skipped else f"{check.found:,}"
        why_not = "not audited: because" if check.applies else "does not apply:"
        rule = f"{why_not} {check.skipped}" if check.skipped else check.rule
        rows.append((check.name, f"{check.examined:,}", found, rule))
    heads = ["Check", "examined", "violations", "rule"]
    print_table(heads, rows, text=1, piped_width=READ_WIDTH)
    for check in audit.checks:
        for violation in check.violations:
            wrapped(str(violation))
        if more := check.found - len(check.violations):
            wrapped(f"{check.name}: and {more:,} more")
    for check in audit.checks:
        for what, value in check.notes.items():
            if value:
                wrapped(f"note: {check.name}: {what}: {_listed(value)}")
    wrapped(f"{audit.folder}: {audit.summary()}")


def _listed(value: Any) -> str:
    """Return a note's number or text, or several separated by commas."""
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else ", ".join(map(str, value))
