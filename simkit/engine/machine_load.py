"""What the machines of a cluster draw, worked out from what is held of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.exact_sum import ExactSum
from simkit.policy.room import Room
from simkit.power.machine_model import Curve, PowerModel

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
