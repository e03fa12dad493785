"""What `simkit trace` prints: the facts of a log, its rules, the catalogue."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from simkit.cli.text import (
    Blocks,
    Line,
    Plain,
    Table,
    console,
    first_lines,
    pairs_blocks,
    rounded,
    rows_blocks,
)
from simkit.text import counted
from simkit.units import format_duration
from simkit.workload.trace import COUNTED_BY, RowReport, release_texts

if TYPE_CHECKING:
    from pathlib import Path

    from simkit.scenario.first_scenario import FirstScenario


def job_facts_blocks(place: Path, facts: Mapping[str, Any]) -> Blocks:
    """Yield the facts of a log, how its rows were read, then its jobs by queue and partition."""
    lists = {name: facts.get(f"jobs by {name}", ()) for name in COUNTED_BY}
    plain = {
        name: str(value) for name, value in facts.items() if not isinstance(value, list | dict)
    }
    yield from pairs_blocks(str(place), "", plain)
    yield Plain()
    yield from rows_blocks(_report(facts["report"]))
    for name, rows in lists.items():
        if rows:
            peaks = list(dict.fromkeys(key for row in rows for key in row.get("peak", ())))
            heads = [name.capitalize(), "jobs", "share", *(f"peak {key}" for key in peaks)]
            yield Plain()
            yield Table(heads, _job_counts(rows, facts["jobs"], peaks))


def _job_counts(
    rows: Sequence[Mapping[str, Any]], jobs: int, peaks: Sequence[str]
) -> list[list[str]]:
    """Return what each is called, its jobs, their share of all, and its peaks in use."""
    return [
        [
            " ".join([str(row[key]) for key in ("number", "name") if key in row])
            if row.get("number", 0) >= 0 and row.get("name", "-")
            else "unknown",
            f"{row['jobs']:,}",
            f"{row['jobs'] / jobs:.1%}",
            *(f"{row['peak'][key]:,.6g}" if key in row["peak"] else "unknown" for key in peaks),
        ]
        for row in rows
    ]


def checked_content(reports: Mapping[str, RowReport], meanings: Mapping[str, str]) -> Any:
    """Return what was found, for JSON; of a trace of several tables, by table."""
    found = {
        table: {
            "read": report.read,
            "accepted": report.accepted,
            "rules": [
                {
                    "rule": rule,
                    "rows": count,
                    "meaning": meanings.get(rule, ""),
                    "lines": report.lines.get(rule, []),
                    **({"example": report.examples[rule]} if rule in report.examples else {}),
                }
                for rule, count in report.counts()
            ],
            "unread": report.unread,
            "unread_plain": report.unread_plain,
        }
        for table, report in reports.items()
    }
    return found.get("") or found


def check_blocks(
    log: Path, report: RowReport, meanings: Mapping[str, str], table: str = ""
) -> Blocks:
    """Yield each rule that was met, how often, on which lines first, and what it means."""
    yield Line("Table" if table else "Log", table or str(log))
    yield from rows_blocks(report)
    for rule, count in report.counts():
        lines = report.lines.get(rule, [])
        example = f": {report.examples[rule]!r}" if report.examples.get(rule) else ""
        first = f" ({first_lines(lines, count)}{example})" if lines else ""
        yield Plain(
            f"\n{rule}: {counted(count, 'row')}{first}\n  {meanings.get(rule, '')}".rstrip()
        )
    if not report.counts():
        yield Plain(
            "\nNo row met a rule. The columns named above are not read."
            if report.unread
            else f"\nNothing is wrong with {table or 'it'}."
        )


def written_blocks(target: Path, rows: int, remarks: Sequence[str]) -> Blocks:
    """Yield that a log was written, and what is to be known of the machine's size."""
    yield Plain(f"{target} written: {counted(rows, 'row')}")
    for remark in remarks:
        yield Plain(f"  {remark}; `simkit trace convert --processors N` sets it")


def first_scenario_blocks(log: Path, target: Path, made: FirstScenario) -> Blocks:
    """Yield what `simkit init` wrote, and what the log did not tell."""
    yield Line("Log", str(log))
    yield from rows_blocks(made.report)
    yield Line("Machines", made.machines[0])
    for line in made.machines[1:]:
        yield Line("", line)
    for number, line in enumerate(made.unknown):
        yield Line("" if number else "Not known", line)
    yield Plain(f"\n{target} written; run it: simkit run {shlex.quote(str(target))}")


def catalogue_blocks(entries: Sequence[Any]) -> Blocks:
    """Yield the catalogue of public logs and how to get one."""
    rows = [
        (
            entry.name,
            *(
                "?" if number is None else f"{'' if entry.checked else '~'}{number:,}"
                for number in (entry.jobs, entry.cleaned_jobs, entry.processors, entry.months)
            ),
            entry.start,
            entry.system,
            "; ".join(entry.problems),
        )
        for entry in entries
    ]
    heads = ["Name", "jobs", "cleaned", "processors", "months", "from", "system", "problems"]
    yield Table(heads, rows, text=3)
    if not all(entry.checked for entry in entries):
        yield Plain(
            "\n~ has not been compared with the file: look it up on the archive's page of the log."
        )
    if entries:
        yield Plain(f"\nGet one: simkit trace fetch {entries[0].name}\nCite: {entries[0].citation}")


QUANTILES: Final = ("mean", "min", "p50", "p90", "p99", "max")
LABEL: Final = 16
"""Columns of the names of facts."""


def facts_blocks(place: Path, facts: Mapping[str, Any]) -> Blocks:
    """Yield the facts of a trace: its tables, its counts, then how its sizes are spread.

    Args:
        place: the trace.
        facts: those of its format, or `task_facts`.
    """
    yield Line("Trace", f"{place} ({facts['format']})")
    for name, rows in facts["tables"].items():
        yield Line("Table", name)
        yield from rows_blocks(_report(rows))
    if missing := facts.get("missing_tables"):
        yield Line("Not here", ", ".join(missing))
    if unread := facts.get("unread_tables"):
        yield Line("Not read", f"{', '.join(unread)}: of use only with batch_task")
    yield Plain()
    for name, text in _pairs(facts):
        yield Plain(fill(f"{name:<{LABEL}}{text}", console().width, subsequent_indent=" " * LABEL))
    if spreads := dict(_spreads(facts)):
        yield Plain()
        yield from _spreads_blocks(spreads)


def _report(rows: Mapping[str, Any]) -> RowReport:
    """Return the report that `rows_facts` made plain."""
    parts = {key: count for key, count in rows.items() if key != "rows"}
    return RowReport(read=rows["rows"], **parts)


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
    yield from release_texts(facts)
    first, last = (format_duration(facts[f"{which}_submit_s"]) for which in ("first", "last"))
    yield "submitted", f"from {first} to {last} on the trace's clock"
    yield "span", format_duration(facts["span_s"])
    rates = {what: rate for what, rate in facts["arrivals_per_h"].items() if rate is not None}
    if rates:
        yield "an hour", ", ".join(f"{rounded(rate)} {what}" for what, rate in rates.items())
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
    """Yield everything that has a mean and quantiles, also of containers, in words."""
    for name, value in {**facts, **facts.get("containers", {})}.items():
        if isinstance(value, dict) and set(QUANTILES) <= set(value):
            words = name.removesuffix("_by_task").replace("_", " ")
            yield words + ", each task once" * name.endswith("_by_task"), value


def _spreads_blocks(spreads: Mapping[str, Mapping[str, float]]) -> Blocks:
    rows = [
        [name, *(rounded(values[quantile]) for quantile in QUANTILES)]
        for name, values in spreads.items()
    ]
    yield Table(["", *QUANTILES], rows)
