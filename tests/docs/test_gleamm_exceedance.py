"""The exceedance page: its numbers are those of the code, and the code counts as by hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from gleamm_exceedance import PLACES, Place, served, served_exactly, tables

from simkit.power.signal import Steps

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reproductions"
DATA = Path(os.environ.get("SIMKIT_DATA", ROOT.parent / "shared" / "data")) / "power"


GENERATED, *OTHERS = PLACES


def rows(name):
    found = tables([Place(name, PLACES[name](DATA))])
    return {row for table in found.values() for row in table.splitlines() if name in row}


def shown():
    return set((PAGES / "gleamm-exceedance.md").read_text("utf-8").splitlines())


@pytest.mark.thorough
def test_the_generated_year_is_as_the_page_says():
    found = rows(GENERATED)
    assert len(found) == 7  # one of sizes, three of points, three of exact
    assert found <= shown()


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_real_places_are_as_the_page_says(name):
    pytest.importorskip("pvlib", reason="pvlib (extra power) is not installed")
    if not DATA.exists():
        pytest.skip(f"{DATA} is absent; set SIMKIT_DATA to the folder of real data")
    assert rows(name) <= shown()


SURPLUS_THEN_NONE = [
    # kW of each hour, rate kW, carried at 100 kW: hours, time
    ([200, 0, 50, 300], 100, 0.75, 0.75),  # 100 kWh stored, gone after the second hour
    ([150, 0, 100, 100], 100, 0.75, 0.875),  # half an hour's worth: half of the second hour
    ([300, 0, 0, 100], 100, 0.75, 0.75),  # only 100 of the surplus of 200 can be charged
    ([300, 0, 0, 100], 1e6, 1.0, 1.0),  # all of it
    ([300, 0, 0, 100], 50, 0.5, 0.5),  # 50 kW alone carry no part of 100
    ([99, 100, 101, 0], 0, 0.5, 0.5),  # no battery at all
]


@pytest.mark.parametrize(("hours_kw", "rate_kw", "in_hours", "in_time"), SURPLUS_THEN_NONE)
def test_a_load_is_carried_hour_by_hour_and_exactly(hours_kw, rate_kw, in_hours, in_time):
    hours = np.array(hours_kw) * 1e3
    assert served(hours, 100e3, rate_kw * 1e3) == in_hours
    span = 3600.0 * len(hours)
    signal = Steps(3600.0 * np.arange(len(hours)), hours, span)
    assert served_exactly(signal, span, 100e3, rate_kw * 1e3) == pytest.approx(in_time)
