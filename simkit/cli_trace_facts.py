"""What `simkit trace info` prints of a trace of tasks on machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from simkit.cli_text import console, print_rows, say, table
from simkit.units import format_duration
from simkit.words import counted
from simkit.workload import RowReport

if TYPE_CHECKING:
    from pathlib import Path

QUANTILES: Final = ("mean", "min", "p50", "p90", "p99", "max")
LABEL: Final = 16
"""Columns of the names of facts."""


def print_facts(place: Path, facts: Mapping[str, Any]) -> None:
    """Print the facts of a trace: its tables, its counts, then how its sizes are spread.

    Args:
        place: the trace.
        facts: what `simkit.traces.cloud_info.cloud_facts` returned.
    """
    say("Trace", f"{place} ({facts['format']})")
    for name, rows in facts["tables"].items():
        say("Table", name)
        parts = {key: rows[key] for key in ("accepted", "repaired", "dropped", "notes")}
        print_rows(RowReport(read=rows["rows"], **parts))
    if missing := facts.get("missing_tables"):
        say("Not here", ", ".join(missing))
    if unread := facts.get("unread_tables"):
        say("Not read", f"{', '.join(unread)}: of use only with batch_task")
    print()
    for name, text in _pairs(facts):
        print(fill(f"{name:<{LABEL}}{text}", console().width, subsequent_indent=" " * LABEL))
    if spreads := dict(_spreads(facts)):
        print()
        _print_spreads(spreads)


def _pairs(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "jobs" in facts:
        yield from _batch(facts)
    if "machines" in facts:
        yield from _machines(facts["machines"])
    if "containers" in facts:
        yield from _containers(facts["containers"])
    if load := facts.get("offered_load"):
        yield "offered load", f"{_amounts(load)} (run times {facts['run_times']})"
    for name, row in facts.get("usage", {}).items():
        yield name.replace("_", " "), _usage(row)


def _batch(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for what in ("jobs", "tasks", "instances"):
        yield what, f"{facts[what]:,}"
    if "dependencies" in facts:
        yield "dependencies", f"{facts['dependencies']:,}"
    first, last = (format_duration(facts[f"{which}_submit_s"]) for which in ("first", "last"))
    yield "submitted", f"from {first} to {last} on the trace's clock"
    yield "span", format_duration(facts["span_s"])
    rates = {what: rate for what, rate in facts["arrivals_per_h"].items() if rate is not None}
    if rates:
        yield "an hour", ", ".join(f"{_cell(rate)} {what}" for what, rate in rates.items())
    busiest = facts["busiest_hour"]
    start = format_duration(busiest["start_s"])
    yield "busiest hour", f"{counted(busiest['jobs'], 'job')}, from {start} on"


def _machines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "machines", f"{facts['count']:,} with {_amounts(facts['capacity'])}"
    sizes = [
        f"{size['machines']:,} of "
        + _amounts({name: amount for name, amount in size.items() if name != "machines"})
        for size in facts["sizes"]
    ]
    more = facts["different_sizes"] - len(sizes)
    yield "sizes", "; ".join(sizes) + (f"; {counted(more, 'other size')}" if more else "")
    yield "machine events", ", ".join(f"{n:,} {kind}" for kind, n in facts["events"].items())


def _containers(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield (
        "containers",
        f"{facts['count']:,} on {counted(facts['machines'], 'machine')}, "
        f"{facts['before_the_trace']:,} from before the trace, {facts['removed']:,} removed",
    )
    held = _amounts(facts["most_at_once"])
    shares = facts.get("share_of_machines", {})
    part = ", ".join(f"{share:.1%} of the machines' {name}" for name, share in shares.items())
    yield "containers hold", f"at most {held} at once" + (f" ({part})" if part else "")


def _usage(row: Mapping[str, Any]) -> str:
    rest = [key for key in row if key not in ("rows", "first_s", "last_s")]
    means = [
        f"mean {key.removeprefix('mean_').removesuffix('_percent')} {row[key]:.1f} %"
        for key in rest
        if key.startswith("mean_") and row[key] is not None
    ]
    who = [counted(row[key], key.removesuffix("s")) for key in rest if not key.startswith("mean_")]
    text = f"{counted(row['rows'], 'row')} of {', '.join(who)}"
    if row["rows"]:
        text += f" from {format_duration(row['first_s'])} to {format_duration(row['last_s'])}"
    return "; ".join([text, *means])


def _amounts(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{amount:,.6g} {name}" for name, amount in amounts.items())


def _spreads(facts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield everything that has a mean and quantiles, also of containers, in plain words."""
    for name, value in {**facts, **facts.get("containers", {})}.items():
        if isinstance(value, dict) and set(QUANTILES) <= set(value):
            words = name.removesuffix("_by_task").replace("_", " ")
            yield words + ", each task once" * name.endswith("_by_task"), value


def _print_spreads(spreads: Mapping[str, Mapping[str, float]]) -> None:
    made = table("", *QUANTILES)
    for name, values in spreads.items():
        made.add_row(name, *(_cell(values[quantile]) for quantile in QUANTILES))
    console().print(made)


def _cell(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
