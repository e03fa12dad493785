"""Policies that use power, on a site that the tests define: 100 W, and 10 W a processor."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit import check_policy
from simkit.errors import PolicyError, ScenarioError
from simkit.policies.easy import Easy
from simkit.policies.green_slot import GreenSlot
from simkit.policies.orderings import FCFS, SJF, LeastSlack
from simkit.policies.power_cap import PowerCap
from simkit.policies.thresholds import carbon_threshold, price_threshold
from simkit.policy import WakeAt
from simkit.policy.ordered import OrderedPolicy
from simkit.power.facts import Supply
from simkit.power.forecast import PerfectForecast
from simkit.power.machine_model import ConstantPue, CurvedPue, PowerModel
from simkit.power.signal import Constant
from simkit.power.site import Foresight, Grid, Site
from simkit.rules import AdmissionRule, Rules

pytestmark = [pytest.mark.long, pytest.mark.sampled]

IDLE_W, EACH_W, STEP_S = 100.0, 10.0, 10.0


class FakePower:
    """A site whose signals are lists, an entry a step; the last one holds for good."""

    soc = 0.0
    step_s = STEP_S

    def __init__(self, state, signals, steps):
        self._state, self._signals = state, signals
        self.horizon_s = steps * STEP_S
        self._steps = steps

    def _at(self, name, time):
        values = self._signals.get(name, [0.0])
        return values[min(int(time // STEP_S), len(values) - 1)]

    @property
    def load_w(self):
        state = self._state
        return IDLE_W + EACH_W * float((state.capacity - state.free)[:, 0].sum())

    @property
    def machines_w(self):
        return self.load_w

    generation_w = property(lambda self: self._at("generation", self._state.now))
    available_w = property(lambda self: self._at("available", self._state.now))
    price_per_kwh = property(lambda self: self._at("price", self._state.now))
    carbon_gco2_per_kwh = property(lambda self: self._at("carbon", self._state.now))

    def forecast(self, what, start_s=None):
        if not self._steps or what not in self._signals:
            raise PolicyError(f"no forecast of {what}")
        now = self._state.now if start_s is None else start_s
        return np.array([self._at(what, now + k * STEP_S) for k in range(self._steps)], float)

    def power_of(self, task):
        return EACH_W * task.demand[0]

    machine_power_of = power_of

    def machines_within(self, site_w):
        return site_w


class On:
    """A policy on such a site; with `ticks` it decides at every step, as signals change."""

    def __init__(self, policy, steps=12, ticks=False, **signals):
        self.policy, self.steps, self.ticks, self.signals = policy, steps, ticks, signals

    def reset(self, info, rng):
        self.policy.reset(info, rng)

    def schedule(self, state):
        state.power = FakePower(state, self.signals, self.steps)
        yield from self.policy.schedule(state)
        if self.ticks and state.queue:
            yield WakeAt((state.now // STEP_S + 1) * STEP_S)


POLICIES = {
    "cap": On(PowerCap(260.0).compose(FCFS())),
    "available": On(PowerCap().compose(SJF()), available=[280.0, 300.0, 270.0, 400.0]),
    "clean parts": On(
        GreenSlot("60s", "carbon", interrupt=True).compose(LeastSlack()),
        generation=[0.0],
        carbon=[300.0, 100.0, 200.0, 400.0, 50.0],
    ),
    "carbon": On(carbon_threshold(100.0, max_delay="60s").compose(FCFS()), carbon=[300.0]),
}


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, id=name, marks=[pytest.mark.thorough] if name == "clean parts" else [])
        for name, policy in POLICIES.items()
    ],
)
def test_keeps_the_rules_of_policies(policy):
    check_policy(policy)


@pytest.mark.parametrize("rule", [PowerCap(500.0), GreenSlot(), carbon_threshold(100.0)])
def test_without_power_it_says_what_is_missing(rule, simulate, job_columns):
    with pytest.raises(PolicyError, match="add a section power:"):
        simulate(rule.compose(FCFS()), job_columns([(0, 1, 1, 1)]), 4)
    with pytest.raises(PolicyError, match="compose"):
        OrderedPolicy(FCFS(), rule)


@pytest.mark.parametrize("rule", [GreenSlot(), price_threshold(percentile=10)])
def test_without_a_forecast_it_says_what_is_missing(rule, simulate, job_columns):
    policy = On(rule.compose(FCFS()), steps=0)
    with pytest.raises(PolicyError, match="no forecast"):
        simulate(policy, job_columns([(0, 1, 1, 1)]), 4)


# ---- a cap --------------------------------------------------------------------------------------

CAPPED = [
    # (gap, run time, processors), cap in W, starts: what is free is not all that counts.
    # 60 W are left for 6 of 10 processors; the second waits for the first to end.
    ([(0, 10, 4), (0, 5, 4)], 160.0, [0, 10]),
    # The third ends before the head may start: it is backfilled.
    ([(0, 10, 4), (0, 5, 4), (0, 10, 2)], 160.0, [0, 10, 0]),
    # It would still run then, and what the head leaves of 60 W is 20 W: just enough for 2.
    ([(0, 10, 4), (0, 5, 4), (0, 11, 2)], 160.0, [0, 10, 0]),
    # Not enough for 2 beside a head of 5 processors: it must not delay the head.
    ([(0, 10, 4), (0, 5, 5), (0, 11, 2)], 160.0, [0, 10, 15]),
]


@pytest.mark.parametrize(("jobs", "cap_w", "starts"), CAPPED)
def test_easy_under_a_cap(jobs, cap_w, starts, simulate, job_columns):
    columns = job_columns([(gap, run, size, run) for gap, run, size in jobs])
    assert simulate(On(PowerCap(cap_w).compose(FCFS())), columns, 10).starts == starts


JOBS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 8), st.integers(1, 6), st.integers(0, 9)),
    min_size=1,
    max_size=20,
)


@given(JOBS)
def test_a_cap_acts_like_fewer_processors(simulate, job_columns, jobs):
    columns = job_columns(jobs)
    capped = simulate(On(PowerCap(IDLE_W + EACH_W * 6).compose(FCFS())), columns, 10)
    assert capped.starts == simulate(OrderedPolicy(FCFS(), Easy()), columns, 6).starts


def test_a_cap_that_is_foreseen_to_fall(simulate, job_columns):
    # From 20 s on 120 W are there, from 40 s on 200 W. Twenty seconds of 5 processors end in time,
    # thirty wait for 40 s, and two processors fit all the time.
    columns = job_columns([(0, 30, 5, 30), (0, 20, 5, 20), (0, 60, 2, 60)])
    policy = On(PowerCap().compose(FCFS()), available=[200.0, 200.0, 120.0, 120.0, 200.0])
    assert simulate(policy, columns, 10).starts == [40, 0, 0]


def test_slots_of_the_ready_pool_are_refilled_in_the_same_decision(simulate, job_columns):
    columns = job_columns([(0, 10, 2, 10)] * 6)
    rules = Rules(admission=AdmissionRule(slots=1))
    run = simulate(On(PowerCap(160.0).compose(FCFS())), columns, 10, rules=rules)
    assert run.starts == [0, 0, 0, 10, 10, 10]


# ---- waiting for a low signal -------------------------------------------------------------------

CARBON = [300.0, 300.0, 80.0, 300.0, 300.0, 50.0, 300.0]
WAITS = [
    # rule, (gap, run time, processors), starts
    # It is low at 20 s.
    (carbon_threshold(100.0), [(0, 5, 1), (7, 5, 1)], [20, 20]),
    # At 20 s it is not low enough.
    (carbon_threshold(60.0), [(0, 5, 1)], [50]),
    # The lowest fifth of what is foreseen, at 0 s: of twelve steps only 20 and 50 s are below it.
    (carbon_threshold(percentile=10), [(0, 5, 1)], [20]),
    # Nobody waits longer than is allowed.
    (carbon_threshold(60.0, max_delay="15s"), [(0, 5, 1), (30, 5, 1)], [15, 45]),
    # What comes while it is low starts at once.
    (carbon_threshold(100.0), [(25, 50, 1)], [25]),
    # What does not fit while it is low waits for the next time.
    (carbon_threshold(100.0), [(0, 15, 4), (0, 5, 4)], [20, 50]),
]


@pytest.mark.parametrize(("rule", "jobs", "starts"), WAITS)
def test_waits_for_low_carbon(rule, jobs, starts, simulate, job_columns):
    columns = job_columns([(gap, run, size, run) for gap, run, size in jobs])
    policy = On(rule.compose(FCFS()), ticks=True, carbon=CARBON)
    assert simulate(policy, columns, 4).starts == starts


def test_wakes_when_the_signal_is_foreseen_to_be_low(simulate, job_columns):
    # Nothing else happens at 20 s.
    policy = On(carbon_threshold(100.0).compose(FCFS()), carbon=CARBON)
    assert simulate(policy, job_columns([(0, 5, 1, 5)]), 4).starts == [20]


def test_a_deadline_goes_before_a_low_price(simulate, job_columns):
    class Due(On):
        def schedule(self, state):
            for task in state.arrived:
                task.deadline_s = (100.0, 18.0)[task.index]
            return super().schedule(state)

    policy = Due(price_threshold(0.1).compose(FCFS()), ticks=True, price=[0.5, 0.5, 0.5, 0.1])
    assert simulate(policy, job_columns([(0, 5, 1, 5)] * 2), 4).starts == [30, 13]


# ---- GreenSlot ----------------------------------------------------------------------------------

GREEN = [
    # generation by step, price by step, (gap, run time, processors), starts
    # The site takes 100 W by itself: 140 W from 30 s on carry four processors.
    ([0, 0, 0, 140], None, [(0, 10, 4)], [30]),
    # The second finds the green power of that slot gone, and takes the next.
    ([0, 0, 0, 140], None, [(0, 10, 4), (0, 10, 4)], [30, 40]),
    # No green power: the cheapest brown.
    ([0], [3, 3, 1, 2], [(0, 10, 1)], [20]),
    # Twenty seconds across the cheap slot and the next cheapest.
    ([0], [3, 3, 1, 2, 4], [(0, 20, 1)], [20]),
    # Everything costs the same: at once.
    ([0], [2], [(0, 10, 1), (3, 10, 1)], [0, 3]),
    ([500], [3, 1], [(0, 10, 1)], [0]),
    # It would wait longer than is allowed.
    ([0] * 9 + [200], None, [(0, 10, 1)], [0]),
    # There is no room in the green slot beside the first: it runs on after it.
    ([0, 0, 0, 500], None, [(0, 10, 8), (0, 10, 8)], [30, 40]),
]


@pytest.mark.parametrize(("generation", "price", "jobs", "starts"), GREEN)
def test_green_slot(generation, price, jobs, starts, simulate, job_columns):
    signals = {"generation": generation} | ({"price": price} if price else {})
    columns = job_columns([(gap, run, size, run) for gap, run, size in jobs])
    policy = On(GreenSlot("80s").compose(LeastSlack()), **signals)
    assert simulate(policy, columns, 10).starts == starts


def test_green_slot_starts_what_is_late_as_early_as_possible(simulate, job_columns):
    # The first is due before the green slot; the second cannot be in time, and follows at once.
    class Due(On):
        def schedule(self, state):
            for task in state.arrived:
                task.deadline_s = 12.0
            return super().schedule(state)

    policy = Due(GreenSlot().compose(LeastSlack()), generation=[0, 0, 0, 500])
    assert simulate(policy, job_columns([(0, 10, 8, 10)] * 2), 10).starts == [0, 10]


def test_overruns_do_not_make_it_ask_again_and_again(simulate, job_columns):
    # The first runs 1000 s past its estimate: nothing is known until it ends.
    columns = job_columns([(0, 1001, 10, 1), (0, 5, 10, 5), (0, 5, 10, 0)])
    for rule in (GreenSlot("5s"), PowerCap(900.0)):
        run = simulate(On(rule.compose(FCFS()), generation=[0]), columns, 10)
        assert run.starts[:2] == [0, 1001]
        assert run["timeline"].filter(pl.col("time_s") < 1001).height < 500


WRONG = [
    (lambda: PowerCap(0.0), "cap_w is 0.0; it must be above 0"),
    (lambda: PowerCap("much"), "cap_w is 'much'"),
    (lambda: carbon_threshold(), "give at_most .* or percentile"),
    (lambda: price_threshold(1.0, 50), "not both"),
    (lambda: price_threshold(percentile=101), "percentile is 101; it must be in 0..100"),
    (lambda: carbon_threshold(float("nan")), "at_most is nan"),
    (lambda: carbon_threshold(1.0, max_delay="0s"), "max_delay is '0s'"),
    (lambda: GreenSlot("never"), "green-slot: max_delay"),
    (lambda: GreenSlot("0s", "carbn"), "(?s)max_delay.*signal is 'carbn'.*did you mean 'carbon'"),
    (lambda: GreenSlot(interrupt="yes"), "interrupt is 'yes'; it must be true or false"),
    (lambda: GreenSlot(interrupt=True).compose(FCFS()), "write order: least-slack"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_refuses_arguments_that_are_none(make, message):
    with pytest.raises(ScenarioError, match=message):
        make()


# ---- a cap on a site with overhead ---------------------------------------------------------------

OVERHEADS = {
    "ratio": ConstantPue(1.7),
    # the overhead is largest while little runs
    "curve": CurvedPue(700.0, {0.0: 2.0, 0.5: 1.5, 1.0: 1.2}),
}
MODEL = PowerModel.linear(300.0, 300.0 + 10 * 100.0 / 3, "processors")
"""A pool of 10: 300 W when idle, and 33.3 W a processor in use."""
CRITICAL_W = 450.0


def supplied(pue, grid_w, *, forecast=True):
    """Return a site on a weak grid, with overhead and critical load."""
    foresight = Foresight(120.0, STEP_S, PerfectForecast(Constant(0.0, "W")))
    return Site(
        models=(MODEL,), grid=Grid(grid_w), pue=pue, critical_w=CRITICAL_W,
        supply=Supply(limit="none"), foresight=foresight if forecast else None,
    )  # fmt: skip


def drawn_w(pue, processors):
    """Return what that site draws while so many processors are in use."""
    machines_w = 300.0 + processors * 100.0 / 3
    return pue.pue(machines_w, 0.0) * machines_w + CRITICAL_W


@pytest.mark.parametrize("pue", OVERHEADS.values(), ids=OVERHEADS)
@pytest.mark.parametrize("forecast", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_what_fits_exactly_under_a_cap_of_the_site_starts(
    pue, forecast, given, simulate, job_columns
):
    # Power for 6 processors: 4 and 2 run beside each other, and one of 6 alone; one of 7 never.
    most = drawn_w(pue, 6)
    site = supplied(pue, math.inf if given else most, forecast=forecast)
    policy = PowerCap(most if given else None).compose(FCFS())
    columns = job_columns([(0, 10, 4, 10), (0, 10, 2, 10), (0, 5, 6, 5)])
    assert simulate(policy, columns, 10, site=site).starts == [0, 0, 10]
    alone = simulate(policy, job_columns([(0, 10, 7, 10)]), 10, site=site)
    assert alone["jobs"]["status"].to_list() == ["waiting"]


@given(JOBS, st.integers(6, 9), st.sampled_from(sorted(OVERHEADS)))
def test_a_cap_of_the_site_acts_like_fewer_processors(simulate, job_columns, jobs, carried, name):
    pue, columns = OVERHEADS[name], job_columns(jobs)
    site = supplied(pue, drawn_w(pue, carried))
    capped = simulate(PowerCap().compose(FCFS()), columns, 10, site=site)
    assert capped.starts == simulate(OrderedPolicy(FCFS(), Easy()), columns, carried).starts
