"""Rollouts: N episodes played to their ends, or stretches of games that have none.

Episodes differ in length, so the rows are in one list, one for each decision, sorted by decision
number, then episode. `Rollouts.grid` turns a column into an array (T, N), with zeros after an
episode's end. A stretch is an array (T, N) of decisions as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.common.games import EndlessGames, Games, Rule, Source, results_of
from simkit.learners.networks import compact
from simkit.learners.networks.build import ActorCritic, Network, SetScorer
from simkit.learners.networks.distributions import log_probability, masked_log_softmax, sample
from simkit.machine_code import is_there

__all__ = [
    "Batch", "Rollouts", "Stretch", "judged", "minibatches", "play_on", "roll_out",
]  # fmt: skip

LARGE: Final = range(32, 257)
"""Sets of so many places are scored by `simkit.learners.networks.compact`."""


@dataclass(frozen=True)
class Rollouts:
    """D decisions in N episodes; the longest episode has T decisions."""

    seen: npt.NDArray[Any]
    """(D, K) observations."""
    allowed: Bools
    """(D, actions) which actions were allowed."""
    actions: Ints
    """(D,) actions taken."""
    log_probability: Numbers
    """(D,) log-probability of the action taken."""
    value: Numbers
    """(D,) the critic's estimate, in its own scale; 0 without a critic."""
    step: Ints
    """(D,) time step."""
    decision: Ints
    """(D,) number of the decision within its episode, from 0."""
    episode: Ints
    """(D,) number of the episode, from 0."""
    rewards: Floats
    """(T, N), 0 after an episode's end."""

    @property
    def mean_return(self) -> float:
        """The mean return of an episode."""
        return float(self.rewards.sum(axis=0).mean())

    @property
    def steps(self) -> Ints:
        """(T, N) the time step of each decision; 0 after an episode's end."""
        steps: Ints = self.grid(self.step)
        return steps

    @property
    def choices(self) -> Ints:
        """The rows of the decisions that left a choice."""
        return np.flatnonzero(self.allowed.sum(axis=1) > 1)

    def groups(self, source: Source[Any], slices: int) -> Ints:
        """Return (D,) the group of each decision's slice, of so many drawn ones."""
        episodes_each = self.rewards.shape[1] // slices
        groups: Ints = source.group_of(slices)[self.episode // episodes_each]
        return groups

    def grid(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column (D,) as an array (T, N); 0 after an episode's end."""
        grid = np.zeros(self.rewards.shape, column.dtype)
        grid[self.decision, self.episode] = column
        return grid

    def batch(
        self, rows: Ints | slice, advantage: Floats, returns: Floats, device: str = "cpu"
    ) -> Batch:
        """Return B of the decisions as a batch to learn from.

        Args:
            rows: (B,) rows of the decisions.
            advantage: (B,) advantages of these decisions.
            returns: (B,) targets of the critic.
            device: device of the tensors.
        """
        columns = [
            self.seen[rows], self.allowed[rows], self.actions[rows], self.log_probability[rows],
            advantage.astype(np.float32), returns.astype(np.float32),
        ]  # fmt: skip
        return Batch(*[torch.from_numpy(column).to(device) for column in columns])

    def rows(self, grid: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the entries of an array (T, N) as a column (D,)."""
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
    """Play all episodes to their ends, with actions drawn from the policy, or the likeliest."""
    count = len(games.steps)
    rounds: list[dict[str, npt.NDArray[Any]]] = []
    rewards: list[Floats] = []
    with torch.inference_mode():
        # without any active game there is still one round, which gives the columns their widths
        while len(active := games.active) or not rounds:
            seen, allowed, logits, log_probs, value = _look(games, network, device)
            if greedy:  # as an agent: the log-probabilities of almost equal logits may be equal
                masked = logits.masked_fill(log_probs.isinf(), -torch.inf)
                actions = masked.argmax(dim=-1).cpu().numpy()
            else:
                actions = sample(log_probs, rng)
            taken = log_probability(log_probs, torch.from_numpy(actions).to(device))
            rounds.append({
                "seen": seen, "allowed": allowed, "actions": actions,
                "log_probability": taken.cpu().numpy(), "value": value.cpu().numpy(),
                "step": games.steps[active], "episode": active,
                "decision": np.full(len(active), len(rounds)),
            })  # fmt: skip
            if len(active):
                rewards.append(np.zeros(count))
                rewards[-1][active] = games.step(actions)
    columns = {name: np.concatenate([one[name] for one in rounds]) for name in rounds[0]}
    return Rollouts(**columns, rewards=np.array(rewards).reshape(-1, count))


def judged(
    source: Source[Any], slices: Any, network: ActorCritic | Network,
    fresh: Callable[[], np.random.Generator], device: str = "cpu", *, drawn_too: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Return how an agent does on slices; see `results_of`.

    Actions are drawn as in training, or the likeliest are taken, as the source says.

    Args:
        source: where the slices come from.
        slices: held-out ones.
        network: the agent's.
        fresh: returns a generator that draws the same actions in every evaluation.
        device: device of the network.
        drawn_too: judge the likeliest actions, and with the suffix ``_drawn`` drawn ones.
    """
    scores: dict[str, float] = {}
    kinds = {"": True, "_drawn": False} if drawn_too else {"": source.greedy}
    for suffix, greedy in kinds.items():
        games = source.games(slices)
        rollouts = roll_out(games, network, fresh(), device, greedy=greedy)
        results = results_of(games, source.criterion, rollouts.mean_return)
        scores |= {f"{name}{suffix}": number for name, number in results.items()}
    return scores


@dataclass(frozen=True)
class Stretch:
    """T decisions in each of N games without an end; arrays are (T, N, …)."""

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
    games: EndlessGames, network: ActorCritic | Network, decisions: int,
    rng: np.random.Generator, device: str = "cpu", *, greedy: int = 0, rule: Rule | None = None,
) -> Stretch:  # fmt: skip
    """Take some decisions in each game.

    Args:
        games: N.
        network: the policy, with or without a critic.
        decisions: T.
        rng: draws actions.
        device: device of the network.
        greedy: the first games, so many, take the likeliest action instead.
        rule: chooses all actions instead; None: none.
    """
    rows: list[tuple[npt.NDArray[Any], ...]] = []
    for _ in range(decisions):
        seen, allowed, _, log_probs, values = _look(games, network, device)
        actions = sample(log_probs, rng) if rule is None else rule(games)
        actions[:greedy] = log_probs[:greedy].argmax(dim=-1).cpu().numpy()
        taken = log_probability(log_probs, torch.from_numpy(actions).to(device))
        rewards = games.step(actions)
        rows.append((
            seen, allowed, actions, taken.cpu().numpy(), values.cpu().numpy(), rewards, games.cost,
            games.passed, games.begun,
        ))  # fmt: skip
    *_, last = _look(games, network, device)
    columns = [np.stack(column) for column in zip(*rows, strict=True)]
    columns[4] = np.concatenate((columns[4], last.cpu().numpy()[None]))
    return Stretch(*columns)


def _look(
    games: Games | EndlessGames, network: ActorCritic | Network, device: str
) -> tuple[npt.NDArray[Any], Bools, Tensor, Tensor, Tensor]:
    """Return observations, masks, logits, log-probabilities and values, 0 without a critic."""
    seen, allowed = games.observe(), games.mask()
    actor = network.actor if isinstance(network, ActorCritic) else network
    if device == "cpu" and isinstance(actor, SetScorer) and actor.shape.items in LARGE and _fast():
        logits, summary = compact.with_summary(actor, seen, allowed)
    else:
        logits, summary = actor.with_summary(torch.from_numpy(seen).to(device))
    if isinstance(network, ActorCritic):
        values = network.values(summary)
    else:
        values = logits.new_zeros(len(logits))
    log_probs = masked_log_softmax(logits, torch.from_numpy(allowed).to(device))
    return seen, allowed, logits, log_probs, values


@cache
def _fast() -> bool:
    """Return whether numba is installed."""
    return is_there()


@dataclass(frozen=True)
class Batch:
    """B decisions as tensors; for the columns see `Rollouts`."""

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
    """Yield the parts of a batch, shuffled anew in each epoch."""
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(batch)))
        for begin in range(0, len(order), size):
            yield batch[order[begin : begin + size]]
