"""What `simkit trace` prints: the facts of a log, its rules, the catalogue."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from simkit.cli.echo import echo
from simkit.cli.tables import console, print_table
from simkit.cli.text import first_lines, print_json, print_pairs, print_rows, say
from simkit.text import counted
from simkit.units import format_duration
from simkit.workload import RowReport

if TYPE_CHECKING:
    from pathlib import Path

    from simkit.scenario.first_scenario import FirstScenario
    from simkit.workload import Trace, Workload
    from simkit.workload.recorded import Recorded


def task_facts(kind: str, log: Path, trace: Trace) -> dict[str, Any]:
    """Return what a trace of tasks holds, as plain numbers and text."""
    from simkit.workload.trace import rows_facts, workload_facts

    reports = trace.tables or {log.name: trace.report}
    tables = {name: rows_facts(report) for name, report in reports.items()}
    return {"format": kind, "tables": tables, **workload_facts(trace.workload)}


def job_facts(trace: Trace, past: Recorded) -> dict[str, Any]:
    """Return what a log holds: counts, span, sizes and times, load, and what it records."""
    import numpy as np

    from simkit.workload.trace import instant_text, release_facts, rows_facts

    load, report = trace.workload, trace.report
    submit = load.submit_time_s
    span = float(submit[-1] - submit[0])
    size = load.job_request()[:, 0]
    facts: dict[str, Any] = {
        "rows read": report.read,
        "jobs": len(load),
        "tasks": load.tasks,
        "first submit": instant_text(load, float(submit[0])),
        "last submit": instant_text(load, float(submit[-1])),
        "span": format_duration(span),
        "time zone": load.time_zone or "unknown",
    }
    for name in ("user", "group", "queue", "partition"):
        known = np.unique(getattr(load, name))
        facts[f"{name}s"] = int((known >= 0).sum())
    low, middle, high = np.quantile(size, (0, 0.5, 1)).tolist()
    facts[f"{load.resources[0]} a job"] = f"{low:,.6g} to {high:,.6g}, median {middle:,.6g}"
    low, middle, high = map(format_duration, np.quantile(load.run_time_s, (0, 0.5, 1)).tolist())
    facts["run time"] = f"{low} to {high}, median {middle}"
    facts |= dict(_releases(release_facts(load)))
    facts["machine"] = ", ".join(f"{n:,.6g} {r}" for r, n in load.capacity.items()) or "unknown"
    total = load.capacity.get(load.resources[0])
    if total and span:
        area = float((load.request[:, 0] * load.instances * load.held_time_s()).sum())
        facts["offered load"] = f"{area / (total * span):.3f}"
    facts |= _recorded_facts(load, past)
    for name in GROUPS:
        if counts := _jobs_by(load, name):
            facts[f"jobs by {name}"] = counts
    _add_peaks(facts.get("jobs by partition", []), load, past)
    return {**facts, "report": rows_facts(report)}


def _recorded_facts(load: Workload, past: Recorded) -> dict[str, str]:
    """Return the share with gpus, the waits, and the most in use at once; some may be unknown."""
    import numpy as np

    from simkit.workload.trace import instant_text

    facts: dict[str, str] = {}
    if (gpu_jobs := past.gpu_jobs()) is not None:
        facts["jobs with gpus"] = f"{gpu_jobs:,} ({gpu_jobs / len(load):.1%})"
    if not past.started_jobs:
        return facts | {"recorded wait": UNKNOWN_STARTS, "peak in use": UNKNOWN_STARTS}
    waits = past.waits_s(load)
    if len(waits):
        spread = (float(waits.mean()), *np.quantile(waits, (0.5, 0.9)).tolist())
        mean, middle, late = map(format_duration, spread)
        some = _of_some(len(waits), load)
        facts["recorded wait"] = f"mean {mean}, median {middle}, p90 {late}{some}"
    else:
        facts["recorded wait"] = "unknown: no job starts at or after its submission"
    of_some = _of_some(past.started_jobs, load)
    for name, held in past.held.items():
        if (peak := past.peak(name)) is not None:
            text = f"{peak.amount:,.6g}, first at {instant_text(load, peak.time_s)}{of_some}"
            untold = int(np.isnan(held).sum())
            text += f"; that of {counted(untold, 'job')} is unknown" * (untold > 0)
            facts[f"peak {name} in use"] = text
    return facts


def _of_some(jobs: int, load: Workload) -> str:
    """Return `` of 3 of 4 jobs`` where a fact is not one of all."""
    return f" of {jobs:,} of {counted(len(load), 'job')}" * (jobs < len(load))


UNKNOWN_STARTS: Final = "unknown: the log does not tell when jobs started"


def _add_peaks(rows: Sequence[dict[str, Any]], load: Workload, past: Recorded) -> None:
    """Add to each partition, if there are several, the most in use at once by resource."""
    import numpy as np

    if len(rows) < 2 or not past.started_jobs:
        return
    for row, number in zip(rows, np.unique(load.partition).tolist(), strict=True):
        jobs = np.flatnonzero(load.partition == number)
        peaks = {name: past.peak(name, jobs) for name in past.held}
        row["peak"] = {name: peak.amount for name, peak in peaks.items() if peak is not None}


GROUPS: Final = ("queue", "partition")
"""What a log's jobs are counted by."""


def _jobs_by(load: Workload, column: str) -> list[dict[str, Any]]:
    """Return number, name and jobs of each queue or partition; empty if the log has none.

    Numbers are left out where the log has only names, names where it has only numbers; of jobs
    without either the number is -1, or the name empty.
    """
    import numpy as np

    numbers, counts = np.unique(getattr(load, column), return_counts=True)
    if (numbers < 0).all():
        return []
    labels, of_header = load.labels.get(column), load.header_names.get(column, {})
    rows: list[dict[str, Any]] = []
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        if labels is not None:
            rows.append({"name": labels[number] if number >= 0 else "", "jobs": count})
        elif number in of_header:
            rows.append({"number": number, "name": of_header[number], "jobs": count})
        else:
            rows.append({"number": number, "jobs": count})
    return rows


def print_job_facts(log: Path, facts: Mapping[str, Any]) -> None:
    """Print the facts of a log, how its rows were read, then its jobs by queue and partition."""
    lists = {name: facts.get(f"jobs by {name}", ()) for name in GROUPS}
    plain = {
        name: str(value) for name, value in facts.items() if not isinstance(value, list | dict)
    }
    print_pairs(str(log), "", plain)
    echo()
    print_rows(_report(facts["report"]))
    for name, rows in lists.items():
        if rows:
            peaks = list(dict.fromkeys(key for row in rows for key in row.get("peak", ())))
            heads = [name.capitalize(), "jobs", "share", *(f"peak {key}" for key in peaks)]
            echo()
            print_table(heads, _job_counts(rows, facts["jobs"], peaks))


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


def checked_as_json(reports: Mapping[str, RowReport], meanings: Mapping[str, str]) -> None:
    """Print what was found as JSON; of a trace of several tables, by table."""
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
    print_json(found.get("") or found)


def print_check(log: Path, report: RowReport, meanings: Mapping[str, str], table: str = "") -> None:
    """Print each rule that was met, how often, on which lines first, and what it means."""
    say("Table" if table else "Log", table or str(log))
    print_rows(report)
    for rule, count in report.counts():
        lines = report.lines.get(rule, [])
        example = f": {report.examples[rule]!r}" if report.examples.get(rule) else ""
        first = f" ({first_lines(lines, count)}{example})" if lines else ""
        echo(f"\n{rule}: {counted(count, 'row')}{first}\n  {meanings.get(rule, '')}".rstrip())
    if not report.counts():
        echo(
            "\nNo row met a rule. The columns named above are not read."
            if report.unread
            else f"\nNothing is wrong with {table or 'it'}."
        )


def print_written(target: Path, rows: int, remarks: Sequence[str]) -> None:
    """Say that a log was written, and what is to be known of the machine's size."""
    echo(f"{target} written: {counted(rows, 'row')}")
    for remark in remarks:
        echo(f"  {remark}; `simkit trace convert --processors N` sets it")


def print_first_scenario(log: Path, target: Path, made: FirstScenario) -> None:
    """Say what `simkit init` wrote, and what the log did not tell."""
    say("Log", str(log))
    print_rows(made.report)
    say("Machines", made.machines[0])
    for line in made.machines[1:]:
        say("", line)
    for number, line in enumerate(made.unknown):
        say("" if number else "Not known", line)
    echo(f"\n{target} written; run it: simkit run {shlex.quote(str(target))}")


def print_catalogue(entries: Sequence[Any]) -> None:
    """Print the catalogue of public logs and how to get one."""
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
    print_table(heads, rows, text=3)
    if not all(entry.checked for entry in entries):
        echo(
            "\n~ has not been compared with the file: look it up on the archive's page of the log."
        )
    if entries:
        echo(f"\nGet one: simkit trace fetch {entries[0].name}\nCite: {entries[0].citation}")


QUANTILES: Final = ("mean", "min", "p50", "p90", "p99", "max")
LABEL: Final = 16
"""Columns of the names of facts."""


def print_facts(place: Path, facts: Mapping[str, Any]) -> None:
    """Print the facts of a trace: its tables, its counts, then how its sizes are spread.

    Args:
        place: the trace.
        facts: those of its format, or `task_facts`.
    """
    say("Trace", f"{place} ({facts['format']})")
    for name, rows in facts["tables"].items():
        say("Table", name)
        print_rows(_report(rows))
    if missing := facts.get("missing_tables"):
        say("Not here", ", ".join(missing))
    if unread := facts.get("unread_tables"):
        say("Not read", f"{', '.join(unread)}: of use only with batch_task")
    echo()
    for name, text in _pairs(facts):
        echo(fill(f"{name:<{LABEL}}{text}", console().width, subsequent_indent=" " * LABEL))
    if spreads := dict(_spreads(facts)):
        echo()
        _print_spreads(spreads)


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
    yield from _releases(facts)
    first, last = (format_duration(facts[f"{which}_submit_s"]) for which in ("first", "last"))
    yield "submitted", f"from {first} to {last} on the trace's clock"
    yield "span", format_duration(facts["span_s"])
    rates = {what: rate for what, rate in facts["arrivals_per_h"].items() if rate is not None}
    if rates:
        yield "an hour", ", ".join(f"{_cell(rate)} {what}" for what, rate in rates.items())
    busiest = facts["busiest_hour"]
    start = format_duration(busiest["start_s"])
    yield "busiest hour", f"{counted(busiest['jobs'], 'job')}, from {start} on"


def _releases(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "released_later" in facts:
        yield "released later", counted(facts["released_later"], "job")
    if "preceded" in facts:
        yield "preceded", f"{counted(facts['preceded'], 'job')}, by others that must have ended"


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


def _print_spreads(spreads: Mapping[str, Mapping[str, float]]) -> None:
    rows = [
        [name, *(_cell(values[quantile]) for quantile in QUANTILES)]
        for name, values in spreads.items()
    ]
    print_table(["", *QUANTILES], rows)


def _cell(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
