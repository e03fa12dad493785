"""A PPO loop in one file, as CleanRL writes them, trains on a vector of environments as they are.

Sets of tasks, masks, windows of a log, and Gymnasium's NextStep: the step after an end is left out.
"""

from __future__ import annotations

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")

from gymnasium.vector import SyncVectorEnv  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributions import Categorical  # noqa: E402

from simkit.env import SchedulingEnv  # noqa: E402

pytestmark = pytest.mark.long

ENVS, STEPS, UPDATES, SLOTS = 4, 128, 6, 16  # 3,072 steps in all
CLIP, DISCOUNT, LAMBDA, EPOCHS, MINIBATCH = 0.2, 1.0, 0.97, 3, 256


def make():
    return SchedulingEnv(
        "quickstart", "queue-set", {"bounded-slowdown": 0.001}, slots=SLOTS,
        actions="next-head", episode={"jobs": 64},
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


def trained(seed):
    """Train; return the agent's weights, and the metrics of the episodes that ended."""
    torch.manual_seed(seed)
    envs = SyncVectorEnv([make for _ in range(ENVS)])
    agent = Agent(envs.single_observation_space.shape[1])
    optimiser = torch.optim.Adam(agent.parameters(), lr=3e-3)
    seen, infos = envs.reset(seed=seed)
    fresh, ended = np.zeros(ENVS, bool), []  # whose step only begins an episode
    for _ in range(UPDATES):
        rows, masks, actions, logs, values, rewards, overs, counts = [], [], [], [], [], [], [], []
        for _ in range(STEPS):
            row, mask = (
                torch.as_tensor(seen),
                torch.as_tensor(infos["action_mask"], dtype=torch.bool),
            )
            with torch.no_grad():
                chances, value = agent(row, mask)
                action = chances.sample()
            seen, reward, terminated, truncated, infos = envs.step(action.numpy())
            over = terminated | truncated
            for kept, item in zip(
                (rows, masks, actions, logs, values, rewards, overs, counts),
                (row, mask, action, chances.log_prob(action), value, torch.as_tensor(reward),
                 torch.as_tensor(over), torch.as_tensor(~fresh)),
                strict=True,
            ):  # fmt: skip
                kept.append(item)
            fresh = over
            if "metrics" in infos:
                ended += infos["metrics"]["slowdown"][infos["_metrics"]].tolist()
        with torch.no_grad():
            row, mask = (
                torch.as_tensor(seen),
                torch.as_tensor(infos["action_mask"], dtype=torch.bool),
            )
            following, carried = agent(row, mask)[1], torch.zeros(ENVS)
        advantages = []
        for t in reversed(range(STEPS)):
            goes_on = (~overs[t]).float()
            delta = rewards[t].float() + DISCOUNT * following * goes_on - values[t]
            carried = delta + DISCOUNT * LAMBDA * goes_on * carried
            following = values[t]
            advantages.insert(0, carried)
        flat = [
            torch.stack(each).flatten(0, 1)[torch.stack(counts).flatten()]
            for each in (rows, masks, actions, logs, advantages, values)
        ]
        row, mask, action, old, advantage, value = flat
        returns = advantage + value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(EPOCHS):
            for part in torch.randperm(len(row)).split(MINIBATCH):
                chances, estimate = agent(row[part], mask[part])
                ratio = (chances.log_prob(action[part]) - old[part]).exp()
                gain = torch.min(
                    ratio * advantage[part],
                    ratio.clamp(1 - CLIP, 1 + CLIP) * advantage[part],
                ).mean()
                loss = 0.5 * (estimate - returns[part]).pow(2).mean()
                optimiser.zero_grad()
                (loss - gain - 0.01 * chances.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimiser.step()
    envs.close()
    return torch.cat([p.detach().flatten() for p in agent.parameters()]).numpy(), ended


def test_it_trains_and_a_seed_gives_the_same_weights():
    weights, slowdowns = trained(seed=2)
    torch.manual_seed(2)
    untrained = torch.cat([p.detach().flatten() for p in Agent(12).parameters()]).numpy()
    assert np.isfinite(weights).all()
    assert np.abs(weights - untrained).max() > 1e-3
    assert len(slowdowns) > 20
    assert min(slowdowns) >= 1
    again, others = trained(seed=2)
    assert np.array_equal(weights, again)
    assert slowdowns == others
