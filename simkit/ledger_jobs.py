"""Bills: the energy, carbon and cost of each job on machines that jobs share.

The declared rule: a machine's power above idle belongs to the jobs on it, each resource's part in
proportion to what each job holds of it. Idle, booting and switched-off power belongs to nobody and
is kept apart. What the facility adds (cooling, conversion) is borne by every W of machine power
alike, and so is the mix of sources.

A job's bill is its share times the difference of two readings of a counter, so that it costs the
same whether it ran through one event or a million. Where a resource's power is a straight line, a
job's power does not depend on the others and the ledger's own counters serve. Where it is curved,
each machine has counters of what a unit of the resource has drawn; they move on when its use does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.errors import ScenarioError
from simkit.exact_sum import Counters, ExactSum, Reading
from simkit.ledger import BILLED, Ledger
from simkit.power_model import Curve, PowerModel
from simkit.units import amount_on_grid

Floats = npt.NDArray[np.float64]


class Bill(NamedTuple):
    """What a job, or idle power, has used; renewable + battery + grid = energy + overhead."""

    energy_j: float = 0.0
    """Energy of the machines."""
    overhead_j: float = 0.0
    """Its part of what the facility adds and loses."""
    renewable_j: float = 0.0
    """Of both: straight from sun and wind."""
    battery_j: float = 0.0
    """Of both: from the battery."""
    grid_j: float = 0.0
    """Of both: straight from the grid."""
    carbon_g: float = 0.0
    """In g of CO₂ equivalent."""
    cost: float = 0.0
    """In the currency of the prices."""

    def plus(self, other: Bill) -> Bill:
        """Return the sum of two bills, such as of two attempts of a job."""
        return Bill(*(a + b for a, b in zip(self, other, strict=True)))


class _Meter:
    """What a unit of one resource of one machine has drawn, where its power is curved."""

    __slots__ = ("_capacity", "_curve", "_rate_w", "_then", "counters", "held")

    def __init__(self, curve: Curve, capacity: float, ledger: Counters) -> None:
        self.counters = Counters(len(BILLED))
        self.held = 0.0
        self._curve, self._capacity = curve, capacity
        self._rate_w = 0.0  # of one unit
        self._then = ledger.reading()

    @property
    def power_w(self) -> float:
        return self._rate_w * self.held

    def move(self, ledger: Counters, change: float) -> None:
        """Count up to now, then let more or less be held."""
        if self._rate_w:
            self.counters.add(ledger.since(self._then), self._rate_w)
        self._then = ledger.reading()
        self.held += change  # exact: amounts lie on a grid
        power = self._curve.power_w(self.held / self._capacity)
        self._rate_w = power / self.held if self.held else 0.0


class _Running(NamedTuple):
    """A job since it started."""

    line_w: float
    """Power of the resources that are straight lines."""
    then: Reading
    held: list[tuple[_Meter, float, Reading]]


class JobMeters:
    """Power of the machines, and bills of what runs on them.

    Everything happens at the ledger's `time_s`: advance the ledger first, with the power that was
    drawn until now, then start and end jobs.
    """

    def __init__(
        self,
        ledger: Ledger,
        models: Sequence[PowerModel],
        resources: Sequence[str],
        capacity: npt.ArrayLike,
    ) -> None:
        """Put meters on machines that are on and empty.

        Args:
            ledger: the site's.
            models: M, one a machine; machines of a kind share one.
            resources: names of the R resources.
            capacity: (M, R) amounts.

        Raises ScenarioError if a model draws power by a resource that the machines do not have.
        """
        self._ledger = ledger
        self._models = tuple(models)
        self._capacity = amount_on_grid(capacity).tolist()
        self._standing = [model.idle_w for model in self._models]
        self._standing_w, self._dynamic_w = ExactSum(), ExactSum()
        for watts in self._standing:
            self._standing_w.add(watts)
        self._idle, self._idle_then = Counters(len(BILLED)), ledger.counters.reading()
        self._meters: dict[tuple[int, int], _Meter] = {}
        self._running: dict[Hashable, _Running] = {}
        self._lines, self._curved = self._wire(tuple(resources))

    def _wire(
        self, resources: tuple[str, ...]
    ) -> tuple[list[list[tuple[int, float]]], list[list[tuple[int, Curve]]]]:
        """Return machine by machine (resource, W a unit) of lines, (resource, curve) of curves."""
        lines: list[list[tuple[int, float]]] = []
        curved: list[list[tuple[int, Curve]]] = []
        problems = []
        for machine, model in enumerate(self._models):
            lines.append([])
            curved.append([])
            for name, curve in zip(model.resources, model.curves, strict=True):
                r = resources.index(name) if name in resources else -1
                if r < 0 or not self._capacity[machine][r] > 0:
                    problems.append(
                        f"machine power: machine {machine} draws power by {name!r} and has none; "
                        f"its resources are {', '.join(resources)}"
                    )
                elif len(curve.watts) == 2:
                    lines[-1].append((r, curve.watts[1] / self._capacity[machine][r]))
                else:
                    curved[-1].append((r, curve))
        if problems:
            raise ScenarioError(dict.fromkeys(problems))
        return lines, curved

    @property
    def power_w(self) -> float:
        """What all machines draw now, in W, without the facility's overhead."""
        return self._standing_w.value + max(self._dynamic_w.value, 0.0)

    @property
    def standing_w(self) -> float:
        """What they would draw without jobs: idle, booting, off; in W."""
        return self._standing_w.value

    def set_standing(self, machine: int, watts: float) -> None:
        """Let a machine's own power be another from now on; see `MachinePower.standing_w`."""
        if watts != self._standing[machine]:
            self._count_idle()
            self._standing_w.add(watts - self._standing[machine])
            self._standing[machine] = watts

    def start(
        self, job: Hashable, on: Iterable[tuple[int, int]], request: Sequence[float]
    ) -> float:
        """Let a job, or one allocation of it, hold resources from now on; return its power in W.

        Args:
            job: a name of your choice; give it again to `end`.
            on: (machine, instances) pairs.
            request: (R,) amounts of one instance.
        """
        counters, held, line_w = self._ledger.counters, [], 0.0
        before = self._dynamic_w.value
        for machine, count in on:
            line_w += sum(watts * request[r] for r, watts in self._lines[machine]) * count
            for r, curve in self._curved[machine]:
                if amount := float(amount_on_grid(request[r] * count)):
                    meter = self._meter(machine, r, curve)
                    self._use(meter, amount)
                    held.append((meter, amount, meter.counters.reading()))
        self._dynamic_w.add(line_w)
        self._running[job] = _Running(line_w, counters.reading(), held)
        return self._dynamic_w.value - before

    def end(self, job: Hashable) -> Bill:
        """Let a job hold nothing from now on; return its bill since it started."""
        running = self._running.pop(job)
        counters = self._ledger.counters
        used = [running.line_w * value for value in counters.since(running.then)]
        self._dynamic_w.add(-running.line_w)
        for meter, amount, then in running.held:
            self._use(meter, -amount)
            drawn = meter.counters.since(then)
            used = [value + amount * more for value, more in zip(used, drawn, strict=True)]
        return Bill(*used)

    def idle_bill(self) -> Bill:
        """Return what the machines' own power has used from the start until now."""
        self._count_idle()
        return Bill(*self._idle.values)

    def _count_idle(self) -> None:
        counters = self._ledger.counters
        self._idle.add(counters.since(self._idle_then), self._standing_w.value)
        self._idle_then = counters.reading()

    def _meter(self, machine: int, r: int, curve: Curve) -> _Meter:
        if (machine, r) not in self._meters:
            capacity = self._capacity[machine][r]
            self._meters[machine, r] = _Meter(curve, capacity, self._ledger.counters)
        return self._meters[machine, r]

    def _use(self, meter: _Meter, amount: float) -> None:
        """Let more or less of a curved resource be held."""
        before = meter.power_w
        meter.move(self._ledger.counters, amount)
        self._dynamic_w.add(-before)
        self._dynamic_w.add(meter.power_w)
