"""A battery: stores energy within its state of charge and C-rate.

`Battery.limits` says what may flow; a controller keeps to it, and `Battery.run` refuses more.

`facts.BatteryFacts` are its size, limits and losses, which never change; here is its state. Like a
tank with two taps and a small leak: power is constant between two events, so the content follows a
closed form, and the instant at which the tank is full or empty is computed, not searched for. With
content e, stored power g (charging: power · efficiency; discharging: power / efficiency, below 0)
and leak λ:

    e(t) = e(0) + g t                                without self-discharge
    e(t) = e(0) + (g − λ e(0)) (1 − exp(−λ t)) / λ   with it

Power above 0 charges. Powers are measured at the terminals; losses occur inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from simkit.errors import PolicyError, ScenarioError
from simkit.power.facts import BatteryFacts
from simkit.units import HOUR_S, TIME_GRID

_SLACK: Final = 1e-9
"""Share of a limit by which a power may exceed it: rounding of sums."""
_STILL: Final = 1e-12
"""Share of the flows in and out below which their difference counts as 0."""
_NEVER_S: Final = 2.0**33
"""272 years, the end of the grid of times: nothing happens later."""


class Limits(NamedTuple):
    """The largest powers in W, both as positive numbers."""

    charge_w: float
    discharge_w: float


class Battery:
    """The state of a battery at `time_s`; `run` moves it on.

    Events lie on simkit's grid of times. The instant at which it is full or empty is rounded down
    to the grid, so the content never leaves its window. A content less than two ticks at full power
    away from a bound counts as at the bound.
    """

    def __init__(self, facts: BatteryFacts, time_s: float = 0.0, hold_s: float = 60.0) -> None:
        """Make a battery with its initial content at a time in s.

        The limits of a C/L/C battery fall while power flows. `hold_s` is the shortest time in s for
        which `limits` can be held; without one, power would have to change all the time.

        Raises ScenarioError if `hold_s` is not positive.
        """
        if not 0 < hold_s < math.inf:
            raise ScenarioError(f"battery: hold_s is {hold_s:g}; it must be a positive time in s")
        self.facts = facts
        self.time_s = time_s
        tapers = facts.charge_slope_h > 0 or facts.discharge_slope_h > 0
        self.hold_s = hold_s if tapers else 0.0
        self._capacity_j = facts.capacity_j
        self.energy_j = facts.initial_soc * facts.capacity_j
        """Content in J."""
        self._leak = facts.self_discharge_per_s
        self._most_w = Limits(facts.most_charge_w, facts.most_discharge_w)
        self._slope_s = facts.charge_slope_h * HOUR_S, facts.discharge_slope_h * HOUR_S
        self._top_j, self._bottom_j = facts.ceiling_j, facts.floor_j
        self._drain = 1.0 / facts.discharge_efficiency
        self._at_top_j = 2.0 * TIME_GRID * facts.charge_efficiency * facts.most_charge_w
        falls_w = self._drain * facts.most_discharge_w + self._leak * facts.capacity_j
        self._at_bottom_j = 2.0 * TIME_GRID * falls_w

    @property
    def soc(self) -> float:
        """State of charge, 0..1."""
        return self.energy_j / self._capacity_j

    def limits(self, until: float | None = None) -> Limits:
        """Return the largest powers that may flow now and can be held until a time in s.

        `until` None asks for this instant (C/L/C: for `hold_s`). Raises PolicyError if `until` lies
        before now.
        """
        span = 0.0 if until is None else self._span(until)
        decay, reach = 1.0, 0.0
        if span or self.hold_s:
            span = max(span, self.hold_s) + 2.0 * TIME_GRID  # the end is rounded down
            decay = math.exp(-self._leak * span)
            reach = -math.expm1(-self._leak * span) / self._leak if self._leak else span
        return Limits(self._most_charge(decay, reach), self._most_discharge(decay, reach))

    def _most_charge(self, decay: float, reach: float) -> float:
        """Return the largest power P that keeps the content at or below the ceiling.

        After the span the content is e · decay + η · P · reach, and P lowers the ceiling by
        slope · P. A limit kept at the start and at the end is kept in between.
        """
        most, gain, slope = self._most_w[0], self.facts.charge_efficiency, self._slope_s[0]
        room = self._top_j - self.energy_j
        if room <= self._at_top_j:  # full: only the leak can be replaced
            return 0.0 if slope else min(most, self._leak * self.energy_j / gain)
        if slope:
            most = min(most, room / slope)
        if reach or slope:
            most = min(most, (self._top_j - self.energy_j * decay) / (gain * reach + slope))
        return most

    def _most_discharge(self, decay: float, reach: float) -> float:
        """Return the largest power that keeps the content at or above the floor."""
        most, slope = self._most_w[1], self._slope_s[1]
        if self.energy_j - self._bottom_j <= self._at_bottom_j:
            return 0.0
        if reach or slope:
            left = self.energy_j * decay - self._bottom_j
            most = min(most, left / (self._drain * reach + slope))
        return max(most, 0.0)

    def next_event(self, power_w: float, levels: Iterable[float] = ()) -> float:
        """Return the time in s at which this power must stop or a level is passed; inf if never.

        Args:
            power_w: held from now on; above 0 charges.
            levels: states of charge, 0..1, at which to stop as well, such as a reserve. A level is
                passed by less than a tick; the bounds are not passed.
        """
        span = self._bound_in(power_w) if power_w else math.inf
        span = math.floor(span / TIME_GRID) * TIME_GRID if span < _NEVER_S else math.inf
        for level in levels:
            passed = self._passes_in(level, power_w)
            if passed < span:
                span = (math.floor(passed / TIME_GRID) + 1.0) * TIME_GRID
        return self.time_s + span

    def leaks_faster_than(self, power_w: float) -> bool:
        """Return whether the content falls although the power is 0 or charges."""
        return power_w >= 0 and self._drift(power_w) < 0

    def run(self, power_w: float, until: float) -> None:
        """Hold a power in W from now until a time in s.

        Raises PolicyError, and changes nothing, if the power exceeds its limit or would take the
        content out of its window before `until`. Stop at `next_event`.
        """
        span = self._span(until)
        after = self._content_after(self._gain(power_w), span)
        self._refuse(power_w, until, after)
        self.energy_j = min(max(after, 0.0), self._capacity_j)  # rounding alone
        self.time_s = until

    def _span(self, until: float) -> float:
        if not until >= self.time_s:
            raise PolicyError(
                f"battery: asked about {until:.9g} s, but it is {self.time_s:.9g} s already; "
                "time cannot go back"
            )
        return until - self.time_s

    def _gain(self, power_w: float) -> float:
        """Return the power into the store in W, below 0 out of it."""
        if power_w > 0:
            return power_w * self.facts.charge_efficiency
        return power_w * self._drain

    def bound_j(self, power_w: float) -> float:
        """Return the content in J at which this power must stop.

        Charging (above 0) stops at the lowered ceiling, discharging at the raised floor.
        """
        if power_w > 0:
            return self._top_j - self._slope_s[0] * power_w
        return self._bottom_j - self._slope_s[1] * power_w

    def _bound_in(self, power_w: float) -> float:
        """Return the time in s until this power meets its bound; 0 if it is there, inf if never."""
        bound_j = self.bound_j(power_w)
        if (bound_j - self.energy_j) * power_w <= 0:  # at the bound, or past it
            return 0.0 if self._drift(power_w) * power_w > 0 else math.inf
        return self._reaches_in(bound_j, power_w)

    def _passes_in(self, level: float, power_w: float) -> float:
        """Return the time in s until a state of charge is passed; inf if never.

        `soc` says on which side of the level the battery is, as it does for a controller. The
        content in J may round to the other side.
        """
        drift, target_j = self._drift(power_w), level * self._capacity_j
        if (level - self.soc) * drift <= 0:
            return math.inf
        if (target_j - self.energy_j) * drift <= 0:
            return 0.0
        return self._reaches_in(target_j, power_w)

    def _reaches_in(self, target_j: float, power_w: float) -> float:
        """Return the time in s until the content reaches a target; inf if never."""
        drift, gap = self._drift(power_w), target_j - self.energy_j
        if gap * drift <= 0:
            return math.inf
        if not self._leak:
            return gap / drift
        share = self._leak * gap / drift  # of the way to where the leak equals the inflow
        return -math.log1p(-share) / self._leak if share < 1 else math.inf

    def _drift(self, power_w: float) -> float:
        """Return how fast the content changes now, in W; 0 if the flows cancel."""
        gain, leak = self._gain(power_w), self._leak * self.energy_j
        drift = gain - leak
        return 0.0 if abs(drift) <= _STILL * leak else drift

    def _content_after(self, gain: float, span: float) -> float:
        """Return the content in J after a power into the store has been held."""
        if not self._leak:
            return self.energy_j + gain * span
        # This form avoids the difference from gain / leak, which is huge.
        reach = -math.expm1(-self._leak * span) / self._leak
        return self.energy_j + (gain - self._leak * self.energy_j) * reach

    def _refuse(self, power_w: float, until: float, after: float) -> None:
        """Raise PolicyError if a power cannot be held until a time."""
        verb, most = ("discharge" if power_w < 0 else "charge"), self._most_w[power_w < 0]
        if not abs(power_w) <= most * (1.0 + _SLACK):
            raise PolicyError(
                f"battery: {verb} of {abs(power_w):g} W at {self.time_s:.9g} s; its C-rate allows "
                f"{most:g} W; see its limits"
            )
        if not power_w:
            return
        sign = math.copysign(1.0, power_w)
        past = sign * (after - self.bound_j(power_w))
        grace = 3.0 * TIME_GRID * abs(self._gain(power_w)) + _STILL * self._capacity_j
        if past > grace and self._drift(power_w) * sign > 0:
            raise PolicyError(
                f"battery: {verb} of {abs(power_w):g} W from {self.time_s:.9g} s to {until:.9g} s; "
                f"it must stop at {self.next_event(power_w):.9g} s, its next event"
            )
