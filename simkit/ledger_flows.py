"""The flows of power through a site at an instant, their balance, and which source serves what.

All powers in W and at least 0; the names give the direction:

    generation + import + discharge + unserved = load + charge + export + curtailment + losses

Battery powers are at its terminals: what is lost inside is the battery's own account. `losses` are
those of the site between sources and load, such as conversion.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from simkit.controller import SetPoints, SiteState
from simkit.errors import PolicyError

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


class Shares(NamedTuple):
    """Which source serves the load and its losses, and which charges the battery; in W."""

    load_renewable_w: float
    load_battery_w: float
    load_grid_w: float
    charge_renewable_w: float
    charge_grid_w: float


def settled_flows(
    state: SiteState, points: SetPoints, *, pue: float = 1.0, losses_w: float = 0.0
) -> Flows:
    """Return the flows of set-points that have been checked against the state they were made for.

    Args:
        state: what the controller saw. `load_w` there includes `losses_w`.
        points: what it asked for.
        pue: facility power for each W of machine power.
        losses_w: losses between sources and load.
    """
    battery, grid, curtailment, unserved = points
    _, _, price, export_price, carbon = state.grid
    return Flows(
        state.generation_w,
        grid if grid > 0 else 0.0,
        -battery if battery < 0 else 0.0,
        unserved,
        state.load_w - losses_w,
        battery if battery > 0 else 0.0,
        -grid if grid < 0 else 0.0,
        curtailment,
        losses_w,
        pue,
        price,
        export_price,
        carbon,
    )


def check_balance(time_s: float, flows: Flows) -> None:
    """Raise PolicyError unless flows balance, to `BALANCE` of the power flowing.

    Also if one is below 0, if the battery charges and discharges at once, if more is unserved
    than wanted or more curtailed than made.
    """
    made, bought, given, short, load, charge, sold, left, lost = flows[:9]
    sources = made + bought + given + short
    uses = load + charge + sold + left + lost
    slack = BALANCE * max(sources, uses)
    if (
        abs(sources - uses) <= slack
        and made >= 0 <= bought
        and given >= 0 <= short
        and load >= 0 <= charge
        and sold >= 0 <= left
        and lost >= 0
        and not (charge and given)
        and short <= load + lost + slack
        and left <= made + slack
    ):
        return
    raise PolicyError(
        f"the site's flows at {time_s:.9g} s are wrong: "
        + ", ".join(f"{name} {value:.9g}" for name, value in zip(POWERS, flows, strict=False))
        + f"; sources give {sources:.9g} W, uses take {uses:.9g} W; they must be equal and finite, "
        "none below 0, the battery either charges or discharges, no more is unserved than wanted "
        "and no more curtailed than made; check the controller's set-points"
    )


def share_out(flows: Flows) -> Shares:
    """Return which source serves what, by the declared rule.

    The load, with its losses and without what is unserved, takes renewables first, then what the
    battery gives, then the grid. The battery is charged by the renewables that are left, then by
    the grid. Export gets the rest.
    """
    made, bought, given, short, load, charge, _, left, lost = flows[:9]
    wanted, sun = load + lost - short, made - left
    renewable = min(sun, wanted) if sun > 0 < wanted else 0.0
    rest = wanted - renewable
    battery = min(given, rest) if given and rest > 0 else 0.0
    rest -= battery
    grid = min(bought, rest) if bought and rest > 0 else 0.0
    if not charge:
        return Shares(renewable, battery, grid, 0.0, 0.0)
    stored = min(max(sun - renewable, 0.0), charge)
    return Shares(renewable, battery, grid, stored, min(charge - stored, bought - grid))
