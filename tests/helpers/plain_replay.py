"""A second implementation: FCFS and SJF with EASY on a pool of processors, in plain Python.

No SimPy, no generality, integers in plain lists. The tests hold simkit's schedules equal to its
own, and the benchmarks take its time as the unit. Semantics: at each instant all completions, then
all arrivals, then one pass of the scheduler.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush


def replay(
    processors: int,
    submit: Sequence[float],
    run: Sequence[float],
    size: Sequence[int],
    estimate: Sequence[float],
    *,
    shortest_first: bool = False,
    easy: bool = False,
) -> list[float]:
    """Return the start time of every job; jobs are in order of submission."""
    jobs = len(submit)
    start = [0.0] * jobs
    free = processors
    ends: list[tuple[float, int]] = []  # heap of (end, job)
    releases: list[tuple[float, int]] = []  # sorted (expected end, job)
    waiting: list[tuple[float, int]] = []  # sorted (key, job)
    arriving = 0
    while arriving < jobs or ends:
        now = ends[0][0] if ends else submit[arriving]
        if arriving < jobs and submit[arriving] < now:
            now = submit[arriving]
        while ends and ends[0][0] == now:
            job = heappop(ends)[1]
            free += size[job]
            del releases[bisect_left(releases, (start[job] + estimate[job], job))]
        while arriving < jobs and submit[arriving] == now:
            insort(waiting, (estimate[arriving] if shortest_first else 0, arriving))
            arriving += 1
        started = 0
        for _, job in waiting:
            if size[job] > free:
                break
            free -= size[job]
            start[job] = now
            heappush(ends, (now + run[job], job))
            insort(releases, (now + estimate[job], job))
            started += 1
        del waiting[:started]
        if not easy or len(waiting) < 2 or not free:
            continue
        need, shadow = free, now
        head = size[waiting[0][1]]
        for expected, job in releases:
            if expected < now:
                expected = now  # it overran: it is expected to end now
            if need >= head and expected != shadow:
                break
            need += size[job]
            shadow = expected
        extra = need - head
        kept = waiting[:1]
        for entry in waiting[1:]:
            job = entry[1]
            ends_in_time = now + estimate[job] <= shadow
            if size[job] > free or not (ends_in_time or size[job] <= extra):
                kept.append(entry)
                continue
            if not ends_in_time:
                extra -= size[job]
            free -= size[job]
            start[job] = now
            heappush(ends, (now + run[job], job))
            insort(releases, (now + estimate[job], job))
        waiting = kept
    return start
