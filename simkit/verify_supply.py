"""The audit of the supply: as many processors or machines are on as the power carries.

The rule of the scenario's `power.supply`, worked out afresh. By `power`, a machine takes of what is
available what it draws when busy more than when off, and everything else stays off; by `resources`,
the share of the resources is the share that the power is of its peak. What is to come on boots
first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.verify_audit import Check
from simkit.verify_available import TICK, Available, available
from simkit.verify_capacity import CapacityStep, capacity_steps
from simkit.verify_checkpoints import POWER, power_instants
from simkit.verify_machine_capacity import KINDS, failing_machines, offered
from simkit.verify_machine_events import machine_lives
from simkit.verify_machine_power import Model, machine_sections, models
from simkit.verify_maintenance import seconds
from simkit.verify_power import SLACK, no_power
from simkit.verify_work import policy_kills

if TYPE_CHECKING:
    from simkit.verify_folder import RunFolder

Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-9
"""Share of a unit by which power may be short of it."""
_GRID = 2.0**-30
"""Of amounts that are not whole."""


class _Law(NamedTuple):
    """What the scenario says of how power becomes capacity."""

    by_power: bool
    peak_w: float
    """resources: the power that carries everything."""
    transit_s: float
    """The longest that a machine takes from being called to being on: shutdown and boot."""
    boot_s: float


def limits_capacity(run: RunFolder) -> bool:
    """Tell whether power decides about capacity in this run."""
    return run.setting("power", "supply", "limit") in ("power", "resources")


def check_supply(run: RunFolder) -> Check:
    """Capacity follows the power that is there, by the scenario's rule."""
    check = Check("supply", "as much is on as the power carries, no more and no less")
    if skipped := no_power(run, check):
        return skipped
    if not limits_capacity(run):
        return _nothing_moves(check, run)
    _check_manner(check, run)
    try:
        found, law = models(run), _law(run)
        changes = power_instants(run).to_numpy()
        full = sum(model.full for model in found.values())
        carried = available(run, changes, full, law.transit_s)
        if len(run.capacity) == 1:
            _check_pool(check, run, carried, next(iter(found.values())), law)
        else:
            _check_machines(check, run, carried, found, law)
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


def _law(run: RunFolder) -> _Law:
    machines = sorted(run.manifest["cluster"]["machines"], key=lambda m: int(m["id"]))
    sections = machine_sections(run, machines)
    boots = [seconds(section.get("boot") or 0.0) for section in sections]
    shutdowns = [seconds(section.get("shutdown") or 0.0) for section in sections]
    peak = run.setting("power", "supply", "peak_w")
    full = sum(model.full for model in models(run).values())
    if len(machines) == 1:  # the processors of a pool just go off
        shutdowns = [0.0]
    return _Law(
        run.setting("power", "supply", "limit") == "power",
        full if peak is None else float(peak),
        max(b + s for b, s in zip(boots, shutdowns, strict=True)),
        max(boots),
    )


# ---- a pool -------------------------------------------------------------------------------------


def _check_pool(check: Check, run: RunFolder, carried: Available, model: Model, law: _Law) -> None:
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
    low, high = (np.maximum(_amounts(u, capacity) - others, 0.0) for u in (least, most))
    if machine in failing_machines(run):
        low = np.where((found == 0).all(axis=1)[:, None], 0.0, low)
    wrong = ((found < low - 2.0 * _GRID) | (found > high + 2.0 * _GRID)).any(axis=1)
    for at in np.flatnonzero(wrong).tolist():
        facts = {"time_s": times[at], "available_w": carried.most[at]}
        for r, name in enumerate(run.resources):
            facts |= {name: found[at, r], f"least_{name}": low[at, r], f"most_{name}": high[at, r]}
        check.add("the capacity is not what the power carries", _plain(facts))


def _units(watts: Floats, size: float, model: Model, law: _Law) -> Floats:
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
    whole: Floats = np.floor(amounts + _ROUNDING) if full % 1 == 0 else np.round(
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


# ---- machines -----------------------------------------------------------------------------------


def _check_machines(
    check: Check, run: RunFolder, carried: Available, found: dict[int, Model], law: _Law
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
        check.notes["machines that stay off are not held against the power"] = (
            "they differ, or may be away for other reasons"
        )
        return
    if law.transit_s and run.setting("power", "battery") is not None:
        check.notes["machines that stay off are not held against the power"] = (
            "they boot, and what the battery counted for meanwhile is not on record"
        )
        return
    lowest, highest = (_wanted(b, one, len(weights)) for b in (least, most))
    if law.transit_s:
        lowest = _settled(times, lowest, highest, law.transit_s + 4.0 * TICK)
    idle = used < lowest * one - slack
    _blame(check, "fewer machines are on than the power carries", idle, facts)


def _weights(run: RunFolder, found: dict[int, Model], law: _Law) -> dict[int, float]:
    """Return machine → what it takes of the budget when it is on."""
    if law.by_power:
        return {machine: model.full - model.off for machine, model in found.items()}
    total = sum(capacity[0] for capacity in run.capacity.values())
    return {machine: capacity[0] / total for machine, capacity in run.capacity.items()}


def _budget(watts: Floats, off_w: float, law: _Law) -> Floats:
    """Return what the machines that are on may weigh together."""
    if law.by_power:
        return (watts - off_w) * (1.0 + _ROUNDING)
    return watts / law.peak_w + _ROUNDING


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
        check.add(message, _plain({name: values[at] for name, values in facts.items()}))


def _plain(row: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items()}
