"""Metrics over time: utilisation, offered load and backlog, integrals of step functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.results.metric import Metric, RunWindow, batches


class StepIntegral:
    """Integrates columns that hold from one row's time to the next row's, within a window.

    The rows come in batches, by ascending time, with the number of seconds that each holds; the
    last row holds up to the window's end, whatever comes first counts from the window's start.
    """

    def __init__(self, start_s: float, end_s: float, initial: Mapping[str, float]) -> None:
        self.start_s, self.end_s = start_s, max(start_s, end_s)
        self.rows = 0
        """Rows taken in."""
        self.area = dict.fromkeys(initial, 0.0)
        """Column → sum of value * seconds."""
        self.top: dict[str, float] = {}
        """Column → the largest value that held for some time."""
        self._held = dict(initial)
        self._since = start_s

    def add(self, time_s: Floats, columns: Mapping[str, Floats]) -> None:
        """Take in the next rows: times in s, and the values that hold from then on."""
        self.rows += len(time_s)
        times = np.clip(time_s, self._since, self.end_s)
        seconds = np.diff(times, prepend=self._since)
        for name in self.area:
            values = np.concatenate(([self._held[name]], columns[name]))
            self._take(name, values[:-1], seconds)
            self._held[name] = float(values[-1])
        self._since = float(times[-1]) if len(times) else self._since

    def close(self) -> None:
        """Let the last row hold to the window's end."""
        for name, value in self._held.items():
            self._take(name, np.array([value]), np.array([self.end_s - self._since]))
        self._since = self.end_s

    def _take(self, name: str, values: Floats, seconds: Floats) -> None:
        self.area[name] += float((values * seconds).sum())
        held = values[seconds > 0]
        if len(held):
            self.top[name] = max(self.top.get(name, -np.inf), float(held.max()))


def timeline_integrals(
    timeline: pl.LazyFrame, spans: Sequence[tuple[float, float]], capacity: Mapping[str, float]
) -> list[StepIntegral]:
    """Integrate the timeline's columns over spans of time, in one pass.

    Args:
        timeline: columns of `records.TIMELINE`; ``allocated_…`` and ``capacity_…`` for each
            resource in `capacity`.
        spans: (start, end) of each integral, in s.
        capacity: total of each resource before the timeline's first row.

    Returns for each span the integral with columns ``allocated_<resource>``,
    ``capacity_<resource>``, ``available_<resource>`` (the capacity, or what is allocated where
    that is more: capacity that drains is there until it is free) and ``backlog`` (tasks in the
    queue and those that admission holds back).
    """
    initial = {f"allocated_{name}": 0.0 for name in capacity}
    initial |= {f"capacity_{name}": float(total) for name, total in capacity.items()}
    initial |= {f"available_{name}": float(total) for name, total in capacity.items()}
    initial["backlog"] = 0.0
    integrals = [StepIntegral(start, end, initial) for start, end in spans]
    waiting = (pl.col("waiting") + pl.col("backlog")).cast(pl.Float64).alias("backlog")
    resources = [
        pl.col(f"{what}_{name}") for name in capacity for what in ("allocated", "capacity")
    ] + [
        pl.max_horizontal(f"allocated_{name}", f"capacity_{name}").alias(f"available_{name}")
        for name in capacity
    ]
    for rows in batches(timeline, ["time_s", *resources, waiting]):
        columns = {name: rows[name].to_numpy() for name in initial}
        for integral in integrals:
            integral.add(rows["time_s"].to_numpy(), columns)
    for integral in integrals:
        integral.close()
    return integrals


def utilisations(
    integral: StepIntegral, available: Mapping[str, float], window: RunWindow, allocations: int
) -> list[Metric]:
    """Return the utilisation of each resource, given its available capacity-seconds."""
    return [
        Metric(
            name=f"utilisation_{name}",
            unit="1",
            formula=f"allocated {name}-seconds / available {name}-seconds (what drains is "
            "available until it is free); count: allocations",
            window=window.time_text,
            count=allocations,
            censored=0,
            values={"value": _ratio(integral.area[f"allocated_{name}"], total)},
        )
        for name, total in available.items()
    ]


def backlog(integral: StepIntegral, window: RunWindow) -> Metric:
    """Return how many tasks waited: mean over time, and the most that waited for some time."""
    length = integral.end_s - integral.start_s
    return Metric(
        name="backlog",
        unit="tasks",
        formula="tasks in the queue, reserved or held back by admission, averaged over time; max: "
        "the most at any time; count: decisions",
        window=window.time_text,
        count=integral.rows,
        censored=0,
        values={
            "mean": _ratio(integral.area["backlog"], length),
            "max": integral.top.get("backlog"),
        },
    )


def offered_loads(
    jobs: pl.LazyFrame, window: RunWindow, available: Mapping[str, float]
) -> list[Metric]:
    """Return each resource's offered load while jobs arrive, rejected jobs included.

    Args:
        jobs: records of the jobs.
        window: its jobs count.
        available: capacity-seconds from the first kept submit to the last.
    """
    area = dict.fromkeys(available, 0.0)
    count = 0
    demand = [(pl.col(name) * pl.col("trace_run_time_s")).alias(name) for name in available]
    for rows in batches(jobs, demand, window):
        count += len(rows)
        for name in area:
            area[name] += float(rows[name].to_numpy().sum())
    return [
        Metric(
            name=f"offered_load_{name}",
            unit="1",
            formula=f"sum({name} a job asks for * the trace's run time) / available "
            f"{name}-seconds, rejected jobs included",
            window=f"{window.jobs_text}: first to last of their submits, "
            f"{window.first_kept_s:.15g} s to {window.last_kept_s:.15g} s",
            count=count,
            censored=0,
            values={"value": _ratio(area[name], total)},
        )
        for name, total in available.items()
    ]


def unsuccessful_share(allocations: pl.LazyFrame) -> tuple[Metric, int]:
    """Return the share of held instance-seconds that came to nothing, and the number of rows."""
    held = pl.col("count") * (pl.col("end_time_s") - pl.col("start_time_s"))
    vain = pl.when(pl.col("outcome").is_in(["lost", "killed"])).then(held).otherwise(0.0)
    rows, running, total, wasted = 0, 0, 0.0, 0.0
    for batch in batches(allocations, [held.alias("held"), vain.alias("vain")]):
        rows += len(batch)
        running += batch["held"].null_count()
        total += float(batch["held"].fill_null(0.0).to_numpy().sum())
        wasted += float(batch["vain"].fill_null(0.0).to_numpy().sum())
    metric = Metric(
        name="unsuccessful_share",
        unit="1",
        formula="instance-seconds of allocations that were lost or killed / those of all "
        "allocations that have ended",
        window="all allocations",
        count=rows - running,
        censored=running,
        values={"value": _ratio(wasted, total)},
    )
    return metric, rows


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


# MERGED Step functions of a run as means over equal bins, so that years fit a page.


BIN_CHOICES_S: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0, 2419200.0)
"""Bins that people know: 1 s to 4 weeks."""


def bin_length(span_s: float, most: int = 800) -> float:
    """Return the shortest familiar bin (s) that cuts a span into no more than `most` bins."""
    for choice in BIN_CHOICES_S:
        if span_s / choice <= most:
            return choice
    return float(BIN_CHOICES_S[-1] * np.ceil(span_s / most / BIN_CHOICES_S[-1]))


def bin_edges(start_s: float, end_s: float, length_s: float) -> Floats:
    """Return the edges of equal bins from the start on; the last ends at or after the end."""
    bins = max(1, int(np.ceil((end_s - start_s) / length_s)))
    edges: Floats = start_s + length_s * np.arange(bins + 1, dtype=np.float64)
    return edges


def binned_mean(time_s: Floats, values: Floats, edges: Floats, before: float = 0.0) -> Floats:
    """Return the mean of a step function over each bin.

    Args:
        time_s: (n,) ascending times in s; a value holds from its time to the next.
        values: (n,) values.
        edges: (bins + 1,) edges of the bins, in s.
        before: the value before the first time.
    """
    held = np.concatenate(([before], values))
    since = np.concatenate(([min(edges[0], time_s[0]) if len(time_s) else edges[0]], time_s))
    area = np.concatenate(([0.0], np.cumsum(held[:-1] * np.diff(since))))
    row = np.searchsorted(since, edges, side="right") - 1
    return np.diff(area[row] + held[row] * (edges - since[row])) / np.diff(edges)


def timeline_columns(timeline: pl.LazyFrame, resource: str) -> dict[str, Floats]:
    """Return time_s, allocated, capacity and waiting (queue and held back) as arrays."""
    frame = timeline.select(
        pl.col("time_s"),
        pl.col(f"allocated_{resource}").alias("allocated"),
        pl.col(f"capacity_{resource}").alias("capacity"),
        (pl.col("waiting") + pl.col("backlog")).cast(pl.Float64).alias("waiting"),
    ).collect()
    return {name: frame[name].to_numpy() for name in frame.columns}
