"""A pool of one resource over time: what waits, what runs, and when the next decision is.

Written from the documented order of events. At one instant completions come first, then arrivals,
then one decision. What a decision causes at the same instant (a run time of 0) makes another round
with its own decision. With a period, decisions come at the first multiple of it at or after an
event; with steps, at every multiple while jobs wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from simkit.verify.admission import tasks_by_partition
from simkit.verify.audit import ENDLESS, Bools, Floats, Ints
from simkit.verify.audited_run import AuditedRun
from simkit.verify.machines import Window

_DEFAULT_PRICE = 0.5
"""Price of one unit for a time unit, if the scenario has no prices."""


@dataclass(frozen=True)
class PoolJobs:
    """Jobs of one gang each on a pool of one resource; arrays of shape (J,)."""

    row: Ints
    """Row in the table of jobs."""
    rank: Ints
    """Place in the order of (submit time, job id), rejected jobs included."""
    rejected: Bools
    """Whether it never enters the queue."""
    submit: Floats
    run: Floats
    """From start to end in s: the true run time, or less if the job is killed."""
    requested: Floats
    """NaN if there is no request."""
    estimate: Floats
    """At submission."""
    size: Floats
    """What all instances request together."""
    instances: Floats
    request: Floats
    """What one instance requests."""
    partition: Ints
    """Row of its partition; 0 if none admits it."""
    priority: Floats
    """That of its partition; larger goes first."""
    treatment: list[str | None]
    """How it is preempted, as its partition says: ``requeue``, ``cancel``, or None, not at all.
    Empty if no job is."""
    retries: Floats
    """How often it may start over; infinity without a limit of its own."""
    account: Ints
    """Number of the pair of user and partition whose running jobs are limited; -1: none."""
    most_running: Floats
    """How many jobs of the account may run at a time."""
    qos: Floats
    value: Floats
    """By the estimate; NaN if it does not follow from the scenario."""
    deadline: Floats
    """Infinity if there is none."""

    @classmethod
    def of(cls, run: AuditedRun) -> Self:
        """Return the jobs by rank."""
        jobs = _jobs(run)
        estimate, size = _floats(jobs, "estimate_s"), _floats(jobs, run.requested[0])
        qos = _floats(jobs, "qos", 1.0)
        account, most_running = _accounts(run, jobs)
        priorities = [float(p.get("priority") or 0.0) for p in run.partitions] or [0.0]
        treatments = [p.get("preempt") for p in run.partitions] or [None]
        positions = np.maximum(jobs["position"].to_numpy(), 0)
        some = [treatments[n] for n in positions.tolist()] if any(treatments) else []
        return cls(
            row=jobs["row"].cast(pl.Int64).to_numpy(),
            rank=np.arange(jobs.height),
            rejected=(jobs["status"] == "rejected").to_numpy(),
            submit=_floats(jobs, "submit_time_s"),
            run=_floats(jobs, "until_killed_s"),
            requested=_floats(jobs, "requested_time_s"),
            estimate=estimate,
            size=size,
            instances=_floats(jobs, "instances"),
            request=_floats(jobs, "request"),
            partition=positions,
            priority=np.array(priorities)[positions]
            if len(set(priorities)) > 1
            else _always(priorities[0], jobs.height),
            treatment=some,
            retries=_retries(run, jobs),
            account=account,
            most_running=most_running,
            qos=qos,
            value=_values(run, size, qos, estimate),
            deadline=_floats(jobs, "deadline_s", np.inf),
        )

    def take(self, order: Ints) -> Self:
        """Return some jobs renumbered: the first is the one that `order` names first."""
        if np.array_equal(order, np.arange(len(self.row))):
            return self
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "treatment"}
        treatment = [self.treatment[job] for job in order.tolist()] if self.treatment else []
        taken = {
            name: column[: len(order)] if column.strides == (0,) else column[order]
            for name, column in arrays.items()
        }
        return replace(self, treatment=treatment, **taken)

    @property
    def overrun(self) -> bool:
        """Whether a job runs past its estimate."""
        return bool((self.run > self.estimate)[~self.rejected].any())


def _jobs(run: AuditedRun) -> pl.DataFrame:
    """Return the jobs with what a replay needs, by submission; ``row`` is that of the table."""
    tasks = tasks_by_partition(run).select(
        "job_id", "position", pl.col("instances").cast(pl.Float64),
        pl.col(run.requested[0]).cast(pl.Float64).alias("request"),
    )  # fmt: skip
    jobs = run.only(
        "jobs", "job_id", "user", "submit_time_s", "requested_time_s", "estimate_s",
        "trace_run_time_s", "status", "qos", "value", "deadline_s", *run.resources,
    ).with_row_index("row")  # fmt: skip
    ran = pl.min_horizontal("trace_run_time_s", run.killed_after())
    jobs = jobs.with_columns(until_killed_s=ran)
    if run.alike:
        jobs = jobs.hstack(tasks.drop("job_id"))
    else:
        jobs = jobs.join(tasks, on="job_id", maintain_order="left")
    return jobs.sort("submit_time_s", "job_id")


def _always(value: float, jobs: int) -> Floats:
    """Return a column of one value, which takes no memory."""
    return np.broadcast_to(np.float64(value), (jobs,))


def _retries(run: AuditedRun, jobs: pl.DataFrame) -> Floats:
    """Return (J,) how often each job may start over by a limit of its own; each has one task."""
    if run.own_retries is None:
        return _always(inf, jobs.height)
    own = run.own_retries.select("job_id", "allowed").unique("job_id", keep="first")
    return _floats(jobs.join(own, on="job_id", how="left", maintain_order="left"), "allowed", inf)


def _accounts(run: AuditedRun, jobs: pl.DataFrame) -> tuple[Ints, Floats]:
    """Return (J,) the account of each job, -1 if nothing limits it, and (J,) what it may run."""
    limits = [partition.get("max_running_per_user") for partition in run.partitions] or [None]
    if not any(limits):
        return np.broadcast_to(np.int64(-1), (jobs.height,)), _always(inf, jobs.height)
    most = np.array([np.inf if limit is None else float(limit) for limit in limits])
    most_running = most[np.maximum(jobs["position"].to_numpy(), 0)]
    known = ~jobs["user"].cast(pl.String).fill_null("").is_in(["-1", ""]).to_numpy()
    pair = jobs.select(pl.struct("position", "user").rank("dense").cast(pl.Int64)).to_series()
    account: Ints = np.where(known & np.isfinite(most_running), pair.to_numpy(), -1)
    return account, most_running


def _floats(jobs: pl.DataFrame, column: str, default: float = np.nan) -> Floats:
    if column not in jobs.columns:
        return _always(default, jobs.height)
    return jobs[column].cast(pl.Float64).fill_null(default).to_numpy()


def _values(run: AuditedRun, size: Floats, qos: Floats, estimate: Floats) -> Floats:
    """Return what a job is worth by its estimate; 0 without values, NaN if it is not known.

    That is amount * price / time unit * knob * QoS * estimate. A table of jobs may bring values of
    its own, which the run's table does not tell apart from values that were computed.
    """
    section = run.scenario.value
    if section is None:
        return _always(np.nan if "value" in run.columns_of("jobs") else 0.0, len(size))
    prices = section.prices
    if prices is None and run.scenario.workload.type in ("jobs", "plugin"):
        return _always(np.nan, len(size))
    price = _DEFAULT_PRICE if prices is None else prices.get(run.requested[0], 0.0)
    worth = size * price / section.time_unit * section.knob * qos
    return np.asarray(worth * np.minimum(estimate, ENDLESS))


@dataclass(frozen=True)
class PoolWindow:
    """A window in which an amount of the pool is away; times in s."""

    start: float
    end: float
    every: float | None
    """Period of repetition; None: once."""
    amount: float

    def edges(self, after: float, until: float) -> list[tuple[float, float]]:
        """Return (time, change of the capacity) with after < time <= until, in any order."""
        found = []
        for edge, change in ((self.start, -self.amount), (self.end, self.amount)):
            first, last = 0, 0
            if self.every is not None:
                first = max(ceil((after - edge) / self.every) - 1, 0) if after > -inf else 0
                last = int((until - edge) // self.every) + 1
            for number in range(first, last + 1):
                time = edge + number * (self.every or 0.0)
                if after < time <= until:
                    found.append((time, change))
        return found

    def next_edge(self, after: float) -> float:
        """Return the first edge after a time; infinity if there is none."""
        every = self.every or 0.0
        times = []
        for edge in (self.start, self.end):
            times.append(edge)
            if every and after >= edge:
                passed = int((after - edge) // every)
                times += [edge + number * every for number in (passed, passed + 1, passed + 2)]
        return min((time for time in times if time > after), default=inf)


class Windows:
    """All maintenance windows of a pool."""

    def __init__(self, windows: list[PoolWindow]) -> None:
        self._windows = windows
        periods = [window.every for window in windows if window.every is not None]
        self.cycle: Final = max(periods, default=0.0)
        """Time in which everything that recurs has happened; all that recur have one period."""
        recurring = (window.start for window in windows if window.every is not None)
        self.last_first: Final = max(recurring, default=-inf)
        """When all that recurs has come for the first time."""
        self.last_single: Final = max((w.end for w in windows if w.every is None), default=-inf)

    def changes(self, after: float, until: float) -> list[tuple[float, float]]:
        """Return (time, change of the capacity) with after < time <= until, in order."""
        at: dict[float, float] = defaultdict(float)
        for window in self._windows:
            for time, change in window.edges(after, until):
                at[time] += change
        return sorted((time, change) for time, change in at.items() if change)

    def next_change(self, after: float) -> float:
        """Return when the capacity may next change after a time; infinity: never again."""
        return min((window.next_edge(after) for window in self._windows), default=inf)


def pool_windows(windows: list[Window], machine: int, capacity: float) -> Windows | None:
    """Return the windows of a pool; None if they may overlap, touch, or have several periods."""
    made = [PoolWindow(w.start, w.end, w.every, w.taken[machine][0]) for w in windows]
    if sum(window.amount for window in made) > capacity and len(made) > 1:
        return None
    if len({window.every for window in made if window.every is not None}) > 1:
        return None
    if any(not w.start < w.end or (w.every and w.end - w.start >= w.every) for w in made):
        return None
    return Windows(made)


_IDLE_INSTANTS = 2000
"""Steps and changes of the capacity without a start after which a run is over."""
_LISTED = 600_000
"""Up to this many jobs, columns are lists: they are faster than arrays, and larger."""
Sort = Callable[[Ints, float], Ints]
"""Puts waiting jobs in the order that they have at an instant."""


class Stopped(NamedTuple):
    """An attempt at a job that was preempted."""

    job: int
    attempt: int
    """From 1 on."""
    start: float
    end: float


@dataclass(frozen=True)
class Rules:
    """Rules of a pool apart from the policy."""

    capacity: float
    period: float | None = None
    """Decisions come at multiples of this, in s; None: at every event."""
    steps: bool = False
    """Whether every multiple brings a decision, not only those after an event."""
    slots: int | None = None
    """Jobs that the policy sees at a time; None: all."""
    refill_at_once: bool = True
    """Whether a free slot is filled within the decision."""
    added: tuple[float, ...] = ()
    """What corrections add to the first estimate of a job that outlives it, in s; the result is
    never above the request."""
    windows: Windows | None = None
    """Maintenance; None: the capacity never changes."""
    rank: Floats | None = None
    """(J,) what admission compares, largest first; None: the oldest enters first."""


def _column(values: npt.NDArray[Any]) -> Any:
    """Return the numbers of jobs as a sequence of plain numbers."""
    return values.tolist() if len(values) <= _LISTED else values.data


class Pool:
    """The state of a pool; numbers of jobs are rows of `jobs`.

    Args:
        jobs: the jobs, numbered in the order of the queue; by rank if the order changes.
        rules: the rules.
        sort: sorts the queue again at every decision; None: the smallest number goes first.
    """

    def __init__(self, jobs: PoolJobs, rules: Rules, sort: Sort | None = None) -> None:
        self.rules = rules
        self.now = -inf
        self.free = rules.capacity
        self.waiting: list[int] = []
        """Jobs that the policy sees, in order."""
        self.ended: list[int] = []
        """Jobs that have ended since the last decision."""
        self.expected: list[tuple[float, int]] = []
        """(expected end, job) of what runs, sorted."""
        count = len(jobs.row)
        self.expected_end = _column(np.full(count, np.nan))
        self.was_corrected = False
        """Whether an estimate has been corrected since the last decision."""
        self.wakes: list[float] = []
        """A heap of instants at which the policy asked for a decision."""
        self.sizes, self.estimates = jobs.size, jobs.estimate
        self.size = _column(jobs.size)
        self.estimate = _column(jobs.estimate)
        self.priority = _column(jobs.priority)
        self.start = _column(np.full(count, np.nan))
        """When the last attempt of each job started."""
        self.first_start = _column(np.full(count, np.nan))
        self.attempts = _column(np.zeros(count, np.int64))
        """How often each job has started."""
        self.turn = _column(np.zeros(count, np.int64))
        """How many starts of the run there had been with the last of each job."""
        self.treatment = jobs.treatment
        """How a running job is preempted: ``requeue``, ``cancel`` or None, not at all."""
        self.preempts = any(jobs.treatment)
        """Whether any job may be preempted."""
        self.stopped: list[Stopped] = []
        """Attempts that were preempted, in order."""
        self.least = float(jobs.size.min(initial=inf))
        """No job asks for less."""
        self._run = _column(jobs.run)
        self._submit = _column(jobs.submit)
        self._rejected = _column(jobs.rejected)
        self._coming = _column(np.argsort(jobs.rank))
        self._came = 0  # jobs that have come; the next is `_coming[_came]`
        self._next_submit = self._submit_of_next()
        self._requested = _column(jobs.requested)
        self._retries = _column(jobs.retries)
        self._starts = 0
        self._again = False  # whether a stop put jobs in the queue: they make another round
        self._ends: list[tuple[float, int]] = []
        self._corrections: list[tuple[float, int, float]] = []  # heap of (when, job, new estimate)
        self._held: list[tuple[float, int, int]] = []  # the heap of those without a slot
        self._rank = _column(jobs.rank)
        self._entered = 0
        self._fresh: list[int] = []
        self._account = _column(jobs.account)
        self._limits_users = bool((jobs.account >= 0).any())
        self._most_running = _column(jobs.most_running)
        self._let_in: dict[int, int] = defaultdict(int)  # account → jobs that have not ended
        self._held_for: dict[int, deque[int]] = defaultdict(deque)  # account → jobs held back
        self._sort = sort
        self._changed_until = -inf
        self._alone_since: float | None = None  # when only maintenance began to keep the run going

    # ---- time ---------------------------------------------------------------------------------

    def decisions(self) -> Iterator[float]:
        """Yield each instant of a decision, once for each decision."""
        while (now := self.next_decision()) < inf:
            self.come_to(now)
            yield now
            self.leave()

    def come_to(self, now: float) -> None:
        """Let everything happen that happens up to an instant of a decision."""
        self.now = now
        self._advance()
        if self._held:
            self._refill()
        if self._fresh or self._sort is not None:
            self._show()

    def leave(self) -> None:
        """End the decision: what has happened before it is no news any more."""
        self.ended.clear()
        self.was_corrected = False

    def rounds(self) -> Iterator[None]:
        """Yield once, and again as long as jobs became visible in place of others, or came back."""
        self._again = False
        yield
        while self._fresh or self._again:
            self._again = False
            self._show()
            yield

    def next_decision(self) -> float:
        """Return when the next decision is, in s; infinity: there is none."""
        event = self._next_submit
        if self._ends and self._ends[0][0] < event:
            event = self._ends[0][0]
        if self.wakes and self.wakes[0] < event:
            event = self.wakes[0]
        if self._corrections and self._corrections[0][0] < event:
            event = self._corrections[0][0]
        if self.rules.windows is not None:
            event = min(event, self._next_change(self.rules.windows, alone=event == inf))
        period = self.rules.period
        if period is None or (event == inf and not self._steps_go_on(period)):
            return event
        if event == inf:
            return (self.now // period + 1) * period
        due = -(-event // period) * period
        if self.rules.steps and (self.waiting or self._held):
            due = min(due, (self.now // period + 1) * period)
        return due

    def _next_change(self, windows: Windows, *, alone: bool) -> float:
        """Return when maintenance next changes the capacity; infinity if nobody waits for it.

        If it is alone in keeping the run going, jobs that wait are given one cycle of the windows.
        """
        change = windows.next_change(self.now)
        if not alone:
            return change
        if self._alone_since is None:
            self._alone_since = self.now
        until = max(self._alone_since, windows.last_single) + windows.cycle
        return change if (self.waiting or self._held) and change <= until else inf

    def _steps_go_on(self, period: float) -> bool:
        """Return whether only steps keep the run going, for a few instants without a start."""
        windows, since = self.rules.windows, self._alone_since
        waits = self.waiting or self._held
        if not (self.rules.steps and waits and since is not None and windows and windows.cycle):
            return False  # nothing changes any more that could let a job start
        passed = {at for at, _ in windows.changes(since, self.now)}
        ticks = range(int(since // period) + 1, int(self.now // period) + 1)
        return len(passed.union(period * tick for tick in ticks)) <= _IDLE_INSTANTS

    def changes_at(self, time: float) -> bool:
        """Return whether maintenance changes the capacity at an instant that lies ahead."""
        windows = self.rules.windows
        return windows is not None and any(at == time for at, _ in windows.changes(self.now, time))

    @property
    def change_is_ahead(self) -> bool:
        """Whether maintenance will change the capacity."""
        windows = self.rules.windows
        return windows is not None and windows.next_change(self.now) < inf

    def _advance(self) -> None:
        """Let everything happen that happens up to now."""
        now, ends = self.now, self._ends
        arriving = self._next_submit
        while self._corrections and self._corrections[0][0] <= now:
            _, job, estimate = heappop(self._corrections)
            self.was_corrected = True
            self._expect(job, estimate)
        while True:  # one after the other: who comes first is first in line to be admitted
            ending = ends[0][0] if ends else inf
            if ending > now and arriving > now:
                break
            if ending <= arriving:
                self._end(heappop(ends)[1])
                continue
            job = self._coming[self._came]
            self._came += 1
            self._next_submit = arriving = self._submit_of_next()
            if not self._rejected[job]:
                self._submit_job(job)
        if self.rules.windows is not None:
            for _, change in self.rules.windows.changes(self._changed_until, now):
                self.free += change
            self._changed_until = now
        while self.wakes and self.wakes[0] <= now:
            heappop(self.wakes)

    def _submit_of_next(self) -> float:
        """Return when the next job comes; infinity: none is to come."""
        came = self._came
        return self._submit[self._coming[came]] if came < len(self._coming) else inf

    def _end(self, job: int) -> None:
        self.free += self.size[job]
        del self.expected[bisect_left(self.expected, (self.expected_end[job], job))]
        self.ended.append(job)
        if self._limits_users:
            self._let_in_next(self._account[job])

    # ---- admission ----------------------------------------------------------------------------

    def _submit_job(self, job: int) -> None:
        """Admit a job, or hold it back while as many of its user's jobs as may run are let in."""
        account = self._account[job] if self._limits_users else -1
        if account >= 0:
            if self._let_in[account] >= self._most_running[job]:
                self._held_for[account].append(job)
                return
            self._let_in[account] += 1
        self._admit(job)

    def _let_in_next(self, account: int) -> None:
        """Admit the first job held back of an account one of whose jobs has ended."""
        if account < 0:
            return
        if self._held_for[account]:
            self._admit(self._held_for[account].popleft())
        else:
            self._let_in[account] -= 1

    def _admit(self, job: int) -> None:
        slots, ranks = self.rules.slots, self.rules.rank
        free = slots is None or (not self._held and self._seen() < slots)
        if free and ranks is None:
            self._fresh.append(job)
        else:
            self._entered += 1  # a job that its user's limit held back comes after later ones
            first = (0.0, self._entered) if ranks is None else (-float(ranks[job]), self._rank[job])
            heappush(self._held, (*first, job))

    def _seen(self) -> int:
        return len(self.waiting) + len(self._fresh)

    def _refill(self) -> None:
        slots = self.rules.slots
        while self._held and (slots is None or self._seen() < slots):
            self._fresh.append(heappop(self._held)[2])

    def _show(self) -> None:
        """Put the jobs that have become visible in the queue, and the queue in order."""
        fresh, self._fresh = self._fresh, []
        self._put(fresh)

    def _put(self, jobs: list[int]) -> None:
        waiting = self.waiting
        if self._sort is not None:
            everyone = np.array(waiting + jobs, dtype=np.int64)
            self.waiting = self._sort(everyone, self.now).tolist()
            return
        for job in jobs:
            if waiting and waiting[-1] > job:
                insort(waiting, job)
            else:
                waiting.append(job)

    # ---- what policies do ---------------------------------------------------------------------

    def begin(self, job: int) -> None:
        """Start a waiting job."""
        now, estimate = self.now, self.estimate[job]
        del self.waiting[
            0 if self.waiting[0] == job
            else self.waiting.index(job) if self._sort is not None
            else bisect_left(self.waiting, job)
        ]  # fmt: skip
        self._alone_since = None
        self.start[job] = now
        if not self.attempts[job]:
            self.first_start[job] = now
        self.attempts[job] += 1
        self._starts += 1
        self.turn[job] = self._starts
        self.free -= self.size[job]
        heappush(self._ends, (now + self._run[job], job))
        self.expected_end[job] = end = now + estimate
        insort(self.expected, (end, job))
        if self.rules.added:
            self._correct_later(job, estimate)
        if self._held and self.rules.refill_at_once:
            self._refill()

    def preempt(self, jobs: list[int]) -> None:
        """Stop running jobs: they wait again, or have ended for good; those let in wait as well.

        A job that came back is visible whatever slots there are. One that may not be retried as
        often as its work was lost has ended.
        """
        before = len(self._fresh)
        came: list[int] = []
        for job in jobs:
            self._stop(job)
            if self.treatment[job] == "requeue" and self.attempts[job] <= self._retries[job]:
                came.append(job)
            else:
                self._let_in_next(self._account[job])
        came += self._fresh[before:]
        del self._fresh[before:]
        self._put(came)
        self._again = self._again or bool(came)

    def _stop(self, job: int) -> None:
        """Take from a running job what it holds; its end does not come."""
        self.stopped.append(Stopped(job, self.attempts[job], self.start[job], self.now))
        self.free += self.size[job]
        del self.expected[bisect_left(self.expected, (self.expected_end[job], job))]
        self._ends.remove((self.start[job] + self._run[job], job))
        heapify(self._ends)
        self._corrections = [entry for entry in self._corrections if entry[1] != job]
        heapify(self._corrections)

    def _correct_later(self, job: int, estimate: float) -> None:
        """Correct the estimate of a running job when it outlives it, if there is a longer one."""
        if self._run[job] <= estimate:
            return
        most = inf if np.isnan(self._requested[job]) else self._requested[job]
        longer = (min(self.estimate[job] + more, most) for more in self.rules.added)
        endless = most == inf and not np.isnan(self._requested[job])
        later = (e for e in longer if estimate < e and (e < inf or endless))
        if (found := next(later, None)) is not None:
            heappush(self._corrections, (self.start[job] + estimate, job, found))

    def _expect(self, job: int, estimate: float) -> None:
        """Expect a running job to end by a corrected estimate."""
        del self.expected[bisect_left(self.expected, (self.expected_end[job], job))]
        self.expected_end[job] = self.start[job] + estimate
        insort(self.expected, (self.expected_end[job], job))
        self._correct_later(job, estimate)


def on_one_clock(pools: Sequence[Pool]) -> Iterator[Pool]:
    """Yield each of several pools at every decision of any of them."""
    while (now := min([pool.next_decision() for pool in pools])) < inf:
        for pool in pools:
            pool.come_to(now)
            yield pool
            pool.leave()
