"""Checks of the queue of a pool under first come, first served, from starts and ends alone.

- Jobs are in the queue by (submit time, job id); their rank is their place in that order.
- If decisions are periodic, an event is first seen at the next multiple of the period: its *tick*.
  Without a period the tick of an instant is the instant itself.
- Job k becomes head at ``max(the tick of its submit time, the last start of a job before it)``.
- If it starts later than that it is *blocked*; only one job is blocked at a time.

EASY backfilling delays no head of the queue. The *shadow time* of a blocked head is the earliest
expected end (start + estimate) of a running job at which the head fits: Lifka, "The ANL/IBM SP
scheduling system" (1995); Mu'alem and Feitelson, "Utilization, predictability, workloads, and user
runtime estimates in scheduling the IBM SP2 with backfilling" (2001). Whatever is backfilled, the
head starts by the shadow time that it had when it became head, or at the first decision after that.
The promise is void if a job has overrun its estimate in the meantime.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.audit import Check
from simkit.verify.audited_run import AuditedRun
from simkit.verify.numbers import Floats, Ints, on_grid, seconds, sum_until

_Running = list[tuple[float, int, float]]
"""(expected end, rank, size) of running jobs, by expected end."""


@dataclass(frozen=True)
class _Queue:
    """The started jobs of a pool in order of rank; arrays of shape (J,)."""

    capacity: float
    row: Ints
    """Row of the job in the table of jobs."""
    submit: Floats
    start: Floats
    end: Floats
    expected: Floats
    """Start + estimate: the end that the policy expected."""
    size: Floats
    """What the job requests."""
    period: float | None = None
    """Decisions are made at its multiples, in s; None: whenever something changes."""

    def tick(self, times: Floats) -> Floats:
        """Return the first instants of decisions at or after these times."""
        return times if self.period is None else first_multiples(times, self.period)

    def became_head(self) -> Floats:
        """Return (J,): when each job became head of the queue; later than its start if never."""
        before = np.maximum.accumulate(np.concatenate(([-np.inf], self.start[:-1])))
        return np.asarray(np.maximum(self.tick(self.submit), before))

    def blocked(self) -> Ints:
        """Return the ranks of the jobs that were head and did not start at once."""
        return np.flatnonzero(self.start > self.became_head())

    def rounds(self) -> set[float]:
        """Return the instants with jobs of length zero, which may have had several decisions."""
        return set(self.start[self.start == self.end].tolist())


def _queue_of(run: AuditedRun) -> _Queue:
    """Return the run's started jobs by rank (submit time, job id)."""
    jobs = run.jobs.with_row_index("row").filter(
        pl.col("start_time_s").is_not_null(), pl.col("end_time_s").is_not_null()
    )
    jobs = jobs.sort("submit_time_s", "job_id")
    start = jobs["start_time_s"].to_numpy()
    every = run.setting("scheduling", "every") or run.setting("scheduling", "step")
    return _Queue(
        capacity=next(iter(run.capacity.values()))[0],
        row=jobs["row"].cast(pl.Int64).to_numpy(),
        submit=jobs["submit_time_s"].to_numpy(),
        start=start,
        end=jobs["end_time_s"].to_numpy(),
        expected=start + jobs["estimate_s"].fill_null(np.inf).to_numpy(),
        size=jobs[run.resources[0]].cast(pl.Float64).to_numpy(),
        period=None if every is None else on_grid(seconds(every)),
    )


def first_multiples(times: Floats, period: float) -> Floats:
    """Return the first multiple of a period at or after each time; infinity stays."""
    finite = np.isfinite(times)
    safe = np.where(finite, times, 0.0)
    return np.where(finite, -np.floor_divide(-safe, period) * period, times)


def _left_out(
    check: Check, run: AuditedRun, backfills: tuple[str, ...], *, only_order: bool = False
) -> bool:
    """Return whether a rule about the queue cannot be checked; the check gets the reason.

    The rule holds for these backfilling rules; `only_order`: it is about the order of starts alone.
    """
    if reason := _other_policy(run, backfills):
        check.skip(reason)
    elif reason := _why_not_followed(run, only_order=only_order):
        check.leave_out(reason)
    return bool(check.skipped)


def _other_policy(run: AuditedRun, backfills: tuple[str, ...]) -> str:
    """Return why the policy of the run makes no such promise; empty if it does."""
    policy = run.setting("policy") or {}
    admitted = run.setting("admission", "order") or "fifo"
    order, backfill = (_type_of(policy.get(key)) for key in ("order", "backfill"))
    if policy.get("path") or policy.get("name"):
        return "the policy is a custom one"
    if admitted != "fifo":
        return f"admission is by {admitted}, not by submission"
    if order != "fcfs":
        return f"the order is {order}, not fcfs"
    return "" if backfill in backfills else f"backfilling is {backfill}"


def _why_not_followed(run: AuditedRun, *, only_order: bool) -> str:
    """Return why the head of the queue is not known in this run; empty if it is."""
    partitions = run.manifest["cluster"].get("partitions") or []
    kinds = set(run.tables["events"]["kind"].to_list())
    one_each = run.jobs["attempts"].is_in([0, 1]).all() and run.tasks["job_id"].is_unique().all()
    windows = run.setting("cluster", "maintenance")
    cause = "maintenance" if windows or "power" not in run.tables else "power"
    foreseen = run.setting("power", "forecast") is not None and run.power_limits_capacity
    refill = run.setting("admission", "refill") or "at_once"
    late = run.setting("admission", "slots") is not None and refill != "at_once"
    reasons = {
        "the run is not complete": not run.complete,
        "the cluster is not a pool of one resource": len(run.capacity) * len(run.resources) != 1,
        "the cluster has partitions": len(partitions) > 1,
        "the policy plans with forecast power": foreseen and not only_order,
        f"{cause} changes the capacity, and what fits before such a change is not computed": (
            bool(windows or "capacity" in kinds) and not only_order
        ),
        "slots are refilled only at the next decision": late and not only_order,
        "there are reservations, suspensions or losses": bool(
            kinds & {"reserved", "suspended", "lost"}
        ),
        "jobs have several tasks or attempts, or no task": not one_each,
        "there are bags": not run.tasks["gang"].all(),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _type_of(setting: Any) -> str:
    """Return the type of ``fcfs`` or ``{type: fcfs}``."""
    return str(setting.get("type") if isinstance(setting, dict) else setting or "none")


def _at_becoming_head(
    queue: _Queue, heads: Ints, several: set[float]
) -> Iterator[tuple[int, float, _Running]]:
    """Yield each blocked head, when it became head, and what ran then (valid until the next).

    Jobs backfilled at that instant are left out, because the promise to the head came first. They
    are kept if the instant may have had several decisions (`several`).
    """
    start, end, size = queue.start.tolist(), queue.end.tolist(), queue.size.tolist()
    expected = queue.expected.tolist()
    lasting = np.flatnonzero(queue.end > queue.start)
    starts = lasting[np.lexsort((lasting, queue.start[lasting]))].tolist()
    ends = lasting[np.argsort(queue.end[lasting], kind="stable")].tolist()
    became = queue.became_head()
    running: _Running = []
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


def _job_row(run: AuditedRun, queue: _Queue, rank: int) -> dict[str, Any]:
    """Return the row of the table of jobs for a rank."""
    return run.jobs.row(int(queue.row[rank]), named=True)


def check_fcfs_order(run: AuditedRun) -> Check:
    """Check that without backfilling jobs start in order of (submit time, job id)."""
    check = Check("fcfs-order", "without backfilling, jobs start in order of submission")
    if _left_out(check, run, ("none",), only_order=True):
        return check
    queue = _queue_of(run)
    check.examined = len(queue.start)
    for rank in np.flatnonzero(np.diff(queue.start) < 0) + 1:
        facts = {"starts_before_job": run.jobs["job_id"][int(queue.row[rank - 1])]}
        check.add(
            "starts before a job that was submitted earlier",
            _job_row(run, queue, int(rank)) | facts,
        )
    return check


def check_head_fits(run: AuditedRun) -> Check:
    """Check that no job waits while it is head of the queue and fits."""
    check = Check("head-fits", "the head of the queue does not wait while it fits")
    if _left_out(check, run, ("none", "easy")):
        return check
    queue = _queue_of(run)
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
            check.add(
                "is head of the queue and fits, but waits", _job_row(run, queue, head) | facts
            )
    _check_first_instant(run, queue, heads, check)
    return check


def _free_before_starts(queue: _Queue) -> tuple[Floats, Floats]:
    """Return the decisions after ends, and what is free at each before anything starts."""
    lasting = queue.end > queue.start
    start, end, size = queue.start[lasting], queue.end[lasting], queue.size[lasting]
    times = np.unique(queue.tick(end))
    held = sum_until(start, size, times, "left") - sum_until(end, size, times)
    return times, queue.capacity - held


def _check_first_instant(run: AuditedRun, queue: _Queue, heads: Ints, check: Check) -> None:
    """Check that a blocked head did not fit at the instant at which it became head."""
    several = queue.rounds()
    for head, now, running in _at_becoming_head(queue, heads, several):
        free = queue.capacity - sum(size for _, _, size in running)
        if now not in several and free >= queue.size[head]:
            facts = {"fits_at_s": now, "free": free}
            check.add(
                "is head of the queue and fits, but waits", _job_row(run, queue, head) | facts
            )


def check_head_delay(run: AuditedRun) -> Check:
    """Check that under EASY no head starts after the shadow time it had when it became head."""
    check = Check("head-delay", "under EASY, each head starts by the shadow time it first had")
    if _left_out(check, run, ("easy",)):
        return check
    queue = _queue_of(run)
    heads = queue.blocked()
    overruns = _Overruns(queue)
    check.examined = len(heads)
    voided = 0
    for head, now, running in _at_becoming_head(queue, heads, queue.rounds()):
        shadow = _shadow_time(queue.capacity, running, float(queue.size[head]))
        if queue.start[head] <= queue.tick(np.array([shadow]))[0]:
            continue
        if overruns.between(now, shadow):
            voided += 1
            continue
        facts = {"became_head_s": now, "shadow_time_s": shadow}
        check.add("starts after its shadow time", _job_row(run, queue, head) | facts)
    check.notes["heads whose bound was void and missed (a job overran)"] = voided
    return check


def _shadow_time(capacity: float, running: _Running, size: float) -> float:
    """Return the earliest expected end at which `size` is free; infinity if it never is."""
    free = capacity - sum(held for _, _, held in running)
    for expected, _, held in running:
        free += held
        if free >= size:
            return expected
    return np.inf


class _Overruns:
    """Jobs that ran past their estimate, as spans from the expected to the actual end."""

    def __init__(self, queue: _Queue) -> None:
        over = np.flatnonzero(queue.end > queue.expected)
        order = over[np.argsort(queue.expected[over], kind="stable")]
        self._from = queue.expected[order].tolist()
        self._latest = np.maximum.accumulate(queue.end[order]).tolist() if len(order) else []

    def between(self, first: float, last: float) -> bool:
        """Return whether a job was past its estimate at some instant of [first, last]."""
        begun = bisect_right(self._from, last)
        return begun > 0 and bool(self._latest[begun - 1] > first)
