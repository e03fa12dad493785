"""What started on the machines of suspended tasks before they went on, counted again."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from simkit.verify.audited_run import TASK, AuditedRun
from simkit.verify.limits import tasks_by_partition
from simkit.verify.measures.over_time import Numbers, counted


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
    return counted("starts_past_suspended", {"value": float(len(passed))}, suspensions)


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
