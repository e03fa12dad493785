"""The audit of power: the ledger's good rows pass, and each change to them is caught."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from simkit.arrays import Floats
from simkit.power.battery import Battery
from simkit.power.controller import GridOffer, SiteState, SourceOrder
from simkit.power.facts import BatteryFacts
from simkit.power.ledger import Flows, Ledger, StoredEnergy
from simkit.power.machine_model import PowerModel
from simkit.results.energy_bills import energy_table
from simkit.results.energy_metrics import energy_metrics
from simkit.results.metric import RunWindow
from simkit.results.run_folder import MemoryRun
from simkit.verify import verify_run

pytestmark = pytest.mark.sampled

Change = Callable[[Any], None]
POWER_RULES = {"ledger", "sources", "battery", "reserve", "machine-power", "bills"}
OF_BATTERIES = {"battery", "reserve"}
BATTERY = {
    "capacity_kwh": 0.02, "charge_c_rate": 5.0, "discharge_c_rate": 30.0,
    "charge_efficiency": 0.9, "discharge_efficiency": 0.8, "floor": 0.1, "ceiling": 0.95,
    "initial_soc": 0.5, "self_discharge_per_day": 0.2, "model": "linear", "charge_slope_h": 0.0,
    "discharge_slope_h": 0.0,
}  # fmt: skip
LINE = {"idle_w": 10.0, "full_w": 50.0, "off_w": 1.0, "boot_w": None, "resource": None}
TABLE = {"table": [10.0, 30.0, 50.0, 90.0], "off_w": 0.0, "resource": "processors"}
FILE = {"type": "csv", "path": "of-the-site.csv", "column": "w"}
"""Stands for what changes: it is not among the inputs, so that it is not recomputed."""
GRID = {"import_limit_w": 400.0, "export_limit_w": 60.0, "price_per_kwh": FILE,
        "export_price_per_kwh": 0.04, "carbon_gco2_per_kwh": FILE}  # fmt: skip
CONTROLLER = {"reserve": 0.2, "charge_below_price": 0.02, "charge_to": 0.7}


def model_of(section: dict[str, Any], processors: float) -> PowerModel:
    if "table" in section:
        return PowerModel.table([processors * w for w in section["table"]], "processors")
    return PowerModel.linear(
        processors * section["idle_w"], processors * section["full_w"], "processors"
    )


def with_power(
    world: Any, machines: dict[str, Any] = LINE, battery: dict[str, Any] | None = BATTERY,
    seed: int = 0,
) -> Any:  # fmt: skip
    """Settle the site of a finished run, with random sun, prices and carbon every 10 s."""
    rng = np.random.default_rng(seed)
    capacity = [m["capacity"]["processors"] for m in world.manifest["cluster"]["machines"]]
    pool = len(capacity) == 1
    models = [model_of(machines, n if pool else 1.0) for n in capacity]
    store = None
    if battery is not None:
        store = Battery(BatteryFacts(**battery))
    chunks: list[dict[str, Floats]] = []
    contents = store and StoredEnergy(store.energy_j, store.facts.self_discharge_per_s)
    ledger = Ledger(0.0, contents, chunks.append)
    held = world.tables["allocations"].to_dicts()
    instants = {row[name] for row in held for name in ("start_time_s", "end_time_s")}
    last = max(instants)
    signals: dict[str, float] = {}
    for time in sorted(instants | set(np.arange(0.0, last, 10.0).tolist())):
        settle_until(ledger, store, time, signals)
        if time % 10 == 0:
            signals = {"sun": rng.uniform(0, 600), "price": rng.uniform(-0.05, 0.3),
                       "carbon": rng.uniform(0, 700)}  # fmt: skip
        used = [
            sum(a["count"] for a in held
                if a["machine_id"] == m and a["start_time_s"] <= time < a["end_time_s"])
            for m in range(len(capacity))
        ]  # fmt: skip
        signals["machines"] = sum(
            model.power_w([n / total])
            for model, n, total in zip(models, used, capacity, strict=True)
        )
        signals["standing"] = sum(model.idle_w for model in models)
    ledger.close()
    world.tables["power"] = pl.concat(pl.DataFrame(rows) for rows in chunks)
    power = deepcopy({"machines": machines, "battery": battery, "grid": GRID, "pue": 1.2,
                      "critical_w": 25.0, "align": {"type": "epoch"},
                      "controller": {"type": "source-order", **CONTROLLER}})  # fmt: skip
    world.manifest["scenario"]["power"] = power
    model = battery["model"] if battery else None
    rows = world.tables["power"]
    made = ((rows["end_s"] - rows["start_s"]) * rows["generation_w"]).sum() / 3.6e6
    power["sources"] = {"roof": {"signal": FILE}}
    world.manifest["power"] = {"align": "epoch", "battery.model": model,
                               "sources.roof.generation_kwh": made}  # fmt: skip
    run = MemoryRun(world.manifest, world.tables)
    world.tables["energy"] = energy_table(run, models)
    jobs = world.tables["jobs"]
    window = RunWindow(
        jobs["submit_time_s"].min(), jobs["submit_time_s"].max(), jobs["end_time_s"].max()
    )
    found = energy_metrics(run.scan("power"), run.battery, window)
    world.metrics |= {metric.name: metric.as_json() for metric in found}
    return world


def settle_until(
    ledger: Ledger, battery: Battery | None, until: float, now: dict[str, float]
) -> None:
    """Settle the site with the controller until a time."""
    controller = SourceOrder(**CONTROLLER)
    while ledger.time_s < until:
        load = 1.2 * now["machines"] + 25.0
        offer = GridOffer(400.0, 60.0, now["price"], 0.04, now["carbon"])
        limits = battery.limits() if battery else (0.0, 0.0)
        soc = battery.soc if battery else 0.0
        state = SiteState(ledger.time_s, now["sun"], load, offer, soc, *limits)
        power, grid, left, short = controller.settle(state)
        time = until
        if battery:
            time = min(until, battery.next_event(power, controller.levels))
            battery.run(power, time)
        flows = Flows(
            now["sun"], max(grid, 0.0), max(-power, 0.0), short, load, max(power, 0.0),
            max(-grid, 0.0), left, 0.0, 1.2, *offer[2:], 0.01, 30.0, now["machines"],
            now["standing"],
        )  # fmt: skip
        ledger.advance(time, flows, battery.energy_j if battery else None)


@pytest.fixture
def green(good: Any) -> Any:
    return with_power(good)


@pytest.mark.parametrize(
    ("machines", "battery", "sizes"),
    [(LINE, BATTERY, [8]), (TABLE, None, [8]), (TABLE, BATTERY, [3, 5])],
)
def test_what_the_ledger_writes_passes(
    machines: dict[str, Any], battery: Any, sizes: list[int], kit: Any, plain_jobs: Any,
    tmp_path: Path,
) -> None:  # fmt: skip
    world = with_power(kit.replayed(plain_jobs, sizes), machines, battery, seed=len(sizes))
    audit = world.audit(tmp_path / "run")
    assert audit.violations == ()
    assert {check.name for check in audit.done} >= POWER_RULES - (
        set() if battery else OF_BATTERIES
    )


def test_the_site_of_these_tests_knows_every_state(green: Any) -> None:
    """Or the changes below would prove little."""
    power = green.tables["power"]
    for name in ("import_w", "discharge_w", "charge_grid_w", "charge_renewable_w", "export_w",
                 "curtailment_w", "load_battery_grid_w", "stored_grid_j"):  # fmt: skip
        assert (power[name] > 0).sum() > 3, name


def power(column: str, value: Any, where: str | None = None, nth: int = 3) -> Change:
    """Change a cell of the ledger, in one of the rows in which a column is above 0."""

    def change(world: Any) -> None:
        rows = world.tables["power"][where or column].to_numpy()
        world.set("power", int(np.flatnonzero(rows > 0)[nth]), **{column: value})

    return change


def times(factor: float) -> Callable[[float], float]:
    return lambda value: value * factor


def more(amount: float) -> Callable[[float], float]:
    return lambda value: value + amount


def bill(column: str, value: Any) -> Change:
    return lambda world: world.set("energy", 2, **{column: value})


def in_scenario(section: str, **values: Any) -> Change:
    return lambda world: world.manifest["scenario"]["power"][section].update(values)


def both_at_once(world: Any) -> None:
    row = int(np.flatnonzero(world.tables["power"]["charge_w"].to_numpy() > 0)[0])
    world.set("power", row, charge_w=more(5.0), discharge_w=more(5.0))


def swapped(world: Any) -> None:
    """Swap two bills, so that their sum is right."""
    first, second = (world.cell("energy", row, "energy_j") for row in (1, 2))
    world.set("energy", 1, energy_j=second)
    world.set("energy", 2, energy_j=first)


MUTATIONS = [
    # what is done to the run, how, the rule that is violated
    ("more import than use", power("import_w", times(1 + 1e-7)), "ledger"),
    ("a flow below 0", power("export_w", times(-1)), "ledger"),
    ("a flow that is no number", power("load_w", float("nan")), "ledger"),
    ("charged and discharged at once", both_at_once, "ledger"),
    ("a row dropped", lambda w: w.drop("power", 7), "ledger"),
    ("the first row dropped", lambda w: w.drop("power", 0), "ledger"),
    ("the last row dropped", lambda w: w.drop("power", w.tables["power"].height - 1), "ledger"),
    ("a row of no length", lambda w: w.set("power", 5, end_s=w.cell("power", 5, "start_s")), "ledger"),
    ("a row that overlaps", lambda w: w.set("power", 5, start_s=more(-1)), "ledger"),
    ("more idle than drawn", power("standing_w", 1e6), "ledger"),
    ("a limit of import that was lower", in_scenario("grid", import_limit_w=50.0), "grid"),
    ("no export allowed", in_scenario("grid", export_limit_w=0.0), "grid"),
    ("load from another source", power("load_renewable_w", more(-1.0)), "sources"),
    ("charged from another source", power("charge_grid_w", more(-1.0)), "sources"),
    ("less carbon", power("carbon_g_per_s", times(0.9)), "sources"),
    ("another cost", power("cost_per_s", more(1e-4), "import_w"), "sources"),
    ("content too high", power("stored_j", more(50.0)), "battery"),
    ("another efficiency", in_scenario("battery", charge_efficiency=0.95), "battery"),
    ("another initial content", in_scenario("battery", initial_soc=0.6), "battery"),
    ("a smaller C-rate", in_scenario("battery", discharge_c_rate=1.0), "battery"),
    ("a lower ceiling", in_scenario("battery", ceiling=0.5), "battery"),
    ("a higher floor", in_scenario("battery", floor=0.4), "battery"),
    ("less leak", in_scenario("battery", self_discharge_per_day=0.1), "battery"),
    ("less carbon in the store", power("stored_carbon_g", times(0.99)), "battery"),
    ("less cost in the store", power("stored_cost", times(0.99), "stored_carbon_g"), "battery"),
    ("less carbon for the load", power("load_carbon_g_per_s", times(0.9), "discharge_w"), "battery"),
    ("less cost for the load", power("load_cost_per_s", more(1e-4), "discharge_w"), "battery"),
    ("less of the grid's in the store", power("stored_grid_j", times(0.9)), "battery"),
    ("less of the grid's given", power("load_battery_grid_w", times(0.9)), "battery"),
    ("a higher reserve", in_scenario("controller", reserve=0.45), "reserve"),
    ("a lower level to charge to", in_scenario("controller", charge_to=0.3), "reserve"),
    ("charged though it is dear", in_scenario("controller", charge_below_price=-0.04), "reserve"),
    ("charged above the peak", in_scenario("controller", peak_w=100.0), "reserve"),
    ("machines that draw more", power("machines_w", more(3.0)), "machine-power"),
    ("idle power that is too high", power("standing_w", more(30.0)), "machine-power"),
    ("idle power that is too low", power("standing_w", 5.0), "machine-power"),
    ("another model", in_scenario("machines", full_w=60.0), "machine-power"),
    ("a bill that is too high", bill("energy_j", times(1.01)), "bills"),
    ("a bill without overhead", bill("overhead_j", 0.0), "bills"),
    ("another source of a bill", bill("grid_j", more(9.0)), "bills"),
    ("less carbon on a bill", bill("carbon_g", times(0.9)), "bills"),
    ("less cost on a bill", bill("cost", times(0.9)), "bills"),
    ("two bills swapped", swapped, "bills"),
    ("a battery that the site does not have",
     lambda w: w.manifest["scenario"]["power"].update(battery=None), "battery"),
    ("a bill of no job", bill("job_id", 77), "bills"),
    ("a bill that is missing", lambda w: w.drop("energy", 2), "bills"),
    ("a bill that is there twice", lambda w: w.append("energy", w.tables["energy"][2]), "bills"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "check"), [pytest.param(c, name, id=text) for text, c, name in MUTATIONS]
)
def test_a_change_is_caught_by_its_rule(
    change: Change, check: str, green: Any, tmp_path: Path
) -> None:
    change(green)
    assert check in green.audit(tmp_path / "run").found


def test_a_scenario_without_a_model_for_a_machine_is_not_passed_over(
    green: Any, tmp_path: Path
) -> None:
    green.manifest["scenario"]["power"]["machines"] = {"groups": {"others": LINE}}
    audit = green.audit(tmp_path / "run")
    (violation,) = [v for v in audit.violations if v.check == "machine-power"]
    assert violation.message.startswith("the auditor itself failed")
    assert violation.row["error"] == "KeyError: 'default'"


def test_groups_of_machines_have_models_of_their_own(
    kit: Any, plain_jobs: Any, tmp_path: Path
) -> None:
    world = with_power(kit.replayed(plain_jobs, [3, 5]))
    for name, good in (("m1", True), ("m0", False)):
        other = {**LINE, "full_w": 55.0}
        world.manifest["scenario"]["power"]["machines"] = {
            "groups": {name: LINE, "default": LINE if good else other}
        }
        audit = world.audit(tmp_path / name)
        assert ("machine-power" not in audit.found) is good


def test_an_interrupted_run_may_lack_bills(green: Any, tmp_path: Path) -> None:
    del green.tables["energy"]
    green.manifest |= {"status": "interrupted", "digest": None}
    audit = verify_run(green.save(tmp_path / "run", digest=False), allow_partial=True)
    assert audit.not_applicable["bills"] == "the run is not complete and has no bills"
    assert not POWER_RULES & audit.found.keys()
