"""FCFS with conservative backfilling in plain Python: plans over lists of intervals.

A. W. Mu'alem and D. G. Feitelson, "Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling" (2001). Nothing is kept from one instant to
the next but what runs and what is planned; whether a job fits is counted again each time. The tests
hold simkit's schedules equal to its own.
"""

from __future__ import annotations

from collections.abc import Sequence


def replay(
    processors: int,
    rows: Sequence[tuple[float, float, int, float]],
    *,
    by_start: bool = False,
) -> list[float]:
    """Return the start time of every job; jobs are in order of submission.

    Args:
        processors: of the machine.
        rows: (gap to the submission before, run time, processors, estimate), times in s; the
            estimate is positive and not below the run time.
        by_start: when jobs end early, the others move up in the order of their planned starts,
            equal ones in that of submission; otherwise all in that of submission.
    """
    jobs: list[tuple[float, float, int, float]] = []
    submit = 0.0
    for gap, run, size, estimate in rows:
        submit += gap
        jobs.append((submit, run, size, estimate))
    planned: dict[int, float] = {}
    running: dict[int, float] = {}
    ends: dict[int, float] = {}
    starts: dict[int, float] = {}

    def taken(instant: float, but: int) -> int:
        held = [(start, jobs[j]) for j, start in (running | planned).items() if j != but]
        return sum(job[2] for start, job in held if start <= instant < start + job[3])

    def earliest(j: int, now: float) -> float:
        _, _, size, estimate = jobs[j]
        everything = running | planned
        times = {now, *everything.values(), *(s + jobs[k][3] for k, s in everything.items())}
        edges = sorted(edge for edge in times if edge >= now)
        for start in edges:
            inside = [start, *(edge for edge in edges if start < edge < start + estimate)]
            if all(taken(instant, j) + size <= processors for instant in inside):
                return start
        raise AssertionError("the machine is empty at last")

    while len(starts) < len(jobs) or ends:
        coming = [job[0] for j, job in enumerate(jobs) if j not in starts and j not in planned]
        now = min([*ends.values(), *coming, *planned.values()])
        early = False
        for j in [j for j, end in ends.items() if end == now]:
            early |= running[j] + jobs[j][3] > now
            del running[j], ends[j]
        if early:
            for j in sorted(planned, key=lambda j: (planned[j] if by_start else 0.0, j)):
                planned[j] = min(planned[j], earliest(j, now))
        for j, job in enumerate(jobs):
            if job[0] == now and j not in starts and j not in planned:
                planned[j] = earliest(j, now)
        for j in [j for j, start in planned.items() if start == now]:
            starts[j] = running[j] = planned.pop(j)
            ends[j] = now + jobs[j][1]
    return [starts[j] for j in range(len(jobs))]
