"""A PPO loop in one file, as CleanRL writes them, learns on a vector of environments as they are.

Sets of tasks, masks, windows of a log, and Gymnasium's NextStep: the step after an end is left out.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")

from gymnasium.vector import SyncVectorEnv  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributions import Categorical  # noqa: E402

from simkit.env import SchedulingEnv  # noqa: E402

pytestmark = pytest.mark.long

ENVS, STEPS, UPDATES, SLOTS = 4, 128, 12, 16  # 6,144 steps in all
CLIP, DISCOUNT, LAMBDA, EPOCHS, MINIBATCH = 0.2, 0.97, 0.97, 8, 256


BUSY = {
    "name": "busy",
    "workload": {"type": "bimodal", "jobs": 2000, "processors": 1, "offered_load": 1.3},
    "cluster": {"processors": 1},
}
"""Serial jobs, one in five of them long: the shortest first has a quarter of the slowdown of chance."""


def make(part="train"):
    return SchedulingEnv(
        BUSY, "queue-set", {"bounded-slowdown": 0.01}, slots=SLOTS,
        observation_arguments={"time_scale_s": 300.0}, actions="next-head", episode={"jobs": 64, "from": part},
    )  # fmt: skip


class Agent(nn.Module):
    """One scorer for all rows, and a value of their mean."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, 1))
        self.value = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, rows, mask):
        """Return the distribution of actions and the values: rows (batch, M, F), mask (batch, M + 1)."""
        scores = self.score(rows).squeeze(-1)  # (batch, M)
        logits = torch.cat([scores, torch.zeros(len(scores), 1)], dim=1)  # the void action is 0
        return Categorical(logits=logits.masked_fill(~mask, -1e9)), self.value(rows).mean(1)[:, 0]


def look(agent, seen, infos):
    """Return what was seen and allowed as tensors, the distribution of actions and the values."""
    row, mask = torch.as_tensor(seen), torch.as_tensor(infos["action_mask"], dtype=torch.bool)
    with torch.no_grad():
        return row, mask, *agent(row, mask)


def trained(seed):
    """Train; return the untrained and the trained agent, and slowdowns of the episodes that ended."""
    torch.manual_seed(seed)
    envs = SyncVectorEnv([make for _ in range(ENVS)])
    agent = Agent(envs.single_observation_space.shape[1])
    untrained, ended = copy.deepcopy(agent), []
    optimiser = torch.optim.Adam(agent.parameters(), lr=1e-2)
    seen, infos = envs.reset(seed=seed)
    fresh = np.zeros(ENVS, bool)  # whose step only begins an episode
    for _ in range(UPDATES):
        steps = []
        for _ in range(STEPS):
            row, mask, chances, value = look(agent, seen, infos)
            action = chances.sample()
            seen, reward, terminated, truncated, infos = envs.step(action.numpy())
            over = terminated | truncated
            steps.append((row, mask, action, chances.log_prob(action), value,
                          *map(torch.as_tensor, (reward, over, ~fresh))))  # fmt: skip
            fresh = over
            if "metrics" in infos:
                ended += infos["metrics"]["slowdown"][infos["_metrics"]].tolist()
        rows, masks, actions, logs, values, rewards, overs, counts = map(
            torch.stack, zip(*steps, strict=True)
        )
        following, carried, advantages = look(agent, seen, infos)[3], torch.zeros(ENVS), []
        for t in reversed(range(STEPS)):
            goes_on = (~overs[t]).float()
            delta = rewards[t].float() + DISCOUNT * following * goes_on - values[t]
            carried = delta + DISCOUNT * LAMBDA * goes_on * carried
            following = values[t]
            advantages.insert(0, carried)
        row, mask, action, old, advantage, value = (
            each.flatten(0, 1)[counts.flatten()]
            for each in (rows, masks, actions, logs, torch.stack(advantages), values)
        )
        returns = advantage + value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(EPOCHS):
            for part in torch.randperm(len(row)).split(MINIBATCH):
                chances, estimate = agent(row[part], mask[part])
                ratio = (chances.log_prob(action[part]) - old[part]).exp()
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                gain = torch.min(ratio * advantage[part], clipped * advantage[part]).mean()
                loss = 0.5 * (estimate - returns[part]).pow(2).mean()
                optimiser.zero_grad()
                (loss - gain - 0.01 * chances.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimiser.step()
    return untrained, agent, ended


def slowdown(agent, seeds=range(100, 110)):
    """Return the mean bounded slowdown of held-out windows; actions are drawn as in training."""
    torch.manual_seed(0)
    env, total = make("held_out"), 0.0
    for seed in seeds:
        (row, info), over = env.reset(seed=seed), False
        while not over:
            mask = torch.as_tensor(info["action_mask"], dtype=torch.bool)
            with torch.no_grad():
                chances, _ = agent(torch.as_tensor(row)[None], mask[None])
            row, reward, over, _, info = env.step(int(chances.sample()))
            total -= reward
    return total / 0.01 / 64 / len(seeds)


@pytest.mark.thorough
def test_it_learns():
    untrained, agent, slowdowns = trained(seed=2)
    assert len(slowdowns) > 20
    assert min(slowdowns) >= 1
    assert slowdown(agent) < 0.5 * slowdown(untrained)
