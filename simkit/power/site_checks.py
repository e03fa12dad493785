"""Checks before a run that a site has what its policy and controller read.

A signal that is not declared is 0 throughout. A rule that waits until it is low would never wait, a
controller that buys while it is low would always buy, and the run would not say so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final, Literal, Protocol, runtime_checkable

from simkit.policy import Policy
from simkit.policy.state import Foreseen
from simkit.power.controller import SourceOrder
from simkit.power.site import NO_GRID, Site

OfGrid = Literal["price", "carbon"]

_KEYS: Final = {"price": "price_per_kwh", "carbon": "carbon_gco2_per_kwh"}
"""Signal of a grid -> its key in `power.grid`."""
_EXAMPLE: Final = "{type: perfect, horizon: 48h, step: 1h}"


@runtime_checkable
class SiteChecker(Protocol):
    """A policy or controller that can say before a run what it needs and the site lacks."""

    def check_site(self, site: Site | None) -> Iterable[str]:
        """Return problems, each with its place and its remedy; none: the run may begin.

        `site` is None if the scenario has no section `power`.
        """


def policy_problems(policy: Policy, site: Site | None) -> list[str]:
    """Return what a policy's `check_site` finds wrong; nothing if it has none."""
    return list(policy.check_site(site)) if isinstance(policy, SiteChecker) else []


def controller_problems(site: Site) -> list[str]:
    """Return what the site's controller reads and the site lacks."""
    controller = site.controller
    if isinstance(controller, SiteChecker):
        return list(controller.check_site(site))
    if not isinstance(controller, SourceOrder):
        return []
    return [
        f"power.controller: {key} is {threshold:g}, but {_undeclared(site, signal)}, or leave "
        f"{key} out"
        for signal, key in (("price", "charge_below_price"), ("carbon", "charge_below_carbon"))
        if (threshold := getattr(controller, key)) > -math.inf and not _is_declared(site, signal)
    ]


def unmet_needs(
    site: Site | None,
    name: str,
    *,
    grid: Collection[OfGrid] = (),
    forecast: Collection[Foreseen] = (),
) -> list[str]:
    """Return what a policy needs and the site lacks.

    Args:
        site: None: the scenario has no section `power`.
        name: of the policy, with its place in the scenario; each problem begins with it.
        grid: signals of the grid whose present values it reads.
        forecast: what it needs forecasts of.
    """
    if site is None:
        return [
            f"{name}: it decides by the site's power, and the scenario has none; "
            "add a section power:, or use another policy"
        ]
    missing = [
        f"it decides by the {signal} of the grid, but {_undeclared(site, signal)}, or use "
        "another policy"
        for signal in grid
        if not _is_declared(site, signal)
    ]
    return [f"{name}: {text}" for text in (*missing, *_unforeseen(site, forecast))]


def _is_declared(site: Site, signal: str) -> bool:
    """Return whether the grid has a price or a carbon intensity; a constant 0 counts as none."""
    amount = getattr(site.grid, _KEYS[signal])
    return not isinstance(amount, (int, float)) or amount != 0


def _undeclared(site: Site, signal: str) -> str:
    if site.grid == NO_GRID:
        return f"the site has no grid; add power.grid with {_KEYS[signal]}"
    key = f"power.grid.{_KEYS[signal]}"
    return f"{key} is not declared, which makes it 0 throughout; declare {key}"


def _unforeseen(site: Site, forecast: Collection[Foreseen]) -> list[str]:
    """Return which forecasts are missing; every section `forecast` covers the generation."""
    foresight = site.foresight
    if forecast and foresight is None:
        what = " and ".join(forecast)
        return [f"it needs a forecast of {what}; add power.forecast, such as {_EXAMPLE}"]
    return [
        f"power.forecast does not include the {what}; add power.forecast.{what}, or use a type "
        "that includes all, such as perfect"
        for what in forecast
        if what in _KEYS and getattr(foresight, what) is None and _is_declared(site, what)
    ]
