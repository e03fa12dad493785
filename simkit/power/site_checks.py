"""Finds policies and controllers that look at what a site does not have, before the run begins.

A signal that nobody declares is 0 throughout: a rule that waits for it to be low would never wait,
and a controller that buys while it is low would always buy, and the run would not say so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

from simkit.power.controller import SourceOrder
from simkit.power.site import NO_GRID, Site

if TYPE_CHECKING:
    from simkit.policy import Policy
    from simkit.policy.power_view import Foreseen

OfGrid = Literal["price", "carbon"]

_KEYS: Final = {"price": "price_per_kwh", "carbon": "carbon_gco2_per_kwh"}
"""Signals of a grid → their keys in `power.grid`."""
_EXAMPLE: Final = "{type: perfect, horizon: 48h, step: 1h}"


@runtime_checkable
class SiteChecker(Protocol):
    """A policy or controller that looks at the site and can say beforehand what it lacks."""

    def check_site(self, site: Site | None) -> Iterable[str]:
        """Return problems, each with its place and its remedy; none: the run may begin.

        `site` is None where the scenario has no section `power`.
        """


def policy_problems(policy: Policy, site: Site | None) -> list[str]:
    """Return what a policy finds wrong with the site; a policy without `check_site` nothing."""
    return list(policy.check_site(site)) if isinstance(policy, SiteChecker) else []


def controller_problems(site: Site) -> list[str]:
    """Return what the site's controller looks at and the site does not have."""
    controller = site.controller
    if isinstance(controller, SiteChecker):
        return list(controller.check_site(site))
    if not isinstance(controller, SourceOrder):
        return []
    return [
        f"power.controller: {key} is {threshold:g}, but {_undeclared(site, signal)}, or leave "
        f"{key} out"
        for signal, key in (("price", "charge_below_price"), ("carbon", "charge_below_carbon"))
        if (threshold := getattr(controller, key)) > -math.inf and not is_declared(site, signal)
    ]


def needs_of_power(
    site: Site | None,
    name: str,
    *,
    grid: Collection[OfGrid] = (),
    forecast: Collection[Foreseen] = (),
) -> list[str]:
    """Return what a site lacks that a policy needs.

    Args:
        site: None: the scenario has no section `power`.
        name: of the policy, with its place in the scenario; begins every problem.
        grid: signals of the grid that it decides by now.
        forecast: what it must foresee.
    """
    if site is None:
        return [
            f"{name}: it decides by the site's power, and the scenario has none; "
            "add a section power:, or take another policy"
        ]
    missing = [
        f"it decides by the {signal} of the grid, but {_undeclared(site, signal)}, or take "
        "another policy"
        for signal in grid
        if not is_declared(site, signal)
    ]
    return [f"{name}: {text}" for text in (*missing, *_unforeseen(site, forecast))]


def is_declared(site: Site, signal: str) -> bool:
    """Tell whether the site's grid has a price or a carbon intensity; 0 throughout is none."""
    amount = getattr(site.grid, _KEYS[signal])
    return not isinstance(amount, (int, float)) or amount != 0


def _undeclared(site: Site, signal: str) -> str:
    if site.grid == NO_GRID:
        return f"the site has no grid; add power.grid with {_KEYS[signal]}"
    key = f"power.grid.{_KEYS[signal]}"
    return f"{key} is not declared, which makes it 0 throughout; declare {key}"


def _unforeseen(site: Site, forecast: Collection[Foreseen]) -> list[str]:
    """Return what of a forecast is missing; that of the power is in every forecast."""
    foresight = site.foresight
    if forecast and foresight is None:
        what = " and ".join(forecast)
        return [f"it needs a forecast of {what}; add power.forecast, such as {_EXAMPLE}"]
    return [
        f"power.forecast does not foresee the {what}; add power.forecast.{what}, or take a type "
        "that foresees all, such as perfect"
        for what in forecast
        if what in _KEYS and getattr(foresight, what) is None and is_declared(site, what)
    ]
