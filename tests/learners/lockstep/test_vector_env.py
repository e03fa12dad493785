"""The lock-step vector environment is as many `simkit.env`, step by step and episode by episode."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.vector import SyncVectorEnv  # noqa: E402

from simkit.env import SchedulingEnv  # noqa: E402
from simkit.errors import NoJobsError, PolicyError, ScenarioError  # noqa: E402
from simkit.learners.lockstep.vector_env import SHAPES, SINGLE, LockstepVectorEnv  # noqa: E402

CROWDED = {
    "name": "crowded",
    "workload": {"type": "deeprm", "offered_load": 1.6, "steps": 20},
    "cluster": {"machines": [{"count": 1, "cpu": 10, "mem": 10}]},
    "admission": {"slots": 3, "backlog": 2},
    "estimates": "actual",
    "scheduling": {"step": "1s"},
}
"""Short episodes in which jobs are rejected."""
EMPTY_AT_TIMES = CROWDED | {"workload": {"type": "deeprm", "rate": 0.1, "steps": 12}, "seed": 1}
"""Some seeds draw no job, as 0; 1 to 10 draw some."""


def assert_same(one, other, where="infos"):
    """Compare nested infos; means may differ by rounding."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif one.dtype == object:
        for mine, theirs in zip(one, other, strict=True):
            assert (mine is None) == (theirs is None), where
            assert mine is None or (mine == theirs).all(), where
    else:
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one == pytest.approx(other, rel=1e-12, nan_ok=True), where


def both(count, mode, **arguments):
    """Return the lock-step environment, and the one over single environments."""
    singles = [lambda: SchedulingEnv(**arguments) for _ in range(count)]
    return (
        LockstepVectorEnv(count, autoreset_mode=mode, **arguments),
        SyncVectorEnv(singles, autoreset_mode=mode),
    )


def chosen(rng, mask, masked):
    """Return an action for each replica: any, or one that places something wherever one does."""
    if not masked:
        return rng.integers(0, mask.shape[1], len(mask))
    return (rng.random(mask.shape) * mask * np.linspace(1.5, 1, mask.shape[1])).argmax(axis=1)


@pytest.mark.sampled
@pytest.mark.parametrize(("mode", "masked"), [("NextStep", False), ("SameStep", True)])
@pytest.mark.parametrize(
    "arguments",
    [
        {"scenario": "deeprm"},
        {"scenario": "deeprm", "observation": "deeprm-image", "max_decisions": 37},
        {"scenario": "deeprm", "observation": "slot-set", "reward": "completion-time"},
        {"scenario": CROWDED, "cost": ["rejected", "killed"], "max_decisions": 30},
        {"scenario": CROWDED, "observation": "slot-set", "cost": ["rejected"], "horizon": 70},
        {"scenario": EMPTY_AT_TIMES, "memory": 3, "backlog_shown": 1, "max_length": 20},
        {"scenario": "deeprm", "observation": "sofia-compact"},
        {"scenario": CROWDED, "observation": "sofia-shares"},
    ],
    ids=[
        "compact",
        "image, truncated",
        "slots",
        "crowded",
        "wide horizon",
        "few jobs",
        "columns",
        "shares",
    ],
)
def test_every_number_is_that_of_single_environments(arguments, mode, masked):
    fast, slow = both(3, mode, **arguments)
    assert fast.single_observation_space == slow.single_observation_space
    assert fast.observation_space == slow.observation_space
    assert fast.action_space == slow.action_space
    rng = np.random.default_rng(1)
    seen, infos = fast.reset(seed=1)
    there, wanted = slow.reset(seed=1)
    ends = 0
    for _ in range(400):
        assert seen.dtype == there.dtype
        assert (seen == there).all()
        assert_same(infos, wanted)
        actions = chosen(rng, infos["action_mask"], masked)
        seen, *now, infos = fast.step(actions)
        there, *then, wanted = slow.step(actions)
        for mine, theirs in zip(now, then, strict=True):
            assert mine.dtype == theirs.dtype
            assert mine == pytest.approx(theirs, rel=1e-12, abs=1e-12)
        ends += int(now[1].sum() + now[2].sum())
    assert ends > 6


def test_after_a_seed_replicas_go_on_as_single_environments_do():
    envs = LockstepVectorEnv(3, CROWDED | {"seed": 5})
    envs.reset()  # what was drawn before does not matter
    assert envs.reset(seed=5)[1]["seed"].tolist() == [5, 6, 7]
    later = envs.reset()[1]["seed"].tolist()
    single = SchedulingEnv(CROWDED)
    for replica in range(3):
        single.reset(seed=5 + replica)
        assert single.reset()[1]["seed"] == later[replica]


def test_a_seed_for_each_replica():
    envs = LockstepVectorEnv(2, CROWDED)
    assert envs.reset(seed=[9, 4])[1]["seed"].tolist() == [9, 4]
    with pytest.raises(ScenarioError, match="3 seeds for 2 replicas"):
        envs.reset(seed=[1, 2, 3])


def test_what_reset_and_step_refuse():
    envs = LockstepVectorEnv(2, EMPTY_AT_TIMES)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step([0, 0])
    with pytest.raises(NoJobsError, match="seed 0 draws no job"):
        envs.reset(seed=0)
    with pytest.raises(ScenarioError, match="'original_set' cannot be given"):
        envs.reset(seed=1, options={"original_set": 1})
    envs.reset(seed=1)
    with pytest.raises(PolicyError, match="actions range from 0 to 4"):
        envs.step([0, 4])


def uneven():
    """Return an environment whose replica 0 begins again with the next step, and 1 does not."""
    envs = LockstepVectorEnv(2, CROWDED, max_decisions=50)
    envs.reset(seed=3)
    while True:
        over = np.logical_or(*envs.step([3, 0])[2:4])
        if over.tolist() == [True, False]:
            return envs


@pytest.mark.parametrize(
    "refused",
    [
        [0, 99], [99, 99], [0, -1], [0, 2**63], 0, 3, [0], [0, 0, 0], [[0, 0]], [0.0, 0.0],
        [True, False], ["a", "b"], [[0], [0, 0]], [None, 0], None,
    ],
    ids=repr,
)  # fmt: skip
def test_refused_actions_change_nothing_where_an_episode_begins(refused):
    envs, untouched = uneven(), uneven()
    with pytest.raises(PolicyError, match="lock-step: actions"):
        envs.step(refused)
    rng = np.random.default_rng(0)
    for step in range(30):
        actions = rng.integers(0, 4, 2)
        *mine, infos = envs.step(actions)
        *theirs, wanted = untouched.step(actions)
        for one, other in zip(mine, theirs, strict=True):
            assert (one == other).all()
        assert_same(infos, wanted)
        assert ("seed" in infos) or step > 0


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"observation": "queue-set"}, "observation"),
        ({"reward": "utilisation"}, "reward"),
        ({"reward": {"slowdown": 1.0}}, "reward"),
        ({"reward_arguments": {"least_run_s": 2.0}}, "reward_arguments"),
        ({"records": True}, "records"),
        ({"autoreset_mode": "Disabled"}, "autoreset_mode"),
        ({"autoreset_mode": "same"}, "autoreset_mode"),
        ({"nonsense": None}, "nonsense"),
        ({"episode": {}}, "episode"),
        ({"observation_arguments": 0}, "observation_arguments"),
        ({"metrics": ""}, "metrics"),
        ({"metrics": "run"}, "metrics"),
        ({"render_mode": ""}, "render_mode"),
        ({"scenario": CROWDED | {"walltime": "kill"}}, "walltime"),
        ({"scenario": CROWDED | {"scheduling": {"step": "2s"}}}, "must be 1s"),
        ({"scenario": CROWDED, "slots": 2}, "slots"),
        ({"scenario": "quickstart"}, "observation"),
        *(({"num_envs": count}, "num_envs") for count in (0, -1, "2", True, 1.0)),
    ],
)
def test_what_the_lockstep_model_does_not_know(arguments, place):
    with pytest.raises(ScenarioError, match=place):
        LockstepVectorEnv(**{"num_envs": 1, **arguments})


@pytest.mark.parametrize("seed", [-1, "abc", "12", 1.0, True, [1, -1], [1, None], 2**63, {1: 2}])
def test_wrong_seeds_are_told(seed):
    envs = LockstepVectorEnv(2, CROWDED)
    with pytest.raises(ScenarioError, match="reset: seed is"):
        envs.reset(seed=seed)
    assert envs.reset(seed=0)[1]["seed"].tolist() == [0, 1]


# ---- gymnasium.make_vec ---------------------------------------------------------------------------


def test_make_vec_gives_the_fast_one():
    envs = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=4, cost=["rejected"])
    assert isinstance(envs, LockstepVectorEnv)
    assert envs.num_envs == 4
    assert envs.spec.id == "simkit/DeepRM-v0"


def test_every_argument_of_single_environments_is_listed_with_its_default():
    names = signature(SchedulingEnv).parameters
    own = signature(LockstepVectorEnv).parameters.keys()
    assert names.keys() == SHAPES | SINGLE.keys() | own - {"num_envs", "autoreset_mode", "shape"}
    assert {name: names[name].default for name in SINGLE} == SINGLE


def test_make_vec_gives_single_environments_where_there_is_no_fast_one():
    with pytest.warns(UserWarning, match="reward: is 'utilisation'"):
        envs = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=2, reward="utilisation")
    assert isinstance(envs, SyncVectorEnv)
    envs = gymnasium.make_vec("simkit/Scheduling-v0", num_envs=2)
    assert isinstance(envs, SyncVectorEnv)
