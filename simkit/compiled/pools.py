"""Pools of one resource as they run: what is free, what has started, what ends when.

Every replay of pools begins with these functions; they differ in who starts. At an instant what
ends comes first, then changes of capacity, corrections of estimates and the jobs that are
submitted, and then one decision in each pool, in turn: see `simkit.engine.events`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.compiled import trees
from simkit.compiled.orders import none_seen, take
from simkit.compiled.releases import Releases, add, no_releases, remove
from simkit.machine_code import inner, records
from simkit.policy.estimates import corrected
from simkit.units import TIME_GRID

__all__ = [
    "ARRIVED", "CHANGE", "FREED", "JOB", "Pools", "Users", "begin", "end_due", "is_last_change",
    "next_instant", "no_users", "note", "start", "submit",
]  # fmt: skip

JOB: Final = np.dtype([
    ("submit", np.float64), ("work", np.float64), ("estimate", np.float64),
    ("requested", np.float64), ("demand", np.float64), ("user", np.int64), ("pool", np.int64),
    ("refused", np.int64), ("start", np.float64), ("expected_end", np.float64),
])  # fmt: skip
"""A job: its submission; how long it runs, to its end or until it is killed; its estimate at
submission, written where it is learned; the request, NaN if unknown (all in s); what all instances
ask for together; its user, from 0, -1 if unknown; its pool; whether it is refused: it can never
run, or too many jobs of its user wait when it comes; and when it started, NaN before, and is
expected to end."""
OVER: Final = np.dtype([("job", np.int64), ("time", np.float64)])
"""A job that has ended, or was refused, and when."""
ROW: Final = np.dtype([
    ("time", np.float64), ("waiting", np.int64), ("held", np.int64), ("running", np.int64),
    ("free", np.float64),
])  # fmt: skip
"""A row of the timeline, after a decision."""
CHANGE: Final = np.dtype([("time", np.float64), ("pool", np.int64), ("amount", np.float64)])
"""A change of capacity that is known ahead: when, of which pool, and how much more it has then."""
POOL: Final = np.dtype([
    ("free", np.float64), ("waiting", np.int64), ("begin", np.int64), ("jobs", np.int64),
    ("news", np.int64),
])  # fmt: skip
"""What is free; how many jobs wait; how many jobs the pools before have in all, and this one; and
what has happened there since its last decision, 0: nothing."""
ARRIVED: Final = 1
"""Jobs have come, and nothing else has happened."""
FREED: Final = 2
"""Something has ended, or is expected to end at another time, or the capacity has changed."""
NOW: Final = np.dtype([
    ("running", np.int64), ("started", np.int64), ("over", np.int64), ("submitted", np.int64),
    ("held", np.int64), ("admitted", np.int64), ("corrections", np.int64), ("wakes", np.int64),
    ("changed", np.int64), ("noted", np.int64), ("passed", np.int64),
])  # fmt: skip
"""How many jobs run, have started, are over, were submitted, are held back for their user, and were
let in since the last submission; how many corrections and wake-ups are to come; whether anything
has changed since the last decision; rows of the timeline; changes of capacity that have come."""

_corrected: Any = inner(corrected)


_NOBODY: Final = -1
ACCOUNT: Final = np.dtype([
    ("waiting", np.int64), ("let_in", np.int64), ("first", np.int64), ("last", np.int64),
])  # fmt: skip
"""How many jobs of a user have not started, let in or not; how many are let in that have not ended;
the first and the last that is held."""


class Users(NamedTuple):
    """The accounts of U users in P pools; both are 0 if nothing is limited.

    The rules are those of `simkit.engine.held_back.UserLimits`: at most so many jobs of a user wait
    in a pool, others are refused; and at most so many are let in at a time, the first submitted
    first. A job without a user is not limited.
    """

    most_waiting: Floats
    """(P,) most jobs of a user that wait at a time."""
    most: Floats
    """(P,) most jobs of a user that are let in at a time."""
    account: Any
    """(P, U)"""
    following: Ints
    """(J,) the job that is held behind each."""


class Pools(NamedTuple):
    """Jobs, and where they stand."""

    job: Any
    """(J,) in order of submission."""
    pool: Any
    """(P,) the pools."""
    now: Any
    """(1,)"""
    end: Any
    """(J,) heap of the ends of what runs, with its numbers in order of start."""
    started: Any
    """(J,) job by number."""
    over: Any
    """(J,) in order."""
    change: Any
    """(C,) the changes of capacity, soonest first."""
    releases: Releases
    correction: Any
    """(J,) heap of the times at which estimates are outlived, with the jobs."""
    users: Users
    admitted: Any
    """(J,) the jobs that were held back and have been let in since the last submission."""
    recent: Any
    """(users, 1 + last) see `orders.none_seen`."""
    additions: Any
    """Those of the correction; see `estimates.CORRECTIONS`."""
    looks_ahead: bool
    """Whether expected ends matter."""


def begin(
    job: Any, capacity: Floats, change: Any, looks_ahead: bool, learns_from: int, additions: Floats,
    users: Users,
) -> Pools:  # fmt: skip
    """Return empty pools.

    Args:
        job: (J,) the jobs, in order of submission.
        capacity: (P,) what is free while nothing runs, before it changes.
        change: (C,) the changes of capacity, soonest first.
        looks_ahead: whether expected ends matter.
        learns_from: last run times of a user whose mean is the estimate; 0: it is not learned.
        additions: of the correction.
        users: their accounts, empty.
    """
    count = len(job)
    learned_users = int(job["user"].max(initial=-1)) + 1 if learns_from else 0
    pool = records(np.zeros(len(capacity), POOL))
    pool["free"] = capacity
    pool["jobs"] = np.bincount(job["pool"], minlength=len(capacity))
    pool["begin"] = np.cumsum(pool["jobs"]) - pool["jobs"]
    return Pools(
        records(job),
        pool,
        records(np.zeros(1, NOW)),
        records(np.empty(count, trees.ENTRY)),
        np.empty(count, np.int64),
        records(np.empty(count, OVER)),
        records(change),
        no_releases(pool["jobs"] if looks_ahead else np.zeros(len(capacity), np.int64)),
        records(np.empty(count if len(additions) > 0 else 0, trees.ENTRY)),
        users,
        np.empty(count, np.int64),
        none_seen(learned_users, learns_from),
        additions,
        looks_ahead,
    )


@inner
def next_instant(pools: Pools) -> float:
    """Return when the next job comes, ends or outlives its estimate, or capacity changes.

    Infinity: nothing does.
    """
    now, time = pools.now[0], np.inf
    if now.passed < len(pools.change):
        time = pools.change[now.passed].time
    if now.submitted < len(pools.job):
        time = min(time, pools.job[now.submitted].submit)
    if now.running > 0:
        time = min(time, pools.end[0].time)
    if now.corrections > 0:
        time = min(time, pools.correction[0].time)
    return time


@inner
def is_last_change(pools: Pools, time: float) -> bool:
    """Return whether capacity changes at a time for the last time."""
    return pools.change[len(pools.change) - 1].time == time  # type: ignore[no-any-return]


@inner
def start(pools: Pools, job: int, time: float) -> None:
    """Start a job that fits."""
    now, one = pools.now[0], pools.job[job]
    ends = time + one.work
    one.start = time
    one.expected_end = time + one.estimate
    pools.started[now.started] = job
    trees.push(pools.end, now.running, ends, now.started)
    now.started += 1
    now.running += 1
    pools.pool[one.pool].free -= one.demand
    waits_no_more(pools.users, one.pool, one.user)
    if pools.looks_ahead:
        add(pools.releases, one.pool, one.expected_end, job, one.demand)
    if len(pools.additions) > 0:
        _correct_at_end(pools, job, time, ends)


@inner
def _correct_at_end(pools: Pools, job: int, time: float, ends: float) -> None:
    """Correct the estimate when its expected end comes, unless the job will have ended by then."""
    due = max(pools.job[job].expected_end, time)
    if due < ends:
        trees.push(pools.correction, pools.now[0].corrections, due, job)
        pools.now[0].corrections += 1


@inner
def end_due(pools: Pools, time: float) -> int:
    """End the jobs whose work is done, then change capacities and correct outlived estimates.

    Return how many ended: the last ones of `Pool.over`. What changed is noted in `NOW`.
    """
    now, ended = pools.now[0], 0
    while now.running > 0 and pools.end[0].time == time:
        job = pools.started[trees.pop(pools.end, now.running)]
        one = pools.job[job]
        now.running -= 1
        pools.pool[one.pool].free += one.demand
        pools.pool[one.pool].news = FREED
        if pools.looks_ahead:
            remove(pools.releases, one.pool, one.expected_end, job)
        if len(pools.recent) > 0 and one.user >= 0:
            take(pools.recent, one.user, one.work)
        _is_over(pools, job, time)
        ended += 1
        following = next_let_in(pools.users, one.pool, one.user)
        if following >= 0:
            pools.admitted[now.admitted] = following
            now.admitted += 1
            now.held -= 1
    while now.passed < len(pools.change) and pools.change[now.passed].time == time:
        pool = pools.pool[pools.change[now.passed].pool]
        pool.free += pools.change[now.passed].amount
        pool.news = FREED
        now.passed += 1
        now.changed = 1
    while now.corrections > 0 and pools.correction[0].time == time:
        job = trees.pop(pools.correction, now.corrections)
        now.corrections -= 1
        _correct(pools, job, time)
    return ended


@inner
def _is_over(pools: Pools, job: int, time: float) -> None:
    now = pools.now[0]
    pools.over[now.over].job, pools.over[now.over].time = job, time
    now.over += 1
    now.changed = 1


@inner
def _correct(pools: Pools, job: int, time: float) -> None:
    """Expect a later end of a job that has outlived its estimate."""
    one = pools.job[job]
    executed = time - one.start
    estimate = _corrected(one.estimate, one.requested, executed, pools.additions)
    if estimate <= executed:
        return
    if pools.looks_ahead:
        remove(pools.releases, one.pool, one.expected_end, job)
        add(pools.releases, one.pool, one.start + estimate, job, one.demand)
    one.expected_end = one.start + estimate
    pools.pool[one.pool].news = FREED
    pools.now[0].changed = 1
    _correct_at_end(pools, job, time, one.start + one.work)


@inner
def submit(pools: Pools, time: float, newcomers: Any) -> int:
    """Submit the jobs of an instant; write those that wait now to `newcomers`; return how many.

    Those that were held back and have been let in are the first.
    """
    now, count = pools.now[0], pools.now[0].admitted
    for each in range(count):
        newcomers[each] = pools.admitted[each]
    now.admitted = 0
    while now.submitted < len(pools.job) and pools.job[now.submitted].submit == time:
        job = now.submitted
        now.submitted += 1
        now.changed = 1
        if pools.recent.shape[1] > 1:
            pools.job[job].estimate = _learned(pools, job)
        if is_refused(pools.users, pools.job[job].pool, pools.job[job].user):
            pools.job[job].refused = 1
        if pools.job[job].refused > 0:
            _is_over(pools, job, time)
        elif is_let_in(pools.users, pools.job[job].pool, pools.job[job].user, job):
            newcomers[count] = job
            count += 1
        else:
            now.held += 1
    return count  # type: ignore[no-any-return]


@inner
def _learned(pools: Pools, job: int) -> float:
    """Return a job's estimate: the mean of its user's last run times, at most the request."""
    one, recent = pools.job[job], pools.recent
    estimate, last = one.estimate, recent.shape[1] - 1
    if one.user >= 0 and recent[one.user, 0] >= last:
        total = 0.0
        for row in range(last, 0, -1):
            total += recent[one.user, row]
        mean = np.rint(total / last / TIME_GRID) * TIME_GRID
        estimate = mean if np.isnan(one.requested) else min(mean, estimate)
    return np.rint(estimate / TIME_GRID) * TIME_GRID  # type: ignore[no-any-return]


@inner
def note(pools: Pools, timeline: Any, time: float) -> None:
    """Write a row of the timeline, after a decision."""
    now = pools.now[0]
    row = timeline[now.noted]
    row.time, row.waiting, row.held, row.running, row.free = time, 0, now.held, now.running, 0.0
    for one in pools.pool:
        row.waiting += one.waiting
        row.free += one.free
    now.noted += 1
    now.changed = 0


def no_users(job: Any, most_waiting: Floats, most: Floats) -> Users:
    """Return empty accounts; (P,) are the limits of the pools, infinite for none."""
    if np.isinf(most_waiting).all() and np.isinf(most).all():
        most_waiting, most, job = most_waiting[:0], most[:0], job[:0]
    users = int(job["user"].max(initial=-1)) + 1
    account = records(np.zeros((len(most), users), ACCOUNT))
    account["first"] = _NOBODY
    return Users(most_waiting, most, account, np.full(len(job), _NOBODY))


@inner
def is_refused(users: Users, pool: int, user: int) -> bool:
    """Return whether too many jobs of a user wait in a pool for another to be submitted."""
    if len(users.most) == 0 or user < 0:
        return False
    return users.account[pool, user].waiting >= users.most_waiting[pool]  # type: ignore[no-any-return]


@inner
def is_let_in(users: Users, pool: int, user: int, job: int) -> bool:
    """Take in a job at its submission; return whether it may start, else it is held."""
    if len(users.most) == 0 or user < 0:
        return True
    one = users.account[pool, user]
    one.waiting += 1
    if one.let_in < users.most[pool]:
        one.let_in += 1
        return True
    if one.first == _NOBODY:
        one.first = job
    else:
        users.following[one.last] = job
    one.last = job
    return False


@inner
def waits_no_more(users: Users, pool: int, user: int) -> None:
    """Take note that a job starts."""
    if len(users.most) > 0 and user >= 0:
        users.account[pool, user].waiting -= 1


@inner
def next_let_in(users: Users, pool: int, user: int) -> int:
    """Take note that a job that was let in has ended; return who is let in for it, or -1."""
    if len(users.most) == 0 or user < 0:
        return _NOBODY
    one = users.account[pool, user]
    job = one.first
    if job == _NOBODY:
        one.let_in -= 1
    else:
        one.first = users.following[job]
    return job  # type: ignore[no-any-return]
