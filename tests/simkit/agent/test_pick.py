"""The action "pick": whoever picks by a rule has the schedule of this rule with EASY."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("gymnasium")

import simkit
from simkit.agent.actions import Pick
from simkit.env import SchedulingEnv
from simkit.errors import PluginError, PolicyError, ScenarioError
from simkit.policy import SystemInfo
from simkit.workload import Workload
from simkit.workload.cluster import Partition

SAMPLE = {
    "name": "log",
    "workload": {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 1},
                 "processors_max": 1},
}  # fmt: skip
KEYS = {
    "fcfs": lambda task: 0.0,
    "sjf": lambda task: task.estimate_s,
    "saf": lambda task: task.estimate_s * task.demand[0],
}
"""Order → what a task is picked by, the smallest first; ties by submission."""


def env_of(cluster, slots=1000, **arguments):
    return SchedulingEnv(
        SAMPLE | {"cluster": cluster}, slots=slots, actions="pick", records=True, **arguments
    )


def played(env, order, workload, key=None):
    """Pick by an order among what the mask offers, and never let time go on; return the jobs."""
    info, key, over = env.reset(options={"workload": workload})[1], key or KEYS[order], False
    while not over:
        tasks = env.state.queue.tasks
        offered = np.flatnonzero(info["action_mask"][:-1])
        choice = min(offered, key=lambda m: (key(tasks[m]), m))
        *_, over, _, info = env.step(int(choice))
    return env.records().jobs


def played_once_through(env, order, workload):
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


def busy_log(seed, jobs=250, processors=64):
    """Return a log under high load; one job in five overruns, others ask for up to 20 times more."""
    rng = np.random.default_rng(seed)
    submit = np.floor(np.cumsum(rng.exponential(400, jobs)))
    run = np.ceil(rng.lognormal(6, 2, jobs))
    asked = np.ceil(run * np.where(rng.random(jobs) < 0.2, 0.5, rng.uniform(1, 20, jobs)))
    size = np.minimum(2 ** rng.integers(0, 7, jobs), processors)
    return workload_of(list(zip(submit, run, np.ones(jobs, int), size, asked, strict=True)))


# ---- whoever picks by a rule ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", KEYS)
def test_on_a_log_it_is_the_run_with_easy(order, seed):
    jobs = busy_log(seed)
    scenario = SAMPLE | {"cluster": {"processors": 64}}
    run = simkit.simulate(
        scenario | {"policy": {"order": order, "backfill": "easy"}}, workload=jobs
    )
    assert played(env_of({"processors": 64}), order, jobs).equals(run.jobs)
    plain = simkit.simulate(
        scenario | {"policy": {"order": order, "backfill": "none"}}, workload=jobs
    )
    assert starts_of(plain.jobs) != starts_of(run.jobs)


@pytest.mark.parametrize("slots", [4, 16, 128])
@pytest.mark.parametrize("order", KEYS)
def test_on_a_log_it_is_the_fast_simulation_with_as_many_visible(order, slots):
    pytest.importorskip("numba")
    from simkit.learners.pool.jobs import PoolJobs
    from simkit.learners.pool.simulation import Rule, simulate

    workload, env = busy_log(7), env_of({"processors": 64}, slots)
    jobs = PoolJobs.of(workload, 64)
    keys = {"fcfs": 0 * jobs.submit_s, "sjf": jobs.requested_s,
            "saf": jobs.requested_s * jobs.processors}  # fmt: skip
    starts = simulate(jobs, Rule.by_key(keys[order]), visible=slots).tolist()
    assert starts_of(played(env, order, workload)) == starts


# Few different numbers: ties in every column, run times of 0, estimates below the run time.
JOB = st.tuples(
    st.integers(0, 5), st.integers(0, 6), st.integers(1, 3), st.integers(1, 2), st.integers(0, 8)
)


@pytest.mark.parametrize("slots", [1, 3, 1000])
def test_on_any_jobs_it_is_the_fast_simulation(slots):
    pytest.importorskip("numba")
    from simkit.learners.pool.jobs import PoolJobs
    from simkit.learners.pool.simulation import Rule, simulate

    env = env_of({"processors": 6}, slots)

    @given(st.lists(JOB, min_size=1, max_size=24), st.randoms(use_true_random=False))
    def check(rows, random):
        workload = workload_of(rows)
        key = np.array([float(random.randrange(4)) for _ in rows])
        starts = simulate(PoolJobs.of(workload, 6), Rule.by_key(key), visible=slots).tolist()
        found = played(env, None, workload, key=lambda task: key[task.index])
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
@pytest.mark.parametrize("order", ["fcfs", "sjf"])
def test_on_any_jobs_and_machines_it_is_the_run_with_easy(order, cluster, gang):
    scenario = SAMPLE | {
        "cluster": CLUSTERS[cluster],
        # no task outlives its estimate into the maintenance, so no machine has less than nothing free
        "estimates": "actual" if cluster == "maintenance" else "requested",
        "policy": {"order": order, "backfill": "easy"},
    }
    env = SchedulingEnv(scenario, slots=1000, actions="pick", records=True)

    @given(st.lists(JOB, min_size=1, max_size=24))
    def check(rows):
        jobs = workload_of(rows, gang)
        run = simkit.simulate(scenario, workload=jobs)
        assert played_once_through(env, order, jobs).equals(run.jobs)

    check()


def test_a_model_runs_as_a_policy_as_it_acts_in_the_environment():
    class FirstOffered:
        def predict(self, observation, action_masks):
            return int(action_masks.argmax()), None

    jobs, env = busy_log(1), env_of({"processors": 64})
    scenario = SAMPLE | {"cluster": {"processors": 64}}
    run = simkit.simulate(scenario, workload=jobs, policy=env.policy(FirstOffered()))
    assert run.jobs.equals(played(env, "fcfs", jobs))


# ---- by hand ----------------------------------------------------------------------------------

# At 1 the head, of three processors, gets its place at 10. The third job ends by then; the fourth
# and the fifth do not, and one of them fits beside the head.
ROWS = (
    (0, 10, 1, 2, 10), (1, 5, 1, 3, 5), (1, 9, 1, 1, 9), (1, 20, 1, 1, 20), (1, 21, 1, 1, 21),
)  # fmt: skip


def at_the_first_choice(**action_arguments):
    """Return an environment of four processors at 1, where the first job of `ROWS` runs."""
    env = env_of({"processors": 4}, 5, action_arguments=action_arguments)
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


def test_behind_a_head_time_may_go_on():
    env, info = at_the_first_choice()
    env.step(0)
    info = env.step(env.void)[4]
    assert info["time_s"] == 10
    assert info["action_mask"].tolist() == [1, 1, 1, 1, 0, 0]  # the head is picked anew
    assert [task.index for task in env.state.running] == []


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
        env = env_of({"processors": 4}, slots)
        env.reset(options={"workload": workload_of(rows)})
        times[slots] = env.step(0)[4]["time_s"]
    assert times == {2: 10, 3: 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actions": "pik"}, "did you mean 'pick'"),
        ({"action_arguments": {"hold": 2}}, "action_arguments: hold is 2; it must be true or fals"),
        ({"action_arguments": {"info": 3}}, "info is given by simkit; leave it out"),
        ({"scenario": "deeprm"}, "in slotted time an action is a slot"),
        ({"action_arguments": {"keep": 1}}, "'pick' takes no argument 'keep'; known: hold$"),
    ],
)
def test_mistakes_are_told(arguments, message):
    with pytest.raises((ScenarioError, PluginError), match=message):
        SchedulingEnv(**({"scenario": SAMPLE, "actions": "pick"} | arguments))


def test_a_number_that_is_no_action():
    env, _ = at_the_first_choice()
    for _ in range(2):  # before a head, and behind it
        with pytest.raises(PolicyError, match="action 6 is not one of 0 … 5"):
            env.step(6)
        env.step(0)


def test_partitions_of_different_priority_are_refused():
    parts = (Partition("day", priority=1.0), Partition("night"))
    info = SystemInfo(("processors",), ("pool",), np.array([[4.0]]), parts)
    with pytest.raises(ScenarioError, match="different priorities"):
        Pick(5, info)
