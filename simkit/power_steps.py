"""The capacity that foreseen power will carry, as steps that policies plan with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from simkit.machine_units import MachineUnits
from simkit.outages import Outages
from simkit.policy import CapacityStep
from simkit.pool_units import PoolUnits

_LONGEST_BOOT_S: Final = 366 * 86_400.0
"""Boots under way are looked for so far ahead."""


def pool_steps(
    pool: PoolUnits, starts: Sequence[float], watts: Sequence[float], now: float
) -> list[CapacityStep]:
    """Return the steps of a pool: (n,) when each begins, and what machines may draw from then."""
    if pool.boots:
        return _booting_pool_steps(pool.copy(), starts, watts, now)
    units, before, steps = pool.on, pool.amounts(pool.on), []
    for start, most in zip(starts, pool.most_over_time(watts), strict=True):
        if most != units:
            after = pool.amounts(most)
            change = tuple([a - b for a, b in zip(after, before, strict=True)])
            steps.append(CapacityStep(start, 0, change))
            units, before = most, after
    return steps


def _booting_pool_steps(
    pool: PoolUnits, starts: Sequence[float], watts: Sequence[float], now: float
) -> list[CapacityStep]:
    """Return the steps of a pool whose processors boot: its own rule, run ahead."""
    before, steps = pool.amounts(pool.on), []

    def note(time_s: float) -> None:
        nonlocal before
        if (after := pool.amounts(pool.on)) != before:
            change = tuple([a - b for a, b in zip(after, before, strict=True)])
            steps.append(CapacityStep(time_s, 0, change))
            before = after

    def boot_until(time_s: float) -> None:
        while (due := pool.next_change) <= time_s:
            pool.settle(due)
            note(due)

    for start, available in zip(starts, watts, strict=True):
        boot_until(start)
        pool.aim(available, start)
        note(start)
    boot_until(now + _LONGEST_BOOT_S)
    return steps


def machine_steps(
    units: MachineUnits,
    outages: Outages,
    starts: Sequence[float],
    watts: Sequence[float],
    now: float,
) -> list[CapacityStep]:
    """Return steps as if machines went off from the last one on, and came back likewise.

    A machine that is called back offers what it has when it has booted. What is not sound, or
    was turned off by the policy, has no part in it.
    """
    rows = [
        row for row in range(len(units.switches))
        if outages.is_sound(row) and (units.is_wanted(row) or units.may_return(row))
    ]  # fmt: skip
    order = sorted(rows, key=lambda row: not units.is_wanted(row))
    weights = np.cumsum([units.weights[row] for row in order])
    present = sum(map(units.is_wanted, rows))
    joins = {
        row: due for row in order[:present] if (due := units.joins_at(row, now)) > now
    }  # when those that are on the way are there
    capacity, steps = outages.installed(), []
    for start, available in zip(starts, watts, strict=True):
        coming = int(np.searchsorted(weights, units.budget(available), side="right"))
        for row in order[coming:present]:
            if joins.pop(row, -math.inf) <= start:
                steps.append(CapacityStep(start, row, tuple((-capacity[row]).tolist())))
                continue
            steps = [step for step in steps if step.time_s <= start or step.machine != row]
        for row in order[present:coming]:
            joins[row] = start + units.switches[row].model.boot_s
        for row, due in joins.items():
            step = CapacityStep(due, row, tuple(capacity[row].tolist()))
            if step not in steps:
                steps.append(step)
        present = coming
    return sorted(steps, key=lambda step: step.time_s)


def least_of_both(
    offered: Sequence[float],
    limit: Sequence[float],
    known: Sequence[CapacityStep],
    foreseen: Sequence[CapacityStep],
) -> list[CapacityStep]:
    """Return the steps of a pool that has, at any time, the lesser of two amounts.

    Args:
        offered: (R,) what the pool brings now but for the power, less maintenance.
        limit: (R,) what the power carries now.
        known: how the first changes.
        foreseen: how the second does.
    """
    amounts = (list(offered), list(limit))
    present = [max(min(pair), 0.0) for pair in zip(*amounts, strict=True)]
    both = [(step.time_s, 0, step.change) for step in known]
    both += [(step.time_s, 1, step.change) for step in foreseen]
    steps = []
    for time_s, which, change in sorted(both):
        for r, more in enumerate(change):
            amounts[which][r] += more
        after = [max(min(pair), 0.0) for pair in zip(*amounts, strict=True)]
        if after != present:
            difference = tuple([a - b for a, b in zip(after, present, strict=True)])
            steps.append(CapacityStep(time_s, 0, difference))
            present = after
    return steps
