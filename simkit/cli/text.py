"""What the command line prints: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text
from ruamel.yaml import YAML

from simkit.errors import did_you_mean
from simkit.experiment.policy import policy_label
from simkit.experiment.site import span_of
from simkit.results.metric import Number, metric_numbers
from simkit.text import counted
from simkit.units import KWH_J, format_duration

if TYPE_CHECKING:
    from simkit.analysis.compare import Comparison
    from simkit.experiment import Experiment
    from simkit.experiment.sweep import SweepOutcome
    from simkit.power.site import Foresight, Site, Supply
    from simkit.results.run_folder import Run
    from simkit.verify.audit import Audit


# MERGED What the command line says of a site before it runs: sources, battery, grid, supply, forecast.


def power_words(experiment: Experiment) -> str:
    """Return one line on the site of an experiment; empty if it has none.

    Sources are given with their mean from the first submission until the last job can have ended
    at the earliest: the time for which every signal is known before the run.
    """
    site, section = experiment.site, experiment.scenario.power
    if site is None:
        return ""
    start, end = span_of(experiment.trace.workload)
    means = {source.name: source.power.mean(start, end) for source in site.sources}
    words = [f"{name} {_power(watts)} on average" for name, watts in means.items()]
    if site.battery is not None:
        words.append(f"battery {site.battery.capacity_j / KWH_J:,.10g} kWh")
    words += [_grid(site), _supply(site.supply)]
    kind = None if section is None or section.forecast is None else section.forecast.type
    return ", ".join([*words, _forecast(site.foresight, kind)])


def _power(watts: float) -> str:
    """Return a power for people: ``44.4 kW``."""
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
        return "no limit to what runs"
    return f"limit {supply.limit}, then {supply.running}"


def _forecast(foresight: Foresight | None, kind: str | None) -> str:
    if foresight is None:
        return "no forecast"
    return f"forecast {kind} for {foresight.horizon_s / 3600:g} h" if kind else "a forecast"


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


# MERGED The table that a sweep prints: a line a run, with the metrics that tell the most.


USUAL: Final = ("wait_time_s", "bounded_slowdown", "utilisation", "makespan_s")
"""Metrics that every sweep's table shows, those that tell of every run."""
OF_WORTH_AND_ENERGY: Final = (
    "value_ratio", "completion_ratio", "qos_violations.share", "deadline_misses.share",
    "renewable_fraction", "carbon_kg", "energy_cost", "grid_kwh.import", "unserved_kwh",
)  # fmt: skip
"""Metrics that it shows where they differ between runs."""
GIVE_WAY: Final = (
    "makespan_s", "bounded_slowdown", "grid_kwh.import", "utilisation", "completion_ratio",
    "deadline_misses.share", "unserved_kwh", "energy_cost", "qos_violations.share",
)  # fmt: skip
"""Those that are left out, the first one first, where the table is too wide."""
_GAP = 2  # between two columns


class Column(NamedTuple):
    """A metric of every run, ready to be printed."""

    name: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        """Characters that it takes."""
        return max(map(len, (self.name, *self.cells)))


def print_sweep(
    folder: Path, outcomes: Sequence[SweepOutcome], metrics: Sequence[str] = ()
) -> None:
    """Print a line a run: what was swept, whether it ran, its main metrics.

    Args:
        folder: of the sweep.
        outcomes: a run each.
        metrics: names of the metrics to show; empty: those that tell the most and have room.
    """
    keys = list(outcomes[0].assignment) if outcomes else []
    fixed = [Column("Run", tuple(outcome.state for outcome in outcomes))]
    fixed += [Column(key, tuple(_swept(o.assignment[key]) for o in outcomes)) for key in keys]
    took = [f"{o.seconds:.1f}" if o.state == "done" else "" for o in outcomes]
    fixed.append(Column("seconds", tuple(took)))
    found = [metric_numbers(outcome.metrics) for outcome in outcomes]
    out, left_out = console(), list[str]()
    if metrics:
        shown = [_column(name, found) for name in metrics]
    else:
        shown, left_out = _chosen(found, out.width + _GAP - sum(c.width + _GAP for c in fixed))
    columns = [*fixed[:-1], *shown, fixed[-1]]
    made = table(*(column.name for column in columns))
    for row in zip(*(column.cells for column in columns), strict=True):
        made.add_row(*row)
    out.print(made)
    _say_states(outcomes)
    if left_out:
        say("Left out", f"{', '.join(left_out)}; --metrics names what to show")
    for line in _unknown(metrics, found):
        say("Note", line)
    say("Folder", str(folder))


def _swept(value: Any) -> str:
    """Return a value as one writes it in a scenario, on a line."""
    if not isinstance(value, dict | list):
        return str(value)
    yaml, text = YAML(typ="rt", pure=True), StringIO()
    yaml.default_flow_style, yaml.width = True, 4096  # on a line
    yaml.dump(value, text)
    return text.getvalue().strip()


def _say_states(outcomes: Sequence[SweepOutcome]) -> None:
    states = [outcome.state for outcome in outcomes]
    say("Runs", ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states)))


def _chosen(found: Sequence[Mapping[str, Number]], room: int) -> tuple[list[Column], list[str]]:
    """Return the metrics that a table has room for, and the names of those that it has not."""
    telling = [name for name in OF_WORTH_AND_ENERGY if _tells(name, found)]
    columns = [_column(name, found) for name in (*USUAL, *telling)]
    if not telling:
        return columns, []
    left_out = []
    for name in GIVE_WAY:
        if sum(column.width + _GAP for column in columns) <= room:
            break
        if any(column.name == name for column in columns):
            columns = [column for column in columns if column.name != name]
            left_out.append(name)
    return columns, left_out


def _tells(name: str, found: Sequence[Mapping[str, Number]]) -> bool:
    """Tell whether a metric differs between runs; of a single run, whether it is not 0."""
    values = [number.value for one in found if (number := _number(one, name)) is not None]
    return len(set(values)) > 1 or (len(values) == 1 and any(values))


def _column(name: str, found: Sequence[Mapping[str, Number]]) -> Column:
    numbers = [_number(one, name) for one in found]
    return Column(name, tuple("-" if n is None else quantity(*n) for n in numbers))


def _number(found: Mapping[str, Number], name: str) -> Number | None:
    """Return a number by its name; `utilisation` stands for that of the first resource."""
    if name in found or name not in USUAL:
        return found.get(name)
    return next((n for full, n in found.items() if full.startswith(f"{name}_")), None)


def _unknown(names: Sequence[str], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which names no run has a metric of, unless all runs failed."""
    known = {name for one in found for name in one}
    missing = [n for n in names if known and all(_number(one, n) is None for one in found)]
    return [f"no run has a metric {name!r}{did_you_mean(name, known)}" for name in missing]
