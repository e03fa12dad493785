"""The ledger: balance at every instant, totals that close, carbon through the battery."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.battery import Battery
from simkit.battery_facts import BatteryFacts
from simkit.controller import SiteState, SourceOrder, check_set_points
from simkit.errors import PolicyError
from simkit.exact_sum import Counters, ExactSum
from simkit.grid import GridOffer
from simkit.ledger import COLUMNS, RATES, Ledger, imbalance
from simkit.ledger_flows import Flows, settled_flows, share_out
from simkit.ledger_store import Carried, StoreContents
from simkit.ledger_view import resampled

Floats = npt.NDArray[np.float64]
KWH = 3.6e6


class Collected:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.chunks: list[Mapping[str, Floats]] = []

    def write(self, table: str, rows: Mapping[str, Floats]) -> None:
        assert table == "power"
        self.chunks.append(rows)

    def rows(self) -> dict[str, Floats]:
        return {name: np.concatenate([c[name] for c in self.chunks]) for name in COLUMNS}


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


@pytest.mark.parametrize(("flows", "expected"), SHARES)
def test_which_source_serves_what(flows: Flows, expected: tuple[float, ...]) -> None:
    assert tuple(share_out(flows)) == expected


def test_export_brings_money_and_takes_its_part_of_what_is_stored() -> None:
    """2 J of 10 J leave, three quarters of them to the grid."""
    stored = StoreContents(10.0, carried=Carried(carbon_g=50.0, cost=5.0))
    ledger = Ledger(stored=stored)
    sale = Flows(discharge_w=2, load_w=0.5, export_w=1.5, export_price_per_kwh=KWH)
    ledger.advance(1.0, sale, 8.0)
    totals = ledger.totals()
    assert totals["cost"] == -1.5  # paid for when it was charged
    assert (totals["load_cost"], totals["load_carbon_g"]) == pytest.approx((0.25, 2.5))
    assert stored.carbon_g == pytest.approx(40.0)


def test_generation_may_have_a_price_and_carbon_too() -> None:
    ledger = Ledger()
    ledger.advance(
        2.0,
        Flows(
            generation_w=5, curtailment_w=1, load_w=4,
            generation_price_per_kwh=0.1 * KWH, generation_gco2_per_kwh=10 * KWH,
        ),
    )  # fmt: skip
    totals = ledger.totals()
    assert (totals["cost"], totals["carbon_g"]) == pytest.approx((0.8, 80.0))
    assert (totals["load_cost"], totals["load_carbon_g"]) == pytest.approx((0.8, 80.0))


UNBALANCED = [
    (Flows(generation_w=10, load_w=9), "sources give 10 W, uses take 9 W"),
    (Flows(generation_w=10 + 1e-7, load_w=10), "must be equal"),  # 1e-8 of the power
    (Flows(load_w=-3, curtailment_w=3), "none below 0"),
    (Flows(charge_w=3, discharge_w=3), "either charges or discharges"),
    (Flows(unserved_w=3, export_w=3), "no more is unserved than wanted"),
    (Flows(import_w=3, curtailment_w=3), "no more curtailed than made"),
    (Flows(import_w=math.inf, load_w=math.inf), "finite"),
    (Flows(import_w=math.nan, load_w=1), "finite"),
]


@pytest.mark.parametrize(("flows", "message"), UNBALANCED)
def test_flows_that_do_not_balance_are_refused(flows: Flows, message: str) -> None:
    ledger = Ledger()
    with pytest.raises(PolicyError, match=message):
        ledger.advance(1.0, flows)
    assert (ledger.time_s, ledger.totals()["load_j"]) == (0.0, 0.0)


def test_a_miss_within_rounding_is_none() -> None:
    Ledger().advance(1.0, Flows(generation_w=10 + 1e-9, load_w=10))


def test_time_goes_on_and_a_battery_is_announced() -> None:
    with pytest.raises(PolicyError, match="time only goes on"):
        Ledger(5.0).advance(4.0, Flows())
    with pytest.raises(PolicyError, match="give the ledger the battery's contents"):
        Ledger().advance(1.0, Flows(discharge_w=1, load_w=1), 0.0)
    with pytest.raises(PolicyError, match="its content after every flow"):
        Ledger(stored=StoreContents(9.0)).advance(1.0, Flows(discharge_w=1, load_w=1))


@pytest.mark.parametrize("leak", [0.0, 0.05])
def test_stored_carbon_is_billed_when_it_is_used(leak: float) -> None:
    """Charged at 500 g/kWh, used at 100 g/kWh: 500 / η, whatever leaked meanwhile on top."""
    facts = BatteryFacts(
        100 * KWH, charge_efficiency=0.9, discharge_efficiency=0.8, initial_soc=0.0,
        self_discharge_per_day=leak,
    )  # fmt: skip
    battery = Battery(facts)
    stored = StoreContents(0.0, facts.self_discharge_per_s)
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
        assert stored.carbon_g == pytest.approx(0.0, abs=1e-3)


def test_a_mixed_store_gives_the_mean_of_what_it_holds() -> None:
    stored = StoreContents(3.0, carried=Carried(carbon_g=30.0, cost=3.0))
    stored.charge(Carried(carbon_g=90.0), 6.0)
    assert stored.discharge(4.0, 1.0) == pytest.approx((40.0, 1.0, 0.0))  # 120 g in 6 J, 2 J leave
    assert stored.carbon_g == pytest.approx(80.0)


def test_what_leaves_a_leaking_store_does_not_depend_on_the_steps() -> None:
    facts = BatteryFacts(KWH, initial_soc=1.0, self_discharge_per_day=0.5)
    once, often = (Battery(facts) for _ in range(2))
    whole, split = (
        StoreContents(KWH, facts.self_discharge_per_s, Carried(100.0)) for _ in range(2)
    )
    once.run(-20.0, 36_000.0)
    left = whole.discharge(once.energy_j, 36_000.0).carbon_g
    total = 0.0
    for step in range(1, 361):
        often.run(-20.0, 100.0 * step)
        total += split.discharge(often.energy_j, 100.0).carbon_g
    assert 20.0 < left < 30.0  # 0.2 kWh of 1 kWh, that shrinks by itself
    assert total == pytest.approx(left, rel=1e-11)


def simulated_days(days: int, seed: int) -> tuple[Ledger, Battery, StoreContents, Collected]:
    """Settle a site of random weather, load, prices and grid limits, event by event."""
    rng = np.random.default_rng(seed)
    facts = BatteryFacts(
        300 * KWH, charge_efficiency=0.93, discharge_efficiency=0.95, floor=0.1,
        self_discharge_per_day=0.01, initial_soc=0.6,
    )  # fmt: skip
    battery, sink = Battery(facts), Collected()
    stored = StoreContents(battery.energy_j, facts.self_discharge_per_s)
    ledger = Ledger(stored=stored, sink=sink)
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
            flows = settled_flows(state, points, pue=1.2, losses_w=losses)
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
    assert totals["carbon_g"] == pytest.approx(totals["load_carbon_g"] + stored.carbon_g, rel=1e-9)
    assert (rows["start_s"][1:] == rows["end_s"][:-1]).all()
    sources = rows["generation_w"] + rows["import_w"] + rows["discharge_w"] + rows["unserved_w"]
    uses = sum(rows[f"{use}_w"] for use in ("load", "charge", "export", "curtailment", "losses"))
    assert (np.abs(sources - uses) <= 1e-9 * sources).all()
    assert (rows["stored_j"] <= battery.facts.capacity_j).all()


def test_totals_do_not_depend_on_the_output_interval() -> None:
    ledger, _, _, sink = simulated_days(2, seed=4)
    totals, rows = ledger.totals(), sink.rows()
    end = math.ceil(ledger.time_s / 3600) * 3600
    for length in (1.0, 60.0, 300.0, 3600.0):
        view = resampled(rows, np.arange(0, end + length, length))
        for name in RATES:
            total = totals[name.removesuffix("_per_s") if name.endswith("_s") else name[:-2] + "_j"]
            assert math.fsum(view[name] * length) == pytest.approx(total, rel=1e-9, abs=1e-9)
    assert view["stored_j"][-1] == rows["stored_j"][-1]


def test_bins_by_hand() -> None:
    sink = Collected()
    ledger = Ledger(sink=sink)
    ledger.advance(10.0, Flows(generation_w=6, load_w=6))
    ledger.advance(15.0, Flows(import_w=12, load_w=12))
    ledger.close()
    view = resampled(sink.rows(), [0.0, 8.0, 12.0, 20.0])
    assert view["generation_w"].tolist() == [6.0, 3.0, 0.0]
    assert view["load_w"].tolist() == [6.0, 9.0, 4.5]


def test_rows_are_handed_on_in_chunks() -> None:
    sink = Collected()
    ledger = Ledger(sink=sink)
    for second in range(1, 70_001):
        ledger.advance(float(second), Flows(generation_w=1, load_w=1))
    assert [len(chunk["end_s"]) for chunk in sink.chunks] == [32_768, 32_768]
    ledger.close()
    assert len(sink.rows()["end_s"]) == ledger.totals()["load_j"] == 70_000


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


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1e6)), st.lists(st.floats(0, 1e6), min_size=1))
def test_a_small_difference_of_large_counters_is_exact(
    before: list[float], between: list[float]
) -> None:
    counters = Counters(1)
    counters.add([1e18])
    for number in before:
        counters.add([number])
    then = counters.reading()
    for number in between:
        counters.add([number])
    assert counters.since(then)[0] == pytest.approx(math.fsum(between), rel=1e-12, abs=1e-12)
