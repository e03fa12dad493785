"""The availability of pools over future time, as `simkit.policy.profile` keeps it.

Steps of equal free amounts, and for every 64 of them the most that is free in any, so that a search
passes over those in which too little is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.arrays import Ints
from simkit.compiled.pools import Pools
from simkit.machine_code import inner, records
from simkit.units import TIME_GRID

__all__ = [
    "Plan", "advance", "change", "earlier", "earliest", "fits_ahead", "hold_for", "hold_for_head",
    "make", "no_plan",
]  # fmt: skip

STEP: Final = np.dtype([("time", np.float64), ("free", np.float64)])
"""From when on how much is free."""
_SHIFT: Final = 6
_GROUP: Final = 1 << _SHIFT


SPAN: Final = np.dtype([
    ("first", np.int64), ("group", np.int64), ("used", np.int64), ("stale", np.int64),
])  # fmt: skip
"""Where the steps and groups of a pool begin, how many steps are used (0: there is no plan), and
the first step whose group may be out of date."""


class Plan(NamedTuple):
    """The steps of P pools."""

    step: Any
    """(S,)"""
    most: Any
    """(G,) the most that is free in each group of steps."""
    span: Any
    """(P,)"""


def no_plan(jobs: Ints, changes: int) -> Plan:
    """Return plans with room for the starts and ends of (P,) jobs, twice, and for changes."""
    steps = 4 * jobs + 16 + changes
    groups = steps // _GROUP + 2
    span = records(np.zeros(len(jobs), SPAN))
    span["first"], span["group"] = np.cumsum(steps) - steps, np.cumsum(groups) - groups
    return Plan(records(np.empty(int(steps.sum()), STEP)), np.empty(int(groups.sum())), span)


@inner
def make(plan: Plan, pools: Pools, at: int, time: float) -> None:
    """Plan a pool with what runs, and the changes of its capacity that lie ahead.

    What is overdue is expected to end a tick from now.
    """
    span, soon, number = plan.span[at], time + TIME_GRID, pools.now[0].passed
    plan.step[span.first].time, plan.step[span.first].free = time, pools.pool[at].free
    span.used, span.stale = 1, 0
    blocks = pools.releases.span[at]
    for block in range(blocks.first, blocks.first + blocks.used):
        for row in range(pools.releases.block[block].count):
            one = pools.releases.each[block, row]
            ends = max(one.time, soon)
            if ends == np.inf:
                break
            number = _take_in(plan, pools, at, number, ends)
            _extend(plan, at, ends, one.amount)
    _take_in(plan, pools, at, number, np.inf)


@inner
def _extend(plan: Plan, at: int, time: float, amount: float) -> None:
    """Have so much more free from a time on, which is not before the last step."""
    span, step = plan.span[at], plan.step
    last = span.first + span.used - 1
    if time > step[last].time:
        last += 1
        span.used += 1
        step[last].time, step[last].free = time, step[last - 1].free
    step[last].free += amount


@inner
def _take_in(plan: Plan, pools: Pools, at: int, number: int, before: float) -> int:
    """Take in changes of capacity, from one on, that come before a time; return the next one."""
    while number < len(pools.change) and pools.change[number].time < before:
        if pools.change[number].pool == at:
            _extend(plan, at, pools.change[number].time, pools.change[number].amount)
        number += 1
    return number


@inner
def _from(plan: Plan, at: int, time: float) -> int:
    """Return the first step of a pool that is not before a time."""
    low = plan.span[at].first
    high = low + plan.span[at].used
    while low < high:
        middle = (low + high) >> 1
        if plan.step[middle].time < time:
            low = middle + 1
        else:
            high = middle
    return low  # type: ignore[no-any-return]


@inner
def advance(plan: Plan, at: int, time: float) -> None:
    """Forget what lies before a time."""
    step, span = plan.step, plan.span[at]
    passed = _from(plan, at, time) - span.first
    if passed == span.used or step[span.first + passed].time > time:
        passed -= 1
    if passed > 0:
        for row in range(span.first, span.first + span.used - passed):
            step[row] = step[row + passed]
        span.used -= passed
        span.stale = 0
    if passed >= 0:
        step[span.first].time = time


@inner
def _cut(plan: Plan, at: int, time: float) -> int:
    """Return the step that begins at a time, made if needed; the first one for times before."""
    step, span, row = plan.step, plan.span[at], _from(plan, at, time)
    end = span.first + span.used
    if row > span.first and (row == end or step[row].time != time):
        for other in range(end, row, -1):
            step[other] = step[other - 1]
        step[row].time, step[row].free = time, step[row - 1].free
        span.used += 1
    return row


@inner
def _join(plan: Plan, at: int, row: int) -> None:
    """Leave out a step at which nothing changes."""
    step, span = plan.step, plan.span[at]
    if span.first < row < span.first + span.used and step[row].free == step[row - 1].free:
        span.used -= 1
        for other in range(row, span.first + span.used):
            step[other] = step[other + 1]


@inner
def change(plan: Plan, at: int, begin: float, end: float, amount: float) -> None:
    """Have so much more free from begin to end, for at least a tick; an end may be infinite."""
    span = plan.span[at]
    first = _cut(plan, at, begin)
    last = span.first + span.used
    if end < np.inf:
        last = _cut(plan, at, max(end, begin + TIME_GRID))
    for row in range(first, last):
        plan.step[row].free += amount
    _join(plan, at, last)
    _join(plan, at, first)
    span.stale = min(span.stale, max(first - 1 - span.first, 0))


@inner
def _refresh(plan: Plan, at: int) -> None:
    """Bring the groups of a pool up to date."""
    step, span = plan.step, plan.span[at]
    group = span.stale >> _SHIFT
    while (group << _SHIFT) < span.used:
        begin = span.first + (group << _SHIFT)
        most = step[begin].free
        for row in range(begin + 1, min(begin + _GROUP, span.first + span.used)):
            most = max(most, step[row].free)
        plan.most[span.group + group] = most
        group += 1
    span.stale = span.used


@inner
def earliest(plan: Plan, at: int, amount: float, duration: float) -> float:
    """Return the first instant from which an amount is free for a duration; infinity: never."""
    return earlier(plan, at, amount, duration, np.inf)


@inner
def earlier(plan: Plan, at: int, amount: float, duration: float, before: float) -> float:
    """Return the first instant before a time from which an amount is free; infinity: none.

    It must be free for a duration, or until that time.
    """
    _refresh(plan, at)
    step, span, row = plan.step, plan.span[at], 0
    first, used = span.first, span.used
    while row < used:
        if row & (_GROUP - 1) == 0 and plan.most[span.group + (row >> _SHIFT)] < amount:
            row += _GROUP
            continue
        if step[first + row].free < amount:
            row += 1
            continue
        begin = step[first + row].time
        if begin >= before:
            return np.inf
        end = min(begin + duration, before)
        row += 1
        while row < used and step[first + row].time < end and step[first + row].free >= amount:
            row += 1
        if row == used or step[first + row].time >= end:
            return begin  # type: ignore[no-any-return]
        row += 1
    return np.inf


@inner
def _fits_now(plan: Plan, at: int, amount: float, duration: float) -> bool:
    """Return whether an amount is free from the plan's first instant on, for a duration."""
    row, last = plan.span[at].first, plan.span[at].first + plan.span[at].used
    end = plan.step[row].time + duration
    while plan.step[row].free >= amount:
        row += 1
        if row == last or plan.step[row].time >= end:
            return True
    return False


@inner
def fits_ahead(plan: Plan, pools: Pools, job: int, time: float) -> bool:
    """Return whether a job fits now, and through its estimate; plan its pool if it is not yet."""
    one = pools.job[job]
    if one.demand > pools.pool[one.pool].free:
        return False
    if plan.span[one.pool].used == 0:
        make(plan, pools, one.pool, time)
    return _fits_now(plan, one.pool, one.demand, one.estimate)


@inner
def hold_for(plan: Plan, pools: Pools, job: int, begin: float) -> None:
    """Take what a job holds that starts at an instant."""
    one = pools.job[job]
    change(plan, one.pool, begin, begin + max(one.estimate, TIME_GRID), -one.demand)


@inner
def hold_for_head(plan: Plan, pools: Pools, head: int, time: float) -> None:
    """Give a head that does not fit the earliest place, if it has any."""
    one = pools.job[head]
    if plan.span[one.pool].used == 0:
        make(plan, pools, one.pool, time)
    begin = earliest(plan, one.pool, one.demand, one.estimate)
    if begin < np.inf:
        hold_for(plan, pools, head, begin)
