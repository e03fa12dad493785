"""First come, first served: jobs start in order, and no head of the queue waits that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.verify_audit import Check
from simkit.verify_queue import (
    Floats,
    Ints,
    Queue,
    at_becoming_head,
    job_row,
    left_out,
    queue_of,
)

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder


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
