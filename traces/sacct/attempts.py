"""Attempts of one job: rows of a job that Slurm started again, as opposed to recycled ids.

A job that is requeued or preempted, or whose machine fails, keeps its id; ``sacct --duplicates``
prints a row for each attempt. An id also recurs when Slurm's numbers begin again, in another
cluster of a federation, and in tables put together that overlap. An attempt begins after the one
before has ended, and that one has not completed.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from simkit.arrays import Bools, Ints
from simkit.traces import rules
from simkit.traces.rigid_jobs import Column, RigidJobs
from simkit.traces.rules import Tally

Which = Literal["all", "last"]

LATEST_S: Final = 86_400.0
"""An attempt is submitted at most this long after the end of the one before."""
COLUMNS: Final = ("task", "cluster", "start", "end", "again", "completed")
"""Columns that a job's row gives for this alone: number of the array's task, number of the cluster,
times (NaN where unknown), whether its state says that Slurm starts it again (0 or 1), and that it
completed (0 or 1)."""
_PERSON: Final = ("user", "group", "executable")
_TIMES: Final = ("submit", "start", "end", "run")


class _Pairs:
    """Rows of one id and cluster, each with the one before it in order of time."""

    def __init__(self, jobs: RigidJobs, rows: Ints) -> None:
        self._jobs = jobs
        names = ("line", "start", "submit", "task", "job", "cluster")  # the last is sorted by first
        order = rows[np.lexsort([self._column(name)[rows] for name in names])]
        self.before, self.after = order[:-1], order[1:]
        same = self._equal(("task", "job", "cluster"))
        self.before, self.after = self.before[same], self.after[same]

    def _column(self, name: str) -> Column:
        return self._jobs.column(name)

    def _both(self, name: str) -> tuple[Column, Column]:
        column = self._column(name)
        return column[self.before], column[self.after]

    def _equal(self, names: tuple[str, ...]) -> Bools:
        equal = np.ones(len(self.after), dtype=bool)
        for before, after in map(self._both, names):
            equal &= (before == after) | (np.isnan(before) & np.isnan(after))
        return equal

    def twice(self) -> Ints:
        """Return the rows that repeat the one before."""
        return self.after[self._equal(_TIMES)]

    def started_again(self) -> Bools:
        """Return which pairs are attempts of one job, the second after the first."""
        alike = self._column("completed")[self.before] == 0
        for before, after in map(self._both, _PERSON):
            alike &= (before == after) | (before < 0) | (after < 0)
        end, submit = self._column("end")[self.before], self._column("submit")[self.after]
        soon = np.where(
            np.isfinite(end), submit <= end + LATEST_S, self._column("again")[self.before]
        )
        again: Bools = alike & soon.astype(bool) & ~self._overlap()
        return again

    def _overlap(self) -> Bools:
        """Return which pairs ran at the same time: the second began before the end of the first.

        A missing start or end is reckoned by the run time; without both they do not overlap.
        """
        (first, second), (ended, ends), (ran, runs) = map(self._both, ("start", "end", "run"))
        end = np.where(np.isfinite(ended), ended, first + ran)
        start = np.where(np.isfinite(second), second, ends - runs)
        overlap: Bools = start < end
        return overlap


def rows_left_out(jobs: RigidJobs, which: Which) -> dict[str, Ints]:
    """Return rule → the lines of rows that it leaves out; empty where every row counts."""
    line, every = jobs.column("line"), np.arange(len(jobs))
    twice = _Pairs(jobs, every).twice()
    found = {rules.REPEATED_ROW: twice}
    if which == "last":
        pairs = _Pairs(jobs, np.delete(every, twice))
        found[rules.EARLIER_ATTEMPT] = pairs.before[pairs.started_again()]
    return {rule: np.sort(line[rows]) for rule, rows in found.items() if len(rows)}


def note_repeated_ids(jobs: RigidJobs, tally: Tally) -> None:
    """Note further attempts of a job, and other jobs that have the id of an earlier row."""
    line, job, task = (jobs.column(name) for name in ("line", "job", "task"))
    order = np.lexsort((line, task, job))
    same = (job[order][1:] == job[order][:-1]) & (task[order][1:] == task[order][:-1])
    if not same.any():
        return
    pairs = _Pairs(jobs, np.arange(len(jobs)))
    again = pairs.after[pairs.started_again()]
    tally.note(rules.FURTHER_ATTEMPT, np.sort(line[again]))
    tally.note(rules.REPEATED_ID, np.sort(line[np.setdiff1d(order[1:][same], again)]))
