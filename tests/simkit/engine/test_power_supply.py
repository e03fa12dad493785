"""Power in a run: what it carries may run, what it no longer carries is stopped, all is accounted.

The pool has 10 processors of 100 W each when busy and 10 W each when idle; what is off draws
nothing. So 1000 W carry all of it, 500 W carry five.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from energy_meter import MeteredBattery, imbalance
from engine_runs import greedy, rigid, simulate

from simkit.errors import PolicyError
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policies.ready_pool import ReadyPoolPolicy
from simkit.policy import Kill, Place, SwitchOff, SwitchOn
from simkit.policy.ordered import OrderedPolicy
from simkit.power.controller import SourceOrder
from simkit.power.facts import BatteryFacts, Checkpoints, Supply
from simkit.power.forecast import NoisyForecast, PerfectForecast, Persistence
from simkit.power.machine_model import ConstantPue, PowerModel
from simkit.power.signal import Steps
from simkit.power.site import Foresight, Grid, Site, Source
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import Cluster, Maintenance

pytestmark = pytest.mark.long

POOL = PowerModel.linear(100.0, 1000.0, "processors")
MACHINE = PowerModel.linear(10.0, 100.0, "processors")
PIECES = "job_id start_time_s end_time_s outcome"


def sun(*watts: float, every: float = 100.0) -> Steps:
    """Return power that changes every so often, again and again."""
    starts = [i * every for i in range(len(watts))]
    return Steps(starts, watts, len(watts) * every, past_end="wrap")


def site(signal: Steps, *, models=(POOL,), **facts) -> Site:
    facts.setdefault("supply", Supply(limit="power"))
    return Site(models, (Source("sun", signal),), **facts)


def battery(capacity_j: float, c_rate: float, **facts) -> BatteryFacts:
    """Return a battery that charges and discharges at one rate (1/h)."""
    rates = {"charge_c_rate": c_rate, "discharge_c_rate": c_rate}
    return BatteryFacts(capacity_kwh=capacity_j / 3.6e6, **rates, **facts)


def checkpointed(every: float, restart: float) -> Supply:
    """Return the rule that tasks are stopped and go on from their last checkpoint."""
    checkpoints = Checkpoints(every=every, restart=restart)
    return Supply(limit="power", running="checkpoint", checkpoints=checkpoints)


def random_jobs(rng, number: int, latest: int, run: tuple[int, int], size: tuple[int, int]):
    """Return jobs with submissions up to the latest, and run times and sizes of these ranges."""
    columns = (np.sort(rng.integers(0, latest, number)).astype(float),
               rng.integers(*run, number).astype(float), rng.integers(*size, number))  # fmt: skip
    return rigid(*zip(*(column.tolist() for column in columns), strict=True))


def machines(number: int, processors: float = 1.0) -> Cluster:
    names = tuple(f"m{i}" for i in range(number))
    return Cluster(("processors",), names, np.full((number, 1), processors))


@pytest.fixture
def fcfs() -> OrderedPolicy:
    return OrderedPolicy(FCFS())


# ---- what happens to running tasks -----------------------------------------------------------

JOBS = ((0, 150, 6), (10, 50, 4), (20, 100, 3))
"""At 100 s jobs 0 and 2 hold nine processors, and power carries five until 200 s."""


@pytest.mark.parametrize(
    ("supply", "pieces"),
    [
        # the youngest goes first; job 2 fits again at once, job 0 when the sun is back
        (
            Supply(limit="power", running="suspend"),
            [(1, 10, 60, "finished"), (2, 60, 100, "suspended"), (0, 0, 100, "suspended"),
             (2, 100, 160, "finished"), (0, 200, 250, "finished")],
        ),
        # both lose what they have done; job 0 is the queue's head again, and job 2 waits behind it
        (
            Supply(limit="power", running="requeue"),
            [(1, 10, 60, "finished"), (2, 60, 100, "lost"), (0, 0, 100, "lost"),
             (2, 200, 300, "finished"), (0, 200, 350, "finished")],
        ),
        # nothing is stopped
        (
            Supply(limit="power", running="drain"),
            [(1, 10, 60, "finished"), (0, 0, 150, "finished"), (2, 60, 160, "finished")],
        ),
        # job 2 goes on from 30 s of its 40 s, job 0 from 90 s of 100 s; both owe 5 s of restart
        (
            checkpointed(30.0, 5.0),
            [(1, 10, 60, "finished"), (2, 60, 100, "suspended"), (0, 0, 100, "suspended"),
             (2, 100, 175, "finished"), (0, 200, 265, "finished")],
        ),
    ],
    ids=lambda value: value.running if isinstance(value, Supply) else "",
)  # fmt: skip
def test_tasks_are_stopped_as_set_when_power_falls(fcfs, supply, pieces):
    signal = sun(1000, 500, 1000, 1000)
    run = simulate(fcfs, rigid(*JOBS), 10, site=site(signal, supply=supply))
    assert run.rows("allocations", PIECES) == pieces


def test_an_interrupted_restart_loses_no_checkpoint(fcfs):
    supply = checkpointed(100.0, 20.0)
    signal = Steps([0, 250, 300, 310, 400], [1000, 0, 1000, 0, 1000], 10_000, past_end="hold")
    run = simulate(fcfs, rigid((0, 500, 10)), 10, site=site(signal, supply=supply))
    # 200 of 250 s are saved; the restart at 300 s gets 10 of its 20 s; the next one all
    assert run.rows("jobs", "end_time_s lost_time_s") == [(720, 50 + 10 + 20)]


def test_without_a_checkpoint_there_is_nothing_to_restart_from(fcfs):
    supply = checkpointed(100.0, 20.0)
    signal = Steps([0, 90, 200, 350, 400], [1000, 0, 1000, 0, 1000], 10_000, past_end="hold")
    run = simulate(fcfs, rigid((0, 300, 10)), 10, site=site(signal, supply=supply))
    # 90 s are lost and nothing is loaded; 100 of the 150 s from 200 s on are saved, and from 400 s
    # on 20 s of restart and the other 200 s are left
    assert run.rows("jobs", "end_time_s lost_time_s") == [(620, 90 + 50 + 20)]


def test_what_drains_is_served_as_far_as_power_goes(fcfs):
    supply = Supply(limit="power", running="drain")
    run = simulate(fcfs, rigid(*JOBS), 10, site=site(sun(1000, 500), supply=supply))
    totals = run.simulation.power.energy.ledger.totals()
    # From 100 s on nine processors drain: 9 x 100 W for 50 s, then 3 x 100 W + 2 x 10 W for 10 s.
    assert totals["unserved_j"] == pytest.approx(400 * 50)


def test_a_policy_names_the_victims(fcfs):
    class OldestFirst(OrderedPolicy):
        def victims(self, state):
            return sorted(state.running, key=lambda allocation: allocation.rank)

    run = simulate(OldestFirst(FCFS()), rigid(*JOBS), 10, site=site(sun(1000, 500)))
    # Job 0 alone frees enough: job 2 runs on.
    assert run.rows("allocations", PIECES) == [
        (1, 10, 60, "finished"), (0, 0, 100, "suspended"), (2, 60, 160, "finished"),
        (0, 200, 250, "finished"),
    ]  # fmt: skip


def test_the_least_valuable_goes_first(fcfs):
    def schedule(state):
        for task in state.queue:
            task.value_per_s = 1.0 if task.index == 0 else 100.0
            if on := state.fit(task):
                yield Place(task, on)
        for allocation in state.suspended:  # or the run waits a year for somebody to resume it
            yield Kill(allocation.task)

    run = simulate(schedule, rigid((0, 150, 5), (1, 150, 5)), 10, site=site(sun(1000, 500)))
    assert run.rows("allocations", PIECES)[0] == (0, 0, 100, "suspended")


# ---- how much it carries ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "processors"),
    [
        ({}, 7),  # 799 W carry seven of 100 W each
        ({"critical_w": 100.0}, 6),  # 699 W are left
        ({"pue": ConstantPue(1.25)}, 6),  # 639 W reach the machines
        ({"grid": Grid(150.0)}, 9),  # 949 W
        ({"supply": Supply(limit="resources", peak_w=1598.0)}, 5),  # half of the peak
        ({"supply": Supply(limit="resources")}, 7),  # 79.9 % of what all draw when busy
        ({"supply": Supply()}, 10),  # no limit
        # 3.6e5 J can be held for 300 s as 1200 W: all run
        (
            {"battery": battery(3.6e5, 100, initial_soc=1.0)},
            10,
        ),
        # a discharge rate of 2/h allows 200 W
        (
            {"battery": battery(3.6e5, 2, initial_soc=1.0)},
            9,
        ),
    ],
)
def test_how_much_power_carries(facts, processors):
    facts.setdefault("supply", Supply(limit="power", hold=300.0))
    jobs = rigid(*[(1, 10, 1)] * 10)
    run = simulate(greedy, jobs, 10, site=site(sun(799), **facts))
    assert sum(start == 1 for start in run.starts().values()) == processors


def test_a_battery_bridges_until_it_is_empty(fcfs):
    # From 100 s on 500 W are short: 50 kJ last until 200 s.
    store = battery(50e3, 100, initial_soc=1.0)
    facts = {"battery": store, "supply": Supply(limit="power", hold=1.0)}
    run = simulate(fcfs, rigid((0, 400, 10)), 10, site=site(sun(1000, 500, 500, 500), **facts))
    assert run.rows("allocations", PIECES)[0] == (0, 0, 200, "suspended")


@pytest.mark.parametrize("running", ["suspend", "requeue"])
@pytest.mark.parametrize("longest_day", [900, 1000])  # never enough; enough, but too short
def test_what_does_not_end_within_a_year_never_will(fcfs, running, longest_day):
    supply = Supply(limit="power", running=running)
    signal = sun(0, longest_day, every=43200)
    run = simulate(fcfs, rigid((0, 50000, 10)), 10, site=site(signal, supply=supply))
    ends = longest_day == 1000 and running == "suspend"
    assert run.rows("jobs", "job_id status") == [(0, "finished" if ends else "waiting")]
    assert run.simulation.now <= 367 * 86400


# ---- machines ---------------------------------------------------------------------------------


def test_machines_go_off_and_boot(fcfs):
    model = PowerModel.linear(10.0, 100.0, "processors", off_w=1.0, boot=20.0, boot_w=50.0)
    run = simulate(
        fcfs, rigid((0, 300, 1), (210, 10, 2)), machines(2),
        site=site(sun(200, 101), models=(model,) * 2),
    )  # fmt: skip
    # At 100 s the empty machine goes off, at 200 s it boots, and job 1 must wait for job 0's.
    off, boots, on = '{"state": "off"}', '{"state": "booting"}', '{"state": "on"}'
    events = [(t, d) for t, k, d in run.rows("events", "time_s kind detail") if k == "switched"]
    assert events == [(100, off), (200, boots), (220, on), (300, off), (400, boots), (420, on)]
    capacity = [(t, m) for t, k, m in run.rows("events", "time_s kind machine_id")
                if k == "capacity"]  # fmt: skip
    assert capacity == [(100, 1), (220, 1), (300, 1), (420, 1)]
    # both idle; one off; one boots; both idle; one off; one boots; both idle until job 1 has ended
    standing = 20 * 100 + 11 * 100 + 60 * 20 + 20 * 80 + 11 * 100 + 60 * 20 + 20 * 10
    assert run.simulation.power.energy.ledger.totals()["standing_j"] == pytest.approx(standing)


def test_a_policy_switches_machines():
    model = PowerModel.linear(10.0, 100.0, "processors", boot=5.0)

    def schedule(state):
        if state.now == 0:
            yield SwitchOff(1)
        if state.now == 50:
            yield SwitchOn(1)
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)

    run = simulate(
        schedule, rigid((0, 10, 1), (50, 10, 2)), machines(2),
        site=site(sun(200), models=(model,) * 2, supply=Supply()),
    )  # fmt: skip
    assert run.starts() == {0: 0, 1: 55}
    totals = run.simulation.power.energy.ledger.totals()
    assert totals["standing_j"] == pytest.approx(10 * 50 + 20 * 15)


@pytest.mark.parametrize(
    ("machine", "site_", "words"),
    [
        (5, site(sun(200), models=(MACHINE,) * 2, supply=Supply()), "no machine 5"),
        (0, site(sun(200), models=(MACHINE,) * 2, supply=Supply()), "runs tasks"),
        (0, None, "power"),  # without power there is nothing to switch
    ],
)
def test_wrong_switches_are_refused(machine, site_, words):
    def schedule(state):
        yield from greedy(state)
        yield SwitchOff(machine)

    with pytest.raises(PolicyError, match=words):
        simulate(schedule, rigid((0, 10, 2)), machines(2), site=site_)


# ---- what is foreseen -------------------------------------------------------------------------


def foresight(signal: Steps, kind=PerfectForecast, horizon: float = 400.0) -> Foresight:
    return Foresight(horizon, 100.0, kind(signal))


def test_a_perfect_forecast_lets_nobody_start_who_would_be_stopped(fcfs):
    signal = sun(1000, 500, 500, 1000, 1000, 1000)
    run = simulate(fcfs, rigid((0, 250, 10)), 10, site=site(signal, foresight=foresight(signal)))
    assert run.rows("allocations", PIECES) == [(0, 300, 550, "finished")]


def test_easy_plans_with_the_power_to_come():
    signal = sun(1000, 500, 1000, 1000)
    jobs = rigid((0, 90, 5), (1, 120, 10), (2, 150, 5), (3, 80, 5))
    blind = simulate(OrderedPolicy(FCFS(), Easy()), jobs, 10, site=site(signal))
    seeing = simulate(
        OrderedPolicy(FCFS(), Easy()), jobs, 10, site=site(signal, foresight=foresight(signal))
    )
    # Whoever sees only now takes 90 s for the head's shadow time, so that job 2 may not go before
    # it; with the power to come the head cannot start before 200 s, and job 2 is done by then.
    assert blind.starts()[2] > 90
    assert seeing.starts() == {0: 0, 1: 200, 2: 2, 3: 320}


@pytest.mark.parametrize(
    ("kind", "reach"),
    [
        (Persistence, 0.0),  # knows the present alone
        (PerfectForecast, 400.0),  # knows the truth up to its horizon
        (lambda truth: NoisyForecast(truth, 1), 400.0),  # errs about the truth up to there
    ],
    ids=["persistence", "perfect", "noisy"],
)
@pytest.mark.parametrize(
    "make_policy",
    [lambda: OrderedPolicy(FCFS(), Easy()), lambda: ReadyPoolPolicy(FCFS(), 400.0)],
    ids=["easy", "ready-pool"],
)
def test_what_lies_beyond_a_forecast_changes_no_decision_before(kind, reach, make_policy):
    rng = np.random.default_rng(7)
    watts = rng.integers(2, 11, 60) * 100.0
    jobs = random_jobs(rng, 60, 3000, (10, 300), (1, 6))
    perturbed_at = 2000.0
    other = watts.copy()
    other[int(perturbed_at // 100) :] = rng.permutation(other[int(perturbed_at // 100) :])
    starts = []
    for truth in (watts, other):
        signal = sun(*truth)
        policy = make_policy()
        run = simulate(policy, jobs, 10, site=site(signal, foresight=foresight(signal, kind)))
        rows = run.rows("allocations", "job_id start_time_s", by="start_time_s")
        starts.append([row for row in rows if row[1] < perturbed_at - reach])
    assert len(starts[0]) > 10
    assert starts[0] != rows  # something is perturbed that lies later
    assert starts[0] == starts[1]
    assert not np.array_equal(watts, other)


# ---- the account -------------------------------------------------------------------------------


def test_the_ledger_closes_whatever_happens(monkeypatch):
    monkeypatch.setattr("simkit.power.system.Battery", MeteredBattery)
    rng = np.random.default_rng(3)
    signal = sun(*rng.integers(0, 12, 50) * 100.0, every=37.0)
    jobs = random_jobs(rng, 200, 5000, (1, 300), (1, 10))
    battery = BatteryFacts(
        capacity_kwh=2e5 / 3.6e6,
        charge_c_rate=3,
        discharge_c_rate=2,
        charge_efficiency=0.9,
        discharge_efficiency=0.95,
        self_discharge_per_day=0.05,
    )
    run = simulate(
        OrderedPolicy(FCFS(), Easy()), jobs, 10,
        site=site(signal, battery=battery, critical_w=33.3, pue=ConstantPue(1.17)),
    )  # fmt: skip
    energy = run.simulation.power.energy
    totals = energy.ledger.totals()
    assert imbalance(totals) <= 1e-12
    assert totals["charge_j"] == pytest.approx(energy.battery.charged_j, rel=1e-12)
    assert totals["discharge_j"] == pytest.approx(energy.battery.discharged_j, rel=1e-12)
    held = run["allocations"].select(
        ((run["allocations"]["end_time_s"] - run["allocations"]["start_time_s"])
         * run["allocations"]["count"]).sum()
    ).item()  # fmt: skip
    assert totals["machines_j"] - totals["standing_j"] == pytest.approx(90.0 * held, rel=1e-12)


# ---- together with other outages -----------------------------------------------------------


def test_power_and_maintenance_take_the_lesser_not_both():
    window = Maintenance(0.0, 50.0, 0, (5.0,))
    pool = Cluster(("processors",), ("pool",), np.array([[10.0]]), maintenance=(window,))
    run = simulate(greedy, rigid(*[(1, 10, 1)] * 10), pool, site=site(sun(500)))
    assert sum(start == 1 for start in run.starts().values()) == 5


def test_a_plan_of_both_never_counts_on_more_than_there_is():
    window = Maintenance(150.0, 250.0, 0, (6.0,))
    pool = Cluster(("processors",), ("pool",), np.array([[10.0]]), maintenance=(window,))
    signal = sun(1000, 500, 1000, 1000)
    seen = []

    def schedule(state):
        if state.now == 0:
            profile = state.profile()
            seen.extend(profile.total_free(time)[0] for time in (0, 100, 150, 200, 250, 300))
        return [Kill(task) for task in state.queue]  # or the run waits a year for it to start

    simulate(schedule, rigid((0, 1, 1)), pool, site=site(signal, foresight=foresight(signal)))
    assert seen == [10, 5, 4, 4, 10, 10]


def test_what_gives_nothing_needs_no_power(fcfs):
    window = Maintenance(5.0, 500.0, 0, (1.0,))
    cluster = Cluster(("processors",), ("a", "b"), np.array([[1.0], [1.0]]), maintenance=(window,))
    run = simulate(fcfs, rigid((10, 10, 1)), cluster, site=site(sun(100), models=(MACHINE,) * 2))
    assert run.starts() == {0: 10}


def test_what_joins_needs_power():
    changes = (
        CapacityChange(20.0, 1, "leave", "trace"), CapacityChange(30.0, 1, "join", "trace"),
    )  # fmt: skip
    cluster = Cluster(("processors",), ("a", "b"), np.array([[1.0], [1.0]]), changes=changes)
    run = simulate(
        greedy, rigid((0, 50, 1), (40, 50, 1)), cluster, site=site(sun(100), models=(MACHINE,) * 2)
    )
    assert run.starts() == {0: 0, 1: 50}  # power carries one of the two


# ---- booting is foreseen -----------------------------------------------------------------------


@pytest.mark.parametrize("of_machines", [False, True])
def test_easy_keeps_its_promise_to_the_head_where_processors_boot(of_machines):
    signal = Steps([0, 1000], [100, 200], 1e6, past_end="hold")
    model = PowerModel.linear(10.0, 100.0, "processors", boot=50.0)
    pool_model = PowerModel.linear(20.0, 200.0, "processors", boot=50.0)
    jobs = rigid((0, 20, 1), (1, 50, 2), (2, 1000, 1))
    run = simulate(
        OrderedPolicy(FCFS(), Easy()), jobs, machines(2) if of_machines else 2,
        site=site(
            signal, models=(model,) * 2 if of_machines else (pool_model,),
            foresight=Foresight(2000.0, 100.0, PerfectForecast(signal)),
        ),
    )  # fmt: skip
    assert run.starts() == {0: 0, 1: 1050, 2: 20}


# ---- bags ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "pieces"),
    [
        ("suspend", [(5, 0, 100, "suspended"), (5, 0, 150, "finished"), (5, 150, 200, "finished")]),
        ("requeue", [(5, 0, 100, "lost"), (5, 0, 150, "finished"), (5, 150, 300, "finished")]),
    ],
)
def test_of_a_bag_no_more_is_stopped_than_is_short(running, pieces):
    bag = rigid((0, 150, 10)).with_columns(gang=np.array([False]))
    policy = OrderedPolicy(FCFS())
    supply = Supply(limit="power", running=running)
    signal = Steps([0, 100], [1000, 500], 1e5, past_end="hold")
    run = simulate(policy, bag, 10, site=site(signal, supply=supply))
    assert run.rows("allocations", "count start_time_s end_time_s outcome") == pieces


def test_a_level_that_leaks_away_does_not_stop_time(fcfs, monkeypatch):
    monkeypatch.setattr("simkit.power.system.Battery", MeteredBattery)
    store = battery(1e6, 1, initial_soc=0.7, self_discharge_per_day=0.02)
    run = simulate(
        fcfs, rigid((0, 86400, 1)), 10,
        site=site(
            sun(0), battery=store, grid=Grid(math.inf, 0.0, 0.1),
            controller=SourceOrder(charge_below_price=0.2, charge_to=0.8), supply=Supply(),
        ),
    )  # fmt: skip
    energy = run.simulation.power.energy
    assert energy.battery.soc == pytest.approx(0.8, abs=0.02)
    assert energy.battery.charged_j > 1e6 * (0.1 + 0.8 * 0.015)
