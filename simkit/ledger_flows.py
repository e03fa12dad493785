"""The flows of power through a site at an instant, their balance, and which source serves what.

All powers in W and at least 0; the names give the direction:

    generation + import + discharge + unserved = load + charge + export + curtailment + losses

Battery powers are at its terminals: what is lost inside is the battery's own account. `losses` are
those of the site between sources and load, such as conversion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simkit.errors import PolicyError

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, Floats]
"""Columns of equal length by name."""

BALANCE: Final = 1e-9
"""Share of the power flowing to which every instant must balance."""


class Flows(NamedTuple):
    """What flows from one event to the next."""

    generation_w: float = 0.0
    """What sun and wind could give."""
    import_w: float = 0.0
    """From the grid."""
    discharge_w: float = 0.0
    """From the battery."""
    unserved_w: float = 0.0
    """Load for which there is no power."""
    load_w: float = 0.0
    """What machines, cooling and the rest want."""
    charge_w: float = 0.0
    """Into the battery."""
    export_w: float = 0.0
    """To the grid."""
    curtailment_w: float = 0.0
    """Generation that is not used."""
    losses_w: float = 0.0
    """Lost between sources and load."""
    pue: float = 1.0
    """Facility power for each W of machine power; bills take it from here."""
    price_per_kwh: float = 0.0
    """Of imported energy."""
    export_price_per_kwh: float = 0.0
    """Of exported energy."""
    carbon_gco2_per_kwh: float = 0.0
    """Of imported energy, in g of CO₂ equivalent."""
    generation_price_per_kwh: float = 0.0
    """Of generated energy that is used."""
    generation_gco2_per_kwh: float = 0.0
    """Of generated energy that is used, over the life cycle."""
    machines_w: float = 0.0
    """What machines draw of the load, before PUE."""
    standing_w: float = 0.0
    """What they draw of it that belongs to no job: idle, booting, off."""


POWERS: Final = Flows._fields[:9]
"""The flows that balance, four sources and five uses."""

SHARES: Final = (
    "load_renewable_w",
    "load_battery_w",
    "load_grid_w",
    "charge_renewable_w",
    "charge_grid_w",
)
"""Which source serves the load and its losses, and which charges the battery."""


def first_wrong(flows: Columns) -> int:
    """Return the first of N rows whose flows do not balance; N if all do.

    They balance to `BALANCE` of the power flowing. A row is wrong too if a flow is below 0, if the
    battery charges and discharges at once, if more is unserved than wanted or more curtailed than
    made.
    """
    made, bought, given, short, load, charge, sold, left, lost = (flows[name] for name in POWERS)
    with np.errstate(invalid="ignore"):  # an infinite flow balances with nothing
        sources = made + bought + given + short
        uses = load + charge + sold + left + lost
        slack = BALANCE * np.maximum(sources, uses)
        right = np.abs(sources - uses) <= slack
    for power in (made, bought, given, short, load, charge, sold, left, lost):
        right &= power >= 0
    right &= (charge == 0) | (given == 0)
    right &= (short <= load + lost + slack) & (left <= made + slack)
    wrong = np.flatnonzero(~right)
    return int(wrong[0]) if len(wrong) else len(right)


def wrong_flows(time_s: float, powers: Sequence[float]) -> PolicyError:
    """Return the error about flows at a time in s that break a rule; `powers` are the `POWERS`."""
    sources, uses = sum(powers[:4]), sum(powers[4:])
    return PolicyError(
        f"the site's flows at {time_s:.9g} s are wrong: "
        + ", ".join(f"{name} {value:.9g}" for name, value in zip(POWERS, powers, strict=True))
        + f"; sources give {sources:.9g} W, uses take {uses:.9g} W; they must be equal and finite, "
        "none below 0, the battery either charges or discharges, no more is unserved than wanted "
        "and no more curtailed than made; check the controller's set-points"
    )


def share_out(flows: Columns) -> dict[str, Floats]:
    """Return which source serves what, by the declared rule, as columns of `SHARES`.

    The load, with its losses and without what is unserved, takes renewables first, then what the
    battery gives, then the grid. The battery is charged by the renewables that are left, then by
    the grid. Export gets the rest.
    """
    made, bought, given, short, load, charge, _, left, lost = (flows[name] for name in POWERS)
    wanted, sun = np.maximum(load + lost - short, 0.0), np.maximum(made - left, 0.0)
    renewable = np.minimum(sun, wanted)
    rest = wanted - renewable
    battery = np.minimum(given, rest)
    rest -= battery
    grid = np.minimum(bought, rest)
    stored = np.minimum(sun - renewable, charge)
    shares = (renewable, battery, grid, stored, np.minimum(charge - stored, bought - grid))
    return dict(zip(SHARES, shares, strict=True))
