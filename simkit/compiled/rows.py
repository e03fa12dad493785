"""The rows that a replay in machine code leaves: those of the engine, in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.compiled.pools import ROW
from simkit.engine.bookkeeping import capacity_event
from simkit.engine.recorder import CHUNK, EventRow, Outcome, Recorder, Status
from simkit.engine.submission import Submission
from simkit.workload.capacity import MachineCapacity
from simkit.workload.cluster import Cluster

__all__ = ["Rows"]

_KILLED: Final = "requested time is over"
_FIELDS: Final = ROW.names or ()
_TIME: Final = itemgetter(0)  # of an event


class Rows:
    """Writes the rows of a replay part by part.

    Args:
        recorder: to which they go.
        submission: of the jobs.
        cluster: whose windows do not recur.
        job: (J,) records, as in `pools.JOB`.
        killed: (J,) whether each is killed when its request is over.
        machine: (P,) the machine of each pool.
    """

    def __init__(
        self, recorder: Recorder, submission: Submission, cluster: Cluster, job: Any,
        killed: Bools, machine: Ints,
    ) -> None:  # fmt: skip
        self._recorder, self._submission = recorder, submission
        self._job, self._killed, self._machine = job, killed, machine
        self._changes = deque(_resized(cluster))

    def write(self, timeline: Any, over: Any) -> None:
        """Write the next rows.

        Args:
            timeline: (D,) as `pools.ROW`, at least one, up to the end of an instant.
            over: (n,) as `pools.OVER`, what was over by then.
        """
        events = [*self._write_timeline(timeline)]
        for first in range(0, len(over), CHUNK):
            events += self._write_ends(over[first : first + CHUNK])
        self._recorder.events += sorted(events, key=_TIME)  # changes of capacity stay first
        self._recorder.flush()

    def close(self) -> None:
        """Write what is left: changes of capacity after the last decision, and all tables."""
        self._recorder.events += [change.event for change in self._changes]
        self._recorder.close()

    def _write_timeline(self, timeline: Any) -> Iterator[EventRow]:
        """Write rows; yield the changes of capacity, each before the first row of its instant."""
        changes, recorder = self._changes, self._recorder
        while changes and changes[0].time <= timeline["time"][-1]:
            rows = int(np.searchsorted(timeline["time"], changes[0].time))
            self._write_decisions(timeline[:rows])
            timeline, change = timeline[rows:], changes.popleft()
            recorder.change_capacity([recorder.capacity[0] + change.more])
            yield change.event
        self._write_decisions(timeline)

    def _write_decisions(self, timeline: Any) -> None:
        if len(timeline) and self._recorder.keeps_timeline:
            columns = (np.ascontiguousarray(timeline[name]) for name in _FIELDS)
            self._recorder.write("timeline", *columns)

    def _write_ends(self, over: Any) -> list[EventRow]:
        """Write the allocation, the task and the job of each; return the refusals."""
        row, time = np.ascontiguousarray(over["job"]), np.ascontiguousarray(over["time"])
        one = self._job[row]
        refused, killed = one["refused"] > 0, self._killed[row] & (one["refused"] == 0)
        none, never = np.zeros(len(row)), np.full(len(row), np.nan)
        reason = np.zeros(len(row), np.int64)
        if killed.any():
            reason[killed] = self._recorder.reason(_KILLED)
        refusals = [*self._refusals(row, time, np.flatnonzero(refused), reason)]
        status = np.where(refused, Status.REJECTED, np.where(killed, Status.KILLED, 0))
        start, end = one["start"], np.where(refused, np.nan, time)
        ready, run = (np.where(refused, np.nan, one[name]) for name in ("submit", "work"))
        attempts = np.where(refused, 0, 1)
        self._write_allocations(row, start, end, killed, one["pool"], ~refused)
        self._recorder.write("tasks", row, ready, start, end, status)
        self._recorder.write(
            "jobs", row, start, end, run, one["estimate"], none, none, attempts, status, reason,
            never,
        )  # fmt: skip
        return refusals

    def _write_allocations(
        self, row: Ints, start: Floats, end: Floats, killed: Bools, pool: Ints, ran: Bools
    ) -> None:
        if not ran.all():
            row, start, end, killed, pool = (a[ran] for a in (row, start, end, killed, pool))
        outcome = np.where(killed, Outcome.KILLED, Outcome.FINISHED)
        count, first = self._submission.workload.instances[row], np.zeros(len(row), np.int64)
        self._recorder.write(
            "allocations", row, row, start, end, outcome, self._machine[pool], first, count,
            first + 1,
        )  # fmt: skip

    def _refusals(self, row: Ints, time: Floats, refused: Ints, reason: Ints) -> Iterator[EventRow]:
        """Yield the events of refused rows; note the numbers of their reasons."""
        routing = self._submission.routing
        for place in refused.tolist():
            job = int(row[place])
            task = self._submission.tasks(job, job + 1)[0]
            text = routing.refusal(task, routing.only) if routing.only else routing.send([task])
            reason[place] = self._recorder.reason(text)
            yield float(time[place]), "rejected", job, -1, -1, text


class _Resized(NamedTuple):
    """A pool that has become larger or smaller."""

    time: float
    more: float
    """How much larger, below 0 if it has become smaller."""
    event: EventRow


def _resized(cluster: Cluster) -> Iterator[_Resized]:
    """Yield the changes of capacity as they are recorded, without those that change nothing."""
    machines, had = MachineCapacity(cluster.capacity), cluster.capacity[:, 0].copy()
    for change in cluster.known_changes():
        machines.change(change)
        (has,) = machines.of(change.machine)
        more = has - float(had[change.machine])
        if more:
            had[change.machine] = has
            facts = {"running": change.running, "cause": change.cause}
            capacity = dict(zip(cluster.resources, (has,), strict=True))
            event = capacity_event(change.time_s, change.machine, capacity, facts)
            yield _Resized(change.time_s, more, event)
