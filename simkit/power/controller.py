"""A controller: decides at every instant which source serves the load and where a surplus goes.

A controller is any object with `levels` and `settle`. Powers are in W. Load and generation are
given as positive numbers; battery power is above 0 when it charges, grid power when it imports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Final, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import Field

from simkit.errors import PolicyError
from simkit.power.battery import Battery
from simkit.sections import Facts, Share

_SLACK: Final = 1e-9
"""Share of the power flowing by which set-points may miss: rounding of sums."""
_REST_S: Final = 60.0
"""Shortest time between a level that was met and the next one that the battery leaks past."""
_MOST_IN_A_ROW: Final = 100
"""More levels than this, each within a rest of the last while nothing else changes, mean that the
controller drives the battery to and fro."""


class GridOffer(NamedTuple):
    """What the grid offers at an instant."""

    import_limit_w: float = 0.0
    """Most power from the grid, at least 0."""
    export_limit_w: float = 0.0
    """Most power to the grid, at least 0."""
    price_per_kwh: float = 0.0
    """What a kWh from the grid costs; may be negative."""
    export_price_per_kwh: float = 0.0
    """What a kWh to the grid brings; may be negative."""
    carbon_gco2_per_kwh: float = 0.0
    """Carbon of a kWh from the grid, in g of CO₂ equivalent."""


class SiteState(NamedTuple):
    """What a controller sees; all powers are in W and at least 0."""

    time_s: float
    generation_w: float
    """What the sources give now."""
    load_w: float
    """What machines, cooling and other consumers want now."""
    grid: GridOffer = GridOffer()
    soc: float = 0.0
    """State of charge, 0..1."""
    most_charge_w: float = 0.0
    """What the battery can take now; 0 without a battery."""
    most_discharge_w: float = 0.0
    """What the battery can give now."""


class SetPoints(NamedTuple):
    """What a controller asks for; generation + grid + unserved = load + battery + curtailment."""

    battery_w: float = 0.0
    """Above 0 charges, below 0 discharges."""
    grid_w: float = 0.0
    """Above 0 imports, below 0 exports."""
    curtailment_w: float = 0.0
    """Generation that is not used."""
    unserved_w: float = 0.0
    """Load that is not served."""


@runtime_checkable
class Controller(Protocol):
    """Settles the site whenever something has changed."""

    @property
    def levels(self) -> tuple[float, ...]:
        """States of charge at which to ask it again, besides full and empty."""

    def settle(self, state: SiteState) -> SetPoints:
        """Return set-points that hold until something changes.

        `check_set_points` checks them; breaking a limit raises PolicyError in the run.
        """


Threshold = Annotated[float, Field(ge=-math.inf)]
"""Any number; infinite: never, or always."""


class SourceOrder(Facts):
    """The default: renewables first, then the battery, then the grid.

    A surplus of renewables charges the battery, then is exported, then curtailed. A deficit is met
    in this order:

    1. by the battery above its reserve and by the grid up to `peak_w`, in the order that `first`
       sets; while the grid is cheap or clean, by the grid first, whatever `first` says;
    2. by the grid above `peak_w`, up to its limit;
    3. by the battery's reserve;
    4. not at all: the rest is unserved.

    Then, while the grid is cheap or clean, the rest of `peak_w` charges the battery up to
    `charge_to`, unless the battery had to help. So cheap or clean energy comes before a low peak:
    the battery is charged although that raises the import up to `peak_w`, and does not relieve the
    grid below it. Charging alone never lifts the import above `peak_w`.
    """

    noun = "controller"

    first: Literal["battery", "grid"] = "battery"
    """Which of the two meets a deficit first."""
    reserve: Share = 0.0
    """State of charge kept for times when neither sources nor grid suffice."""
    peak_w: Annotated[float, Field(ge=0)] = math.inf
    """Peak shaving: import stays at or below this as long as the battery can help."""
    charge_below_price: Threshold = -math.inf
    """Price per kWh at or below which the grid counts as cheap."""
    charge_below_carbon: Threshold = -math.inf
    """Carbon in g/kWh at or below which the grid counts as clean."""
    charge_to: Share = 1.0
    """State of charge up to which the grid charges."""

    @cached_property
    def levels(self) -> tuple[float, ...]:
        """The reserve, and the level at which charging from the grid ends."""
        return tuple(level for level in (self.reserve, self.charge_to) if 0 < level < 1)

    def settle(self, state: SiteState) -> SetPoints:
        surplus = state.generation_w - state.load_w
        attractive = self._attractive(state)
        if surplus >= 0:
            points = self._spend(state, surplus)
        else:
            points = self._meet(state, -surplus, attractive)
        return self._charge_from_grid(state, points) if attractive else points

    def _spend(self, state: SiteState, surplus: float) -> SetPoints:
        charge = min(surplus, state.most_charge_w)
        export = min(surplus - charge, state.grid.export_limit_w)
        return SetPoints(charge, -export, curtailment_w=surplus - charge - export)

    def _meet(self, state: SiteState, deficit: float, attractive: bool) -> SetPoints:
        limit = state.grid.import_limit_w
        below_peak = min(limit, self.peak_w)
        shared = state.most_discharge_w if state.soc > self.reserve else 0.0
        if self.first == "grid" or attractive:
            bought = min(deficit, below_peak)
            given = min(deficit - bought, shared)
        else:
            given = min(deficit, shared)
            bought = min(deficit - given, below_peak)
        bought += min(deficit - given - bought, limit - bought)
        given += min(deficit - given - bought, state.most_discharge_w - given)
        return SetPoints(-given, bought, unserved_w=max(deficit - given - bought, 0.0))

    def _charge_from_grid(self, state: SiteState, points: SetPoints) -> SetPoints:
        if points.battery_w < 0 or points.unserved_w > 0 or state.soc >= self.charge_to:
            return points
        room = min(state.grid.import_limit_w, self.peak_w) - points.grid_w
        more = max(min(state.most_charge_w - points.battery_w, room), 0.0)
        return points._replace(battery_w=points.battery_w + more, grid_w=points.grid_w + more)

    def _attractive(self, state: SiteState) -> bool:
        """Return whether the grid is available, and cheap or clean, now."""
        grid = state.grid
        return grid.import_limit_w > 0 and (
            grid.price_per_kwh <= self.charge_below_price
            or grid.carbon_gco2_per_kwh <= self.charge_below_carbon
        )


def check_set_points(state: SiteState, points: SetPoints) -> None:
    """Raise PolicyError, with all that is wrong, if set-points break a limit or do not balance."""
    battery, grid, left, short = points
    made, load = state.generation_w, state.load_w
    slack = _SLACK * (made + load + abs(battery) + abs(grid))
    miss = made + grid + short - load - battery - left
    if (
        abs(miss) <= slack
        and -state.most_discharge_w - slack <= battery <= state.most_charge_w + slack
        and -state.grid.export_limit_w - slack <= grid <= state.grid.import_limit_w + slack
        and -slack <= left <= made + slack
        and -slack <= short <= load + slack
    ):
        return
    raise PolicyError(f"controller at {state.time_s:.9g} s: {_problems(state, points, slack)}")


def _problems(state: SiteState, points: SetPoints, slack: float) -> str:
    battery, grid, left, short = points
    limits = (
        ("charging", battery, state.most_charge_w, "the battery can take"),
        ("discharging", -battery, state.most_discharge_w, "the battery can give"),
        ("importing", grid, state.grid.import_limit_w, "the grid allows"),
        ("exporting", -grid, state.grid.export_limit_w, "the grid allows"),
        ("curtailing", left, state.generation_w, "there is"),
        ("leaving unserved", short, state.load_w, "is wanted"),
    )
    problems = [
        f"{what} {asked:g} W, {rule} {most:g} W"
        for what, asked, most, rule in limits
        if not asked <= most + slack
    ]
    for name in ("curtailment_w", "unserved_w"):
        if getattr(points, name) < -slack:
            problems.append(f"{name} is {getattr(points, name):g}, it must be at least 0")
    miss = state.generation_w + grid + short - state.load_w - battery - left
    if not abs(miss) <= slack:
        problems.append(
            f"generation + grid + unserved exceeds load + battery + curtailment by {miss:g} W"
        )
    return "; ".join(problems)


class ControllerLevels:
    """When the battery meets the next level of its controller, at which the controller is asked.

    A level that the battery is charged or discharged to is met at the instant it is reached. One
    that it only leaks past, as after charging up to it, is met some time later: the controller
    would top the battery up and be asked again at once, without end. A controller that still does
    not let time go on is refused.
    """

    def __init__(self, levels: Sequence[float]) -> None:
        self._levels = tuple(levels)
        self._last_s = -math.inf
        self._in_a_row = 0
        self.next_s = math.inf
        """When the next level is met, in s; inf if never, or if it is full or empty before."""

    def await_next(self, battery: Battery, battery_w: float, bound_s: float) -> float:
        """Return when the controller must be asked again, in s.

        `battery_w` is held from now on (above 0 charges); at `bound_s` it is full or empty.
        """
        self.next_s = math.inf
        level_s = battery.next_event(battery_w, self._levels) if self._levels else math.inf
        if level_s < bound_s:
            if battery.leaks_faster_than(battery_w):
                level_s = max(level_s, self._last_s + _REST_S)
            self.next_s = level_s
        return min(bound_s, level_s)

    def advance(self, now: float) -> None:
        """Move on to a time in s.

        Raises PolicyError if the controller drives the battery to and fro across a level.
        """
        if now < self.next_s:
            return
        self._in_a_row = self._in_a_row + 1 if now - self._last_s < _REST_S else 0
        self._last_s, self.next_s = now, math.inf
        if self._in_a_row > _MOST_IN_A_ROW:
            raise PolicyError(
                f"controller at {now:.9g} s: the battery has passed its levels "
                f"({', '.join(f'{level:g}' for level in self._levels)}) more than "
                f"{_MOST_IN_A_ROW} times, each within {_REST_S:g} s of the last, while nothing "
                "else changed; leave a band between the levels to which it charges and discharges"
            )

    def start_over(self) -> None:
        """Count levels from 0 again, because something else has changed."""
        self._in_a_row = 0
