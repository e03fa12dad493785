"""The default controller's set-points, each row worked out by hand, and their limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import PolicyError, ScenarioError
from simkit.power.controller import (
    Controller,
    GridOffer,
    SetPoints,
    SiteState,
    SourceOrder,
    check_set_points,
)

GRID = GridOffer(
    import_limit_w=50.0, export_limit_w=5.0, price_per_kwh=0.2, carbon_gco2_per_kwh=300
)


def site(generation: float, load: float, **facts: Any) -> SiteState:
    defaults = {"grid": GRID, "soc": 0.5, "most_charge_w": 10.0, "most_discharge_w": 20.0}
    return SiteState(0.0, generation, load, **(defaults | facts))


RULES = [
    # controller, generation, load, soc, expected battery, grid, curtailment, unserved
    ({}, 40, 33, 0.5, (7, 0, 0, 0)),  # what is left charges
    ({}, 60, 33, 0.5, (10, -5, 12, 0)),  # … then goes out … then is thrown away
    ({}, 20, 33, 0.5, (-13, 0, 0, 0)),  # the battery first
    ({}, 0, 33, 0.5, (-20, 13, 0, 0)),  # then the grid
    ({}, 0, 80, 0.5, (-20, 50, 0, 10)),  # then nothing
    ({"first": "grid"}, 0, 33, 0.5, (0, 33, 0, 0)),
    ({"first": "grid"}, 0, 60, 0.5, (-10, 50, 0, 0)),  # the grid's limit binds
    ({"first": "grid", "peak_w": 25}, 0, 33, 0.5, (-8, 25, 0, 0)),  # the battery shaves the peak
    ({"first": "grid", "peak_w": 5}, 0, 33, 0.5, (-20, 13, 0, 0)),  # as far as it can
    ({"reserve": 0.5}, 0, 33, 0.5, (0, 33, 0, 0)),  # the reserve is kept
    ({"reserve": 0.5}, 0, 60, 0.5, (-10, 50, 0, 0)),  # until the grid does not suffice
    ({"reserve": 0.4}, 0, 33, 0.5, (-20, 13, 0, 0)),  # above it
    ({"charge_below_price": 0.2}, 0, 33, 0.5, (10, 43, 0, 0)),  # cheap: grid serves and charges
    ({"charge_below_price": 0.1}, 0, 33, 0.5, (-20, 13, 0, 0)),  # not cheap enough
    ({"charge_below_carbon": 300}, 36, 33, 0.5, (10, 7, 0, 0)),  # clean: tops the surplus up
    ({"charge_below_price": 0.2, "charge_to": 0.5}, 0, 33, 0.5, (0, 33, 0, 0)),  # enough
    ({"charge_below_price": 0.2, "peak_w": 38}, 0, 33, 0.5, (5, 38, 0, 0)),  # within the peak
    ({"charge_below_price": 0.2}, 60, 33, 0.5, (10, -5, 12, 0)),  # nothing bought to be sold
]


@pytest.mark.parametrize(("facts", "generation", "load", "soc", "expected"), RULES)
def test_set_points_by_hand(
    facts: dict[str, Any], generation: float, load: float, soc: float, expected: tuple[float, ...]
) -> None:
    state = site(generation, load, soc=soc)
    points = SourceOrder(**facts).settle(state)
    assert points == SetPoints(*expected)
    check_set_points(state, points)


CHEAP = {"charge_below_price": 0.2, "charge_to": 0.8, "reserve": 0.2, "first": "battery"}
ORDER = [
    # the table of docs/reference/power.md: a deficit of 30 W, a battery of 10 W
    # controller, price, soc, expected battery and grid
    (CHEAP | {"peak_w": 35}, 0.3, 0.5, (-10, 20)),  # dear: the battery first
    (CHEAP | {"peak_w": 35}, 0.2, 0.5, (5, 35)),  # charging comes before a low peak
    (CHEAP | {"peak_w": 35}, 0.2, 0.8, (0, 30)),  # charged: the grid alone, in spite of `first`
    (CHEAP | {"peak_w": 25}, 0.2, 0.5, (-5, 25)),  # the battery helps above the peak: no charging
    (CHEAP | {"peak_w": 25}, 0.2, 0.2, (0, 30)),  # the reserve is kept, and the peak is not
]


@pytest.mark.parametrize(("facts", "price", "soc", "expected"), ORDER)
def test_cheap_energy_is_charged_before_the_peak_is_shaved(
    facts: dict[str, Any], price: float, soc: float, expected: tuple[float, float]
) -> None:
    grid = GridOffer(50.0, 0.0, price)
    state = site(0.0, 30.0, soc=soc, grid=grid, most_charge_w=10.0, most_discharge_w=10.0)
    points = SourceOrder(**facts).settle(state)
    assert (points.battery_w, points.grid_w) == expected
    check_set_points(state, points)


watts = st.floats(0.0, 1e6)
controllers = st.builds(
    SourceOrder,
    first=st.sampled_from(["battery", "grid"]),
    reserve=st.floats(0, 1),
    peak_w=watts,
    charge_below_price=st.floats(-1, 1),
    charge_to=st.floats(0, 1),
)
sites = st.builds(
    SiteState,
    st.just(0.0), watts, watts, st.builds(GridOffer, watts, watts, st.floats(-1, 1)),
    soc=st.floats(0, 1), most_charge_w=watts, most_discharge_w=watts,
)  # fmt: skip


@given(controllers, sites)
def test_set_points_balance_and_keep_every_limit(controller: SourceOrder, state: SiteState) -> None:
    points = controller.settle(state)
    check_set_points(state, points)
    if points.unserved_w > 1e-6 * state.load_w:  # nothing is left that could serve
        assert points.grid_w == pytest.approx(state.grid.import_limit_w)
        assert -points.battery_w == pytest.approx(state.most_discharge_w)


WRONG = [
    (SetPoints(battery_w=11.0, grid_w=4.0), "charging 11 W, the battery can take 10 W"),
    (SetPoints(battery_w=-21.0, curtailment_w=28.0), "discharging 21 W"),
    (SetPoints(grid_w=-7.0), "exporting 7 W, the grid allows 5 W"),
    (SetPoints(curtailment_w=6.0), "exceeds load .* by 1 W"),
    (SetPoints(curtailment_w=8.0, unserved_w=-1.0), "unserved_w is -1"),
    (SetPoints(curtailment_w=float("nan")), "curtailing nan W"),
]


@pytest.mark.parametrize(("points", "message"), WRONG)
def test_wrong_set_points_are_refused(points: SetPoints, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        check_set_points(site(40.0, 33.0), points)


def test_the_default_is_a_controller_and_tells_all_that_is_wrong() -> None:
    assert isinstance(SourceOrder(), Controller)
    assert SourceOrder(reserve=0.2).levels == (0.2,)
    with pytest.raises(ScenarioError) as caught:
        SourceOrder(first="sun", reserve=2.0, peak_w=-1.0)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 3
