"""EASY with predictions in plain Python: user means, corrections, shortest job backfilled first.

Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than user
runtime estimates" (2007). Nothing is kept from one instant to the next but the queue, what runs and
the users' last run times. The tests hold simkit's schedules equal to its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import inf

MINUTES = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)


def replay(
    processors: int,
    submit: Sequence[float],
    run: Sequence[float],
    size: Sequence[int],
    request: Sequence[float],
    user: Sequence[int],
    *,
    correction: str = "none",
    shortest_first: bool = False,
) -> list[float]:
    """Return the start time of every job; jobs are in order of submission and run for over 0 s."""
    start = [-1.0] * len(submit)
    first, now_told = [0.0] * len(submit), [0.0] * len(submit)
    history: dict[int, list[float]] = defaultdict(list)
    waiting: list[int] = []
    running: list[int] = []  # in order of start
    arriving, free = 0, processors

    def longer(job: int) -> float:
        """Return the estimate that follows the present one; the same if there is none."""
        additions = {"none": (), "tsafrir": [60 * m for m in MINUTES], "request": [inf]}[correction]
        estimates = [min(first[job] + addition, request[job]) for addition in additions]
        return next((e for e in estimates if e > now_told[job]), now_told[job])

    while arriving < len(submit) or running:
        now = min(
            [start[job] + run[job] for job in running]
            + [start[job] + now_told[job] for job in running if longer(job) > now_told[job]]
            + [submit[arriving] if arriving < len(submit) else inf]
        )
        for job in [job for job in running if start[job] + run[job] == now]:
            running.remove(job)
            free += size[job]
            history[user[job]].append(run[job])
        while arriving < len(submit) and submit[arriving] == now:
            last = history[user[arriving]][-2:]
            mean = round(sum(last) / 2 * 2**20) / 2**20
            first[arriving] = min(mean, request[arriving]) if len(last) == 2 else request[arriving]
            now_told[arriving] = first[arriving]
            waiting.append(arriving)
            arriving += 1
        for job in running:
            if start[job] + now_told[job] == now:
                now_told[job] = longer(job)
        while waiting and size[waiting[0]] <= free:
            job = waiting.pop(0)
            start[job], free = now, free - size[job]
            running.append(job)
        if len(waiting) < 2:
            continue
        room, shadow, head = free, inf, size[waiting[0]]
        for end, job in sorted((max(start[job] + now_told[job], now), job) for job in running):
            if end > shadow:
                break
            room += size[job]
            if room >= head:
                shadow = end
        spare = room - head
        tried = waiting[1:]
        for job in sorted(tried, key=lambda job: first[job]) if shortest_first else tried:
            in_time = now + first[job] <= shadow
            if size[job] <= free and (in_time or size[job] <= spare):
                spare -= 0 if in_time else size[job]
                start[job], free = now, free - size[job]
                waiting.remove(job)
                running.append(job)
    return start
