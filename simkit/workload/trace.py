"""A trace that has been read: the workload, how its rows were read, and the facts that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simkit import shown
from simkit.arrays import Floats
from simkit.text import counted
from simkit.units import format_duration
from simkit.workload.workload import Workload

if TYPE_CHECKING:
    from simkit.workload.recorded import Recorded


@dataclass
class RowReport:
    """How a trace's rows were read; every row read is accepted, repaired or dropped, once.

    ``read == accepted + sum(repaired) + sum(dropped)``: `accepted` rows came through unchanged, a
    row that several rules repaired counts under the first.
    """

    read: int = 0
    accepted: int = 0
    repaired: dict[str, int] = field(default_factory=dict)
    """Rule name → rows it changed."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rule name → rows it left out."""
    notes: dict[str, int] = field(default_factory=dict)
    """Oddities that change no row, e.g. ``out of submit order`` → lines."""
    lines: dict[str, list[int]] = field(default_factory=dict)
    """Rule or note → the first line numbers it met, for `simkit trace check`."""
    examples: dict[str, str] = field(default_factory=dict)
    """Rule → what the first row that it left out has there; not every reader says it."""
    unread: dict[str, str] = field(default_factory=dict)
    """Column that was not read → what it holds, as far as its name tells."""
    unread_plain: int = 0
    """Further columns not read, which hold no resources, times, limits or relations."""

    @property
    def jobs(self) -> int:
        """Rows that became jobs."""
        return self.accepted + sum(self.repaired.values())

    def sentence(self) -> str:
        """Return ``5,000 rows read = 4,990 accepted + 0 repaired + 10 dropped``."""
        repaired, dropped = sum(self.repaired.values()), sum(self.dropped.values())
        return (
            f"{counted(self.read, 'row')} read = {self.accepted:,} accepted + {repaired:,} "
            f"repaired + {dropped:,} dropped"
        )

    def counts(self) -> list[tuple[str, int]]:
        """Return (rule, rows): the rules that left rows out, those that repaired, the notes."""
        return [*self.dropped.items(), *self.repaired.items(), *self.notes.items()]

    def balanced(self) -> bool:
        """Return whether every row read is accounted for."""
        return self.read == self.jobs + sum(self.dropped.values())


@dataclass(frozen=True)
class Trace:
    """What a reader returns: the workload, how the rows were read, and the files."""

    workload: Workload
    report: RowReport
    """Report on the rows that jobs and tasks are made of."""
    inputs: tuple[Path, ...] = ()
    tables: Mapping[str, RowReport] = field(default_factory=dict)
    """Table → how its rows were read, for traces of several tables; `report` is among them."""

    def __repr__(self) -> str:
        return f"<trace of {self.report.sentence()}; {self.workload!r}>"

    def _repr_html_(self) -> str:
        files = ", ".join(path.name for path in self.inputs) or "Trace"
        parts = {"": self.report} if not self.tables else self.tables
        tables = "".join(
            shown.facts({name or "rows": report.sentence(), **dict(report.counts())})
            for name, report in parts.items()
        )
        return shown.heading(files, *self.workload._facts()) + tables


QUANTILES: Final = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
HOUR_S: Final = 3600.0


def spread(values: Floats, weights: Floats | None = None) -> dict[str, float]:
    """Return mean and quantiles of at least one value.

    Args:
        values: (n,) numbers.
        weights: (n,) how often each stands for itself, at least 0 and not all 0; None: once.

    A quantile is the smallest value up to which that share of all lies (definition 1 of Hyndman
    and Fan, "Sample quantiles in statistical packages", 1996): a number that occurs.
    """
    weights = np.ones(len(values)) if weights is None else weights
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    values, weights = values[weights > 0], weights[weights > 0]
    up_to = np.cumsum(weights)
    rows = np.searchsorted(up_to, np.array(list(QUANTILES.values())) * up_to[-1] * (1 - 1e-15))
    mean = float((values * weights).sum() / up_to[-1])
    quantiles = dict(zip(QUANTILES, values[rows].tolist(), strict=True))
    return {"mean": mean, **quantiles}


def workload_facts(workload: Workload) -> dict[str, Any]:
    """Return counts, span, arrivals, sizes, requests and run times of at least one job.

    Times are seconds on the trace's clock, rates are an hour; ``busiest_hour`` is that of all
    hours from the trace's zero in which most jobs are submitted. ``…_per_instance`` and
    ``run_time_s`` count every instance, ``…_by_task`` every task once; ``work`` is in
    resource-seconds.
    """
    submit, instances = workload.submit_time_s, workload.instances.astype(np.float64)
    first, last = float(submit[0]), float(submit[-1])
    facts: dict[str, Any] = {
        "jobs": len(workload),
        "tasks": workload.tasks,
        "instances": int(workload.instances.sum()),
        "first_submit_s": first,
        "last_submit_s": last,
        "span_s": last - first,
        "arrivals_per_h": _arrivals(workload),
        "busiest_hour": _busiest_hour(submit),
        "tasks_per_job": spread(np.diff(workload.first_task).astype(np.float64)),
        "instances_per_task": spread(instances),
    }
    for r, name in enumerate(workload.resources):
        asked = np.ascontiguousarray(workload.request[:, r])
        facts[f"{name}_per_instance"] = spread(asked, instances)
        facts[f"{name}_per_instance_by_task"] = spread(asked)
    own = workload.instance_run_time_s
    facts["run_time_s"] = spread(own) if len(own) else spread(workload.run_time_s, instances)
    facts["run_time_s_by_task"] = spread(workload.run_time_s)
    work = zip(workload.resources, _work(workload).tolist(), strict=True)
    facts["work"] = dict(work)
    if len(workload.parent):
        facts["dependencies"] = len(workload.parent)
    return facts | release_facts(workload)


def release_facts(workload: Workload) -> dict[str, Any]:
    """Return how many jobs wait for a release time or for other jobs; empty if none does."""
    facts: dict[str, Any] = {}
    if len(workload.release_time_s):
        late = workload.release_time_s > workload.submit_time_s
        facts["released_later"] = int(np.count_nonzero(late))
    if len(workload.predecessor):
        facts["preceded"] = int(np.count_nonzero(np.diff(workload.first_predecessor)))
    return facts


def offered_load(workload: Workload, capacity: dict[str, float]) -> dict[str, float]:
    """Return requested / offered resource-seconds between the first and the last submit.

    Args:
        workload: at least one job.
        capacity: total of each resource over the machines; what is missing or 0 is left out.

    Empty if all jobs are submitted at one instant.
    """
    span = float(workload.submit_time_s[-1] - workload.submit_time_s[0])
    if not span:
        return {}
    pairs = zip(workload.resources, _work(workload).tolist(), strict=True)
    return {name: area / (capacity[name] * span) for name, area in pairs if capacity.get(name)}


def instant_text(workload: Workload, time_s: float) -> str:
    """Return an instant as a date; as time after the trace's zero if that has no date."""
    if not isfinite(workload.epoch_s) or workload.epoch_s <= 0:
        return format_duration(time_s)
    return datetime.fromtimestamp(workload.epoch_s + time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def rows_facts(report: RowReport) -> dict[str, Any]:
    """Return how a table's rows were read, by rule, and which of its columns were not."""
    return {
        "rows": report.read,
        "accepted": report.accepted,
        "repaired": dict(report.repaired),
        "dropped": dict(report.dropped),
        "notes": dict(report.notes),
        "unread": dict(report.unread),
        "unread_plain": report.unread_plain,
    }


def _work(workload: Workload) -> Floats:
    """Return (R,) the resource-seconds that all instances ask for."""
    seconds = workload.instances * workload.held_time_s()
    work: Floats = (workload.request * seconds[:, None]).sum(axis=0)
    return work


def _arrivals(workload: Workload) -> dict[str, float | None]:
    hours = float(workload.submit_time_s[-1] - workload.submit_time_s[0]) / HOUR_S
    counts = {"jobs": len(workload), "tasks": workload.tasks,
              "instances": int(workload.instances.sum())}  # fmt: skip
    return {what: count / hours if hours else None for what, count in counts.items()}


def _busiest_hour(submit: Floats) -> dict[str, float | int]:
    hours, counts = np.unique(np.floor(submit / HOUR_S), return_counts=True)
    most = int(np.argmax(counts))
    return {"start_s": float(hours[most]) * HOUR_S, "jobs": int(counts[most])}


def task_facts(kind: str, log: Path, trace: Trace) -> dict[str, Any]:
    """Return what a trace of tasks holds, as plain numbers and text."""
    reports = trace.tables or {log.name: trace.report}
    tables = {name: rows_facts(report) for name, report in reports.items()}
    return {"format": kind, "tables": tables, **workload_facts(trace.workload)}


def job_facts(trace: Trace, past: Recorded) -> dict[str, Any]:
    """Return what a log holds: counts, span, sizes and times, load, and what it records."""
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
    facts |= dict(release_texts(release_facts(load)))
    facts["machine"] = ", ".join(f"{n:,.6g} {r}" for r, n in load.capacity.items()) or "unknown"
    total = load.capacity.get(load.resources[0])
    if total and span:
        area = float((load.request[:, 0] * load.instances * load.held_time_s()).sum())
        facts["offered load"] = f"{area / (total * span):.3f}"
    facts |= _recorded_facts(load, past)
    for name in COUNTED_BY:
        if counts := _jobs_by(load, name):
            facts[f"jobs by {name}"] = counts
    _add_peaks(facts.get("jobs by partition", []), load, past)
    return {**facts, "report": rows_facts(report)}


def release_texts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each of the `release_facts`."""
    if "released_later" in facts:
        yield "released later", counted(facts["released_later"], "job")
    if "preceded" in facts:
        yield "preceded", f"{counted(facts['preceded'], 'job')}, by others that must have ended"


def _recorded_facts(load: Workload, past: Recorded) -> dict[str, str]:
    """Return the share with gpus, the waits, and the most in use at once; some may be unknown."""
    facts: dict[str, str] = {}
    if (gpu_jobs := past.gpu_jobs()) is not None:
        facts["jobs with gpus"] = f"{gpu_jobs:,} ({gpu_jobs / len(load):.1%})"
    if not past.started_jobs:
        return facts | {"recorded wait": _UNKNOWN_STARTS, "peak in use": _UNKNOWN_STARTS}
    waits = past.waits_s(load)
    if len(waits):
        times = (float(waits.mean()), *np.quantile(waits, (0.5, 0.9)).tolist())
        mean, middle, late = map(format_duration, times)
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


_UNKNOWN_STARTS: Final = "unknown: the log does not tell when jobs started"


def _add_peaks(rows: Sequence[dict[str, Any]], load: Workload, past: Recorded) -> None:
    """Add to each partition, if there are several, the most in use at once by resource."""
    if len(rows) < 2 or not past.started_jobs:
        return
    for row, number in zip(rows, np.unique(load.partition).tolist(), strict=True):
        jobs = np.flatnonzero(load.partition == number)
        peaks = {name: past.peak(name, jobs) for name in past.held}
        row["peak"] = {name: peak.amount for name, peak in peaks.items() if peak is not None}


COUNTED_BY: Final = ("queue", "partition")
"""What a log's jobs are counted by."""


def _jobs_by(load: Workload, column: str) -> list[dict[str, Any]]:
    """Return number, name and jobs of each queue or partition; empty if the log has none.

    Numbers are left out where the log has only names, names where it has only numbers; of jobs
    without either the number is -1, or the name empty.
    """
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
