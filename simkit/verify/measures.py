"""Metrics over time, of allocations and of tasks: utilisation, backlog, throughput, losses."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from simkit.records import STATUSES
from simkit.verify.admission import tasks_by_partition
from simkit.verify.audit import Floats, Ints
from simkit.verify.audited_run import TASK, AuditedRun

Numbers = dict[tuple[str, str], float | str | None]
"""(metric, number) → value, as ``metrics[metric][number]``; of ``unit``: text."""
_UNITS = {"_s": "s", "_per_h": "1/h", "_kwh": "kWh", "_w": "W"}
"""Ending of the name of a metric that is not of a resource → its unit."""


@dataclass(frozen=True)
class Window:
    """What the metrics cover: some jobs, and a stretch of time in s."""

    jobs: pl.DataFrame
    """Those that are submitted after the warm-up and before the cool-down."""
    start_s: float
    end_s: float


def share(part: float, whole: float) -> float | None:
    """Return part / whole; None if the whole is not above 0."""
    return part / whole if whole > 0 else None


def counted(
    metric: str,
    values: Mapping[str, float | None],
    count: float,
    censored: float = 0,
    unit: str | None = None,
) -> Numbers:
    """Return a metric's numbers with its count, what is censored, and its unit.

    Without `unit`, it is the one that the metric's name ends in, ``1`` for ratios. A name that ends
    in a resource needs it: the resource may be called ``tpu_w``.
    """
    named = next((known for end, known in _UNITS.items() if metric.endswith(end)), "1")
    numbers: Numbers = {(metric, name): value for name, value in values.items()}
    numbers[metric, "count"], numbers[metric, "censored"] = float(count), float(censored)
    numbers[metric, "unit"] = unit or named
    return numbers


def distribution(metric: str, values: Floats, of: float, unit: str | None = None) -> Numbers:
    """Return the distribution of values, which `of` jobs (or others) might have; see `counted`."""
    some = len(values) > 0
    found: dict[str, float | None] = {
        "mean": float(np.mean(values)) if some else None,
        "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "p50": float(np.median(values)) if some else None,
        "p90": float(np.quantile(values, 0.9)) if some else None,
        "p99": float(np.quantile(values, 0.99)) if some else None,
        "max": float(np.max(values)) if some else None,
    }
    return counted(metric, found, len(values), of - len(values), unit)


def statuses(metric: str, rows: pl.DataFrame) -> Numbers:
    """Return how many rows there are, and how many of each status."""
    tally = {name: float((rows["status"] == name).sum()) for name in STATUSES}
    return counted(metric, {"submitted": float(rows.height), **tally}, rows.height, unit=metric)


def over_time(run: AuditedRun, window: Window) -> Numbers:
    """Return utilisation, backlog, throughput of jobs and the share of what was in vain."""
    allocations = run.rows_of("allocations")
    length = window.end_s - window.start_s
    numbers: Numbers = {}
    for index, name in enumerate(run.resources):
        there = sum(capacity[index] for capacity in run.capacity.values())
        used, _, _ = _integral(run, window, _column(run, f"allocated_{name}"), 0.0)
        most = np.maximum(_column(run, f"allocated_{name}"), _column(run, f"capacity_{name}"))
        available, _, _ = _integral(run, window, most, there)
        part = {"value": share(used, available)}
        numbers |= counted(f"utilisation_{name}", part, allocations, unit="1")
    waiting = _column(run, "waiting") + _column(run, "backlog")
    area, top, rows = _integral(run, window, waiting, 0.0)
    numbers |= counted("backlog", {"mean": share(area, length), "max": top}, rows, unit="tasks")
    ended = run.only("allocations", "count", "start_time_s", "end_time_s", "outcome")
    ended = ended.drop_nulls("end_time_s")
    spent = (ended["count"] * (ended["end_time_s"] - ended["start_time_s"])).to_numpy()
    vain = ended["outcome"].is_in(["lost", "killed"]).to_numpy()
    value = share(float(spent[vain].sum()), float(spent.sum()))
    open_ = allocations - ended.height
    numbers |= counted("unsuccessful_share", {"value": value}, ended.height, open_)
    done = _finished_inside(run.only("jobs", "status", "end_time_s"), window).height
    return numbers | _throughput("jobs", done, window)


def _column(run: AuditedRun, name: str) -> Floats:
    column = run.only("timeline", name).to_series()
    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _integral(
    run: AuditedRun, window: Window, values: Floats, before: float
) -> tuple[float, float | None, int]:
    """Integrate a column of the timeline over the window.

    Returns the area, the largest value that held for some time, and the number of rows.
    """
    time = run.only("timeline", "time_s")["time_s"].to_numpy()
    edges = np.concatenate([[-np.inf], time, [np.inf]])
    del time  # the timeline of a large run takes much memory
    until = max(window.start_s, window.end_s)
    seconds = np.diff(np.clip(edges, window.start_s, until, out=edges))
    del edges
    levels = np.concatenate([[before], values])
    lasts = seconds > 0
    top = float(levels.max(where=lasts, initial=-np.inf)) if lasts.any() else None
    return float(np.multiply(levels, seconds, out=seconds).sum()), top, len(values)


def _finished_inside(rows: pl.DataFrame, window: Window, status: str = "status") -> pl.DataFrame:
    inside = pl.col("end_time_s").is_between(window.start_s, window.end_s)
    return rows.filter((pl.col(status) == "finished") & inside)


def _throughput(what: str, done: int, window: Window) -> Numbers:
    rate = share(done, (window.end_s - window.start_s) / 3600)
    return counted(f"throughput_{what}_per_h", {"value": rate}, done)


def of_tasks(run: AuditedRun, window: Window) -> Numbers:
    """Return the metrics of tasks and instances; none if each job is one gang on one machine."""
    if len(run.capacity) < 2 and run.only("tasks", "gang")["gang"].all():
        return {}
    allocations, tasks = run.allocations, run.tasks
    finished = allocations.filter(pl.col("outcome") == "finished")
    instances = int(finished["count"].sum())
    inside = _finished_inside(allocations, window, "outcome")
    numbers = statuses("tasks", tasks)
    for what, done, total in (
        ("jobs", int((run.jobs["status"] == "finished").sum()), run.jobs.height),
        ("tasks", int((tasks["status"] == "finished").sum()), tasks.height),
        ("instances", instances, int(tasks["instances"].sum())),
    ):
        numbers |= counted(f"completed_{what}", {"value": share(done, total)}, done, total - done)
    submits = window.jobs.select("job_id", "submit_time_s").unique("job_id")
    ends = tasks.join(submits, on="job_id", how="inner")
    spans = (ends["end_time_s"] - ends["submit_time_s"]).drop_nulls().to_numpy()
    numbers |= distribution("task_turnaround_time_s", spans, ends.height)
    numbers |= _throughput("tasks", _finished_inside(tasks, window).height, window)
    numbers |= _throughput("instances", int(inside["count"].sum()), window)
    lost = int(allocations.filter(pl.col("outcome") == "lost")["count"].sum())
    killed = int(allocations.filter(pl.col("outcome") == "killed")["count"].sum())
    numbers |= counted("retries", {"value": float(lost)}, allocations.height, unit="instances")
    tries = finished["attempt"]
    mean = share(float((finished["count"] * tries).sum()), instances)
    top = float(tries.to_numpy().max()) if instances else None
    numbers |= counted("attempts", {"mean": mean, "max": top}, instances, lost + killed)
    return numbers | _in_vain(run)


def _in_vain(run: AuditedRun) -> Numbers:
    """Return the instance-seconds and resource-seconds of what was lost, and of what was killed."""
    ended = run.known.drop_nulls("end_time_s").unique(
        [*TASK, "machine_id", "first_instance", "attempt", "start_time_s", "end_time_s"],
        keep="first",
    )
    running = run.allocations["end_time_s"].null_count()
    numbers: Numbers = {}
    for outcome in ("lost", "killed"):
        rows = ended.filter(pl.col("outcome") == outcome)
        held = (rows["count"] * (rows["end_time_s"] - rows["start_time_s"])).to_numpy()
        sums = {"instance": float(held.sum())}
        for name in run.resources:
            one = rows[f"one_{name}"].to_numpy() if name in run.requested else 0.0
            sums[name] = float((held * one).sum())
        for what, value in sums.items():
            count = run.allocations.height - running
            unit = "s" if what == "instance" else f"{what} s"
            numbers |= counted(f"{outcome}_{what}_s", {"value": value}, count, running, unit)
    return numbers


_CELLS = 1 << 21
"""Maximum cells in the table of requests; the most popular requests fill it."""


@dataclass(frozen=True)
class _Stretches:
    """N stretches, sorted by machine and time, each longer than 0 s."""

    machine: Ints
    """(N,) rows of the sorted machine ids."""
    start_s: Floats
    seconds: Floats
    instances: Floats
    held: Floats
    """(N, R)"""
    capacity: Floats
    """(N, R)"""

    @property
    def free(self) -> Floats:
        """(N, R); nothing is free where more is held than there is."""
        return np.asarray(np.maximum(self.capacity - self.held, 0.0))

    @property
    def available(self) -> Floats:
        """(N, R): the capacity, and what drains until it is free."""
        return np.asarray(np.maximum(self.capacity, self.held))


def of_machines(run: AuditedRun, window: Window) -> Numbers:
    """Return the metrics of machines; none if there is only one."""
    if len(run.capacity) < 2:
        return {}
    parts, machines = _stretches(run, window), len(run.capacity)
    asked, weights = _requests(run)
    least = asked.min(axis=0, initial=np.inf)
    least = np.where(np.isfinite(least), least, 0.0)
    numbers: Numbers = {}
    for r, name in enumerate(run.resources):
        used, there = (
            np.bincount(parts.machine, amount[:, r] * parts.seconds, machines)
            for amount in (parts.held, parts.available)
        )
        some = there > 0
        shares = used[some] / there[some]
        numbers |= distribution(f"machine_utilisation_{name}", shares, machines, unit="1")
        if len(run.resources) > 1:
            scarce = np.delete(parts.free < least, r, axis=1).any(axis=1)
            left = float((parts.free[:, r] * parts.seconds)[scarce].sum())
            value = share(left, float((parts.available[:, r] * parts.seconds).sum()))
            numbers |= counted(f"stranded_{name}", {"value": value}, machines, unit="1")
    return (
        numbers | _in_use(parts, machines, window) | _idle_gaps(parts, machines)
        | _fragmentation(run, parts, asked, weights)
    )  # fmt: skip


def _stretches(run: AuditedRun, window: Window) -> _Stretches:
    """Cut the window at every change of a machine."""
    ids, width = sorted(run.capacity), len(run.resources)
    row_of = {machine: row for row, machine in enumerate(ids)}
    held = run.known.filter(
        pl.col("start_time_s").is_not_null(), pl.col("machine_id").is_in(ids)
    ).with_columns(pl.col("end_time_s").fill_null(float("inf")))
    count = held["count"].cast(pl.Float64).to_numpy()
    take = np.zeros((held.height, 1 + 2 * width))
    take[:, 0] = count
    for r, name in enumerate(run.resources):
        if name in run.requested:
            take[:, 1 + r] = count * held[f"one_{name}"].to_numpy()
    steps = np.zeros((len(run.capacity_steps), 1 + 2 * width))
    before: dict[int, Floats] = {}
    for n, step in enumerate(run.capacity_steps):
        now = np.array(step.capacity)
        steps[n, 1 + width :] = now - before.get(step.machine_id, 0.0)
        before[step.machine_id] = now
    on = np.searchsorted(ids, held["machine_id"].to_numpy())
    machine = np.concatenate([on, on, [row_of[s.machine_id] for s in run.capacity_steps]])
    time = np.concatenate([held["start_time_s"], held["end_time_s"],
                           [s.time_s for s in run.capacity_steps]])  # fmt: skip
    time = np.clip(time, window.start_s, max(window.start_s, window.end_s))
    change = np.concatenate([take, -take, steps])
    order = np.lexsort((time, machine))
    machine, time = machine[order].astype(np.int64), time[order]
    total = np.cumsum(change[order], axis=0)
    first = np.searchsorted(machine, machine, side="left")
    state = total - (total - change[order])[first]
    last = np.append(machine[1:] != machine[:-1], True)
    until = np.where(last, max(window.start_s, window.end_s), np.append(time[1:], np.inf))
    some = until > time
    parts = (
        machine,
        time,
        until - time,
        state[:, 0],
        state[:, 1 : 1 + width],
        state[:, 1 + width :],
    )
    return _Stretches(*(part[some] for part in parts))


def _requests(run: AuditedRun) -> tuple[Floats, Floats]:
    """Return the distinct requests (K, R), and how many instances make each."""
    amounts = [
        run.tasks[name].cast(pl.Float64).to_numpy()
        if name in run.requested else np.zeros(run.tasks.height)
        for name in run.resources
    ]  # fmt: skip
    asked, which = np.unique(np.column_stack(amounts), axis=0, return_inverse=True)
    instances = run.tasks["instances"].cast(pl.Float64).to_numpy()
    return asked, np.bincount(which.reshape(-1), instances, len(asked)).astype(np.float64)


def _in_use(parts: _Stretches, machines: int, window: Window) -> Numbers:
    busy = parts.instances > 0
    begin, length = parts.start_s[busy], parts.seconds[busy]
    time, place = np.unique(np.concatenate([begin, begin + length]), return_inverse=True)
    signs = np.repeat([1.0, -1.0], len(begin))
    number = (
        np.cumsum(np.bincount(place.reshape(-1), signs, len(time))) if len(time) else np.zeros(1)
    )
    span = window.end_s - window.start_s
    values = {
        "mean": float(length.sum()) / span if span > 0 else None,
        "max": float(number.max()),
        "used": float(len(np.unique(parts.machine[busy]))),
    }
    return counted("machines_in_use", values, machines, unit="machines")


def _idle_gaps(parts: _Stretches, machines: int) -> Numbers:
    """1 - sum(g^2) / (sum g)^2 over the gaps g in which a machine is there and holds nothing."""
    idle = (parts.instances == 0) & (parts.capacity > 0).any(axis=1)
    before = np.append(False, idle[:-1] & (parts.machine[1:] == parts.machine[:-1]))
    gap = np.cumsum(idle & ~before)[idle] - 1
    length = np.bincount(gap, parts.seconds[idle])
    of = parts.machine[idle & ~before]
    total, squares = (np.bincount(of, w, machines) for w in (length, length**2))
    whole = total**2
    values = 1.0 - np.divide(squares, whole, out=np.ones(machines), where=whole > 0)
    return distribution("fragmentation_idle_time", values, machines)


def _fragmentation(run: AuditedRun, parts: _Stretches, asked: Floats, weights: Floats) -> Numbers:
    """The chance that a free unit is of no use to a random instance, over time and machines."""
    order = np.argsort(-weights, kind="stable")
    kept = len(order)
    while kept > 1 and _cells(asked[order[:kept]]) > _CELLS:
        kept = kept * 3 // 4
    asked, weights = asked[order[:kept]], weights[order[:kept]]
    free, place = np.unique(parts.free, axis=0, return_inverse=True)
    useful = np.zeros(free.shape)
    for amounts, weight in zip(asked, weights, strict=True):
        fits = (free >= amounts).all(axis=1)
        useful[fits] += weight * (amounts > 0)
    unfit = 1.0 - useful / (float(weights.sum()) or 1.0)
    numbers: Numbers = {}
    for r, name in enumerate(run.resources):
        area = parts.free[:, r] * parts.seconds
        value = share(float((area * unfit[place.reshape(-1), r]).sum()), float(area.sum()))
        machines = len(run.capacity)
        numbers |= counted(f"fragmentation_{name}", {"value": value}, machines, unit="1")
    return numbers


def _cells(asked: Floats) -> float:
    return float(np.prod([len(np.unique(column)) + 1.0 for column in asked.T]))


class _Piece(NamedTuple):
    """A row of the table of allocations."""

    machine: int
    first: int
    start: float
    end: float
    outcome: str


def of_suspensions(run: AuditedRun) -> Numbers:
    """Return the numbers of ``starts_past_suspended``; none where nothing was suspended."""
    if not (run.only("allocations", "outcome")["outcome"] == "suspended").any():
        return {}
    priority, histories = _priorities(run), _histories(run)
    starts: dict[int, list[tuple[Any, float]]] = defaultdict(list)
    waits: list[tuple[int, Any, float, float]] = []
    suspensions = 0
    for (task, *_), at in histories.items():
        moments, paused = sorted(at), False
        following = [*(time for time, _ in moments[1:]), inf]
        for moment, until in zip(moments, following, strict=True):
            if not paused:
                for piece in at[moment]:
                    starts[piece.machine].append((task, piece.start))
            paused = at[moment][0].outcome == "suspended"
            suspensions += paused
            if paused:
                waits += [(piece.machine, task, piece.end, until) for piece in at[moment]]
    for begun in starts.values():
        begun.sort(key=itemgetter(1))
    passed = {
        (other, time)
        for machine, task, since, until in waits
        for other, time in _between(starts[machine], since, until)
        if other != task and priority[other] <= priority[task]
    }
    count = {"value": float(len(passed))}
    return counted("starts_past_suspended", count, suspensions, unit="starts")


def _between(begun: list[tuple[Any, float]], since: float, until: float) -> list[tuple[Any, float]]:
    """Return the starts, of those in order of time, from an instant until before another."""
    first, last = (bisect_left(begun, time, key=itemgetter(1)) for time in (since, until))
    return begun[first:last]


def _priorities(run: AuditedRun) -> dict[Any, float]:
    """Return task → priority of its partition."""
    levels = [float(part.get("priority") or 0.0) for part in run.partitions] or [0.0]
    rows = tasks_by_partition(run).select(*TASK, "position").rows()
    known = {(job, task): levels[max(position, 0)] for job, task, position in rows}
    return defaultdict(float, known)  # rows of tasks may be missing: another rule says so


def _histories(run: AuditedRun) -> dict[tuple[Any, ...], dict[tuple[float, int], list[_Piece]]]:
    """Return what goes on together (all of a gang, a row of a bag) → moment of a start → its rows.

    A moment is the start and how many starts before it, at that instant, were suspended at once.
    """
    gangs = {(job, task) for job, task, gang in run.tasks.select(*TASK, "gang").rows() if gang}
    found: dict[tuple[Any, ...], dict[tuple[float, int], list[_Piece]]] = defaultdict(
        lambda: defaultdict(list)
    )
    begun = Counter[tuple[Any, ...]]()
    columns = (*TASK, "attempt", "machine_id", "first_instance", "start_time_s", "end_time_s",
               "outcome")  # fmt: skip
    for job, task, attempt, *facts in run.allocations.select(columns).rows():
        piece = _Piece(*facts)
        part = () if (job, task) in gangs else (piece.machine, piece.first)
        place = (job, task, attempt, piece.machine, piece.first, piece.start)
        found[(job, task), attempt, *part][piece.start, begun[place]].append(piece)
        begun[place] += 1
    return found
