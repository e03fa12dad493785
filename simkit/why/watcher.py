"""Watches a run again: notes at every decision what keeps some of its jobs from starting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import polars as pl

from simkit.engine.simulation import Simulation
from simkit.policy.lane import Line
from simkit.policy.task import Allocation, Task
from simkit.results.run_folder import Run
from simkit.units import format_duration
from simkit.why.causes import Cause
from simkit.why.rerun import EndReachedError, RunClock
from simkit.why.samples import Onlooker, Sample, fresh_copy
from simkit.workload import Workload

JobId = int | str
MOST_TOLD = 10
"""Overtaking jobs whose reason is noted."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A task that was submitted later than another and started while that one waited."""

    task: Task
    time_s: float
    why: str
    """Why it might; empty beyond the first few."""


class Foreseen:
    """What is known of a run's future from its tables: when tasks start, and what ends then."""

    def __init__(self, run: Run, jobs: Iterable[JobId]) -> None:
        pieces = run.allocations.select("job_id", "start_time_s", "end_time_s")
        mine = pieces.filter(pl.col("job_id").is_in(list(jobs))).select("job_id", "start_time_s")
        self._starts = {*mine.rows()}
        starts = mine["start_time_s"].unique().sort().to_list()
        times = run.timeline["time_s"].unique().sort().to_numpy()
        before = np.searchsorted(times, starts) - 1
        self._next = {
            float(times[row]): start for row, start in zip(before, starts, strict=True) if row >= 0
        }
        ending = pieces.filter(pl.col("end_time_s").is_in(starts))
        self._ends: dict[float, set[tuple[JobId, float]]] = {}
        for job, begun, end in ending.rows():
            self._ends.setdefault(end, set()).add((job, begun))

    def ending(self, job: JobId, now: float) -> set[tuple[JobId, float]]:
        """Return (job, start) of what ends when a job starts, if that is the next decision."""
        start = self._next.get(now)
        if start is None or (job, start) not in self._starts:
            return set()
        return self._ends.get(start, set())


class Watcher:
    """Is called after every decision; collects samples of the tasks of the wanted jobs."""

    def __init__(
        self,
        workload: Workload,
        jobs: Iterable[int],
        policy: object,
        until_s: float = inf,
        then: Callable[[Simulation], None] | None = None,
        foreseen: Foreseen | None = None,
        clock: RunClock | None = None,
    ) -> None:
        """`jobs` are rows of the workload; later than `until_s` nothing is decided any more."""
        self._clock = clock
        self._foreseen = foreseen
        self._workload, self._wanted = workload, frozenset(jobs)
        self._policy, self._until_s, self._then = policy, until_s, then
        self._fresh = fresh_copy(policy)
        submits = sorted((float(workload.submit_time_s[row]), row) for row in self._wanted)
        self._to_come = submits[::-1]
        self._live: dict[Task, None] = {}  # wanted tasks that wait, as far as is known
        self._onlooker: Onlooker | None = None
        self._last_rank = 0
        self._ends_of: dict[Allocation, float] = {}
        self.samples: dict[int, list[tuple[float, Sample]]] = {}
        """Row of a task → (time of a decision, what kept it waiting from then on)."""
        self.tasks: dict[int, Task] = {}
        self.passed: dict[int, dict[int, Passed]] = {}
        """Row of a task → row of a job → how it passed."""
        self.end_s = -inf
        """When the last decision was made."""

    def onlooker(self, simulation: Simulation) -> Onlooker:
        """Return what looks at decisions, made at the first of them."""
        if self._onlooker is None:
            self._onlooker = Onlooker(simulation, self._policy, self._fresh, self._clock)
        return self._onlooker

    def released_s(self, allocation: Allocation) -> float:
        """Return when an allocation ended, by the decision that followed; infinity: it did not."""
        return self._ends_of.get(allocation, inf)

    def __call__(self, simulation: Simulation) -> None:
        """Look at a decision once it is made."""
        onlooker, state = self.onlooker(simulation), simulation.state
        if state.now > self._until_s:
            raise EndReachedError
        self.end_s = state.now
        onlooker.note_decision()
        self._note_ends(state.ended)
        self._find_tasks(onlooker)
        if self._live:
            self._look(onlooker)
        self._last_rank = state.starts
        if self._then is not None:
            self._then(simulation)

    def _note_ends(self, ended: Iterable[Allocation]) -> None:
        for allocation in ended:
            self._ends_of.setdefault(allocation, self.end_s)
            if allocation.task.job_index in self._wanted:
                self._add(allocation.task)

    def _find_tasks(self, onlooker: Onlooker) -> None:
        for task in onlooker.state.arrived:
            if task.job_index in self._wanted:
                self._add(task)
        while self._to_come and self._to_come[-1][0] <= onlooker.state.now:
            row = self._to_come.pop()[1]
            for tasks in onlooker.simulation.held_back().values():
                for task in tasks:
                    if task.job_index == row:
                        self._add(task)

    def _add(self, task: Task) -> None:
        self.tasks[task.index] = task
        self._live[task] = None

    def _look(self, onlooker: Onlooker) -> None:
        now, found = onlooker.state.now, dict(self._queued(onlooker))
        for task in [*self._live]:
            sample = found.get(task)
            if sample is None and (sample := onlooker.held(task)) is not None:
                gone = self._gone(onlooker, task)
                rivals = len(onlooker.state.queue.tasks) if gone else 0
                sample = replace(sample, gone=tuple(gone), rivals=rivals)
            if sample is None:
                sample = onlooker.elsewhere(task)
            if sample is None:  # it runs, or it has ended
                del self._live[task]
                continue
            self.samples.setdefault(task.index, []).append((now, sample))
        if self._live and onlooker.state.starts > self._last_rank:
            self._note_passing(onlooker, found)

    def _queued(self, onlooker: Onlooker) -> Iterator[tuple[Task, Sample]]:
        left = sum(task.waiting for task in self._live)
        if not left:
            return
        for line in onlooker.lines():
            for place, task in enumerate(line.tasks):
                if task in self._live:
                    yield task, self._confirmed(onlooker, task, line, place)
                    left -= 1
                    if not left:
                        return

    def _confirmed(self, onlooker: Onlooker, task: Task, line: Line, place: int) -> Sample:
        """Return a sample; the last before a start is held against what ends then."""
        sample = onlooker.queued(task, line, place)
        return onlooker.confirmed(task, line, sample, self._gone(onlooker, task))

    def _gone(self, onlooker: Onlooker, task: Task) -> list[Task]:
        """Return what ends when a task starts, if it starts at the next decision."""
        if self._foreseen is None:
            return []
        names = self._workload.job_id
        ending = self._foreseen.ending(names[task.job_index], onlooker.state.now)
        return [
            allocation.task
            for allocation in (onlooker.state.running if ending else ())
            if (names[allocation.task.job_index], allocation.start_time_s) in ending
        ]

    # ---- who passes ---------------------------------------------------------------------------

    def _note_passing(self, onlooker: Onlooker, found: dict[Task, Sample]) -> None:
        state = onlooker.state
        begun = []
        for allocation in state.running.newest():
            if allocation.rank <= self._last_rank:
                break
            begun.append(allocation.task)
        begun.reverse()
        for task in self._live:
            passed = self.passed.setdefault(task.index, {})
            for other in begun:
                if other.index > task.index and other.job_index not in passed:
                    listed = len(passed) < 3 * MOST_TOLD
                    why = self._why(onlooker, task, other, found.get(task)) if listed else ""
                    passed[other.job_index] = Passed(other, state.now, why)

    def _why(self, onlooker: Onlooker, task: Task, other: Task, sample: Sample | None) -> str:
        """Return why another task might start before one that was submitted earlier."""
        if sample is None:
            return "it was not held back, but this job was"
        if _apart(task, other):
            return "it runs in another partition, on other machines"
        if other.priority != task.priority:
            higher = other.priority > task.priority
            return f"its partition has a {'higher' if higher else 'lower'} priority" + (
                "" if higher else ", but it fits where this job does not"
            )
        if self._was_ahead(onlooker, task, other):
            return "the order of the policy puts it first"
        line = next((each for each in onlooker.lines() if task in each.tasks), None)
        if line is not None and line.passing in ("head", "all"):
            return self._backfilled(onlooker, line, other)
        if sample.cause in (Cause.RESOURCE, Cause.FRAGMENTATION):
            return "it fits into what is free, but this job does not"
        return "the policy chose it"

    def _was_ahead(self, onlooker: Onlooker, task: Task, other: Task) -> bool:
        order = getattr(onlooker.policy, "order", None)
        if (key := getattr(order, "key", None)) is not None:
            return bool(key(other) < key(task))
        before = self.samples.get(task.index, [])
        return len(before) > 1 and other in before[-2][1].ahead

    def _backfilled(self, onlooker: Onlooker, line: Line, other: Task) -> str:
        """Return which rule of backfilling let a task start."""
        head, now = line.tasks[0], onlooker.state.now
        shadow_s = shadow_time_s(onlooker, head)
        name = self._workload.job_id[head.job_index]
        if now + other.estimate_s <= shadow_s:
            left = "" if shadow_s == inf else f", in {format_duration(shadow_s - now)}"
            return f"backfilled: by its estimate it ends before job {name} can start{left}"
        return f"backfilled: it leaves job {name} what that needs"


def _apart(task: Task, other: Task) -> bool:
    if task.machines is None or other.machines is None:
        return False
    return not {*task.machines} & {*other.machines}


def shadow_time_s(onlooker: Onlooker, head: Task) -> float:
    """Return when the head of a queue can start by all that is expected; infinity: never."""
    found = onlooker.profile().earliest(head)
    return inf if found is None else found[0]
