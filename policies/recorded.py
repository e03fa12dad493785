"""Recorded starts: what a log says of when its jobs ran, replayed start by start.

    policy: recorded

Every gang starts at its recorded start, every instance of a bag at its own where the log tells of
instances, else with its task. Ties go by rank. What does not fit then starts as soon as it does,
in order of the recorded starts, without holding back what is due later; `Past` counts it with the
reason. The starts come from a `Past` that the run gives to this policy alone: `State` and `Task`
do not show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, isnan
from typing import Final

import numpy as np

from simkit.errors import ScenarioError
from simkit.policy import Action, Place, Reject, State, SystemInfo, WakeAt
from simkit.policy.declared import NO_SIGNALS, Signals
from simkit.policy.ordered import resumptions
from simkit.policy.task import Task, at_most, instances_on
from simkit.workload.recorded import Past

UNKNOWN: Final = "the log does not tell when it started"
"""Why a job is rejected."""
NO_ROOM: Final = "no room at its recorded start"
AWAY: Final = "capacity was away at its recorded start"
HELD: Final = (
    "not in the queue at its recorded start: held back by a release, a preceding job, a limit or "
    "admission"
)
EARLY: Final = "recorded to start before its submission"
PERIOD: Final = "no decision at its recorded start: they come at multiples of a period"
TAKEN_OVER: Final = "another policy decided at its recorded start"


@dataclass(slots=True)
class _Due:
    """Instances of a task whose recorded start has come."""

    start_s: float
    """Infinite where it is not known."""
    task: Task
    count: int
    reason: str = ""
    """Why they start later; empty: not known yet, or nothing to count."""

    @property
    def rank(self) -> tuple[float, int]:
        return self.start_s, self.task.index


class RecordedStarts:
    """Starts tasks when the log says that they started.

    Args:
        past: the recorded starts; it also counts what could not start then.
        unknown: what becomes of a job without any: ``reject``, or ``fit``: it starts as soon as it
            fits, after what is due. A task, or instance, without one in a job that has others
            starts with the last of its task, or the first of its job.

    Raises ScenarioError for another word.
    """

    signals: Signals = NO_SIGNALS
    reads_estimates = False

    def __init__(self, past: Past, unknown: str = "reject") -> None:
        if unknown not in ("reject", "fit"):
            raise ScenarioError(f"recorded: unknown is {unknown!r}; write reject or fit")
        self._past = past
        self._rejects = unknown == "reject"

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self._past.forget_counts()
        self._coming: list[tuple[float, int, int, Task]] = []
        self._due: list[_Due] = []
        self._seen = set[int]()
        self._without = set[int]()
        self._full = info.capacity
        self._begun_s = info.first_submit_s
        self._first_s = inf
        self._wake_s = -inf
        self._releases = -1

    def schedule(self, state: State) -> Iterator[Action]:
        self._first_s = min(self._first_s, state.now)
        yield from resumptions(state)
        known = 0
        while True:
            new, known = state.arrived[known:], len(state.arrived)
            for task in new:
                yield from self._take_in(task, state)
            yield from self._start(state)
            if len(state.arrived) == known:
                break
        if self._coming and not state.now < self._wake_s <= self._coming[0][0]:
            self._wake_s = self._coming[0][0]
            yield WakeAt(self._wake_s)

    def _take_in(self, task: Task, state: State) -> Iterator[Reject]:
        """Note when a task that has arrived starts; reject its job if no start of it is known."""
        if not task.waiting:
            return
        job_start = self._past.start_of_job(task.job_index)
        if isnan(job_start):
            self._without.add(task.job_index)
            self._past.jobs_without = len(self._without)
            if self._rejects and state.rejectable(task):
                yield Reject(task, UNKNOWN)
            else:
                self._due.append(_Due(inf, task, task.remaining))
                self._releases = -1
            return
        if task.index in self._seen:  # it starts over
            self._due.append(_Due(-inf, task, task.remaining))
            self._releases = -1
            return
        self._seen.add(task.index)
        for start_s, count in self._starts(task, job_start):
            if start_s < state.now:
                self._due.append(_Due(start_s, task, count, self._why_missed(start_s, task)))
                self._releases = -1
            else:
                heappush(self._coming, (start_s, task.index, count, task))

    def _starts(self, task: Task, job_start_s: float) -> Iterator[tuple[float, int]]:
        """Yield (start, how many of its instances start then) of a task; a gang starts as one."""
        if task.gang or not self._past.tells_of_instances:
            start_s = self._past.start_of(task.index)
            yield (job_start_s if isnan(start_s) else start_s), task.remaining
            return
        counts: dict[float, int] = {}
        last_s = job_start_s
        for start_s in self._past.starts_of(task.index)[task.instances - task.remaining :]:
            last_s = last_s if isnan(start_s) else start_s
            counts[last_s] = counts.get(last_s, 0) + 1
        yield from counts.items()

    def _start(self, state: State) -> Iterator[Place]:
        """Start what is due and fits."""
        now, coming = state.now, self._coming
        came = bool(coming) and coming[0][0] <= now
        if not came and self._releases == state.releases:
            return  # nothing new is due, and nothing came free
        while coming and coming[0][0] <= now:
            start_s, _, count, task = heappop(coming)
            self._due.append(_Due(start_s, task, count, PERIOD if start_s < now else ""))
        self._due.sort(key=lambda due: due.rank)
        waiting = []
        for due in self._due:
            yield from self._place(due, state)
            if due.count and due.task.waiting:
                due.reason = due.reason or self._why_no_room(due, state)
                waiting.append(due)
        self._due = waiting
        self._releases = state.releases

    def _place(self, due: _Due, state: State) -> Iterator[Place]:
        """Start as many of the instances as fit, and count them."""
        task = due.task
        if not task.waiting or (on := state.fit(task)) is None:
            return
        if not task.gang:
            on = at_most(on, due.count)
        started = due.count if task.gang else instances_on(on)
        yield Place(task, on)
        due.count -= started
        if not -inf < due.start_s < inf:
            return
        started = 1 if task.gang else started
        if due.start_s == state.now:
            self._past.as_recorded += started
        else:
            late = self._past.later_s.setdefault(due.reason, [])
            late.extend([state.now - due.start_s] * started)

    def _why_missed(self, start_s: float, task: Task) -> str:
        """Return why a task is first seen after its recorded start."""
        if start_s < task.submit_time_s:
            return EARLY
        if start_s < self._first_s and self._first_s > self._begun_s:
            return TAKEN_OVER
        return HELD

    def _why_no_room(self, due: _Due, state: State) -> str:
        if not -inf < due.start_s < inf:
            return ""
        return AWAY if (state.capacity < self._full).any() else NO_ROOM

    def why(self, state: State, task: Task) -> str:
        """Say what a waiting task waits for."""
        for due in self._due:
            if due.task is task:
                return due.reason or UNKNOWN
        coming = any(entry[3] is task for entry in self._coming)
        return "its recorded start has not come" if coming else UNKNOWN

    def planned(self) -> dict[Task, float]:
        """Return when waiting tasks are to start, in s, whose recorded start has not come."""
        due = {due.task for due in self._due}
        first: dict[Task, float] = {}
        for start_s, _, _, task in sorted(self._coming, key=lambda entry: entry[:2]):
            if task.waiting and task not in due:
                first.setdefault(task, start_s)
        return first
