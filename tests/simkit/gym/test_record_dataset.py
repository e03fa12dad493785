"""What is recorded is what the Gymnasium environment shows: played back, it is the same to the byte."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pytest.importorskip("gymnasium")

import simkit
from simkit.agent.encoder import ObservationSchema
from simkit.env import SchedulingEnv
from simkit.errors import LimitError, PolicyError, RunError, ScenarioError, TraceError
from simkit.gym.dataset import read_dataset
from simkit.gym.record_dataset import Recording, record
from simkit.learners.agent import load_agent
from simkit.learners.networks.inference import masked_log_softmax
from simkit.policy import Place, Reject, Suspend
from simkit.scenario.bundled import agent_folder, scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training.train import train


def loaded(name="rare", **overrides):
    overrides = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_scenario(scenario_path(name), overrides=overrides)


def rare(policy, **overrides):
    return loaded(policy=policy, workload__jobs=60, workload__offered_load=1.2, **overrides)


def ready(order="fcfs", horizon="12h", **args):
    return {"order": order, "backfill": {"type": "ready-pool", "horizon": horizon} | args}


POOL = {"actions": "ready-pool", "action_arguments": {"max_start": 12}, "reward": "value"}
NOW = {"actions": "ready-pool", "action_arguments": {"max_start": 0}, "reward": "value"}
HPC = {
    "name": "hpc",
    "workload": {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 120}},
    "policy": {"order": "fcfs", "backfill": "none"},
}


def hpc(order, backfill="none"):
    return load_scenario(HPC | {"policy": {"order": order, "backfill": backfill}})


CASES = {
    # what the policy is, and how an agent would act: (scenario, arguments)
    "stay": lambda: (rare(ready("value")), POOL),
    "leave": lambda: (rare(ready("sjf", "0h"), admission__late="leave"), NOW),
    "left-over": lambda: (rare(ready(choose="left-over")), POOL),
    "left-over leave": lambda: (rare(ready("qos", "0h", choose="left-over"), admission__late="leave"), NOW),
    "least qos": lambda: (rare(ready("qos", "0h", least_qos=0.35), admission__late="leave"), NOW),
    "of a reward at the decision": lambda: (rare(ready("qos")), POOL | {"reward": {"utilisation": 1.0}}),
    "image": lambda: (rare(ready("qos")), POOL | {"observation": "ready-image"}),
    "cut off": lambda: (rare(ready("qos")), POOL | {"max_decisions": 7}),
    "out of time": lambda: (rare(ready("qos"), limits__simulated_time="50h"), POOL),
    "start fcfs": lambda: (hpc("fcfs"), {"slots": 120, "reward": "slowdown"}),
    "start sjf": lambda: (hpc("sjf"), {"slots": 120}),
    "start easy": lambda: (hpc("sjf", "easy"), {"slots": 120, "cost": {"slowdown": 1.0, "wait": 0.1}}),
    "next-head": lambda: (
        hpc("sjf"), {"slots": 120, "actions": "next-head", "action_arguments": {"hold": True}}),
    "pick": lambda: (
        hpc("fcfs", "easy"), {"slots": 120, "actions": "pick", "action_arguments": {"hold": True}}),
    "windows": lambda: (hpc("fcfs"), {"slots": 50, "episode": {"jobs": 20, "from": "train"}}),
    "classes": lambda: (
        hpc("fcfs"), {"actions": "classes", "slots": 8,
                     "action_arguments": {"step": "2h", "starts": "now", "patience": 1000}}),
    "power": lambda: (
        loaded("green-quickstart", policy={"order": "fcfs"}, workload__jobs=150), {"slots": 150}),
    "power, ready pool": lambda: (
        loaded("green-quickstart", policy={"path": f"{__file__}:Waits"}, workload__jobs=150),
        {"actions": "ready-pool", "slots": 150,
         "action_arguments": {"max_start": 0, "horizon": 500, "suspend": 2}}),
    "slots": lambda: (loaded("deeprm", policy={"order": "fcfs"}), {"reward": "slowdown"}),
}  # fmt: skip
SEEDS = (0, 3)


def env_of(scenario, given, **more):
    """Return the environment with the arguments of a recording."""
    shown = {key: value for key, value in given.items() if not key.startswith("cost")}
    return SchedulingEnv(scenario, records=True, **shown, **more)


@pytest.mark.parametrize("case", CASES)
def test_played_back_it_is_the_same_to_the_byte(case, tmp_path):
    scenario, given = CASES[case]()
    path = tmp_path / "a.parquet"
    done = record(scenario, path, Recording(**given), SEEDS)
    data = read_dataset(path)
    reward = data.facts["reward"]["reward"]
    env = env_of(scenario, {**given, "reward": reward})
    assert env.schema == ObservationSchema.from_json(data.facts["observation"])
    assert data.facts["actions"]["count"] == env.action_space.n
    starts = data.starts
    assert done.episodes == len(starts) - 1 == len(SEEDS)
    for first, last, seed in zip(starts, starts[1:], SEEDS, strict=False):
        played_back(data, env, first, last, seed)
        if data.truncated[last - 2] or "episode" in given:
            continue
        native = simkit.simulate(scenario, seed=seed)
        for table in ("jobs", "allocations", "tasks"):
            assert env.records().scan(table).collect().equals(native.scan(table).collect()), table


def played_back(data, env, first, last, seed):
    """Give an environment the recorded actions of an episode; all that it shows must be equal."""
    seen, info = env.reset(seed=seed)
    for row in range(first, last - 1):
        assert_array_equal(data.observation[row], seen.reshape(-1))
        assert_array_equal(data.mask[row], info["action_mask"])
        assert data.seed[row] == seed
        assert info["action_mask"][data.action[row]]
        before = info["time_s"]
        seen, earned, terminated, truncated, info = env.step(data.action[row])
        assert earned == data.reward[row]
        assert (terminated, truncated) == (data.terminated[row], data.truncated[row])
        if not (terminated or truncated):
            assert data.passed_s[row] == info["time_s"] - before
    assert terminated or truncated
    assert data.action[last - 1] == -1
    assert_array_equal(data.observation[last - 1], seen.reshape(-1))
    assert_array_equal(data.mask[last - 1], info["action_mask"])


def test_a_cost_is_a_reward_with_the_opposite_sign(tmp_path):
    scenario = rare(ready("qos"))
    given = POOL | {"cost": {"wait": 0.5, "utilisation": -1.0}}
    record(scenario, tmp_path / "a.parquet", Recording(**given), [2])
    data = read_dataset(tmp_path / "a.parquet")
    env = SchedulingEnv(scenario, **{**POOL, "reward": given["cost"]})
    env.reset(seed=2)
    earned = [env.step(action)[1] for action in data.action[:-1]]
    assert_array_equal(-np.array(earned), data.cost[:-1])
    assert (data.cost > 0).any()


# ---- the numbers ----------------------------------------------------------------------------------


def test_what_the_columns_add_up_to(tmp_path):
    """Rewards to the value of the jobs in time, costs to the steps that jobs wait, times to all."""
    scenario = rare(ready("qos", "12h"))
    record(scenario, tmp_path / "a.parquet", Recording(**POOL), [5])
    data, run = read_dataset(tmp_path / "a.parquet"), simkit.simulate(scenario, seed=5)
    jobs = run.jobs
    due = jobs["submit_time_s"] + jobs["run_time_s"] / jobs["qos"]
    in_time = jobs["value"].filter(jobs["end_time_s"] <= due)
    assert data.reward.sum() == pytest.approx(in_time.sum())
    first = data.passed_s.sum()
    waited = jobs["wait_time_s"].sum() / 3600
    assert 0 <= waited - data.cost.sum() <= 5 * 24  # all but what came before the first decision
    assert first == jobs["end_time_s"].max() - jobs["submit_time_s"].min() // 3600 * 3600
    assert (data.probability[data.action >= 0] == 1.0).all()
    assert data.facts["reward"] == {"reward": "value", "arguments": {}}
    assert data.facts["cost"] == {"cost": "wait", "arguments": {"time_unit_s": 3600.0}}
    assert data.facts["scenario"]["name"] == "rare"
    assert data.facts["seeds"] == [5]


# ---- policies that reject, suspend, draw ----------------------------------------------------------


class Picky:
    """Rejects tasks below a quality of service, starts what fits now; draws with a probability."""

    probability = 1.0

    def reset(self, info, rng):
        self._draws = 0

    def schedule(self, state):
        for task in state.queue:
            self._draws += 1
            self.probability = 1 / (1 + self._draws % 3)
            if task.qos < 0.3 and state.rejectable(task):
                yield Reject(task, "it is picky")
            elif on := state.fit(task):
                yield Place(task, on)


class Waits:
    """Starts what fits through its estimate as power is forecast; resumes nothing by itself."""

    def reset(self, info, rng):
        pass

    def schedule(self, state):
        for task in state.queue:
            if on := state.profile().fit(task, state.now):
                yield Place(task, on)


class Stops:
    """Starts what fits now, and in the third step stops what began last."""

    def reset(self, info, rng):
        self._calls = 0

    def schedule(self, state):
        self._calls += 1
        for task in state.queue:
            if on := state.fit(task):
                yield Place(task, on)
        if self._calls % 9 == 3 and state.running:
            yield Suspend(next(reversed(state.running)))


def of_class(kind, scenario):
    """Return the scenario with a policy of this file."""
    policy = {"path": f"{__file__}:{kind.__name__}"}
    return load_scenario({**scenario.model_dump(mode="json"), "policy": policy})


OWN = {
    Picky: {"max_start": 0, "reject": True},
    Stops: {"max_start": 0, "suspend": 2},
}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("more", [{}, {"reject": True, "suspend": 3}])
def test_other_actions_than_placements(kind, more, tmp_path):
    scenario = of_class(kind, rare(ready()))
    told = {**OWN[kind], **more}
    given = {"actions": "ready-pool", "action_arguments": told, "reward": "value"}
    record(scenario, tmp_path / "a.parquet", Recording(**given), [1])
    data, env = read_dataset(tmp_path / "a.parquet"), SchedulingEnv(scenario, **given)
    assert ((data.action >= 5) & (data.action < env.void)).sum() > 3
    played_back(data, env, 0, len(data), 1)
    if kind is Picky:
        assert set(np.round(data.probability[data.action >= 0], 3)) == {0.333, 0.5, 1.0}


# ---- what cannot be recorded ----------------------------------------------------------------------


class Ahead(Picky):
    def schedule(self, state):
        for task in state.queue:
            yield Place(task, ((0, 1),), state.now + 90 * 3600.0)


class Broken(Picky):
    def schedule(self, state):
        raise KeyError("x")


class NoSchedule(Picky):
    def schedule(self, state):
        return 7


ONE = {"actions": "ready-pool", "action_arguments": {"max_start": 0}}
REFUSED = [
    # (scenario, arguments, kind of error, what it says)
    (lambda: rare(ready("qos", "48h")), ONE, RunError,
     r"policy qos\+ready-pool.* at \d+ s: places job \d+ on .*, to start at \d+ s, "
     "(which none of the numbered|when no agent is asked).*lower the policy's horizon"),
    (lambda: of_class(Picky, rare(ready())), ONE, RunError, "rejects job .*take the actions ready-pool with reject"),
    (lambda: of_class(Stops, rare(ready())), ONE, RunError, "suspends job .*suspend: 4"),
    (lambda: of_class(Ahead, rare(ready())), ONE, RunError, "to start at"),
    (lambda: of_class(Broken, rare(ready())), ONE, PolicyError, "Broken failed at .* s: KeyError: 'x'"),
    (lambda: of_class(NoSchedule, rare(ready())), ONE, PolicyError, "schedule returned 7; it must yield"),
    (lambda: hpc("sjf"), {"actions": "next-head", "slots": 120}, RunError, "does nothing more, but an agent.*hold: true"),
    (lambda: hpc("sjf"), {"slots": 1}, RunError, "which none of the numbered actions means"),
    (lambda: hpc("fcfs", {"type": "ready-pool", "horizon": "0h"}), {"slots": 120}, RunError, "asks for a decision at .*scheduling"),
    (lambda: hpc("fcfs"), {"reward": "value"}, ScenarioError, "the jobs have no value"),
    (lambda: hpc("fcfs"), {"reward": "speed"}, Exception, "speed"),
    (lambda: hpc("fcfs"), {"actions": "classes"}, ScenarioError, "step"),
    (lambda: rare(ready(), limits__decisions=2), ONE, LimitError, "limits.decisions"),
    (lambda: load_scenario({**HPC, "workload": {"type": "deeprm", "rate": 0.001}}), {}, TraceError, "no job"),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_what_cannot_be_recorded_is_told_in_a_sentence(row, tmp_path):
    scenario, given, kind, said = REFUSED[row]
    with pytest.raises(kind, match=said):
        record(scenario(), tmp_path / "a.parquet", Recording(**given), [0])
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_are_told_all_at_once():
    with pytest.raises(ScenarioError) as caught:
        Recording(**{"rewards": "value", "slot": 3})
    assert len(caught.value.problems) == 2
    assert "did you mean 'reward'?" in "".join(caught.value.problems)
    with pytest.raises(ScenarioError) as caught:
        Recording(**{"slots": 0, "max_decisions": 0, "reward_arguments": 3})
    assert len(caught.value.problems) == 3
    wrong = {"horizon": "x", "max_length": 1.5, "memory": True, "backlog_shown": [], "unit": [1, "a"],
             "observation": 3, "reward": 3, "cost": [1]}  # fmt: skip
    with pytest.raises(ScenarioError) as caught:
        Recording(**wrong)
    keys = [line.partition(": ")[0] for line in caught.value.problems]
    assert sorted(keys) == sorted(f"environment.{key}" for key in wrong)


def test_no_seed_is_no_episode(tmp_path):
    with pytest.raises(ScenarioError, match="name at least one"):
        record(hpc("fcfs"), tmp_path / "a.parquet", Recording(), [])


def test_the_environment_is_cut_off_as_its_simulated_time_is_over():
    env = SchedulingEnv(rare(ready(), limits__simulated_time="30h"), **POOL)
    _, info = env.reset(seed=0)
    over = False
    while not over:
        _, _, terminated, over, info = env.step(int(np.argmax(info["action_mask"])))
        assert not terminated
    assert info["metrics"]["unfinished"] > 0


def test_an_agent_that_draws_tells_how_likely_its_action_was(tmp_path):
    folder = agent_folder("deeprm-70", tmp_path)
    agent = load_agent(folder)
    given = {
        "reward": "slowdown", "observation": agent._schema.name, "action_arguments": {"mask": "now"},
    }  # fmt: skip
    scenario = loaded("deeprm", policy={"agent": str(folder), "args": {"choose": "sample"}})
    record(scenario, tmp_path / "a.parquet", Recording(**given), [4])
    data, env = read_dataset(tmp_path / "a.parquet"), SchedulingEnv(scenario, records=True, **given)
    played_back(data, env, 0, len(data), 4)
    assert env.records().jobs.equals(simkit.simulate(scenario, seed=4).jobs)
    env.reset(seed=4)
    for row, action in enumerate(data.action[:-1]):
        chances = masked_log_softmax(agent._network.logits(data.observation[row]), data.mask[row])
        assert data.probability[row] == pytest.approx(np.exp(chances[action]))
        env.step(action)
    assert data.probability[:-1].min() < 1.0


def test_an_agent_of_a_ready_pool_tells_it_too(tmp_path):
    pytest.importorskip("torch")
    small = {"games": 2, "decisions": 4, "hours": 60, "hidden": 8, "batch": 8, "held_out_sets": 2}
    learn = {
        "learner": "cocorl", "iterations": 1, "criterion": "lost_value",
        "arguments": small | {"reject": True},
    }  # fmt: skip
    scenario = rare(ready(), admission__late="leave")
    taught = load_scenario({**scenario.model_dump(mode="json"), "learn": learn})
    folder = train(taught, tmp_path / "training").agent
    policy = {"agent": str(folder), "args": {"choose": "sample"}}
    scenario = load_scenario({**scenario.model_dump(mode="json"), "policy": policy})
    given = {"actions": "ready-pool", "action_arguments": {"max_start": 0, "reject": True}}
    record(scenario, tmp_path / "a.parquet", Recording(**given), [6])
    data, env = (
        read_dataset(tmp_path / "a.parquet"),
        SchedulingEnv(scenario, reward="value", **given),
    )
    played_back(data, env, 0, len(data), 6)
    logits = load_agent(folder)._network.logits(data.observation[:-1])
    likely = np.exp(masked_log_softmax(logits, data.mask[:-1]))
    expected = likely[np.arange(len(likely)), data.action[:-1]]
    np.testing.assert_allclose(data.probability[:-1], expected, rtol=1e-4)
    assert data.probability[:-1].min() < 0.9
