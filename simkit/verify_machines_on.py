"""The audit of machines that power switches: none too many is on, and none too few.

A machine weighs what it takes of what is available: what it draws when busy more than when off, or
its share of the resources. Those that are on weigh no more than the budget that the power gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simkit.verify_audit import Check
from simkit.verify_available import TICK, Available
from simkit.verify_capacity import CapacityStep, capacity_steps
from simkit.verify_machine_capacity import KINDS
from simkit.verify_machine_power import Model
from simkit.verify_power import SLACK
from simkit.verify_supply_law import ROUNDING, Law
from simkit.verify_work import policy_kills

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

Floats = npt.NDArray[np.float64]
_NOTE = "machines that stay off are not held against the power"


def check_machines_on(
    check: Check, run: RunFolder, carried: Available, found: dict[int, Model], law: Law
) -> None:
    """What is on weighs no more than the power carries, and nothing stays off that it carries."""
    weights = _weights(run, found, law)
    times = carried.times
    check.examined += len(times)
    used = _in_use(run, weights, times)
    off_w = sum(model.off for model in found.values())
    least, most = (_budget(watts, off_w, law) for watts in (carried.least, carried.most))
    facts = {"time_s": times, "on": used, "least": least, "most": most}
    slack = SLACK * sum(weights.values())
    _blame(check, "more machines are on than the power carries", used > most + slack, facts)
    equal, one = len(set(weights.values())) == 1, next(iter(weights.values()))
    if not equal or policy_kills(run) or any(run.setting("cluster", kind) for kind in KINDS):
        check.notes[_NOTE] = "they differ, or may be away for other reasons"
        return
    if law.transit_s and run.setting("power", "battery") is not None:
        check.notes[_NOTE] = (
            "they boot, and what the battery counted for meanwhile is not on record"
        )
        return
    lowest, highest = (_wanted(b, one, len(weights)) for b in (least, most))
    if law.transit_s:
        lowest = _settled(times, lowest, highest, law.transit_s + 4.0 * TICK)
    idle = used < lowest * one - slack
    _blame(check, "fewer machines are on than the power carries", idle, facts)


def _weights(run: RunFolder, found: dict[int, Model], law: Law) -> dict[int, float]:
    """Return machine → what it takes of the budget when it is on."""
    if law.by_power:
        return {machine: model.full - model.off for machine, model in found.items()}
    total = sum(capacity[0] for capacity in run.capacity.values())
    return {machine: capacity[0] / total for machine, capacity in run.capacity.items()}


def _budget(watts: Floats, off_w: float, law: Law) -> Floats:
    """Return what the machines that are on may weigh together."""
    if law.by_power:
        return (watts - off_w) * (1.0 + ROUNDING)
    return watts / law.peak_w + ROUNDING


def _in_use(run: RunFolder, weights: dict[int, float], times: Floats) -> Floats:
    """Return (T,) what the machines weigh that offer anything."""
    before: CapacityStep | None = None
    changes: list[tuple[float, float]] = []
    for step in capacity_steps(run):
        was = before is not None and before.machine_id == step.machine_id and any(before.capacity)
        changes.append((step.time_s, weights[step.machine_id] * (any(step.capacity) - was)))
        before = step
    instants, amounts = np.array(changes).T
    order = np.argsort(instants, kind="stable")
    total = np.cumsum(amounts[order].astype(np.longdouble)).astype(np.float64)
    used: Floats = total[np.searchsorted(instants[order], times, side="right") - 1]
    return used


def _wanted(budget: Floats, weight: float, machines: int) -> Floats:
    """Return how many machines of one weight a budget allows."""
    if not weight > 0:
        return np.full(len(budget), float(machines))
    allowed: Floats = np.clip(np.floor(budget / weight), 0.0, machines)
    return allowed


def _settled(times: Floats, least: Floats, most: Floats, transit_s: float) -> Floats:
    """Return how many machines have been wanted for the transit time without a break, at least.

    Those that were wanted then, less every one that was sent off since.
    """
    fallen = np.cumsum(np.maximum(np.append(0.0, most[:-1] - least[1:]), 0.0))
    then = np.maximum(np.searchsorted(times, times - transit_s, side="right") - 1, 0)
    settled: Floats = least[then] - (fallen - fallen[then])
    return settled


def _blame(
    check: Check, message: str, wrong: npt.NDArray[np.bool_], facts: dict[str, Floats]
) -> None:
    for at in np.flatnonzero(wrong).tolist():
        check.add(message, {name: float(values[at]) for name, values in facts.items()})
