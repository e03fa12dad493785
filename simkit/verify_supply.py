"""The audit of the supply: as many processors or machines are on as the power carries.

The rule of the scenario's `power.supply`, worked out afresh. By `power`, a machine takes of what is
available what it draws when busy more than when off, and everything else stays off; by `resources`,
the share of the resources is the share that the power is of its peak. What is to come on boots
first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from simkit.verify_audit import Check
from simkit.verify_available import TICK, Available, available
from simkit.verify_capacity import capacity_steps
from simkit.verify_checkpoints import POWER, power_instants
from simkit.verify_machine_capacity import KINDS, failing_machines, offered
from simkit.verify_machine_events import machine_lives
from simkit.verify_machine_power import Model, models
from simkit.verify_machines_on import check_machines_on
from simkit.verify_power import no_power
from simkit.verify_supply_law import ROUNDING, Law, law_of, limits_capacity
from simkit.verify_work import policy_kills

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

Floats = npt.NDArray[np.float64]

_GRID = 2.0**-30
"""Of amounts that are not whole."""


def check_supply(run: RunFolder) -> Check:
    """Capacity follows the power that is there, by the scenario's rule."""
    check = Check("supply", "as much is on as the power carries, no more and no less")
    if skipped := no_power(run, check):
        return skipped
    if not limits_capacity(run):
        return _nothing_moves(check, run)
    _check_manner(check, run)
    try:
        found = models(run)
        law = law_of(run, found)
        changes = power_instants(run).to_numpy()
        full = sum(model.full for model in found.values())
        carried = available(run, changes, full, law.transit_s)
        if len(run.capacity) == 1:
            _check_pool(check, run, carried, next(iter(found.values())), law)
        else:
            check_machines_on(check, run, carried, found, law)
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        return check.leave_out(f"what power carries cannot be worked out: {error}")
    return check


def _nothing_moves(check: Check, run: RunFolder) -> Check:
    """Without a limit no capacity goes with the power, unless the policy switches machines."""
    if policy_kills(run):
        return check.skip("power does not limit what may run; the policy may switch machines")
    for event, detail in _power_events(run):
        if detail.get("cause") == POWER:
            check.add("capacity changes with the power, which limits nothing", event)
    return check if check.found else check.skip("power does not limit what may run")


def _power_events(run: RunFolder) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    import polars as pl

    found = []
    for event in run.tables["events"].filter(pl.col("kind") == "capacity").iter_rows(named=True):
        try:
            detail = json.loads(event["detail"])
        except (TypeError, ValueError):
            continue  # the rule "capacity" reports it
        if isinstance(detail, dict) and detail.get("cause") == POWER:
            found.append((event, detail))
    return found


def _check_manner(check: Check, run: RunFolder) -> None:
    """Every change of capacity says of running tasks what the scenario says."""
    running = run.setting("power", "supply", "running")
    for event, detail in _power_events(run):
        if detail.get("running") != running:
            check.add("tasks are not treated as the scenario says", event | {"expected": running})


# ---- a pool -------------------------------------------------------------------------------------


def _check_pool(check: Check, run: RunFolder, carried: Available, model: Model, law: Law) -> None:
    """The processors that are on are those whose power has been there for the boot time."""
    machine, capacity = next(iter(run.capacity.items()))
    times, size = carried.times, capacity[0]
    check.examined += len(times)
    least, most = (_units(watts, size, model, law) for watts in (carried.least, carried.most))
    if law.boot_s:
        least = _lowest_since(times, least, law.boot_s + 2.0 * TICK)
        most = _lowest_since(times, most, law.boot_s - 2.0 * TICK)
    others = _taken_by_others(run, machine, times)
    found = _recorded(run, machine, times)
    left = np.maximum(np.array(capacity) - others, 0.0)
    low, high = (np.minimum(_amounts(u, capacity), left) for u in (least, most))
    if machine in failing_machines(run):
        low = np.where((found == 0).all(axis=1)[:, None], 0.0, low)
    wrong = ((found < low - 2.0 * _GRID) | (found > high + 2.0 * _GRID)).any(axis=1)
    for at in np.flatnonzero(wrong).tolist():
        facts = {"time_s": times[at], "available_w": carried.most[at]}
        for r, name in enumerate(run.resources):
            facts |= {name: found[at, r], f"least_{name}": low[at, r], f"most_{name}": high[at, r]}
        check.add(
            "the capacity is not what the power carries",
            {name: float(value) for name, value in facts.items()},
        )


def _units(watts: Floats, size: float, model: Model, law: Law) -> Floats:
    """Return how many units of a pool a power in W carries."""
    if law.by_power:
        span = model.full - model.off
        share = (watts - model.off) / span if span > 0 else np.full(len(watts), np.inf)
    else:
        share = watts / law.peak_w
    return _whole(size * np.clip(share, 0.0, 1.0), size)


def _amounts(units: Floats, capacity: tuple[float, ...]) -> Floats:
    """Return (T, R): what units of the first resource bring of each."""
    share = units / capacity[0]
    return np.column_stack([_whole(full * share, full) for full in capacity])


def _whole(amounts: Floats, full: float) -> Floats:
    """Round down to whole units where all of them are a whole number; else to the grid."""
    whole: Floats = np.floor(amounts + ROUNDING) if full % 1 == 0 else np.round(
        amounts / _GRID
    ) * _GRID  # fmt: skip
    return whole


def _lowest_since(times: Floats, values: Floats, length: float) -> Floats:
    """Return the least of values that hold from each time on, over the `length` s until now."""
    first = np.maximum(np.searchsorted(times, times - length, side="right") - 1, 0)
    pairs = np.column_stack((first, np.arange(len(times)) + 1)).ravel()
    lowest: Floats = np.minimum.reduceat(np.append(values, np.inf), pairs)[::2]
    return lowest


def _taken_by_others(run: RunFolder, machine: int, times: Floats) -> Floats:
    """Return (T, R): what maintenance and the like take of the pool."""
    capacity = np.array(run.capacity[machine])
    if not any(run.setting("cluster", kind) for kind in KINDS):
        return np.zeros((len(times), len(capacity)))
    life = machine_lives(run, float(times[-1]))[machine]
    return np.asarray(capacity - offered(life, times, len(capacity)))


def _recorded(run: RunFolder, machine: int, times: Floats) -> Floats:
    """Return (T, R): the capacity on record."""
    steps = [step for step in capacity_steps(run) if step.machine_id == machine]
    at = np.searchsorted([step.time_s for step in steps], times, side="right") - 1
    return np.array([step.capacity for step in steps])[at]
