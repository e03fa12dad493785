"""Environments in processes are as many single ones: every number, mask, reward, cost and metric."""

from __future__ import annotations

import gc
from functools import partial

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv  # noqa: E402

from simkit.env import MaskedObservation, SchedulingEnv, vector_env  # noqa: E402
from simkit.errors import ScenarioError  # noqa: E402

pytestmark = pytest.mark.long

COUNT = 2
CONTEXT = {"sync": {}, "async": {"context": "spawn"}}
"""Forked processes would wait for ever for the threads of polars, which reads traces and tables."""
WINDOWS = {
    "scenario": "quickstart", "observation": "queue-set", "slots": 12, "actions": "next-head",
    "reward": "bounded-slowdown", "episode": {"jobs": 20}, "metrics": "run",
}  # fmt: skip
CASES = {
    # every episode another window of a log; the agent chooses heads
    "windows": ("simkit/Scheduling-v0", WINDOWS),
    # machines, a truncated episode, two rewards, costs
    "cloud": (
        "simkit/Scheduling-v0",
        {"scenario": "cloud-quickstart", "observation": "queue-set+machine-set",
         "reward": {"wait": 1.0, "utilisation": 0.5}, "cost": ["killed"], "max_decisions": 40},
    ),
    # what the lock-step environment plays as well
    "slots": ("simkit/DeepRM-v0", {"scenario": "deeprm", "cost": ["rejected"]}),
}  # fmt: skip


def assert_same(infos, wanted, where="infos"):
    """Compare nested infos of vector environments."""
    assert infos.keys() == wanted.keys(), where
    for key, value in infos.items():
        if isinstance(value, dict):
            assert_same(value, wanted[key], f"{where}.{key}")
        else:
            for one, other in zip(value, wanted[key], strict=True):
                np.testing.assert_equal(one, other, f"{where}.{key}")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "case", "mode"),
    [
        ("async", "windows", "SameStep"),
        ("async", "cloud", "NextStep"),
        ("sync", "slots", "NextStep"),
    ],
)
def test_make_vec_gives_as_many_single_ones(case, kind, mode):
    """Gymnasium's own vector over single environments is what one in processes is held to."""
    name, arguments = CASES[case]
    mode = AutoresetMode(mode)
    envs = gymnasium.make_vec(
        name, num_envs=COUNT, vectorization_mode=kind,
        vector_kwargs={"autoreset_mode": mode} | CONTEXT[kind], **arguments,
    )  # fmt: skip
    alone = SyncVectorEnv([lambda: SchedulingEnv(**arguments)] * COUNT, autoreset_mode=mode)
    try:
        assert isinstance(envs, {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[kind])
        assert envs.metadata["autoreset_mode"] is mode
        assert envs.single_observation_space == alone.single_observation_space
        assert envs.single_action_space == alone.single_action_space
        (seen, infos), (there, wanted) = envs.reset(seed=7), alone.reset(seed=7)
        rng, ends = np.random.default_rng(3), 0
        for _ in range(150):
            assert np.array_equal(seen, there)
            assert_same(infos, wanted)
            actions = (rng.random(infos["action_mask"].shape) * infos["action_mask"]).argmax(axis=1)
            (seen, *now, infos), (there, *then, wanted) = envs.step(actions), alone.step(actions)
            np.testing.assert_equal(now, then)
            ends += int((now[1] | now[2]).sum())
        assert ends >= 2
    finally:
        envs.close()


@pytest.mark.parametrize("kind", ["sync", pytest.param("async", marks=pytest.mark.thorough)])
def test_the_mask_is_a_key_of_the_observation_if_it_is_asked_for(kind):
    envs = gymnasium.make_vec(
        "simkit/Scheduling-v0", num_envs=COUNT, vectorization_mode=kind,
        wrappers=[MaskedObservation], vector_kwargs=CONTEXT[kind], **WINDOWS,
    )  # fmt: skip
    try:
        seen, infos = envs.reset(seed=1)
        for _ in range(60):
            assert (seen["action_mask"] == infos["action_mask"]).all()
            assert seen["observation"].shape == (COUNT, 12, 12)
            assert seen["action_mask"].any(axis=1).all()
            seen, *_, infos = envs.step(seen["action_mask"].argmax(axis=1))
    finally:
        envs.close()


def test_the_fast_one_is_replaced_where_it_does_not_know_the_episodes():
    with pytest.warns(UserWarning, match="episode: "):
        envs = gymnasium.make_vec(
            "simkit/DeepRM-v0", num_envs=2, episode={"jobs": 10, "from": "all"},
            autoreset_mode="SameStep",
        )  # fmt: skip
    assert isinstance(envs, SyncVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert (envs.reset(seed=0)[1]["first_job"] >= 0).all()


@pytest.mark.parametrize("count", [0, -1, "2"])
def test_at_least_one_environment(count):
    with pytest.raises(ScenarioError, match="at least 1"):
        vector_env(count)


# ---- seeds of replicas ----------------------------------------------------------------------------


class Told:
    """The seeds that replicas of Stable-Baselines3's vectors play."""

    def __init__(self, envs):
        self.envs = envs

    def reset(self, seed=None):
        if seed is not None:
            self.envs.seed(seed)
        observations = self.envs.reset()
        infos = {"seed": np.array([info["seed"] for info in self.envs.reset_infos])}
        return observations, infos

    def close(self):
        self.envs.close()


def slow_fallback(**arguments):
    with pytest.warns(UserWarning, match="metrics: "):
        return gymnasium.make_vec("simkit/DeepRM-v0", num_envs=3, metrics="run", **arguments)


def of_sb3(kind):
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")
    if kind == "dummy":
        return Told(vectors.DummyVecEnv([lambda: SchedulingEnv("deeprm")] * 3))
    from stable_baselines3.common.env_util import make_vec_env

    if kind == "make_vec_env":
        return Told(make_vec_env(SchedulingEnv, 3, env_kwargs={"scenario": "deeprm"}))
    return Told(vectors.SubprocVecEnv([partial(SchedulingEnv, "deeprm")] * 3, start_method="spawn"))


def gymnasium_made(mode):
    kwargs = {} if mode is None else {"vectorization_mode": mode, "vector_kwargs": CONTEXT[mode]}
    return gymnasium.make_vec("simkit/DeepRM-v0", num_envs=3, **kwargs)


VECTORS = {
    "lock-step": lambda: gymnasium_made(None),
    "sync": lambda: gymnasium_made("sync"),
    "async": lambda: gymnasium_made("async"),
    "fallback": slow_fallback,
    "own": lambda: SyncVectorEnv([lambda: SchedulingEnv("deeprm")] * 3),
    "DummyVecEnv": lambda: of_sb3("dummy"),
    "SubprocVecEnv": lambda: of_sb3("processes"),
}


IN_PROCESSES = ("async", "DummyVecEnv", "SubprocVecEnv")
"""What starts processes, or needs Stable-Baselines3."""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=pytest.mark.thorough) if k in IN_PROCESSES else k for k in VECTORS],
)
def test_replicas_without_a_seed_differ_and_with_one_are_those_of_every_vector(kind):
    envs = VECTORS[kind]()
    try:
        unseeded = [*envs.reset()[1]["seed"], *envs.reset()[1]["seed"]]
        assert len({*unseeded}) == 6
        first, infos = envs.reset(seed=5)
        assert infos["seed"].tolist() == [5, 6, 7]
        later = envs.reset()[1]["seed"].tolist()
    finally:
        envs.close()
    alone = SchedulingEnv("deeprm")
    for row in range(3):
        assert np.array_equal(alone.reset(seed=5 + row)[0], first[row])
        assert alone.reset()[1]["seed"] == later[row]


def test_a_vector_that_nobody_seeds_plays_the_same_however_often_it_is_made():
    found = {}
    for mode in (None, "sync", "async", None, "sync"):
        envs = gymnasium_made(mode)
        seeds = envs.reset()[1]["seed"].tolist()
        envs.close()
        del envs
        gc.collect()
        assert found.setdefault(mode, seeds) == seeds
    assert found[None] == found["sync"]
    assert found["async"] == [0, 1, 2]


@pytest.mark.thorough
def test_make_vec_env_of_stable_baselines3_seeds_its_replicas():
    make = pytest.importorskip("stable_baselines3.common.env_util").make_vec_env
    envs = Told(make(SchedulingEnv, 3, seed=5, env_kwargs={"scenario": "deeprm"}))
    assert envs.reset()[1]["seed"].tolist() == [5, 6, 7]
    assert len({*of_sb3("make_vec_env").reset()[1]["seed"]}) == 3


def test_windows_of_a_log_differ_as_well():
    envs = gymnasium.make_vec("simkit/Scheduling-v0", num_envs=4, episode={"jobs": 16})
    assert len({*envs.reset()[1]["first_job"]}) > 1


# ---- a limit of steps -----------------------------------------------------------------------------

IDS = {"simkit/DeepRM-v0": {}, "simkit/Scheduling-v0": {"scenario": "quickstart"}}


LIMITS = [
    {"max_episode_steps": 20},
    {"max_decisions": 20},
    {"max_episode_steps": 20, "max_decisions": 30},
    {"max_episode_steps": 30, "max_decisions": 20},
    {"max_episode_steps": -1, "max_decisions": 20},
]


@pytest.mark.parametrize(
    ("name", "mode", "limit"),
    [*((name, mode, limit) for name in IDS for mode in (None, "sync") for limit in LIMITS),
     pytest.param("simkit/Scheduling-v0", "async", LIMITS[0], marks=pytest.mark.thorough)],
)  # fmt: skip
def test_episodes_are_cut_after_so_many_steps(name, mode, limit):
    kwargs = {"vectorization_mode": mode, "vector_kwargs": CONTEXT[mode]} if mode else {}
    envs = gymnasium.make_vec(name, num_envs=2, **limit, **kwargs, **IDS[name])
    try:
        envs.reset(seed=0)
        for step in range(1, 43):
            _, _, over, cut, _ = envs.step(np.zeros(2, int))
            assert not over.any()
            assert cut.all() == cut.any() == (step in (20, 41))  # 21 begins the next episode
    finally:
        envs.close()


def test_one_environment_and_the_fallback_are_cut_as_well():
    env = gymnasium.make("simkit/DeepRM-v0", max_episode_steps=20)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(20)] == [False] * 19 + [True]
    envs = slow_fallback(max_episode_steps=20)
    envs.reset(seed=0)
    steps = [envs.step(np.zeros(3, int)) for _ in range(20)]
    assert [cut.all() for _, _, _, cut, _ in steps] == [False] * 19 + [True]
    assert steps[-1][4]["metrics"]["decisions"].tolist() == [20, 20, 20]


@pytest.mark.parametrize("limit", [0, -2, 2.5, "20", True])
def test_a_limit_that_is_none_is_refused_in_words(limit):
    with pytest.raises(ScenarioError, match="max_episode_steps is .*; it must be a whole number"):
        gymnasium.make_vec("simkit/DeepRM-v0", num_envs=2, max_episode_steps=limit)
