"""What a log records of the past: when its jobs ran, what they held, and the most in use at once.

A simulation does not need it, as it decides anew when jobs start. It tells how large the machines
were at least, and how long jobs waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import TraceError
from simkit.workload.workload import Workload

GPU = "gpu"


class Peak(NamedTuple):
    """The most of a resource that was in use at one instant."""

    amount: float
    time_s: float
    """The first instant at which it was, in seconds on the trace's clock."""


@dataclass(frozen=True)
class Nodes:
    """The machines on which each job ran; J jobs, n pairs of a job and a machine."""

    names: tuple[str, ...]
    first: Ints
    """(J + 1,) job j ran on ``machine[first[j]:first[j + 1]]``, unknown if that is empty."""
    machine: Ints
    """(n,) rows of `names`."""


@dataclass(frozen=True)
class Recorded:
    """Columns of what a log records of its jobs, (J,) each, in the order of the workload."""

    start_s: Floats
    """Seconds on the trace's clock; NaN where the log does not tell."""
    end_s: Floats
    """As `start_s`; later than the run time says where a job was suspended."""
    held: Mapping[str, Floats]
    """Resource → what each job held in all; NaN where the log does not tell."""
    limit_s: Floats
    """The time limit of each job as the log has it; NaN where it has none."""
    machines: Floats = field(default_factory=lambda: np.empty(0))
    """Number of machines each job ran on; NaN where the log does not tell, or empty."""
    nodes: Nodes | None = None
    """Which machines these were, if the log tells of any job."""
    instance_start_s: Floats = field(default_factory=lambda: np.empty(0))
    """(sum of instances,) as `start_s`, if the log tells of the instances of tasks; or empty."""

    @classmethod
    def without_starts(cls, workload: Workload) -> Recorded:
        """Return what is known of the jobs of a log that does not tell when they started."""
        unknown = np.broadcast_to(np.nan, (len(workload),))
        return cls.started(workload, unknown)

    @classmethod
    def started(cls, workload: Workload, start_s: Floats) -> Recorded:
        """Return what is known of rigid jobs that held what they ask for from their starts on."""
        request = workload.job_request()
        held = {name: request[:, r] for r, name in enumerate(workload.resources)}
        first = workload.first_task[:-1]
        return cls(
            start_s, start_s + workload.run_time_s[first], held, workload.requested_time_s[first]
        )

    @property
    def started_jobs(self) -> int:
        """How many jobs have a recorded start."""
        return int(np.isfinite(self.start_s).sum())

    def waits_s(self, workload: Workload) -> Floats:
        """Return the waits that the log records, from submission to start, of those it does.

        A start before the submission is no wait.
        """
        waits = self.start_s - workload.submit_time_s
        found: Floats = waits[waits >= 0]
        return found

    def gpu_jobs(self) -> int | None:
        """Return how many jobs had gpus; None if the log does not tell of gpus."""
        return int((self.held[GPU] > 0).sum()) if GPU in self.held else None

    def peak(self, resource: str, rows: Ints | slice = slice(None)) -> Peak | None:
        """Return the most of a resource in use at once by some jobs; None if no start is known."""
        return peak_use(self.start_s[rows], self.end_s[rows], self.held[resource][rows])


def peak_use(start_s: Floats, end_s: Floats, amount: Floats) -> Peak | None:
    """Return the largest sum of what was in use at one instant, and when it was first.

    Args:
        start_s: (n,) when each began to be in use, NaN where unknown: such ones do not count.
        end_s: (n,) when it no longer was. What ends at an instant has left before others start.
        amount: (n,) of each, at least 0; NaN, where it is not known, adds nothing.

    Returns None if no start is known.
    """
    known: Bools = np.isfinite(start_s) & np.isfinite(end_s)
    if not known.any():
        return None
    size = np.nan_to_num(amount[known])
    time = np.concatenate((end_s[known], start_s[known]))
    change = np.concatenate((-size, size))
    order = np.argsort(time, kind="stable")  # ends stand first, and stay so at one instant
    in_use = np.cumsum(change[order])
    most = int(np.argmax(in_use))
    if in_use[most] <= 0:
        return Peak(0.0, float(start_s[known].min()))
    return Peak(float(in_use[most]), float(time[order[most]]))


def with_recorded_starts(workload: Workload, past: Recorded) -> Workload:
    """Return the workload with the starts of its tasks, for a policy that replays them.

    All tasks of a job start with it unless the log tells of instances: then each does by its own.
    """
    tasks = np.repeat(past.start_s, np.diff(workload.first_task))
    if not len(past.instance_start_s):
        return workload.with_columns(recorded_start_s=tasks)
    begun = np.cumsum(workload.instances) - workload.instances
    first = np.fmin.reduceat(past.instance_start_s, begun)
    return workload.with_columns(
        recorded_start_s=first, instance_recorded_start_s=past.instance_start_s
    )


class Past:
    """What a log records of when its tasks started, for the policy that replays it, and for none.

    A run makes it before it reads the log, hands it to that policy, and fills it in. The policy
    counts in it what it could start as recorded.
    """

    def __init__(self) -> None:
        self._of_job: list[float] = []
        self._of_task: list[float] = []
        self._of_instances = self._first = np.empty(0)
        self.jobs_without = 0
        """Jobs without a recorded start."""
        self.as_recorded = 0
        """Gangs, and instances of bags, that started when the log says."""
        self.later_s: dict[str, list[float]] = {}
        """Reason → by how many seconds each of those started later."""

    def fill(self, workload: Workload) -> None:
        """Take the recorded starts of a workload, with which a run begins.

        Raises TraceError if it has none.
        """
        starts = workload.recorded_start_s
        if len(workload) and not np.isfinite(starts).any():
            raise TraceError(
                "policy.recorded: the log does not tell when any of its jobs started; use a log "
                "with recorded starts (`simkit trace info` shows them), or another policy"
            )
        self._of_task = starts.tolist()
        self._of_job = np.fmin.reduceat(starts, workload.first_task[:-1]).tolist()
        self._of_instances = workload.instance_recorded_start_s
        self._first = np.concatenate(([0], np.cumsum(workload.instances)))

    def forget_counts(self) -> None:
        """Begin a new run of the same workload."""
        self.jobs_without = self.as_recorded = 0
        self.later_s = {}

    @property
    def tells_of_instances(self) -> bool:
        """Whether the instances of a task have starts of their own."""
        return len(self._of_instances) > 0

    def starts_of(self, row: int) -> list[float]:
        """Return when the instances of a task in a row started, ascending, NaN last."""
        starts: list[float] = np.sort(
            self._of_instances[self._first[row] : self._first[row + 1]]
        ).tolist()
        return starts

    def start_of(self, row: int) -> float:
        """Return when the first instance of a task in a row started; NaN if the log is silent."""
        return self._of_task[row]

    def start_of_job(self, row: int) -> float:
        """Return when the first task of a job in a row started; NaN if no start is known."""
        return self._of_job[row]

    def facts(self) -> dict[str, Any]:
        """Return what `run.json` says of it: counts, and delays in s."""
        later = [late for each in self.later_s.values() for late in each]
        return {
            "started_as_recorded": self.as_recorded,
            "started_later": {reason: len(late) for reason, late in self.later_s.items()},
            "later_s": {"mean": fsum(later) / len(later), "max": max(later)} if later else None,
            "jobs_without_recorded_start": self.jobs_without,
        }
