"""Run time estimates from a model that learns from finished jobs during a run.

    estimates: {type: learned, correction: tsafrir}

Whenever enough further jobs have finished, a model is fitted to their features at submission and
their run times. Until the first fit, the estimate is the mean of the user's last two run times, as
in Tsafrir, Etsion and Feitelson (2007), or the request until two jobs have finished; see
`simkit.policy.estimates.UserMean`. E. Gaussier, D. Glesser, V. Reis and D. Trystram, "Improving
backfilling by using machine learning to predict running times" (2015), learn from similar features.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from math import ceil, inf, isnan, log, log1p
from typing import Final, Literal

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.learners.run_times.boosted_trees import BoostedTrees
from simkit.learners.run_times.burst_models import Model, require_library
from simkit.learners.run_times.examples import Examples
from simkit.policy.estimates import UserMean
from simkit.policy.task import Task
from simkit.units import DAY_S, ENDLESS_S, time_on_grid
from simkit.workload import Workload

__all__ = ["JOB_FEATURES", "JobHistory", "LearnedRunTimes"]

_TREES = {"n_estimators": 100, "learning_rate": 0.1, "max_depth": 5, "min_samples_leaf": 10}

_BATCH, _LEAST_STEPS = 128, 1000
_LEAST_EXAMPLES = 50  # for a fit
_UNKNOWN_S = 3600.0  # the estimate of a job without a request before any has finished


class LearnedRunTimes(UserMean):
    """Estimates by a model that is refitted to the past, never above the request.

    Args:
        model: ``trees``, boosted trees of the logarithm of the run time. They predict geometric
            means, which long jobs outlive, so the predictions are scaled to sum to the run times of
            the training data (N. Duan, "Smearing estimate: a nonparametric retransformation
            method", 1983). Or ``classes``, the network of
            `simkit.learners.run_times.burst_classifier`, with equally many training jobs in each
            class: the estimate is the classes' mean run time, weighted by probability.
        every: finished jobs between two fits.
        memory: number of the last finished jobs to which a model is fitted.
    """

    def __init__(
        self, model: Literal["trees", "classes"] = "trees", every: int = 1000,
        memory: int = 10_000,
    ) -> None:  # fmt: skip
        super().__init__()
        problems = [
            f"estimates: {name} is {number!r}; it must be a whole number, at least {least}"
            for name, number, least in (("every", every, 1), ("memory", memory, 100))
            if type(number) is not int or number < least
        ]
        if model not in ("trees", "classes"):
            problems.append(f"estimates: model is {model!r}; choose trees or classes")
        if problems:
            raise ScenarioError("\n".join(problems))
        self.model, self.every, self.memory = model, every, memory
        require_library(model, "estimates: type learned")

    def reset(self, workload: Workload, rng: np.random.Generator) -> None:
        super().reset(workload, rng)
        self._rng, self._history = rng, JobHistory(workload)
        self._open: dict[int, list[float]] = {}  # task's index → features
        self._past: deque[tuple[list[float], float]] = deque(maxlen=self.memory)
        self._since = 0
        self._fitted: Model | None = None

    def on_submission(self, task: Task) -> float:
        features = self._open[task.index] = self._history.submit(task)
        # without a request, `estimate_s` is the true run time, which must not be used
        most = inf if isnan(task.requested_time_s) else task.estimate_s
        if self._fitted is not None:
            estimate_s = float(self._fitted.run_time_s(np.array([features]))[0])
        elif len(self._finished.get(task.user, ())) == self.last:
            return super().on_submission(task)
        elif most < inf:
            return most
        elif self._past:
            estimate_s = float(np.mean([time for _, time in self._past]))
        else:
            estimate_s = _UNKNOWN_S
        return min(float(time_on_grid(estimate_s)), most)

    def on_end(self, task: Task, run_time_s: float) -> None:
        super().on_end(task, run_time_s)
        self._history.end(task, run_time_s)
        features = self._open.pop(task.index, None)
        if features is None or run_time_s <= 0:
            return
        self._past.append((features, run_time_s))
        self._since += 1
        if self._since >= self.every and len(self._past) >= _LEAST_EXAMPLES:
            self._since = 0
            self._fitted = self._fit()

    def _fit(self) -> Model:
        features = np.array([features for features, _ in self._past])
        run_time_s = np.array([time for _, time in self._past])
        if self.model == "classes":
            return _by_class(features, run_time_s, self._rng)
        examples = Examples(JOB_FEATURES, features, run_time_s, np.empty(0))
        trees = BoostedTrees.fitted(examples, self._rng, **_TREES)
        factor = float(run_time_s.sum() / trees.run_time_s(features).sum())
        return replace(trees, start=trees.start + log(factor))


def _by_class(features: Floats, run_time_s: Floats, rng: np.random.Generator) -> Model:
    """Return a network that classifies jobs into at most ten classes with equally many jobs."""
    from simkit.learners.run_times.burst_classifier import BurstClassifier, Settings

    edges = np.unique(np.quantile(run_time_s, np.linspace(0.0, 1.0, 11)[1:-1]))
    label = np.searchsorted(edges, run_time_s, side="right")
    edges = edges[np.unique(label)[1:] - 1]  # a class without jobs cannot be learned
    examples = Examples(JOB_FEATURES, features, run_time_s, edges)
    passes = max(20, ceil(_LEAST_STEPS / ceil(len(run_time_s) / _BATCH)))
    settings = Settings((100,), learning_rate=3e-3, falls=True, passes=passes, batch=_BATCH)
    label = examples.label
    mean_s = np.bincount(label, run_time_s) / np.bincount(label)
    return replace(BurstClassifier.fitted(examples, rng, settings), times_s=mean_s)


# --- what a model knows of a job ----------------------------------------------------------------


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
