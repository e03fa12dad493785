"""The queue of a pool under first come, first served, as it follows from starts and ends alone.

- Jobs stand in the queue by (submit time, job id); their rank is their place in that order.
- Where decisions are periodic, the first that knows of an event is at the next multiple of the
  period: its *tick*. Without a period the tick of an instant is the instant itself.
- Job k becomes head at ``max(the tick of its submit time, the last start of a job before it)``.
- If it starts later than that it is *blocked*; only one job is blocked at any time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simkit.verify_audit import Check
from simkit.verify_maintenance import seconds

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

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
    import polars as pl

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
