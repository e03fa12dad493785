"""Actions on the queue around a head, next-head and pick: by a rule's choices, that rule with EASY."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gymnasium")

import simkit
from simkit.agent.actions import NextHead, Pick
from simkit.env import SchedulingEnv
from simkit.errors import PluginError, ScenarioError
from simkit.policy import SystemInfo
from simkit.workload import Workload
from simkit.workload.cluster import Partition

LOG = {"name": "log", "workload": {"type": "swf", "path": "sample:lublin_1000"}}
ONE = {"name": "log", "workload": LOG["workload"] | {"window": {"jobs": 1}, "processors_max": 1}}
"""A scenario whose jobs are replaced by others."""
KEYS = {
    "fcfs": lambda task: 0.0,
    "sjf": lambda task: task.estimate_s,
    "saf": lambda task: task.estimate_s * task.demand[0],
}
"""Order → what a task is chosen by, the smallest first; ties by submission."""
BACKFILL = {"fcfs": "queue", "sjf": "sjf"}
TABLES = ("jobs", "allocations", "timeline", "tasks", "events")


def next_head(scenario, order="fcfs", slots=1000, **arguments):
    own = {"backfill_order": BACKFILL[order]} | arguments
    return SchedulingEnv(
        scenario, slots=slots, actions="next-head", action_arguments=own, records=True
    )


def pick(cluster, slots=1000, **arguments):
    return SchedulingEnv(
        ONE | {"cluster": cluster}, slots=slots, actions="pick", records=True, **arguments
    )


def heads(env, order, options=None):
    """Choose the first waiting task of an order each time; return the records and the metrics."""
    info = env.reset(seed=env.scenario.seed, options=options)[1]
    over, key = False, KEYS[order]
    while not over:
        waiting = env.state.queue.tasks
        choice = min(range(len(waiting)), key=lambda m: (key(waiting[m]), waiting[m].index))
        assert info["action_mask"].tolist() == [m < len(waiting) for m in range(env.void)] + [0]
        *_, over, _, info = env.step(choice)
    return env.records(), info["metrics"]


def picks(env, order, workload, key=None):
    """Pick by an order among what the mask offers, and never let time go on; return the jobs."""
    info, key, over = env.reset(options={"workload": workload})[1], key or KEYS[order], False
    while not over:
        tasks = env.state.queue.tasks
        offered = np.flatnonzero(info["action_mask"][:-1])
        choice = min(offered, key=lambda m: (key(tasks[m]), m))
        *_, over, _, info = env.step(int(choice))
    return env.records().jobs


def picks_once_through(env, order, workload):
    """Do the same, but go through the tasks behind a head once, as EASY does, and let time go on.

    Among several machines, a task that was passed over may start after another one has started: it
    is then offered other machines, which the head does not need.
    """
    info, passed, over = env.reset(options={"workload": workload})[1], None, False
    while not over:
        tasks = env.state.queue.tasks
        behind_head = bool(info["action_mask"][-1])
        offered = sorted((KEYS[order](tasks[m]), tasks[m].index, int(m))
                         for m in np.flatnonzero(info["action_mask"][:-1]))  # fmt: skip
        if behind_head and passed is not None:
            offered = [each for each in offered if each[:2] > passed]
        passed = offered[0][:2] if behind_head and offered else None
        *_, over, _, info = env.step(offered[0][2] if offered else env.void)
    return env.records().jobs


def starts_of(jobs):
    """Return the starts in order of submission."""
    return jobs.sort("job_id")["start_time_s"].to_list()


def workload_of(rows, gang=True):
    """Return jobs of (submit, run, instances, processors of each, requested time)."""
    submit, run, instances, processors, requested = map(np.array, zip(*sorted(rows), strict=True))
    count = len(rows)
    return Workload(
        ("processors",), np.arange(count), submit.astype(float), np.arange(count + 1),
        np.arange(count), instances, processors[:, None].astype(float), run.astype(float),
        requested.astype(float), np.full(count, gang),
    )  # fmt: skip


def with_policy(scenario, order, backfill="easy"):
    return scenario | {"policy": {"order": order, "backfill": backfill}}


# with SJF, a shorter task that comes takes the place of a head: none is kept
@pytest.mark.parametrize(("order", "keep"), [("fcfs", False), ("fcfs", True), ("sjf", False)])
def test_heads_on_a_log_are_the_run_with_easy(order, keep):
    run = simkit.simulate(with_policy(LOG, order))
    env = next_head(LOG, order, keep=keep)
    records, metrics = heads(env, order)
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
        "policy": {"order": "fcfs", "backfill": "easy"},
    }
    run = simkit.simulate(scenario)
    assert run.jobs["suspended_time_s"].sum() > 0
    records, metrics = heads(next_head(scenario), "fcfs")
    assert records.jobs.equals(run.jobs)
    assert metrics["finished"] == 80


# Few different numbers: ties in every column, run times of 0, estimates below the run time.
JOB = st.tuples(
    st.integers(0, 5), st.integers(0, 6), st.integers(1, 3), st.integers(1, 2), st.integers(0, 8)
)


@pytest.mark.parametrize("slots", [1, 3, 1000])
def test_picks_on_any_jobs_are_the_fast_simulation(slots):
    pytest.importorskip("numba")
    from simkit.learners.pools.jobs import PoolJobs
    from simkit.learners.scorers.job_model import Rule, simulate

    env = pick({"processors": 6}, slots)

    @given(st.lists(JOB, min_size=1, max_size=24), st.randoms(use_true_random=False))
    def check(rows, random):
        workload = workload_of(rows)
        key = np.array([float(random.randrange(4)) for _ in rows])
        starts = simulate(PoolJobs.of(workload, 6), Rule.by_key(key), visible=slots).tolist()
        found = picks(env, None, workload, key=lambda task: key[task.index])
        assert starts_of(found) == starts

    check()


CLUSTERS = {
    "pool": {"processors": 6},
    "machines": {"machines": [{"count": 3, "processors": 2}]},
    "maintenance": {
        "machines": [{"count": 2, "processors": 2}, {"name": "old", "count": 1, "processors": 2}],
        "maintenance": [{"start": 4, "end": 9, "machines": ["old"]}],
    },
}


@pytest.mark.parametrize("gang", [True, False], ids=["gangs", "bags"])
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("order", BACKFILL)
def test_on_any_jobs_both_are_the_run_with_easy(order, cluster, gang):
    scenario = with_policy(ONE, order) | {
        "cluster": CLUSTERS[cluster],
        # no task outlives its estimate into the maintenance, so no machine has less than nothing free
        "estimates": "actual" if cluster == "maintenance" else "requested",
    }
    by_heads = next_head(scenario, order)
    by_picks = SchedulingEnv(scenario, slots=1000, actions="pick", records=True)

    @given(st.lists(JOB, min_size=1, max_size=24))
    def check(rows):
        jobs = workload_of(rows, gang)
        run = simkit.simulate(scenario, workload=jobs)
        records, _ = heads(by_heads, order, options={"workload": jobs})
        for table in TABLES:
            assert records.scan(table).collect().equals(run.scan(table).collect()), table
        assert picks_once_through(by_picks, order, jobs).equals(run.jobs)

    check()


# ---- next-head by hand -------------------------------------------------------------------------


def one_pool(*rows, **action_arguments):
    """Return an environment of four processors with gangs of (submit, run, processors, estimate)."""
    scenario = LOG | {"workload": LOG["workload"] | {"processors_max": 4}}
    env = SchedulingEnv(
        scenario | {"cluster": {"processors": 4}}, slots=3, actions="next-head",
        action_arguments=action_arguments,
    )  # fmt: skip
    jobs = workload_of([(submit, run, 1, size, asked) for submit, run, size, asked in rows])
    return env, env.reset(options={"workload": jobs})[1]


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


# ---- pick by hand ------------------------------------------------------------------------------

# At 1 the head, of three processors, gets its place at 10. The third job ends by then; the fourth
# and the fifth do not, and one of them fits beside the head.
ROWS = (
    (0, 10, 1, 2, 10), (1, 5, 1, 3, 5), (1, 9, 1, 1, 9), (1, 20, 1, 1, 20), (1, 21, 1, 1, 21),
)  # fmt: skip


def at_the_first_choice(**action_arguments):
    """Return an environment of four processors at 1, where the first job of `ROWS` runs."""
    env = pick({"processors": 4}, 5, action_arguments=action_arguments)
    env.reset(options={"workload": workload_of(ROWS)})
    return env, env.step(0)[4]


def test_behind_a_head_only_what_easy_admits_may_be_picked():
    env, info = at_the_first_choice()
    assert (info["time_s"], info["action_mask"].tolist()) == (1, [1, 1, 1, 1, 0, 0])
    _, reward, *_, info = env.step(0)  # it does not fit: it is the head, and time stands still
    assert (info["time_s"], reward) == (1, 0)
    assert info["action_mask"].tolist() == [0, 1, 1, 1, 0, 1]
    info = env.step(2)[4]  # one of the long ones, beside the head: no other long one may
    assert (info["time_s"], info["action_mask"].tolist()) == (1, [0, 1, 0, 0, 0, 1])
    info = env.step(1)[4]  # ends by 10; nothing is free now, so nothing is asked before it ends
    assert (info["time_s"], info["action_mask"].tolist()) == (10, [1, 1, 0, 0, 0, 0])
    assert [task.index for task in env.state.queue.tasks] == [1, 4]


@pytest.mark.parametrize("action", [0, 4, 2], ids=["the head", "no task", "too long by now"])
def test_behind_a_head_what_the_mask_forbids_lets_time_go_on(action):
    env, _ = at_the_first_choice()
    env.step(0)
    env.step(3)  # takes the extra node
    assert env.step(action)[4]["time_s"] == 10


def test_holding_back_is_offered_before_a_head_only_if_asked_for():
    env, info = at_the_first_choice()
    assert info["action_mask"][-1] == 0
    assert env.step(env.void)[4]["action_mask"].tolist() == [0, 1, 1, 1, 0, 1]  # took the first
    env, info = at_the_first_choice(hold=True)
    assert info["action_mask"].tolist() == [1, 1, 1, 1, 0, 1]
    assert env.step(env.void)[4]["time_s"] == 10
    terminated, _, info = env.step(env.void)[2:]
    assert terminated
    assert info["metrics"]["unfinished"] == 4


def test_nothing_is_asked_while_nothing_to_choose_from_fits():
    # with two slots the job of one processor cannot be seen, and waits for those of four
    rows = ((0, 10, 1, 3, 10), (1, 5, 1, 4, 5), (2, 5, 1, 4, 5), (3, 1, 1, 1, 1))
    times = {}
    for slots in (2, 3):
        env = pick({"processors": 4}, slots)
        env.reset(options={"workload": workload_of(rows)})
        times[slots] = env.step(0)[4]["time_s"]
    assert times == {2: 10, 3: 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observation": "power-forecast"}, "add a section `power`"),
        ({"actions": "next-hed"}, "did you mean 'next-head'"),
        ({"actions": "pik"}, "did you mean 'pick'"),
        ({"actions": "slots"}, "slots"),
        ({"actions": "next-head", "action_arguments": {"keep": 1, "hold": 2}}, "(?s)keep.*hold"),
        ({"actions": "next-head", "action_arguments": {"backfill_order": "ljf"}}, "'ljf'"),
        ({"actions": "next-head", "action_arguments": {"slots": 3}}, "slots is given by simkit"),
        ({"actions": "pick", "action_arguments": {"hold": 2}}, "action_arguments: hold is 2"),
        ({"actions": "pick", "action_arguments": {"info": 3}}, "info is given by simkit"),
        ({"actions": "pick", "action_arguments": {"keep": 1}}, "no argument 'keep'; known: hold$"),
        ({"action_arguments": {"keep": True}}, "leave out keep"),
        (
            {"actions": 5, "cost": 5, "action_arguments": ["keep"], "observation_arguments": ["x"]},
            "(?s)observation_arguments: .*actions: .*action_arguments: .*cost: ",
        ),
        ({"scenario": "deeprm", "actions": "next-head"}, "^actions 'next-head': .*leave that out"),
        (
            {"scenario": "deeprm", "action_arguments": {"hold": True}},
            "^action_arguments.hold: unknown key; known: mask, patience",
        ),
        (
            {"scenario": "deeprm", "action_arguments": {"mask": "all"}},
            "mask: unknown value 'all'; known: ahead, none, now, possible",
        ),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises((ScenarioError, PluginError), match=message):
        SchedulingEnv(**({"scenario": LOG} | arguments))


@pytest.mark.parametrize("actions", [NextHead, Pick])
def test_partitions_of_different_priority_are_refused(actions):
    parts = (Partition("day", priority=1.0), Partition("night"))
    info = SystemInfo(("processors",), ("pool",), np.array([[4.0]]), parts)
    with pytest.raises(ScenarioError, match="different priorities"):
        actions(5, info)
