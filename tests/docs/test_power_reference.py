"""The page on power: its tables are what the code does, and no name of a flow is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from rare_battery import algorithm_5

from simkit.power.controller import SourceOrder
from simkit.power.facts import BatteryFacts, Supply
from simkit.power.ledger import POWERS, Flows

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "power.md").read_text("utf-8")


def test_algorithm_5_goes_as_the_table_says():
    battery = {"load": 40, "capacity": 100, "c_rate": 20, "e_rate": 30, "level": 50}
    rows = re.findall(r"^\| (\d+) \| (\d+), (-?\d+) \| (\d+), (-?\d+) \|$", PAGE, re.MULTILINE)
    table = [tuple(map(float, row)) for row in rows]
    power = [row[0] for row in table]
    printed, fixed = (algorithm_5(power, printed=each, **battery) for each in (True, False))
    found = zip(power, *printed, *fixed, strict=True)
    assert len(table) == 5
    assert list(found) == table


def test_the_equation_has_every_flow_of_the_ledger_on_its_side():
    sides = " = ".join(" + ".join(p.removesuffix("_w") for p in part)
                       for part in (POWERS[:4], POWERS[4:]))  # fmt: skip
    assert f"\n    {sides}\n" in PAGE


@pytest.mark.parametrize("name", [*Flows._fields[:10], "machines_w", "standing_w", "critical_w"])
def test_every_flow_is_among_the_symbols(name):
    symbols = PAGE.partition("## Symbols")[2].partition("\n## ")[0]
    assert f"`{name}`" in symbols


@pytest.mark.parametrize("name", [
    name for name in BatteryFacts.model_fields if name not in ("capacity_kwh", "initial_soc")
])  # fmt: skip
def test_every_number_of_a_battery_is_told(name):
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("name", SourceOrder.model_fields)
def test_every_key_of_the_controller_is_told(name):
    assert f"`{name}`" in PAGE.partition("## Which source first")[2].partition("\n## ")[0]


def test_every_rule_of_supply_is_told():
    part = PAGE.partition("## At an instant")[2].partition("\n## ")[0]
    hints = get_type_hints(Supply)
    limits, running = get_args(hints["limit"]), get_args(hints["running"])
    assert len(limits) == 3
    assert [name for name in (*limits, *running) if f"`{name}`" not in part] == []
