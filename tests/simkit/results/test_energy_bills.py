"""Bills of jobs that share machines, from records, against a slow sum over every interval."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.power.battery import Battery
from simkit.power.facts import BatteryFacts
from simkit.power.ledger import Flows, Ledger, StoredEnergy
from simkit.power.machine_model import PowerModel
from simkit.results.energy_bills import BILLED, UsagePerWatt, energy_table, job_bills
from simkit.results.machine_records import MachineRecords
from simkit.results.run_folder import MemoryRun
from simkit.units import request_on_grid

KWH = 3.6e6
THIRD = float(request_on_grid(1 / 3))
LINE = PowerModel.linear(100, 300)
BENT = PowerModel.table((90.0, 200.0, 230.0, 250.0, 400.0))
GPUS = PowerModel.per_resource(50, {"cpu": 100, "gpu": 600})
MODELS = (LINE, BENT, GPUS)
RESOURCES = ("cpu", "gpu")
CAPACITY = ((4.0, 2.0), (8.0, 2.0), (16.0, 4.0))


class Bill(NamedTuple):
    energy_j: float = 0.0
    overhead_j: float = 0.0
    renewable_j: float = 0.0
    battery_j: float = 0.0
    grid_j: float = 0.0
    carbon_g: float = 0.0
    cost: float = 0.0


class Records:
    """A site whose jobs come and go by hand; keeps the records that bills are made of."""

    def __init__(self, models=(LINE,), capacity=((4.0, 2.0),), stored=None):
        self.models, self.capacity = models, capacity
        self.chunks: list[dict[str, Floats]] = []
        self.ledger = Ledger(0.0, stored, self.chunks.append)
        self.running: dict[int, tuple[Any, tuple[float, ...], float]] = {}
        self.rows: list[tuple[Any, ...]] = []
        self.tasks: list[tuple[float, ...]] = []
        self.standing_w = math.fsum(model.idle_w for model in models)

    def start(self, job, on, request):
        self.running[job] = (on, request, self.ledger.time_s)

    def end(self, job, *, still_running=False):
        on, request, start = self.running.pop(job)
        task = len(self.tasks)
        self.tasks.append(request)
        end = None if still_running else self.ledger.time_s
        self.rows += [(job, task, machine, 0, count, 1, start, end, "") for machine, count in on]

    def used(self, machine):
        return [
            sum(c * request[r] for on, request, _ in self.running.values() for m, c in on if m == machine)
            for r in range(len(self.capacity[0]))
        ]  # fmt: skip

    @property
    def machines_w(self):
        return math.fsum(
            model.power_w([
                self.used(machine)[RESOURCES.index(r)] / self.capacity[machine][RESOURCES.index(r)]
                for r in model.resources
            ])
            for machine, model in enumerate(self.models)
        )  # fmt: skip

    def hold(self, span, stored_j=None, **flows):
        """Let time pass with these flows; the load, unless it is given, is what machines draw."""
        machines = self.machines_w
        flows = {"load_w": machines, "machines_w": machines, "standing_w": self.standing_w} | flows
        self.ledger.advance(self.ledger.time_s + span, Flows(**flows), stored_j)

    @property
    def power(self):
        self.ledger.close()
        return pl.concat(pl.DataFrame(rows) for rows in self.chunks).lazy()

    def allocations(self):
        names = ("job_id", "task_id", "machine_id", "first_instance", "count", "attempt",
                 "start_time_s", "end_time_s", "outcome")  # fmt: skip
        kinds: dict[str, Any] = dict.fromkeys(names, pl.Int64)
        kinds |= {"start_time_s": pl.Float64, "end_time_s": pl.Float64, "outcome": pl.String}
        return pl.DataFrame(self.rows, schema=kinds, orient="row").lazy()

    def bills(self):
        jobs = {row[1]: row[0] for row in self.rows}
        columns = zip(*self.tasks, strict=True) if self.tasks else ([], [])
        tasks = pl.DataFrame(
            {"job_id": [jobs.get(n) for n in range(len(self.tasks))],
             "task_id": range(len(self.tasks)), "instances": [1] * len(self.tasks),
             **dict(zip(RESOURCES, columns, strict=True))},
            schema={"job_id": pl.Int64, "task_id": pl.Int64, "instances": pl.Int64,
                    **dict.fromkeys(RESOURCES, pl.Float64)},
        ).lazy()  # fmt: skip
        records = MachineRecords(
            RESOURCES, np.array(self.capacity), self.allocations(), tasks, pl.LazyFrame()
        )
        table = job_bills(records, self.power, self.models)
        return {row["job_id"]: Bill(*(row[name] for name in BILLED)) for row in table.to_dicts()}


def idle_bill(power):
    """Return what the machines' own power has used: idle, booting and switched off."""
    usage, rows = UsagePerWatt(power), power.collect()
    start, end = (usage.at(rows[name].to_numpy()) for name in ("start_s", "end_s"))
    watts = rows["standing_w"].to_numpy()
    return Bill(*(math.fsum(watts * usage.between(n, start, end)) for n in range(len(BILLED))))


def test_a_job_pays_its_share_above_idle_and_its_part_of_the_overhead():
    """Half of a machine of 100 … 300 W for 60 s under a PUE of 1.5, grid alone."""
    records = Records()
    records.start(7, [(0, 2)], (1.0, 0.0))
    records.hold(
        60.0, import_w=300, load_w=300, pue=1.5, price_per_kwh=0.4, carbon_gco2_per_kwh=400
    )
    records.end(7)
    kwh = 100 * 60 * 1.5 / KWH
    expected = Bill(6000, 3000, grid_j=9000, carbon_g=400 * kwh, cost=0.4 * kwh)
    assert records.bills()[7] == pytest.approx(expected)
    assert idle_bill(records.power)[:2] == pytest.approx((6000, 3000))


def test_where_the_facility_adds_nothing_there_is_no_overhead_at_all():
    """Parts that add up to the load but for their last digits, under a PUE of 1, then 1.5, 1."""
    records, rng = Records(), np.random.default_rng(3)
    for job, pue in enumerate((1.0, 1.5, 1.0)):
        records.start(job, [(0, 1)], (THIRD, 0.0))
        for share in rng.random(30).tolist():
            load = records.machines_w * pue
            sun = share * load
            records.hold(60.1, generation_w=sun, import_w=load - sun, load_w=load, pue=pue)
        records.end(job)
    bills = records.bills()
    assert [bills[job].overhead_j for job in (0, 2)] == [0, 0]
    assert bills[1].overhead_j == pytest.approx(0.5 * bills[1].energy_j)


def test_a_job_on_the_battery_pays_for_the_hour_in_which_it_was_charged():
    """Charged at 500 g/kWh, discharged at 100 g/kWh: 500 / (0.9 · 0.8) g a kWh of the job."""
    facts = BatteryFacts(
        capacity_kwh=100, charge_efficiency=0.9, discharge_efficiency=0.8, initial_soc=0.0
    )
    battery = Battery(facts)
    records = Records((PowerModel.linear(0.0, 1000.0),), ((1.0, 0.0),), StoredEnergy(0.0))
    battery.run(10_000.0, 3600.0)
    records.hold(3600.0, battery.energy_j, import_w=1e4, charge_w=1e4, carbon_gco2_per_kwh=500)
    records.start(1, [(0, 1)], (1.0, 0.0))
    battery.run(-1000.0, 7200.0)
    records.hold(3600.0, battery.energy_j, discharge_w=1000, carbon_gco2_per_kwh=100)
    records.end(1)
    assert records.bills()[1] == pytest.approx(
        Bill(energy_j=KWH, battery_j=KWH, carbon_g=500 / 0.72)
    )


def test_power_that_is_not_served_is_not_billed():
    records = Records(capacity=((1.0, 1.0),))
    records.start(1, [(0, 1)], (1.0, 0.0))
    records.hold(10.0, import_w=75, unserved_w=225)
    records.end(1)
    assert records.bills()[1] == pytest.approx(Bill(energy_j=500, grid_j=500))


@pytest.mark.parametrize("model", [LINE, BENT])
def test_a_job_that_still_runs_has_a_bill_up_to_now(model):
    records = Records((model,))
    records.start(1, [(0, 4)], (1.0, 0.0))
    records.hold(10.0, import_w=model.full_w)
    records.end(1, still_running=True)
    assert records.bills()[1].energy_j == pytest.approx(10 * (model.full_w - model.idle_w))


def test_models_that_do_not_fit_the_machines_are_refused():
    with pytest.raises(ScenarioError, match="draws power by 'gpu', which not every such machine"):
        Records((GPUS,), ((4.0, 0.0),)).bills()
    with pytest.raises(ScenarioError, match="2 models for 1 machines"):
        Records((LINE, LINE)).bills()


def test_the_table_has_a_row_for_every_job_in_the_order_of_jobs():
    records = Records()
    records.start(1, [(0, 2)], (1.0, 0.0))
    records.hold(10.0, import_w=200)
    records.end(1)
    tables = {
        "jobs": pl.DataFrame({"job_id": [5, 1, 5]}),  # 5 was rejected, and the log has it twice
        "allocations": records.allocations().collect(),
        "tasks": pl.DataFrame({"job_id": [1], "task_id": [0], "instances": [2], "cpu": [1.0]}),
        "power": records.power.collect(),
        "events": pl.DataFrame(),
    }
    machines = [{"id": 0, "capacity": {"cpu": 4.0}}]
    run = MemoryRun({"cluster": {"resources": ["cpu"], "machines": machines}}, tables)
    table = energy_table(run, [LINE])
    assert table.columns == ["job_id", *BILLED]
    assert table.select("job_id", "energy_j").rows() == [(5, 0.0), (1, 1000.0)]


def flows(machines_w, share=0.25):
    """A site with a PUE of 1.3, other load of 7 W, and part of its power from the sun."""
    load = machines_w * 1.3 + 7.0
    return {
        "generation_w": share * load, "import_w": load - share * load, "load_w": load, "pue": 1.3,
        "price_per_kwh": share, "carbon_gco2_per_kwh": 1000 * share,
    }  # fmt: skip


class Slow:
    """Every interval, every machine, every job: the rule as it is declared."""

    def __init__(self, records):
        self.records = records
        self.bills: Mapping[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])

    def hold(self, span, share):
        for machine, model in enumerate(MODELS):
            used = self.records.used(machine)
            for name, curve in zip(model.resources, model.curves, strict=True):
                r = RESOURCES.index(name)
                watts = curve.power_w(used[r] / CAPACITY[machine][r]) if used[r] else 0.0
                for job, (on, request, _) in self.records.running.items() if used[r] else ():
                    mine = sum(c * request[r] for m, c in on if m == machine)
                    energy = watts * mine / used[r] * span
                    bill = self.bills[job]
                    bill[0] += energy
                    bill[1] += energy * 1.3 * share
                    bill[2] += energy * 1.3 * (1 - share) * 1000 * share / KWH


steps = st.lists(
    st.tuples(
        st.integers(0, 1000),  # seconds before it happens
        st.floats(0.0, 1.0),  # share of the sun meanwhile
        st.integers(0, 5),  # which job ends, if it runs; else it starts
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=1, max_size=3),
        st.tuples(st.sampled_from([0.0, 0.25, 1.0, THIRD]), st.sampled_from([0.0, 0.25])),
    ),
    max_size=25,
)


@given(steps)
def test_random_overlapping_jobs_pay_as_the_slow_sum_says(steps):
    """And together with idle power they pay for what the machines have drawn."""
    records = Records(MODELS, CAPACITY)
    slow, machines = Slow(records), []
    for span, share, job, on, request in steps:
        machines.append(records.machines_w * span)
        records.hold(span, **flows(records.machines_w, share))
        slow.hold(span, share)
        if job in records.running:
            records.end(job)
        else:
            records.start(job, on, request)
    for job in tuple(records.running):
        records.end(job)
    bills = records.bills()
    for job, expected in slow.bills.items():
        paid = bills[job]
        assert (paid.energy_j, paid.renewable_j, paid.carbon_g) == pytest.approx(expected, rel=1e-8)
        sources = paid.renewable_j + paid.battery_j + paid.grid_j
        assert sources == pytest.approx(paid.energy_j + paid.overhead_j, rel=1e-9)
    paid_for = math.fsum(bill.energy_j for bill in bills.values())
    total = math.fsum(machines)
    assert paid_for + idle_bill(records.power).energy_j == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("model", [LINE, BENT])
def test_a_year_of_jobs_on_a_battery_is_paid_for_to_the_last_joule(model):
    """Sums of all that is billed, idle and jobs, against the machines' part of the site's load."""
    rng = np.random.default_rng(5)
    records = Records((model,) * 3, ((8.0, 1.0),) * 3, StoredEnergy(1e12))
    content = 1e12
    for step in range(6000):
        job = int(rng.integers(0, 9))
        if job in records.running:
            records.end(job)
        elif all(sum(records.used(m)) <= 6 for m in range(3)):
            on = [(int(rng.integers(0, 3)), int(rng.integers(1, 3)))]
            records.start(job, on, (float(rng.choice([0.25, THIRD, 1.0])), 0.0))
        load, sun = 1.2 * records.machines_w + 40.0, rng.uniform(0, 200)
        given = rng.uniform(0, 300) if step % 3 else 0.0
        given = min(given, load - sun)
        span = float(rng.integers(1, 10_000)) + 2.0**-20
        content -= given * span
        records.hold(
            span, content, load_w=load, pue=1.2, generation_w=sun, discharge_w=given,
            import_w=load - sun - given, carbon_gco2_per_kwh=rng.uniform(0, 900),
        )  # fmt: skip
    for job in tuple(records.running):
        records.end(job)
    rows = records.power.collect()
    span = rows["end_s"] - rows["start_s"]
    part = 1.2 * rows["machines_w"] / rows["load_w"] * span
    expected = {
        "energy_j": rows["machines_w"] * span, "renewable_j": rows["load_renewable_w"] * part,
        "battery_j": rows["load_battery_w"] * part, "carbon_g": rows["load_carbon_g_per_s"] * part,
    }  # fmt: skip
    idle, bills = idle_bill(records.power), records.bills().values()
    for name, amounts in expected.items():
        paid = math.fsum([getattr(idle, name), *(getattr(bill, name) for bill in bills)])
        assert paid == pytest.approx(math.fsum(amounts), rel=1e-12)
