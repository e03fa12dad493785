"""A controller's levels: what flows stops when one is reached, whatever leaks, however fast."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import PolicyError
from simkit.power.battery import Battery
from simkit.power.controller import SetPoints, SiteState, SourceOrder
from simkit.power.facts import BatteryFacts
from simkit.power.ledger import Flows
from simkit.power.machine_model import PowerModel
from simkit.power.signal import PRICE, Steps
from simkit.power.site import Grid, Site, Source
from simkit.power.system import EnergySystem
from simkit.units import TIME_GRID

KWH = 3.6e6
HOUR = 3600.0
MACHINE = PowerModel.linear(0.0, 5000.0, "processors")


def steps(values: list[float], every: float, unit: str = "W") -> Steps:
    starts = [every * n for n in range(len(values))]
    return Steps(starts, values, every * len(values), unit=unit, past_end="wrap")


class Stretch(NamedTuple):
    """Of a run, between two settlements."""

    start: float
    end: float
    before: float
    """State of charge at its start."""
    after: float
    flows: Flows


def played(site: Site, until: float, loads: Steps | None = None) -> list[Stretch]:
    """Settle a site again and again until a time."""
    energy, rows = EnergySystem(site, 0.0), []
    load = loads or steps([0.0], until)
    while energy.time_s < until:
        now, battery = energy.time_s, energy.battery
        energy.read_signals(now)
        energy.settle(load.value(now), 0.0)
        at = min(energy.next_event, energy.next_change(), load.next_change(now), until)
        before, flows = battery.soc, energy.flows
        energy.advance(math.ceil(at / TIME_GRID) * TIME_GRID)
        rows.append(Stretch(now, energy.time_s, before, battery.soc, flows))
    return rows


def cheap(battery: BatteryFacts, **facts: object) -> Site:
    """A site whose grid costs little, without machines that draw anything."""
    controller = SourceOrder(charge_below_price=0.1, **facts)
    grid = Grid(price_per_kwh=0.1)
    return Site((MACHINE,), battery=battery, grid=grid, controller=controller)


def test_the_grid_charges_to_the_level_and_tops_up_once_a_minute():
    battery = BatteryFacts(
        capacity_kwh=2,
        charge_c_rate=20,
        discharge_c_rate=20,
        charge_efficiency=0.9,
        initial_soc=0.0,
        self_discharge_per_day=0.2,
    )
    rows = played(cheap(battery, charge_to=0.5), HOUR)
    socs = np.array([row.after for row in rows])
    # 40 kW bring 0.5 of 2 kWh in 100 s, and a little for what leaks meanwhile
    assert rows[0].end == pytest.approx(100.0, abs=0.02)
    assert socs.max() == pytest.approx(0.5, abs=1e-8)
    # 60 s of the leak are 1.5e-4 of the content
    assert socs[:-1].min() == pytest.approx(0.5 * (1 - 60 * battery.self_discharge_per_s), rel=1e-7)
    idle = [row.end - row.start for row in rows[:-1] if row.flows.charge_w == 0]
    assert idle == pytest.approx([60.0] * len(idle), abs=1e-5)


def test_the_reserve_is_kept_though_the_sun_has_just_brought_it_there():
    """The sun charges through the reserve at 250 s; 10 s later it goes, and 0.5 s are to spare."""
    sun = Steps([0, 250, 260], [0, 21e3, 0], 1e4, past_end="hold")
    battery = BatteryFacts(capacity_kwh=2, charge_c_rate=20, discharge_c_rate=20, initial_soc=0.5)
    site = Site(
        (MACHINE,), (Source("sun", sun),), Grid(), battery, SourceOrder(reserve=0.5),
        critical_w=20e3,
    )  # fmt: skip
    rows = played(site, 1000.0)
    used = [(row.start, row.end) for row in rows if row.flows.discharge_w]
    assert used == [(260.0, pytest.approx(260.5, abs=1e-5))]
    assert rows[-1].after == pytest.approx(0.5, abs=1e-8)


@pytest.mark.parametrize("level", [0.1, 0.3, 0.35, 0.55, 0.7, 0.9])
@pytest.mark.parametrize("capacity", [0.7, 1.1, 3.3])
def test_a_level_at_which_the_battery_starts_is_kept(level: float, capacity: float):
    """Content and state of charge may round to different sides of it."""
    battery = BatteryFacts(
        capacity_kwh=capacity, charge_c_rate=20, discharge_c_rate=20, initial_soc=level
    )
    controller = SourceOrder(reserve=level)
    site = Site((MACHINE,), (), Grid(), battery, controller, critical_w=5e3)
    assert played(site, HOUR)[-1].after == pytest.approx(level, abs=1e-7)


shares = st.floats(0.0, 1.0)


@st.composite
def sites(draw: st.DrawFn) -> Site:
    battery = BatteryFacts(
        capacity_kwh=draw(st.floats(0.1, 10.0)),
        charge_c_rate=draw(st.floats(0.1, 50.0)),
        discharge_c_rate=draw(st.floats(0.1, 50.0)),
        charge_efficiency=draw(st.floats(0.5, 1.0)),
        discharge_efficiency=draw(st.floats(0.5, 1.0)),
        initial_soc=draw(shares),
        self_discharge_per_day=draw(st.sampled_from([0.0, 0.01, 0.5, 0.99])),
    )
    price = steps(draw(st.lists(st.sampled_from([0.1, 0.3]), min_size=2, max_size=5)), 120.0, PRICE)
    sun = steps(draw(st.lists(st.sampled_from([0.0, 4.0, 2e3, 9e3, 2e4]), min_size=3)), 70.0)
    controller = SourceOrder(
        first=draw(st.sampled_from(["battery", "grid"])),
        reserve=draw(shares),
        peak_w=draw(st.sampled_from([np.inf, 6e3, 20.0])),
        charge_below_price=0.1,
        charge_to=draw(shares),
    )
    return Site((MACHINE,), (Source("sun", sun),), Grid(price_per_kwh=price), battery, controller)


@given(sites(), st.lists(st.sampled_from([0.0, 3.0, 1e3, 5e3, 2e4]), min_size=2))
def test_no_level_is_passed_by_more_than_a_tick(site: Site, watts: list[float]):
    """The grid has all that is asked for, so that the reserve is never needed."""
    rows = played(site, HOUR, steps(watts, 45.0))
    battery, rules = site.battery, site.controller
    leak = battery.self_discharge_per_s
    for start, end, before, after, flows in rows:
        tick = 2 * TIME_GRID * (flows.charge_w + flows.discharge_w / battery.discharge_efficiency)
        slack = tick / battery.capacity_j + 1e-12
        if flows.discharge_w:
            leaked = before * -np.expm1(-leak * (end - start))
            assert after + leaked >= rules.reserve - slack
        surplus = max(flows.generation_w - flows.load_w, 0.0)
        if flows.charge_w > surplus * (1 + 1e-9):  # the grid charges
            assert max(before, after) <= rules.charge_to + slack
    changes = HOUR / 45 + HOUR / 70 + HOUR / 120
    assert len(rows) < 6 * (changes + HOUR / 60)


class ToAndFro:
    """Charges up to half, discharges from there on: a controller that never comes to rest."""

    levels = (0.5,)

    def settle(self, state: SiteState) -> SetPoints:
        power = 1e3 if state.soc <= 0.5 else -1e3
        return SetPoints(power, power + state.load_w - state.generation_w)


def test_a_controller_that_turns_round_at_a_level_without_end_is_refused():
    battery = BatteryFacts(capacity_kwh=1.0, initial_soc=0.4)
    site = Site((MACHINE,), (), Grid(export_limit_w=1e4), battery, ToAndFro())
    with pytest.raises(PolicyError, match=r"passed its levels \(0.5\) more than 100 .* band"):
        played(site, HOUR)


def test_what_leaks_past_a_level_does_not_discharge():
    battery = Battery(BatteryFacts(capacity_kwh=1.0, initial_soc=0.5, self_discharge_per_day=0.5))
    holding = battery.energy_j * battery.facts.self_discharge_per_s
    assert battery.leaks_faster_than(0.0)
    assert battery.leaks_faster_than(0.9 * holding)
    assert not battery.leaks_faster_than(1.1 * holding)
    assert not battery.leaks_faster_than(-1.0)
