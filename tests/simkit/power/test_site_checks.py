"""A policy or controller that looks at what the site does not have is refused before the run."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.policies.green_slot import GreenSlot
from simkit.policies.orderings import FCFS
from simkit.policies.power_cap import PowerCap
from simkit.policies.thresholds import carbon_threshold, price_threshold
from simkit.policy.ordered import OrderedPolicy
from simkit.power.controller import SourceOrder
from simkit.power.forecast import PerfectForecast
from simkit.power.signal import CARBON, Constant, Steps
from simkit.power.site import Foresight, Grid, Site, controller_problems, policy_problems

SUN = PerfectForecast(Constant(1e3))
POWER_ALONE = Foresight(7200.0, 3600.0, SUN)
ALL = Foresight(7200.0, 3600.0, SUN, SUN, SUN)
CARBON_SIGNAL = Steps(np.array([0.0]), np.array([0.0]), end_s=10.0, unit=CARBON)


def site(foresight=None, controller=None, **grid):
    connection = {"grid": Grid(**grid)} if grid else {}
    return Site((), foresight=foresight, controller=controller or SourceOrder(), **connection)


CARBON_200, CHEAP = carbon_threshold(200.0), price_threshold(0.1)
PERCENTILE = price_threshold(percentile=20)

POLICIES = [
    # a number to compare a signal with: the signal must be declared
    (CARBON_200, None, ["add a section power:"]),
    (CARBON_200, site(), ["the site has no grid; add power.grid with carbon_gco2_per_kwh"]),
    (CARBON_200, site(price_per_kwh=0.2), ["power.grid.carbon_gco2_per_kwh is not declared"]),
    (CARBON_200, site(carbon_gco2_per_kwh=400.0), []),
    (CARBON_200, site(carbon_gco2_per_kwh=CARBON_SIGNAL), []),
    (CHEAP, site(carbon_gco2_per_kwh=400.0), ["declare power.grid.price_per_kwh"]),
    # a price below 0 is one
    (CHEAP, site(price_per_kwh=-0.1), []),
    # a share of what is foreseen: there must be a forecast of this signal
    (PERCENTILE, site(price_per_kwh=0.2), ["it needs a forecast of price; add power.forecast"]),
    (PERCENTILE, site(POWER_ALONE, price_per_kwh=0.2), ["does not include the price"]),
    (PERCENTILE, site(ALL, price_per_kwh=0.2), []),
    # both are told at once
    (PERCENTILE, site(carbon_gco2_per_kwh=1.0), ["is not declared", "it needs a forecast"]),
    # green power must be foreseen, the price need not
    (GreenSlot(), None, ["add a section power:"]),
    (GreenSlot(), site(price_per_kwh=0.2), ["it needs a forecast of generation"]),
    (GreenSlot(), site(POWER_ALONE), []),
    # a signal of the grid must be declared, and foreseen
    (GreenSlot(signal="carbon"), site(ALL), ["add power.grid with carbon_gco2_per_kwh"]),
    (
        GreenSlot(signal="price"),
        site(POWER_ALONE, price_per_kwh=0.2),
        ["does not include the price"],
    ),
    (GreenSlot(signal="price"), site(ALL, price_per_kwh=0.2), []),
    # a cap must be given by the policy or by the site
    (PowerCap(), None, ["add a section power:"]),
    (PowerCap(), site(price_per_kwh=0.2), ["it has no cap_w"]),
    (PowerCap(), site(import_limit_w=1e3), []),
    (PowerCap(5e3), site(price_per_kwh=0.2), []),
]


@pytest.mark.parametrize(("rule", "where", "words"), POLICIES)
def test_what_a_policy_lacks_is_told_with_its_place(rule, where, words):
    problems = policy_problems(rule.compose(FCFS()), where)
    assert len(problems) == len(words)
    for problem, word in zip(problems, words, strict=True):
        assert problem.startswith("policy.backfill: ")
        assert word in problem


def test_a_policy_that_looks_at_no_power_runs_anywhere():
    assert policy_problems(OrderedPolicy(FCFS()), None) == []


BY_PRICE = SourceOrder(charge_below_price=0.2)
BY_CARBON = SourceOrder(charge_below_carbon=250.0)

CONTROLLERS = [
    (SourceOrder(), {}, None),
    (BY_PRICE, {}, "the site has no grid; add power.grid with price_per_kwh"),
    (BY_PRICE, {"import_limit_w": 1e3}, "declare power.grid.price_per_kwh, or leave charge_below_"),
    (BY_PRICE, {"price_per_kwh": 0.3}, None),
    (BY_CARBON, {"price_per_kwh": 0.3}, "charge_below_carbon is 250, but power.grid.carbon_gco2"),
    (BY_CARBON, {"carbon_gco2_per_kwh": CARBON_SIGNAL}, None),
]


@pytest.mark.parametrize(("controller", "grid", "words"), CONTROLLERS)
def test_a_controller_that_buys_by_a_signal_needs_it(controller, grid, words):
    problems = controller_problems(site(controller=controller, **grid))
    assert len(problems) == (words is not None)
    for problem in problems:
        assert problem.startswith("power.controller: ")
        assert words in problem


def test_a_controller_of_ones_own_may_check_the_site_itself():
    class Mine(SourceOrder):
        def check_site(self, site):
            yield f"power.controller: {site.full_w:g} W are too little"

    assert controller_problems(site(controller=Mine())) == ["power.controller: 0 W are too little"]
