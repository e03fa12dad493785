"""The slotted model of a scenario: its pool, slots and step, seen over a number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from simkit.errors import ScenarioError
from simkit.policy import SystemInfo
from simkit.scenario import Scenario
from simkit.slotted import Slotted

_NOISE = 1e-6  # of a unit: the last digits of a quotient


def slotted_model(
    scenario: Scenario,
    info: SystemInfo,
    *,
    slots: int | None = None,
    horizon: int = 20,
    max_length: int = 15,
    backlog_shown: int = 60,
    memory: int = 10,
    unit: float | Sequence[float] = 1.0,
) -> Slotted:
    """Return the slotted model that describes a scenario.

    Capacity, slots, backlog and step are the scenario's; see `Slotted` for the others.

    Args:
        scenario: with one machine and a `scheduling.step`.
        info: its system.
        slots: takes the place of the scenario's `admission.slots`.
        horizon: steps ahead that are planned.
        max_length: steps of the longest task, the scale of lengths.
        backlog_shown: tasks behind the slots that can be counted.
        memory: up to where the steps since the last arrival are counted.
        unit: amount of each resource in a unit, one number for all or a number each.

    Raises ScenarioError, all problems at once, if it is not slotted.
    """
    names, chosen = info.resources, slots or scenario.admission.slots
    units = (float(unit),) * len(names) if isinstance(unit, int | float) else tuple(unit)
    problems = []
    if scenario.scheduling.step is None:
        problems.append("the scenario has no step; add `scheduling: {step: 1s}`")
    if chosen is None:
        problems.append("nothing says how many slots there are; add `admission: {slots: 10}`")
    if len(info.machine_names) != 1:
        problems.append(
            f"the cluster has {len(info.machine_names)} machines; it must be one pool: "
            "`cluster: {machines: [{count: 1, …}]}`"
        )
    if len(units) != len(names) or not all(amount > 0 for amount in units):
        problems.append(f"unit is {unit}; it must be positive, a number for {', '.join(names)}")
    if problems or scenario.scheduling.step is None or chosen is None:
        raise ScenarioError([f"slotted model: {text}" for text in problems])
    amounts = zip(info.capacity[0].tolist(), units, strict=True)
    return Slotted(
        capacity=tuple(floor(has / amount + _NOISE) for has, amount in amounts),
        slots=chosen,
        horizon=horizon,
        max_length=max_length,
        backlog=scenario.admission.backlog,
        backlog_shown=backlog_shown,
        memory=memory,
        step_s=scenario.scheduling.step,
        unit=units,
    )
