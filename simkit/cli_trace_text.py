"""What `simkit trace` prints: the facts of a log, its rules, the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from simkit.cli_text import console, print_json, print_rows, say, table
from simkit.units import format_duration
from simkit.words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from simkit.workload import RowReport, Trace

Rule = tuple[str, int, str, list[int]]
"""(rule, rows, what it means, first lines)."""


def facts_of(trace: Trace) -> dict[str, Any]:
    """Return what a log holds: counts, span, sizes and times, and its offered load."""
    import numpy as np

    load, report = trace.workload, trace.report
    submit, run = load.submit_time_s, load.run_time_s
    span = float(submit[-1] - submit[0])
    size = load.job_request()[:, 0]
    facts: dict[str, Any] = {
        "rows read": report.read,
        "jobs": len(load),
        "tasks": load.tasks,
        "first submit": _date(load.epoch_s, float(submit[0])),
        "last submit": _date(load.epoch_s, float(submit[-1])),
        "span": format_duration(span),
        "time zone": load.time_zone or "unknown",
    }
    for name in ("user", "group", "queue", "partition"):
        known = np.unique(getattr(load, name))
        facts[f"{name}s"] = int((known >= 0).sum())
    for name, values in ((f"{load.resources[0]} a job", size), ("run time s", run)):
        low, middle, high = np.quantile(values, (0, 0.5, 1)).tolist()
        facts[name] = f"{low:,.6g} to {high:,.6g}, median {middle:,.6g}"
    facts["machine"] = ", ".join(f"{n:,.6g} {r}" for r, n in load.capacity.items()) or "unknown"
    total = load.capacity.get(load.resources[0])
    if total and span:
        area = float((load.request[:, 0] * load.instances * run).sum())
        facts["offered load"] = f"{area / (total * span):.3f}"
    return facts


def _date(epoch_s: float, time_s: float) -> str:
    if not isfinite(epoch_s) or epoch_s <= 0:
        return f"{time_s:g} s"
    return datetime.fromtimestamp(epoch_s + time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def checked_as_json(reports: Mapping[str, RowReport], rules: Mapping[str, Sequence[Rule]]) -> None:
    """Print what was found as JSON; of a trace of several tables, by table."""
    found = {
        table: {
            "read": report.read,
            "accepted": report.accepted,
            "rules": [
                {"rule": rule, "rows": count, "meaning": meaning, "lines": lines}
                for rule, count, meaning, lines in rules[table]
            ],
        }
        for table, report in reports.items()
    }
    print_json(found.get("") or found)


def print_check(log: Path, report: RowReport, rows: Sequence[Rule], table: str = "") -> None:
    """Print each rule that was met, how often, on which lines first, and what it means."""
    say("Table" if table else "Log", table or str(log))
    print_rows(report)
    for rule, count, meaning, lines in rows:
        first = (
            f" (line {', '.join(map(str, lines))}{', …' * (count > len(lines))})" if lines else ""
        )
        print(f"\n{rule}: {counted(count, 'row')}{first}\n  {meaning}")
    if not rows:
        print(f"\nNothing is wrong with {table or 'it'}.")


def print_written(target: Path, rows: int, remarks: Sequence[str]) -> None:
    """Say that a log was written, and what is to be known of the machine's size."""
    print(f"{target} written: {counted(rows, 'row')}")
    for remark in remarks:
        print(f"  {remark}; `simkit trace convert --processors N` sets it")


def print_catalogue(entries: Sequence[Any]) -> None:
    """Print the catalogue of public logs and how to get one."""
    made = table("Name", "jobs", "cleaned", "processors", "months", "from", "system", "problems")
    for column in made.columns[5:]:
        column.justify, column.no_wrap = "left", False
    for entry in entries:
        made.add_row(
            entry.name,
            *(
                _number(number, known=entry.checked)
                for number in (entry.jobs, entry.cleaned_jobs, entry.processors, entry.months)
            ),
            entry.start,
            entry.system,
            "; ".join(entry.problems),
        )
    console().print(made)
    if not all(entry.checked for entry in entries):
        print(
            "\n~ has not been compared with the file: look it up on the archive's page of the log."
        )
    if entries:
        print(f"\nGet one: simkit trace fetch {entries[0].name}\nCite: {entries[0].citation}")


def _number(value: int | None, *, known: bool) -> str:
    return "?" if value is None else f"{'' if known else '~'}{value:,}"
