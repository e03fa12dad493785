"""Intervals of a wait: what blocked a job from when to when, and by whom; they add up exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isinf
from typing import Any

import numpy as np

from simkit.policy.task import Allocation, Task
from simkit.text import amount_text, counted
from simkit.why.causes import MEANINGS, Cause
from simkit.why.samples import Sample
from simkit.why.watcher import JobId, Watcher
from simkit.workload import Workload

_FEW = 4
"""Jobs that a sentence names."""


@dataclass(frozen=True)
class Interval:
    """A stretch of a wait in which the same kept the job waiting."""

    start_s: float
    """On the trace's clock, in s."""
    end_s: float
    cause: Cause
    jobs: tuple[JobId, ...]
    """The jobs that blocked it: without all of them it would have started at `start_s`."""
    ahead: int
    """How many tasks were ahead of it in the queue."""
    short: dict[str, float] = field(default_factory=dict)
    """Resource → how much less than it asked for was free, on all machines that it may use."""
    needs: str = ""
    """What has to go besides the jobs: ``capacity`` that is away, a ``window`` that begins later;
    empty: nothing."""
    sentence: str = ""
    """What blocked it, for people."""
    limit: str = ""
    """The limit of a number of jobs or tasks that held it back, for people; empty: none did."""
    own: JobId | None = None
    """Its own job, which is among those that blocked it if another of its tasks did."""

    @property
    def length_s(self) -> float:
        """Its length, in s."""
        return self.end_s - self.start_s

    def as_json(self) -> dict[str, Any]:
        """Return the interval for scripts."""
        return {
            "start_s": self.start_s, "end_s": self.end_s, "cause": str(self.cause),
            "jobs": list(self.jobs), "ahead": self.ahead, "short": self.short,
            "sentence": self.sentence,
        }  # fmt: skip


class IntervalMaker:
    """Makes intervals of the samples of a run that has been watched to its end."""

    def __init__(
        self,
        watcher: Watcher,
        workload: Workload,
        resources: Sequence[str],
        job_end_s: dict[JobId, float],
        ends_s: np.ndarray[Any, np.dtype[np.float64]] | None = None,
    ) -> None:
        """`ends_s`: when anything ended, ascending, if decisions wait for a clock; else None."""
        self._watcher, self._workload, self._resources = watcher, workload, resources
        self._job_end_s, self._ends_s = job_end_s, ends_s

    def of(self, task_row: int, begin_s: float, end_s: float) -> list[Interval]:
        """Return the intervals of a task's wait from a time to another, without gaps."""
        pieces = [*self._pieces(task_row, begin_s, end_s)]
        merged: list[Interval] = []
        for piece in pieces:
            last = merged[-1] if merged else None
            alone = piece is pieces[-1] and self._is_held(task_row, piece)
            if last is not None and _facts(last) == _facts(piece) and not alone:
                merged[-1] = replace(last, end_s=piece.end_s)
            else:
                merged.append(piece)
        return merged

    def _is_held(self, task_row: int, piece: Interval) -> bool:
        """Return whether the last piece is that of a task that starts once it is let in.

        What happens to its rivals in the queue is not in the facts of its pieces, so that only the
        last of them is known to be blocked by what it names.
        """
        samples = self._watcher.samples.get(task_row, [])
        return any(time == piece.start_s and sample.rivals > 0 for time, sample in samples[-1:])

    def _pieces(self, task_row: int, begin_s: float, end_s: float) -> Iterator[Interval]:
        if not end_s > begin_s:
            return
        samples = self._watcher.samples.get(task_row, [])
        # Of several decisions at one instant, the last tells what is until the next.
        inside = [*{time: (time, s) for time, s in samples if begin_s <= time < end_s}.values()]
        first = inside[0][0] if inside else end_s
        if first > begin_s:
            yield self._clock(begin_s, first)
        for number, (time, sample) in enumerate(inside):
            until = inside[number + 1][0] if number + 1 < len(inside) else end_s
            changed = self._changed(time, until) if until == end_s else until
            yield self._interval(task_row, sample, time, changed)
            if changed < until:
                yield self._clock(changed, until)

    def _changed(self, begin_s: float, end_s: float) -> float:
        """Return when something last ended strictly between two decisions, or the second."""
        if self._ends_s is None:
            return end_s
        place = int(np.searchsorted(self._ends_s, end_s)) - 1
        last = float(self._ends_s[place]) if place >= 0 else begin_s
        return last if begin_s < last < end_s else end_s

    @staticmethod
    def _clock(begin_s: float, end_s: float) -> Interval:
        sentence = "decisions are made at multiples of a period alone; it waits for the next"
        return Interval(begin_s, end_s, Cause.CLOCK, (), 0, sentence=sentence)

    def _interval(self, row: int, sample: Sample, begin_s: float, end_s: float) -> Interval:
        task = self._watcher.tasks[row]
        names = self._names(sample.ahead)
        if sample.known:
            names = self._let_in_first(sample)
        holders: list[JobId] = []
        if sample.needs in ("room", "capacity") and sample.scene is not None:
            holders, suffices = self._holders(task, sample)
            needs = "" if suffices else "capacity"
        else:
            needs = sample.needs
        short = {
            name: amount
            for name, amount in zip(self._resources, sample.short, strict=False)
            if amount
        }
        if sample.needs == "capacity" and sample.cause is not Cause.ORDER:
            needs, holders = "capacity", []
        takers = self._names(sample.takers)
        gone = self._names(sample.gone)
        jobs = tuple(dict.fromkeys([*names, *holders, *takers, *gone]))
        (own,) = self._names([task])
        sentence = _sentence(sample, names, holders, short, own)
        if takers:
            sentence += f", and {few_jobs(takers, own)} would take the place"
        limit = sample.says if sample.cause in (Cause.USER_LIMIT, Cause.ADMISSION) else ""
        return Interval(
            begin_s, end_s, sample.cause, jobs, sample.place, short, needs, sentence, limit, own
        )

    def _names(self, tasks: Sequence[Task]) -> list[JobId]:
        rows = [task.job_index for task in tasks]
        return list(dict.fromkeys(self._workload.job_id[rows].tolist())) if rows else []

    def _let_in_first(self, sample: Sample) -> list[JobId]:
        """Return those ahead, and of those let in the one whose end makes the place."""
        ahead = self._names(sample.ahead[sample.known :])
        let_in = self._names(sample.ahead[: sample.known])
        if sample.cause is not Cause.USER_LIMIT:
            return [*let_in, *ahead]
        let_in.sort(key=lambda job: self._job_end_s.get(job, inf))
        return [*let_in[:1], *ahead]

    def _holders(self, task: Task, sample: Sample) -> tuple[list[JobId], bool]:
        """Return the running jobs whose ends make room first, and whether they make enough."""
        assert sample.scene is not None
        room = sample.scene.room.copy()
        released = self._watcher.released_s
        running = [a for a in sample.scene.running if a.task is not task]
        running.sort(key=lambda allocation: (released(allocation), allocation.rank))
        gone: list[Task] = []
        last = -inf
        fits = False
        for allocation in running:
            if fits and released(allocation) > last:
                break
            last = released(allocation)
            room.give(allocation.on, allocation.task.request)
            gone.append(allocation.task)
            fits = fits or _has_room(room, task, sample.resumes)
            if fits and isinf(last):
                break
        return self._names(gone), fits


def _has_room(room: Any, task: Task, resumes: Allocation | None) -> bool:
    if resumes is not None:
        return bool(room.copy().claim(resumes.on, task.request))
    return room.fit(task) is not None


def _facts(interval: Interval) -> tuple[object, ...]:
    return (
        interval.cause, interval.jobs, interval.short, interval.ahead, interval.needs,
        interval.sentence,
    )  # fmt: skip


# ---- sentences ----------------------------------------------------------------------------------


def few_jobs(jobs: Sequence[JobId], own: JobId | None = None) -> str:
    """Return ``job 7``, ``jobs 7, 8 and 9``, or the first few and how many more.

    For the job `own`, it is another task.
    """
    if own in jobs:
        others = [job for job in jobs if job != own]
        sibling = "another task of its job"
        return f"{few_jobs(others)} and {sibling}" if others else sibling
    if len(jobs) == 1:
        return f"job {jobs[0]}"
    if len(jobs) <= _FEW:
        return f"jobs {', '.join(map(str, jobs[:-1]))} and {jobs[-1]}"
    return f"jobs {', '.join(map(str, jobs[:_FEW]))} and {len(jobs) - _FEW:,} more"


def _amounts(short: dict[str, float]) -> str:
    return " and ".join(amount_text(amount, name) for name, amount in short.items())


def _sentence(
    sample: Sample,
    names: Sequence[JobId],
    holders: Sequence[JobId],
    short: dict[str, float],
    own: JobId,
) -> str:
    """Return what blocked a task of the job `own`."""
    lacks = f"short by {_amounts(short)}" if short else ""
    held_by = f"; {few_jobs(holders, own)} must end first" if holders else ""
    jobs = few_jobs(names, own) if names else ""
    match sample.cause:
        case Cause.RESOURCE:
            if sample.resumes is not None:
                return f"suspended; its place is taken{held_by}"
            behind = f"; {counted(sample.place, 'task')} ahead" if sample.place else ""
            return f"{lacks}{held_by}{behind}"
        case Cause.FRAGMENTATION:
            return f"enough is free in all, but scattered over machines{held_by}"
        case Cause.ORDER:
            also = f"; also {lacks or 'free resources are scattered'}" if sample.needs else ""
            return f"behind {jobs}, which wait{'s' if len(names) == 1 else ''}{also}"
        case Cause.RESERVATION:
            return f"would delay the start of {jobs}"
        case Cause.SUSPENDED_FIRST:
            if sample.resumes is not None:
                return f"it was suspended, and its place is taken{held_by}"
            return f"what is free is kept for {jobs or 'what is suspended'}"
        case Cause.RESERVED:
            return sample.says or f"would collide with what is reserved for {jobs}"
        case Cause.WINDOW_AHEAD:
            return "by its estimate it would not end before a maintenance window begins"
        case Cause.USER_LIMIT:
            more = f"; also {lacks}" if lacks else ""
            return f"{sample.says}; in its way: {jobs}{more}"
        case Cause.ADMISSION:
            return f"{sample.says}, {sample.place:,} ahead in the backlog"
        case Cause.POLICY:
            return sample.says or "the policy does not start it, and does not say why"
        case Cause.POWER | Cause.MAINTENANCE | Cause.MACHINES_DOWN:
            first = f"; {jobs} would start first" if jobs else ""
            return f"{lacks or sample.says or 'no machine has room'}{first}"
    return MEANINGS[sample.cause].blocked
