"""EASY backfilling delays no head of the queue.

The *shadow time* of a blocked head is the earliest expected end (start + estimate) of a running
job at which the head fits: Lifka, "The ANL/IBM SP scheduling system" (1995); Mu'alem and
Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling" (2001). Whatever is backfilled, the head starts by the shadow time that
it had when it became head, or at the first decision from then on. The promise is void where a job
overran its estimate meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from simkit.verify_audit import Check
from simkit.verify_queue import (
    Queue,
    Running,
    at_becoming_head,
    job_row,
    left_out,
    queue_of,
)

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder


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
