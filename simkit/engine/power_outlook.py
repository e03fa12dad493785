"""What machines draw by what is held of them, and what they will draw and have by the forecast.

The capacity that forecast power will carry is shown as steps that policies plan with.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from simkit.arrays import ExactSum, Floats, Ints
from simkit.engine.machines_on import MachineUnits, PoolUnits
from simkit.engine.outages import Outages
from simkit.errors import PolicyError, ScenarioError
from simkit.policy.room import Room
from simkit.policy.state import Foreseen
from simkit.power.facts import BatteryFacts
from simkit.power.machine_model import Curve, PowerModel
from simkit.power.site import Foresight
from simkit.power.system import EnergySystem
from simkit.workload.cluster import CapacityStep

_Curved = tuple[int, Curve, Ints, Floats]
"""A resource whose power is no straight line: its column, its curve, which machines, of what
capacity."""


class MachineLoad:
    """The power of all machines: what they draw by themselves, and what their use adds.

    What is held is the capacity less what is free, which amounts on a grid make exact, so that
    nothing drifts however often tasks start and end. A resource that is held beyond its capacity,
    while tasks drain, draws on as its last line says.
    """

    def __init__(
        self, models: Sequence[PowerModel], resources: Sequence[str], capacity: Floats
    ) -> None:
        """Take machines that are on.

        Args:
            models: M, one a machine.
            resources: names of the R resources.
            capacity: (M, R) what each machine has when all of it is there.

        Raises ScenarioError if a model draws power by a resource that its machine does not have,
        or if there are not as many models as machines.
        """
        if len(models) != len(capacity):
            raise ScenarioError(
                f"machine power: {len(models)} models for {len(capacity)} machines; give one each"
            )
        self._standing = [model.idle_w for model in models]
        self._sum = ExactSum()
        for watts in self._standing:
            self._sum.add(watts)
        self._watts: Floats = np.zeros(capacity.shape)  # a unit of each resource, in W
        self._curved: list[_Curved] = []
        self._wire(tuple(models), tuple(resources), capacity)
        first = self._watts[0]
        self._uniform: Final = bool((self._watts == first).all())
        self._lines: Final = [(r, w) for r, w in enumerate(first.tolist()) if w]

    def _wire(
        self, models: tuple[PowerModel, ...], resources: tuple[str, ...], capacity: Floats
    ) -> None:
        problems: dict[str, None] = {}
        rows_of: dict[PowerModel, list[int]] = {}
        for machine, model in enumerate(models):
            rows_of.setdefault(model, []).append(machine)
        for model, rows in rows_of.items():
            for name, curve in zip(model.resources, model.curves, strict=True):
                r = resources.index(name) if name in resources else -1
                if r < 0 or not (capacity[rows, r] > 0).all():
                    problems[
                        f"machine power: draws power by {name!r}, which not every such machine "
                        f"has; the machines' resources are {', '.join(resources)}"
                    ] = None
                elif len(curve.watts) == 2:
                    self._watts[rows, r] = curve.watts[1] / capacity[rows, r]
                else:
                    self._curved.append((r, curve, np.array(rows), capacity[rows, r]))
        if problems:
            raise ScenarioError(problems)

    @property
    def standing_w(self) -> float:
        """What they would draw without tasks, in W."""
        return self._sum.value

    def set_standing(self, machine: int, watts: float) -> None:
        """Set the power that a machine draws without tasks, in W."""
        if watts != self._standing[machine]:
            self._sum.add(watts - self._standing[machine])
            self._standing[machine] = watts

    def dynamic_w(self, room: Room, capacity: Sequence[float]) -> float:
        """Return what the use of the machines adds to their own power, in W.

        Args:
            room: what is free.
            capacity: (R,) the present capacity over all machines.
        """
        if self._uniform:
            free, watts = room.total_free(), 0.0
            for r, per_unit in self._lines:
                watts += per_unit * (capacity[r] - free[r])
        else:
            watts = float((self._watts * (room.capacity - room.free())).sum())
        if self._curved:
            watts += self._curved_w(room)
        return watts if watts > 0 else 0.0

    def _curved_w(self, room: Room) -> float:
        held = room.capacity - room.free()
        return math.fsum(
            float(curve.powers_w(held[rows, r] / full).sum())
            for r, curve, rows, full in self._curved
        )

    def of_request(self, request: Sequence[float], count: int) -> float:
        """Return what instances of a request add, in W; curves count as their chord.

        Where machines differ, the mean over them.
        """
        if self._uniform:
            watts = sum(per_unit * request[r] for r, per_unit in self._lines)
        else:
            watts = float((self._watts @ np.asarray(request)).mean())
        for r, curve, rows, full in self._curved:
            share = len(rows) / len(self._standing)
            watts += curve.watts[-1] * request[r] / float(full.mean()) * share
        return float(watts) * count


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
        if outages.machines.is_sound(row) and (units.is_wanted(row) or units.may_return(row))
    ]  # fmt: skip
    order = sorted(rows, key=lambda row: not units.is_wanted(row))
    weights = np.cumsum([units.weights[row] for row in order])
    present = sum(map(units.is_wanted, rows))
    joins = {
        row: due for row in order[:present] if (due := units.joins_at(row, now)) > now
    }  # when those that are on the way are there
    capacity, steps = outages.machines.installed, []
    for start, available in zip(starts, watts, strict=True):
        coming = int(np.searchsorted(weights, units.budget(available), side="right"))
        for row in order[coming:present]:
            if joins.pop(row, -math.inf) <= start:
                steps.append(CapacityStep(start, row, tuple((-capacity[row]).tolist())))
                continue
            steps = [step for step in steps if step.time_s <= start or step.machine != row]
        for row in order[present:coming]:
            joins[row] = start + units.switches[row].model.switching.boot
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


StepsOf = Callable[[Sequence[float], Sequence[float]], list[CapacityStep]]
"""Makes capacity steps of (when each step begins, what machines may draw from then on)."""


class PowerOutlook:
    """Asks the forecasts on behalf of policies, and not twice for the same.

    A forecast of capacity is issued every step of it, as weather services do, and holds until the
    next one, with what the battery held when it was first asked for.
    """

    def __init__(self, energy: EnergySystem, foresight: Foresight | None) -> None:
        self._energy = energy
        self._foresight = foresight
        self._asked: dict[Foreseen, tuple[float, Floats]] = {}
        self._issued = (math.nan, [], [])  # type: tuple[float, list[float], list[float]]
        self._steps: tuple[object, list[CapacityStep]] = (None, [])

    @property
    def horizon_s(self) -> float:
        """How far it reaches; 0 without a forecast."""
        return self._foresight.horizon_s if self._foresight else 0.0

    @property
    def step_s(self) -> float:
        """Length of its steps; 0 without a forecast."""
        return self._foresight.step_s if self._foresight else 0.0

    def forecast(self, what: Foreseen, now: float) -> Floats:
        """Return (horizon / step,) the means of the steps from a time on; see `PowerState`."""
        known = self._asked.get(what)
        if known is None or known[0] != now or what == "available":
            self._asked[what] = known = (now, self._predict(what, now))
        return known[1]

    def _predict(self, what: Foreseen, now: float) -> Floats:
        foresight = self._foresight
        if foresight is None:
            raise PolicyError(
                "the scenario has no forecast, and the policy asks for one; add power.forecast, "
                "such as {type: perfect, horizon: 48h, step: 1h}"
            )
        if what == "available":
            return self._carried(self.forecast("generation", now))
        source = {
            "generation": foresight.generation,
            "price": foresight.price,
            "carbon": foresight.carbon,
        }.get(what)
        if source is None:
            raise PolicyError(
                f"the scenario has no forecast of {what}; the policy needs a site with "
                f"{'a grid' if what in ('price', 'carbon') else 'sources'} and a forecast of it"
            )
        predicted = source.predict(now, foresight.horizon_s, foresight.step_s)
        predicted.flags.writeable = False
        return predicted

    def capacity_steps(self, now: float, present: object, steps_of: StepsOf) -> list[CapacityStep]:
        """Return the changes of capacity that are foreseen, soonest first.

        Args:
            now: in s.
            present: stands for the present capacity; while it is the same, so are the steps.
            steps_of: turns power over time into capacity.
        """
        foresight = self._foresight
        if foresight is None:
            return []
        step = foresight.step_s
        issue = math.floor(now / step) * step
        if issue != self._issued[0]:
            predicted = foresight.generation.predict(issue, foresight.horizon_s, step)
            starts = (issue + step * np.arange(len(predicted))).tolist()
            self._issued = (issue, starts, self._carried(predicted).tolist())
            self._steps = (None, [])
        if self._steps[0] != present:
            _, starts, carried = self._issued
            first = bisect_right(starts, now)
            self._steps = (present, steps_of(starts[first:], carried[first:]))
        return self._steps[1]

    def _carried(self, generation: Floats) -> Floats:
        """Return what machines may draw in steps of a predicted generation, in W.

        As if they drew all that they can: what is left over charges the battery, what is short
        is taken from it, as far as its rates and content allow; limits of the grid and critical
        load stay as they are now.
        """
        energy, step = self._energy, self.step_s
        site, battery = energy.site, energy.battery
        other = energy.offer.import_limit_w - energy.critical_w
        given = []
        if battery is not None and site.battery is not None:
            wanted = energy.full_w * energy.pue(energy.full_w)
            content = battery.energy_j
            for watts in generation.tolist():
                content, more = _bridge(site.battery, content, wanted - watts - other, step)
                given.append(more)
        total = generation + other
        return energy.all_within(total + given if given else total)


def _bridge(facts: BatteryFacts, content: float, short: float, step: float) -> tuple[float, float]:
    """Return a battery's content in J after a step, and the mean power in W that it gave."""
    if short > 0:
        give = min(short, facts.most_discharge_w)
        give = min(give, max(content - facts.floor_j, 0.0) * facts.discharge_efficiency / step)
        return content - give * step / facts.discharge_efficiency, give
    take = min(-short, facts.most_charge_w)
    stored = min(take * facts.charge_efficiency * step, max(facts.ceiling_j - content, 0.0))
    return content + stored, 0.0
