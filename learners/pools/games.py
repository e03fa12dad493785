"""Games of logs on one pool as arrays: the fast form of simulations; see `Games`.

They begin, show, allow, pay and end as simulations do, number for number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import polars as pl

from simkit.agent.encoder import Numbers, squashed_column
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import PolicyError
from simkit.learners.pools.jobs import PoolJobs
from simkit.machine_code import kernels
from simkit.results.job_metrics import JOB_METRICS
from simkit.training.judge import values_so_far

__all__ = ["PoolGames", "PoolRules", "PoolSlice"]

JUDGED: Final = ("slowdown", "bounded_slowdown", "wait_time_s")
"""Metrics of jobs by which games are judged."""


@dataclass(frozen=True)
class PoolSlice:
    """What is played: jobs on a pool, and what they cost."""

    jobs: PoolJobs
    instances: Ints
    """(J,)"""
    cost: Floats
    """(J,) per second in the system, or of waiting."""


@dataclass(frozen=True)
class PoolRules:
    """What actions mean, what is paid, and what is seen."""

    slots: int
    """M, the waiting jobs to choose from."""
    heads: bool
    """Whether an action makes a job the head, as `NextHead`; else it starts one, `QueueActions`."""
    floor: bool
    """Whether what a job costs is at least 1."""
    waits: bool
    """Whether only waiting costs."""
    time_scale_s: float
    count_scale: float
    priority: float
    """The priority of all jobs."""
    tau_s: float
    """Floor of the run time in bounded slowdowns."""
    steps: int
    """Time steps in which the jobs of a slice are submitted."""
    most: int
    """Decisions after which an episode is cut off."""


class PoolGames:
    """N episodes on pools; episode n plays slice n // `replicas`.

    Attributes:
        active: (A,) numbers of the active episodes.
        cut: (N,) whether each was cut off before its end.
    """

    def __init__(self, slices: Sequence[PoolSlice], rules: PoolRules, replicas: int = 1) -> None:
        """Begin all episodes; raises PluginError without numba."""
        self._kernel = kernels("simkit.learners.pools.decisions")
        self._slices, self.rules, self._replicas = slices, rules, replicas
        count = len(slices) * replicas
        self._slice = np.repeat(np.arange(len(slices)), replicas)
        self._table = self._kernel.Table(*self._columns())
        most = max((len(one.jobs) for one in slices), default=0)
        numbers, counts = self._kernel.REST + 1, self._kernel.HEAD + 1
        self._games = self._kernel.Games(
            self._slice, np.zeros((count, numbers)), np.zeros((count, counts), np.int64),
            *(np.zeros((count, most), np.int32) for _ in range(3)),
            np.full((count, most), np.nan), *(np.zeros(count, np.bool_) for _ in range(2)),
            *(np.zeros(count, np.int64) for _ in range(2)), *self._clock(),
        )  # fmt: skip
        self._rules = self._kernel.Rules(
            rules.slots, rules.heads, rules.floor, rules.waits, rules.time_scale_s,
            rules.count_scale, float(squashed_column(np.array([rules.priority]), 1.0)[0]),
            64.0 * rules.steps, rules.most,
        )  # fmt: skip
        k, state = self._kernel, (self._table, self._games, self._rules)
        k.begin_all(*state, k.NOBODY)
        self._step = k.step_all.bound(*state, k.NOBODY)
        self._show = k.look_all.bound(*state)
        self.cut = self._games.cut
        self.active: Ints = np.flatnonzero(~self._games.over)
        self._kept: dict[tuple[Any, int], Floats] = {}  # keys of jobs by order and slice

    def _clock(self) -> tuple[Floats, Floats]:
        """Return (N,) when the first jobs come, and (N,) the length of a time step, in s."""
        submit = [one.jobs.submit_s for one in self._slices]
        begin_s = np.array([s[0] for s in submit])[self._slice]
        span_s = np.array([s[-1] - s[0] for s in submit])
        return begin_s, np.maximum(span_s / self.rules.steps, 1.0)[self._slice]

    def _columns(self) -> tuple[Any, ...]:
        """Return the columns of the kernel's table."""
        jobs, rules = [one.jobs for one in self._slices], self.rules
        size = np.array([float(one.size) for one in jobs])
        lengths = [len(one) for one in jobs]
        estimate = _joined([one.requested_s for one in jobs])
        processors = _joined([one.processors for one in jobs])
        instances = _joined([one.instances.astype(np.float64) for one in self._slices])
        share = np.repeat(1.0 / size, lengths)
        shown = (
            squashed_column(estimate, rules.time_scale_s),
            np.minimum(processors * share, 1.0),
            squashed_column(instances, rules.count_scale),
        )
        return (
            np.cumsum([0, *lengths]), size, _joined([one.submit_s for one in jobs]),
            _joined([one.run_s for one in jobs]), processors, estimate,
            np.full(len(estimate), -1, np.int32), _joined([one.cost for one in self._slices]),
            np.stack(shown, axis=1).astype(np.float32),
        )  # fmt: skip

    @property
    def steps(self) -> Ints:
        """(N,) time steps that have passed."""
        steps: Ints = self._games.steps
        return steps

    def waiting(self) -> Ints:
        """Return (A,) how many jobs wait."""
        waiting: Ints = self._games.counts[self.active, self._kernel.WAITING]
        return waiting

    def observe(self) -> Numbers:
        """Return (A, 5 + 7 M) float32: the context, then the jobs."""
        return self._look[0]

    def mask(self) -> Bools:
        """Return (A, M + 1) which actions do something."""
        return self._look[1]

    @cached_property
    def _look(self) -> tuple[Numbers, Bools]:
        """What is seen, and what is allowed, until the next step."""
        rows, slots, k = len(self.active), self.rules.slots, self._kernel
        # The order in memory in which simulations show it: a network adds up in that order
        seen = np.zeros((k.CONTEXT + k.ITEM * slots, rows), np.float32).T
        mask = np.zeros((rows, slots + 1), np.bool_)
        self._show(self.active, seen, mask)
        return seen, mask

    def step(self, actions: Ints) -> Floats:
        """Take (A,) actions; return (A,) rewards.

        Raises PolicyError for a number that is not an action.
        """
        active, slots = self.active, self.rules.slots
        if len(actions) and not (actions.min() >= 0 and actions.max() <= slots):
            raise PolicyError(f"actions {actions}: each must be one of 0 … {slots}")
        rewards = np.zeros(len(active))
        self._step(active, np.asarray(actions, np.int64), rewards)
        self.__dict__.pop("_look", None)
        self.active = active[~(self._games.over | self.cut)[active]]
        return rewards

    def first_by(self, order: Any) -> Ints:
        """Return (A,) the first by an order of what may be chosen; if nothing, the void action."""
        mask, keys = self.mask(), np.full((len(self.active), self.rules.slots), np.inf)
        for row, n in enumerate(self.active):
            shown = min(self._games.counts[n, self._kernel.WAITING], self.rules.slots)
            keys[row, :shown] = self._keys(order, n, self._games.queue[n, :shown])
        keys[~mask[:, :-1]] = np.inf
        return np.where(mask[:, :-1].any(axis=1), keys.argmin(axis=1), self.rules.slots)

    def _keys(self, order: Any, n: int, shown: Ints) -> Floats:
        """Return the keys of some jobs that wait in an episode."""
        jobs = self._slices[self._slice[n]].jobs
        if hasattr(order, "keys"):  # it changes as tasks wait
            now = self._games.at[n, self._kernel.NOW]
            changing: Floats = order.keys(_Waiting(now, jobs, shown))
            return changing
        known = self._kept.setdefault((order, int(self._slice[n])), np.full(len(jobs), np.nan))
        for job in shown[np.isnan(known[shown])].tolist():
            known[job] = order.key(_Job(jobs, job))
        found: Floats = known[shown]
        return found

    @property
    def start_s(self) -> list[Floats]:
        """N arrays (J,): the starts of jobs in s; NaN: not started."""
        starts = []
        for n, s in enumerate(self._slice.tolist()):
            own = self._games.start[n, : len(self._slices[s].jobs)].copy()
            came, waits = self._games.counts[n, [self._kernel.TO_COME, self._kernel.WAITING]]
            own[came:] = np.nan
            own[self._games.queue[n, :waits]] = np.nan
            starts.append(own)
        return starts

    def outcome(self) -> Mapping[str, float]:
        """Return figures over all jobs; what has not ended counts with its value so far.

        Returns:
            ``jobs``, ``unfinished``, and ``decisions``: mean of an episode; of a single replica
            ``slowdown``, ``bounded_slowdown`` and ``wait_time_s`` as well: means over all jobs.
        """
        counts, k = self._games.counts, self._kernel
        jobs = sum(len(self._slices[s].jobs) for s in self._slice.tolist())
        ended = (counts[:, k.TO_COME] - counts[:, k.WAITING] - counts[:, k.ACTIVE]).sum()
        found = {
            "jobs": float(jobs), "unfinished": float(jobs - ended),
            "decisions": float(self._games.decisions.mean()),
        }  # fmt: skip
        return {**self._judged(), **found} if self._replicas == 1 else found

    def _judged(self) -> dict[str, float]:
        metrics = {metric.name: metric for metric in JOB_METRICS}
        runs = [self._jobs_of(n) for n in range(len(self._slice))]
        found = {}
        for name in JUDGED:
            value = metrics[name].value(self.rules.tau_s, "processors")
            rows = [values_so_far(jobs, value, last_s) for jobs, last_s in runs]
            jobs = sum(map(len, rows))
            found[name] = sum(float(row.sum()) for row in rows) / jobs if jobs else float("nan")
        return found

    def _jobs_of(self, n: int) -> tuple[pl.DataFrame, float]:
        """Return the jobs that have come as a table, as a run has them, and the last instant."""
        jobs, now = self._slices[self._slice[n]].jobs, self._games.at[n, self._kernel.NOW]
        came = self._games.counts[n, self._kernel.TO_COME]
        start, submit, run = self.start_s[n][:came], jobs.submit_s[:came], jobs.run_s[:came]
        end = start + run
        end[end > now] = np.nan
        run_so_far = np.where(np.isnan(end), np.nan, run)
        columns = {
            "submit_time_s": submit, "start_time_s": start, "end_time_s": end,
            "wait_time_s": start - submit, "turnaround_time_s": end - submit,
            "run_time_s": run_so_far, "trace_run_time_s": run, "processors": jobs.processors[:came],
        }  # fmt: skip
        table = pl.DataFrame(columns, nan_to_null=True)
        return table.with_columns(ideal_time_s=pl.lit(None, pl.Float64)), float(now)


class _Job:
    """A job as orders see a task."""

    def __init__(self, jobs: PoolJobs, job: int) -> None:
        self.index, self.submit_time_s = job, float(jobs.submit_s[job])
        self.estimate_s = float(jobs.requested_s[job])
        self.demand = (float(jobs.processors[job]),)


class _Waiting:
    """Jobs that wait as orders see the queue of a state, with its columns."""

    def __init__(self, now: float, jobs: PoolJobs, shown: Ints) -> None:
        self.now, self.queue = now, self
        self.submit_time_s, self.estimate_s = jobs.submit_s[shown], jobs.requested_s[shown]
        self.demand = jobs.processors[None, shown]

    def columns(self) -> Self:
        return self


def _joined(columns: Sequence[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *columns], dtype=np.float64)
