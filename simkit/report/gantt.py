"""The Gantt chart of a run: jobs, bars and occupancy as packed columns for the page.

A run records the machine of each allocation, and how many processors it holds there, but not
which. So bars are packed, lowest free lanes first. Where every allocation holds whole processors, a
machine has as many lanes as processors; else a lane holds one allocation at a time, whatever it
takes of the machine.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.analysis.export import number_processors
from simkit.arrays import Bools, Floats, Ints
from simkit.records import OUTCOMES, STATUSES
from simkit.report.over_time import LARGEST, Clock, Packed, whole
from simkit.results.group_metrics import UNKNOWN
from simkit.results.metric import counted_resource
from simkit.results.run_folder import Run
from simkit.text import printable

MOST_RECTANGLES: Final = 3_000_000
"""Rectangles in one file, shared by its runs; the jobs of the largest areas come first."""
MOST_JOBS: Final = 2_000_000
"""Jobs in one file, shared by its runs."""
_GROUPS: Final = 32
"""Groups of lanes by which rectangles are sorted, so that neighbours lie together."""
_LONGEST_NAME: Final = 80
_WHERE: Final = ("user", "group", "queue", "partition", "executable")


def chart_of(
    run: Run,
    clock: Clock,
    packed: Packed,
    *,
    rectangles: int = MOST_RECTANGLES,
    jobs: int = MOST_JOBS,
) -> dict[str, Any]:
    """Return the facts of a run's chart; its columns go into `packed`.

    Args:
        run: the run.
        clock: the time axis.
        packed: where the columns go: ``job.…`` a row a job by submission, ``bar.…`` a row an
            allocation by start, ``rect.…`` a row a rectangle, ``machine.…``, and ``grid``.
        rectangles: most of them; of more, those of the jobs with the largest areas are kept.
        jobs: most of them, likewise.
    """
    bars, table = bars_of(run), _jobs(run)
    start = bars.rows["start_time_s"].to_numpy()
    end = np.minimum(np.nan_to_num(bars.rows["end_time_s"].to_numpy(), nan=np.inf), clock.end_s)
    end = np.maximum(start, end)
    first, last = start - clock.start_s, end - clock.start_s
    all_lanes = int(bars.first_lane[-1])
    grid = occupancy(
        first[bars.bar], last[bars.bar], bars.lane, bars.lanes, max(1, all_lanes),
        clock.end_s - clock.start_s,
    )  # fmt: skip
    kept_jobs, kept = _kept(table, bars, end - start, rectangles, jobs)
    places = _places(table, kept_jobs, bars.rows)
    facts = _pack_jobs(packed, table.filter(pl.Series(kept_jobs)), clock)
    facts |= _pack_bars(packed, run, bars, kept, places, whole(start, clock.start_s, clock.unit_s),
                        whole(end, clock.start_s, clock.unit_s))  # fmt: skip
    packed.numbers("machine.lane", bars.first_lane)
    names = [short_name(machine.get("name", "")) for machine in run.machines]
    packed.texts("machine.name", [name or str(n) for n, name in enumerate(names)])
    packed.bytes_of("grid", grid.shares)
    left_out = len(bars.rows) - int(kept.sum())
    return facts | {
        "lanes": all_lanes, "lanes_a_band": grid.lanes_a_band, "bands": len(grid.shares),
        "bins": BINS, "by_processor": bars.by_processor,
        "resource": counted_resource(run.resources),
        "processors_a_lane": bars.processors_a_lane, "machines": len(run.machines),
        "bars": int(kept.sum()), "bars_left_out": left_out,
        "jobs": int(kept_jobs.sum()), "jobs_left_out": len(table) - int(kept_jobs.sum()),
    }  # fmt: skip


def short_name(name: object) -> str:
    """Return a stranger's name as one short line."""
    text = printable(str(name))
    return text if len(text) <= _LONGEST_NAME else f"{text[:50]}…{text[-25:]}"


def _jobs(run: Run) -> pl.DataFrame:
    """Return the jobs by submission, each id once."""
    resource = counted_resource(run.resources)
    names = run.scan("jobs").collect_schema().names()
    found = [name for name in _WHERE if name in names]
    frame = run.columns(
        "jobs", "job_id", *found, "submit_time_s", "start_time_s", "end_time_s",
        "requested_time_s", "trace_run_time_s", "status",
        *([resource] if resource in names else []),
    )  # fmt: skip
    if resource not in names:
        frame = frame.with_columns(pl.lit(None, pl.Float64).alias(resource))
    frame = frame.unique("job_id", keep="first", maintain_order=True)
    return frame.rename({resource: "size"}).sort("submit_time_s", "job_id", maintain_order=True)


def _kept(
    jobs: pl.DataFrame, bars: Bars, length: Floats, most_rectangles: int, most_jobs: int
) -> tuple[Bools, Bools]:
    """Return which jobs and which bars are kept: those of the jobs with the largest areas."""
    if len(jobs) <= most_jobs and len(bars.bar) <= most_rectangles:
        return np.ones(len(jobs), bool), np.ones(len(bars.rows), bool)
    held = np.bincount(bars.bar, bars.lanes, len(bars.rows)) * length
    pieces = np.bincount(bars.bar, minlength=len(bars.rows))
    area = (
        bars.rows.select("job_id", pl.Series("area", held)).group_by("job_id").agg(pl.sum("area"))
    )
    size = jobs.join(area, on="job_id", how="left", maintain_order="left")["area"].fill_null(0.0)
    kept_jobs = np.zeros(len(jobs), bool)
    kept_jobs[np.argsort(-size.to_numpy(), kind="stable")[:most_jobs]] = True
    there = bars.rows["job_id"].is_in(jobs.filter(pl.Series(kept_jobs))["job_id"].implode())
    order = np.argsort(np.where(there.to_numpy(), -held, np.inf), kind="stable")
    kept = np.zeros(len(bars.rows), bool)
    kept[order[np.cumsum(pieces[order]) <= most_rectangles]] = True
    return kept_jobs, kept & there.to_numpy()


def _places(jobs: pl.DataFrame, kept: Bools, rows: pl.DataFrame) -> Ints:
    """Return the row of each allocation's job among the kept jobs; 0 where it is not kept."""
    numbered = jobs.filter(pl.Series(kept)).select("job_id").with_row_index("row")
    joined = rows.select("job_id").join(numbered, on="job_id", how="left", maintain_order="left")
    return joined["row"].fill_null(0).to_numpy().astype(np.int64)


def _pack_jobs(packed: Packed, jobs: pl.DataFrame, clock: Clock) -> dict[str, Any]:
    """Pack what is known of the jobs; times are one more than their ticks, 0 if unknown."""
    ids = jobs["job_id"]
    if ids.dtype.is_integer() and len(ids) and ids.min() >= 0 and ids.max() <= LARGEST:  # type: ignore[operator]
        packed.numbers("job.id", ids)
    else:
        packed.texts("job.id", [short_name(one) for one in ids])
    for name in ("submit", "start", "end"):
        packed.numbers(f"job.{name}", _ticks(jobs[f"{name}_time_s"], clock.start_s, clock))
    packed.numbers("job.requested", _ticks(jobs["requested_time_s"], 0.0, clock))
    packed.numbers("job.status", _index(jobs["status"], STATUSES))
    size = jobs["size"].cast(pl.Float64).fill_null(0.0).to_numpy()
    per = 1 if bool((size == np.floor(size)).all()) else 1000
    packed.numbers("job.size", np.clip(np.rint(size * per), 0, LARGEST))
    names: dict[str, list[str]] = {}
    for column in _WHERE[:4]:
        if column in jobs.columns:
            names[column], rows = _dictionary(jobs[column])
            packed.numbers(f"job.{column}", rows)
    return {"size_per": per, "names": names, "statuses": STATUSES}


def _ticks(times: pl.Series, start: float, clock: Clock) -> Ints:
    """Return 1 + ticks, 0 for null; what is infinite is `LARGEST`."""
    values = times.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    ticks = whole(values, start, clock.unit_s, LARGEST - 1)
    return np.where(np.isnan(values), 0, ticks + 1)


def _index(texts: pl.Series, known: tuple[str, ...]) -> Ints:
    """Return the row of each text in a list; its length for others."""
    found = texts.replace_strict(
        known, range(len(known)), default=len(known), return_dtype=pl.Int64
    )
    return found.fill_null(len(known)).to_numpy()


def _dictionary(column: pl.Series) -> tuple[list[str], Ints]:
    """Return the different names of a column, "unknown" first, and the row of each."""
    text = column.cast(pl.String).fill_null("")
    text = text.set(text.is_in(["", "-1"]), UNKNOWN)
    names = text.unique().sort()
    ordered = pl.concat([pl.Series([UNKNOWN]), names.filter(names != UNKNOWN)])
    rows = text.replace_strict(ordered, range(len(ordered)), return_dtype=pl.Int64)
    return [short_name(name) for name in ordered], rows.to_numpy()


def _pack_bars(
    packed: Packed, run: Run, bars: Bars, kept: Bools, job: Ints, start: Ints, end: Ints
) -> dict[str, Any]:
    """Pack the bars that are kept, and their rectangles, neighbours together."""
    rows = bars.rows
    packed.numbers("bar.job", job[kept])
    packed.numbers("bar.start", start[kept])
    packed.numbers("bar.length", (end - start)[kept])
    packed.numbers("bar.count", np.clip(rows["count"].to_numpy()[kept], 0, LARGEST))
    packed.numbers("bar.attempt", np.clip(rows["attempt"].to_numpy()[kept], 0, LARGEST))
    packed.numbers("bar.outcome", _index(rows["outcome"].filter(pl.Series(kept)), OUTCOMES))
    several = run.scan("tasks").group_by("job_id").len().select((pl.col("len") > 1).any())
    if several.collect().item():
        names, task = _dictionary(rows["task_id"].filter(pl.Series(kept)))
        packed.texts("task.name", names)
        packed.numbers("bar.task", task)
    number = np.cumsum(kept) - 1
    shown = np.flatnonzero(kept[bars.bar])
    group = bars.lane[shown] * _GROUPS // max(1, int(bars.first_lane[-1]))
    order = shown[np.lexsort((bars.lane[shown], bars.bar[shown], group))]
    packed.numbers("rect.bar", number[bars.bar[order]])
    packed.numbers("rect.lane", bars.lane[order])
    packed.numbers("rect.lanes", bars.lanes[order])
    return {"rectangles": len(order), "outcomes": OUTCOMES}


_MOST_LANES = 2**31
"""More processors than these share lanes."""


class Bars(NamedTuple):
    """The allocations of a run and the rectangles that show them."""

    rows: pl.DataFrame
    """One row an allocation, by start: job_id, task_id, machine_id, count, attempt, start_time_s,
    end_time_s (NaN while it runs), outcome, amount."""
    bar: Ints
    """(rectangles,) row of `rows`; a job on lanes that are apart has several rectangles."""
    lane: Ints
    """(rectangles,) first lane."""
    lanes: Ints
    """(rectangles,) how many lanes."""
    first_lane: Ints
    """(machines + 1,) first lane of each machine, in the order of run.json."""
    by_processor: bool
    """Whether a lane is a processor."""
    processors_a_lane: int
    """1, but of huge pools."""


def bars_of(run: Run) -> Bars:
    """Return the bars of a run; none for a run without allocations."""
    resource = counted_resource(run.resources)
    rows = _allocations(run, resource)
    amount = rows["amount"].to_numpy()
    capacity = [float(m["capacity"].get(resource, 0.0)) for m in run.machines]
    by_processor = bool(np.all((amount >= 1) & (amount == np.floor(amount))))
    scale = max(1, int(np.ceil((sum(capacity) + amount.max(initial=0.0)) / _MOST_LANES)))
    places = {machine["id"]: n for n, machine in enumerate(run.machines)}
    machine = rows["machine_id"].replace_strict(places, default=len(places)).to_numpy()
    pieces: list[tuple[Ints, Ints, Ints]] = []
    used = np.zeros(len(places) + 1, np.int64)
    start, end = (rows[f"{name}_time_s"].to_numpy() for name in ("start", "end"))
    for one, members in _members(machine):
        if by_processor:
            found = _by_processor(members, start, end, amount, scale)
        else:
            found = _by_allocation(members, start, end)
        pieces.append(found)
        used[one] = int((found[1] + found[2]).max(initial=0))
    least = [max(1, int(c / scale)) if by_processor else 1 for c in (*capacity, 0.0)]
    least[-1] = 0  # allocations of a machine that run.json lacks come last, if there are any
    first_lane = np.concatenate(([0], np.cumsum(np.maximum(used, least))))
    bar, lane, lanes = (
        np.concatenate([piece[n] for piece in pieces]) if pieces else np.zeros(0, np.int64)
        for n in range(3)
    )
    return Bars(rows, bar, lane + first_lane[machine[bar]], lanes, first_lane, by_processor, scale)


def _allocations(run: Run, resource: str) -> pl.DataFrame:
    """Return the allocations by start, with how much of the resource each holds."""
    asked = run.scan("tasks").select("job_id", "task_id", pl.col(resource).alias("request"))
    held = run.scan("allocations").join(
        asked.unique(["job_id", "task_id"]), on=["job_id", "task_id"], how="left"
    )
    return (
        held.select(
            "job_id", "task_id", "machine_id", "count", "attempt", "outcome",
            pl.col("start_time_s"),
            pl.col("end_time_s").fill_null(float("nan")),
            (pl.col("count") * pl.col("request")).fill_null(0.0).alias("amount"),
        )
        .sort("start_time_s", "machine_id", "job_id", "task_id", maintain_order=True)
        .collect()
    )  # fmt: skip


def _members(machine: Ints) -> list[tuple[int, Ints]]:
    """Return each machine that has allocations, and their rows in ascending order."""
    order = np.argsort(machine, kind="stable")
    cuts = np.flatnonzero(np.diff(machine[order])) + 1
    return [(int(machine[part[0]]), part) for part in np.split(order, cuts) if len(part)]


def _by_processor(
    members: Ints, start: Floats, end: Floats, amount: Floats, scale: int
) -> tuple[Ints, Ints, Ints]:
    """Return bar, first lane on the machine, and lanes, of allocations of whole processors."""
    ends = [None if np.isnan(e) else e for e in end[members].tolist()]
    count = np.maximum(1, amount[members] // scale).astype(np.int64)
    spans, _ = number_processors(start[members].tolist(), ends, count.tolist())
    parts = np.array([len(part) for part in spans], np.int64)
    flat = np.array([span for part in spans for span in part], np.int64).reshape(-1, 2)
    return np.repeat(members, parts), flat[:, 0], flat[:, 1] - flat[:, 0] + 1


def _by_allocation(members: Ints, start: Floats, end: Floats) -> tuple[Ints, Ints, Ints]:
    """Return bar, lane on the machine, and 1, of allocations with a lane each."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lane, used = np.zeros(len(members), np.int64), 0
    starts, ends = start[members].tolist(), end[members].tolist()
    for row, (begin, finish) in enumerate(zip(starts, ends, strict=True)):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if free:
            lane[row] = heappop(free)
        else:
            lane[row], used = used, used + 1
        heappush(busy, (finish if finish == finish else float("inf"), int(lane[row])))
    return members, lane, np.ones(len(members), np.int64)


BINS: Final = 8192
"""Bins of time of a grid."""
BANDS: Final = 256
"""Most bands of lanes of a grid."""


class Grid(NamedTuple):
    """Shares of a band's lanes in use in each bin of time, 0 to 255."""

    shares: npt.NDArray[np.uint8]
    """(bands, bins); anything in use is at least 1."""
    lanes_a_band: int


def occupancy(
    start: Floats, end: Floats, lane: Ints, lanes: Ints, all_lanes: int, span: float
) -> Grid:
    """Return the grid of rectangles.

    Args:
        start: (n,) where each begins, from 0.
        end: (n,) where each ends, at most `span`.
        lane: (n,) first lane.
        lanes: (n,) how many.
        all_lanes: lanes of the chart.
        span: end of the chart.
    """
    step = max(1, -(-all_lanes // BANDS))
    bands = max(1, -(-all_lanes // step))
    scale = BINS / span if span > 0 else 0.0
    rate = np.zeros(bands * (BINS + 2))
    first, last = lane // step, (lane + lanes - 1) // step
    pieces = last - first + 1
    rows = np.repeat(np.arange(len(lane)), pieces)
    band = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    low = np.maximum(lane[rows], band * step)
    high = np.minimum((lane + lanes)[rows], (band + 1) * step)
    weight = (high - low).astype(np.float64)
    for times, sign in ((start, 1.0), (end, -1.0)):
        at = np.clip(times[rows] * scale, 0.0, BINS)
        place = np.floor(at)
        part = at - place
        index = band * (BINS + 2) + place.astype(np.int64)
        rate += np.bincount(index, sign * weight * (1 - part), len(rate))
        rate += np.bincount(index + 1, sign * weight * part, len(rate))
    held = np.cumsum(rate.reshape(bands, BINS + 2), axis=1)[:, :BINS]
    there = np.minimum(step, all_lanes - step * np.arange(bands))
    share = held / np.maximum(there, 1)[:, None]
    shares = np.where(share > 1e-9, np.clip(np.rint(255 * share), 1, 255), 0)
    return Grid(shares.astype(np.uint8), step)
