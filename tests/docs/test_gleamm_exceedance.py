"""The exceedance page: its numbers are those of the code, and the code counts as by hand."""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rare_battery import RareBattery, as_printed
from signal_exceedance import exceedance

from simkit.power.signal import Steps

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reproductions"
DATA = Path(os.environ.get("SIMKIT_DATA", ROOT.parent / "shared" / "data")) / "power"


def script():
    spec = spec_from_file_location("gleamm_exceedance", PAGES / "gleamm_exceedance.py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


page = script()
GENERATED, *OTHERS = page.PLACES


def rows(name):
    site = page.curves(name, page.PLACES[name](DATA))
    tables = [table([site]) for table in (page.sizes, page.points, page.exact)]
    return {row for table in tables for row in table.splitlines() if name in row}


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
    assert page.served(hours, 100e3, rate_kw * 1e3) == in_hours
    span = 3600.0 * len(hours)
    signal = Steps(3600.0 * np.arange(len(hours)), hours, span)
    assert page.served_exactly(signal, span, 100e3, rate_kw * 1e3) == pytest.approx(in_time)


@given(
    st.lists(st.floats(0, 1e6), max_size=30), st.floats(0, 1e6), st.floats(0, 1e6),
    st.floats(0, 1e6),
)  # fmt: skip
def test_as_printed_every_load_is_carried(power, load, rate, level):
    """What the page says of algorithm 5 as printed, to rounding."""
    battery = RareBattery(1e6, load, c_rate=rate, e_rate=rate, initial_level=level)
    available = as_printed(battery, power).available
    assert all(given >= load * (1 - 1e-12) for given in available)


def test_exceedance_is_the_share_of_time_above_a_level():
    signal = Steps([0.0, 30.0, 40.0], [10.0, 50.0, 20.0], 100.0)
    levels = [0.0, 9.9, 10.0, 20.0, 49.0, 50.0]
    assert exceedance(signal, levels, 0.0, 100.0).tolist() == pytest.approx(
        [1, 1, 0.7, 0.1, 0.1, 0]
    )
    # means over 50 s: (300 + 500 + 200) / 50 = 20 and 20
    assert exceedance(signal, [19.0, 21.0], 0.0, 100.0, mean_s=50.0).tolist() == [1, 0]
    with pytest.raises(ValueError, match="must not be empty"):
        exceedance(signal, levels, 5.0, 5.0)
