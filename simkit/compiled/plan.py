"""The availability of a pool over future time, as `simkit.policy.profile` keeps it.

Steps of equal free amounts, and for every 64 of them the most that is free in any, so that a search
passes over those in which too little is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from simkit.compiled.releases import Releases
from simkit.machine_code import inner, records
from simkit.units import TIME_GRID

__all__ = ["Plan", "advance", "change", "earlier", "earliest", "make", "no_plan"]

STEP: Final = np.dtype([("time", np.float64), ("free", np.float64)])
"""From when on how much is free."""
_SHIFT: Final = 6
_GROUP: Final = 1 << _SHIFT


class Plan(NamedTuple):
    """Steps, of which the first are used."""

    step: Any
    """(S,)"""
    most: Any
    """(S / 64,) the most free in each group of steps, up to date for those before `STALE`."""
    size: Any
    """(2,) how many steps are used, and the first whose group may be out of date."""


def no_plan(jobs: int) -> Plan:
    """Return an empty plan with room for the starts and ends of so many jobs, twice."""
    steps = 4 * jobs + 16
    return Plan(
        records(np.empty(steps, STEP)), np.empty(steps // _GROUP + 2), np.zeros(2, np.int64)
    )


@inner
def make(plan: Plan, releases: Releases, free: float, time: float) -> None:
    """Plan with what runs alone; what is overdue is expected to end a tick from now."""
    step, size, soon = plan.step, 1, time + TIME_GRID
    step[0].time, step[0].free = time, free
    for block in range(releases.block[-1].count):
        for row in range(releases.block[block].count):
            one = releases.each[block, row]
            free += one.amount
            ends = max(one.time, soon)
            if ends > step[size - 1].time and ends < np.inf:
                step[size].time = ends
                size += 1
            if ends < np.inf:
                step[size - 1].free = free
    plan.size[0], plan.size[1] = size, 0


@inner
def _at(plan: Plan, time: float) -> int:
    """Return the first step that is not before a time."""
    low, high = 0, plan.size[0]
    while low < high:
        middle = (low + high) >> 1
        if plan.step[middle].time < time:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def advance(plan: Plan, time: float) -> None:
    """Forget what lies before a time."""
    step, passed = plan.step, _at(plan, time)
    if passed == plan.size[0] or step[passed].time > time:
        passed -= 1
    if passed > 0:
        for row in range(passed, plan.size[0]):
            step[row - passed] = step[row]
        plan.size[0] -= passed
        plan.size[1] = 0
    if passed >= 0:
        step[0].time = time


@inner
def _cut(plan: Plan, time: float) -> int:
    """Return the step that begins at a time, made if needed; 0 for times before the first."""
    step, row = plan.step, _at(plan, time)
    if row > 0 and (row == plan.size[0] or step[row].time != time):
        for other in range(plan.size[0], row, -1):
            step[other] = step[other - 1]
        step[row].time, step[row].free = time, step[row - 1].free
        plan.size[0] += 1
    return row


@inner
def _join(plan: Plan, row: int) -> None:
    """Leave out a step at which nothing changes."""
    step = plan.step
    if 0 < row < plan.size[0] and step[row].free == step[row - 1].free:
        plan.size[0] -= 1
        for other in range(row, plan.size[0]):
            step[other] = step[other + 1]


@inner
def change(plan: Plan, begin: float, end: float, amount: float) -> None:
    """Have so much more free from begin to end, for at least a tick; an end may be infinite."""
    first = _cut(plan, begin)
    last = plan.size[0]
    if end < np.inf:
        last = _cut(plan, max(end, begin + TIME_GRID))
    for row in range(first, last):
        plan.step[row].free += amount
    _join(plan, last)
    _join(plan, first)
    plan.size[1] = min(plan.size[1], max(first - 1, 0))


@inner
def _refresh(plan: Plan) -> None:
    """Bring the groups up to date."""
    step, size = plan.step, plan.size[0]
    group = plan.size[1] >> _SHIFT
    while (group << _SHIFT) < size:
        begin = group << _SHIFT
        most = step[begin].free
        for row in range(begin + 1, min(begin + _GROUP, size)):
            most = max(most, step[row].free)
        plan.most[group] = most
        group += 1
    plan.size[1] = size


@inner
def earliest(plan: Plan, amount: float, duration: float) -> float:
    """Return the first instant from which an amount is free for a duration; infinity: never."""
    return earlier(plan, amount, duration, np.inf)


@inner
def earlier(plan: Plan, amount: float, duration: float, before: float) -> float:
    """Return the first instant before a time from which an amount is free; infinity: none.

    It must be free for a duration, or until that time.
    """
    _refresh(plan)
    step, size, row = plan.step, plan.size[0], 0
    while row < size:
        if row & (_GROUP - 1) == 0 and plan.most[row >> _SHIFT] < amount:
            row += _GROUP
            continue
        if step[row].free < amount:
            row += 1
            continue
        begin = step[row].time
        if begin >= before:
            return np.inf
        end = min(begin + duration, before)
        row += 1
        while row < size and step[row].time < end and step[row].free >= amount:
            row += 1
        if row == size or step[row].time >= end:
            return begin  # type: ignore[no-any-return]
        row += 1
    return np.inf
