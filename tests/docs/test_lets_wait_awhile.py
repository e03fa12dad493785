"""Wiesner et al. (2021): nightly jobs in Germany, by the page's scenario and by a plain script."""

from __future__ import annotations

import csv
import gzip
import os
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from pages import DOCS, blocks

import simkit

PAGE = DOCS / "howto" / "lets-wait-awhile.md"
DATA = Path(os.environ.get("SIMKIT_DATA", Path(__file__).parents[3] / "shared" / "data"))
GERMANY = DATA / "power" / "ger_ci.csv.gz"
JOBS, PER_DAY = 365, 48

pytestmark = pytest.mark.skipif(
    not GERMANY.is_file(), reason=f"{GERMANY} is absent; set SIMKIT_DATA to the folder of real data"
)


@pytest.fixture(scope="module")
def quarters():
    """Return time -> g/kWh, with the last value for those that are missing."""
    with gzip.open(GERMANY, "rt") as file:
        rows = {
            datetime.fromisoformat(time): float(value) for time, value in list(csv.reader(file))[1:]
        }
    first, last = min(rows), max(rows)
    for quarter in range((last - first) // timedelta(minutes=15)):
        time = first + quarter * timedelta(minutes=15)
        rows.setdefault(time, rows.get(time - timedelta(minutes=15)))
    return rows


def nights(quarters, mean=True):
    """Return (365, 33): g/kWh in the half-hours from 17:00 to 9:00, all nights of 2020 but one."""
    half, quarter = timedelta(minutes=30), timedelta(minutes=15)
    first = datetime(2019, 12, 31, 17)
    times = [[first + day * PER_DAY * half + k * half for k in range(33)] for day in range(JOBS)]
    return np.array(
        [[(quarters[t] + quarters[t + quarter]) / 2 if mean else quarters[t] for t in night]
         for night in times]
    )  # fmt: skip


@pytest.mark.thorough
def test_germany_saves_what_a_plain_script_computes(quarters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(PAGE):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
    carbon_kg = {}
    for window in ("0h", "8h"):
        run = simkit.simulate(
            "wait.yaml",
            overrides={
                "workload.args.window": window,
                "power.grid.carbon_gco2_per_kwh.path": str(GERMANY),
            },
        )
        assert run.metrics["deadline_misses"]["value"] == 0
        carbon_kg[window] = run.metrics["carbon_kg"]["value"]
    slots = nights(quarters)
    half_kwh = 0.5 / 1000  # of a machine of 1 kW, and from g to kg
    assert carbon_kg["0h"] == pytest.approx(half_kwh * slots[:, 16].sum(), rel=1e-12)
    assert carbon_kg["8h"] == pytest.approx(half_kwh * slots.min(axis=1).sum(), rel=1e-12)
    assert f"{1 - carbon_kg['8h'] / carbon_kg['0h']:.1%}" == "13.5%"
