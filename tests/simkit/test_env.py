"""The Gymnasium environment: what `step` does is what the simulation does, no more and no less."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
import weakref

import numpy as np
import polars as pl
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import simkit  # noqa: E402
from simkit.env import SchedulingEnv  # noqa: E402
from simkit.errors import PolicyError, RunError, ScenarioError, SimkitError  # noqa: E402
from simkit.scenario.bundled import scenario_path  # noqa: E402
from simkit.scenario.yaml_document import load_scenario  # noqa: E402
from simkit.workload import Workload  # noqa: E402

HPC = {
    "name": "hpc",
    "workload": {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 250}},
    "policy": {"order": "fcfs", "backfill": "none"},
}
DEEPRM = load_scenario(scenario_path("deeprm")).model_dump(mode="json")


def deeprm(**changes):
    return DEEPRM | changes


def jobs(*rows, **columns):
    """Return a workload of (submit, run, cpu, mem) rows."""
    submit, run, cpu, mem = zip(*rows, strict=True)
    return Workload(
        ("cpu", "mem"), np.arange(len(rows)), np.array(submit, float), np.arange(len(rows) + 1),
        np.arange(len(rows)), np.ones(len(rows), np.int64),
        np.array([cpu, mem], float).T, np.array(run, float), np.array(run, float),
        np.ones(len(rows), bool), **columns,
    )  # fmt: skip


def pool_env(**arguments):
    """Return DeepRM's pool with 3 slots and a backlog of 1."""
    admission = {"slots": 3, "backlog": 1}
    return SchedulingEnv(deeprm(admission=admission), **arguments)


def play(env, choose, seed=0, options=None):
    """Play an episode; return the rewards, and the last info."""
    _, info = env.reset(seed=seed, options=options)
    rewards, over = [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(choose(env, info["action_mask"]))
        rewards.append(reward)
        over = terminated or truncated
    return rewards, info


def first_of(key):
    """Return a policy for `step`: the first waiting task by a key, or nothing before it fits."""

    def choose(env, mask):
        waiting = env.state.queue.tasks
        best = min(range(len(waiting)), key=lambda m: (key(waiting[m]), m), default=None)
        return best if best is not None and mask[best] else env.void

    return choose


def randomly(rng):
    return lambda env, mask: int(rng.integers(env.action_space.n))


def whatever_fits(env, mask):
    return int(np.argmax(mask))


def always_void(env, mask):
    return env.void


ORDERS = {
    "fcfs": lambda task: task.index,
    "sjf": lambda task: task.estimate_s,
}


# ---- the schedule is the native one ---------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_heuristics_through_step_give_the_schedule_of_the_run_event_driven(order):
    native = simkit.simulate(HPC, overrides={"policy.order": order})
    env = SchedulingEnv(HPC, "queue-table", slots=250, records=True)
    rewards, info = play(env, first_of(ORDERS[order]))
    for table in ("jobs", "allocations", "timeline", "tasks", "events"):
        assert env.records().scan(table).collect().equals(native.scan(table).collect()), table
    assert info["metrics"]["unfinished"] == 0
    assert info["metrics"]["slowdown"] == pytest.approx(native.metrics["slowdown"]["mean"])
    short = native.jobs.with_columns(run=pl.col("run_time_s").clip(1.0))
    slowdowns = (short["turnaround_time_s"] / short["run"]).sum()
    assert -sum(rewards) == pytest.approx(slowdowns, rel=1e-9)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_heuristics_through_step_give_the_schedule_of_the_run_slotted(order, seed):
    """The head of the order starts as soon as it fits now; reservations are the agent's alone."""
    native = simkit.simulate(DEEPRM, seed=seed, overrides={"policy.order": order})
    env = SchedulingEnv(DEEPRM, records=True)
    key = ORDERS[order]

    def choose(env, mask):
        waiting = env.state.queue.tasks
        head = min(waiting, key=lambda task: (key(task), task.index), default=None)
        if head is None or env.state.fit(head) is None:
            return env.void
        tracker = env._play.actions._tracker
        return next(slot for slot in range(env.void) if tracker.task(slot) is head)

    _, info = play(env, choose, seed)
    for table in ("jobs", "allocations", "timeline", "tasks", "events"):
        assert env.records().scan(table).collect().equals(native.scan(table).collect()), table
    assert info["metrics"]["jobs"] == native.jobs.height


def test_jobs_are_not_seen_before_their_release(tmp_path):
    table = tmp_path / "jobs.csv"
    table.write_text(
        "job_id,submit_time_s,run_time_s,processors,release_time_s,preceding_job,think_time_s\n"
        "1,0,100,4,,,\n2,0,50,4,,1,30\n3,5,50,4,,2,0\n4,5,10,1,300,1;2,\n"
    )
    scenario = {
        "workload": {"type": "jobs", "path": str(table)}, "cluster": {"processors": 8}
    }  # fmt: skip
    env, waits = SchedulingEnv(scenario), (0 + 130 + 175 + 295) / 4
    for seed in (1, 2):
        _, info = env.reset(seed=seed)
        over = False
        while not over:
            first = int(np.flatnonzero(info["action_mask"])[0])
            _, _, terminated, truncated, info = env.step(first)
            over = terminated or truncated
        assert info["metrics"]["wait_time_s"] == waits
    assert simkit.simulate(scenario).jobs["wait_time_s"].mean() == waits


def test_what_is_dropped_is_summed_up_as_what_is_kept():
    kept, dropped = SchedulingEnv(DEEPRM, records=True), SchedulingEnv(DEEPRM)
    assert (
        play(kept, randomly(np.random.default_rng(1)))[1]["metrics"]
        == (play(dropped, randomly(np.random.default_rng(1)))[1]["metrics"])
    )


# ---- what is shown unless the caller says otherwise -------------------------------------------------

DEFAULTS = {
    "quickstart": "queue-table",
    "cloud-quickstart": "queue-table",
    "deeprm": "deeprm-compact",
}


@pytest.mark.parametrize(("scenario", "observation"), DEFAULTS.items())
def test_every_bundled_scenario_has_an_observation(scenario, observation):
    env = SchedulingEnv(scenario)
    assert env.schema.name == observation
    check_env(env, skip_render_check=True)
    stated = SchedulingEnv(scenario, observation)
    assert np.array_equal(stated.reset(seed=1)[0], env.reset(seed=1)[0])


# ---- what a step does -----------------------------------------------------------------------------


def test_time_stands_still_while_tasks_are_placed():
    env = pool_env()
    _, info = env.reset(options={"workload": jobs((1, 2, 6, 6), (1, 3, 6, 6), (2, 1, 4, 4))})
    seen = [(info["time_s"], info["action_mask"].tolist())]
    rewards = []
    # place slot 0 (now), slot 1 (reserved for 3), then void: a step passes and job 2 arrives
    for action in (0, 1, 3, 0, 3, 3, 3, 3):
        _, reward, terminated, truncated, info = env.step(action)
        seen.append((info["time_s"], info["action_mask"].tolist()))
        rewards.append(reward)
    assert seen == [
        (1, [1, 1, 0, 1]), (1, [0, 1, 0, 1]), (1, [0, 0, 0, 1]),
        (2, [1, 0, 0, 1]), (2, [0, 0, 0, 1]),
        (3, [0, 0, 0, 1]), (4, [0, 0, 0, 1]), (5, [0, 0, 0, 1]), (6, [0, 0, 0, 1]),
    ]  # fmt: skip
    # jobs in the system: 0 and 1 until 2; all three until 3; then job 1 alone until 6
    lengths = (1 / 2 + 1 / 3, 1 / 2 + 1 / 3 + 1, 1 / 3)
    expected = [0, 0, -lengths[0], 0, -lengths[1], -lengths[2], -lengths[2], -lengths[2]]
    assert rewards == pytest.approx(expected)
    assert terminated
    assert not truncated
    metrics = info["metrics"]
    assert (metrics["unfinished"], metrics["decisions"], metrics["makespan_s"]) == (0, 8, 5)
    assert metrics["slowdown"] == pytest.approx((2 / 2 + 5 / 3 + 1) / 3)


@pytest.mark.parametrize(
    "action",
    [
        1,  # an empty slot
        0,  # a task that fits nowhere within the horizon
        3,  # void
    ],
)
def test_what_places_nothing_lets_time_go_on(action):
    env = pool_env()
    _, info = env.reset(options={"workload": jobs((0, 30, 6, 6))})
    assert info["action_mask"].tolist() == [0, 0, 0, 1]
    info = env.step(action)[4]
    assert info["time_s"] == 1


def test_nothing_left_to_happen_ends_an_event_driven_episode():
    """One job runs to its end; the others are withheld for ever, and are counted."""
    env = SchedulingEnv(HPC, "queue-table", "completion-time")
    env.reset(seed=0)
    started = env.step(0)
    assert started[1:4] == (0.0, False, False)
    over = False
    while not over:
        _, _, over, truncated, info = env.step(env.void)
    assert not truncated
    assert (info["metrics"]["finished"], info["metrics"]["unfinished"]) == (1, 249)


def test_an_episode_is_truncated():
    env = SchedulingEnv(DEEPRM, max_decisions=5)
    rewards, info = play(env, always_void)
    assert len(rewards) == 5
    assert info["metrics"]["unfinished"] == info["metrics"]["jobs"] > 0
    with pytest.raises(gymnasium.error.ResetNeeded, match="is over"):
        env.step(0)
    assert env.reset()[1]["cost"] == 0.0


def test_jobs_that_are_rejected_are_a_cost_and_unfinished():
    """Three slots and one place behind them, for five jobs at once and a sixth later."""
    load = jobs(*[(0, 1, 1, 1)] * 5, (1, 1, 1, 1))
    costly, free = pool_env(cost=["rejected"]), pool_env(cost=["killed"])
    for env, expected in ((costly, [1.0, 1.0]), (free, [0.0, 0.0])):
        costs = [env.reset(options={"workload": load})[1]["cost"], env.step(env.void)[4]["cost"]]
        assert costs == expected
    infos = [costly.step(0)[4] for _ in range(4)]
    assert [info["cost"] for info in infos] == [0.0] * 4
    metrics = play(costly, whatever_fits, options={"workload": load})[1]["metrics"]
    assert (metrics["finished"], metrics["rejected"], metrics["unfinished"]) == (5, 1, 1)


def test_a_workload_whose_jobs_are_all_rejected_is_over_at_its_first_step():
    env = pool_env(cost=["rejected"])
    env.reset(options={"workload": jobs((0, 1, 11, 1))})
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["metrics"]["rejected"]) == (0.0, True, 1)


def test_the_action_mask_is_what_would_place():
    env, rng = SchedulingEnv(DEEPRM), np.random.default_rng(5)
    _, info = env.reset(seed=5)
    for _ in range(200):
        mask = info["action_mask"]
        assert mask.tolist() == env.action_masks().tolist()
        action = int(rng.integers(env.action_space.n))
        waiting, now = len(env.state.queue) + env.state.backlog, env.state.now
        over, info = env.step(action)[2::2]
        placed = len(env.state.queue) + env.state.backlog < waiting and env.state.now == now
        assert placed == (bool(mask[action]) and action != env.void)
        if over:
            info = env.reset()[1]


# ---- seeds ----------------------------------------------------------------------------------------


def trajectory(env, steps=60):
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=4)
    seen = [info["seed"]]
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(
            int(rng.integers(env.action_space.n))
        )
        seen += [observation.tobytes(), reward, terminated, truncated]
        if terminated or truncated:
            seen.append(env.reset()[1]["seed"])
    return seen


def test_a_seed_is_that_of_the_scenario_and_repeats_itself():
    env = SchedulingEnv(DEEPRM, records=True)
    assert trajectory(env, 200) == trajectory(env, 200) == trajectory(SchedulingEnv(DEEPRM), 200)
    play(env, always_void, seed=4)
    submits = env.records().jobs["submit_time_s"]
    native = simkit.simulate(DEEPRM, seed=4).jobs
    assert sorted(submits) == sorted(native["submit_time_s"])


def test_without_a_seed_environments_play_different_episodes():
    """The scenario's seed, plus the number of the environment among those that live."""
    envs = [SchedulingEnv(deeprm(seed=9)) for _ in range(4)]
    seeds = [[env.reset()[1]["seed"] for _ in range(3)] for env in envs]
    assert len({seed for row in seeds for seed in row}) == 12
    begins = [first for first, *_ in seeds]
    assert begins == list(range(begins[0], begins[0] + 4))
    twin = SchedulingEnv(deeprm(seed=9))
    twin.reset(seed=begins[2])
    assert [twin.reset()[1]["seed"] for _ in range(2)] == seeds[2][1:]
    del envs[1:3]
    others = [SchedulingEnv(deeprm(seed=9)) for _ in range(2)]
    assert [env.reset()[1]["seed"] for env in others] == begins[1:3]


def test_a_log_is_the_same_under_every_seed_unless_it_is_resampled():
    def submits(env, seed):
        env.reset(seed=seed)
        return env._episodes.prepare(seed).trace.workload.submit_time_s.tolist()

    plain = SchedulingEnv(HPC, "queue-table")
    assert submits(plain, 1) == submits(plain, 2)
    drawn = HPC | {"workload": HPC["workload"] | {"resample": {"weeks": 1}, "window": None}}
    resampled = SchedulingEnv(drawn, "queue-table")
    assert submits(resampled, 1) != submits(resampled, 2)
    assert submits(resampled, 1) == submits(resampled, 1)


def test_a_reset_lets_the_last_simulation_go():
    env = SchedulingEnv(DEEPRM)
    env.reset(seed=0)
    env.step(0)
    old = weakref.ref(env._episode._simulation)
    env.reset(seed=1)
    gc.collect()
    assert old() is None


def test_one_of_the_original_job_sets():
    workload = deeprm()["workload"] | {"offered_load": None, "rate": 0.379}
    env = SchedulingEnv(deeprm(workload=workload))
    counts = set()
    for number in (0, 1):
        sets = [env._episodes.prepare(seed, original_set=number) for seed in (0, 1)]
        times = [s.trace.workload.submit_time_s.tolist() for s in sets]
        assert times[0] == times[1]
        counts.add(tuple(times[0]))
        env.reset(options={"original_set": number})
    assert len(counts) == 2


# ---- what Gymnasium asks for ----------------------------------------------------------------------

KINDS = {
    "compact": ("simkit/DeepRM-v0", {}),
    "image": ("simkit/DeepRM-v0", {"observation": "deeprm-image"}),
    "joined": ("simkit/DeepRM-v0", {"observation": "deeprm-compact+queue-table"}),
    "log": ("simkit/Scheduling-v0", {}),
    "two rewards": ("simkit/Scheduling-v0", {"reward": {"slowdown": 1.0, "utilisation": 0.5}}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_gymnasiums_checker_has_nothing_to_say(kind):
    name, arguments = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name, **arguments)
        check_env(env.unwrapped)
    env.close()
    env.close()


def test_a_line_of_text():
    env = pool_env(render_mode="ansi")
    env.reset(options={"workload": jobs((0, 2, 6, 5))})
    env.step(0)
    assert env.render() == (
        "0 s: 0 waiting, 0 behind them, 0 reserved, 1 running; free: 4 cpu, 5 mem"
    )


# ---- mistakes -------------------------------------------------------------------------------------

MISTAKES = [
    # no scenario of that name
    ({"scenario": "deeprn"}, "did you mean 'deeprm'"),
    # an observation that does not exist
    ({"observation": "deeprm-compct"}, "did you mean 'deeprm-compact'"),
    # a reward that does not exist
    ({"reward": "slowdwn"}, "did you mean 'slowdown'"),
    # numbered slots of a scenario without steps
    ({"scenario": HPC, "observation": "deeprm-compact"},
     "numbered slots, which only slotted time has; take queue-table, or add `scheduling: {step"),
    # several machines in slotted time
    ({"scenario": deeprm(cluster={"machines": [{"count": 2, "cpu": 10, "mem": 10}]})}, "one pool"),
    # slotted time without a number of slots
    ({"scenario": deeprm(admission={})}, r"add `admission: \{slots: 10\}`"),
    # a scenario that stands for many
    ({"scenario": "backfilling-sweep"}, "stands for several runs"),
    # dimensions that are none
    ({"horizon": 0}, "horizon: must be at least 1, not 0"),
    ({"unit": (1.0,)}, "one number for each of cpu, mem"),
    # no number of slots: 0 is not "as the scenario says"
    ({"slots": 0}, "slots: must be at least 1, not 0"),
    ({"slots": True}, "slots"),
    ({"max_decisions": 2.5}, "max_decisions: must be a whole number, not 2.5"),
    # settings of the environment itself, all at once
    ({"max_decisions": 0, "cost": ["late"], "render_mode": "human"},
     "(?s)max_decisions: .*cost.0: unknown value 'late'.*render_mode: "),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_told(arguments, message):
    with pytest.raises(SimkitError, match=message):
        SchedulingEnv(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workload": "swf"}, "must be a simkit.Workload"),
        ({"set": 1}, "'set' is unknown"),
        ({"workload": jobs((0, 1, 1, 1)), "original_set": 0}, "leave one of them out"),
    ],
)
def test_options_that_are_none(options, message):
    with pytest.raises(ScenarioError, match=message):
        SchedulingEnv(DEEPRM).reset(options=options)


def test_a_log_has_no_numbered_sets():
    with pytest.raises(ScenarioError, match="has no numbered job sets"):
        SchedulingEnv(HPC, "queue-table").reset(options={"original_set": 0})


def test_what_is_asked_too_early():
    env = SchedulingEnv(DEEPRM)
    for ask in (lambda: env.step(0), lambda: env.state, env.action_masks):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            ask()
    env.reset(seed=0)
    with pytest.raises(RunError, match="records=True"):
        env.records()
    with pytest.raises(PolicyError, match="action 11 is not one of"):
        env.step(11)


@pytest.mark.parametrize("action", [1.5, 1.0, True, np.float32(1), "1", None, np.array([1])])
def test_an_action_is_a_whole_number(action):
    env = SchedulingEnv(DEEPRM)
    env.reset(seed=0)
    with pytest.raises(PolicyError, match="is not a whole number"):
        env.step(action)


@pytest.mark.parametrize("action", [1, np.int64(1), np.uint8(1), np.array(1)])
def test_whole_numbers_of_every_kind_are_actions(action):
    env = SchedulingEnv(DEEPRM)
    env.reset(seed=0)
    env.step(action)


def test_without_gymnasium_the_extra_is_named():
    code = "import sys; sys.modules['gymnasium'] = None; import simkit.env"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'simkit-cluster[gym]'" in told.stderr
