"""The queue of a pool under first come, first served, as it follows from starts and ends alone.

- Jobs stand in the queue by (submit time, job id); their rank is their place in that order.
- Where decisions are periodic, the first that knows of an event is at the next multiple of the
  period: its *tick*. Without a period the tick of an instant is the instant itself.
- Job k becomes head at ``max(the tick of its submit time, the last start of a job before it)``.
- If it starts later than that it is *blocked*; only one job is blocked at any time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.durations import seconds

if TYPE_CHECKING:
    from simkit.verify.folder import RunFolder


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Queue:
    """The started jobs of a pool in order of rank; arrays of shape (J,)."""

    capacity: float
    row: Ints
    """Row of the job in the table of jobs."""
    submit: Floats
    start: Floats
    end: Floats
    expected: Floats
    """Start + estimate: the end that the policy counted with."""
    size: Floats
    """What the job asks for."""
    period: float | None = None
    """Decisions are at its multiples, in s; None: whenever something changes."""

    def tick(self, times: Floats) -> Floats:
        """Return the first instants of decisions at or after these times."""
        return times if self.period is None else first_multiples(times, self.period)

    def became_head(self) -> Floats:
        """Return (J,): when each job became head of the queue; after its start if it never did."""
        before = np.maximum.accumulate(np.concatenate(([-np.inf], self.start[:-1])))
        return np.asarray(np.maximum(self.tick(self.submit), before))

    def blocked(self) -> Ints:
        """Return the ranks of the jobs that were head and did not start at once."""
        return np.flatnonzero(self.start > self.became_head())

    def rounds(self) -> set[float]:
        """Return the instants with jobs of length zero: they may have had several decisions."""
        return set(self.start[self.start == self.end].tolist())


def queue_of(run: RunFolder) -> Queue:
    """Return the run's started jobs by rank (submit time, job id)."""
    jobs = run.jobs.with_row_index("row").filter(
        pl.col("start_time_s").is_not_null(), pl.col("end_time_s").is_not_null()
    )
    jobs = jobs.sort("submit_time_s", "job_id")
    start = jobs["start_time_s"].to_numpy()
    return Queue(
        capacity=next(iter(run.capacity.values()))[0],
        row=jobs["row"].cast(pl.Int64).to_numpy(),
        submit=jobs["submit_time_s"].to_numpy(),
        start=start,
        end=jobs["end_time_s"].to_numpy(),
        expected=start + jobs["estimate_s"].fill_null(np.inf).to_numpy(),
        size=jobs[run.resources[0]].cast(pl.Float64).to_numpy(),
        period=_period(run),
    )


def _period(run: RunFolder) -> float | None:
    every = run.setting("scheduling", "every") or run.setting("scheduling", "step")
    return None if every is None else round(seconds(every) * 2**20) / 2**20


def first_multiples(times: Floats, period: float) -> Floats:
    """Return the first multiples of a period at or after these times; infinity stays."""
    finite = np.isfinite(times)
    safe = np.where(finite, times, 0.0)
    return np.where(finite, -np.floor_divide(-safe, period) * period, times)


def left_out(
    check: Check, run: RunFolder, backfills: tuple[str, ...], *, only_order: bool = False
) -> bool:
    """Tell whether a rule about the queue cannot be held against this run, and note why.

    Args:
        check: gets the reason.
        run: the run.
        backfills: names of the backfilling rules for which the rule holds.
        only_order: the rule is about the order of starts alone, not about what fits when.
    """
    if reason := _other_policy(run, backfills):
        check.skip(reason)
    elif reason := _why_not_followed(run, only_order=only_order):
        check.leave_out(reason)
    return bool(check.skipped)


def _other_policy(run: RunFolder, backfills: tuple[str, ...]) -> str:
    """Return why the run's policy makes no promise of this kind; empty if it does."""
    policy = run.setting("policy") or {}
    admitted = run.setting("admission", "order") or "fifo"
    order, backfill = (type_of(policy.get(key)) for key in ("order", "backfill"))
    if policy.get("path") or policy.get("name"):
        return "the policy is a user's own"
    if admitted != "fifo":
        return f"admission goes by {admitted}, not by submission"
    if order != "fcfs":
        return f"the order is {order}, not fcfs"
    return "" if backfill in backfills else f"backfilling is {backfill}"


def _why_not_followed(run: RunFolder, *, only_order: bool) -> str:
    """Return why the head of the queue cannot be followed in this run; empty if it can."""
    partitions = run.manifest["cluster"].get("partitions") or []
    kinds = set(run.tables["events"]["kind"].to_list())
    one_each = run.jobs["attempts"].is_in([0, 1]).all() and run.tasks["job_id"].is_unique().all()
    windows = run.setting("cluster", "maintenance") or "power" not in run.tables
    changes = kinds & {"capacity"} or run.setting("cluster", "maintenance")
    refill = run.setting("admission", "refill") or "at_once"
    late = run.setting("admission", "slots") is not None and refill != "at_once"
    reasons = {
        "the run is not complete": not run.complete,
        "the cluster is no pool of one resource": len(run.capacity) * len(run.resources) != 1,
        "the cluster has partitions": len(partitions) > 1,
        "the policy plans with foreseen power": not only_order and foresees_power(run),
        f"{'maintenance' if windows else 'power'} changes the capacity, and what fits ahead of it "
        "is not worked out": bool(changes) and not only_order,
        "slots are refilled at the next decision only": late and not only_order,
        "there are reservations, suspensions or losses": bool(
            kinds & {"reserved", "suspended", "lost"}
        ),
        "jobs have several tasks, attempts or none": not one_each,
        "there are bags": not run.tasks["gang"].all(),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def foresees_power(run: RunFolder) -> bool:
    """Tell whether policies know, rightly or not, of the capacity that power will carry."""
    limit = run.setting("power", "supply", "limit")
    return run.setting("power", "forecast") is not None and limit in ("power", "resources")


def type_of(setting: Any) -> str:
    """Return the name of ``fcfs`` or ``{type: fcfs}``."""
    return str(setting.get("type") if isinstance(setting, dict) else setting or "none")


Running = list[tuple[float, int, float]]
"""(expected end, rank, size) of running jobs, by expected end."""


def at_becoming_head(
    queue: Queue, heads: Ints, several: set[float]
) -> Iterator[tuple[int, float, Running]]:
    """Yield each blocked head, when it became head, and what ran then (valid until the next).

    What was backfilled at that very instant is left out: the promise to the head came before.
    Where the instant may have had several decisions (`several`), it is left in.
    """
    start, end, size = queue.start.tolist(), queue.end.tolist(), queue.size.tolist()
    expected = queue.expected.tolist()
    lasting = np.flatnonzero(queue.end > queue.start)
    starts = lasting[np.lexsort((lasting, queue.start[lasting]))].tolist()
    ends = lasting[np.argsort(queue.end[lasting], kind="stable")].tolist()
    became = queue.became_head()
    running: Running = []
    added = removed = 0

    def remove_until(now: float) -> None:
        nonlocal removed
        while removed < len(ends) and end[ends[removed]] <= now:
            rank = ends[removed]
            del running[bisect_left(running, (expected[rank], rank))]
            removed += 1

    for head in heads.tolist():
        now = float(became[head])
        limit = (now, len(start)) if now in several else (now, head)
        while added < len(starts) and (start[starts[added]], starts[added]) < limit:
            rank = starts[added]
            remove_until(start[rank])
            insort(running, (expected[rank], rank, size[rank]))
            added += 1
        remove_until(now)
        yield head, now, running


def job_row(run: RunFolder, queue: Queue, rank: int) -> dict[str, Any]:
    """Return the job of a rank as a row of the table of jobs."""
    return run.jobs.row(int(queue.row[rank]), named=True)


# MERGED First come, first served: jobs start in order, and no head of the queue waits that fits.


def check_fcfs_order(run: RunFolder) -> Check:
    """Without backfilling, jobs start in order of (submit time, job id)."""
    check = Check("fcfs-order", "jobs start in order of submission")
    if left_out(check, run, ("none",), only_order=True):
        return check
    queue = queue_of(run)
    check.examined = len(queue.start)
    for rank in np.flatnonzero(np.diff(queue.start) < 0) + 1:
        facts = {"starts_before_job": run.jobs["job_id"][int(queue.row[rank - 1])]}
        check.add("starts before a job that came earlier", job_row(run, queue, int(rank)) | facts)
    return check


def check_head_fits(run: RunFolder) -> Check:
    """No job waits while it is head of the queue and fits."""
    check = Check("head-fits", "no job waits as head of the queue while it fits")
    if left_out(check, run, ("none", "easy")):
        return check
    queue = queue_of(run)
    heads = queue.blocked()
    check.examined = len(queue.start)
    if not len(heads):
        return check
    time, free = _free_before_starts(queue)
    became = queue.became_head()[heads]
    # Instants after it became head and before it started: time[first:last] for each head.
    first = np.searchsorted(time, became, side="right")
    last = np.searchsorted(time, queue.start[heads], side="left")
    for head, low, high in zip(heads.tolist(), first.tolist(), last.tolist(), strict=True):
        room = np.flatnonzero(free[low:high] >= queue.size[head])
        if len(room):
            at = low + int(room[0])
            facts = {"fits_at_s": float(time[at]), "free": float(free[at])}
            check.add("waits as head of the queue, but fits", job_row(run, queue, head) | facts)
    _check_first_instant(run, queue, heads, check)
    return check


def _free_before_starts(queue: Queue) -> tuple[Floats, Floats]:
    """Return each decision after an end, and what is free then, before any start."""
    lasting = queue.end > queue.start
    start, end, size = queue.start[lasting], queue.end[lasting], queue.size[lasting]
    times = np.unique(queue.tick(end))
    taken = _sum_before(start, size, times, "left")
    given = _sum_before(end, size, times, "right")
    return times, queue.capacity - (taken - given)


def _sum_before(instants: Floats, size: Floats, times: Floats, side: Any) -> Floats:
    order = np.argsort(instants, kind="stable")
    total = np.concatenate(([0.0], np.cumsum(size[order])))
    return np.asarray(total[np.searchsorted(instants[order], times, side=side)])


def _check_first_instant(run: RunFolder, queue: Queue, heads: Ints, check: Check) -> None:
    """At the instant at which a job becomes head it must not fit beside what runs by then."""
    several = queue.rounds()
    for head, now, running in at_becoming_head(queue, heads, several):
        free = queue.capacity - sum(size for _, _, size in running)
        if now not in several and free >= queue.size[head]:
            facts = {"fits_at_s": now, "free": free}
            check.add("waits as head of the queue, but fits", job_row(run, queue, head) | facts)


# MERGED EASY backfilling delays no head of the queue.
# MERGED
# MERGED The *shadow time* of a blocked head is the earliest expected end (start + estimate) of a running
# MERGED job at which the head fits: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and
# MERGED Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
# MERGED IBM SP2 with backfilling" (2001). Whatever is backfilled, the head starts by the shadow time that
# MERGED it had when it became head, or at the first decision from then on. The promise is void where a job
# MERGED overran its estimate meanwhile.


def check_head_delay(run: RunFolder) -> Check:
    """Under EASY no head starts after the shadow time it had when it became head."""
    check = Check("head-delay", "EASY starts each head by the shadow time it had as it became head")
    if left_out(check, run, ("easy",)):
        return check
    queue = queue_of(run)
    heads = queue.blocked()
    overruns = _Overruns(queue)
    check.examined = len(heads)
    voided = 0
    for head, now, running in at_becoming_head(queue, heads, queue.rounds()):
        shadow = shadow_time(queue.capacity, running, float(queue.size[head]))
        if queue.start[head] <= queue.tick(np.array([shadow]))[0]:
            continue
        if overruns.between(now, shadow):
            voided += 1
            continue
        facts = {"became_head_s": now, "shadow_time_s": shadow}
        check.add("starts after its shadow time", job_row(run, queue, head) | facts)
    check.notes["heads whose bound was void and missed (a job overran)"] = voided
    return check


def shadow_time(capacity: float, running: Running, size: float) -> float:
    """Return the earliest expected end at which `size` is free; infinity if it never is."""
    free = capacity - sum(held for _, _, held in running)
    for expected, _, held in running:
        free += held
        if free >= size:
            return expected
    return np.inf


class _Overruns:
    """Jobs that ran past their estimate, as spans from the expected to the true end."""

    def __init__(self, queue: Queue) -> None:
        over = np.flatnonzero(queue.end > queue.expected)
        order = over[np.argsort(queue.expected[over], kind="stable")]
        self._from = queue.expected[order].tolist()
        self._latest = np.maximum.accumulate(queue.end[order]).tolist() if len(order) else []

    def between(self, first: float, last: float) -> bool:
        """Tell whether a job was past its estimate at some instant of [first, last]."""
        begun = bisect_right(self._from, last)
        return begun > 0 and bool(self._latest[begun - 1] > first)
