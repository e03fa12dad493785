"""Rewards: their sums are those of the run's tables, whenever they are asked for."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from engine_runs import a_bag, a_gang, begin, greedy, make_jobs, rigid

from simkit.agent.reward import WeightedRewards
from simkit.agent.rewards import REWARDS, make_reward
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import PluginError, ScenarioError
from simkit.gym.episodes import Episode, Episodes, Nowhere
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy import Kill, Place, Resume, Suspend
from simkit.policy.ordered import OrderedPolicy
from simkit.rules import AdmissionRule, Rules
from simkit.scenario import Scenario
from simkit.scenario.value import deadlines, with_values
from simkit.workload.cluster import Cluster, Failures, Maintenance

OF_VALUE = ("value", "value-at-decision", "value-on-completion", "qos-violations")
"""Rewards that need jobs of value and quality."""
OF_ENERGY = ("energy-cost", "carbon")
PLAIN = [name for name in REWARDS if name not in (*OF_VALUE, *OF_ENERGY)]


class Several(WeightedRewards):
    """All rewards at once, each with its own sum and what it was at every decision."""

    def __init__(self, names: list[str]) -> None:
        self.all = {name: make_reward(name) for name in names}
        super().__init__([(1.0, reward) for reward in self.all.values()])
        self.earned: dict[str, list[float]] = {name: [] for name in names}

    def look(self, now: float) -> None:
        for name, reward in self.all.items():
            self.earned[name].append(reward.collect(now))

    @property
    def totals(self) -> dict[str, float]:
        return {name: sum(earned) for name, earned in self.earned.items()}


def play(begin, schedule, load, cluster=4, names=(), **facts):
    """Run a function, or a policy, and collect at every decision and at the end."""
    reward = Several(list(names or PLAIN))
    run = begin(load, cluster, observer=reward, **facts)
    simulation = run.simulation
    reward.begin(load, simulation.info)
    if hasattr(schedule, "reset"):
        schedule.reset(simulation.info, np.random.default_rng(0))
        schedule = schedule.schedule
    for state in simulation.decisions():
        reward.look(state.now)
        for action in schedule(state):
            simulation.apply(action)
    reward.look(simulation.now)
    return run, reward


def totals_of(run, capacity) -> dict[str, float]:
    """Work the sums out from the run's tables; what has not ended lasts until the last instant."""
    now = run.simulation.now
    jobs = run["jobs"].filter(pl.col("status") != "rejected")
    submit = jobs["submit_time_s"].to_numpy()
    end = jobs["end_time_s"].fill_null(now).to_numpy()
    run_time = jobs["trace_run_time_s"].to_numpy()
    slowdowns, bounded = ((end - submit) / np.maximum(run_time, least) for least in (1.0, 10.0))
    ended = jobs["end_time_s"].is_not_null().to_numpy()
    start = jobs["start_time_s"].fill_null(pl.Series(end)).to_numpy()
    found = {
        "slowdown": -slowdowns.sum(),
        "bounded-slowdown": -np.where(ended, np.maximum(bounded, 1.0), bounded).sum(),
        "wait": -(start - submit).sum(),
        "completion-time": -(end - submit).sum(),
        "makespan": -covered(submit, end),
        "utilisation": used(run, capacity, now),
    }
    if "value" in jobs.columns:
        due = jobs["deadline_s"].fill_null(np.inf).to_numpy()
        if "qos" in jobs.columns:
            kept = submit + run_time / jobs["qos"].to_numpy()
            found["qos-violations"] = -np.maximum(end - kept, 0.0).sum()
            due = np.minimum(due, kept)
        value, finished = jobs["value"].to_numpy(), (jobs["status"] == "finished").to_numpy()
        found["value"] = value[finished & (end <= due)].sum()
        found["value-on-completion"] = value[finished].sum()
        placed = run["events"].filter(pl.col("kind") == "reserved")["job_id"].implode()
        begun = jobs["start_time_s"].is_not_null() | jobs["job_id"].is_in(placed)
        found["value-at-decision"] = value[begun.to_numpy()].sum()
    return found


def covered(begin, end) -> float:
    """Return the length of the union of intervals."""
    total, until = 0.0, -np.inf
    for a, b in sorted(zip(begin, end, strict=True)):
        total += max(b - max(a, until), 0.0)
        until = max(until, b)
    return total


def used(run, capacity, now) -> float:
    """Return the sum over allocations of time * mean share held."""
    requests = run["tasks"].select("task_id", *capacity)
    pieces = run["allocations"].join(requests, on="task_id")
    lasted = pieces["end_time_s"].fill_null(now) - pieces["start_time_s"]
    each = [(lasted * pieces["count"] * pieces[r] / c).sum() for r, c in capacity.items()]
    return float(np.mean(each))


def check(run, reward, capacity) -> None:
    expected = totals_of(run, capacity)
    names = [name for name in expected if name in reward.all]
    got = {name: reward.totals[name] for name in names}
    assert got == pytest.approx({name: expected[name] for name in names}, rel=1e-9, abs=1e-9)
    assert all(got[name] for name in names if name != "wait")  # some runs let nobody wait


# ---- by hand ------------------------------------------------------------------------------------


def test_what_ends_between_decisions_is_paid_to_the_instant():
    # job 0 runs from 0 to 3.5, job 1 comes at 3 and must wait for it: it runs from 4 to 6
    load = rigid((0, 3.5, 4), (3, 2, 4))
    run, reward = play(begin, greedy, load, names=PLAIN, rules=Rules(scheduling={"step": 1}))
    assert run.starts() == {0: 0, 1: 4}
    assert reward.earned == {
        # at 0, 1, 2, 3, 4, 5, 6, and at the end
        "slowdown": pytest.approx([0, *(-1 / 3.5,) * 3, -0.5 / 3.5 - 0.5, -0.5, -0.5, 0]),
        # when a job ends, what it lacks of 1: 0.65 at 3.5, 0.7 at 6
        "bounded-slowdown": pytest.approx([0, *(-0.1,) * 3, -0.8, -0.1, -0.8, 0]),
        "wait": [0, 0, 0, 0, -1, 0, 0, 0],
        "completion-time": [0, -1, -1, -1, -1.5, -1, -1, 0],
        "makespan": [0, -1, -1, -1, -1, -1, -1, 0],
        "utilisation": [0, 1, 1, 1, 0.5, 1, 1, 0],
    }


@pytest.mark.parametrize(
    ("discount", "unit", "earned"),
    [
        # at 0 and 4, job 0 is placed at 0, job 1 reserved at 0 for 4: 8 and 16 are their values
        (1.0, 1, [0, 24, 0, 0]),
        (0.5, 2, [0, 8 / 2 * 1.5 + 0.25 * 16 / 1, 0, 0]),
    ],
)
def test_value_at_the_decision_is_discounted_to_it(discount, unit, earned):
    load = rigid((0, 4, 2), (0, 2, 4)).with_columns(value=np.array([8.0, 16.0]))
    arguments = {"discount": discount, "time_unit_s": unit}
    reward = make_reward("value-at-decision", arguments)
    simulation = begin(load, observer=reward).simulation
    reward.begin(load, simulation.info)
    got = []
    for state in simulation.decisions():
        got.append(reward.collect(state.now))
        if not state.now:
            first, second = state.queue.tasks
            simulation.apply(Place(first, ((0, 2),)))
            simulation.apply(Place(second, ((0, 4),), 4.0))
    assert [*got, reward.collect(simulation.now)] == pytest.approx(earned)


# ---- the sums of the tables ---------------------------------------------------------------------


@pytest.mark.parametrize("backlog", [60, 1])  # with 1 some are rejected
@pytest.mark.parametrize("seed", range(3))
def test_a_slotted_run(seed, backlog):
    rng = np.random.default_rng(seed)
    jobs = [
        (t, a_gang(1, int(rng.integers(1, 16)), request=tuple(map(float, rng.integers(1, 11, 2)))))
        for t in range(1, 50)
        if rng.random() < 0.5
    ]
    load = make_jobs(*jobs, resources=("cpu", "mem"))
    names = PLAIN
    rules = Rules(
        scheduling={"step": 1},
        admission=AdmissionRule(slots=10 if backlog > 1 else 1, backlog=backlog),
    )

    def schedule(state):
        for task in list(state.queue):
            if rng.random() < 0.3 and (found := state.profile().earliest(task)):
                start, on = found
                yield Place(task, on, None if start <= state.now else float(np.ceil(start)))

    capacity = {"cpu": 10.0, "mem": 10.0}
    run, reward = play(begin, schedule, load, Cluster.pool(capacity), names, rules=rules)
    check(run, reward, capacity)
    finished = run["jobs"].filter(pl.col("status") == "finished")
    rejected = run["jobs"].filter(pl.col("status") == "rejected")
    assert len(finished) + len(rejected) == len(jobs)
    assert bool(len(rejected)) == (backlog == 1)
    slowdown = ((finished["end_time_s"] - finished["submit_time_s"]) / finished["run_time_s"]).sum()
    assert reward.totals["slowdown"] == pytest.approx(-slowdown, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_kills_rejections_failures_and_suspensions(seed):
    rng = np.random.default_rng(seed)

    def some_task():
        kind = a_bag if rng.random() < 0.5 else a_gang
        run_time = float(rng.exponential(20))
        request = (float(rng.integers(1, 4)), float(rng.integers(0, 3)))
        return kind(int(rng.integers(1, 4)), run_time, run_time * rng.uniform(0.5, 2), request)

    submit = np.sort(rng.uniform(0, 400, 60))
    submit[3] = submit[4]  # two at once
    jobs = [(t, *(some_task() for _ in range(rng.integers(1, 4)))) for t in submit]
    load = make_jobs(*jobs, resources=("cpu", "mem"))
    load = load.with_columns(qos=rng.uniform(0.1, 1, 60))
    load = with_values(load, {"cpu": 2.0, "mem": 0.1})
    load = load.with_columns(deadline_s=deadlines(load, rng.uniform(1, 8, 60)))
    cluster = Cluster(
        ("cpu", "mem"), ("a", "b", "c"), np.array([[4.0, 6.0], [6.0, 6.0], [6.0, 2.0]]),
        maintenance=(Maintenance(50.5, 90.25, 1, (6.0, 6.0), "requeue"),),
        failures=Failures(mtbf=150.0, mttr=10.0, running="requeue"),
    )  # fmt: skip
    rules = Rules(walltime="kill", admission=AdmissionRule(slots=4, backlog=3))

    def schedule(state):
        for allocation in state.suspended:
            if rng.random() < 0.7 and state.room.copy().claim(
                allocation.on, allocation.task.request
            ):
                yield Resume(allocation)
        for allocation in state.running:
            if rng.random() < 0.05:
                yield Suspend(allocation, keep_work=bool(rng.random() < 0.7))
        for task in list(state.queue):
            if rng.random() < 0.02:
                yield Kill(task)
            elif task.waiting and (on := state.fit(task)):
                yield Place(task, on)

    names = [*PLAIN, *OF_VALUE]
    run, reward = play(begin, schedule, load, cluster, names, rules=rules, seed=seed)
    check(run, reward, {"cpu": 16.0, "mem": 14.0})
    statuses = set(run["jobs"]["status"])
    assert {"finished", "killed", "rejected"} <= statuses
    assert {"suspended", "lost"} & set(run["allocations"]["outcome"])


def test_a_second_run_begins_anew():
    load, reward = rigid((0, 4, 4), (1, 4, 4)), make_reward({"slowdown": 1, "utilisation": 1})
    totals = []
    for stop in (1, 99):  # the first is left in the middle
        simulation = begin(load, observer=reward).simulation
        reward.begin(load, simulation.info)
        for state in simulation.decisions():
            if state.now >= stop:
                break
            for action in greedy(state):
                simulation.apply(action)
        totals.append(reward.collect(simulation.now))
    assert totals == [pytest.approx(-1 / 4 + 1), pytest.approx(-(4 + 7) / 4 + 8)]


# ---- by name ------------------------------------------------------------------------------------


# ---- energy -------------------------------------------------------------------------------------

SITE = {
    "align": {"zero": "2019-01-01T00:00:00+00:00"},
    "machines": {"idle_w": 100, "full_w": 600},
    "sources": {"wind": {
        "signal": {"type": "levels", "high_w": 700, "low_w": 100, "high_share": 0.5, "step": "30m"},
        "price_per_kwh": 0.02, "carbon_gco2_per_kwh": 11,
    }},
    "grid": {
        "price_per_kwh": {"type": "schedule", "day": {"0:00": 0.1, "7:20": 0.4, "13:00": -0.1}},
        "export_limit_w": 200, "export_price_per_kwh": 0.05, "carbon_gco2_per_kwh": {
            "type": "levels", "high_w": 500, "low_w": 50, "high_share": 0.3, "step": "45m"
        },
    },
}  # fmt: skip
JOBS = {"type": "rare", "jobs": 40, "offered_load": 0.8}
POOL = {"machines": [{"count": 1, "processors": 10, "gpu": 10}]}
BATTERY = {"capacity_kwh": 1, "charge_c_rate": 0.3}


@pytest.mark.parametrize("more", [{}, {"battery": BATTERY}, {"supply": {"limit": "power"}}])
def test_energy_costs_what_the_metrics_say(more):
    told = {"name": "site", "workload": JOBS, "cluster": POOL, "power": SITE | more}
    reward = Several(list(OF_ENERGY))
    experiment = Episodes(Scenario.model_validate(told)).prepare(3)
    episode = Episode(experiment, reward, records=True)
    while episode.advance():
        reward.look(episode.state.now)
        for task in list(episode.state.queue):
            if on := episode.state.fit(task):
                episode.apply(Place(task, on))
    reward.look(episode._simulation.now)
    metrics = episode.run_metrics()
    found = {"energy-cost": -metrics["energy_cost"], "carbon": -metrics["carbon_kg"]}
    assert all(found.values())
    # the metrics leave out what flows before the first job is submitted, at the first decision
    assert {name: sum(each[1:]) for name, each in reward.earned.items()} == (
        pytest.approx(found, rel=1e-9)
    )


def test_a_watched_run_is_not_accounted_for_late():
    """Where power limits nothing, the ledger of a policy's run is usually kept late."""
    told = Scenario.model_validate(
        {"name": "site", "workload": JOBS, "cluster": POOL, "power": SITE}
    )
    experiment, reward = Episodes(told).prepare(3), make_reward("energy-cost")
    load, cluster = experiment.trace.workload, experiment.cluster
    simulation = Simulation(
        load, cluster, Recorder(load, cluster.resources, Nowhere()), site=experiment.site,
        observer=reward,
    )  # fmt: skip
    reward.begin(load, simulation.info)
    simulation.run(OrderedPolicy(FCFS(), Easy()))
    spent = simulation.power.energy.ledger.totals()["cost"]
    assert reward.collect(simulation.now) == pytest.approx(-spent, rel=1e-9)


def test_rewards_are_weighted_and_added():
    load = rigid((0, 4, 2), (1, 4, 4))
    weighted = make_reward({"slowdown": 2, "utilisation": 0.5}, {"utilisation": {"time_unit_s": 2}})
    simulation = begin(load, observer=weighted).simulation
    weighted.begin(load, simulation.info)
    for state in simulation.decisions():
        for action in greedy(state):
            simulation.apply(action)
    # slowdowns 1 and 7/4; four seconds of a half and four of all
    assert weighted.collect(simulation.now) == pytest.approx(-2 * (1 + 7 / 4) + 0.5 * 6 / 2)


@pytest.mark.parametrize(
    ("names", "section"), [(OF_VALUE, "value"), (OF_ENERGY, "power")], ids=["value", "power"]
)
def test_rewards_of_value_and_energy_need_their_section(names, section):
    load = rigid((0, 1, 1))
    for name in names:
        with pytest.raises(ScenarioError, match=f"'{name}': .*`{section}`"):
            make_reward(name).begin(load, begin(load).simulation.info)


@pytest.mark.parametrize(
    ("what", "arguments", "named"),
    [
        ("slowdwn", {}, "'slowdown'"),
        ("slowdown", {"tau": 3}, "'tau'"),
        ("slowdown", {"least_run_s": 0}, "least_run_s is 0"),
        ({}, {}, "at least one"),
        ({"slowdown": float("nan")}, {}, "weight nan"),
        ({"slowdown": 1}, {"value": {}}, "'value'"),
    ],
)
def test_mistakes_are_named(what, arguments, named):
    with pytest.raises((ScenarioError, PluginError), match=named):
        make_reward(what, arguments)


def test_short_run_times_count_as_the_least():
    load = rigid((0, 0, 4), (0, 10, 4), (0, 0, 1))
    reward = make_reward("slowdown", {"least_run_s": 5})
    simulation = begin(load, observer=reward).simulation
    reward.begin(load, simulation.info)
    for state in simulation.decisions():
        for action in greedy(state):
            simulation.apply(action)
    # the first ends at once; the last waits for the second, which uses everything
    assert reward.collect(simulation.now) == pytest.approx(-(10 / 10 + 10 / 5))


@pytest.mark.parametrize(
    ("run_time", "requested", "value"),
    [
        (3, 5, 12.0),  # in time: 3 s of 4 processors at 1 a second
        (5, 5, 20.0),  # at the very instant
        (6, 5, 0.0),  # late
    ],
)
def test_value_is_paid_for_what_ends_in_time(run_time, requested, value):
    load = with_values(rigid((0, run_time, 4, requested)), {"processors": 1.0}, time_unit_s=1)
    load = load.with_columns(deadline_s=deadlines(load, np.ones(1)))
    _, reward = play(begin, greedy, load, names=["value"])
    assert reward.totals == {"value": value}


def test_a_run_may_begin_before_zero():
    _, reward = play(
        begin, greedy, rigid((-10, 4, 4), (-10, 4, 4)), names=["completion-time", "utilisation"]
    )
    assert reward.totals == {"completion-time": -12, "utilisation": 8}
