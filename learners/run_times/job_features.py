"""The features from which a job's run time is predicted when it is submitted."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from math import inf, isnan, log1p
from typing import Final

from simkit.policy.task import Task
from simkit.units import DAY_S, ENDLESS_S
from simkit.workload import Workload

__all__ = ["JOB_FEATURES", "JobHistory"]

JOB_FEATURES: Final = (
    "requested_time", "processors", "user", "group", "executable", "queue", "partition",
    "hour", "weekday", "since_submission", "finished", "last", "last_but_one", "mean_of_two",
    "mean", "last_alike", "last_of_executable", "share_of_request",
)  # fmt: skip
"""Names of the features that `JobHistory.submit` returns.

Times are log(1 + s); -1 stands for none. ``finished`` and what follows it describe the user's
finished jobs: their number, the run times of the last two and the mean of these, the mean of all,
the run time of the last job with the same request and of the last with the same executable, and
the share of its requested time that the last one ran."""

_NONE: Final = -1.0


class JobHistory:
    """Submissions and ends so far; a job's features depend on nothing else."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._submitted: dict[int, float] = {}  # user → time of the last submission
        self._finished: dict[int, int] = defaultdict(int)
        self._total: dict[int, float] = defaultdict(float)  # user → Σ log(1 + run time)
        self._last: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=2))
        self._alike: dict[tuple[int, float, float], float] = {}
        self._of_executable: dict[tuple[int, int], float] = {}
        self._share: dict[int, float] = {}

    def submit(self, task: Task) -> list[float]:
        """Return the features of a task being submitted, in the order of `JOB_FEATURES`."""
        user, now = task.user, task.submit_time_s
        executable = self._executable(task)
        last = list(self._last.get(user, ()))
        finished = self._finished[user]
        before = self._submitted.get(user)
        features = [
            _log(task.requested_time_s), log1p(_processors(task)), float(user), float(task.group),
            float(executable), float(task.queue), float(task.partition),
            now % DAY_S / 3600.0, now // DAY_S % 7.0,
            _NONE if before is None else log1p(now - before),
            log1p(finished),
            last[-1] if last else _NONE, last[0] if len(last) == 2 else _NONE,
            _mean(last), self._total[user] / finished if finished else _NONE,
            self._alike.get(_request(task), _NONE),
            self._of_executable.get((user, executable), _NONE), self._share.get(user, _NONE),
        ]  # fmt: skip
        self._submitted[user] = now
        return features

    def end(self, task: Task, run_time_s: float) -> None:
        """Record that a task has ended."""
        user, time = task.user, log1p(run_time_s)
        self._finished[user] += 1
        self._total[user] += time
        self._last[user].append(time)
        self._alike[_request(task)] = time
        self._of_executable[user, self._executable(task)] = time
        if 0 < task.requested_time_s < inf:
            self._share[user] = run_time_s / task.requested_time_s

    def _executable(self, task: Task) -> int:
        return int(self._workload.executable[task.job_index])


def _log(time_s: float) -> float:
    return _NONE if isnan(time_s) else log1p(min(time_s, ENDLESS_S))


def _mean(logs: Iterable[float]) -> float:
    known = list(logs)
    return sum(known) / len(known) if known else _NONE


def _processors(task: Task) -> float:
    """Return the amount of the first resource that all instances ask for."""
    return task.demand[0]


def _request(task: Task) -> tuple[int, float, float]:
    requested = task.requested_time_s
    return task.user, _processors(task), _NONE if isnan(requested) else requested
