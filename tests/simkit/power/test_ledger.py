"""The ledger: balance at every instant, totals that close, carbon through the battery."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from energy_meter import MeteredBattery, imbalance
from hypothesis import given
from hypothesis import strategies as st

from simkit.arrays import ExactSum, Floats, RunningSums
from simkit.errors import PolicyError
from simkit.power.battery import Battery
from simkit.power.controller import (
    GridOffer,
    SetPoints,
    SiteState,
    SourceOrder,
    check_set_points,
)
from simkit.power.facts import BatteryFacts
from simkit.power.ledger import (
    COLUMNS,
    Flows,
    Ledger,
    StoredEnergy,
    first_wrong,
    share_out,
)

KWH = 3.6e6


class Collected:
    """Keeps all rows of a ledger."""

    def __init__(self) -> None:
        self.chunks: list[dict[str, Floats]] = []

    def rows(self) -> dict[str, Floats]:
        return {name: np.concatenate([c[name] for c in self.chunks]) for name in COLUMNS}


def settled(state: SiteState, points: SetPoints, pue: float, losses_w: float) -> Flows:
    """The flows of set-points, signs turned into names."""
    battery, grid, curtailment, unserved = points
    _, _, price, export_price, carbon = state.grid
    return Flows(
        state.generation_w, max(grid, 0.0), max(-battery, 0.0), unserved, state.load_w - losses_w,
        max(battery, 0.0), max(-grid, 0.0), curtailment, losses_w, pue, price, export_price, carbon,
    )  # fmt: skip


def columns_of(*rows: Flows) -> dict[str, Floats]:
    return dict(zip(Flows._fields, np.array(rows).T, strict=True))


def test_totals_are_power_times_time() -> None:
    ledger = Ledger(100.0)
    ledger.advance(160.0, Flows(generation_w=30, load_w=20, export_w=6, curtailment_w=4))
    ledger.advance(
        170.0,
        Flows(
            import_w=50,
            load_w=60,
            unserved_w=12,
            losses_w=2,
            price_per_kwh=0.36,
            carbon_gco2_per_kwh=360,
        ),
    )
    totals = {name: value for name, value in ledger.totals().items() if value}
    assert totals == pytest.approx({
        "generation_j": 1800, "import_j": 500, "unserved_j": 120, "load_j": 1800,
        "export_j": 360, "curtailment_j": 240, "losses_j": 20,
        "load_renewable_j": 1200, "load_grid_j": 500,
        # 500 J at 360 g/kWh and 0.36 per kWh
        "carbon_g": 0.05, "load_carbon_g": 0.05, "cost": 5e-5, "load_cost": 5e-5,
    })  # fmt: skip


SHARES = [
    # flows, load from (renewable, battery, grid), charge from (renewable, grid)
    (Flows(generation_w=9, load_w=5, charge_w=4), (5, 0, 0, 4, 0)),
    (Flows(generation_w=3, import_w=6, load_w=5, charge_w=4), (3, 0, 2, 0, 4)),
    (Flows(generation_w=6, import_w=3, load_w=5, charge_w=4), (5, 0, 0, 1, 3)),
    (Flows(generation_w=1, discharge_w=2, import_w=2, load_w=5), (1, 2, 2, 0, 0)),
    (Flows(generation_w=1, discharge_w=2, unserved_w=2, load_w=5), (1, 2, 0, 0, 0)),
    (Flows(generation_w=3, load_w=4, unserved_w=2, charge_w=1), (2, 0, 0, 1, 0)),
    (Flows(discharge_w=5, load_w=3, export_w=2), (0, 3, 0, 0, 0)),  # the battery's rest goes out
    (Flows(generation_w=9, curtailment_w=3, load_w=5, losses_w=1), (6, 0, 0, 0, 0)),
]


def test_which_source_serves_what() -> None:
    shares = share_out(columns_of(*(flows for flows, _ in SHARES)))
    rows = list(zip(*(column.tolist() for column in shares.values()), strict=True))
    assert rows == [expected for _, expected in SHARES]


UNBALANCED = [
    (Flows(generation_w=10, load_w=9), "sources give 10 W, uses take 9 W"),
    (Flows(generation_w=10 + 1e-7, load_w=10), "must be equal"),  # 1e-8 of the power
    (Flows(load_w=-3, curtailment_w=3), "finite and at least 0"),
    (Flows(charge_w=3, discharge_w=3), "cannot charge and discharge at once"),
    (Flows(unserved_w=3, export_w=3), "no more can be unserved than wanted"),
    (Flows(import_w=3, curtailment_w=3), "or curtailed than generated"),
    (Flows(import_w=math.inf, load_w=math.inf), "finite"),
    (Flows(import_w=math.nan, load_w=1), "finite"),
]


@pytest.mark.parametrize(("flows", "message"), UNBALANCED)
def test_flows_that_do_not_balance_are_refused(flows: Flows, message: str) -> None:
    """The row is named when it is handed on; those before it stand."""
    ledger = Ledger(stored=StoredEnergy(9.0))
    ledger.advance(1.0, Flows(import_w=5, load_w=5))
    ledger.advance(2.0, flows, 9.0)
    ledger.advance(3.0, Flows(import_w=7, load_w=7))
    with pytest.raises(PolicyError, match=f"at 1 s are wrong.*{message}"):
        ledger.close()
    assert ledger.totals()["load_j"] == 5.0


def test_the_first_wrong_row_is_found() -> None:
    right, wrong = Flows(generation_w=3, load_w=3), Flows(load_w=3)
    assert first_wrong(columns_of(right, wrong, right, wrong)) == 1
    assert first_wrong(columns_of(right, right)) == 2


def test_a_miss_within_rounding_is_none() -> None:
    ledger = Ledger()
    ledger.advance(1.0, Flows(generation_w=10 + 1e-9, load_w=10))
    ledger.close()


def test_time_goes_on_and_a_battery_is_announced() -> None:
    with pytest.raises(PolicyError, match="time cannot go back"):
        Ledger(5.0).advance(4.0, Flows())
    ledger = Ledger()
    ledger.advance(1.0, Flows(discharge_w=1, load_w=1), 0.0)
    with pytest.raises(PolicyError, match="give the ledger the battery's stored energy"):
        ledger.close()
    with pytest.raises(PolicyError, match="its content after every flow"):
        Ledger(stored=StoredEnergy(9.0)).advance(1.0, Flows(discharge_w=1, load_w=1))


@pytest.mark.parametrize("leak", [0.0, 0.05])
def test_stored_carbon_is_billed_when_it_is_used(leak: float) -> None:
    """Charged at 500 g/kWh, used at 100 g/kWh: 500 / η, whatever leaked meanwhile on top."""
    facts = BatteryFacts(capacity_kwh=100, charge_efficiency=0.9, discharge_efficiency=0.8, initial_soc=0.0, self_discharge_per_day=leak)  # fmt: skip
    battery = Battery(facts)
    stored = StoredEnergy(0.0, facts.self_discharge_per_s)
    ledger = Ledger(stored=stored)
    dirty = Flows(import_w=10_000, charge_w=10_000, carbon_gco2_per_kwh=500, price_per_kwh=0.3)
    battery.run(10_000.0, 3600.0)
    ledger.advance(3600.0, dirty, battery.energy_j)
    empty = battery.next_event(-1000.0)
    clean = Flows(discharge_w=1000, load_w=1000, carbon_gco2_per_kwh=100, price_per_kwh=0.1)
    for time in np.linspace(3600.0, empty, 50).tolist():
        battery.run(-1000.0, time)
        ledger.advance(time, clean, battery.energy_j)
    totals = ledger.totals()
    assert totals["carbon_g"] == pytest.approx(5000.0)  # 10 kWh
    assert totals["load_carbon_g"] == pytest.approx(5000.0, rel=1e-6)  # all of it, once
    assert totals["load_cost"] == pytest.approx(3.0, rel=1e-6)
    per_kwh = totals["load_carbon_g"] / (totals["load_battery_j"] / KWH)
    if leak:
        assert per_kwh > 500 / 0.72
    else:
        assert per_kwh == pytest.approx(500 / 0.72, rel=1e-6)
        assert stored.carried.carbon_g == pytest.approx(0.0, abs=1e-3)


def simulated_days(days: int, seed: int) -> tuple[Ledger, MeteredBattery, StoredEnergy, Collected]:
    """Settle a site of random weather, load, prices and grid limits, event by event."""
    rng = np.random.default_rng(seed)
    facts = BatteryFacts(capacity_kwh=300, charge_efficiency=0.93, discharge_efficiency=0.95, floor=0.1, self_discharge_per_day=0.01, initial_soc=0.6)  # fmt: skip
    battery, sink = MeteredBattery(facts), Collected()
    stored = StoredEnergy(battery.energy_j, facts.self_discharge_per_s)
    ledger = Ledger(stored=stored, on_rows=sink.chunks.append)
    controller = SourceOrder(reserve=0.3, peak_w=1.5e5, charge_below_price=0.1)
    for until in np.cumsum(rng.integers(1, 600, days * 288)).tolist():
        sun, load, losses = rng.uniform(0, 4e5), rng.uniform(0, 3e5), rng.uniform(0, 5e3)
        grid = GridOffer(
            rng.choice([0.0, 2e5]), 1e5, rng.uniform(-0.05, 0.4), 0.05, rng.uniform(0, 800)
        )
        while ledger.time_s < until:
            limits = battery.limits()
            state = SiteState(ledger.time_s, sun, load + losses, grid, battery.soc, *limits)
            points = controller.settle(state)
            check_set_points(state, points)
            event = battery.next_event(points.battery_w, controller.levels)
            time = min(float(until), event)
            assert time > ledger.time_s  # never two events at one instant
            battery.run(points.battery_w, time)
            flows = settled(state, points, 1.2, losses)
            ledger.advance(time, flows, battery.energy_j)
    return ledger, battery, stored, sink


def test_everything_closes_over_random_days() -> None:
    ledger, battery, stored, sink = simulated_days(20, seed=3)
    totals = ledger.totals()
    assert imbalance(totals) < 1e-12
    for flow, of_battery in (
        ("charge_j", battery.charged_j),
        ("discharge_j", battery.discharged_j),
    ):
        assert totals[flow] == pytest.approx(of_battery, rel=1e-12)
    drawn = totals["load_j"] + totals["losses_j"] - totals["unserved_j"]
    by_source = (totals[f"load_{source}_j"] for source in ("renewable", "battery", "grid"))
    assert math.fsum(by_source) == pytest.approx(drawn, rel=1e-12)
    # what came in with carbon is in the load's energy, or still in the store
    rows = sink.rows()
    assert totals["carbon_g"] == pytest.approx(
        totals["load_carbon_g"] + stored.carried.carbon_g, rel=1e-9
    )
    assert (rows["start_s"][1:] == rows["end_s"][:-1]).all()
    sources = rows["generation_w"] + rows["import_w"] + rows["discharge_w"] + rows["unserved_w"]
    uses = sum(rows[f"{use}_w"] for use in ("load", "charge", "export", "curtailment", "losses"))
    assert (np.abs(sources - uses) <= 1e-9 * sources).all()
    assert (rows["stored_j"] <= battery.facts.capacity_j).all()


def test_rows_are_handed_on_in_chunks() -> None:
    sink = Collected()
    ledger = Ledger(on_rows=sink.chunks.append)
    for second in range(1, 70_001):
        ledger.advance(float(second), Flows(generation_w=1 + second % 2, load_w=1 + second % 2))
    assert [len(chunk["end_s"]) for chunk in sink.chunks] == [32_768, 32_768]
    ledger.close()
    rows = sink.rows()
    assert len(rows["end_s"]) == 70_000
    assert (rows["start_s"] == np.arange(70_000)).all()
    assert ledger.totals()["load_j"] == 105_000


def test_a_row_goes_on_while_nothing_changes() -> None:
    sink = Collected()
    ledger = Ledger(stored=StoredEnergy(50.0), on_rows=sink.chunks.append)
    flows, charge = Flows(generation_w=1, load_w=1), Flows(import_w=2, charge_w=2)
    for until, what, stored in (
        (1, flows, 50), (2, Flows(*flows), 49), (2, charge, 49),  # no time passes
        (3, charge, 50), (4, charge, 51),  # what a battery does is kept apart
        (5, flows, 51), (9, flows, 50),
    ):  # fmt: skip
        ledger.advance(until, what, stored)
    ledger.close()
    rows = sink.rows()
    assert rows["end_s"].tolist() == [2, 3, 4, 9]
    assert rows["stored_j"].tolist() == [49, 50, 51, 50]


def test_a_year_of_small_steps_closes() -> None:
    """Steps of awkward lengths and powers, against exact fractions."""
    rng = np.random.default_rng(1)
    spans = rng.integers(1, 2**27, 20_000) * 2.0**-20
    loads = rng.uniform(1.0, 1e6, 20_000)
    ledger, time = Ledger(), 0.0
    exact = Fraction(0)
    for span, load in zip(spans.tolist(), loads.tolist(), strict=True):
        time += span
        ledger.advance(time, Flows(generation_w=load * 0.3, import_w=load * 0.7, load_w=load))
        exact += Fraction(span) * Fraction(load)
    totals = ledger.totals()
    assert abs(Fraction(totals["load_j"]) / exact - 1) < 1e-15
    assert imbalance(totals) < 1e-15


@given(st.lists(st.floats(-1e15, 1e15)))
def test_sums_are_those_of_fractions(numbers: list[float]) -> None:
    total = ExactSum()
    for number in numbers:
        total.add(number)
    assert total.value == pytest.approx(math.fsum(numbers), rel=1e-15, abs=1e-12)


def test_what_rounding_takes_adds_up() -> None:
    total = ExactSum(1e16)
    for _ in range(1000):
        total.add(1.0)  # each is lost in a plain sum
    assert total.value == 1e16 + 1000


@given(st.lists(st.floats(0, 1e6)), st.lists(st.floats(0, 1e6), min_size=1))
def test_a_small_difference_of_large_sums_is_exact(
    before: list[float], between: list[float]
) -> None:
    sums = RunningSums(np.array([1e18, *before, *between]))
    first = np.array([1 + len(before)])
    found = sums.between(first, first + len(between))
    assert found[0] == pytest.approx(math.fsum(between), rel=1e-12, abs=1e-12)
