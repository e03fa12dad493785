"""A recorder for episodes: counts what became of the jobs, and keeps no rows unless asked to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import numpy as np

from simkit.recorder import Recorder, Sink, Status
from simkit.workload import Floats, Ints, Workload

_WIDTH, _STATUS = 10, 8
"""Numbers in a row of `Recorder.jobs`, and which of them is the status."""
Loss = Literal["killed", "rejected"]
"""What may become of a job that is worth counting while a run goes on."""
_LOSSES = {"killed": float(Status.KILLED), "rejected": float(Status.REJECTED)}


class Nowhere:
    """Takes tables and forgets them."""

    def write(self, table: str, rows: Any) -> None:
        """Do nothing."""


class EpisodeRecorder(Recorder):
    """Sums jobs up as their rows come; hands the rows on if there is a sink, else drops them."""

    def __init__(
        self,
        workload: Workload,
        resources: tuple[str, ...],
        sink: Sink | None = None,
        losses: Collection[Loss] = (),
    ) -> None:
        super().__init__(workload, resources, Nowhere() if sink is None else sink)
        self._losses = frozenset(_LOSSES[name] for name in losses)
        self._drops = sink is None
        self.keeps_timeline = not self._drops
        self._submit_time_s, self._of = workload.submit_time_s, len(workload)
        self._summed = 0  # numbers of `jobs` that are in the sums
        self._seen = 0  # numbers of `jobs` that `lost` has looked at
        self._lost = 0
        self._counts = np.zeros(len(Status), np.int64)
        self._sums = np.zeros(3)  # of slowdowns, turnaround times and wait times
        self._with_slowdown = 0
        self._last_end_s = -np.inf

    def lost(self) -> int:
        """Return how many jobs have met with one of the `losses` so far."""
        if len(self.jobs) > self._seen:
            statuses = self.jobs[self._seen + _STATUS :: _WIDTH]
            self._seen = len(self.jobs)
            self._lost += sum(status in self._losses for status in statuses)
        return self._lost

    def change_capacity(self, capacity: list[float]) -> None:
        """See `Recorder.change_capacity`."""
        if self._drops:
            self.capacity = capacity
        else:
            super().change_capacity(capacity)

    def flush(self) -> None:
        """See `Recorder.flush`."""
        self._sum_up()
        if self._drops:
            self._drop()
        else:
            super().flush()
        self._summed = self._seen = len(self.jobs)

    def close(self) -> None:
        """See `Recorder.close`."""
        self._sum_up()
        if self._drops:
            self._drop()
        else:
            super().close()
        self._summed = self._seen = 0

    def _drop(self) -> None:
        for rows in (
            self.simple, self.jobs, self.tasks, self.allocations, self.timeline, self.events
        ):  # fmt: skip
            del rows[:]

    def _sum_up(self) -> None:
        """Add the jobs that have come since it was last done."""
        if self.simple:  # jobs of a single task that finished without incident
            task, _, start, end, _ = np.array(self.simple).reshape(-1, 5).T
            row = task.astype(np.int64)
            self._counts[Status.FINISHED] += len(row)
            self._add(self._job_of(row), start, end, self._longest_task_s[row])
        if len(self.jobs) > self._summed:
            self.lost()
            table = np.array(self.jobs[self._summed :]).reshape(-1, _WIDTH)
            self._counts += np.bincount(table[:, _STATUS].astype(np.int64), minlength=len(Status))
            ended = table[table[:, _STATUS] == Status.FINISHED]
            if len(ended):
                job, start, end, run = ended[:, :4].T
                self._add(job.astype(np.int64), start, end, run)

    def _add(self, job: Ints, start: Floats, end: Floats, run: Floats) -> None:
        """Add (J,) finished jobs: rows of the workload, and times."""
        submit = self._submit_time_s[job]
        turnaround, took = end - submit, run > 0
        slowdowns = turnaround / run if took.all() else turnaround[took] / run[took]
        self._sums += (slowdowns.sum(), turnaround.sum(), (start - submit).sum())
        self._with_slowdown += len(slowdowns)
        self._last_end_s = max(self._last_end_s, float(end.max()))

    def summary(self) -> dict[str, float]:
        """Return what became of the jobs; asked for when the run is closed.

        Counts: ``jobs`` of the workload; of these ``finished``, ``killed``, ``rejected``, and
        ``unfinished``: all that did not finish, be they killed, rejected, running, waiting or
        still to come. Means over finished jobs: ``slowdown`` (turnaround / run time, of those that
        took any time), ``turnaround_time_s`` and ``wait_time_s``. ``makespan_s`` is the last end
        of a finished job less the first submission. NaN where nothing finished.
        """
        finished = int(self._counts[Status.FINISHED])
        slowdown, turnaround, wait = self._sums.tolist()
        first = float(self._submit_time_s[0]) if self._of else 0.0
        return {
            "jobs": self._of,
            "finished": finished,
            "killed": int(self._counts[Status.KILLED]),
            "rejected": int(self._counts[Status.REJECTED]),
            "unfinished": self._of - finished,
            "slowdown": slowdown / self._with_slowdown if self._with_slowdown else np.nan,
            "turnaround_time_s": turnaround / finished if finished else np.nan,
            "wait_time_s": wait / finished if finished else np.nan,
            "makespan_s": float(self._last_end_s) - first if finished else np.nan,
        }
