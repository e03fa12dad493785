"""A battery against tables worked out by hand, and against conservation of energy."""

from __future__ import annotations

import math

import pytest
from energy_meter import MeteredBattery
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import PolicyError, ScenarioError
from simkit.power.battery import Battery
from simkit.power.facts import BatteryFacts

KWH = 3.6e6
TICK = 2.0**-20


def facts_of(**facts: float) -> BatteryFacts:
    """Return 10 kWh, half full unless said otherwise; C/L/C if a slope is given."""
    tapers = facts.get("charge_slope_h") or facts.get("discharge_slope_h")
    given = {"initial_soc": 0.5, "model": "clc" if tapers else "linear"} | facts
    return BatteryFacts(capacity_kwh=10.0, **given)


def battery(**facts: float) -> MeteredBattery:
    return MeteredBattery(facts_of(**facts))


# 10 kWh, half full; powers in kW that may be held for 2 h
LIMITS = [
    # facts, charge, discharge, which limits bind
    ({}, 2.5, 2.5),  # 5 kWh of room and of content over 2 h
    ({"charge_c_rate": 0.2, "discharge_c_rate": 0.1}, 2.0, 1.0),  # both rates
    ({"floor": 0.2, "ceiling": 0.9}, 2.0, 1.5),  # 4 kWh to the ceiling, 3 kWh to the floor
    ({"charge_efficiency": 0.8}, 3.125, 2.5),  # 5 kWh / 0.8 go in
    ({"discharge_efficiency": 0.8}, 2.5, 2.0),  # 5 kWh · 0.8 come out
    ({"initial_soc": 1.0}, 0.0, 5.0),  # full
    ({"initial_soc": 0.2, "floor": 0.2}, 4.0, 0.0),  # at the floor
    ({"initial_soc": 0.1, "floor": 0.2}, 4.5, 0.0),  # below the floor
    ({"charge_c_rate": 0.0}, 0.0, 2.5),  # it cannot be charged at all
    # C/L/C: 2 h · P + 0.5 h · P = 5 kWh: the sloped bound
    ({"charge_slope_h": 0.5, "discharge_slope_h": 0.5}, 2.0, 2.0),
]


@pytest.mark.parametrize(("facts", "charge_kw", "discharge_kw"), LIMITS)
def test_which_limit_binds(facts: dict[str, float], charge_kw: float, discharge_kw: float) -> None:
    limits = battery(**facts).limits(7200.0)
    assert limits.charge_w == pytest.approx(charge_kw * 1000, rel=1e-8)
    assert limits.discharge_w == pytest.approx(discharge_kw * 1000, rel=1e-8)


def test_limits_just_now_are_the_rates() -> None:
    assert battery(charge_c_rate=0.5, discharge_c_rate=2.0).limits() == (5000.0, 20000.0)


def test_limits_of_clc_fall_in_a_straight_line_towards_the_bounds() -> None:
    facts = BatteryFacts(
        capacity_kwh=10, initial_soc=0.9, charge_slope_h=0.2, discharge_slope_h=0.1, model="clc"
    )
    # at 0.9 of 10 kWh: (1 − 0.9) / 0.2 h = 0.5 / h; discharge: 0.9 / 0.1 h, so the rate of 1 binds
    limits = Battery(facts, hold_s=1e-6).limits()
    assert limits.charge_w == pytest.approx(5000.0)
    assert limits.discharge_w == pytest.approx(10000.0)


EVENTS = [
    # facts, power in kW, seconds until the event
    ({}, 5.0, 3600.0),  # 5 kWh at 5 kW: full
    ({}, -5.0, 3600.0),  # empty
    ({"charge_efficiency": 0.5}, 5.0, 7200.0),  # half is lost
    ({"discharge_efficiency": 0.5}, -5.0, 1800.0),  # twice as much is taken out
    ({"floor": 0.25}, -5.0, 1800.0),  # 2.5 kWh above the floor
    ({"ceiling": 0.75}, 5.0, 1800.0),  # 2.5 kWh below the ceiling
    ({}, 0.0, math.inf),  # nothing flows
    ({"initial_soc": 1.0}, 1.0, 0.0),  # it is full already
    ({"charge_slope_h": 0.25}, 5.0, 2700.0),  # at 0.5 / h the ceiling is 0.125 lower: 3.75 kWh
    # leak λ with half of it gone in a day; 10 kWh · λ / 2 just keeps the content
    ({"self_discharge_per_day": 0.5}, 10 * math.log(2) / 24 / 2, math.inf),
    # at four times that the content nears 20 kWh: 10 = 20 − 15 · 2^(−t/day) after log2(1.5) days
    ({"self_discharge_per_day": 0.5}, 10 * math.log(2) / 24 * 2, math.log2(1.5) * 86400),
    ({"self_discharge_per_day": 0.5}, 0.0, math.inf),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "power_kw", "seconds"), EVENTS)
def test_when_power_has_to_end(facts: dict[str, float], power_kw: float, seconds: float) -> None:
    event = battery(**facts).next_event(power_kw * 1000)
    assert event == (math.inf if seconds == math.inf else pytest.approx(seconds, abs=2 * TICK))


def test_levels_are_passed_and_bounds_are_not() -> None:
    cell = battery()
    assert 900.0 < cell.next_event(-10_000.0, levels=(0.25,)) <= 900.0 + TICK
    cell.run(-10_000.0, cell.next_event(-10_000.0, levels=(0.25,)))
    assert 0.25 - 1e-9 < cell.soc <= 0.25
    assert cell.next_event(-10_000.0, levels=(0.25,)) > cell.time_s + 899  # not again and again
    cell.run(-10_000.0, cell.next_event(-10_000.0))
    assert 0.0 <= cell.soc < 1e-9
    assert cell.limits() == (10_000.0, 0.0)


def test_a_cycle_by_hand() -> None:
    """10 kWh, η 0.9 and 0.8: 1 h at 5 kW in stores 4.5 kWh, 1 h at 2 kW out takes 2.5 kWh."""
    cell = battery(charge_efficiency=0.9, discharge_efficiency=0.8, initial_soc=0.1)
    cell.run(5000.0, 3600.0)
    cell.run(-2000.0, 7200.0)
    assert cell.energy_j == pytest.approx((1 + 4.5 - 2.5) * KWH)
    assert cell.charged_j == pytest.approx(5.0 * KWH)
    assert cell.discharged_j == pytest.approx(2.0 * KWH)
    assert cell.losses_j == pytest.approx((0.5 + 0.5) * KWH)
    assert cell.soc == pytest.approx(0.3)


def test_self_discharge_by_hand() -> None:
    cell = battery(self_discharge_per_day=0.1)
    cell.run(0.0, 3 * 86400.0)
    assert cell.energy_j == pytest.approx(5 * KWH * 0.9**3)
    assert cell.losses_j == pytest.approx(5 * KWH * (1 - 0.9**3))


def test_splitting_a_run_changes_nothing() -> None:
    whole, split = (battery(self_discharge_per_day=0.2, charge_efficiency=0.9) for _ in range(2))
    whole.run(1000.0, 7200.0)
    for part in range(1, 101):
        split.run(1000.0, 72.0 * part)
    assert split.energy_j == pytest.approx(whole.energy_j, rel=1e-13)
    assert split.losses_j == pytest.approx(whole.losses_j, rel=1e-11)


def test_a_full_battery_that_leaks_can_be_kept_full() -> None:
    cell = battery(initial_soc=1.0, self_discharge_per_day=0.1, charge_efficiency=0.8)
    trickle = cell.limits().charge_w
    assert trickle == pytest.approx(10 * KWH * -math.log(0.9) / 86400 / 0.8)
    assert cell.next_event(trickle) == math.inf
    cell.run(trickle, 1e6)
    assert cell.soc == pytest.approx(1.0, abs=1e-12)


def test_clc_charges_to_the_top_in_a_finite_number_of_events() -> None:
    cell = Battery(
        BatteryFacts(capacity_kwh=10, charge_slope_h=0.1, initial_soc=0.5, model="clc"), hold_s=60.0
    )
    events = 0
    while (power := cell.limits().charge_w) > 0:
        cell.run(power, cell.next_event(power))
        events += 1
        assert events < 1000
    assert 1 - 1e-8 < cell.soc <= 1.0


REFUSED = [
    (20_000.0, 1.0, "charge of 20000 W at 0 s; its C-rate allows 10000 W"),
    (-20_000.0, 1.0, "discharge of 20000 W"),
    (10_000.0, 3600.0, "it must stop at 1800 s, its next event"),
    (-10_000.0, 3600.0, "it must stop at 1800 s"),
    (math.nan, 1.0, "charge of nan W|discharge of nan W"),
    (0.0, -1.0, "time cannot go back"),
]


@pytest.mark.parametrize(("power_w", "until", "message"), REFUSED)
def test_what_it_refuses_changes_nothing(power_w: float, until: float, message: str) -> None:
    cell = battery()
    with pytest.raises(PolicyError, match=message):
        cell.run(power_w, until)
    assert (cell.time_s, cell.soc, cell.charged_j, cell.losses_j) == (0.0, 0.5, 0.0, 0.0)


def test_all_wrong_facts_are_told_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        BatteryFacts(capacity_kwh=-1.0, charge_efficiency=1.2, initial_soc=math.nan)
    places = [problem.partition(":")[0] for problem in caught.value.problems]
    assert places == ["battery.capacity_kwh", "battery.charge_efficiency", "battery.initial_soc"]
    with pytest.raises(ScenarioError, match=r"^battery\.floor"):
        BatteryFacts(capacity_kwh=1.0, floor=0.9, ceiling=0.2)


def test_a_time_to_hold_must_be_one() -> None:
    with pytest.raises(ScenarioError, match="hold_s is 0; it must be a positive time"):
        Battery(BatteryFacts(capacity_kwh=1.0), hold_s=0.0)


shares = st.floats(0.0, 1.0)
batteries = st.builds(
    lambda floor, width, start, **facts: facts_of(
        floor=floor * 0.4, ceiling=0.5 + width / 2, initial_soc=start * 0.5, **facts
    ),
    shares, shares, shares,
    charge_efficiency=st.floats(0.5, 1.0),
    discharge_efficiency=st.floats(0.5, 1.0),
    charge_c_rate=st.floats(0.0, 4.0),
    discharge_c_rate=st.floats(0.0, 4.0),
    self_discharge_per_day=st.sampled_from([0.0, 1e-3, 0.3]),
    charge_slope_h=st.sampled_from([0.0, 0.05, 0.5]),
    discharge_slope_h=st.sampled_from([0.0, 0.05, 0.5]),
)  # fmt: skip
wishes = st.lists(st.tuples(st.floats(-1.0, 1.0), st.integers(0, 20_000)), max_size=8)


@given(batteries, wishes)
def test_energy_in_is_energy_out_and_losses_and_stored(
    facts: BatteryFacts, wishes: list[tuple[float, int]]
) -> None:
    """Whatever share of its limits one asks for, stopping at its events."""
    cell = MeteredBattery(facts, hold_s=600.0)
    first, time = cell.energy_j, 0.0
    for share, span in wishes:
        time += span
        while cell.time_s < time:
            limits = cell.limits()
            power = share * (limits.charge_w if share > 0 else limits.discharge_w)
            event = cell.next_event(power)
            assert event > cell.time_s  # no power within its limits ends at once
            cell.run(power, min(time, event))
            assert 0.0 <= cell.soc <= facts.ceiling + 1e-12
            if power < 0 and not facts.self_discharge_per_day:
                assert cell.soc >= facts.floor - 1e-12
    moved = cell.charged_j + cell.discharged_j + facts.capacity_j
    books = first + cell.charged_j - cell.discharged_j - cell.losses_j
    assert books == pytest.approx(cell.energy_j, abs=1e-11 * moved)
    assert cell.losses_j >= -1e-9
