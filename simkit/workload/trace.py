"""A trace that has been read: the workload, how its rows were read, and facts of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit import shown
from simkit.arrays import Floats
from simkit.text import counted
from simkit.units import format_duration
from simkit.workload.workload import Workload


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
    """Of the rows that jobs and tasks are made of."""
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
