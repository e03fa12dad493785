"""Bills of jobs that share machines, against a slow sum over every interval."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.battery import Battery
from simkit.battery_facts import BatteryFacts
from simkit.errors import ScenarioError
from simkit.ledger import Ledger
from simkit.ledger_flows import Flows
from simkit.ledger_jobs import Bill, JobMeters
from simkit.ledger_store import StoreContents
from simkit.power_model import PowerModel

KWH = 3.6e6
LINE = PowerModel.linear(100, 300)
BENT = PowerModel.table((90.0, 200.0, 230.0, 250.0, 400.0))
GPUS = PowerModel.per_resource(50, {"cpu": 100, "gpu": 600})
MODELS = (LINE, BENT, GPUS)
RESOURCES = ("cpu", "gpu")
CAPACITY = [[4.0, 2.0], [8.0, 2.0], [16.0, 4.0]]


def bill(**parts: float) -> Bill:
    return Bill(**parts)


def test_a_job_pays_its_share_above_idle_and_its_part_of_the_overhead() -> None:
    """Half of a machine of 100 … 300 W for 60 s under a PUE of 1.5, grid alone."""
    ledger = Ledger()
    meters = JobMeters(ledger, [LINE], ["cpu"], [[4.0]])
    assert meters.start("job", [(0, 2)], (1.0,)) == pytest.approx(100.0)
    power = meters.power_w * 1.5
    ledger.advance(
        60.0,
        Flows(import_w=power, load_w=power, pue=1.5, price_per_kwh=0.4, carbon_gco2_per_kwh=400),
    )
    kwh = 100 * 60 * 1.5 / KWH
    assert meters.end("job") == pytest.approx(
        bill(energy_j=6000, overhead_j=3000, grid_j=9000, carbon_g=400 * kwh, cost=0.4 * kwh)
    )
    assert meters.idle_bill()[:2] == pytest.approx((6000, 3000))
    assert meters.power_w == 100.0


def test_on_a_curve_the_price_of_a_share_changes_with_the_others() -> None:
    """At 50 % a machine draws 140 W above idle, at 100 % 310 W; two jobs share them evenly."""
    ledger = Ledger()
    meters = JobMeters(ledger, [BENT], ["cpu"], [[8.0]])
    meters.start("a", [(0, 4)], (1.0,))
    ledger.advance(10.0, flows(meters.power_w))
    meters.start("b", [(0, 4)], (1.0,))
    ledger.advance(20.0, flows(meters.power_w))
    assert meters.end("a").energy_j == pytest.approx(140 * 10 + 155 * 10)
    ledger.advance(30.0, flows(meters.power_w))
    assert meters.end("b").energy_j == pytest.approx(155 * 10 + 140 * 10)


def test_the_mix_of_sources_is_that_of_the_hour() -> None:
    ledger = Ledger()
    meters = JobMeters(ledger, [LINE], ["cpu"], [[1.0]])
    meters.start("early", [(0, 1)], (1.0,))
    ledger.advance(10.0, Flows(generation_w=300, load_w=300))
    first = meters.end("early")
    meters.start("late", [(0, 1)], (1.0,))
    ledger.advance(20.0, Flows(generation_w=60, import_w=240, load_w=300, carbon_gco2_per_kwh=3600))
    second = meters.end("late")
    assert first == bill(energy_j=2000, renewable_j=2000)
    assert second == pytest.approx(bill(energy_j=2000, renewable_j=400, grid_j=1600, carbon_g=1.6))
    assert first.plus(second).energy_j == 4000


def test_a_job_on_the_battery_pays_for_the_hour_in_which_it_was_charged() -> None:
    """Charged at 500 g/kWh, discharged at 100 g/kWh: 500 / (0.9 · 0.8) g a kWh of the job."""
    facts = BatteryFacts(
        100 * KWH, charge_efficiency=0.9, discharge_efficiency=0.8, initial_soc=0.0
    )
    battery, ledger = Battery(facts), Ledger(stored=StoreContents(0.0))
    meters = JobMeters(ledger, [PowerModel.linear(0.0, 1000.0)], ["cpu"], [[1.0]])
    battery.run(10_000.0, 3600.0)
    ledger.advance(
        3600.0, Flows(import_w=1e4, charge_w=1e4, carbon_gco2_per_kwh=500), battery.energy_j
    )
    meters.start("job", [(0, 1)], (1.0,))
    battery.run(-1000.0, 7200.0)
    ledger.advance(
        7200.0, Flows(discharge_w=1000, load_w=1000, carbon_gco2_per_kwh=100), battery.energy_j
    )
    assert meters.end("job") == pytest.approx(
        bill(energy_j=KWH, battery_j=KWH, carbon_g=500 / 0.72)
    )


def test_power_that_is_not_served_is_not_billed() -> None:
    ledger = Ledger()
    meters = JobMeters(ledger, [LINE], ["cpu"], [[1.0]])
    meters.start("job", [(0, 1)], (1.0,))
    ledger.advance(10.0, Flows(import_w=75, unserved_w=225, load_w=300))
    assert meters.end("job") == pytest.approx(bill(energy_j=500, grid_j=500))


def test_a_machine_that_boots_or_is_off_draws_nobodys_power() -> None:
    ledger = Ledger()
    meters = JobMeters(ledger, [LINE, LINE], ["cpu"], [[1.0], [1.0]])
    meters.set_standing(0, 250.0)
    ledger.advance(10.0, flows(meters.power_w))
    meters.set_standing(0, 5.0)
    ledger.advance(20.0, flows(meters.power_w))
    assert meters.standing_w == 105.0
    assert meters.idle_bill().energy_j == pytest.approx(10 * 350 + 10 * 105)


def test_a_model_of_a_resource_that_is_not_there_is_refused() -> None:
    with pytest.raises(ScenarioError, match="draws power by 'gpu' and has none"):
        JobMeters(Ledger(), [GPUS], ["cpu"], [[4.0]])


def flows(machines_w: float, share: float = 0.25) -> Flows:
    """A site with a PUE of 1.3, other load of 7 W, and part of its power from the sun."""
    load = machines_w * 1.3 + 7.0
    return Flows(
        generation_w=share * load, import_w=load - share * load, load_w=load, pue=1.3,
        price_per_kwh=share, carbon_gco2_per_kwh=1000 * share,
    )  # fmt: skip


class Slow:
    """Every interval, every machine, every job: the rule as it is declared."""

    def __init__(self) -> None:
        self.running: dict[int, tuple[list[tuple[int, int]], tuple[float, ...]]] = {}
        self.bills: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self.machines_j = self.idle_j = 0.0

    def power_w(self) -> float:
        return sum(self.machine_w(machine) for machine in range(len(MODELS)))

    def used(self, machine: int) -> list[float]:
        return [
            sum(c * request[r] for on, request in self.running.values() for m, c in on if m == machine)
            for r in range(2)
        ]  # fmt: skip

    def machine_w(self, machine: int) -> float:
        model, used = MODELS[machine], self.used(machine)
        by_name = {name: used[r] / CAPACITY[machine][r] for r, name in enumerate(RESOURCES)}
        return model.power_w([by_name[name] for name in model.resources])

    def hold(self, span: float, share: float) -> None:
        for machine, model in enumerate(MODELS):
            self.machines_j += self.machine_w(machine) * span
            self.idle_j += model.idle_w * span
            used = self.used(machine)
            for name, curve in zip(model.resources, model.curves, strict=True):
                r = RESOURCES.index(name)
                if not used[r]:
                    continue
                watts = curve.power_w(used[r] / CAPACITY[machine][r])
                for job, (on, request) in self.running.items():
                    mine = sum(c * request[r] for m, c in on if m == machine)
                    energy = watts * mine / used[r] * span
                    self.bills[job][0] += energy
                    self.bills[job][1] += energy * 1.3 * share
                    self.bills[job][2] += energy * 1.3 * (1 - share) * 1000 * share / KWH


steps = st.lists(
    st.tuples(
        st.integers(0, 1000),  # seconds before it happens
        st.floats(0.0, 1.0),  # share of the sun meanwhile
        st.integers(0, 5),  # which job ends, if it runs; else it starts
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=1, max_size=3),
        st.tuples(st.sampled_from([0.0, 0.25, 1.0, 1 / 3]), st.sampled_from([0.0, 0.25])),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_random_overlapping_jobs_pay_as_the_slow_sum_says(steps: list[Any]) -> None:
    ledger, slow = Ledger(), Slow()
    meters = JobMeters(ledger, MODELS, RESOURCES, CAPACITY)
    bills: dict[int, Bill] = defaultdict(Bill)
    for span, share, job, on, request in steps:
        assert meters.power_w == pytest.approx(slow.power_w(), rel=1e-8)
        ledger.advance(ledger.time_s + span, flows(meters.power_w, share))
        slow.hold(span, share)
        if job in slow.running:
            bills[job] = bills[job].plus(meters.end(job))
            del slow.running[job]
        else:
            meters.start(job, on, request)
            slow.running[job] = (on, request)
    for job in slow.running:
        bills[job] = bills[job].plus(meters.end(job))
    for job, expected in slow.bills.items():
        paid = bills[job]
        assert (paid.energy_j, paid.renewable_j, paid.carbon_g) == pytest.approx(expected, rel=1e-8)
        sources = paid.renewable_j + paid.battery_j + paid.grid_j
        assert sources == pytest.approx(paid.energy_j + paid.overhead_j, rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_jobs_and_idle_together_are_the_machines_energy(steps: list[Any]) -> None:
    ledger = Ledger()
    meters = JobMeters(ledger, MODELS, RESOURCES, CAPACITY)
    running: set[int] = set()
    paid, machines = [], []
    for span, share, job, on, request in steps:
        machines.append(meters.power_w * span)
        ledger.advance(ledger.time_s + span, flows(meters.power_w, share))
        if job in running:
            paid.append(meters.end(job).energy_j)
            running.remove(job)
        else:
            meters.start(job, on, request)
            running.add(job)
    paid += [meters.end(job).energy_j for job in running]
    total = math.fsum(machines)
    assert math.fsum(paid) + meters.idle_bill().energy_j == pytest.approx(total, rel=1e-12)
    assert meters.power_w == sum(model.idle_w for model in MODELS)
