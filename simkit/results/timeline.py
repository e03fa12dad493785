"""Step functions as means over bins of time: the timeline, and the table "power".

A mean over a bin is an exact integral, never a sample: the mean times the bin's length is what
flowed in it, so bins of any length add up to the same totals.

Metrics over time are utilisation, offered load, backlog and the unsuccessful share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.arrays import Floats
from simkit.errors import RunError
from simkit.power.ledger import COLUMNS, RATES, STORED, Flows
from simkit.results.metric import (
    MAIN,
    Found,
    Metric,
    MetricRow,
    RunWindow,
    batches,
    metrics_of,
    share,
    task_area,
)
from simkit.units import parse_duration

_BIN_LENGTHS_S: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0, 2419200.0)
"""Familiar lengths of bins: 1 s to 4 weeks."""
MEANS: Final = tuple(name for name in Flows._fields if name not in RATES)
"""Columns of the table "power" that hold and do not flow: PUE, prices, carbon intensities."""
_MOST_ROWS: Final = 2**25
"""Most rows of the table "power" at regular times: more than a year of seconds."""
_ROWS_AT_ONCE: Final = 2**16


def bin_length(span_s: float, most: int = 800) -> float:
    """Return the shortest familiar length (s) that cuts a span into at most `most` bins."""
    for length in _BIN_LENGTHS_S:
        if span_s / length <= most:
            return length
    return float(_BIN_LENGTHS_S[-1] * np.ceil(span_s / most / _BIN_LENGTHS_S[-1]))


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


def binned_power(
    rows: Mapping[str, Floats | Sequence[float]],
    edges: npt.ArrayLike,
    first: Mapping[str, float] | None = None,
) -> dict[str, Floats]:
    """Return the means of the rows of the table "power" over bins.

    Args:
        rows: columns of equal length, in order of time.
        edges: (bins + 1,) ascending times in s; outside the rows nothing flows.
        first: what is stored at the first row's start, by the names of `STORED`; NaN if absent.

    Returns columns of (bins,): start_s, end_s, the means of `RATES` over the bin, those of `MEANS`
    over the part of the bin that the rows cover (NaN if none), and what is stored at its end;
    within a row the stored amounts change evenly.
    """
    cuts = np.asarray(edges, dtype=np.float64)
    columns = {name: np.asarray(rows[name], dtype=np.float64) for name in rows}
    times = np.concatenate((columns["start_s"][:1], columns["end_s"]))
    within = times[np.searchsorted(times, cuts[0], "right") : np.searchsorted(times, cuts[-1])]
    points = np.union1d(cuts, within)  # between two of them everything is constant
    row = np.searchsorted(times, points[:-1], side="right") - 1
    covered = (row >= 0) & (row < len(times) - 1)
    row = np.clip(row, 0, len(times) - 2)
    span = np.where(covered, np.diff(points), 0.0)
    begin = np.searchsorted(points, cuts[:-1])
    binned = {"start_s": cuts[:-1], "end_s": cuts[1:]}
    for names, seconds in ((RATES, np.diff(cuts)), (MEANS, np.add.reduceat(span, begin))):
        for name in names:
            flowed = np.add.reduceat(columns[name][row] * span, begin)
            binned[name] = np.divide(
                flowed, seconds, out=np.full(len(begin), np.nan), where=seconds > 0
            )
    for name in STORED:
        held = np.concatenate(([(first or {}).get(name, np.nan)], columns[name]))
        binned[name] = np.interp(cuts[1:], times, held)
    return binned


def power_means(
    power: pl.DataFrame, interval: str | float, stored_j: float
) -> Iterator[pl.DataFrame]:
    """Yield the table "power" as means over equal intervals, in frames of some rows, at least one.

    Args:
        power: columns of `records.POWER`, by ascending time.
        interval: its length: seconds, or text such as ``"5m"``.
        stored_j: content of the battery at the first row's start, in J. It then carries neither
            carbon nor cost, and nothing of it came from the grid.

    Raises RunError if the interval is not above 0, or so short that the table is too long.
    """
    try:
        length = parse_duration(interval)
    except ValueError as error:
        raise RunError(f"interval: {error}") from error
    if length <= 0:
        raise RunError(f"interval: {interval!r} is not above 0; write 300, 5m or 1h")
    if not len(power):
        yield pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.Float64))
        return
    rows = {name: power[name].to_numpy() for name in COLUMNS}
    start, end = float(rows["start_s"][0]), float(rows["end_s"][-1])
    if (end - start) / length > _MOST_ROWS:
        raise RunError(
            f"power: {(end - start) / length:,.0f} intervals of {length:g} s from {start:g} s to "
            f"{end:g} s; a table has at most {_MOST_ROWS:,}: choose longer intervals"
        )
    edges = bin_edges(start, end, length)
    first = {**dict.fromkeys(STORED, 0.0), "stored_j": stored_j}
    for begin in range(0, len(edges) - 1, _ROWS_AT_ONCE):
        binned = binned_power(rows, edges[begin : begin + _ROWS_AT_ONCE + 1], first)
        yield pl.DataFrame({name: binned[name] for name in COLUMNS})


def timeline_metrics(
    jobs: pl.LazyFrame,
    tasks: pl.LazyFrame,
    allocations: pl.LazyFrame,
    timeline: pl.LazyFrame,
    window: RunWindow,
    capacity: Mapping[str, float],
) -> list[Metric]:
    """Return utilisation and offered load of each resource, backlog and unsuccessful share.

    Args:
        jobs: columns of `records.JOBS`.
        tasks: columns of `records.TASKS`, and one a resource.
        allocations: columns of `records.ALLOCATIONS`.
        timeline: columns of `records.TIMELINE`, by ascending time, with those of the resources.
        window: its jobs count in the offered load, its stretch of time in utilisation and backlog.
        capacity: total of each resource before the timeline's first row.
    """
    spans = [(window.start_s, window.end_s), (window.first_kept_s, window.last_kept_s)]
    whole, arriving = timeline_integrals(timeline, spans, capacity)
    held = _held(allocations)
    asked, counting = _asked(jobs, tasks, capacity, window)
    sums = TimelineSums(whole, arriving, asked, counting, held)
    return metrics_of(TIMELINE_METRICS, sums, window, resources=list(capacity))


class Held(NamedTuple):
    """What allocations held, in instance-seconds of those that have ended."""

    rows: int
    running: int
    """Allocations that have not ended."""
    total_s: float
    wasted_s: float
    """Instance-seconds of those that were lost or killed."""


class TimelineSums(NamedTuple):
    """What metrics over time are made of."""

    whole: StepIntegral
    """From the start to the end of the window."""
    arriving: StepIntegral
    """From the first submit that counts to the last."""
    asked: Mapping[str, float]
    """Resource-seconds that the window's jobs ask for."""
    counting: int
    """The window's jobs."""
    held: Held


class StepIntegral:
    """Integrates columns that hold from one row's time to the next row's, within a window.

    The rows come in batches, by ascending time. The last row holds up to the window's end; before
    the first row, the initial values hold.
    """

    def __init__(self, start_s: float, end_s: float, initial: Mapping[str, float]) -> None:
        self.start_s, self.end_s = start_s, max(start_s, end_s)
        self.rows = 0
        """Rows added."""
        self.area = dict.fromkeys(initial, 0.0)
        """Column → sum of value * seconds."""
        self.top: dict[str, float] = {}
        """Column → the largest value that held for some time."""
        self._held = dict(initial)
        self._since = start_s

    def add(self, time_s: Floats, columns: Mapping[str, Floats]) -> None:
        """Add the next rows: times in s, and the values that hold from then on."""
        self.rows += len(time_s)
        times = np.clip(time_s, self._since, self.end_s)
        seconds = np.diff(times, prepend=self._since)
        for name in self.area:
            values = np.concatenate(([self._held[name]], columns[name]))
            self._add_area(name, values[:-1], seconds)
            self._held[name] = float(values[-1])
        self._since = float(times[-1]) if len(times) else self._since

    def close(self) -> None:
        """Extend the last row to the window's end."""
        for name, value in self._held.items():
            self._add_area(name, np.array([value]), np.array([self.end_s - self._since]))
        self._since = self.end_s

    def _add_area(self, name: str, values: Floats, seconds: Floats) -> None:
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
    ``capacity_<resource>``, ``available_<resource>`` (the larger of the two: capacity that drains
    is available until it is free) and ``backlog`` (tasks in the queue or held back by admission).
    """
    initial = {f"allocated_{name}": 0.0 for name in capacity} | {"backlog": 0.0}
    for what in ("capacity", "available"):
        initial |= {f"{what}_{name}": float(total) for name, total in capacity.items()}
    integrals = [StepIntegral(start, end, initial) for start, end in spans]
    waiting = (pl.col("waiting") + pl.col("backlog")).cast(pl.Float64).alias("backlog")
    available = [
        pl.max_horizontal(f"allocated_{name}", f"capacity_{name}").alias(f"available_{name}")
        for name in capacity
    ]
    read = [f"{what}_{name}" for name in capacity for what in ("allocated", "capacity")]
    for rows in batches(timeline, ["time_s", *read, *available, waiting]):
        columns = {name: rows[name].to_numpy() for name in initial}
        for integral in integrals:
            integral.add(rows["time_s"].to_numpy(), columns)
    for integral in integrals:
        integral.close()
    return integrals


def _asked(
    jobs: pl.LazyFrame, tasks: pl.LazyFrame, capacity: Collection[str], window: RunWindow
) -> tuple[dict[str, float], int]:
    """Return the resource-seconds that the window's jobs ask for, and how many these jobs are."""
    area = dict.fromkeys(capacity, 0.0)
    demand = ["job_id", *(task_area(name).alias(name) for name in area)]
    if not window.trimmed:
        for rows in batches(tasks, demand[1:]):
            _add_up(area, rows)
        return area, int(jobs.select(pl.len()).collect().item())
    kept = window.jobs(jobs).select("job_id").collect()
    for rows in batches(tasks, demand):
        _add_up(area, rows.join(kept, on="job_id", how="semi", maintain_order="left"))
    return area, len(kept)


def _add_up(area: dict[str, float], rows: pl.DataFrame) -> None:
    """Add the columns of rows to sums of the same names."""
    for name in area:
        area[name] += float(rows[name].to_numpy().sum())


def _held(allocations: pl.LazyFrame) -> Held:
    """Add up what the allocations held."""
    held = pl.col("count") * (pl.col("end_time_s") - pl.col("start_time_s"))
    vain = pl.when(pl.col("outcome").is_in(["lost", "killed"])).then(held).otherwise(0.0)
    rows, running, total, wasted = 0, 0, 0.0, 0.0
    for batch in batches(allocations, [held.alias("held"), vain.alias("vain")]):
        rows += len(batch)
        running += batch["held"].null_count()
        total += float(batch["held"].fill_null(0.0).to_numpy().sum())
        wasted += float(batch["vain"].fill_null(0.0).to_numpy().sum())
    return Held(rows, running, total, wasted)


TIMELINE_METRICS: Final[tuple[MetricRow[TimelineSums], ...]] = (
    MetricRow(
        "utilisation_{resource}",
        "1",
        "allocated {resource}-seconds / available {resource}-seconds (what drains is available "
        "until it is free); count: allocations",
        lambda sums, r: Found(
            share(sums.whole.area[f"allocated_{r}"], sums.whole.area[f"available_{r}"]),
            sums.held.rows,
        ),
        "time",
        better="high",
        share=True,
        in_short="allocated of what was available",
        shown={"summary": MAIN, "tiles": MAIN, "report": MAIN},
        left_out_rank=4,
    ),
    MetricRow(
        "offered_load_{resource}",
        "1",
        "sum over tasks of instances * {resource} an instance asks for * the trace's run time / "
        "available {resource}-seconds, rejected jobs included; count: jobs",
        lambda sums, r: Found(
            share(sums.asked[r], sums.arriving.area[f"capacity_{r}"]), sums.counting
        ),
        "arrivals",
        share=True,
        shown={"report": MAIN},
    ),
    MetricRow(
        "backlog",
        "tasks",
        "tasks in the queue, reserved or held back by admission, averaged over time; max: the most "
        "at any time; count: decisions",
        lambda sums: Found(
            {
                "mean": share(sums.whole.area["backlog"], sums.whole.end_s - sums.whole.start_s),
                "max": sums.whole.top.get("backlog"),
            },
            sums.whole.rows,
        ),
        "time",
        shown={"report": ("", "max")},
    ),
    MetricRow(
        "unsuccessful_share",
        "1",
        "instance-seconds of allocations that were lost or killed / those of all allocations that "
        "have ended",
        lambda sums: Found(
            share(sums.held.wasted_s, sums.held.total_s),
            sums.held.rows - sums.held.running,
            sums.held.running,
        ),
        "all allocations",
        better="low",
        share=True,
    ),
)
