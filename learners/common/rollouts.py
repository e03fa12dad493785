"""Rollouts: what happened in N episodes that were played to their ends, one row a decision.

Episodes differ in length, so that rows are ragged: they stand one after another, in order of
decision, then episode. `Rollouts.grid` makes an array (T, N) of a column, with zeros after an
episode's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.common.distributions import log_probability, masked_log_softmax, sample
from simkit.learners.common.networks import ActorCritic, Network

__all__ = ["Games", "Rollouts", "minibatches", "roll_out"]


class Games(Protocol):
    """N episodes that are played together; A of them still go on."""

    @property
    def active(self) -> Ints:
        """(A,) numbers of the episodes that go on, ascending."""

    @property
    def steps(self) -> Ints:
        """(N,) steps of time that have passed in each."""

    def observe(self) -> npt.NDArray[Any]:
        """Return (A, K): what is seen, as the network reads it."""

    def mask(self) -> Bools:
        """Return (A, actions) which actions may be taken."""

    def step(self, actions: Ints, /) -> Floats:
        """Take (A,) actions; return (A,) rewards. `active` is shorter afterwards where some end."""


@dataclass(frozen=True)
class Rollouts:
    """D decisions in N episodes, the longest of T decisions."""

    seen: npt.NDArray[Any]
    """(D, K) observations."""
    allowed: Bools
    """(D, actions)"""
    actions: Ints
    """(D,) what was drawn."""
    log_probability: Numbers
    """(D,) of what was drawn."""
    value: Numbers
    """(D,) the critic's, in its own scale; 0 without a critic."""
    step: Ints
    """(D,) the step of time."""
    decision: Ints
    """(D,) the decision's number within its episode, from 0."""
    episode: Ints
    """(D,)"""
    rewards: Floats
    """(T, N), 0 after an episode's end."""

    def grid(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return (T, N) of a column (D,); 0 after an episode's end."""
        grid = np.zeros(self.rewards.shape, column.dtype)
        grid[self.decision, self.episode] = column
        return grid

    def batch(
        self, rows: Ints | slice, advantage: Floats, returns: Floats, device: str = "cpu"
    ) -> Batch:
        """Return B of the decisions to learn from.

        Args:
            rows: (B,) which of them.
            advantage: (B,) of these.
            returns: (B,) the critic's targets.
            device: of the tensors.
        """
        columns = [
            self.seen[rows], self.allowed[rows], self.actions[rows], self.log_probability[rows],
            advantage.astype(np.float32), returns.astype(np.float32),
        ]  # fmt: skip
        return Batch(*[torch.from_numpy(column).to(device) for column in columns])

    def rows(self, grid: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return (D,) of an array (T, N)."""
        rows: npt.NDArray[Any] = grid[self.decision, self.episode]
        return rows


def roll_out(
    games: Games,
    network: ActorCritic | Network,
    rng: np.random.Generator,
    device: str = "cpu",
    *,
    greedy: bool = False,
) -> Rollouts:
    """Play all episodes to their ends, with actions drawn from the policy, or its likeliest."""
    critic = isinstance(network, ActorCritic)
    count = len(games.steps)
    kept: list[dict[str, npt.NDArray[Any]]] = []
    rewards: list[Floats] = []
    with torch.inference_mode():
        while len(active := games.active) or not kept:  # without games: no rows of their widths
            seen, allowed = games.observe(), games.mask()
            said = network(torch.from_numpy(seen).to(device))
            logits, value = said if critic else (said, said.new_zeros(len(said)))
            chances = masked_log_softmax(logits, torch.from_numpy(allowed).to(device))
            actions = chances.argmax(dim=-1).cpu().numpy() if greedy else sample(chances, rng)
            drawn = log_probability(chances, torch.from_numpy(actions).to(device))
            kept.append({
                "seen": seen, "allowed": allowed, "actions": actions,
                "log_probability": drawn.cpu().numpy(), "value": value.cpu().numpy(),
                "step": games.steps[active], "episode": active,
                "decision": np.full(len(active), len(kept)),
            })  # fmt: skip
            if len(active):
                rewards.append(np.zeros(count))
                rewards[-1][active] = games.step(actions)
    columns = {name: np.concatenate([row[name] for row in kept]) for name in kept[0]}
    return Rollouts(**columns, rewards=np.array(rewards).reshape(-1, count))


@dataclass(frozen=True)
class Batch:
    """B decisions, as tensors."""

    seen: Tensor
    allowed: Tensor
    actions: Tensor
    log_probability: Tensor
    advantage: Tensor
    returns: Tensor

    def __getitem__(self, rows: Tensor | slice) -> Self:
        return type(self)(*[getattr(self, field.name)[rows] for field in fields(self)])

    def __len__(self) -> int:
        return len(self.actions)


Rows = TypeVar("Rows", bound=Batch)


def minibatches(batch: Rows, size: int, epochs: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Yield all of a batch in parts, in another order each epoch."""
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(batch)))
        for begin in range(0, len(order), size):
            yield batch[order[begin : begin + size]]
