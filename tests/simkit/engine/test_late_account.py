"""Where power limits nothing, the account is kept late; it says what one kept at once would.

A policy that declares the signals it reads is called only when those change. The same policy
without a declaration is called at every change, and the account is then kept at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from engine_runs import rigid, simulate
from polars.testing import assert_frame_equal

from simkit.errors import PolicyError, ScenarioError
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy.declared import NO_SIGNALS
from simkit.policy.ordered import OrderedPolicy
from simkit.power import system as late_account
from simkit.power.controller import SetPoints, SourceOrder
from simkit.power.facts import BatteryFacts, Supply
from simkit.power.ledger import RATES, STORED, Flows
from simkit.power.machine_model import ConstantPue, CurvedPue, PowerModel
from simkit.power.signal import CARBON, PRICE, Steps
from simkit.power.signal_patterns import Schedule
from simkit.power.site import Grid, Site, Source
from simkit.workload.cluster import Cluster, Failures

POOL = PowerModel.linear(100.0, 1000.0, "processors")
HOUR_S = 3600.0


class Undeclared(OrderedPolicy):
    """Called at every change of a signal."""


class Reads(OrderedPolicy):
    """Notes when it is called."""

    def __init__(self, *signals):
        super().__init__(FCFS(), Easy())
        self.reads, self.called = frozenset(signals), []

    @property
    def signals(self):
        return self.reads

    def schedule(self, state):
        self.called.append(state.now)
        return super().schedule(state)


@dataclass(frozen=True)
class HalfFromGrid:
    """A controller of the user's own."""

    levels: tuple[float, ...] = ()

    def settle(self, state):
        bought = min(state.load_w / 2, state.grid.import_limit_w)
        used = min(state.load_w - bought, state.generation_w)
        short = state.load_w - bought - used
        return SetPoints(0.0, bought, state.generation_w - used, short)


def steps(seed: int, low: float, high: float, every: float = 700.0, **facts) -> Steps:
    rng = np.random.default_rng(seed)
    values = rng.choice(np.linspace(low, high, 5), 60)
    return Steps(np.arange(60) * every, values, 60 * every, past_end="wrap", **facts)


def sources() -> tuple[Source, ...]:
    sun = Source("sun", steps(1, 0.0, 900.0), 0.02, 41.0)
    return sun, Source("wind", steps(2, 0.0, 500.0, 333.3), 0.01, 11.0)


GRID = Grid(
    steps(5, 100.0, 700.0, 911.0), 150.0, steps(3, -0.1, 0.3, unit=PRICE), 0.05,
    steps(4, 50.0, 600.0, unit=CARBON),
)  # fmt: skip
TARIFF = Grid(
    price_per_kwh=Schedule({0.0: 0.1, 6 * HOUR_S: 0.3, 20 * HOUR_S: 0.1}, unit=PRICE),
    carbon_gco2_per_kwh=400.0,
)
BATTERY = BatteryFacts(
    capacity_kwh=1e6 / 3.6e6,
    charge_c_rate=0.5,
    discharge_c_rate=0.7,
    charge_efficiency=0.9,
    discharge_efficiency=0.95,
    self_discharge_per_day=0.05,
)
WEATHER = CurvedPue(
    1000.0, {0.0: 1.8, 1.0: 1.2}, steps(6, -5.0, 35.0, 1234.5), {10.0: 0, 30.0: 0.2}
)
SITES = {
    "sources and grid": {"sources": sources(), "grid": GRID},
    "a tariff": {"grid": TARIFF, "pue": ConstantPue(1.3)},
    "nothing changes": {"grid": Grid()},
    "no grid": {"sources": sources()},
    "weather": {"sources": sources(), "grid": GRID, "pue": WEATHER},
    "critical load": {"grid": GRID, "critical_w": steps(7, 0.0, 90.0, 50.0)},
    "a battery": {"sources": sources(), "grid": GRID, "battery": BATTERY},
    "a battery and a cheap grid": {
        "grid": TARIFF, "battery": BATTERY,
        "controller": SourceOrder(charge_below_price=0.1, reserve=0.3, charge_to=0.9),
    },
    "a controller": {"sources": sources(), "grid": GRID, "controller": HalfFromGrid()},
}  # fmt: skip


@pytest.fixture
def jobs():
    rng = np.random.default_rng(8)
    submit, run = np.sort(rng.uniform(0, 2e5, 120)), rng.uniform(60, 9000, 120)
    return rigid(*zip(submit.tolist(), run.tolist(), rng.integers(1, 8, 120).tolist(), strict=True))


@pytest.mark.parametrize("facts", SITES.values(), ids=SITES)
@pytest.mark.parametrize("notes", [3, late_account.MOST_NOTES])
def test_the_account_is_the_one_kept_at_once(jobs, monkeypatch, facts, notes):
    monkeypatch.setattr("simkit.engine.power_supply.MOST_NOTES", notes)
    late, at_once = (
        simulate(policy(FCFS(), Easy()), jobs, 10, site=Site((POOL,), **facts))
        for policy in (OrderedPolicy, Undeclared)
    )
    assert late.rows("jobs", "job_id start_time_s") == at_once.rows("jobs", "job_id start_time_s")
    same_account(late["power"], at_once["power"])


def same_account(late: pl.DataFrame, at_once: pl.DataFrame) -> None:
    """Compare what flows and what is stored.

    An account kept at once may begin a new row although the same goes on flowing, as at the time
    at which the battery would have been empty, had nothing changed.
    """
    assert set(late["end_s"]) <= set(at_once["end_s"])
    flows = ["start_s", *Flows._fields]
    here = at_once.select("start_s").join_asof(late.select(flows), on="start_s")
    assert_frame_equal(here, at_once.select(flows), rel_tol=1e-12, abs_tol=1e-9)
    ends = late.select("end_s").join(at_once, on="end_s", maintain_order="left")
    assert_frame_equal(late.select(STORED), ends.select(STORED), rel_tol=1e-9, abs_tol=1e-6)
    same_totals(late, at_once, 1e-12)


def same_totals(late: pl.DataFrame, at_once: pl.DataFrame, error: float) -> None:
    for rate in RATES:
        energy = pl.col(rate) * (pl.col("end_s") - pl.col("start_s"))
        totals = [table.select(energy.sum()).item() for table in (late, at_once)]
        assert totals[0] == pytest.approx(totals[1], rel=error, abs=1e-9)


def test_the_account_follows_machines_that_fail_and_boot(jobs):
    model = PowerModel.linear(10.0, 100.0, "processors", off_w=1.0, boot=120.0, boot_w=50.0)
    names = tuple(f"m{row}" for row in range(10))
    cluster = Cluster(
        ("processors",), names, np.ones((10, 1)), failures=Failures(mtbf=3e4, mttr=2e3)
    )
    late, at_once = (
        simulate(policy(FCFS(), Easy()), jobs, cluster, site=Site((model,) * 10, grid=TARIFF))
        for policy in (OrderedPolicy, Undeclared)
    )
    assert_frame_equal(late["events"], at_once["events"])
    assert_frame_equal(late["power"], at_once["power"], rel_tol=1e-12, abs_tol=1e-9)


def test_decisions_follow_the_signals_that_are_declared():
    price = Steps([0, 30, 60], [1.0, 2.0, 3.0], 90, unit=PRICE, past_end="hold")
    sun = Source("sun", Steps([0, 40], [5.0, 6.0], 80, past_end="hold"))
    site = Site((POOL,), (sun,), Grid(price_per_kwh=price))
    jobs = rigid((0, 100, 6), (10, 10, 6), (20, 100, 8))
    called = {}
    for signals in ((), ("price",), ("generation",), ("price", "available"), ("carbon",)):
        policy = Reads(*signals)
        run = simulate(policy, jobs, 10, site=site)
        assert run["timeline"]["time_s"].to_list() == policy.called
        called[signals] = policy.called
    usual = [0, 10, 20, 100, 110, 210]
    assert called == {
        (): usual,
        ("price",): sorted([*usual, 30, 60]),
        ("generation",): sorted([*usual, 40]),
        ("price", "available"): sorted([*usual, 30, 40, 60]),
        ("carbon",): usual,  # it never changes
    }


def test_with_a_limit_decisions_follow_what_is_available_too():
    price = Steps([0, 30, 60], [1.0, 2.0, 3.0], 90, unit=PRICE, past_end="hold")
    sun = Source("sun", Steps([0, 40], [1000.0, 990.0], 80, past_end="hold"))
    site = Site((POOL,), (sun,), Grid(0.0, 0.0, price), supply=Supply(limit="power"))
    jobs = rigid((0, 100, 6), (10, 10, 6))
    for signals, at in (((), [40]), (("price",), [30, 40, 60])):
        policy = Reads(*signals)
        simulate(policy, jobs, 10, site=site)
        assert [time for time in policy.called if 10 < time < 100] == at


def test_what_is_read_is_true_at_that_instant(jobs):
    """Also what has not been declared: the account catches up when the battery is looked at."""
    seen = {}

    class Looks:
        def schedule(self, state):
            power = state.power
            row = (power.price_per_kwh, power.generation_w, power.load_w, power.soc)
            seen[type(self)].setdefault(state.now, (*row, power.available_w))
            return super().schedule(state)

    class Late(Looks, Reads):
        pass

    class AtOnce(Looks, Undeclared):
        pass

    facts = SITES["a battery"]
    for policy in (Late(), AtOnce(FCFS(), Easy())):
        seen[type(policy)] = {}
        simulate(policy, jobs, 10, site=Site((POOL,), **facts))
    late, at_once = seen[Late], seen[AtOnce]
    assert len(late) < len(at_once)
    for time_s, row in late.items():
        assert row == pytest.approx(at_once[time_s], rel=1e-12), time_s


def test_a_signal_below_zero_is_refused(jobs):
    sun = Steps([0, 1000], [5.0, -6.0], 2000, past_end="hold")
    with pytest.raises(ScenarioError, match=r"source 'sun' gives -6 W at 1000 s"):
        simulate(OrderedPolicy(FCFS()), jobs, 10, site=Site((POOL,), (Source("sun", sun),)))


def test_an_unknown_signal_is_refused(jobs):
    with pytest.raises(PolicyError, match=r"signals has 'wind'; they are generation, available"):
        simulate(Reads("wind"), jobs, 10, site=Site((POOL,)))


@pytest.mark.parametrize(
    ("policy", "signals"),
    [
        (OrderedPolicy(FCFS(), Easy()), NO_SIGNALS),
        (OrderedPolicy(FCFS(), object()), None),  # a rule that does not say
        (Undeclared(FCFS(), Easy()), None),  # nor does a subclass
    ],
)
def test_a_policy_reads_what_its_parts_read(policy, signals):
    assert policy.signals == signals


def test_memory_stays_flat(monkeypatch):
    """Second by second for a week, with one load: the account is cut into batches."""
    week_s, most = 7 * 86_400, 0
    rng = np.random.default_rng(1)
    sun = Steps(np.arange(week_s), rng.uniform(0, 500, week_s), week_s, past_end="wrap")

    class Watched(late_account.LateAccount):
        def _at(self, times, notes):
            nonlocal most
            most = max(most, len(times))
            return super()._at(times, notes)

    monkeypatch.setattr("simkit.engine.power_supply.LateAccount", Watched)
    jobs = rigid((0, week_s, 5))
    run = simulate(OrderedPolicy(FCFS()), jobs, 10, site=Site((POOL,), (Source("sun", sun),)))
    assert run["power"].height == week_s
    assert most <= 86_401
    span = pl.col("end_s") - pl.col("start_s")
    made_j = run["power"].select((pl.col("generation_w") * span).sum()).item()
    assert math.isclose(made_j, sun.integral(0, week_s), rel_tol=1e-12)


def test_the_account_of_a_battery_that_tapers_differs_by_ticks(jobs):
    """Its set-points follow its content, so a last digit moves its next event by a tick."""
    battery = BatteryFacts(
        capacity_kwh=1e6 / 3.6e6,
        charge_c_rate=0.5,
        discharge_c_rate=0.7,
        charge_slope_h=0.2,
        discharge_slope_h=0.1,
        model="clc",
    )
    site = Site((POOL,), sources(), GRID, battery)
    late, at_once = (
        simulate(policy(FCFS(), Easy()), jobs, 10, site=site)
        for policy in (OrderedPolicy, Undeclared)
    )
    same_totals(late["power"], at_once["power"], 1e-9)
