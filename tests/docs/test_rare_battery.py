"""Algorithm 5 of the RARE dissertation; by hand it is a table of docs/reference/power.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rare_battery import algorithm_5

from simkit.power.battery import Battery
from simkit.power.facts import BatteryFacts


@given(st.lists(st.integers(0, 200), max_size=40))
def test_corrected_is_the_linear_model_held_for_a_step(renewable: list[int]) -> None:
    """One step is an hour, so that a level of 1 is 1 Wh, and rates are 1/h of 100 Wh."""
    facts = BatteryFacts(capacity_kwh=0.1, charge_c_rate=0.2, discharge_c_rate=0.3, initial_soc=0.5)
    battery = Battery(facts)
    supply, level = algorithm_5(renewable, load=40, capacity=100, c_rate=20, e_rate=30, level=50)
    for step, power in enumerate(renewable):
        until = 3600.0 * (step + 1)
        charge, discharge = battery.limits(until)
        battery_w = max(min(power - 40.0, charge), -discharge)
        battery.run(battery_w, until)
        assert battery.energy_j / 3600.0 == pytest.approx(level[step], abs=1e-5)
        assert min(power - battery_w, 40.0) == pytest.approx(supply[step], abs=1e-5)


@given(
    st.lists(st.floats(0, 1e6), max_size=30), st.floats(0, 1e6), st.floats(0, 1e6),
    st.floats(0, 1e6),
)  # fmt: skip
def test_as_printed_every_load_is_carried(power, load, rate, level):
    """What the page on exceedance says of algorithm 5 as printed, to rounding."""
    rates = {"capacity": 1e6, "c_rate": rate, "e_rate": rate, "level": level}
    supply, _ = algorithm_5(power, load=load, printed=True, **rates)
    assert all(given >= load * (1 - 1e-12) for given in supply)
