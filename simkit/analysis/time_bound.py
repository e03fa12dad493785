"""Lower bounds on waits, turnarounds, slowdowns and makespans, which no schedule can beat.

The best schedule is out of reach for more than a few jobs, but it can be bounded from below. For
each job let r be its submission, p its run time, W its work in resource-seconds, and C when it
ends; a metric is the mean of f(C), which grows with C. Each of these is a bound, and the largest is
taken:

- **alone**: no job ends before r + p.
- **one machine**: jobs that may be divided at will on one machine as fast as the whole cluster end
  no later, in the sum, than jobs that may not; and the shortest remaining work first makes that sum
  the least (L. Schrage, "A proof of the optimality of the shortest remaining processing time
  discipline", 1968). For means of turnarounds and waits.
- **mean work**: a job of constant width has done its work p / 2 before its end, in the mean, or
  earlier if it was interrupted. On that one machine the sum of w times the mean instant of a job's
  work is least if the highest w / W goes first, interrupting others (M. X. Goemans, M. Queyranne,
  A. S. Schulz, M. Skutella and Y. Wang, "Single machine scheduling with release dates", 2002). For
  sums of w (C - r), so for slowdowns as well.
- **prices**: with a price for every resource-second ahead, each job takes the start that costs it
  least, whatever the others do, and what the capacity is worth at these prices is taken off; see
  `simkit.analysis.start_prices`. Only for jobs that each run as a whole, and not for too many.

The bounds know all jobs beforehand, and take the cluster as one pool that is always whole:
boundaries of machines and partitions, maintenance, power, failures, jobs that wait for others and
admission can only make schedules worse. They hold for schedules that finish every job and, but for
turnarounds, that do not interrupt any. Prices suppose no interruption at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush
from typing import Final, Literal

import numpy as np

from simkit.analysis.start_prices import EndCosts, bound_by_prices
from simkit.arrays import Bools, Floats
from simkit.errors import ScenarioError, did_you_mean
from simkit.experiment import Experiment
from simkit.results.metric import counted_resource
from simkit.workload import Workload

__all__ = ["METRICS", "Method", "TimeBound", "TimedJobs", "bounds_of", "time_bound"]

METRICS: Final = (
    "turnaround_time_s", "wait_time_s", "slowdown", "bounded_slowdown",
    "per_processor_bounded_slowdown", "makespan_s",
)  # fmt: skip
"""Metrics that have a bound, by the names in results."""
Method = Literal["alone", "one machine", "mean work", "prices"]

FEW: Final = 5000
"""Jobs up to which prices are looked for, unless it is asked for more."""
PART: Final = 250
"""Jobs whose prices are looked for together. Each part of the jobs is bounded as if the others were
not there, which can only be better for it."""


@dataclass(frozen=True)
class TimeBound:
    """A lower bound on a metric over all jobs."""

    metric: str
    value: float
    """Its mean over the jobs, or the makespan, is at least this."""
    method: Method
    """Which of the bounds was the largest."""
    jobs: int
    """Jobs that count: those that have the metric."""


@dataclass(frozen=True)
class TimedJobs:
    """J jobs as the bounds see them, with their true run times."""

    submit_time_s: Floats
    """(J,) from when turnarounds count, in s."""
    ready_s: Floats
    """(J,) from when each may run, in s: its submission or its release."""
    run_time_s: Floats
    """(J,) seconds that it takes at least: its critical path."""
    request: Floats
    """(J, R) what it holds at once, all tasks together."""
    work: Floats
    """(J, R) resource-seconds in all."""
    half_s: Floats
    """(J, R) seconds by which the mean instant of its work lies before its end, at least."""
    whole: Bools
    """(J,) whether it holds the same from its start to its end, so that it waits until it starts;
    others may start with a part of theirs."""

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_time_s)

    def take(self, chosen: Bools) -> TimedJobs:
        """Return the jobs chosen by (J,)."""
        return TimedJobs(*(getattr(self, column.name)[chosen] for column in fields(self)))

    @classmethod
    def of(cls, workload: Workload, *, kill: bool = False) -> TimedJobs:
        """Return the jobs of a workload; with `kill`, tasks end at their requested times."""
        if kill:
            workload = _killed(workload)
        submit, release = workload.submit_time_s, workload.release_time_s
        first, held = workload.first_task[:-1], workload.held_time_s()[:, None]
        as_one = workload.gang[first] | (workload.instances[first] == 1)
        job = np.repeat(np.arange(len(workload)), np.diff(workload.first_task))
        of_task = workload.request * workload.instances[:, None] * held  # (T, R)
        work = np.zeros((len(workload), of_task.shape[1]))
        half = np.zeros_like(work)
        np.add.at(work, job, of_task)
        np.add.at(half, job, of_task * held / 2)
        return cls(
            submit_time_s=submit,
            ready_s=np.maximum(submit, release) if len(release) else submit,
            run_time_s=workload.ideal_time_s(),
            request=workload.job_request(),
            work=work,
            half_s=np.divide(half, work, out=np.zeros_like(half), where=work > 0),
            whole=as_one & (np.diff(workload.first_task) == 1),
        )


def _killed(workload: Workload) -> Workload:
    """Return a workload whose tasks end at their requested times; an unknown one is no limit."""
    limit, each = workload.requested_time_s, workload.instance_run_time_s
    if len(each):
        each = np.fmin(each, np.repeat(limit, workload.instances))
    return replace(
        workload, run_time_s=np.fmin(workload.run_time_s, limit), instance_run_time_s=each
    )


def bounds_of(
    experiment: Experiment, metrics: Sequence[str] = METRICS, *, few: int = FEW
) -> list[TimeBound]:
    """Return lower bounds on metrics of an experiment, whatever its policy; see the module.

    Its jobs run as long as the trace says, or until their requested times if it kills them there.

    Args:
        experiment: whose jobs, cluster and `metrics.tau` count.
        metrics: some of `METRICS`.
        few: see `time_bound`.

    Raises ScenarioError for an unknown metric, or if a job asks for more than there is.
    """
    scenario, workload = experiment.scenario, experiment.trace.workload
    jobs = TimedJobs.of(workload, kill=scenario.walltime == "kill")
    capacity = experiment.cluster.capacity.sum(axis=0)
    counted = workload.resources.index(counted_resource(workload.resources))
    return [
        time_bound(jobs, capacity, metric, tau=scenario.metrics.tau, counted=counted, few=few)
        for metric in metrics
    ]


def time_bound(
    jobs: TimedJobs, capacity: Sequence[float] | Floats, metric: str = "turnaround_time_s", *,
    tau: float = 10.0, counted: int = 0, few: int = FEW,
) -> TimeBound:  # fmt: skip
    """Return a lower bound on a metric that holds for every schedule; see the module.

    Args:
        jobs: J jobs.
        capacity: (R,) how much there is of each resource, at most, at any time.
        metric: one of `METRICS`.
        tau: least run time of bounded slowdowns, in s.
        counted: number of the resource whose units are the processors.
        few: jobs up to which prices are looked for, which takes a third of a second for every 250.

    Raises ScenarioError for another metric, or if a job asks for more than there is.
    """
    if metric not in METRICS:
        raise ScenarioError(
            f"bound: {metric!r} has none{did_you_mean(metric, METRICS)}; there is one for "
            f"{', '.join(METRICS)}"
        )
    total = np.array(capacity, dtype=np.float64)
    if metric == "makespan_s":
        return _makespan(jobs, total)
    if too_large := int(((jobs.request > total).any(axis=1) & jobs.whole).sum()):
        raise ScenarioError(
            f"bound: {too_large} of {len(jobs)} jobs ask for more than there is and can never run"
        )
    if metric in ("slowdown", "per_processor_bounded_slowdown"):  # others have none
        column = jobs.run_time_s if metric == "slowdown" else jobs.request[:, counted]
        jobs = jobs.take(column > 0)
    if not len(jobs):
        return TimeBound(metric, 0.0, "alone", 0)
    costs = _costs(jobs, metric, tau, counted)
    found: dict[Method, float] = {
        "alone": float(costs.at(jobs.ready_s + jobs.run_time_s).sum()),
        "mean work": _mean_work(jobs, costs, total),
    }
    if metric in ("turnaround_time_s", "wait_time_s"):
        found["one machine"] = _one_machine(jobs, costs, total)
    if len(jobs) <= few and jobs.whole.all():
        found["prices"] = _prices(jobs, costs, total)
    method = max(found, key=lambda name: found[name])
    return TimeBound(metric, found[method] / len(jobs), method, len(jobs))


def _costs(jobs: TimedJobs, metric: str, tau: float, counted: int) -> EndCosts:
    """Return what each job's end contributes to the sum of a metric."""
    submit, run, ones = jobs.submit_time_s, jobs.run_time_s, np.ones(len(jobs))
    if metric == "turnaround_time_s":
        return EndCosts(ones, submit, 0 * ones)
    if metric == "wait_time_s":
        return EndCosts(ones * jobs.whole, submit + run, 0 * ones)
    below = run if metric == "slowdown" else np.maximum(run, tau)
    if metric == "per_processor_bounded_slowdown":
        below = below * jobs.request[:, counted]
    return EndCosts(1 / below, submit, ones)


def _one_machine(jobs: TimedJobs, costs: EndCosts, capacity: Floats) -> float:
    """Return the bound by the shortest remaining work first; slopes are 0 or 1."""
    some = costs.slope > 0
    jobs, from_s = jobs.take(some), float(costs.from_s[some].sum())
    sums = [
        float(run_one_at_a_time(jobs.ready_s, work / units)[0].sum())
        for work, units in zip(jobs.work.T, capacity, strict=True)
        if units > 0
    ]
    return max(sums, default=-np.inf) - from_s


def _mean_work(jobs: TimedJobs, costs: EndCosts, capacity: Floats) -> float:
    """Return the bound by the mean instants of the jobs' work."""
    best = -np.inf
    for resource, units in enumerate(capacity):
        work, slope = jobs.work[:, resource], costs.slope
        end_s = jobs.ready_s + jobs.run_time_s
        busy = (work > 0) & (slope > 0)
        rank = -slope[busy] / work[busy]
        _, instants = run_one_at_a_time(jobs.ready_s[busy], work[busy] / units, rank)
        end_s[busy] = instants + jobs.half_s[busy, resource]
        best = max(best, float((slope * (end_s - costs.from_s)).sum()))
    return best


def _prices(jobs: TimedJobs, costs: EndCosts, capacity: Floats) -> float:
    """Return the bound by prices, part by part in order of time."""
    order = np.argsort(jobs.ready_s, kind="stable")
    return sum(
        bound_by_prices(
            jobs.ready_s[part], jobs.run_time_s[part], jobs.request[part], costs.take(part),
            capacity,
        )
        for part in np.array_split(order, -(-len(order) // PART))
    )  # fmt: skip


def run_one_at_a_time(
    ready_s: Floats, seconds: Floats, rank: Floats | None = None
) -> tuple[Floats, Floats]:
    """Run jobs on one machine, the lowest rank first, which interrupts others at once.

    Args:
        ready_s: (J,) from when each may run.
        seconds: (J,) how long it takes.
        rank: (J,); None: the seconds that are left.

    Returns:
        (J,) when each has ended, and (J,) the mean instant at which it was worked on.
    """
    left, ends = seconds.astype(np.float64).tolist(), ready_s.astype(np.float64).tolist()
    moments = [0.0] * len(left)  # integral of the time over the work done
    ready, order = list(ends), np.argsort(ready_s, kind="stable").tolist()
    ranks = left if rank is None else rank.tolist()
    waiting: list[tuple[float, int]] = []
    now, place = -np.inf, 0
    while waiting or place < len(order):
        if not waiting:
            now = max(now, ready[order[place]])
        while place < len(order) and ready[order[place]] <= now:
            heappush(waiting, (ranks[order[place]], order[place]))
            place += 1
        _, job = heappop(waiting)
        until = ready[order[place]] if place < len(order) else np.inf
        done = min(left[job], until - now)
        moments[job] += done * (now + done / 2)
        now += done
        left[job] -= done
        if left[job] > 0 and now < until:
            left[job] = 0.0  # too little to move the clock
        if left[job] > 0:
            heappush(waiting, (ranks[job], job))
        else:
            ends[job] = now
    means = [
        moment / took if took > 0 else end
        for moment, took, end in zip(moments, seconds.tolist(), ends, strict=True)
    ]
    return np.array(ends), np.array(means)


def _makespan(jobs: TimedJobs, capacity: Floats) -> TimeBound:
    """Return the bound on the time from the first submission to the last end.

    What is ready at T or later ends no sooner than T and all of its work on the whole cluster, for
    each T; and no job ends before its own critical path has passed.
    """
    if not len(jobs):
        return TimeBound("makespan_s", 0.0, "alone", 0)
    first = float(jobs.submit_time_s.min())
    found: dict[Method, float] = {"alone": float((jobs.ready_s + jobs.run_time_s).max()) - first}
    order = np.argsort(jobs.ready_s, kind="stable")[::-1]
    units = np.where(capacity > 0, capacity, np.inf)
    later = np.cumsum(jobs.work[order] / units, axis=0).max(axis=1)
    found["one machine"] = float((jobs.ready_s[order] + later).max()) - first
    method = max(found, key=lambda name: found[name])
    return TimeBound("makespan_s", found[method], method, len(jobs))
