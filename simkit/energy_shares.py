"""Shares of machines: what draws power on them, and whose it is where it does not rise in a line.

On a curve, the power that a resource adds is shared by those who hold it, so much a unit. How much
changes when someone comes or goes; in between a unit draws evenly. Machine by machine, what a unit
has drawn is a running sum over these stretches, and a job's part is a difference of two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.drawn_power import BILLED, DrawnPower, Places
from simkit.errors import ScenarioError
from simkit.exact_sum import Floats, Ints, RunningSums
from simkit.machine_records import Requests
from simkit.units import amount_on_grid

if TYPE_CHECKING:
    from simkit.power_model import Curve, PowerModel


@dataclass(frozen=True)
class Holding:
    """N allocations as columns."""

    job: Ints
    """(N,) number of the job."""
    machine: Ints
    """(N,) row of the machine."""
    request: Ints
    """(N,) row in the distinct requests."""
    instances: Ints
    """(N,)"""
    start_s: Floats
    """(N,)"""
    end_s: Floats
    """(N,) inf while it runs."""

    @classmethod
    def joined(cls, parts: Sequence[Holding]) -> Holding:
        """Return several, one after another."""
        columns = (np.concatenate([vars(part)[name] for part in parts]) for name in _COLUMNS)
        return cls(*columns)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Holding:
        """Return the allocations chosen by (N,)."""
        return Holding(*(vars(self)[name][chosen] for name in _COLUMNS))


_COLUMNS: Final = tuple(field.name for field in fields(Holding))


@dataclass(frozen=True)
class Wiring:
    """What use of M machines with R resources adds to their power."""

    watts: Floats
    """(M, R) W a unit, where the power is a straight line."""
    curves: tuple[tuple[int, Curve, Floats], ...]
    """Resource, curve, and (M,) what a machine has of it; 0 where it follows another curve."""

    @classmethod
    def of(cls, models: Sequence[PowerModel], resources: Sequence[str], capacity: Floats) -> Wiring:
        """Wire up machines; see `energy_bills.job_bills` for the arguments and errors."""
        if len(models) != len(capacity):
            raise ScenarioError(
                f"machine power: {len(models)} models for {len(capacity)} machines; give one each"
            )
        rows_of: dict[PowerModel, list[int]] = {}
        for machine, model in enumerate(models):
            rows_of.setdefault(model, []).append(machine)
        watts, curves = np.zeros(capacity.shape), []
        for model, rows in rows_of.items():
            for name, curve in zip(model.resources, model.curves, strict=True):
                r = list(resources).index(name) if name in resources else -1
                if r < 0 or not (capacity[rows, r] > 0).all():
                    raise ScenarioError(
                        f"machine power: draws power by {name!r}, which not every such machine "
                        f"has; the machines' resources are {', '.join(resources)}"
                    )
                if len(curve.watts) == 2:
                    watts[rows, r] = curve.watts[1] / capacity[rows, r]
                else:
                    there = np.zeros(len(models))
                    there[rows] = capacity[rows, r]
                    curves.append((r, curve, there))
        return cls(watts, tuple(curves))


def bill_curved(
    totals: Floats, held: Holding, requests: Requests, wiring: Wiring, drawn: DrawnPower
) -> None:
    """Add to (B, J) `totals` what allocations have drawn by resources whose power is curved."""
    for r, curve, capacity in wiring.curves:
        amount = amount_on_grid(requests.amounts[held.request, r] * held.instances)
        mine = (amount > 0) & (capacity[held.machine] > 0) & (held.end_s > held.start_s)
        part, amount = held.where(mine), amount[mine]
        stretches = _stretches(part, amount)
        use = stretches.held / capacity[stretches.machine]
        above_idle = curve.powers_w(use)
        unit_w = np.divide(
            above_idle, stretches.held, out=np.zeros_like(use), where=stretches.held > 0
        )
        places = drawn.places(stretches.start_s)
        after = Places(
            np.append(places.row[1:], places.row[-1:]),
            np.append(places.seconds[1:], places.seconds[-1:]),
        )
        for billed in range(len(BILLED)):
            sums = RunningSums(unit_w * drawn.between(billed, places, after))
            share = amount * sums.between(stretches.first, stretches.last)
            np.add.at(totals[billed], part.job, share)


class _Stretches(NamedTuple):
    """S stretches of machines in which the same is held, sorted by machine and time.

    The last of each machine, in which nothing is held, goes on into the next machine's first.
    """

    machine: Ints
    """(S,)"""
    start_s: Floats
    """(S,)"""
    held: Floats
    """(S,) amount."""
    first: Ints
    """(N,) the stretch with which each allocation starts."""
    last: Ints
    """(N,) the stretch before which it ends."""


def _stretches(part: Holding, amount: Floats) -> _Stretches:
    """Return the stretches between the starts and ends of (N,) allocations of such amounts."""
    machine = np.concatenate((part.machine, part.machine))
    time = np.concatenate((part.start_s, part.end_s))
    change = np.concatenate((amount, -amount))
    order = np.lexsort((time, machine))
    machine, time, change = machine[order], time[order], change[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (machine[1:] != machine[:-1]) | (time[1:] != time[:-1])
    at = np.empty(len(order), dtype=np.int64)
    at[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    # Amounts lie on a grid, so that sums are exact and a machine that got all back holds 0.
    held = np.cumsum(np.add.reduceat(change, first)) if len(first) else change
    half = len(part.job)
    return _Stretches(machine[first], time[first], held, at[:half], at[half:])
