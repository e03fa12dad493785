"""The action "next head, the rest backfills": by FCFS it is FCFS with EASY, by SJF SJF with EASY."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gymnasium")

import simkit
from simkit.agent.actions import NextHead
from simkit.env import SchedulingEnv
from simkit.errors import PluginError, ScenarioError
from simkit.policy import SystemInfo
from simkit.workload import Workload
from simkit.workload.cluster import Partition

DATA = Path(os.environ.get("SIMKIT_DATA", Path(__file__).parents[4] / "shared" / "data")) / "swf"
SAMPLE = {"name": "log", "workload": {"type": "swf", "path": "sample:lublin_1000"}}
ORDERS = {"fcfs": lambda task: task.index, "sjf": lambda task: (task.estimate_s, task.index)}
BACKFILL = {"fcfs": "queue", "sjf": "sjf"}


def played(env, order, seed=0, options=None):
    """Choose the first waiting task of an order each time; return the tables, and the info."""
    info = env.reset(seed=seed, options=options)[1]
    first = info.get("first_job")
    over, key = False, ORDERS[order]
    while not over:
        waiting = env.state.queue.tasks
        choice = min(range(len(waiting)), key=lambda m: key(waiting[m]))
        assert info["action_mask"].tolist() == [m < len(waiting) for m in range(env.void)] + [0]
        *_, over, _, info = env.step(choice)
    return env.records(), info["metrics"], first


def env_of(scenario, order="fcfs", slots=1000, **arguments):
    own = {"backfill_order": BACKFILL[order]} | arguments.pop("action_arguments", {})
    return SchedulingEnv(
        scenario, slots=slots, actions="next-head", action_arguments=own, records=True, **arguments
    )


def easy(order):
    return {"order": order, "backfill": "easy"}


TABLES = ("jobs", "allocations", "timeline", "tasks", "events")


# with SJF, a shorter task that comes takes the place of a head: none is kept
@pytest.mark.parametrize(("order", "keep"), [("fcfs", False), ("fcfs", True), ("sjf", False)])
def test_on_a_log_it_is_the_run_with_easy(order, keep):
    run = simkit.simulate(SAMPLE | {"policy": easy(order)})
    env = env_of(SAMPLE, order, action_arguments={"keep": keep})
    records, metrics, _ = played(env, order)
    for table in TABLES:
        assert records.scan(table).collect().equals(run.scan(table).collect()), table
    assert metrics["finished"] == 1000
    assert keep or metrics["decisions"] >= 1000


def test_what_is_suspended_for_want_of_power_is_resumed_as_in_a_run():
    levels = {"type": "levels", "high_w": 12_800, "low_w": 3000, "high_share": 0.5}
    scenario = {
        "name": "levels",
        "workload": {"type": "lublin", "jobs": 80, "processors": 64},
        "power": {
            "machines": {"idle_w": 0, "full_w": 200},
            "sources": {"supply": {"signal": levels}},
            "supply": {"limit": "power", "running": "suspend"},
        },
        "policy": easy("fcfs"),
    }
    run = simkit.simulate(scenario)
    assert run.jobs["suspended_time_s"].sum() > 0
    records, metrics, _ = played(env_of(scenario), "fcfs")
    assert records.jobs.equals(run.jobs)
    assert metrics["finished"] == 80


LOGS = {"SDSC-SP2-1998-4.2-cln": 128, "lublin_256": 256}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("log", LOGS)
def test_on_windows_of_a_log_it_is_the_run_of_the_window(log, order):
    path = DATA / f"{log}.swf.gz"
    if not path.exists():
        pytest.skip(f"no {path.name} under SIMKIT_DATA")
    scenario = {
        "name": "log",
        "workload": {"type": "swf", "path": str(path), "window": {"jobs": 8000}},
        "cluster": {"processors": LOGS[log]},
        "policy": easy(order),
    }
    env = env_of(scenario, order, episode={"jobs": 256})
    backfilled = 0
    for seed in range(4):
        records, _, first = played(env, order, seed)
        ranks = {"workload.window.jobs": f"{first}..{first + 255}"}
        run = simkit.simulate(scenario, seed=seed, overrides=ranks)
        begin = run.jobs["submit_time_s"].min()
        starts = dict(zip(run.jobs["job_id"], run.jobs["start_time_s"] - begin, strict=True))
        assert (
            dict(zip(records.jobs["job_id"], records.jobs["start_time_s"], strict=True)) == starts
        )
        plain = {"policy.backfill": "none"}
        other = simkit.simulate(scenario, seed=seed, overrides=ranks | plain)
        backfilled += other.metrics["wait_time_s"]["mean"] > run.metrics["wait_time_s"]["mean"]
    assert backfilled


# Few different numbers: ties in every column, run times of 0, estimates below the run time.
JOB = st.tuples(
    st.integers(0, 5), st.integers(0, 6), st.integers(1, 3), st.integers(1, 2), st.integers(0, 8)
)
CLUSTERS = {
    "pool": {"processors": 6},
    "machines": {"machines": [{"count": 3, "processors": 2}]},
    "maintenance": {
        "machines": [{"count": 2, "processors": 2}, {"name": "old", "count": 1, "processors": 2}],
        "maintenance": [{"start": 4, "end": 9, "machines": ["old"]}],
    },
}


def workload(rows, gang):
    """Return jobs of (submit, run, instances, processors, requested time)."""
    submit, run, instances, processors, requested = map(np.array, zip(*sorted(rows), strict=True))
    count = len(rows)
    return Workload(
        ("processors",), np.arange(count), submit.astype(float), np.arange(count + 1),
        np.arange(count), instances, processors[:, None].astype(float), run.astype(float),
        requested.astype(float), np.full(count, gang),
    )  # fmt: skip


@pytest.mark.parametrize("gang", [True, False], ids=["gangs", "bags"])
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("order", ORDERS)
def test_on_any_jobs_it_is_the_run_with_easy(order, cluster, gang):
    scenario = {
        "workload": {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 1},
                     "processors_max": 1},
        "cluster": CLUSTERS[cluster],
        # no task outlives its estimate into the maintenance, so no machine has less than nothing free
        "estimates": "actual" if cluster == "maintenance" else "requested",
        "policy": easy(order),
    }  # fmt: skip
    env = env_of(scenario, order)

    @given(st.lists(JOB, min_size=1, max_size=24))
    def check(rows):
        jobs = workload(rows, gang)
        records, _, _ = played(env, order, options={"workload": jobs})
        run = simkit.simulate(scenario, workload=jobs)
        for table in TABLES:
            assert records.scan(table).collect().equals(run.scan(table).collect()), table

    check()


def one_pool(*rows, **action_arguments):
    """Return an environment of four processors with gangs of (submit, run, processors, estimate)."""
    scenario = SAMPLE | {"workload": SAMPLE["workload"] | {"processors_max": 4}}
    env = SchedulingEnv(
        scenario | {"cluster": {"processors": 4}}, slots=3, actions="next-head",
        action_arguments=action_arguments,
    )  # fmt: skip
    jobs = workload([(submit, run, 1, size, asked) for submit, run, size, asked in rows], True)
    return env, env.reset(options={"workload": jobs})[1]


def test_a_head_that_does_not_fit_is_reserved_and_the_rest_backfills():
    # at 1: the head of 4 must wait until 10; the short one ends by then, the long one would not
    env, info = one_pool((0, 10, 2, 10), (1, 5, 4, 5), (1, 9, 2, 9), (1, 20, 1, 20))
    assert (info["time_s"], info["action_mask"].tolist()) == (0, [1, 0, 0, 0])
    info = env.step(0)[4]  # it starts; nothing waits, so time goes on to the next arrival
    assert (info["time_s"], info["action_mask"].tolist()) == (1, [1, 1, 1, 0])
    head = next(m for m, task in enumerate(env.state.queue.tasks) if task.demand == (4.0,))
    info = env.step(head)[4]
    assert info["time_s"] == 10
    assert sorted(task.demand[0] for task in env.state.queue.tasks) == [1.0, 4.0]


def test_a_kept_head_starts_by_itself():
    rows = ((0, 10, 2, 10), (1, 5, 4, 5), (2, 1, 4, 1), (3, 1, 4, 1))
    decisions = []
    for keep in (False, True):
        env, _ = one_pool(*rows, keep=keep)
        over = False
        while not over:
            *_, over, _, info = env.step(0)
        assert info["metrics"]["finished"] == 4
        decisions.append(info["metrics"]["decisions"])
    # asked again at 2, 3 and 10, or only once a head has started
    assert decisions[0] > decisions[1] >= 4


def test_holding_back_is_offered_only_if_asked_for():
    rows = ((0, 10, 2, 10), (0, 10, 2, 10))
    env, info = one_pool(*rows)
    assert info["action_mask"].tolist() == [1, 1, 0, 0]
    env.step(env.void)  # forbidden, so the first waiting task starts
    assert [task.index for task in env.state.queue.tasks] == [1]
    env, info = one_pool(*rows, hold=True)
    assert info["action_mask"].tolist() == [1, 1, 0, 1]
    over, info = env.step(env.void)[2::2]
    assert over
    assert info["metrics"]["unfinished"] == 2


def test_whoever_was_held_back_is_tried_for_backfilling_later():
    """The agent holds at 2, when the short task comes; at 3 the same head is chosen as at 1."""
    env, _ = one_pool(
        (0, 10, 3, 10), (1, 5, 4, 5), (2, 2, 1, 2), (3, 9, 4, 9), hold=True
    )  # fmt: skip
    env.step(0)
    env.step(0)  # the head, of four processors
    assert env.state.now == 2
    env.step(env.void)
    assert env.state.now == 3
    assert [task.index for task in env.state.queue.tasks] == [1, 2, 3]
    env.step(0)
    assert [task.index for task in env.state.queue.tasks] == [1, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observation": "power-forecast"}, "add a section `power`"),
        ({"actions": "next-hed"}, "did you mean 'next-head'"),
        ({"actions": "slots"}, "are for slotted time"),
        (
            {"actions": "next-head", "action_arguments": {"keep": 1, "hold": 2}},
            "(?s)action_arguments: keep is 1.*hold is 2",
        ),
        (
            {"actions": "next-head", "action_arguments": {"backfill_order": "ljf"}},
            "queue or sjf, not 'ljf'",
        ),
        ({"actions": "next-head", "action_arguments": {"slots": 3}}, "slots is given by simkit"),
        ({"action_arguments": {"keep": True}}, "take no action_arguments; leave out keep"),
        (
            {"actions": 5, "cost": 5, "action_arguments": ["keep"], "observation_arguments": ["x"]},
            "(?s)cost is 5.*actions is 5.*action_arguments is.*observation_arguments is",
        ),
        (
            {"scenario": "deeprm", "actions": "next-head"},
            "^actions 'next-head': in slotted time an action is a slot; leave that out",
        ),
        (
            {"scenario": "deeprm", "action_arguments": {"hold": True}},
            "^action_arguments {'hold': True}: in slotted time an action is a slot; leave that out",
        ),
        (
            {"scenario": "deeprm", "actions": "pick", "action_arguments": {"hold": True}},
            "^actions 'pick' and action_arguments {'hold': True}: in .* leave both out",
        ),
    ],
)
def test_mistakes_are_told(arguments, message):
    with pytest.raises((ScenarioError, PluginError), match=message):
        SchedulingEnv(**({"scenario": SAMPLE} | arguments))


def test_partitions_of_different_priority_are_refused():
    parts = (Partition("day", priority=1.0), Partition("night"))
    info = SystemInfo(("processors",), ("pool",), np.array([[4.0]]), parts)
    with pytest.raises(ScenarioError, match="different priorities"):
        NextHead(5, info)


def test_a_model_runs_as_a_policy_as_it_acts_in_the_environment():
    class First:
        def predict(self, observation):
            return 0, None

    env = env_of(SAMPLE, slots=20)
    run = simkit.simulate(SAMPLE, policy=env.policy(First()))
    native = simkit.simulate(SAMPLE | {"policy": easy("fcfs")})
    assert run.jobs.equals(native.jobs)
