"""What the command line prints: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simkit.cli_power_text import power_words
from simkit.policy_source import policy_label
from simkit.units import format_duration
from simkit.words import counted

if TYPE_CHECKING:
    from simkit.compare import Comparison
    from simkit.experiment import Experiment
    from simkit.run_folder import Run
    from simkit.verify_audit import Audit

PIPED_WIDTH = 140
"""Columns of a table that goes into a file or a pipe."""
DISTRIBUTION = ("mean", "p50", "p90", "p99", "max")


def console() -> Console:
    """Return a console on stdout, as it is now: wide where it is no terminal."""
    piped = not sys.stdout.isatty()
    return Console(width=PIPED_WIDTH if piped else None, highlight=False, soft_wrap=False)


def print_json(content: Any) -> None:
    """Print JSON."""
    print(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str))


def say(label: str, text: str) -> None:
    """Print a line with a label in a column of its own; long paths are not cut."""
    print(f"{label:<12}{text}")


def table(*columns: str) -> Table:
    """Return a table whose first column is text and whose others are numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for position, column in enumerate(columns):
        made.add_column(column, justify="right" if position else "left", no_wrap=True)
    return made


# --- a run -----------------------------------------------------------------------------------


def print_trace(experiment: Experiment) -> None:
    """Say what was read, on which machine it runs, and under which policy."""
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
    say("Cluster", _cluster_words(experiment))
    for name, report in experiment.cluster.reports.items():
        say("", f"{name}:")
        print_rows(report)
    say("Policy", f"{policy_label(scenario)}, estimates {scenario.estimates.type}, "
        f"walltime {scenario.walltime}, seed {scenario.seed}")  # fmt: skip
    if words := power_words(experiment):
        say("Power", words)


def print_rows(report: Any) -> None:
    """Say what became of a trace's rows, rule by rule."""
    repaired, dropped = sum(report.repaired.values()), sum(report.dropped.values())
    say("", f"{counted(report.read, 'row')} read = {report.accepted:,} accepted + "
        f"{repaired:,} repaired + {dropped:,} dropped")  # fmt: skip
    for what, counts in (
        ("repaired", report.repaired), ("dropped", report.dropped), ("note", report.notes),
    ):  # fmt: skip
        for rule, count in counts.items():
            say("", f"  {what}: {rule} {count:,}")


def _cluster_words(experiment: Experiment) -> str:
    cluster = experiment.cluster
    totals = zip(cluster.resources, cluster.capacity.sum(axis=0).tolist(), strict=True)
    words = [", ".join(f"{amount:,.10g} {name}" for name, amount in totals)]
    if len(cluster.machine_names) > 1:
        words.append(f"on {counted(len(cluster.machine_names), 'machine')}")
    if len(cluster.partitions) > 1:
        words.append(f"in {counted(len(cluster.partitions), 'partition')}")
    if cluster.maintenance:
        words.append(f"with {counted(len(cluster.maintenance), 'maintenance window')}")
    return " ".join(words)


def print_run(run: Run) -> None:
    """Print the metrics of a run, its counts, and where it is."""
    out = console()
    print()
    out.print(_distributions(run.metrics))
    print()
    out.print(_numbers(run.metrics))
    print()
    counts = run.metrics["jobs"]
    states = ("finished", "killed", "rejected", "running", "waiting")
    shown = [f"{counts[s]:,} {s}" for s in states if counts.get(s) or s == "finished"]
    say("Jobs", f"{counts['submitted']:,} submitted: {', '.join(shown)}")
    say("Took", _times(run.info))
    say("Digest", run.digest)
    say("Run folder", str(run.folder))


def _times(info: Mapping[str, Any]) -> str:
    times = info["wall_time_s"]
    phases = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in times.items())
    rate = info["jobs"] / times["simulate"] if times.get("simulate") else 0.0
    memory = (info["peak_memory_bytes"] or 0) / 1e6
    return f"{phases} ({rate:,.0f} jobs/s, peak memory {memory:,.0f} MB)"


def _distributions(metrics: Mapping[str, Any]) -> Table:
    made = table("Metric", *DISTRIBUTION, "jobs", "no value")
    for name, values in metrics.items():
        if "p50" in values:
            cells = [quantity(values.get(column), values["unit"]) for column in DISTRIBUTION]
            made.add_row(name, *cells, f"{values['count']:,}", f"{values['censored']:,}")
    return made


def _numbers(metrics: Mapping[str, Any]) -> Table:
    made = table("Metric", "value", "unit", "over")
    for name, values in metrics.items():
        key = "value" if "value" in values else "mean"
        if "p50" not in values and key in values:
            unit = "" if values["unit"] in ("1", "s") else values["unit"]
            text = quantity(values[key], values["unit"])
            made.add_row(name, text, unit, Text(str(values["window"]), overflow="fold"))
    made.columns[2].justify = made.columns[3].justify = "left"
    return made


def quantity(value: float | None, unit: str) -> str:
    """Return a number for people: durations as ``1d 02:03:04``, others with four digits."""
    if value is None:
        return "-"
    if unit == "s":
        return format_duration(float(value))
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.4g}"


# --- several runs ----------------------------------------------------------------------------


def print_comparison(comparison: Comparison) -> None:
    """Print the differences of two runs, then what was left out."""
    say("A", comparison.a)
    say("B", comparison.b)
    made = table("Metric", "mean A", "mean B", "B - A", "low", "high", "better", "equal", "worse",
                 "jobs")  # fmt: skip
    for row in comparison.differences:
        numbers = (row.mean_a, row.mean_b, row.difference, row.interval.low, row.interval.high)
        shares = ("-" if s is None else f"{s:.0%}" for s in (row.better, row.equal, row.worse))
        count = f"{row.n:,}" if row.of == "jobs" else counted(row.n, "run")
        made.add_row(row.metric, *(quantity(n, row.unit) for n in numbers), *shares, count)
    console().print(made)
    methods: dict[str, list[str]] = {}
    for row in comparison.differences:
        method = f"{row.interval.level:.0%}, {row.interval.method}"
        methods.setdefault(method, []).append(row.metric)
    for method, names in methods.items():
        say("Interval", f"{method} ({', '.join(names)})" if len(methods) > 1 else method)
    for note in comparison.notes():
        say("Note", note)


def print_audit(audit: Audit) -> None:
    """Print every check and the rows that break a rule."""
    made = table("Check", "examined", "violations", "rule")
    made.columns[3].justify = "left"
    for check in audit.checks:
        found = "-" if check.skipped else f"{check.found:,}"
        why_not = "not audited: because" if check.applies else "does not apply:"
        rule = f"{why_not} {check.skipped}" if check.skipped else check.rule
        made.add_row(check.name, f"{check.examined:,}", found, Text(rule, overflow="fold"))
    console().print(made)
    for violation in audit.violations:
        print(violation)
    for check in audit.checks:
        for what, value in check.notes.items():
            if value:
                print(f"note: {check.name}: {what}: {_listed(value)}")
    print(f"{audit.folder}: {audit.summary()}")


def _listed(value: Any) -> str:
    """Return what a note says: a number, a text, or several with commas between them."""
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else ", ".join(map(str, value))


# --- lists -----------------------------------------------------------------------------------


def print_pairs(first: str, second: str, rows: Mapping[str, str]) -> None:
    """Print a table of two columns of text."""
    made = table(first, second)
    made.columns[1].justify = "left"
    for name, text in rows.items():
        made.add_row(name, Text(text, overflow="fold"))
    console().print(made)


def print_plugins(found: Mapping[str, Sequence[str]]) -> None:
    """Print the names that each key of a scenario takes."""
    width = max(map(len, found))
    for key, names in found.items():
        lines = wrap(", ".join(names) or "-", 98 - width)
        print(f"{key:{width}}  " + f"\n{'':{width}}  ".join(lines))
    print("\nOf your own: policy: {path: my_policy.py:MyPolicy, args: {…}}")
