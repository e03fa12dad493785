"""Games on one pool, stopped at each decision: their state in arrays, and their step; compiled.

At a decision an agent starts a waiting job now, or makes it the head around which EASY backfills
the others, as `simkit.agent.actions` says; rewards are those of `simkit.agent.rewards`, added up
with the same roundings, and what is seen is `simkit.agent.observe_system.QueueSet`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Floats, Ints
from simkit.compiled.orders import none_seen
from simkit.learners.pools.state import (
    ACTIVE,
    COUNTS,
    ENDED,
    FREE,
    NOW,
    NUMBERS,
    SLACK,
    SPARE,
    TO_COME,
    WAITING,
    Jobs,
    Pool,
    begin,
    go_on,
    release,
    reserve,
    start_job,
)
from simkit.machine_code import compiled, inner

__all__ = [
    "CONTEXT",
    "ITEM",
    "NOBODY",
    "Games",
    "Rules",
    "Table",
    "begin_all",
    "look_all",
    "step_all",
]

HEAD: Final = COUNTS
"""Place in the counts of a game: the head; -1: none."""
SINCE: Final = NUMBERS
"""Places in the numbers of a game. This one: until when the reward is added up, in s."""
ACCRUED: Final = NUMBERS + 1
RATE: Final = NUMBERS + 2
"""Cost per second of the jobs in the system, without `REST`."""
REST: Final = NUMBERS + 3
"""What additions to it have lost."""

CONTEXT: Final = 5
"""Numbers of a queue set that are the same for all jobs: free, waiting, backlog, running, next end.
"""
ITEM: Final = 7
"""Numbers of a job: there, fits, wait, estimate, request, instances, priority."""


NOBODY: Final = none_seen(0)
"""Users are not told apart: nothing here predicts."""


class Table(NamedTuple):
    """All jobs of S slices, one slice behind the other; N jobs."""

    first: Ints
    """(S + 1,) the first job of each slice, and N."""
    size: Floats
    """(S,) processors of each slice's pool."""
    submit: Floats
    run: Floats
    processors: Floats
    estimate: Floats
    user: Ints
    """(N,) -1: users are not told apart."""
    cost: Floats
    """(N,) cost per second in the system; of what waits, 1 / its unit."""
    shown: Numbers
    """(N, 3) what is seen of a job and never changes: estimate, request, instances."""


class Rules(NamedTuple):
    """What actions mean, what is paid, and what is seen."""

    slots: int
    """M."""
    heads: bool
    """Whether a job that does not fit becomes the head; else actions start jobs."""
    floor: bool
    """Whether a job's cost is at least 1."""
    waits: bool
    """Whether only waiting costs."""
    time_scale_s: float
    count_scale: float
    priority: float
    """What is seen of the priority of all jobs."""
    most_steps: float
    """Time steps after which time is not counted any more."""
    most_decisions: int
    """Decisions after which an episode is cut off."""


class Games(NamedTuple):
    """The states of G games; see `Pool`."""

    slice: Ints
    """(G,) the slice that each plays."""
    at: Floats
    """(G, …)"""
    counts: Ints
    """(G, …)"""
    queue: Ints
    """(G, J) and likewise."""
    running: Ints
    ending: Ints
    start: Floats
    over: Bools
    """(G,) whether it is over."""
    cut: Bools
    """(G,) whether it was cut off before its end."""
    decisions: Ints
    """(G,) decisions so far."""
    steps: Ints
    """(G,) time steps that have passed."""
    begin: Floats
    """(G,) when its first job comes, in s."""
    step: Floats
    """(G,) length of a time step, in s."""


@inner
def _jobs(table: Table, s: int) -> Jobs:
    a, b = table.first[s], table.first[s + 1]
    return Jobs(
        table.submit[a:b], table.run[a:b], table.processors[a:b], table.estimate[a:b],
        table.user[a:b], table.size[s],
    )  # fmt: skip


@inner
def _pool(games: Games, g: int, recent: Floats) -> Pool:
    return Pool(
        games.at[g], games.counts[g], games.queue[g], games.running[g], games.ending[g],
        games.start[g], recent,
    )  # fmt: skip


# --- rewards --------------------------------------------------------------------------------------


@inner
def _accrue(pool: Pool, rules: Rules) -> None:
    """Add up the reward until now."""
    at = pool.at
    if at[NOW] > at[SINCE]:
        rate = -(at[RATE] + at[REST])
        if rules.waits:
            rate = -at[RATE]
        if rate != 0.0:
            at[ACCRUED] += rate * (at[NOW] - at[SINCE])
        at[SINCE] = at[NOW]


@inner
def _add_rate(pool: Pool, cost: float) -> None:
    """Add a cost per second, as `simkit.arrays.ExactSum` does."""
    at = pool.at
    before = at[RATE]
    after = before + cost
    added = after - before
    at[REST] += (before - (after - added)) + (cost - added)
    at[RATE] = after


@inner
def _leave(job: int, jobs: Jobs, pool: Pool, rules: Rules, cost: Floats, left: int) -> None:
    """Take in that a job ended, and how many are left in the system."""
    if rules.waits:
        return
    if left > 0:
        _add_rate(pool, -cost[job])
    else:
        pool.at[RATE], pool.at[REST] = 0.0, 0.0  # empty, so exactly 0
    if rules.floor:
        slowdown = (pool.at[NOW] - jobs.submit[job]) * cost[job]
        pool.at[ACCRUED] -= max(1 - slowdown, 0.0)


@inner
def _collect(pool: Pool, rules: Rules) -> float:
    """Return the reward since the last call."""
    _accrue(pool, rules)
    accrued = pool.at[ACCRUED]
    pool.at[ACCRUED] = 0.0
    return accrued  # type: ignore[no-any-return]


# --- time -----------------------------------------------------------------------------------------


@inner
def _start(place: int, jobs: Jobs, pool: Pool, rules: Rules, cost: Floats) -> None:
    """Start the job at a place of the queue."""
    if rules.waits:
        _accrue(pool, rules)
        pool.at[RATE] -= cost[pool.queue[place]]
    start_job(jobs, pool, place)


@inner
def _fill(jobs: Jobs, pool: Pool, rules: Rules, cost: Floats) -> None:
    """Start what EASY lets start around the head, in order of submission."""
    at, counts, head, place = pool.at, pool.counts, pool.counts[HEAD], 0
    reserve(jobs, pool, head)
    while place < counts[WAITING] and at[FREE] > 0:
        job = pool.queue[place]
        n = jobs.processors[job]
        overtakes = jobs.requested[job] > at[SLACK]
        if job == head or n > at[FREE] or (overtakes and n > at[SPARE]):
            place += 1
            continue
        if overtakes:
            at[SPARE] -= n
        _start(place, jobs, pool, rules, cost)


@inner
def _let_time_go_on(jobs: Jobs, pool: Pool, rules: Rules, cost: Floats) -> bool:
    """Go to the next decision; False: there is none."""
    counts = pool.counts
    while True:
        if counts[HEAD] >= 0:
            _fill(jobs, pool, rules, cost)
            counts[HEAD] = -1
        known = counts[TO_COME]
        if not go_on(jobs, pool):
            return False
        _accrue(pool, rules)
        in_system = known - _gone(pool)
        while counts[ENDED] > 0:
            job = pool.ending[counts[ACTIVE] - 1]
            release(jobs, pool)
            in_system -= 1
            _leave(job, jobs, pool, rules, cost, in_system)
        for job in range(known, counts[TO_COME]):
            if rules.waits:
                pool.at[RATE] += cost[job]
            else:
                _add_rate(pool, cost[job])
        if counts[WAITING] > 0 or not (
            rules.heads or (counts[ACTIVE] == 0 and counts[TO_COME] == jobs.submit.shape[0])
        ):
            return True


@inner
def _gone(pool: Pool) -> int:
    """Return how many jobs have ended and are released."""
    counts = pool.counts
    return counts[TO_COME] - counts[WAITING] - counts[ACTIVE]  # type: ignore[no-any-return]


@inner
def _act(number: int, jobs: Jobs, pool: Pool, rules: Rules, cost: Floats) -> bool:
    """Act; return whether time goes on."""
    waiting = pool.counts[WAITING]
    place = number if number < min(rules.slots, waiting) else -1
    if rules.heads and place < 0 and waiting > 0:
        place = 0  # an action without a task takes the first
    if place < 0:
        return True
    job = pool.queue[place]
    if jobs.processors[job] <= pool.at[FREE]:
        _start(place, jobs, pool, rules, cost)
        return rules.heads and waiting == 1
    if rules.heads:
        pool.counts[HEAD] = job
    return True


@inner
def _tick(games: Games, g: int, rules: Rules) -> None:
    """Count the time steps that have passed in a game."""
    passed = (games.at[g, NOW] - games.begin[g]) / games.step[g]
    games.steps[g] = int(min(max(passed, 0.0), rules.most_steps))


# --- all games ------------------------------------------------------------------------------------


@compiled
def begin_all(table: Table, games: Games, rules: Rules, recent: Floats) -> None:
    """Take all games to their first decisions."""
    for g in range(games.slice.shape[0]):
        s = games.slice[g]
        jobs, pool = _jobs(table, s), _pool(games, g, recent)
        begin(jobs, pool)
        for k in range(SINCE, REST + 1):
            pool.at[k] = 0.0
        pool.at[SINCE], pool.counts[HEAD] = -np.inf, -1
        cost = table.cost[table.first[s] : table.first[s + 1]]
        games.over[g] = not _let_time_go_on(jobs, pool, rules, cost)
        if not games.over[g]:
            _tick(games, g, rules)
        _collect(pool, rules)


@compiled
def step_all(
    table: Table, games: Games, rules: Rules, recent: Floats, active: Ints, actions: Ints,
    rewards: Floats,
) -> None:  # fmt: skip
    """Take (A,) actions in the active games; fill (A,) rewards."""
    for row in range(active.shape[0]):
        g = active[row]
        s = games.slice[g]
        jobs, pool = _jobs(table, s), _pool(games, g, recent)
        cost = table.cost[table.first[s] : table.first[s + 1]]
        rewards[row] = 0.0
        if _act(actions[row], jobs, pool, rules, cost):
            games.over[g] = not _let_time_go_on(jobs, pool, rules, cost)
            rewards[row] = _collect(pool, rules)
        _tick(games, g, rules)
        games.decisions[g] += 1
        games.cut[g] = not games.over[g] and games.decisions[g] >= rules.most_decisions


@inner
def _squashed(number: float, scale: float) -> float:
    return number / (number + scale) if number > 0 else 0.0


@compiled
def look_all(
    table: Table, games: Games, rules: Rules, active: Ints, seen: Numbers, mask: Bools
) -> None:
    """Fill (A, 5 + 7 M) what is seen and (A, M + 1) what is allowed, which are zeros."""
    for row in range(active.shape[0]):
        g = active[row]
        s = games.slice[g]
        at, counts, queue = games.at[g], games.counts[g], games.queue[g]
        first, free, size = table.first[s], at[FREE], table.size[s]
        waiting, runs = counts[WAITING], counts[ACTIVE]
        seen[row, 0] = min(max(free * (1.0 / size), 0.0), 1.0)
        seen[row, 1] = _squashed(waiting, rules.count_scale)
        seen[row, 3] = _squashed(runs, rules.count_scale)
        seen[row, 4] = 1.0
        if runs > 0:
            job = games.running[g, 0]
            due = games.start[g, job] + table.estimate[first + job]
            seen[row, 4] = _squashed(due - at[NOW], rules.time_scale_s)
        shown = min(waiting, rules.slots)
        for place in range(shown):
            job = first + queue[place]
            fits, k = table.processors[job] <= free, CONTEXT + ITEM * place
            seen[row, k] = 1.0
            seen[row, k + 1] = 1.0 if fits else 0.0
            seen[row, k + 2] = _squashed(at[NOW] - table.submit[job], rules.time_scale_s)
            seen[row, k + 3] = table.shown[job, 0]
            seen[row, k + 4] = table.shown[job, 1]
            seen[row, k + 5] = table.shown[job, 2]
            seen[row, k + 6] = rules.priority
            mask[row, place] = fits or rules.heads
        mask[row, rules.slots] = waiting == 0 or not rules.heads
