"""Algorithm 5 of the RARE dissertation; by hand it is a table of docs/reference/power.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rare_battery import RareBattery, corrected

from simkit.errors import ScenarioError
from simkit.power.battery import Battery
from simkit.power.facts import BatteryFacts

SMALL = RareBattery(battery_capacity=100, max_load=40, c_rate=20, e_rate=30, initial_level=50)


@given(st.lists(st.integers(0, 200), max_size=40))
def test_corrected_is_the_linear_model_held_for_a_step(renewable: list[int]) -> None:
    """One step is an hour, so that a level of 1 is 1 Wh, and rates are 1/h of 100 Wh."""
    facts = BatteryFacts(capacity_kwh=0.1, charge_c_rate=0.2, discharge_c_rate=0.3, initial_soc=0.5)
    battery, supply = Battery(facts), corrected(SMALL, renewable)
    for step, power in enumerate(renewable):
        until = 3600.0 * (step + 1)
        charge, discharge = battery.limits(until)
        battery_w = max(min(power - 40.0, charge), -discharge)
        battery.run(battery_w, until)
        assert battery.energy_j / 3600.0 == pytest.approx(supply.level[step], abs=1e-5)
        assert min(power - battery_w, 40.0) == pytest.approx(supply.available[step], abs=1e-5)


def test_parameters_are_checked() -> None:
    with pytest.raises(ScenarioError, match="c_rate is -1"):
        RareBattery(100, 40, -1, 30)
    with pytest.raises(ScenarioError, match="initial_level 200 is above battery_capacity 100"):
        RareBattery(100, 40, 20, 30, initial_level=200)
