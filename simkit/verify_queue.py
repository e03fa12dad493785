"""The queue of a pool under first come, first served, as it follows from starts and ends alone.

- Jobs stand in the queue by (submit time, job id); their rank is their place in that order.
- Job k becomes head at ``max(its submit time, the last start of a job before it)``.
- If it starts later than that it is *blocked*; only one job is blocked at any time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

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

    def became_head(self) -> Floats:
        """Return (J,): when each job became head of the queue; after its start if it never did."""
        before = np.maximum.accumulate(np.concatenate(([-np.inf], self.start[:-1])))
        return np.asarray(np.maximum(self.submit, before))

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
    )


def not_a_plain_queue(run: RunFolder, backfills: tuple[str, ...]) -> str:
    """Return why the head of the queue cannot be followed in this run; empty if it can.

    Args:
        run: the run.
        backfills: names of the backfilling rules for which the check holds.
    """
    policy = run.setting("policy") or {}
    order, backfill = (type_of(policy.get(key)) for key in ("order", "backfill"))
    partitions = run.manifest["cluster"].get("partitions") or []
    kinds = set(run.tables["events"]["kind"].to_list())
    one_each = run.jobs["attempts"].is_in([0, 1]).all() and run.tasks["job_id"].is_unique().all()
    reasons = {
        "the run is not complete": not run.complete,
        "the policy is a user's own": bool(policy.get("path") or policy.get("name")),
        f"the order is {order}, not fcfs": order != "fcfs",
        f"backfilling is {backfill}": backfill not in backfills,
        "the cluster is no pool of one resource": len(run.capacity) * len(run.resources) != 1,
        "the cluster has maintenance": bool(run.setting("cluster", "maintenance")),
        "the cluster has partitions": len(partitions) > 1,
        "scheduling is periodic": run.setting("scheduling", "every") is not None,
        "admission hides jobs from the policy": _limits_admission(run),
        "there are reservations, suspensions or losses": bool(
            kinds & {"reserved", "suspended", "lost", "capacity"}
        ),
        "jobs have several tasks, attempts or none": not one_each,
        "there are bags": not run.tasks["gang"].all(),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def type_of(setting: Any) -> str:
    """Return the name of ``fcfs`` or ``{type: fcfs}``."""
    return str(setting.get("type") if isinstance(setting, dict) else setting or "none")


def _limits_admission(run: RunFolder) -> bool:
    return any(run.setting("admission", key) is not None for key in ("slots", "backlog"))


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
