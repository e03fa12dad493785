"""Stretches: T decisions in each of N games that have no end; arrays are (T, N, …)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.common.distributions import log_probability, masked_log_softmax, sample
from simkit.learners.common.games import EndlessGames
from simkit.learners.common.networks import ActorCritic
from simkit.learners.common.rollouts import Batch

__all__ = ["Stretch", "play_on"]


@dataclass(frozen=True)
class Stretch:
    """T decisions in each of N games."""

    seen: npt.NDArray[Any]
    allowed: Bools
    actions: Ints
    log_probability: Numbers
    values: Floats
    """(T + 1, N, V) the critic's V estimates at each decision, and after the last."""
    rewards: Floats
    costs: Floats
    passed: Ints
    """Time steps until the next decision."""
    cut: Bools
    """Whether another game begins after the decision; what would have followed is unknown."""

    def of(self, games: slice) -> Self:
        """Return the decisions of some of the games."""
        return type(self)(*[getattr(self, field.name)[:, games] for field in fields(self)])

    @property
    def reward(self) -> float:
        """Reward per time step."""
        return float(self.rewards.sum() / max(int(self.passed.sum()), 1))

    @property
    def cost(self) -> float:
        """Cost per time step."""
        return float(self.costs.sum() / max(int(self.passed.sum()), 1))

    def batch(self, advantage: Floats, returns: Floats, device: str = "cpu") -> Batch:
        """Return all decisions as a batch to learn from, decision by decision.

        Args:
            advantage: (T, N)
            returns: (T, N, V) targets of the critic.
            device: device of the tensors.
        """
        columns = (
            self.seen, self.allowed, self.actions, self.log_probability.astype(np.float32),
            advantage.astype(np.float32), returns.astype(np.float32),
        )  # fmt: skip
        rows = (column.reshape(self.actions.size, *column.shape[2:]) for column in columns)
        return Batch(*[torch.from_numpy(row.copy()).to(device) for row in rows])


@torch.no_grad()
def play_on(
    games: EndlessGames, network: ActorCritic, decisions: int, rng: np.random.Generator,
    device: str = "cpu", *, greedy: int = 0,
) -> Stretch:  # fmt: skip
    """Take some decisions in each game.

    Args:
        games: N.
        network: the policy with its critic.
        decisions: T.
        rng: draws actions.
        device: device of the network.
        greedy: the first games, so many, take the likeliest action instead.
    """

    def look() -> tuple[npt.NDArray[Any], Bools, torch.Tensor, torch.Tensor]:
        seen, allowed = games.observe(), games.mask()
        logits, values = network(torch.from_numpy(seen).to(device))
        log_probs = masked_log_softmax(logits, torch.from_numpy(allowed).to(device))
        return seen, allowed, log_probs, values

    rows: list[tuple[npt.NDArray[Any], ...]] = []
    for _ in range(decisions):
        seen, allowed, log_probs, values = look()
        actions = sample(log_probs, rng)
        actions[:greedy] = log_probs[:greedy].argmax(dim=-1).cpu().numpy()
        taken = log_probability(log_probs, torch.from_numpy(actions).to(device))
        rewards = games.step(actions)
        rows.append((
            seen, allowed, actions, taken.cpu().numpy(), values.cpu().numpy(), rewards, games.cost,
            games.passed, games.begun,
        ))  # fmt: skip
    *_, last = look()
    columns = [np.stack(column) for column in zip(*rows, strict=True)]
    columns[4] = np.concatenate((columns[4], last.cpu().numpy()[None]))
    return Stretch(*columns)
