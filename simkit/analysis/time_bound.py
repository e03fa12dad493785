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
- **prices**: with a price for every resource-second ahead, each job takes the start at which its
  own cost and what it pays are least. The sum, less the price of all that there is, is at most the
  cost of any schedule: in that, jobs pay for no more than there is, and none does better than its
  best start. Prices rise where the jobs' choices ask for more than there is, and fall where they
  ask for less (N. Christofides, R. Alvarez-Valdes and J. M. Tamarit, "Project scheduling with
  resource constraints: a branch and bound approach", 1987). Only for jobs that run as a whole.

The bounds know all jobs beforehand, and take the cluster as one pool that always has the most that
its machines ever bring: boundaries of machines and partitions, maintenance, jobs that wait for
others and admission can only make schedules worse. They are for schedules that finish every job
that can ever run, and interrupt none. Of an interrupted job the wait ends where it first starts,
and the bounded slowdown leaves out what passes until it goes on, so that both may be below. The
others hold for them as well, but not prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from heapq import heappop, heappush
from typing import Final, Literal

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError, did_you_mean
from simkit.experiment import Experiment
from simkit.results.metric import counted_resource
from simkit.workload import Workload
from simkit.workload.dependencies import critical_path_s

__all__ = [
    "INTERRUPTED", "METRICS", "TimeBound", "TimedJobs", "bounds_of", "check_bounded",
    "may_interrupt", "time_bound",
]  # fmt: skip

METRICS: Final = (
    "turnaround_time_s", "wait_time_s", "slowdown", "bounded_slowdown",
    "per_processor_bounded_slowdown", "makespan_s",
)  # fmt: skip
"""Metrics that have a bound, by the names in results."""
INTERRUPTED: Final = ("wait_time_s", "bounded_slowdown", "per_processor_bounded_slowdown")
"""Those whose bounds do not hold where jobs may be interrupted."""
Method = Literal["alone", "one machine", "mean work", "prices", "to come", "no job", "interrupted"]

FEW: Final = 5000
"""Jobs up to which prices are looked for, unless it is asked for more."""
PART: Final = 250
"""Jobs whose prices are looked for together. Each part of the jobs is bounded as if the others were
not there, which can only be better for it."""


ROUNDS: Final = 200
"""Steps of the search for prices."""
CELLS: Final = 400
"""Most spans of time with prices of their own."""
PATIENCE: Final = 8
"""Steps without a better bound after which steps become half as long."""
KEPT: Final = 0.5
"""Share of the last direction that is kept in the next."""


@dataclass(frozen=True)
class TimeBound:
    """A lower bound on a metric over all jobs."""

    metric: str
    value: float | None
    """Its mean over the jobs, or the makespan, is at least this; None: unknown, see `method`."""
    method: Method
    """Which of the bounds was the largest, or why there is none: no job has the metric, or jobs may
    be interrupted."""
    jobs: int
    """Jobs that count: those that have the metric and can ever run."""
    left_out: int = 0
    """Jobs that can never run, as they ask for more than there is."""


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
    """(J, R) what it asks for, all tasks together."""
    at_once: Floats
    """(J, R) the most that has to be free at once for it to run."""
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
        """Return the jobs of a workload; with `kill`, tasks end at their requested times.

        Tasks that depend on one that is killed are never run. Of a bag that is killed, one instance
        runs until the limit; what becomes of the others is left open.
        """
        count, held = workload.instances, workload.held_time_s()
        longest = workload.longest_run_time_s()
        as_one = workload.gang | (count == 1)
        if kill:
            over = longest > workload.requested_time_s
            never = _descendants(workload, over)
            limit = np.where(never, 0.0, workload.requested_time_s)
            longest, held = (np.where(over | never, limit, time) for time in (longest, held))
            count = np.where(over & ~as_one, 1, count)
        submit, release = workload.submit_time_s, workload.release_time_s
        first = workload.first_task
        job = np.repeat(np.arange(len(workload)), np.diff(first))
        together = workload.request * np.where(as_one, workload.instances, 1)[:, None]
        of_task = workload.request * (count * held)[:, None]  # (T, R)
        work, half, at_once = np.zeros((3, len(workload), of_task.shape[1]))
        np.add.at(work, job, of_task)
        np.add.at(half, job, of_task * held[:, None] / 2)
        np.maximum.at(at_once, job, together)
        return cls(
            submit_time_s=submit,
            ready_s=np.maximum(submit, release) if len(release) else submit,
            run_time_s=critical_path_s(first, workload.first_parent, workload.parent, longest),
            request=workload.job_request(),
            at_once=at_once,
            work=work,
            half_s=np.divide(half, work, out=np.zeros_like(half), where=work > 0),
            whole=as_one[first[:-1]] & (np.diff(first) == 1),
        )


def _descendants(workload: Workload, tasks: Bools) -> Bools:
    """Return (T,) which tasks depend on some, or on one that does."""
    if not len(workload.parent):
        return np.zeros(len(tasks), np.bool_)
    child = np.repeat(np.arange(len(tasks)), np.diff(workload.first_parent))
    below = np.zeros(len(tasks), np.bool_)
    while True:
        found = below.copy()
        found[child[(tasks | below)[workload.parent]]] = True
        if (found == below).all():
            return below
        below = found


def bounds_of(
    experiment: Experiment, metrics: Sequence[str] = METRICS, *, few: int = FEW
) -> list[TimeBound]:
    """Return lower bounds on metrics of an experiment, whatever its policy; see the module.

    Its jobs run as long as the trace says, or until their requested times if it kills them there.
    Where machines fail, leave or are maintained, or power may run short, jobs may be interrupted.

    Args:
        experiment: whose jobs, cluster and `metrics.tau` count.
        metrics: some of `METRICS`.
        few: see `time_bound`.

    Raises ScenarioError for an unknown metric.
    """
    scenario, workload, cluster = experiment.scenario, experiment.trace.workload, experiment.cluster
    for metric in metrics:
        check_bounded(metric)
    jobs = TimedJobs.of(workload, kill=scenario.walltime == "kill")
    most = dict(zip(cluster.resources, cluster.most_ever().sum(axis=0).tolist(), strict=True))
    capacity = np.array([most.get(name, 0.0) for name in workload.resources])
    counted = workload.resources.index(counted_resource(workload.resources))
    interrupted = bool(
        cluster.failures or cluster.changes or cluster.maintenance or experiment.site
    )
    return [
        time_bound(jobs, capacity, metric, tau=scenario.metrics.tau, counted=counted, few=few,
                   interrupted=interrupted)
        for metric in metrics
    ]  # fmt: skip


def may_interrupt(experiment: Experiment) -> bool:
    """Return whether machines or power may interrupt jobs: no promise that they ever do."""
    cluster = experiment.cluster
    changes = bool(cluster.changes or cluster.maintenance)
    return changes or cluster.failures is not None or experiment.site is not None


def check_bounded(metric: str) -> None:
    """Raise ScenarioError for a metric that has no bound."""
    if metric not in METRICS:
        raise ScenarioError(
            f"--metric {metric}: no bound is known for it{did_you_mean(metric, METRICS)}"
        )


def time_bound(
    jobs: TimedJobs, capacity: Sequence[float] | Floats, metric: str = "turnaround_time_s", *,
    tau: float = 10.0, counted: int = 0, few: int = FEW, interrupted: bool = False,
) -> TimeBound:  # fmt: skip
    """Return a lower bound on a metric that holds for every schedule; see the module.

    Args:
        jobs: J jobs; those that ask for more than there is are left out.
        capacity: (R,) how much there is of each resource, at most, at any time.
        metric: one of `METRICS`.
        tau: least run time of bounded slowdowns, in s.
        counted: number of the resource whose units are the processors.
        few: jobs up to which prices are looked for, which takes a third of a second for every 250.
        interrupted: whether jobs may be interrupted.

    Raises ScenarioError for another metric.
    """
    check_bounded(metric)
    total = np.array(capacity, dtype=np.float64)
    can_run = np.all(jobs.at_once <= total, axis=1)
    left_out = int((~can_run).sum())
    jobs = jobs.take(can_run)
    if interrupted and metric in INTERRUPTED:
        return TimeBound(metric, None, "interrupted", len(jobs), left_out)
    if metric in ("slowdown", "per_processor_bounded_slowdown"):  # others have none
        column = jobs.run_time_s if metric == "slowdown" else jobs.request[:, counted]
        jobs = jobs.take(column > 0)
    if not len(jobs):
        return TimeBound(metric, None, "no job", 0, left_out)
    if metric == "makespan_s":
        value, method = _makespan(jobs, total)
        return TimeBound(metric, value, method, len(jobs), left_out)
    costs = _costs(jobs, metric, tau, counted)
    found: dict[Method, float] = {
        "alone": float(costs.at(jobs.ready_s + jobs.run_time_s).sum()),
        "mean work": _mean_work(jobs, costs, total),
    }
    if metric in ("turnaround_time_s", "wait_time_s"):
        found["one machine"] = _one_machine(jobs, costs, total)
    if len(jobs) <= few and jobs.whole.all() and not interrupted:
        found["prices"] = _prices(jobs, costs, total)
    best = max(found, key=lambda name: found[name])
    return TimeBound(metric, found[best] / len(jobs), best, len(jobs), left_out)


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
        if not units > 0:
            continue
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


def _makespan(jobs: TimedJobs, capacity: Floats) -> tuple[float, Method]:
    """Return the bound on the time from the first submission to the last end, and its method.

    What is ready at T or later ends no sooner than T and all of its work on the whole cluster, for
    each T; and no job ends before its own critical path has passed.
    """
    first = float(jobs.submit_time_s.min())
    alone = float((jobs.ready_s + jobs.run_time_s).max()) - first
    order = np.argsort(jobs.ready_s, kind="stable")[::-1]
    units = np.where(capacity > 0, capacity, np.inf)
    later = np.cumsum(jobs.work[order] / units, axis=0).max(axis=1)
    to_come = float((jobs.ready_s[order] + later).max()) - first
    return (to_come, "to come") if to_come > alone else (alone, "alone")


@dataclass(frozen=True)
class EndCosts:
    """What it costs that job j ends at C: the larger of floor[j] and slope[j] (C - from_s[j])."""

    slope: Floats
    """(J,) at least 0."""
    from_s: Floats
    """(J,) in s."""
    floor: Floats
    """(J,)"""

    def at(self, end_s: Floats) -> Floats:
        """Return the costs of (J,) ends, in s."""
        costs: Floats = np.maximum(self.floor, self.slope * (end_s - self.from_s))
        return costs

    def take(self, rows: Ints) -> EndCosts:
        """Return the costs of some jobs."""
        return EndCosts(self.slope[rows], self.from_s[rows], self.floor[rows])

    def kinks(self) -> Floats:
        """Return (J,) ends from which on costs rise."""
        slope = np.where(self.slope > 0, self.slope, 1.0)
        return np.where(self.slope > 0, self.from_s + self.floor / slope, self.from_s)


def bound_by_prices(
    ready_s: Floats, run_time_s: Floats, request: Floats, costs: EndCosts, capacity: Floats
) -> float:
    """Return a lower bound on the sum of the costs of J jobs that run without interruption.

    The steps are B. T. Polyak's ("Minimization of unsmooth functionals", 1969). Prices are constant
    between some instants, so that what a job pays is piecewise linear in its start, and its best
    start is where a piece ends: the bound is exact for these prices.

    Args:
        ready_s: (J,) from when each may run, in s.
        run_time_s: (J,) how long it runs, in s.
        request: (J, R) what it holds while it runs, at most the capacity.
        costs: of their ends.
        capacity: (R,) what there is at any time.
    """
    used = capacity > 0
    request, capacity = request[:, used], capacity[used]
    starts = _list_schedule(ready_s, run_time_s, request, costs, capacity)
    target = float(costs.at(starts + run_time_s).sum())  # no bound is above it
    choices = _Choices(ready_s, run_time_s, request, costs, _edges(ready_s, starts + run_time_s))
    width = np.diff(choices.edges)
    prices = np.zeros((len(capacity), len(width)))
    direction = np.zeros_like(prices)
    best, length, since = -np.inf, 1.0, 0
    for _ in range(ROUNDS):
        paid, held = choices.cheapest(prices)
        found = paid - float(capacity @ prices @ width)
        since += 1
        if found > best:
            best, since = found, 0
        elif since >= PATIENCE:
            length, since = length / 2, 0
        direction = KEPT * direction + (held / width - capacity[:, None])
        norm = float((direction**2 @ width).sum())
        if norm <= 0 or target - best <= 1e-9 * abs(target):
            break
        prices = np.maximum(prices + length * (target - found) / norm * direction, 0.0)
    return best


def _edges(ready_s: Floats, end_s: Floats) -> Floats:
    """Return instants, ascending, between which prices are constant."""
    instants = np.unique(np.concatenate((ready_s, end_s)))
    if len(instants) > CELLS + 1:
        kept = np.linspace(0, len(instants) - 1, CELLS + 1).round().astype(np.int64)
        instants = instants[kept]
    return instants if len(instants) > 1 else np.append(instants, instants[-1] + 1.0)


class _Choices:
    """The starts among which each job chooses: the ends of the pieces of its costs."""

    def __init__(
        self, ready_s: Floats, run_time_s: Floats, request: Floats, costs: EndCosts, edges: Floats
    ) -> None:
        self.edges, self._request, self._run = edges, request, run_time_s
        ready, run = ready_s[:, None], run_time_s[:, None]
        jobs = len(ready_s)
        at_edges = np.broadcast_to(edges, (jobs, len(edges)))
        starts = np.concatenate((ready, at_edges, at_edges - run, costs.kinks()[:, None] - run), 1)
        self._starts = np.maximum(starts, ready)  # (J, K)
        self._own = np.stack([costs.at(column) for column in (self._starts + run).T], axis=1)
        self._from, self._to = self._place(self._starts), self._place(self._starts + run)

    def _place(self, instants: Floats) -> tuple[Ints, Floats]:
        """Return the span that instants are in, and the seconds since it began."""
        edges = self.edges
        span = np.clip(np.searchsorted(edges, instants, side="right") - 1, 0, len(edges) - 2)
        within = np.clip(instants, edges[0], edges[-1]) - edges[span]
        return span, within

    def cheapest(self, prices: Floats) -> tuple[float, Floats]:
        """Return what the jobs pay at their best starts, and what they then hold.

        Args:
            prices: (R, T) of a unit and second in each of T spans.

        Returns:
            The sum of their costs and of what they pay, and (R, T) resource-seconds in each span.
        """
        total = self._own.copy()
        for asked, price in zip(self._request.T, prices, strict=True):
            before = np.concatenate(([0.0], np.cumsum(price * np.diff(self.edges))))
            (begin, since), (end, until) = self._from, self._to
            paid = before[end] + price[end] * until - before[begin] - price[begin] * since
            total += asked[:, None] * paid
        rows, chosen = np.arange(len(total)), total.argmin(axis=1)
        start = self._starts[rows, chosen][:, None]
        end_s = start + self._run[:, None]
        overlap = np.minimum(end_s, self.edges[1:]) - np.maximum(start, self.edges[:-1])
        held = self._request.T @ np.maximum(overlap, 0.0)
        return float(total[rows, chosen].sum()), held


def _list_schedule(
    ready_s: Floats, run_time_s: Floats, request: Floats, costs: EndCosts, capacity: Floats
) -> Floats:
    """Return (J,) starts of a good schedule: what fits starts at once.

    Of the jobs that wait, those whose cost rises most for their work come first.
    """
    work = (request / capacity).max(axis=1, initial=0.0) * run_time_s
    rank = np.divide(costs.slope, work, out=np.full(len(work), np.inf), where=work > 0)
    waiting = np.argsort(-rank, kind="stable").tolist()
    starts, free = np.zeros(len(ready_s)), capacity.copy()
    running: list[tuple[float, int]] = []
    now = float(ready_s.min())
    while waiting:
        later = []
        for job in waiting:
            if ready_s[job] <= now and (request[job] <= free).all():
                starts[job], free = now, free - request[job]
                heappush(running, (now + float(run_time_s[job]), job))
            else:
                later.append(job)
        waiting = later
        to_come = [float(ready_s[job]) for job in waiting if ready_s[job] > now]
        now = min([end for end, _ in running[:1]] + to_come, default=now)
        while running and running[0][0] <= now:
            free = free + request[heappop(running)[1]]
    return starts
