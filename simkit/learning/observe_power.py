"""Observations of the site's power: what there is now, and what is forecast for the steps ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.learning.encoder import Numbers, check_numbers
from simkit.learning.schema import Field, ObservationSchema
from simkit.policy import State, SystemInfo
from simkit.policy.state import Foreseen, PowerState

NOW = ("generation", "load", "machines", "available", "price", "carbon", "soc")
"""What is shown of the present, in order."""


class PowerForecast:
    """The site's power now, then a number for each step ahead of each signal that is forecast.

    An amount x is shown as x / (|x| + its scale), so that prices below 0 are told apart; without
    limit it is 1, and unknown it is 0. The scenario must have a section `power`, and a forecast of
    what is shown.

    Args:
        info: the system to observe.
        signals: those of generation, available, price and carbon whose forecast is shown.
        steps: H, how many steps of the forecast are shown.
        power_scale_w: the power that is shown as 1/2, in W.
        price_scale: the price that is shown as 1/2, per kWh.
        carbon_scale: the carbon intensity that is shown as 1/2, in g/kWh.
    """

    def __init__(
        self,
        info: SystemInfo,
        signals: Sequence[Foreseen] = ("generation",),
        steps: int = 24,
        power_scale_w: float = 10_000.0,
        price_scale: float = 0.1,
        carbon_scale: float = 300.0,
    ) -> None:
        scales = {
            "power_scale_w": power_scale_w, "price_scale": price_scale, "carbon_scale": carbon_scale
        }  # fmt: skip
        check_numbers("power-forecast", {"steps": steps}, scales)
        known = get_args(Foreseen)
        if isinstance(signals, str) or [name for name in signals if name not in known]:
            raise ScenarioError(
                f"observation 'power-forecast': signals is {signals!r}; it must be a list of "
                f"{', '.join(known)}, or empty"
            )
        self._signals, self._steps = tuple(signals), steps
        self._scales = {"price": price_scale, "carbon": carbon_scale}
        self._power_scale_w = power_scale_w
        self.schema = self._schema(scales)

    def _scale(self, name: str) -> float:
        return self._scales.get(name, self._power_scale_w)

    def _schema(self, scales: dict[str, float]) -> ObservationSchema:
        units = {"price": "per kWh", "carbon": "g/kWh"}

        def told(name: str) -> str:
            return (
                f"{name} x as x / (|x| + {self._scale(name):g} {units.get(name, 'W')}); 0: unknown"
            )

        now = [Field(f"now.{name}", (1,), -1, 1, "1", told(name)) for name in NOW if name != "soc"]
        soc = Field("now.soc", (1,), 0, 1, "1", "state of charge; 0: there is no battery")
        ahead = [
            Field(f"ahead.{name}", (self._steps,), -1, 1, "1", f"mean of each step: {told(name)}")
            for name in self._signals
        ]
        given = {"signals": self._signals, "steps": self._steps, **scales}
        return ObservationSchema("power-forecast", (*now, soc, *ahead), given)

    def reset(self, info: SystemInfo) -> None:
        pass

    def encode(self, state: State) -> Numbers:
        """Return (7 + signals * H,) float32.

        Raises ScenarioError if the scenario has no power, or its forecast is shorter; PolicyError
        if it has no forecast of a signal.
        """
        power = state.power
        if power is None:
            raise ScenarioError(
                "observation 'power-forecast' shows the site's power, which the scenario does not "
                "have; add a section `power`, or take another observation"
            )
        amounts = {
            "generation": power.generation_w, "load": power.load_w, "machines": power.machines_w,
            "available": power.available_w, "price": power.price_per_kwh,
            "carbon": power.carbon_gco2_per_kwh,
        }  # fmt: skip
        now = [_shown(np.array([x]), self._scale(name)) for name, x in amounts.items()]
        ahead = [_shown(self._ahead(power, name), self._scale(name)) for name in self._signals]
        return np.concatenate([*now, [power.soc], *ahead]).astype(np.float32)

    def _ahead(self, power: PowerState, name: Foreseen) -> Floats:
        forecast = power.forecast(name)
        if len(forecast) < self._steps:
            raise ScenarioError(
                f"observation 'power-forecast': steps is {self._steps}, and the forecast has "
                f"{len(forecast)}; take fewer, or a longer power.forecast.horizon"
            )
        return forecast[: self._steps]


def _shown(amounts: Floats, scale: float) -> Floats:
    """Return amounts as x / (|x| + scale), without limit as 1; 0 for what is not known."""
    known = np.nan_to_num(amounts)  # an infinite amount is the largest number
    shown: Floats = known / (np.abs(known) + scale)
    return shown
