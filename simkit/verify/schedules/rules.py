"""The rules of a schedule: times, capacity, first come first served, and EASY backfilling.

EASY is that of Lifka ("The ANL/IBM SP scheduling system", 1995) as Mu'alem and Feitelson
("Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with
backfilling", 2001) write it down: the first job of the queue gets a reservation at the earliest
expected end at which it fits, and a later one may start if it fits now and delays that one not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop

import numpy as np

from simkit.verify.audit import Check
from simkit.verify.schedules.table import Schedule


def check_times(table: Schedule) -> Check:
    """Check that jobs are submitted, start and end in this order, and have processors."""
    check = Check("times", "submit <= start <= end, and a job has processors")
    check.examined = len(table.job)
    for message, wrong in (
        ("starts before its submission", table.start < table.submit),
        ("ends before its start", table.end < table.start),
        ("has no processors", ~(table.processors > 0)),
    ):
        for place in np.flatnonzero(wrong).tolist():
            check.add(message, table.row(place))
    if repeated := len(table.job) - len(set(table.job)):
        check.notes["rows with the job of another row, taken as jobs of their own"] = repeated
    if table.without_start:
        check.notes["rows without a start or an end, left out"] = table.without_start
    return check


def check_capacity(table: Schedule, processors: float) -> Check:
    """Check that at no time more processors are in use than there are."""
    check = Check("capacity", f"at most {processors:,.10g} processors are in use")
    check.examined = len(table.job)
    starts = np.argsort(table.start, kind="stable")
    ends = np.argsort(table.end, kind="stable")
    ended = np.cumsum(table.processors[ends])
    before = np.searchsorted(table.end[ends], table.start[starts], side="right")
    gone = np.where(before > 0, ended[before - 1], 0.0)
    # A job that takes no time is gone at its own start, but holds its processors at that instant.
    instant = table.end[starts] == table.start[starts]
    used = np.cumsum(table.processors[starts]) - gone + instant * table.processors[starts]
    for at in np.flatnonzero(used > processors + 1e-9 * processors).tolist():
        check.add(
            "starts, though too few processors are free",
            table.row(int(starts[at])) | {"in_use": float(used[at])},
        )
    return check


def check_order(table: Schedule, *, claimed: bool) -> Check:
    """Check that no job starts before one that was submitted earlier, if that is claimed."""
    check = Check("order", "jobs start in the order of their submission")
    if not claimed:
        return check.skip("the schedule does not claim first come, first served")
    check.examined = len(table.job)
    latest = np.maximum.accumulate(table.start)
    at_latest = np.where(table.start == latest, np.arange(len(latest)), 0)
    overtaken_job = np.maximum.accumulate(at_latest)
    for place in np.flatnonzero(table.start < latest).tolist():
        ahead = int(overtaken_job[place])
        overtaken = {"overtakes": table.job[ahead], "which_starts": float(table.start[ahead])}
        check.add("starts before a job that was submitted earlier", table.row(place) | overtaken)
    return check


def check_easy(table: Schedule, processors: float, *, claimed: bool) -> Check:
    """Check every start, and every wait, by EASY backfilling in order of submission, if claimed."""
    check = Check("easy", "jobs start when EASY backfilling starts them, and no other")
    if not claimed:
        return check.skip("the schedule does not claim EASY backfilling")
    check.examined = len(table.job)
    if table.without_request:
        check.notes["jobs without a requested time, planned with their run time"] = (
            table.without_request
        )
    replay = _Easy(table, processors, check)
    for now, ended, arrived, started in _instants(table):
        replay.step(now, ended, arrived, started)
        if replay.looks > _MOST_LOOKS:
            return _given_up(check, now)
    return check


_MOST_LOOKS = 50_000_000
"""How often waiting jobs are looked at, a minute or so; queues of honest schedules are shorter."""


def _given_up(check: Check, now: float) -> Check:
    reason = f"the queue is too long to be followed beyond {now:,.15g} s"
    if not check.found:
        return check.leave_out(reason)
    check.notes["not followed to the end"] = reason
    return check


def _instants(table: Schedule) -> Iterator[tuple[float, list[int], list[int], set[int]]]:
    """Yield each time at which jobs end, arrive or start, and which."""
    streams: dict[float, tuple[list[int], list[int], set[int]]] = {}

    def at(time: float) -> tuple[list[int], list[int], set[int]]:
        return streams.setdefault(time, ([], [], set()))

    for place, (submit, start, end) in enumerate(
        zip(table.submit.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
    ):
        at(submit)[1].append(place)
        at(start)[2].add(place)
        if end > start:
            at(end)[0].append(place)
    times = list(streams)
    heapify(times)
    while times:
        now = heappop(times)
        yield now, *streams.pop(now)


class _Easy:
    """The queue and the machine of a schedule, from instant to instant."""

    def __init__(self, table: Schedule, processors: float, check: Check) -> None:
        self._table, self._check = table, check
        self._free, self._now = processors, 0.0
        self._size = table.processors.tolist()
        self._planned = table.requested.tolist()
        self._expected = (table.start + table.requested).tolist()
        self._end, self._start = table.end.tolist(), table.start.tolist()
        self._waiting: list[int] = []
        """Jobs in the order of submission."""
        self._running: list[tuple[float, int]] = []
        """(expected end, job), the earliest first."""
        self.looks = 0
        """How many waiting jobs were looked at so far."""
        self._told: set[int] = set()
        """Jobs that were already found to wait for nothing."""

    def step(self, now: float, ended: list[int], arrived: list[int], started: set[int]) -> None:
        """Let jobs end, arrive and start as the schedule has it, and check what starts and waits.

        Args:
            now: the time, s.
            ended: jobs that end.
            arrived: jobs that are submitted.
            started: jobs that start.
        """
        self._now = now
        for job in ended:
            entry = (self._expected[job], job)
            place = bisect_left(self._running, entry)
            if self._running[place : place + 1] == [entry]:
                del self._running[place]
                self._free += self._size[job]
        self._waiting.extend(arrived)
        while self._waiting and self._waiting[0] in started:
            self._begin(self._waiting.pop(0))
        if not self._waiting:
            return
        head = self._waiting[0]
        if self._size[head] <= self._free:
            self._tell("is first in the queue and fits, but waits", head)
        self._check_others(head, started)

    def _check_others(self, head: int, started: set[int]) -> None:
        """Check the jobs behind the first one: those that start, and those that could."""
        self.looks += len(self._waiting)
        bound: tuple[float, float] | None = None
        left = [head]
        for job in self._waiting[1:]:
            if job not in started and self._size[job] > self._free:
                left.append(job)
                continue
            if bound is None:
                bound = self._shadow(head)
            shadow, extra = bound
            harmless = self._now + self._planned[job] <= shadow or self._size[job] <= extra
            if job in started:
                if not harmless:
                    self._check.add(
                        "overtakes the first job of the queue and delays its reservation",
                        self._table.row(job) | {"overtakes": self._table.job[head],
                                                "reserved_at": shadow},
                    )  # fmt: skip
                self._begin(job)
                bound = None
                continue
            if harmless:
                self._tell("fits and would delay no reservation, but waits", job)
            left.append(job)
        self._waiting = left

    def _begin(self, job: int) -> None:
        if self._end[job] > self._start[job]:
            self._free -= self._size[job]
            insort(self._running, (self._expected[job], job))

    def _shadow(self, head: int) -> tuple[float, float]:
        """Return when the first job is expected to fit, and how much is free then besides it."""
        free, needed = self._free, self._size[head]
        if free >= needed:  # it could start now
            return self._now, free - needed
        at = float("inf")
        for expected, job in self._running:
            if expected > at:
                break
            free += self._size[job]
            if free >= needed and at == float("inf"):
                at = max(expected, self._now)
        return at, free - needed

    def _tell(self, message: str, job: int) -> None:
        if job not in self._told:
            self._told.add(job)
            self._check.add(message, self._table.row(job) | {"at": self._now})
