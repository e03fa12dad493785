"""The audit of power: a run on sun, grid and battery passes, and each change to it is caught."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import Records, simulated

from simkit.verify import verify_run

pytestmark = pytest.mark.sampled

Change = Callable[[Records], None]
POWER_RULES = {"ledger", "sources", "battery", "reserve", "machine-power", "bills"}
LINE = {"idle_w": 10.0, "full_w": 50.0, "off_w": 1.0}
SITE: dict[str, Any] = {
    "machines": LINE, "pue": 1.2, "critical_w": 25.0,
    "align": {"zero": "2019-04-01T00:00:00+00:00"},
    "sources": {"roof": {"signal": {
        "type": "levels", "high_w": 1100, "low_w": 0, "high_share": 0.5, "step": "30m",
    }, "carbon_gco2_per_kwh": 30, "price_per_kwh": 0.01}},
    "grid": {
        "import_limit_w": 400.0, "export_limit_w": 60.0, "export_price_per_kwh": 0.04,
        "price_per_kwh": {"type": "schedule", "day": {f"{h}:00": 0.01 + 0.2 * (h % 2)
                                                      for h in range(24)}},
        "carbon_gco2_per_kwh": {"type": "schedule", "day": {"0:00": 400, "9:00": 150}},
    },
    "battery": {
        "capacity_kwh": 0.2, "charge_c_rate": 1.5, "discharge_c_rate": 3.0,
        "charge_efficiency": 0.9, "discharge_efficiency": 0.8, "floor": 0.1, "ceiling": 0.95,
        "initial_soc": 0.5, "self_discharge_per_day": 0.2,
    },
    "controller": {"type": "source-order", "reserve": 0.2, "charge_below_price": 0.02,
                   "charge_to": 0.7},
}  # fmt: skip
SCENARIO = {
    "seed": 1, "cluster": {"processors": 8}, "power": SITE,
    "workload": {"type": "lublin", "jobs": 60, "processors": 8, "offered_load": 0.7},
    "policy": {"order": "fcfs", "backfill": "easy"},
}  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Records:
    return simulated(SCENARIO, tmp_path_factory.mktemp("honest") / "run")


def test_an_honest_run_that_knows_every_state_passes(honest: Records, tmp_path: Path) -> None:
    """Or the changes below would prove little."""
    for name in ("import_w", "discharge_w", "charge_grid_w", "charge_renewable_w", "export_w",
                 "curtailment_w", "load_battery_grid_w", "stored_grid_j"):  # fmt: skip
        assert (honest.tables["power"][name] > 0).sum() > 3, name
    audit = honest.copy().audit(tmp_path / "run")
    assert audit.violations == ()
    assert {check.name for check in audit.done} >= POWER_RULES


def cell(table: str, row: int, **values: Any) -> Change:
    return lambda run: run.set(table, row, **values)


def power(column: str, value: Any, where: str | None = None, nth: int = 3, **also: Any) -> Change:
    """Change a cell of the ledger, in one of the rows in which a column is above 0."""

    def change(run: Records) -> None:
        rows = run.tables["power"][where or column].to_numpy()
        run.set("power", int(np.flatnonzero(rows > 0)[nth]), **{column: value}, **also)

    return change


def rows(table: str, choose: Callable[[list[int]], list[int]]) -> Change:
    return lambda run: run.take(table, choose)


def times(factor: float) -> Callable[[float], float]:
    return lambda value: value * factor


def more(amount: float) -> Callable[[float], float]:
    return lambda value: value + amount


def in_scenario(section: str, **values: Any) -> Change:
    return lambda run: run.info["scenario"]["power"][section].update(values)


def swapped(run: Records) -> None:
    """Swap two bills, so that their sum is right."""
    first, second = run.tables["energy"]["energy_j"][1:3].to_list()
    run.set("energy", 1, energy_j=second)
    run.set("energy", 2, energy_j=first)


MUTATIONS = [
    # what is done to the run, how, the rule that is violated
    ("more import than use", power("import_w", times(1 + 1e-7)), "ledger"),
    ("a flow below 0", power("export_w", times(-1)), "ledger"),
    ("a flow that is no number", power("load_w", float("nan")), "ledger"),
    ("charged and discharged at once", power("charge_w", more(5.0), discharge_w=more(5.0)),
     "ledger"),
    ("a row dropped", rows("power", lambda n: n[:7] + n[8:]), "ledger"),
    ("the first row dropped", rows("power", lambda n: n[1:]), "ledger"),
    ("the last row dropped", rows("power", lambda n: n[:-1]), "ledger"),
    ("a row of no length", lambda run: cell("power", 5, end_s=run.tables["power"]["start_s"][5])(
        run), "ledger"),
    ("a row that overlaps", cell("power", 5, start_s=more(-1)), "ledger"),
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
    ("a smaller C-rate", in_scenario("battery", discharge_c_rate=0.1), "battery"),
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
    ("a bill that is too high", cell("energy", 2, energy_j=times(1.01)), "bills"),
    ("a bill without overhead", cell("energy", 2, overhead_j=0.0), "bills"),
    ("another source of a bill", cell("energy", 2, grid_j=more(9.0)), "bills"),
    ("less carbon on a bill", cell("energy", 2, carbon_g=times(0.9)), "bills"),
    ("less cost on a bill", cell("energy", 2, cost=times(0.9)), "bills"),
    ("two bills swapped", swapped, "bills"),
    ("a battery that the site does not have",
     lambda run: run.info["scenario"]["power"].update(battery=None), "battery"),
    ("a bill of no job", cell("energy", 2, job_id=777), "bills"),
    ("a bill that is missing", rows("energy", lambda n: n[:2] + n[3:]), "bills"),
    ("a bill that is there twice", rows("energy", lambda n: [*n, 2]), "bills"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "check"), [pytest.param(c, name, id=text) for text, c, name in MUTATIONS]
)
def test_a_change_is_caught_by_its_rule(
    change: Change, check: str, honest: Records, tmp_path: Path
) -> None:
    run = honest.copy()
    change(run)
    assert check in run.audit(tmp_path / "run").found


def test_groups_of_machines_have_models_of_their_own(tmp_path: Path) -> None:
    groups = {"groups": {"m-1": LINE, "default": LINE}}
    cluster = {"machines": [{"name": "m", "count": 2, "processors": 8}]}
    run = simulated(
        SCENARIO | {"cluster": cluster, "power": SITE | {"machines": groups}}, tmp_path / "run"
    )
    assert run.copy().audit(tmp_path / "honest").found == {}
    run.info["scenario"]["power"]["machines"]["groups"]["default"]["full_w"] = 55.0
    assert "machine-power" in run.audit(tmp_path / "cheat").found


def test_a_scenario_without_a_model_for_a_machine_is_not_passed_over(
    honest: Records, tmp_path: Path
) -> None:
    run = honest.copy()
    run.info["scenario"]["power"]["machines"] = {"groups": {"others": LINE}}
    audit = verify_run(run.save(tmp_path / "run"))
    (violation,) = [v for v in audit.violations if v.check == "machine-power"]
    assert violation.message.startswith("the auditor itself failed")
    assert violation.row["error"] == "KeyError: 'default'"


def test_an_interrupted_run_may_lack_bills(honest: Records, tmp_path: Path) -> None:
    run = honest.copy()
    del run.tables["energy"]
    run.info["status"] = "interrupted"
    audit = verify_run(run.save(tmp_path / "run"), allow_partial=True)
    assert audit.not_applicable["bills"] == "the run is not complete and has no bills"
    assert not POWER_RULES & audit.found.keys()
