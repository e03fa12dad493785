"""Metrics of energy by hand, and a window's parts that add up to the whole."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from simkit.arrays import Floats
from simkit.power.facts import BatteryFacts
from simkit.power.ledger import Flows, Ledger, StoredEnergy
from simkit.results.energy_metrics import energy_metrics
from simkit.results.metric import RunWindow
from simkit.units import KWH_J

HOUR = 3600.0
KW = 1000.0


Records = tuple[pl.LazyFrame, BatteryFacts | None]
"""The table "power" and the battery."""


def recorded(rows, battery):
    """Records of (end in s, flows, content in J) from 0 s on."""
    chunks: list[dict[str, Floats]] = []
    contents = battery and StoredEnergy(battery.capacity_j * battery.initial_soc)
    ledger = Ledger(0.0, contents, chunks.append)
    for until, flows, content in rows:
        ledger.advance(until, flows, content)
    ledger.close()
    return pl.concat(pl.DataFrame(rows) for rows in chunks).lazy(), battery


def measured(records, start, end):
    window = RunWindow(start, end, end)
    return {metric.name: metric.as_json() for metric in energy_metrics(*records, window)}


BATTERY = BatteryFacts(capacity_kwh=100, charge_efficiency=0.9, discharge_efficiency=0.8)


@pytest.fixture
def day():
    """Sun that charges and is sold, the battery, the grid that charges, and a shortage."""
    price = {"pue": 1.25, "price_per_kwh": 0.5, "export_price_per_kwh": 0.1,
             "carbon_gco2_per_kwh": 400.0}  # fmt: skip

    def flows(**kilowatts):
        watts = {f"{name}_w": value * KW for name, value in kilowatts.items()}
        return Flows(machines_w=16 * KW, standing_w=6 * KW, load_w=24 * KW, **watts, **price)

    return recorded(
        [
            (1 * HOUR, flows(generation=60, charge=20, export=10, curtailment=6), 68 * KWH_J),
            (2 * HOUR, flows(discharge=16, generation=8), 48 * KWH_J),
            (3 * HOUR, flows(**{"import": 34}, charge=10), 57 * KWH_J),
            (4 * HOUR, flows(discharge=12, **{"import": 6}, unserved=6), 41 * KWH_J),  # 1 leaks
        ],
        BATTERY,
    )


BY_HAND = [
    # metric, number, value
    ("load_kwh", "value", 96),
    ("load_kwh", "machines", 64),
    ("load_kwh", "idle", 24),
    ("load_kwh", "jobs", 40),
    ("load_kwh", "overhead", 16),
    ("load_kwh", "critical", 16),
    ("served_kwh", "value", 90),
    ("served_kwh", "renewable", 24 + 8),
    ("served_kwh", "battery", 16 + 12),
    ("served_kwh", "grid", 24 + 6),
    ("unserved_kwh", "value", 6),
    ("unserved_kwh", "share", 6 / 96),
    ("unserved_kwh", "jobs", 10 * 6 / 24),  # of the last hour's 24 kW a quarter is short
    ("unserved_kwh", "idle", 6 * 6 / 24),
    ("generation_kwh", "value", 68),
    ("generation_kwh", "used", 62),
    ("curtailment_kwh", "value", 6),
    ("curtailment_kwh", "share", 6 / 68),
    # 9 of 57 kWh in the battery are the grid's when 12 kWh are taken from it
    ("renewable_fraction", "value", (32 + 16 + 12 * (1 - 9 / 57)) / 90),
    ("self_consumption", "value", (24 + 20 + 8) / 68),
    ("grid_kwh", "import", 40),
    ("grid_kwh", "export", 10),
    ("grid_import_peak_w", "value", 34_000),
    ("carbon_kg", "value", 16),
    # the grid's 30 kWh, and of the 4 kg that 10 kWh brought the part that left the store
    ("carbon_kg", "load", 12 + 4 * (1 - 41 / 57)),
    ("energy_cost", "value", 40 * 0.5 - 10 * 0.1),
    ("energy_cost", "load", 30 * 0.5 + 5 * (1 - 41 / 57)),
    ("battery_kwh", "charge", 30),
    ("battery_kwh", "discharge", 28),
    ("battery_kwh", "conversion", 30 * 0.1 + 28 * 0.25),
    ("battery_kwh", "stored", -9),
    ("battery_kwh", "self_discharge", 1),
    ("battery_full_cycles", "value", (27 + 35) / 200),
]


@pytest.mark.parametrize(("metric", "number", "value"), BY_HAND)
def test_a_day_by_hand(metric, number, value, day):
    assert measured(day, 0.0, 4 * HOUR)[metric][number] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("taken_kwh", "leaked_kwh", "stored", "self_discharge"),
    [
        (3e-9, 0, 0, 0),  # what a few ticks of time move
        (0, 1e-13, 0, 0),  # last digits
        (1e-6, 0, -1e-6, 0),
        (0, 1e-6, -1e-6, 1e-6),
    ],
)
def test_last_digits_are_no_energy_of_the_battery(taken_kwh, leaked_kwh, stored, self_discharge):
    """0.09 kWh goes into the store of 100 kWh, and as much comes out, with what is said here."""
    back_w = 0.8 * (90 + 1000 * taken_kwh)
    rows = [
        (3600.0, Flows(generation_w=100.0, charge_w=100.0), 50.09 * KWH_J),
        (7200.0, Flows(discharge_w=back_w, load_w=back_w), (50 - taken_kwh - leaked_kwh) * KWH_J),
    ]
    found = measured(recorded(rows, BATTERY), 0.0, 7200.0)["battery_kwh"]
    assert found["stored"] == pytest.approx(stored, rel=1e-6, abs=0)
    assert found["self_discharge"] == pytest.approx(self_discharge, rel=1e-6, abs=0)


ADDITIVE = ("load_kwh", "served_kwh", "generation_kwh", "grid_kwh", "battery_kwh", "carbon_kg")


def test_parts_of_a_window_add_up_to_the_whole(day):
    cuts = [-5 * HOUR, 0.5 * HOUR, 1.7 * HOUR, 3 * HOUR, 9 * HOUR]
    parts = [measured(day, start, end) for start, end in pairwise(cuts)]
    whole = measured(day, 0.0, 4 * HOUR)
    for name in ADDITIVE:
        for number in set(whole[name]) - {"unit", "formula", "window", "count", "censored"}:
            total = math.fsum(part[name][number] for part in parts)
            assert total == pytest.approx(whole[name][number], rel=1e-12), (name, number)


def test_where_nothing_flows_shares_are_undefined():
    found = measured(recorded([], None), 0.0, HOUR)
    assert found["load_kwh"]["value"] == 0.0
    assert found["renewable_fraction"]["value"] is None
    assert found["curtailment_kwh"]["share"] is None
    assert "battery_kwh" not in found


def test_many_rows_are_read_in_batches():
    """100,000 rows of 3 s at alternating powers, and a peak in the middle."""
    watts = np.where(np.arange(100_000) % 2, 900.0, 300.0)
    watts[70_000] = 5000.0
    rows = [(3.0 * (n + 1), Flows(import_w=w, load_w=w), 0.0) for n, w in enumerate(watts.tolist())]
    found = measured(recorded(rows, None), 0.0, 300_000.0)
    assert found["grid_kwh"]["import"] == pytest.approx(3.0 * watts.sum() / KWH_J, rel=1e-13)
    assert found["grid_import_peak_w"]["value"] == 5000.0
