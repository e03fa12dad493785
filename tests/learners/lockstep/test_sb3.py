"""Learners of other libraries play many replicas: Stable-Baselines3, and a plain loop of PPO."""

from __future__ import annotations

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from gymnasium.vector import SyncVectorEnv  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402

import simkit.env  # noqa: E402
from simkit.errors import ScenarioError  # noqa: E402
from simkit.learners.lockstep.sb3 import MaskedVecEnv  # noqa: E402

pytestmark = pytest.mark.thorough


def make(count, **arguments):
    return gymnasium.make_vec(
        "simkit/DeepRM-v0", num_envs=count, autoreset_mode="SameStep", **arguments
    )


def test_the_mask_is_an_observation_and_a_method():
    envs = MaskedVecEnv(make(3))
    seen = envs.reset()
    assert envs.observation_space["action_mask"].n == 11
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert seen["observation"].shape == (3, 72)
        masks = np.stack(envs.env_method("action_masks"))
        assert (masks == seen["action_mask"]).all()
        seen, rewards, over, infos = envs.step(rng.integers(0, 11, 3))
        assert rewards.shape == over.shape == (3,)
        for replica in range(3):
            assert ("terminal_observation" in infos[replica]) == over[replica]
            if over[replica]:
                last = infos[replica]["terminal_observation"]
                assert last["action_mask"].tolist() == [0] * 10 + [1]
                assert infos[replica]["metrics"]["unfinished"] == 0
                assert not infos[replica]["TimeLimit.truncated"]


def test_a_truncated_episode_says_so():
    envs = MaskedVecEnv(make(2, max_decisions=5), mask_key=None)
    assert envs.reset().shape == (2, 72)
    for _ in range(5):
        _, _, over, infos = envs.step(np.full(2, 10))
    assert over.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [True, True]
    assert infos[0]["terminal_observation"].shape == (72,)


def test_seeds_are_those_of_the_replicas():
    envs = MaskedVecEnv(make(3))
    envs.seed(7)
    envs.reset()
    assert [info["seed"] for info in envs.reset_infos] == [7, 8, 9]


def test_single_environments_show_the_same():
    singles = [lambda: simkit.env.SchedulingEnv("deeprm") for _ in range(2)]
    fast, slow = (
        MaskedVecEnv(make(2)),
        MaskedVecEnv(SyncVectorEnv(singles, autoreset_mode="SameStep")),
    )
    for envs in (fast, slow):
        envs.seed(0)
    seen, there = fast.reset(), slow.reset()
    rng = np.random.default_rng(0)
    for _ in range(250):
        for key in seen:
            assert (seen[key] == there[key]).all()
        actions = rng.integers(0, 11, 2)
        seen, rewards, over, infos = fast.step(actions)
        there, *then, wanted = slow.step(actions)
        assert rewards == pytest.approx(then[0], rel=1e-6)
        assert (over == then[1]).all()
        assert [info.keys() for info in infos] == [info.keys() for info in wanted]


def test_another_autoreset_mode_is_refused():
    with pytest.raises(ScenarioError, match="SameStep"):
        MaskedVecEnv(gymnasium.make_vec("simkit/DeepRM-v0", num_envs=2))


@pytest.mark.parametrize("mask_key", ["action_mask", None])
def test_maskable_ppo_trains_for_a_few_thousand_steps(mask_key):
    maskable = pytest.importorskip("sb3_contrib").MaskablePPO
    policy = "MlpPolicy" if mask_key is None else "MultiInputPolicy"
    learner = maskable(
        policy, MaskedVecEnv(make(16), mask_key), n_steps=64, batch_size=256, seed=0, device="cpu"
    )
    learner.learn(3_000)
    assert learner.num_timesteps >= 3_000


def test_ppo_trains_for_a_few_thousand_steps_without_the_mask():
    learner = PPO("MlpPolicy", MaskedVecEnv(make(16), None), n_steps=64, batch_size=256, seed=0)
    learner.learn(2_000)
    assert learner.num_timesteps >= 2_000


def test_a_plain_loop_of_ppo_trains_for_a_few_thousand_steps_with_masks():
    """As CleanRL writes it: the vector environment, one network, advantages and clipped losses."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    envs = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=32)
    count, size = envs.single_action_space.n, envs.single_observation_space.shape[0]
    net = torch.nn.Sequential(
        torch.nn.Linear(size, 32), torch.nn.Tanh(), torch.nn.Linear(32, count + 1)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def evaluate(seen, mask):
        out = net(seen)
        logits = out[..., :count].masked_fill(~mask, -1e9)
        return torch.distributions.Categorical(logits=logits), out[..., count]

    seen, infos = envs.reset(seed=0)
    fresh = np.zeros(32, bool)  # whose last step ended an episode: NextStep ignores their action
    before = [parameter.detach().clone() for parameter in net.parameters()]
    for _ in range(3):
        kept = []
        for _ in range(40):
            now, mask = torch.tensor(seen), torch.tensor(infos["action_mask"]).bool()
            with torch.no_grad():
                chances, value = evaluate(now, mask)
                action = chances.sample()
            assert mask[torch.arange(32), action].all()
            valid = torch.tensor(~fresh)
            seen, rewards, terminated, truncated, infos = envs.step(action.numpy())
            fresh = terminated | truncated
            kept.append((now, mask, action, chances.log_prob(action), value,
                         torch.tensor(rewards / 10, dtype=torch.float32),
                         torch.tensor(~fresh).float(), valid))  # fmt: skip
        now, mask, action, old, value, reward, goes_on, valid = map(
            torch.stack, zip(*kept, strict=True)
        )
        with torch.no_grad():
            following = evaluate(torch.tensor(seen), torch.ones(32, count, dtype=torch.bool))[1]
            advantage, trace = torch.zeros_like(reward), torch.zeros(32)
            for t in reversed(range(len(kept))):
                after = following if t == len(kept) - 1 else value[t + 1]
                delta = reward[t] + 0.99 * after * goes_on[t] - value[t]
                trace = delta + 0.99 * 0.95 * goes_on[t] * trace
                advantage[t] = trace
            target = advantage + value
        for _ in range(2):
            chances, value_now = evaluate(now, mask)
            ratio = (chances.log_prob(action) - old).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            loss = (-gain + 0.5 * (value_now - target) ** 2 - 0.01 * chances.entropy())[
                valid
            ].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert torch.isfinite(loss)
    changed = zip(before, net.parameters(), strict=True)
    assert any((old != new).any() for old, new in changed)
